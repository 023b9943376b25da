//! RAID 1 and RAID 10: each byte on several members.

mod careful;
mod holes;
mod pace;
mod read;
mod scrub;
mod split;
mod write;

use brindle_layout::{Extent, Mirrored};

pub(crate) use pace::Paces;
pub(crate) use scrub::block;

use crate::array::Inner;
use crate::members::Device;

/// A copy that can answer: its number, where it is, and the member that has it.
#[derive(Clone, Copy)]
struct Readable {
    copy: u16,
    extent: Extent,
    device: Device,
}

impl Inner {
    /// The copies of `len` bytes at `offset` (within one extent) that can be read, in the order of their numbers.
    fn readable_copies<'a>(
        &'a self,
        map: &'a Mirrored,
        offset: u64,
        len: u64,
    ) -> impl Iterator<Item = Readable> + 'a {
        (0..map.copies()).filter_map(move |copy| self.readable_copy(map, offset, len, copy))
    }

    /// One of them by its number.
    #[inline]
    fn readable_copy(&self, map: &Mirrored, offset: u64, len: u64, copy: u16) -> Option<Readable> {
        let extent = map.locate(offset, copy);
        let device = self.members.readable(extent.member, extent.offset + len)?;
        Some(Readable { copy, extent, device })
    }

    /// All members are in sync and about as fast as each other: any copy may answer.
    #[inline]
    fn any_copy_answers(&self) -> bool {
        self.members.all_answer() && self.paces.are_even()
    }
}
