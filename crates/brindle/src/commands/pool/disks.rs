//! Partition tables of whole disks that are members: they tell others that a disk is in use. The pool itself needs none.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use brindle_format::pool::LEFT_ALONE;
use brindle_format::table;

use crate::base::failure::Failure;
use crate::base::random::random_uuid;
use crate::devices::world::{Named, World, file_of};

/// Signs in sysfs of a block device that is no whole disk: it is a part of one, or made of others.
const PARTS: [&str; 3] = ["partition", "dm", "md"];

/// Whether a member is a whole disk.
pub(super) fn is_disk(member: &Named) -> bool {
    let Ok(found) = std::fs::metadata(file_of(Path::new(&member.label))) else { return false };
    let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    let own = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    found.file_type().is_block_device() && !PARTS.iter().any(|part| own.join(part).exists())
}

/// Writes the table of a disk.
///
/// # Errors
/// If the disk does not take it.
pub(super) fn write_table(world: &World, disk: &Named) -> Result<(), Failure> {
    let sector = u64::from(disk.info.logical_block);
    for (at, bytes) in table::table(disk.info.size, sector, random_uuid()?, random_uuid()?) {
        world.put(disk.id, &disk.label, at, &bytes)?;
    }
    Ok(())
}

/// Erases the table of a disk that is no member any more, if it is one of ours.
///
/// # Errors
/// If the disk does not take it.
pub(super) fn erase_table(world: &World, id: brindle_io::MemberId, label: &str) -> Result<(), Failure> {
    let Some(info) = world.io.member_info(id) else { return Ok(()) };
    let sector = u64::from(info.logical_block);
    let head = world.bytes_at(id, label, 0, LEFT_ALONE as usize)?;
    if !table::is_own(&head, sector) {
        return Ok(());
    }
    // Copies first: if the power goes in between, the disk has the whole table or none.
    for (at, bytes) in table::table(info.size, sector, random_uuid()?, random_uuid()?) {
        world.put(id, label, at, &vec![0; bytes.len()])?;
    }
    Ok(())
}
