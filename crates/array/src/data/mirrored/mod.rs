//! RAID 1 and RAID 10: several members hold each byte.

mod holes;
mod pace;
mod place;
mod read;
mod read_errors;
mod recovery;
mod scrub;
mod split;
mod vote;
mod window;
mod write;
pub(crate) mod write_behind;

use core::cell::Cell;
use core::ops::Range;
use std::rc::Rc;

use brindle_layout::{Extent, Geometry, Level, Mirrored, Place};
use brindle_members::door::{Door, MemberOps, Moved};
use brindle_members::lock::{Hold, RangeGuard, RangeLock};
use brindle_members::members::{Device, RoleState};
use smallvec::SmallVec;

use pace::Paces;
pub(crate) use place::place;
pub(crate) use write::{spans, write_copies};
use write_behind::WriteBehind;

use crate::config::ReadPolicy;
use crate::core::Core;
use crate::data::allocation::Sources;

/// A copy that can answer: its number, where it is, and the member that has it.
#[derive(Clone, Copy)]
struct Readable {
    copy: u16,
    extent: Extent,
    device: Device,
}

/// An array that has each byte several times.
pub(crate) struct Mirror {
    core: Rc<Core>,
    geometry: Geometry,
    map: Mirrored,
    moved: Option<Moved>,
    /// Bytes of the array.
    locks: RangeLock,
    /// Work in flight by role: copies are chosen by it.
    load: Vec<Cell<u64>>,
    /// The work of a read: of each of its bytes, and of an operation.
    work: [u64; 2],
    /// Where each role's member was last sent to, where copies are chosen by that: the end of a read.
    sent_to: Vec<Cell<u64>>,
    /// How fast the members answer reads.
    paces: Paces,
    /// Writes to members that are write-mostly and lag.
    behind: Rc<WriteBehind>,
    /// Breaks ties between copies.
    turn: Cell<u16>,
}

impl Mirror {
    /// `map` is that of the geometry.
    pub(crate) fn new(core: &Rc<Core>, geometry: &Geometry, map: &Mirrored, moved: Option<Moved>) -> Self {
        let members = core.members.len();
        let mirror = Self {
            core: Rc::clone(core),
            geometry: geometry.clone(),
            map: map.clone(),
            moved,
            locks: RangeLock::new(&core.io),
            load: (0..members).map(|_| Cell::new(0)).collect(),
            // md counts operations.
            work: if core.config.read_policy == ReadPolicy::FewestPending {
                [0, 1]
            } else {
                [1, read::OPERATION]
            },
            sent_to: (0..members).map(|_| Cell::new(0)).collect(),
            paces: Paces::new(members, map.group()),
            behind: WriteBehind::new(&core.io),
            turn: Cell::new(0),
        };
        mirror.look_at_flags();
        mirror
    }

    /// Scratch bytes of an array that asks for `wanted` bytes, for mending and comparing: the widest step holds a
    /// block of each copy. Buffers are powers of two.
    pub(crate) fn scratch_bytes(map: &Mirrored, wanted: usize) -> usize {
        let step = (usize::from(map.copies()) * window::block(map) as usize).next_power_of_two();
        wanted.clamp(step.max(1 << 20), step.max(4 << 20))
    }

    /// Ranges of bytes of the array that requests hold.
    pub(crate) fn locks(&self) -> &RangeLock {
        &self.locks
    }

