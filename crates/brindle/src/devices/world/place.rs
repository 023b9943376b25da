//! Where a name leads: to a device, or to a part of one. `DISK#3` is its third partition, `DISK@OFFSET` all from that byte on,
//! `DISK@FROM..TO` what lies between two. A path that exists as it is written is that.

use std::ops::Range;
use std::path::{Path, PathBuf};

use brindle_format::signature::partitions::{Listing, Partition, TableCopy, list};
use brindle_format::signature::{Found, Sample, Signature};
use brindle_io::device::{DeviceAccess, OpenDevice};

use super::emulate;
use super::notes::note;
use crate::base::failure::Failure;
use crate::base::look;
use crate::base::units::Bytes;

/// Bytes of a logical sector, of any disk.
const SECTORS: [u64; 2] = [512, 4096];

/// Partitions of a disk that are looked into, at most.
const MOST: usize = 128;

/// A part of a device, as it is named.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Number(u32),
    From(u64),
    Between(u64, u64),
}

/// Opens what is named.
pub(crate) fn open(name: &Path, access: DeviceAccess) -> Result<OpenDevice, Failure> {
    let Some((disk, part)) = split(name) else {
        return Ok(OpenDevice::open(emulate::file_of(name), access)?);
    };
    let whole = OpenDevice::open(disk, DeviceAccess::Examine)?;
    let bytes = match part {
        Part::From(start) => start..whole.info().size.max(start),
        Part::Between(start, end) => start..end,
        Part::Number(number) => {
            let all = partitions(&whole)?;
            let found = all.iter().find(|one| one.number == number);
            let found = found.ok_or_else(|| none(&disk.display().to_string(), number, &all))?;
            if found.lacks > 0 {
                note(format!(
                    "{}: it is cut: the table gives it {} bytes, of which the last {} are not there",
                    name.display(),
                    found.end - found.start + found.lacks,
                    found.lacks
                ));
            }
            found.start..found.end
        }
    };
    Ok(OpenDevice::open_part(disk, access, bytes)?)
}

/// There is no such partition.
pub(crate) fn none(disk: &str, number: u32, all: &[Partition]) -> Failure {
    let numbers: Vec<String> = all.iter().map(|one| one.number.to_string()).collect();
    let has = if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") };
    Failure::Refused(format!("{disk}: there is no partition {number} on it: it has {has}"))
}

/// The device and the part of it that a name stands for.
fn split(name: &Path) -> Option<(&Path, Part)> {
    let text = name.to_str()?;
    let at = text.rfind(['#', '@']).filter(|at| *at > 0)?;
    let (disk, part) = (&text[..at], &text[at + 1..]);
    let part = match text.as_bytes()[at] {
        b'#' if part.bytes().all(|byte| byte.is_ascii_digit()) => Part::Number(part.parse().ok()?),
        b'@' => match part.split_once("..") {
            Some((start, end)) => Part::Between(Bytes::parse(start).ok()?.0, Bytes::parse(end).ok()?.0),
            None => Part::From(Bytes::parse(part).ok()?.0),
        },
        _ => return None,
    };
    (!name.exists() && Path::new(disk).exists()).then_some((Path::new(disk), part))
}

/// The partitions of a device, in the order of their numbers. Tells of a table that is not as it should be.
pub(crate) fn partitions(device: &OpenDevice) -> Result<Vec<Partition>, Failure> {
    let info = device.info();
    let counted_in = |sector: u64| {
        let mut read = look::reader(device);
        of_bytes(info.size, sector, |offset, len| {
            // A place that can't be read shows no partition.
            Ok(read(offset, len).unwrap_or_else(|_| vec![0; len]))
        })
    };
    let own = u64::from(info.logical_block).clamp(SECTORS[0], SECTORS[1]);
    let mut all = counted_in(own)?;
    // A DOS table does not say how large its sectors are: those of another adapter may have been.
    if all.iter().all(|one| one.table == Signature::Mbr) && !holds_any(device, &all) {
        let other = SECTORS[usize::from(own == SECTORS[0])];
        let others = counted_in(other)?;
        if holds_any(device, &others) {
            all = others;
        }
    }
    tell_of_table(device, own, &all);
    Ok(all)
}

/// Something that is known stands in one of the partitions.
fn holds_any(device: &OpenDevice, all: &[Partition]) -> bool {
    all.iter().any(|one| {
        let mut read = look::reader(device);
        let inside =
            |offset: u64, len: usize| Ok(read(one.start + offset, len).unwrap_or_else(|_| vec![0; len]));
        look::look(one.end - one.start, inside).is_ok_and(|looked| !looked.found.is_empty())
    })
}

fn tell_of_table(device: &OpenDevice, sector: u64, all: &[Partition]) {
    let disk = device.path().display();
    match all.first().map(|one| one.copy) {
        Some(TableCopy::Backup) => note(format!(
            "{disk}: its partition table is damaged or gone: the backup of it at the end is used"
        )),
        Some(TableCopy::Damaged) => note(format!(
            "{disk}: its partition table is damaged, and so is the backup: partitions are taken as what is left of them tells"
        )),
        _ => {}
    }
    if let Some(one) = all.iter().find(|one| one.sector != sector) {
        note(format!(
            "{disk}: its partition table counts sectors of {} bytes, and the disk has such of {sector}: it is read as it counts",
            one.sector
        ));
    }
}

