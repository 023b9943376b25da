//! Where a block lies: a function of its address and its segment's record alone.
//!
//! A segment has `width` members, each with `rows` blocks in its unit. Its spots are counted row by row: spot `i` is on the segment's
//! member `i % width`, in row `i / width`. Stripe `s` takes the spots `s * stripe` to `(s + 1) * stripe`, which are on different members
//! since a stripe is no wider than the segment. The last `parity` slots of a stripe are P, Q and R. Slot `j` of stripe `s` is its spot
//! `(j + turn) % stripe`. In a segment of whole rows `turn` grows by one with each `chunk` of them: so that many blocks of one slot lie
//! one behind the other on a member. It begins at the record's `turn`, so that each member has as much parity as any other though a
//! segment has few chunks. Of others stripes begin at the same members again after `cycle` of them; `turn` grows by one with
//! each such cycle, and with each stripe within it. So each member has as much parity as any other, however wide stripes are.
//!
//! Only data blocks have a place, which is what an address names. Places go down a slot for a chunk of stripes before the next slot has
//! its turn. Where stripes have one data block the place is the stripe: copies more or less change no address.

use super::error::{PoolError, impossible};

/// Bits of an address that name the place.
const PLACE_BITS: u32 = 20;
/// The most members of a vdev.
pub const MAX_WIDTH: u8 = 64;
/// The most parity blocks of a stripe.
pub const MAX_PARITY: u8 = 3;

/// The place of a block: a segment of the pool and a place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u64);

impl Address {
    /// No place: the block is lost.
    pub const NONE: Self = Self((1 << 48) - 1);

    /// A place of a segment.
    pub const fn new(segment: u32, place: u32) -> Self {
        Self(((segment as u64) << PLACE_BITS) | (place as u64 & ((1 << PLACE_BITS) - 1)))
    }

    /// The segment.
    pub const fn segment(self) -> u32 {
        (self.0 >> PLACE_BITS) as u32
    }

    /// The place within the segment.
    pub const fn place(self) -> u32 {
        (self.0 & ((1 << PLACE_BITS) - 1)) as u32
    }

    /// So many places behind it, if the segment can have that one.
    pub fn behind(self, places: u32) -> Option<Self> {
        let place = self.place().checked_add(places).filter(|place| *place < 1 << PLACE_BITS)?;
        Some(Self::new(self.segment(), place)).filter(|address| *address != Self::NONE)
    }
}

/// The part of a segment's record that decides where its blocks lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Members of the vdev that it lies on, a bit each.
    pub members: u64,
    /// Blocks of a unit.
    pub rows: u32,
    /// Places of a stripe.
    pub stripe: u8,
    /// Parity blocks of a stripe.
    pub parity: u8,
    /// Rows that go down one member before the next has its turn, a power of two; 0 of one row.
    pub chunk: u8,
    /// Slots by which the first stripe is shifted. Less than a stripe has, and 0 where stripes are no whole rows.
    pub turn: u8,
}

/// A block of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The member's number in its vdev.
    pub member: u8,
    /// The row: a block of the unit.
    pub row: u32,
}

#[allow(clippy::arithmetic_side_effects, reason = "bounded by `check`, which every shape has passed")]
impl Shape {
    /// A shape that can be.
    ///
    /// # Errors
    /// [`PoolError::Impossible`].
    pub fn check(self) -> Result<Self, PoolError> {
        let width = self.width();
        if width == 0 {
            return Err(impossible("segment", "members", self.members));
        }
        if self.stripe == 0 || self.stripe > width {
            return Err(impossible("segment", "stripe", self.stripe));
        }
        if self.parity >= self.stripe || self.parity > MAX_PARITY {
            return Err(impossible("segment", "parity", self.parity));
        }
        let spots = u64::from(self.rows) * u64::from(width);
        if self.rows == 0 || !self.rows.is_power_of_two() || spots > 1 << PLACE_BITS {
            return Err(impossible("segment", "unit", self.rows));
        }
        let in_rows = self.chunk == 0
            || self.stripe == width && self.chunk.is_power_of_two() && u32::from(self.chunk) <= self.rows;
        if !in_rows {
            return Err(impossible("segment", "chunk", self.chunk));
        }
        if self.turn != 0 && (self.stripe != width || self.turn >= self.stripe) {
            return Err(impossible("segment", "turn", self.turn));
        }
        Ok(self)
    }

