//! Where a block lies: a function of its address and its segment's record alone.
//!
//! A segment has `width` members, each with `rows` blocks in its unit. Its places are numbered row by row: place `i` is on the
//! segment's member `i % width`, in row `i / width`. Stripe `s` takes the places `s * stripe` to `(s + 1) * stripe`, which are on
//! different members since a stripe is no wider than the segment. The last `parity` slots of a stripe are P, Q and R. Slot `j` of
//! stripe `s` is in its place `(j + turn) % stripe`. Stripes begin at the same members again after `cycle` of them; `turn` grows by
//! one with each such cycle, and with each stripe within it, so that each member has as much parity as any other, however wide
//! stripes are.

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
        let places = u64::from(self.rows) * u64::from(width);
        if self.rows == 0 || !self.rows.is_power_of_two() || places > 1 << PLACE_BITS {
            return Err(impossible("segment", "unit", self.rows));
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

    /// Stripes after which they begin at the same member again.
    fn cycle(self) -> u32 {
        let (width, wide) = (u32::from(self.width()), u32::from(self.stripe));
        if width.is_multiple_of(wide) { width / wide } else { width / common(width, wide) }
    }

    /// Places by which the slots of a stripe are shifted.
    fn turn(self, stripe: u32) -> u32 {
        let cycle = self.cycle();
        (stripe % cycle + stripe / cycle) % u32::from(self.stripe)
    }

    /// The place of a slot of a stripe.
    pub fn place(self, stripe: u32, slot: u8) -> u32 {
        let wide = u32::from(self.stripe);
        stripe * wide + (u32::from(slot) + self.turn(stripe)) % wide
    }

    /// The stripe and the slot of a place; `None` behind the last stripe.
    pub fn slot(self, place: u32) -> Option<(u32, u8)> {
        let wide = u32::from(self.stripe);
        let (stripe, at) = (place / wide, place % wide);
        (stripe < self.stripes()).then(|| (stripe, ((at + wide - self.turn(stripe)) % wide) as u8))
    }

    /// The place of the `n`th data block behind the beginning of a stripe.
    pub fn data_place(self, stripe: u32, n: u32) -> u32 {
        let data = u32::from(self.data());
        self.place(stripe + n / data, (n % data) as u8)
    }

    /// The block of a member that a place is.
    pub fn spot(self, place: u32) -> Spot {
        let width = u32::from(self.width());
        Spot { member: self.member(place % width), row: place / width }
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
    use super::*;

    #[test]
    fn places_of_a_stripe_are_on_different_members_and_parity_goes_round() {
        for width in (1..=18u8).chain([25, 27, 32]) {
            for parity in 0..width.min(4) {
                // Whole rows and short stripes are all that exist.
                for stripe in [width, width.min(parity + 2)] {
                    let members = ((1 << width) - 1) << 3;
                    let shape = Shape { members, rows: 256, stripe, parity }.check().unwrap();
                    let mut seen = std::collections::BTreeSet::new();
                    let mut parities = std::collections::BTreeMap::new();
                    for s in 0..shape.stripes() {
                        let mut on = std::collections::BTreeSet::new();
                        for slot in 0..stripe {
                            let place = shape.place(s, slot);
                            assert_eq!(shape.slot(place), Some((s, slot)));
                            let spot = shape.spot(place);
                            assert!(spot.row < 256 && (3..3 + width).contains(&spot.member));
                            assert!(on.insert(spot.member) && seen.insert(place));
                            if slot >= stripe - parity {
                                *parities.entry(spot.member).or_insert(0) += 1;
                            }
                        }
                    }
                    // Equal numbers on each member, up to the rest of a round of all members and turns.
                    let counts = || (3..3 + width).map(|member| parities.get(&member).copied().unwrap_or(0));
                    let (least, most) = (counts().min().unwrap(), counts().max().unwrap());
                    let left = u32::from(stripe) * u32::from(parity);
                    assert!(parity == 0 || least > 0 && most - least <= left, "{shape:?} {parities:?}");
                }
            }
        }
    }

    #[test]
    fn shapes_that_can_not_be_are_refused() {
        let sound = Shape { members: 0b1111, rows: 16, stripe: 4, parity: 2 };
        assert_eq!(sound.check(), Ok(sound));
        for wrong in [
            Shape { members: 0, ..sound },
            Shape { stripe: 5, ..sound },
            Shape { stripe: 0, ..sound },
            Shape { parity: 4, ..sound },
            Shape { rows: 0, ..sound },
            Shape { rows: 12, ..sound },
            Shape { rows: 1 << 19, ..sound },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }
}
