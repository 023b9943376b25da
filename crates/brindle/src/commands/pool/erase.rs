//! Erases what stands on devices before they become members of a pool.
//!
//! All that was found is erased, and copies of it first: a cut on the way leaves the old content by its first copy, or none of it.

use brindle_format::signature::{self, Copy, Sample};

use crate::base::failure::Failure;
use crate::base::look;
use crate::devices::world::{Named, World};

/// Bytes that are erased at a time: of the block that begins with or holds a magic number.
const BLOCK: u64 = 4096;
/// Bytes of a device.
type Bytes = Vec<u8>;

/// Erases all that was found on a device.
///
/// # Errors
/// If the device does not take it, or something is found still.
pub(super) fn erase(world: &World, member: &Named) -> Result<(), Failure> {
    let size = member.info.size;
    let read = |offset, len| world.read_at(member, offset, len);
    for (from, to) in ranges(size, read)? {
        world.zero(member, from, to)?;
    }
    let left = look::look(size, read)?.found;
    match left.first() {
        None => Ok(()),
        Some(left) => Err(Failure::Refused(format!(
            "{}: there is a {left} still, though it was erased: the device does not keep what is written, use another",
            member.label
        ))),
    }
}

/// The ranges to be erased, in this order.
fn ranges(
    size: u64,
    read: impl Fn(u64, usize) -> Result<Bytes, Failure>,
) -> Result<Vec<(u64, u64)>, Failure> {
    let places = signature::needed(size).into_iter();
    let known: Vec<(u64, Bytes)> =
        places.map(|(offset, len)| Ok((offset, read(offset, len)?))).collect::<Result<_, Failure>>()?;
    let samples: Vec<Sample<'_>> =
        known.iter().map(|(offset, bytes)| Sample { offset: *offset, bytes }).collect();
    let mut found = signature::detect(size, &samples);
    // Signatures at the end are second copies of one at the start, or the only ones.
    found.sort_by_key(|found| core::cmp::Reverse(found.offset));
    let copies = found.iter().flat_map(|found| signature::copies(found, size, &samples));
    // A place that can't be read holds nothing that could be found.
    let is_there = |copy: &Copy| {
        read(copy.offset + copy.magic_at, copy.magic.len()).is_ok_and(|bytes| bytes == copy.magic)
    };
    let mut copies: Vec<(u64, u64)> =
        copies.filter(is_there).map(|copy| (copy.offset, copy.offset + copy.len)).collect();
    // Backups lie behind what they are copies of.
    copies.sort_by_key(|(from, _)| core::cmp::Reverse(*from));
    let firsts = found.iter().map(|found| (found.offset, found.offset + 1));
    // Whole blocks, which are sectors of any device.
    let blocks = |(from, to): (u64, u64)| (from / BLOCK * BLOCK, to.next_multiple_of(BLOCK).min(size));
    Ok(copies.into_iter().chain(firsts).map(blocks).collect())
}

#[cfg(test)]
mod tests {
    use brindle_format::signature::partitions::{Listing, list};

    use super::*;

    #[test]
    fn a_cut_on_the_way_leaves_the_old_partitions_or_none() {
        const SIZE: u64 = 2 << 20;
        // Any table that is whole will do.
        let mut disk = vec![0; SIZE as usize];
        for (at, bytes) in brindle_format::table::table(SIZE, 512, uuid::Uuid::nil(), uuid::Uuid::max()) {
            disk[at as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
        let listed = |disk: &[u8]| match list(SIZE, 512, &[Sample { offset: 0, bytes: disk }]) {
            Listing::Partitions(partitions) => partitions.len(),
            Listing::Unread { .. } => panic!("all is known"),
        };
        let ranges = ranges(SIZE, |at, len| Ok(disk[at as usize..][..len].to_vec())).unwrap();
        let mut left = Vec::new();
        for &(from, to) in &ranges {
            left.push(listed(&disk));
            disk[from as usize..to as usize].fill(0);
        }
        left.push(listed(&disk));
        assert!(left[0] == 1 && left.is_sorted_by(|a, b| a >= b), "{left:?}");
        assert_eq!(ranges.first(), Some(&(SIZE - 4096, SIZE)), "its backup first");
        assert_eq!(left.last(), Some(&0));
    }
}
