//! Facts about a device from the kernel: sizes, blocks, abilities, and other users.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, Stat, StatxFlags};
use rustix::io::Errno;

use crate::op::MemberInfo;

/// `STATX_DIOALIGN` of `linux/stat.h` (Linux 6.1), which the bindings name no flag for.
const STATX_DIOALIGN: u32 = 0x2000;

pub(super) fn gather(fd: &OwnedFd, stat: &Stat, block: bool) -> Result<MemberInfo, Errno> {
    let (size, logical, physical) = if block {
        let size = rustix::fs::seek(fd, SeekFrom::End(0))?;
        (size, rustix::fs::ioctl_blksszget(fd)?, rustix::fs::ioctl_blkpbszget(fd)?)
    } else {
        // File systems allocate, and page caches write, in blocks of 4096 bytes at least.
        (u64::try_from(stat.st_size).unwrap_or(0), direct_alignment(fd), 4096)
    };
    let logical = logical.max(512);
    let queue = queue_dir(if block { stat.st_rdev } else { stat.st_dev });
    let number = |name: &str| -> Option<u64> {
        std::fs::read_to_string(queue.as_ref()?.join(name)).ok()?.trim().parse().ok()
    };
    Ok(MemberInfo {
        size: size - size % u64::from(logical),
        logical_block: logical,
        physical_block: physical.max(logical),
        rotational: number("rotational") == Some(1),
        // For files the file system punches holes and marks ranges as zero; nearly all can.
        discard: !block || number("discard_max_bytes").is_some_and(|most| most > 0),
        write_zeroes: !block || number("write_zeroes_max_bytes").is_some_and(|most| most > 0),
    })
}

/// The multiple that offsets of direct transfers of a file must have: 512 unless the kernel says otherwise.
fn direct_alignment(fd: &OwnedFd) -> u32 {
    let wanted = StatxFlags::from_bits_retain(STATX_DIOALIGN);
    match rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, wanted) {
        Ok(statx) if statx.stx_mask & STATX_DIOALIGN != 0 && statx.stx_dio_offset_align > 0 => {
            statx.stx_dio_offset_align
        }
        _ => 512,
    }
}

/// File systems that have no device, by the magic numbers of `linux/magic.h`: tmpfs, ramfs.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// Whether a file's bytes are in memory and nowhere else.
#[allow(clippy::unnecessary_cast, reason = "the type of the number differs between C libraries")]
pub(super) fn is_in_memory(fd: &OwnedFd) -> bool {
    rustix::fs::fstatfs(fd).is_ok_and(|system| IN_MEMORY.contains(&(system.f_type as i64)))
}

/// The directory of a block device's queue limits; a partition's are its disk's.
fn queue_dir(device: u64) -> Option<PathBuf> {
    let dir = sys_dir(device);
    [dir.join("queue"), dir.join("../queue")].into_iter().find(|dir| dir.exists())
}

/// Whether a file system or another device stands on a block device. What is on its partitions does not count.
pub(super) fn is_taken(device: u64) -> bool {
    let is_held =
        std::fs::read_dir(sys_dir(device).join("holders")).is_ok_and(|mut all| all.next().is_some());
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    // The third word of each line is the device of a mount.
    let is_of = |line: &str| line.split_whitespace().nth(2) == Some(&number);
    is_held || std::fs::read_to_string("/proc/self/mountinfo").is_ok_and(|mounts| mounts.lines().any(is_of))
}

fn sys_dir(device: u64) -> PathBuf {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    PathBuf::from(format!("/sys/dev/block/{major}:{minor}"))
}

/// Whether a block device is set read-only.
pub(super) fn is_read_only(device: u64) -> bool {
    std::fs::read_to_string(sys_dir(device).join("ro")).is_ok_and(|text| text.trim() == "1")
}

/// The file that a loop device serves from its offset on, if its name is visible from here; and how long it must be.
pub(super) fn backing(device: u64, size: u64) -> Option<(OwnedFd, u64)> {
    let dir = sys_dir(device).join("loop");
    let path = std::fs::read_to_string(dir.join("backing_file")).ok()?;
    let offset: u64 = std::fs::read_to_string(dir.join("offset")).ok()?.trim().parse().ok()?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let file = rustix::fs::open(path.trim_end_matches('\n'), flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let needed = offset.checked_add(size)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let is_whole = u64::try_from(stat.st_size).is_ok_and(|size| size >= needed);
    (is_file && is_whole).then_some((file, needed))
}

/// The loop device that serves this file, if one does and its name is visible from here.
pub(super) fn loop_over(file: &Stat) -> Option<PathBuf> {
    let entries = std::fs::read_dir("/sys/block").ok()?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Ok(backing) = std::fs::read_to_string(entry.path().join("loop/backing_file")) else { continue };
        let same = std::fs::metadata(backing.trim_end_matches('\n'))
            .is_ok_and(|meta| meta.dev() == file.st_dev && meta.ino() == file.st_ino);
        if same {
            return Some(Path::new("/dev").join(name));
        }
    }
    None
}