/// The partitions of something of `size` bytes.
pub(crate) fn of_bytes(
    size: u64,
    sector: u64,
    mut read: impl FnMut(u64, usize) -> Result<Vec<u8>, Failure>,
) -> Result<Vec<Partition>, Failure> {
    let mut pages: Vec<(u64, Vec<u8>)> = Vec::new();
    loop {
        let known: Vec<Sample<'_>> =
            pages.iter().map(|(offset, bytes)| Sample { offset: *offset, bytes }).collect();
        match list(size, sector, &known) {
            Listing::Unread { offset, len } => {
                let page = read(offset, len)?;
                pages.push((offset, page));
            }
            Listing::Partitions(mut all) => {
                all.truncate(MOST);
                return Ok(all);
            }
        }
    }
}

/// How a partition of a device is named.
pub(crate) fn named(disk: &Path, number: u32) -> PathBuf {
    PathBuf::from(format!("{}#{number}", disk.display()))
}

/// How the bytes of a device from one on to another are named.
pub(crate) fn between(disk: &Path, bytes: &Range<u64>) -> PathBuf {
    PathBuf::from(format!("{}@{}..{}", disk.display(), bytes.start, bytes.end))
}

/// Whether a name stands for a part of a device, or for a model that stands before one.
pub(crate) fn is_part(name: &Path) -> bool {
    split(name).is_some() || emulate::file_of(name) != name
}

/// The byte of its device at which a part begins that is named by its bytes.
pub(super) fn by_hand(name: &Path) -> Option<u64> {
    match split(name)?.1 {
        Part::From(start) | Part::Between(start, _) => Some(start),
        Part::Number(_) => None,
    }
}

/// Whether there is an md superblock on what is named.
pub(crate) fn is_member(name: &Path) -> bool {
    let Ok(device) = open(name, DeviceAccess::Examine) else { return false };
    superblock_in(name, &device, 0..device.info().size)
}

/// The names of those partitions of a device that have md superblocks.
pub(crate) fn members_inside(name: &Path, device: &OpenDevice) -> Result<Vec<PathBuf>, Failure> {
    if is_part(name) {
        return Ok(Vec::new());
    }
    let has_superblock = |one: &&Partition| -> bool { superblock_in(name, device, one.start..one.end) };
    Ok(partitions(device)?.iter().filter(has_superblock).map(|one| named(name, one.number)).collect())
}

/// The names of all partitions in a device's table.
pub(crate) fn inside(name: &Path) -> Result<Vec<PathBuf>, Failure> {
    if is_part(name) {
        return Ok(Vec::new());
    }
    let device = open(name, DeviceAccess::Examine)?;
    let info = device.info();
    let looked = look::look(info.size, look::reader(&device))?;
    // Bytes of a file system in the first sector may look like entries of a table.
    let is_table = |found: &Found| matches!(found.signature, Signature::Mbr | Signature::Gpt);
    if !looked.found.iter().any(is_table) {
        return Ok(Vec::new());
    }
    Ok(partitions(&device)?.iter().map(|one| named(name, one.number)).collect())
}

fn superblock_in(name: &Path, device: &OpenDevice, part: Range<u64>) -> bool {
    let mut info = device.info();
    info.size = part.end - part.start;
    let mut read = look::reader(device);
    let inside = |offset: u64, len: usize| read(part.start + offset, len);
    let label = name.display().to_string();
    look::candidate(&label, info, inside).is_ok_and(|candidate| !candidate.found.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_from_names() {
        let file = std::env::temp_dir().join(format!("brindle-place-{}", std::process::id()));
        let with = |end: &str| PathBuf::from(format!("{}{end}", file.display()));
        std::fs::write(&file, b"").unwrap();
        std::fs::write(with("#2"), b"").unwrap();
        assert_eq!(split(&with("#1")), Some((file.as_path(), Part::Number(1))));
        assert_eq!(split(&with("@1M")), Some((file.as_path(), Part::From(1 << 20))));
        assert_eq!(split(&with("@63s")), Some((file.as_path(), Part::From(63 * 512))));
        assert_eq!(split(&with("@4K..1M")), Some((file.as_path(), Part::Between(4096, 1 << 20))));
        for no in [
            "@1..",
            "@..1",
            "@1..x",
            "",
            "#",
            "#2",
            "#x",
            "#-1",
            "@",
            "@x",
            "@99999999999999999999",
            "#99999999999",
        ] {
            assert_eq!(split(&with(no)), None, "{no}");
        }
        for name in ["", "#1", "@1", "no such file#1"] {
            assert_eq!(split(Path::new(name)), None, "{name}");
        }
        std::fs::remove_file(with("#2")).unwrap();
        std::fs::remove_file(file).unwrap();
    }
}
