//! Alignment of the content of a volume: the stripe geometry that a file system was given, and the starts of
//! partitions.
//!
//! The places are those of the kernel's `fs/ext4/ext4.h` (`s_raid_stride`, `s_raid_stripe_width`), `fs/xfs/libxfs/xfs_format.h`
//! (`sb_unit`, `sb_width`), the UEFI specification (5.3) and the DOS partition table.

use crate::SECTOR;

/// Bytes from the start of a volume that suffice for all facts here.
pub const HEAD: usize = 64 << 10;

/// The most partitions that are reported.
const MOST: u32 = 128;

/// A file system that can be given a stripe geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ext2, ext3 or ext4.
    Ext,
    /// XFS.
    Xfs,
}

/// The stripe geometry that a file system was given when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Striping {
    /// The kind of file system.
    pub kind: Kind,
    /// Bytes of its blocks.
    pub block: u64,
    /// Bytes on one member before the next one continues; 0 if the file system was not given any.
    pub unit: u64,
    /// Bytes of data in a row of all members; 0 if the file system was not given any.
    pub width: u64,
}

/// A part of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its first byte.
    pub start: u64,
    /// Its bytes.
    pub size: u64,
}

/// The stripe geometry of the file system that begins with these bytes, if its kind can have one.
pub fn striping(head: &[u8]) -> Option<Striping> {
    ext(head).or_else(|| xfs(head))
}

fn ext(head: &[u8]) -> Option<Striping> {
    let field = |at: usize| le32(head, at.checked_add(1024)?);
    let magic = array::<2>(head, 1024_usize.checked_add(56)?)?;
    let log_block = field(24).filter(|log| *log <= 6)?;
    if magic != [0x53, 0xef] || field(4)? == 0 {
        return None;
    }
    let block = 1024_u64.checked_shl(log_block)?;
    let stride = u16::from_le_bytes(array(head, 1024_usize.checked_add(356)?)?);
    Some(Striping {
        kind: Kind::Ext,
        block,
        unit: block.saturating_mul(stride.into()),
        width: block.saturating_mul(field(368)?.into()),
    })
}

fn xfs(head: &[u8]) -> Option<Striping> {
    if array::<4>(head, 0)? != *b"XFSB" {
        return None;
    }
    let field = |at: usize| array(head, at).map(|bytes| u64::from(u32::from_be_bytes(bytes)));
    let block = field(4).filter(|block| (512..=65536).contains(block) && block.is_power_of_two())?;
    let bytes = |at: usize| Some(field(at)?.saturating_mul(block));
    Some(Striping { kind: Kind::Xfs, block, unit: bytes(184)?, width: bytes(188)? })
}

/// The partitions of a volume that begins with these bytes and has logical sectors of `sector` bytes: of a GUID
/// table, else of a DOS table's four first entries. Entries beyond the bytes are left out.
pub fn partitions(head: &[u8], sector: u64) -> Vec<Partition> {
    let found = [sector, SECTOR, 4096].into_iter().find_map(|sector| gpt(head, sector));
    found.or_else(|| dos(head)).unwrap_or_default()
}

fn gpt(head: &[u8], sector: u64) -> Option<Vec<Partition>> {
    let header = usize::try_from(sector).ok()?;
    if array::<8>(head, header)? != *b"EFI PART" {
        return None;
    }
    let table = le64(head, header.checked_add(72)?)?.checked_mul(sector)?;
    let (count, size) = (le32(head, header.checked_add(80)?)?, le32(head, header.checked_add(84)?)?);
    if size < 128 {
        return None;
    }
    let entry = |number: u32| {
        let at = table.checked_add(u64::from(number).checked_mul(size.into())?)?;
        let at = usize::try_from(at).ok()?;
        let used = array::<16>(head, at)? != [0; 16];
        let (first, last) = (le64(head, at.checked_add(32)?)?, le64(head, at.checked_add(40)?)?);
        let sectors = last.checked_sub(first)?.checked_add(1)?;
        used.then(|| {
            Some(Partition { start: first.checked_mul(sector)?, size: sectors.checked_mul(sector)? })
        })?
    };
    Some((0..count.min(MOST)).filter_map(entry).collect())
}

fn dos(head: &[u8]) -> Option<Vec<Partition>> {
    if array::<2>(head, 510)? != [0x55, 0xaa] {
        return None;
    }
    let entry = |bytes: &[u8]| {
        let (kind, start, count) = (*bytes.get(4)?, le32(bytes, 8)?, le32(bytes, 12)?);
        let known = matches!(bytes.first(), Some(0 | 0x80)) && kind != 0 && kind != 0xee && count > 0;
        known.then(|| Partition {
            start: u64::from(start).saturating_mul(SECTOR),
            size: u64::from(count).saturating_mul(SECTOR),
        })
    };
    Some(head.get(446..510)?.chunks_exact(16).filter_map(entry).collect())
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_le_bytes)
}

fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(head: &mut [u8], at: usize, bytes: &[u8]) {
        head[at..at + bytes.len()].copy_from_slice(bytes);
    }

    #[test]
    fn file_systems_tell_their_stripes() {
        let mut head = vec![0; HEAD];
        assert_eq!(striping(&head), None);
        put(&mut head, 0, b"XFSB\0\0\x10\0");
        put(&mut head, 184, &[0, 0, 0, 16, 0, 0, 0, 48]);
        assert_eq!(
            striping(&head),
            Some(Striping { kind: Kind::Xfs, block: 4096, unit: 65536, width: 196_608 })
        );
        let mut head = vec![0; HEAD];
        put(&mut head, 1024 + 4, &[9]);
        put(&mut head, 1024 + 24, &[2]);
        put(&mut head, 1024 + 56, &[0x53, 0xef]);
        put(&mut head, 1024 + 356, &[128, 0]);
        put(&mut head, 1024 + 368, &[0, 1, 0, 0]);
        let ext = Striping { kind: Kind::Ext, block: 4096, unit: 128 * 4096, width: 256 * 4096 };
        assert_eq!(striping(&head), Some(ext));
        assert_eq!(striping(&head[..1100]), None);
    }

    #[test]
    fn partitions_are_those_of_either_table() {
        let mut head = vec![0; HEAD];
        put(&mut head, 510, &[0x55, 0xaa]);
        put(&mut head, 446 + 16 + 4, &[0x83]);
        put(&mut head, 446 + 16 + 8, &[63, 0, 0, 0, 8]);
        assert_eq!(partitions(&head, 512), [Partition { start: 63 * 512, size: 8 * 512 }]);
        // A protective entry tells nothing; the table behind it does.
        put(&mut head, 446 + 16 + 4, &[0xee]);
        assert_eq!(partitions(&head, 512), []);
        put(&mut head, 4096, b"EFI PART");
        put(&mut head, 4096 + 72, &[2]);
        put(&mut head, 4096 + 80, &[4, 0, 0, 0, 128]);
        put(&mut head, 8192 + 128, &[7]);
        put(&mut head, 8192 + 128 + 32, &[0, 1]);
        put(&mut head, 8192 + 128 + 40, &[255, 1]);
        let one = Partition { start: 256 * 4096, size: 256 * 4096 };
        assert_eq!((partitions(&head, 4096), partitions(&head, 512)), (vec![one], vec![one]));
    }
}
