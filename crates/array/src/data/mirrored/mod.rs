//! RAID 1 and RAID 10: each byte on several members.

mod careful;
mod read;
mod scrub;
mod write;

use brindle_layout::{Extent, Mirrored};

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
        (0..map.copies()).filter_map(move |copy| {
            let extent = map.locate(offset, copy);
            let device = self.members.readable(extent.member, extent.offset + len)?;
            Some(Readable { copy, extent, device })
        })
    }
}