    /// Members.
    pub const fn width(self) -> u8 {
        self.members.count_ones() as u8
    }

    /// Data blocks of a stripe.
    pub const fn data(self) -> u8 {
        self.stripe - self.parity
    }

    /// Stripes of the segment.
    pub fn stripes(self) -> u32 {
        self.rows * u32::from(self.width()) / u32::from(self.stripe)
    }

    /// Stripes of a chunk.
    pub fn high(self) -> u32 {
        u32::from(self.chunk).max(1)
    }

    /// Stripes after which they begin at the same member again.
    fn cycle(self) -> u32 {
        let (width, wide) = (u32::from(self.width()), u32::from(self.stripe));
        if width.is_multiple_of(wide) { width / wide } else { width / common(width, wide) }
    }

    /// Spots by which the slots of a stripe are shifted.
    fn shift(self, stripe: u32) -> u32 {
        let (cycle, stripe) = (self.cycle(), stripe / self.high());
        (stripe % cycle + stripe / cycle + u32::from(self.turn)) % u32::from(self.stripe)
    }

    /// The place of a data slot of a stripe.
    pub fn place(self, stripe: u32, slot: u8) -> u32 {
        let (high, data) = (self.high(), u32::from(self.data()));
        stripe / high * high * data + u32::from(slot) * high + stripe % high
    }

    /// The stripe and the slot of a place; `None` behind the last stripe.
    pub fn slot(self, place: u32) -> Option<(u32, u8)> {
        let (high, data) = (self.high(), u32::from(self.data()));
        let (chunk, at) = (place / (high * data), place % (high * data));
        let stripe = chunk * high + at % high;
        (stripe < self.stripes()).then_some((stripe, (at / high) as u8))
    }

    /// The place of the `n`th data block behind the beginning of a stripe, stripe by stripe.
    pub fn data_place(self, stripe: u32, n: u32) -> u32 {
        let data = u32::from(self.data());
        self.place(stripe + n / data, (n % data) as u8)
    }

    /// The number of a slot's spot, row by row.
    pub fn spot_number(self, stripe: u32, slot: u8) -> u32 {
        let wide = u32::from(self.stripe);
        stripe * wide + (u32::from(slot) + self.shift(stripe)) % wide
    }

    /// The stripe and the slot of a spot; `None` behind the last stripe.
    pub fn slot_of_spot(self, number: u32) -> Option<(u32, u8)> {
        let wide = u32::from(self.stripe);
        let (stripe, at) = (number / wide, number % wide);
        (stripe < self.stripes()).then(|| (stripe, ((at + wide - self.shift(stripe)) % wide) as u8))
    }

    /// The block of a member that a spot is.
    pub fn spot(self, number: u32) -> Spot {
        let width = u32::from(self.width());
        Spot { member: self.member(number % width), row: number / width }
    }

    /// The `n`th member of the segment.
    fn member(self, n: u32) -> u8 {
        let mut left = self.members;
        for _ in 0..n {
            left &= left.wrapping_sub(1);
        }
        left.trailing_zeros() as u8
    }
}

