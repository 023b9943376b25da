//! The fast path of operations that need no second device and no refusal: nearly all of them.
//!
//! They can't be refused at the door, need no second device, and no hook watches them. Their parameters are passed in
//! registers; [`MemberOps`](super::MemberOps) are put together and moved in memory, and the processor waits for each
//! piece.

use brindle_io::{Group, Outcome, Pending, Slice};

use super::{Asked, Done, Door, SlowPath, judge};
use crate::members::Device;
use crate::set::MemberSet;

/// Operations of the fast path, which are sent together and awaited as one. Offsets are bytes of the data area.
pub struct Alone<'a> {
    door: Door<'a>,
    group: Group,
    asked: Asked,
}

impl<'a> Door<'a> {
    /// Reads into this memory can't be refused here, nor have to be asked twice.
    #[inline(always)]
    pub fn reads_alone(self, into: &[Slice]) -> bool {
        !self.set.members.slow_reads() && !any_pinned(into)
    }

    /// As [`Door::reads_alone`], of one read.
    #[inline(always)]
    pub fn reads_one_alone(self, into: &Slice) -> bool {
        !self.set.members.slow_reads() && !into.is_pinned()
    }

    /// Writes can't be refused here, need not go to two devices, and no hook watches them.
    #[inline(always)]
    pub fn writes_alone(self) -> bool {
        !self.set.members.slow_writes() && !self.set.is_observed()
    }

    /// An empty set of operations of the fast path.
    #[inline(always)]
    pub fn alone(self) -> Alone<'a> {
        let asked = Asked { readers: 0, failures: self.set.members.failures() };
        Alone { door: self, group: self.set.io.group(), asked }
    }

    /// The outcome of operations that went alone.
    #[cold]
    pub fn done(self, asked: Asked, outcome: &Outcome) -> Done {
        judge(self, asked, SlowPath::default(), outcome)
    }
}

/// Apart, so that the requests' own code stays small.
#[inline(never)]
fn any_pinned(into: &[Slice]) -> bool {
    match into {
        [one] => one.is_pinned(),
        all => all.iter().any(Slice::is_pinned),
    }
}

impl Asked {
    /// All that went alone was carried out, and still counts.
    #[inline(always)]
    pub fn is_well(self, set: &MemberSet, outcome: &Outcome) -> bool {
        outcome.is_ok() && set.members.failures() == self.failures
    }
}

impl Alone<'_> {
    /// Fills `len` bytes of `into`, from its byte `start` on, from the member's bytes at `offset`.
    #[inline(always)]
    pub fn read(&mut self, member: Device, offset: u64, into: &Slice, start: usize, len: usize) {
        self.door.set.ration.sent(1);
        self.asked.readers |= Asked::bit(member.id);
        self.group.read_part(member.id, self.door.start(member) + offset, into, start, len);
    }

    /// Writes `len` bytes of `from`, from its byte `start` on, to the member at `offset`; with `fua`, to stable storage.
    #[inline(always)]
    pub fn write(&mut self, member: Device, offset: u64, from: &Slice, start: usize, len: usize, fua: bool) {
        self.group.write_part(member.id, self.door.start(member) + offset, from, start, len, fua);
    }

    /// Sends all operations; [`Asked::is_well`] and [`Door::done`] interpret the outcome.
    #[inline(always)]
    pub fn submit(self) -> (Pending, Asked) {
        (self.group.submit(), self.asked)
    }
}
