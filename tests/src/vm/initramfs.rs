//! The whole system of the machine: busybox, mdadm, modules, and a first program that runs the test's script.

use std::path::{Path, PathBuf};

use super::cpio::Archive;
use super::kernel::Kernel;
use super::modules;
use crate::tools::{self, Missing};

/// First program: brings up disks and md, runs the script, tells how it ended, powers off.
const INIT: &str = include_str!("init.sh");

/// What scripts may call.
const HELPERS: &str = include_str!("helpers.sh");

/// Builds all but the script.
///
/// # Errors
/// A program that goes into it is not installed.
pub(super) fn build(kernel: &Kernel) -> Result<Vec<u8>, Missing> {
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "etc", "lib", "modules", "proc", "run", "sys", "tmp"] {
        archive.folder(folder);
    }
    archive.file("init", INIT.as_bytes());
    archive.file("helpers.sh", HELPERS.as_bytes());
    let read = |path: &Path| std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let busybox = tools::find("busybox")?;
    if !needed_files(&busybox).is_empty() {
        return Err(Missing::new("busybox is not the static one; install busybox-static"));
    }
    archive.file("bin/busybox", &read(&busybox));
    let mdadm = tools::find("mdadm")?;
    archive.file("bin/mdadm", &read(&mdadm));
    let mut folders = Vec::new();
    for file in needed_files(&mdadm) {
        folders_of(&file, &mut folders, &mut archive);
        archive.file(&file.to_string_lossy(), &read(&file));
    }
    let mut order = String::new();
    for module in modules::in_order(&kernel.modules)? {
        order += &format!("{}\n", module.name);
        archive.file(&format!("modules/{}.ko", module.name), &module.content);
    }
    archive.file("modules/order", order.as_bytes());
    Ok(archive.finish())
}

/// Puts the script of one run behind what [`build`] made, and the number of disks to wait for.
pub(super) fn with_script(base: &[u8], script: &str, disks: usize) -> Vec<u8> {
    let mut archive = Archive::default();
    archive.file("disks", format!("{disks}\n").as_bytes());
    archive.file("script.sh", script.as_bytes());
    let mut bytes = base.to_vec();
    bytes.extend(archive.finish());
    bytes
}

/// Shared libraries and loader of a program, as the loader itself lists them; none for a static one.
fn needed_files(program: &Path) -> Vec<PathBuf> {
    let Ok(listed) = std::process::Command::new("ldd").arg(program).output() else { return Vec::new() };
    String::from_utf8_lossy(&listed.stdout)
        .split_whitespace()
        .filter(|word| word.starts_with('/') && !word.ends_with(':'))
        .map(PathBuf::from)
        .collect()
}

/// Adds those folders above `file` that were not added yet.
fn folders_of(file: &Path, known: &mut Vec<PathBuf>, archive: &mut Archive) {
    let mut above: Vec<&Path> = file.ancestors().skip(1).filter(|p| p.parent().is_some()).collect();
    above.reverse();
    for folder in above {
        if !known.iter().any(|k| k == folder) {
            known.push(folder.to_path_buf());
            archive.folder(&folder.to_string_lossy());
        }
    }
}
