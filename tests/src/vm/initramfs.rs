//! The whole system of the machine: busybox, mdadm, modules, and a first program that runs the test's script.

use std::path::{Path, PathBuf};

use super::cpio::Archive;
use super::modules;
use crate::tools::{self, Missing};

/// First program: brings up disks and md, runs the script, tells how it ended, powers off.
const INIT: &str = include_str!("init.sh");

/// Functions that scripts may call.
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
const FILE_SYSTEM_MODULES: [&str; 2] = ["ext4", "fuse"];

/// Modules of machines with drives that tell of their health.
const NVME_MODULES: [&str; 1] = ["nvme"];

/// Modules of machines with drives of memory.
const CELLS_MODULES: [&str; 2] = ["configfs", "null_blk"];

/// Modules of machines that are initiators: of iSCSI, and of disks that are reached by several ways.
const INITIATOR_MODULES: [&str; 3] = ["iscsi_tcp", "dm_multipath", "dm_round_robin"];

/// Programs of such machines beside those of open-iscsi.
const INITIATOR_PROGRAMS: [&str; 5] = ["fio", "mkfs.ext4", "fsck.ext4", "dmsetup", "perl"];

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
    // Containers of Intel's have their metadata written by it.
    add_program(&mut archive, "mdmon")?;
    add_modules(&mut archive, modules, &MODULES, "modules/order")?;
    Ok(archive.finish())
}

/// Additions for a machine with a network.
///
/// # Errors
/// `nbd-client` is not installed.
pub(super) fn network(modules: &Path) -> Result<Vec<u8>, Missing> {
    let mut archive = Archive::default();
    add_program(&mut archive, "nbd-client")?;
    add_modules(&mut archive, modules, &NETWORK_MODULES, "modules/order.network")?;
    Ok(archive.finish())
}

/// Additions for a machine with a file system.
///
/// # Errors
/// A module that can't be unpacked.
pub(super) fn file_system(modules: &Path) -> Result<Vec<u8>, Missing> {
    let mut archive = Archive::default();
    add_modules(&mut archive, modules, &FILE_SYSTEM_MODULES, "modules/order.file_system")?;
    Ok(archive.finish())
}

/// Additions for a machine with drives that tell of their health.
///
/// # Errors
/// `smartctl` is not installed.
pub(super) fn nvme(modules: &Path) -> Result<Vec<u8>, Missing> {
    let mut archive = Archive::default();
    add_program(&mut archive, "smartctl")?;
    add_modules(&mut archive, modules, &NVME_MODULES, "modules/order.nvme")?;
    Ok(archive.finish())
}

/// Additions for a machine that counts what md moves; `program` does.
///
/// # Errors
/// A module that can't be unpacked.
pub(super) fn cells(modules: &Path, program: &[u8]) -> Result<Vec<u8>, Missing> {
    let mut archive = Archive::default();
    archive.file("bin/cells", program);
    add_modules(&mut archive, modules, &CELLS_MODULES, "modules/order.cells")?;
    Ok(archive.finish())
}

/// A program of this machine with the libraries that it needs.
pub(super) fn program(name: &str, path: &Path) -> Vec<u8> {
    let mut archive = Archive::default();
    add_from(&mut archive, name, path, Path::new("/nowhere"));
    archive.finish()
}

/// Programs of another release with all libraries that were unpacked with them, which its own programs have from then on, too: the C
/// library takes programs that are older.
///
/// # Panics
/// If one is not there.
pub(super) fn others(unpacked: &Path, programs: &[&str]) -> Vec<u8> {
    const LIBRARIES: &str = "lib/x86_64-linux-gnu";
    const LOADER: &str = "ld-linux-x86-64.so.2";
    let mut archive = Archive::default();
    for program in programs {
        archive.file(&format!("bin/{program}"), &read(&unpacked.join("usr/sbin").join(program)));
    }
    ["lib64", "lib", LIBRARIES].into_iter().for_each(|folder| archive.folder(folder));
    let from = unpacked.join("usr").join(LIBRARIES);
    let entries = std::fs::read_dir(&from).unwrap_or_else(|e| panic!("{}: {e}", from.display()));
    for path in
        entries.map(|entry| entry.expect("a folder can be listed").path()).filter(|path| path.is_file())
    {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let place = if name == LOADER { "lib64" } else { LIBRARIES };
        archive.file(&format!("{place}/{name}"), &read(&path));
    }
    archive.finish()
}

/// Files that an initiator has beside; `unpacked` is where open-iscsi was unpacked.
///
/// # Errors
/// A program that goes into it is not there.
pub(super) fn initiator(modules: &Path, unpacked: &Path) -> Result<Vec<u8>, Missing> {
    let mut archive = Archive::default();
    for name in ["iscsid", "iscsiadm"] {
        let places = ["sbin", "usr/sbin"].map(|folder| unpacked.join(folder).join(name));
        let program = places.into_iter().find(|path| path.is_file());
        let program = program.ok_or_else(|| Missing::new(format!("the package open-iscsi has no {name}")))?;
        add_from(&mut archive, name, &program, unpacked);
    }
    for name in INITIATOR_PROGRAMS {
        add_program(&mut archive, name)?;
    }
    add_modules(&mut archive, modules, &INITIATOR_MODULES, "modules/order.initiator")?;
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
    add_from(archive, name, &program, Path::new("/nowhere"));
    Ok(())
}

/// Adds a program and the libraries that it needs: those of a package that was unpacked in this folder, else of this machine.
fn add_from(archive: &mut Archive, name: &str, program: &Path, unpacked: &Path) {
    archive.file(&format!("bin/{name}"), &read(program));
    let mut folders = Vec::new();
    for file in needed_by(program, unpacked) {
        let place = file.strip_prefix(unpacked).map_or(file.clone(), |inside| Path::new("/").join(inside));
        folders_of(&place, &mut folders, archive);
        archive.file(&place.to_string_lossy(), &read(&file));
    }
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
    needed_by(program, Path::new("/nowhere"))
}

/// The same, with libraries of a package that was unpacked in this folder.
fn needed_by(program: &Path, unpacked: &Path) -> Vec<PathBuf> {
    let mut ldd = std::process::Command::new("ldd");
    let listed = ldd.arg(program).env("LD_LIBRARY_PATH", unpacked.join("usr/lib/x86_64-linux-gnu")).output();
    let Ok(listed) = listed else { return Vec::new() };
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
