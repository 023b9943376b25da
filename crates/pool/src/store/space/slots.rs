//! Where the slots of a stripe stand, whichever way places are numbered.

use brindle_format::pool::BLOCK;
use brindle_format::pool::place::{Address, Shape, Spot};

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

    /// Where a block stands: the member's number in the pool, and the byte of its data area.
    pub(crate) fn spot(&self, address: Address) -> Option<(u16, u64)> {
        self.spot_of_slot(self.slot_of(address)?.0)
    }

    /// The same of a slot.
    pub(crate) fn spot_of_slot(&self, at: Slot) -> Option<(u16, u64)> {
        let shape = self.get(at.segment)?.record.shape();
        self.spot_by(at.segment, shape, shape.spot_number(at.stripe, at.slot))
    }

    /// The same of a spot of a segment, also of one behind the last stripe, by the shape that a batch was given there: the segment may have got
    /// another copy since.
    pub(crate) fn spot_by(&self, segment: u32, shape: Shape, number: u32) -> Option<(u16, u64)> {
        self.stands(segment, shape, number).map(|(stands, _)| stands)
    }

    /// Where a block can be read; nowhere if the member lacks what was written to its segment.
    pub(crate) fn source(&self, address: Address) -> Option<(u16, u64)> {
        self.source_of_slot(self.slot_of(address)?.0)
    }

    /// The same of a slot.
    pub(crate) fn source_of_slot(&self, at: Slot) -> Option<(u16, u64)> {
        let shape = self.get(at.segment)?.record.shape();
        self.source_of_number(at.segment, shape.spot_number(at.stripe, at.slot))
    }

    /// The same of a spot of a segment.
    pub(crate) fn source_of_number(&self, segment: u32, number: u32) -> Option<(u16, u64)> {
        let record = &self.get(segment)?.record;
        let (stands, spot) = self.stands(segment, record.shape(), number)?;
        (record.missing >> spot.member & 1 == 0).then_some(stands)
    }

    fn stands(&self, segment: u32, shape: Shape, number: u32) -> Option<((u16, u64), Spot)> {
        let (vdev, unit) = self.unit_of(segment)?;
        let of = self.units.get(vdev)?;
        let spot = shape.spot(number);
        let offset = (u64::from(unit) << of.vdev.unit) + u64::from(spot.row) * BLOCK as u64;
        Some(((*of.members.get(usize::from(spot.member))?, offset), spot))
    }
}
