//! One row of a parity array: which member holds what.

use crate::ParityLayout;

/// The block that a member holds in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowRole {
    /// The data chunk with this index.
    Data(u16),
    /// The XOR of the data.
    P,
    /// The Reed-Solomon syndrome of the data.
    Q,
}

/// The roles of the members in one row of RAID 4, 5 or 6.
///
/// Data chunks are numbered 0.. in the order of their addresses. In all of md's layouts their members
/// follow each other but for one jump: over the parity, or from the last member of the rotation to the
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    p: u16,
    /// [`NONE`] where there is no Q.
    q: u16,
    /// Data chunks.
    data: u16,
    members: u16,
    /// Member of data chunk 0.
    start: u16,
    /// Members from this number on are shifted by `jump`: parity, or the end of the rotation, lies between.
    pivot: u16,
    /// Added (wrapping) to member numbers from `pivot` on.
    jump: u16,
    /// The member at which the terms of Q begin.
    first_slot: u16,
    /// P's distance from `first_slot`, behind which terms count one less; [`NONE`] where P counts as a term.
    p_rank: u16,
    /// Terms of Q.
    slots: u16,
}

/// No member, and larger than any.
const NONE: u16 = u16::MAX;

impl Row {
    /// Row `step` of the rotation of `layout`; `members` are already validated.
    ///
    /// Facts: `raid5_compute_sector`, `raid6_d0` and `raid6_idx_to_slot` in the kernel's
    /// `drivers/md/raid5.c`.
    pub(crate) fn new(layout: ParityLayout, has_q: bool, members: u16, step: u16) -> Row {
        use ParityLayout as L;
        // Where P rotates over all members; the `-6` layouts and RAID 5 leave Q out of the ring.
        let on_last = Self::q_stays_last(layout);
        let ring = if on_last { members - 1 } else { members };
        let width = if has_q && !on_last { 2 } else { 1 };
        let left = ring - 1 - step;
        let (p, order) = match layout {
            L::LeftAsymmetric | L::LeftAsymmetric6 => (left, Order::Restart),
            L::RightAsymmetric | L::RightAsymmetric6 | L::DdfZeroRestart => (step, Order::Restart),
            L::LeftSymmetric | L::LeftSymmetric6 => (left, Order::Continue(left + width)),
            L::RightSymmetric | L::RightSymmetric6 => (step, Order::Continue(step + width)),
            L::ParityFirst | L::ParityFirst6 => (0, Order::Restart),
            L::ParityLast => (ring - width, Order::Restart),
            // One step ahead of left-asymmetric: its first row is D D D P Q.
            L::DdfNRestart => ((ring - 1 + left) % ring, Order::Restart),
            // Q stands before P here, so data goes on right behind P.
            L::DdfNContinue => (left, Order::Continue(left + 1)),
        };
        let q = match layout {
            _ if !has_q => NONE,
            _ if on_last => members - 1,
            L::DdfNContinue => (p + members - 1) % members,
            _ => (p + 1) % members,
        };
        let data = members - if has_q { 2 } else { 1 };
        let (start, pivot, jump) = order.path(ring, p, width);
        let row = Row { p, q, data, members, start, pivot, jump, first_slot: 0, p_rank: NONE, slots: data };
        row.with_slots(layout)
    }

    /// How many rows it takes for a layout to repeat itself.
    pub(crate) fn period(layout: ParityLayout, members: u16) -> u16 {
        use ParityLayout as L;
        match layout {
            L::ParityFirst | L::ParityLast | L::ParityFirst6 => 1,
            _ if Self::q_stays_last(layout) => members - 1,
            _ => members,
        }
    }

    fn q_stays_last(layout: ParityLayout) -> bool {
        layout.md_number() >= ParityLayout::LeftAsymmetric6.md_number()
    }

    fn with_slots(mut self, layout: ParityLayout) -> Row {
        if layout.is_ddf() {
            self.slots = self.members;
            return self;
        }
        if self.q != NONE {
            self.first_slot = (self.q + 1) % self.members;
        }
        self.p_rank = self.distance(self.p);
        self
    }

    /// How far `member` is behind the first term of Q, in the order of members.
    #[inline]
    fn distance(&self, member: u16) -> u16 {
        if member >= self.first_slot {
            member - self.first_slot
        } else {
            member + self.members - self.first_slot
        }
    }

    /// The member that holds P.
    #[inline]
    #[must_use]
    pub fn p(&self) -> u16 {
        self.p
    }

    /// The member that holds Q; `None` in RAID 4 and 5.
    #[inline]
    #[must_use]
    pub fn q(&self) -> Option<u16> {
        (self.q != NONE).then_some(self.q)
    }

    /// Data chunks in the row.
    #[inline]
    #[must_use]
    pub fn data_members(&self) -> u16 {
        self.data
    }

    /// The member that holds data chunk `index` (below [`Row::data_members`]).
    #[inline]
    #[must_use]
    pub fn data_member(&self, index: u16) -> u16 {
        debug_assert!(index < self.data);
        let member = self.start + index;
        if member >= self.pivot { member.wrapping_add(self.jump) } else { member }
    }

    /// The exponent of the generator with which data chunk `index` enters Q.
    ///
    /// Not the index: md counts from the member behind Q, leaving out P; DDF layouts count members from 0,
    /// with P and Q as blocks of zeroes. In RAID 4 and 5, which have no Q, it counts members from 0,
    /// leaving out P.
    #[inline]
    #[must_use]
    pub fn data_slot(&self, index: u16) -> u16 {
        let distance = self.distance(self.data_member(index));
        distance - u16::from(self.p_rank < distance)
    }

    /// Terms of Q's sum: the data chunks, and in DDF layouts two holes.
    #[inline]
    #[must_use]
    pub fn slots(&self) -> u16 {
        self.slots
    }

    /// The block that `member` (below the array's members) holds.
    #[inline]
    #[must_use]
    pub fn role_of(&self, member: u16) -> RowRole {
        debug_assert!(member < self.members);
        if member == self.p {
            RowRole::P
        } else if member == self.q {
            RowRole::Q
        } else if member >= self.start && member < self.pivot {
            RowRole::Data(member - self.start)
        } else {
            RowRole::Data(member.wrapping_sub(self.jump).wrapping_sub(self.start))
        }
    }
}

/// In which order data follows parity.
enum Order {
    /// From the first free member.
    Restart,
    /// Data chunks continue from this member, cyclically.
    Continue(u16),
}

impl Order {
    /// `start`, `pivot` and `jump` of a row whose P is at `p`, with parity `width` members wide.
    fn path(self, ring: u16, p: u16, width: u16) -> (u16, u16, u16) {
        match self {
            Order::Continue(start) => (start % ring, ring, ring.wrapping_neg()),
            // Q D D D P: the pair is torn apart by the end of the ring.
            Order::Restart if p + width > ring => (1, NONE, 0),
            Order::Restart if p == 0 => (width, NONE, 0),
            Order::Restart => (0, p, width),
        }
    }
}
