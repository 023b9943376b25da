//! Where the slots of a stripe stand, whichever way places are numbered.

use brindle_format::pool::place::{Address, Shape};

use super::Space;

/// A slot of a stripe of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot {
    pub(crate) segment: u32,
    pub(crate) stripe: u32,
    pub(crate) slot: u8,
}

impl Space {
    /// The slot that an address is, and the shape of its segment.
    pub(crate) fn slot_of(&self, address: Address) -> Option<(Slot, Shape)> {
        let segment = address.segment();
        let shape = self.get(segment)?.record.shape();
        let (stripe, slot) = shape.slot(address.place())?;
        Some((Slot { segment, stripe, slot }, shape))
    }

    /// Where a slot stands: the member's number in the pool, and the byte of its data area.
    pub(crate) fn spot_of_slot(&self, at: Slot) -> Option<(u16, u64)> {
        let shape = self.get(at.segment)?.record.shape();
        self.spot(Address::new(at.segment, shape.place(at.stripe, at.slot)))
    }
}
