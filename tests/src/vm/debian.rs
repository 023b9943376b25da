//! A whole Debian in the machine: systemd, udev and mdadm, on a file system that `scripts/make-guest` has made.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::cpio::Archive;
use crate::tools::{self, Missing};

/// The unit whose program is the test's script.
const UNIT: &str = include_str!("debian.service");
/// The program of that unit.
const RUN: &str = include_str!("debian.sh");

/// The file system that all guests have in common.
///
/// # Errors
/// It was not made.
fn root() -> Result<PathBuf, Missing> {
    let file = tools::cache_dir("guest").join("root.ext4");
    let missing = || Missing::new("target/guest/root.ext4 is missing; scripts/make-guest makes it, as root");
    if file.is_file() { Ok(file) } else { Err(missing()) }
}

/// A disk of a guest of its own: what it changes is written to `file`, which is there for its next boot.
///
/// # Errors
/// The common file system or `qemu-img` is missing.
///
/// # Panics
/// If the disk can't be made.
pub fn disk(file: &Path) -> Result<(), Missing> {
    let (root, img) = (root()?, tools::find("qemu-img")?);
    let made = Command::new(img)
        .args(["create", "-q", "-f", "qcow2", "-F", "raw", "-b"])
        .args([&root, file])
        .status()
        .expect("qemu-img starts");
    assert!(made.success(), "qemu-img: {made}");
    Ok(())
}

/// Files with which the first program hands the machine over to systemd, and files for the script.
pub(super) fn handover(payload: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut archive = Archive::default();
    archive.file("debian.service", UNIT.as_bytes());
    archive.file("debian.sh", RUN.as_bytes());
    archive.folder("payload");
    for (name, content) in payload {
        archive.file(&format!("payload/{name}"), content);
    }
    archive.finish()
}