/// The greatest common divisor.
const fn common(mut a: u32, mut b: u32) -> u32 {
    while let Some(rest) = a.checked_rem(b) {
        (a, b) = (b, rest);
    }
    a
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    /// Whole rows by chunks and without, and short stripes, are all that exist.
    fn shapes() -> impl Iterator<Item = Shape> {
        (1..=18u8).chain([25, 27, 32]).flat_map(|width| {
            (0..width.min(4)).flat_map(move |parity| {
                let members = ((1 << width) - 1) << 3;
                let rows = [(width, 0, 0), (width, 4, 0), (width, 16, width - 1), (width, 16, width / 2)];
                let short = (width.min(parity + 2), 0, 0);
                let all = rows.into_iter().chain([short]);
                all.map(move |(stripe, chunk, turn)| Shape {
                    members,
                    rows: 256,
                    stripe,
                    parity,
                    chunk,
                    turn,
                })
            })
        })
    }

    #[test]
    fn slots_of_a_stripe_are_on_different_members_and_parity_goes_round() {
        for shape in shapes() {
            let (width, stripe, parity) = (shape.width(), shape.stripe, shape.parity);
            shape.check().unwrap();
            let (mut seen, mut parities) = (BTreeSet::new(), BTreeMap::new());
            for s in 0..shape.stripes() {
                let mut on = BTreeSet::new();
                for slot in 0..stripe {
                    let number = shape.spot_number(s, slot);
                    assert_eq!(shape.slot_of_spot(number), Some((s, slot)));
                    let spot = shape.spot(number);
                    assert!(spot.row < 256 && (3..3 + width).contains(&spot.member));
                    assert!(on.insert(spot.member) && seen.insert(number));
                    if slot >= stripe - parity {
                        *parities.entry(spot.member).or_insert(0) += 1;
                    }
                }
            }
            // Equal numbers on each member, up to the rest of a round of all members and turns.
            let counts = || (3..3 + width).map(|member| parities.get(&member).copied().unwrap_or(0));
            let (least, most) = (counts().min().unwrap(), counts().max().unwrap());
            let left = u32::from(stripe) * u32::from(parity).max(shape.high());
            let is_round = 256 / shape.high() >= width.into();
            assert!(parity == 0 || !is_round || least > 0 && most - least <= left, "{shape:?} {parities:?}");
        }
    }

    #[test]
    fn each_data_block_has_a_place_and_places_go_down_members_by_chunks() {
        for shape in shapes() {
            let mut seen = BTreeSet::new();
            for s in 0..shape.stripes() {
                for slot in 0..shape.data() {
                    let place = shape.place(s, slot);
                    assert_eq!(shape.slot(place), Some((s, slot)), "{shape:?}");
                    assert!(seen.insert(place));
                }
            }
            let all = shape.stripes() * u32::from(shape.data());
            // A segment of short stripes may leave some spots out, but no place.
            assert!(seen.into_iter().eq(0..all) && shape.slot(all).is_none(), "{shape:?}");
            for chunk in (0..all).step_by(shape.high() as usize) {
                let spot = |place| {
                    let (stripe, slot) = shape.slot(place).unwrap();
                    shape.spot(shape.spot_number(stripe, slot))
                };
                let first = spot(chunk);
                for n in 1..shape.high() {
                    assert_eq!(spot(chunk + n), Spot { row: first.row + n, ..first }, "{shape:?}");
                }
            }
        }
    }

    #[test]
    fn segments_of_one_chunk_have_parity_on_all_members_alike_by_their_turns() {
        let shape = Shape { members: 0b1111, rows: 16, stripe: 4, parity: 1, chunk: 16, turn: 0 };
        let parity = |turn| {
            let shape = Shape { turn, ..shape };
            shape.spot(shape.spot_number(0, 3)).member
        };
        assert_eq!([0, 1, 2, 3].map(parity), [3, 0, 1, 2]);
    }

    #[test]
    fn a_copy_more_changes_no_address_of_a_mirror() {
        for chunk in [0, 16] {
            let mirror = Shape { members: 0b11, rows: 256, stripe: 2, parity: 1, chunk, turn: 0 };
            let more = Shape { members: 0b1011, stripe: 3, parity: 2, ..mirror };
            let one = Shape { members: 0b10, stripe: 1, parity: 0, ..mirror };
            for stripe in 0..256 {
                assert_eq!([mirror, more, one].map(|shape| shape.place(stripe, 0)), [stripe; 3]);
            }
        }
    }

    #[test]
    fn shapes_that_can_not_be_are_refused() {
        let sound = Shape { members: 0b1111, rows: 16, stripe: 4, parity: 2, chunk: 16, turn: 3 };
        assert_eq!(sound.check(), Ok(sound));
        for wrong in [
            Shape { members: 0, ..sound },
            Shape { stripe: 5, ..sound },
            Shape { stripe: 0, ..sound },
            Shape { parity: 4, ..sound },
            Shape { rows: 0, ..sound },
            Shape { rows: 12, ..sound },
            Shape { rows: 1 << 19, ..sound },
            Shape { chunk: 32, ..sound },
            Shape { chunk: 3, ..sound },
            Shape { stripe: 3, ..sound },
            Shape { turn: 4, ..sound },
            Shape { stripe: 3, chunk: 0, turn: 1, ..sound },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