    /// All of the array is held, as by a write to all of it.
    pub(crate) async fn quiet(&self) -> RangeGuard<'_> {
        self.locks.acquire(0..self.geometry.size(), Hold::Exclusive).await
    }

    /// Takes a place in the queue for all bytes of the array that these parts of data areas hold. All are taken before any is
    /// waited for, so that no two wait for each other.
    pub(crate) fn enter_all(&self, parts: &[(u16, Range<u64>)]) -> Vec<RangeGuard<'_>> {
        let mut ranges: Vec<Range<u64>> =
            parts.iter().flat_map(|(role, range)| self.array_ranges(*role, range.clone())).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        // Chunks of a member stand apart by the chunks of the others: one lock for those that do.
        let near = self.geometry.chunk() * u64::from(self.geometry.members());
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.start <= last.end + near => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        joined.into_iter().map(|range| self.locks.enter(range, Hold::Exclusive)).collect()
    }

    /// The bytes of the array that a range of a role's data area holds, chunk by chunk.
    fn array_ranges(&self, role: u16, range: Range<u64>) -> Vec<Range<u64>> {
        let (mut ranges, mut at) = (Vec::new(), range.start);
        while at < range.end {
            let unit = match self.geometry.chunk() {
                // Each member holds the whole array.
                0 => range.end - at,
                chunk => chunk - at % chunk,
            };
            let len = unit.min(range.end - at);
            if let Place::Data { array_offset, .. } = self.geometry.place(role, at) {
                ranges.push(array_offset..(array_offset + len).min(self.geometry.size()));
            }
            at += len;
        }
        ranges
    }

    /// Another device has taken the role.
    pub(crate) fn forget_pace(&self, role: u16) {
        self.paces.forget(role);
        self.look_at_flags();
    }

    /// Flags of members have changed, or the bitmap has. As md does, RAID 1 reads those that are write-mostly only when no other can answer.
    pub(crate) fn look_at_flags(&self) {
        let members = &self.core.members;
        let honoured = self.geometry.level() == Level::Raid1;
        let mostly = |role| honoured && members.flags(role).write_mostly;
        (0..members.len()).for_each(|role| self.paces.set_write_mostly(role, mostly(role)));
        let some = (0..members.len()).any(mostly);
        let most = self.core.intent.bitmap().filter(|_| some).map_or(0, |bitmap| bitmap.write_behind());
        self.behind.set_most(most);
        self.paces.compare(|role| members.readable(role, 0).is_some());
    }

    #[inline]
    pub(crate) fn door(&self) -> Door<'_> {
        self.core.door(self.moved.as_ref())
    }

    #[inline]
    fn ask(&self) -> MemberOps<'_> {
        self.door().ask()
    }

    /// The copies of `len` bytes at `offset` (within one extent) that can be read, in the order of their numbers.
    fn readable_copies<'a>(&'a self, offset: u64, len: u64) -> impl Iterator<Item = Readable> + 'a {
        (0..self.map.copies()).filter_map(move |copy| self.readable_copy(offset, len, copy))
    }

    /// The copies of a range whose copies may differ, in the order in which they are believed. One that is being
    /// rebuilt can be read up to some place only: were it the first, a range that crosses that place would be
    /// answered by another copy than its parts.
    #[cold]
    fn copies_in_doubt(&self, offset: u64, len: u64) -> SmallVec<[Readable; 4]> {
        let mut copies: SmallVec<[Readable; 4]> = self.readable_copies(offset, len).collect();
        copies.sort_by_key(|copy| self.core.members.state(copy.extent.member) != RoleState::InSync);
        copies
    }

    /// A readable copy by its number.
    #[inline]
    fn readable_copy(&self, offset: u64, len: u64, copy: u16) -> Option<Readable> {
        let extent = self.map.locate(offset, copy);
        let device = self.core.members.readable(extent.member, extent.offset + len)?;
        Some(Readable { copy, extent, device })
    }

    /// Where a byte of the array may be read from, and how far that goes.
    pub(crate) fn sources(&self, at: u64) -> Sources {
        let copies = (0..self.map.copies()).map(|copy| self.map.locate(at, copy));
        let len = copies.clone().map(|extent| extent.len).min().unwrap_or(1);
        Sources { len, of: copies.map(|extent| (extent.member, extent.offset)).collect() }
    }

    /// All members are in sync, about as fast as each other, and none is write-mostly: any copy may answer.
    #[inline]
    fn any_copy_answers(&self) -> bool {
        self.core.members.all_answer() && self.paces.are_even()
    }
}
