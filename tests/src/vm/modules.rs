//! Kernel modules in the order in which they must be loaded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::tools::{self, Missing};

/// A module ready to be put into the initramfs.
#[derive(Debug)]
pub(super) struct Module {
    /// Name with underscores.
    pub(super) name: String,
    /// Content, uncompressed.
    pub(super) content: Vec<u8>,
}

/// The wanted modules of the kernel whose modules lie under `dir`, each after those it depends on. A name of which the
/// kernel knows nothing is left out.
///
/// # Errors
/// A compressed module, and no program to unpack it.
///
/// # Panics
/// If a file cannot be read.
pub(super) fn in_order(dir: &Path, wanted: &[&str]) -> Result<Vec<Module>, Missing> {
    let mut files = BTreeMap::new();
    collect(dir, &mut files);
    let mut ordered = Vec::new();
    for name in wanted {
        add(name, &files, &mut ordered)?;
    }
    Ok(ordered)
}

fn collect(dir: &Path, files: &mut BTreeMap<String, PathBuf>) {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    for entry in entries {
        let path = entry.expect("a folder can be listed").path();
        if path.is_dir() {
            collect(&path, files);
        } else if let Some((name, _)) =
            path.file_name().and_then(|n| n.to_str()).and_then(|n| n.split_once(".ko"))
        {
            files.insert(name.replace('-', "_"), path);
        }
    }
}

/// Adds a module behind its dependencies; one that is not a file is part of the kernel or unknown to it.
fn add(name: &str, files: &BTreeMap<String, PathBuf>, ordered: &mut Vec<Module>) -> Result<(), Missing> {
    let Some(path) = files.get(name) else { return Ok(()) };
    if ordered.iter().any(|m| m.name == name) {
        return Ok(());
    }
    let content = read(path)?;
    for dependency in dependencies(&content) {
        add(&dependency, files, ordered)?;
    }
    ordered.push(Module { name: name.to_owned(), content });
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, Missing> {
    let unpacker = match path.extension().and_then(|e| e.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return Ok(std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))),
    };
    let mut command = std::process::Command::new(tools::find(unpacker)?);
    let output = command.arg("-dc").arg(path).output().expect("the unpacker starts");
    assert!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

/// Names after `depends=` in the section `.modinfo`, which holds strings that end with a zero byte.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"depends=";
    let Some(start) = module.windows(KEY.len()).position(|w| w == KEY) else { return Vec::new() };
    let list = module[start + KEY.len()..].split(|&b| b == 0).next().unwrap_or_default();
    String::from_utf8_lossy(list)
        .split(',')
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('-', "_"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_come_first_and_once() {
        let dir = tempfile::tempdir().expect("a folder");
        for (name, depends) in
            [("raid456", "md-mod,async_xor"), ("md-mod", ""), ("async_xor", "md-mod"), ("raid1", "md-mod")]
        {
            let content = format!("\x7fELF\0license=GPL\0depends={depends}\0name=x\0");
            std::fs::write(dir.path().join(format!("{name}.ko")), content).expect("a file");
        }
        let modules = in_order(dir.path(), &["raid0", "raid1", "raid456"]).expect("nothing is missing");
        let names: Vec<&str> = modules.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["md_mod", "raid1", "async_xor", "raid456"]);
    }
}
