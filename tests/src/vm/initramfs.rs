//! The whole system of the machine: busybox, mdadm, modules, and a first program that runs the test's script.

use std::path::{Path, PathBuf};

use super::cpio::Archive;
use super::modules;
use crate::tools::{self, Missing};

/// First program: brings up disks and md, runs the script, tells how it ended, powers off.
const INIT: &str = include_str!("init.sh");

/// What scripts may call.
const HELPERS: &str = include_str!("helpers.sh");

/// Modules of every machine: disks, files as disks, and every level of md. A name of which the kernel knows nothing is
/// left out; linear was away for a while and came back under another file name.
const MODULES: [&str; 12] = [
    "virtio_pci",
    "virtio_blk",
    "sd_mod",
    "virtio_scsi",
    "crc32c_generic",
    "loop",
    "linear",
    "md_linear",
    "raid0",
    "raid1",
    "raid10",
    "raid456",
];

/// Modules of machines with a network.
const NETWORK_MODULES: [&str; 2] = ["virtio_net", "nbd"];

/// Modules of machines that mount the file system of a disk.
const FILE_SYSTEM_MODULES: [&str; 1] = ["ext4"];

/// Builds all but the script, with the kernel's modules from folder `modules`.
///
/// # Errors
/// A program that goes into it is not installed.
pub(super) fn build(modules: &Path) -> Result<Vec<u8>, Missing> {
    let mut archive = Archive::default();
    for folder in ["bin", "dev", "etc", "lib", "modules", "proc", "run", "sys", "tmp"] {
        archive.folder(folder);
    }
    archive.file("init", INIT.as_bytes());
    archive.file("helpers.sh", HELPERS.as_bytes());
    let busybox = tools::find("busybox")?;
    if !needed_files(&busybox).is_empty() {
        return Err(Missing::new("busybox is not the static one; install busybox-static"));
    }
    archive.file("bin/busybox", &read(&busybox));
    add_program(&mut archive, "mdadm")?;
    add_modules(&mut archive, modules, &MODULES, "modules/order")?;
    Ok(archive.finish())
}

/// What a machine with a network has beside.
///
/// # Errors
/// `nbd-client` is not installed.
pub(super) fn network(modules: &Path) -> Result<Vec<u8>, Missing> {
    let mut archive = Archive::default();
    add_program(&mut archive, "nbd-client")?;
    add_modules(&mut archive, modules, &NETWORK_MODULES, "modules/order.network")?;
    Ok(archive.finish())
}

/// What a machine with a file system has beside.
///
/// # Errors
/// A module that can't be unpacked.
pub(super) fn file_system(modules: &Path) -> Result<Vec<u8>, Missing> {
    let mut archive = Archive::default();
    add_modules(&mut archive, modules, &FILE_SYSTEM_MODULES, "modules/order.file_system")?;
    Ok(archive.finish())
}

/// The script of one run, and the number of disks to wait for.
pub(super) fn script(script: &str, disks: usize) -> Vec<u8> {
    let mut archive = Archive::default();
    archive.file("disks", format!("{disks}\n").as_bytes());
    archive.file("script.sh", script.as_bytes());
    archive.finish()
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Adds a program of this machine and the libraries that it needs.
fn add_program(archive: &mut Archive, name: &str) -> Result<(), Missing> {
    let program = tools::find(name)?;
    archive.file(&format!("bin/{name}"), &read(&program));
    let mut folders = Vec::new();
    for file in needed_files(&program) {
        folders_of(&file, &mut folders, archive);
        archive.file(&file.to_string_lossy(), &read(&file));
    }
    Ok(())
}

/// Adds modules, and in `list` the order in which they are loaded.
fn add_modules(archive: &mut Archive, dir: &Path, wanted: &[&str], list: &str) -> Result<(), Missing> {
    let mut order = String::new();
    for module in modules::in_order(dir, wanted)? {
        order += &format!("{}\n", module.name);
        archive.file(&format!("modules/{}.ko", module.name), &module.content);
    }
    archive.file(list, order.as_bytes());
    Ok(())
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
