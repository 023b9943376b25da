//! Processor time of a request: of this engine as `make bench` measured it, of md as others did.

use brindle_layout::{Geometry, Layout, Level};

use super::door::Door;
use super::kernel::Kernel;
use super::spec::{Policies, Spec};
use crate::drive::constants::{
    JOB_KIB, JOB_REQUEST, MD_BLOCK_READ, MD_BLOCK_WRITTEN, MD_JOB_COPY, MD_JOB_PIECE, MD_LOCKED_READ,
    MD_PIECE, MD_STRIPE,
};
use crate::run::OwnTime;

/// md works on parity in pieces of a page of each member.
const PAGE: u64 = 4096;

/// Nanoseconds of the kernel for an operation on a member (io_uring and the block layer). `docs/bench/iscsi.md`: a request by NBD for 4 KiB of
/// a file in memory takes 6.48 us, and one for those of a disk that keeps nothing 4.54 us.
const MEMBER: u64 = 1_940;
/// Nanoseconds of both processors more for a request that another reactor than home has, and home carries out. The least of the figures that
/// `docs/bench/cores.md` has; the others are up to 1,375.
const HANDED: u64 = 302;
/// Per cent by which the engine's own time is longer where several reactors share an array. Two of them do 1.76 to 2.15 times as many reads of
/// one's, 1.80 to 1.95 times as many writes: `docs/drive-models.md` has the table.
const SHARED: u64 = 6;
/// Reads of mirrors that are split over copies come in parts of at least so many bytes: `PART` of the engine's mirrors.
const SPLIT: u64 = 64 << 10;

/// Nanoseconds of a request that comes to another reactor than home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Elsewhere {
    /// The cost there, if its channel carries it out.
    pub(super) in_channel: u64,
    /// The cost there, and then at home, if home does.
    pub(super) handed: [u64; 2],
}

/// Nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// The cost of work that only one processor can do at a time.
    pub(super) shared: u64,
    /// The cost on one processor.
    pub(super) own: u64,
    /// The cost on one processor that overlaps with the members' work.
    pub(super) beside: u64,
    /// How long a read holds a lock that the parity thread needs.
    pub(super) held: u64,
    /// Of an array that several reactors share: what `own` is on another one than home. Else all processors are alike.
    pub(super) elsewhere: Option<Elsewhere>,
}

/// The processor time of requests to an array.
pub(super) struct Costs {
    policies: Policies,
    members: u64,
    chunk: u64,
    /// Reads are cut at multiples of this.
    read_chunk: u64,
    /// Copies beside each other, over which reads are split.
    near: u64,
    /// All copies.
    copies: u64,
    /// Bytes of data in a row.
    row: u64,
    parity: u64,
    /// The kernel's part of an operation on a member.
    member: u64,
    /// Several reactors share the array.
    is_shared: bool,
}

/// The time that each request takes of its job's own processor: that of a request to a drive, and md's share.
pub(super) fn of_jobs(spec: &Spec, costs: Option<&Costs>) -> OwnTime {
    if !spec.by_job || !matches!(spec.policies, Policies::LinuxMd(_)) {
        return OwnTime::NONE;
    }
    let alone = OwnTime { request: JOB_REQUEST, kib: JOB_KIB, ..OwnTime::NONE };
    costs.map_or(alone, |costs| OwnTime { piece: costs.of_job(), chunk: costs.chunk, ..alone })
}

impl Costs {
    /// md's share of a job's processor for each piece of a read, and of a write: RAID 0 hands on what it is given, mirrors make a request of
    /// their own for each copy that they ask. Requests to parity are taken to cost as much.
    fn of_job(&self) -> [u64; 2] {
        match (self.copies, self.parity) {
            (1, 0) => [MD_JOB_PIECE; 2],
            (copies, _) => [MD_JOB_COPY, MD_JOB_COPY * copies],
        }
    }

    pub(super) fn new(policies: Policies, geometry: &Geometry) -> Self {
        let members = u64::from(geometry.members());
        let level = geometry.level();
        let (near, far) = match (level, geometry.layout()) {
            (Level::Raid1, _) => (members, 1),
            (_, Layout::Raid10(layout)) => (u64::from(layout.near), u64::from(layout.far)),
            _ => (1, 1),
        };
        let copies = near * far;
        let parity = match level {
            Level::Raid4 | Level::Raid5 => 1,
            Level::Raid6 => 2,
            _ => 0,
        };
        // Requests are not cut where members hold all, nor where one follows the other.
        let whole = near == members || level == Level::Linear;
        let chunk = if whole { u64::MAX } else { geometry.chunk().max(PAGE) };
        let cut = match policies {
            Policies::LinuxMd(kernel) => kernel.cut(level, geometry.chunk()),
            _ => None,
        };
        let read_chunk = cut.map_or(chunk, |cut| cut.max(PAGE));
        let row = chunk.saturating_mul(members.saturating_sub(parity).max(1));
        let (member, is_shared) = (MEMBER, false);
        Self { policies, members, chunk, read_chunk, near, copies, row, parity, member, is_shared }
    }

    /// Of an array that so many reactors of this engine share.
    pub(super) fn shared_by(self, reactors: u32) -> Self {
        Self { is_shared: reactors > 1, ..self }
    }

    /// Of members that take no time: all that is left is the engine's own.
    pub(super) fn on_null_members(self) -> Self {
        Self { member: 0, ..self }
    }

    /// A request to this engine by a door: the engine's own time at home and in a channel, and operations on members.
    fn ours(&self, (door, len): (Door, u64), [home, channel]: [u64; 2], operations: u64) -> Cost {
        let (door, members) = (door.cost(len), self.member * operations);
        if !self.is_shared {
            return Cost { own: home + door + members, ..Cost::default() };
        }
        let [home, channel] = [home, channel].map(|engine| engine + engine * SHARED / 100);
        let handed = [door + HANDED / 2, home + members + HANDED / 2];
        let elsewhere = Elsewhere { in_channel: channel + door + members, handed };
        Cost { own: home + door + members, elsewhere: Some(elsewhere), ..Cost::default() }
    }

    pub(super) fn read(&self, offset: u64, len: u64) -> Cost {
        let pieces = pieces(self.read_chunk, offset, len);
        match self.policies {
            Policies::LinuxMd(kernel) if self.parity > 0 && kernel < Kernel::LOCKLESS_READS => {
                let shared = (MD_PIECE + MD_LOCKED_READ) * pieces;
                Cost { shared, held: shared, ..Cost::default() }
            }
            Policies::LinuxMd(_) => Cost { shared: MD_PIECE * pieces, ..Cost::default() },
            Policies::DrivesAlone => Cost::default(),
            Policies::Brindle(door) => {
                let (plain, mirrored) = ([90, 180], [30, 56]);
                // In a channel the copy goes by the place alone, as the member of a stripe does.
                let engine = [self.engine(pieces, plain, mirrored), plain[0] + mirrored[0] * pieces];
                // Large reads are split over copies.
                let parts = (len / SPLIT).clamp(1, self.near);
                let operations = pieces.max(parts).min(self.members);
                self.ours((door, len), engine, operations)
            }
        }
    }

    /// Operations on members of a write to parity: the changed members of each row, and those that are read for it, the old ones or the others,
    /// whichever are fewer. Whole rows that lie side by side are one operation of each member.
    fn parity_operations(&self, offset: u64, len: u64) -> u64 {
        let (mut at, end, mut all, mut whole) = (offset, offset + len, 0, 0);
        while at < end {
            let in_row = (self.row - at % self.row).min(end - at);
            let data = self.row / self.chunk;
            let touched =
                ((at % self.row + in_row - 1) / self.chunk - at % self.row / self.chunk + 1).min(data);
            if in_row == self.row {
                whole = data + self.parity;
            } else {
                let changed = touched + self.parity;
                all += changed + changed.min(data - touched.min(data));
            }
            at += in_row;
        }
        all + whole
    }

    pub(super) fn write(&self, offset: u64, len: u64) -> Cost {
        let pieces = pieces(self.chunk, offset, len);
        match (self.policies, self.parity) {
            (Policies::LinuxMd(_), 0) => Cost { shared: MD_PIECE * pieces * self.copies, ..Cost::default() },
            // The thread hands on what it has: members are at work once it has the first stripe.
            (Policies::LinuxMd(_), _) => {
                let Stripes { stripes, read, written } = self.stripes(offset, len);
                let all = MD_STRIPE * stripes + MD_BLOCK_READ * read + MD_BLOCK_WRITTEN * written;
                let own = all / stripes.max(1);
                Cost { shared: MD_PIECE * pieces, own, beside: all - own, ..Cost::default() }
            }
            (Policies::DrivesAlone, _) => Cost::default(),
            (Policies::Brindle(door), 0) => {
                let engine = self.engine(pieces, [100, 270], [30, 43]);
                let operations = (pieces * self.copies).min(self.members);
                self.ours((door, len), [engine; 2], operations)
            }
            // A request and its locks; then parity, whose blocks come from memory.
            (Policies::Brindle(door), _) => {
                let engine = 1000 + len * 50 / 1024;
                self.ours((door, len), [engine; 2], self.parity_operations(offset, len))
            }
        }
    }

    /// `docs/bench/engine.md`: of a request, and of each chunk that it touches; striped levels and mirrored ones.
    fn engine(&self, pieces: u64, request: [u64; 2], piece: [u64; 2]) -> u64 {
        let kind = usize::from(self.copies > 1);
        request[kind] + piece[kind] * pieces
    }

    /// Stripes of a page that a write touches. Of each, md reads what its new data and parity were, or what else is in the stripe, whichever is
    /// less.
    fn stripes(&self, offset: u64, len: u64) -> Stripes {
        let (mut at, end, mut all) = (offset, offset + len, Stripes::default());
        while at < end {
            let in_row = (self.row - at % self.row).min(end - at);
            let stripes = in_row.min(self.chunk).div_ceil(PAGE);
            let written = in_row.div_ceil(PAGE);
            let others = (self.row / self.chunk * stripes).saturating_sub(written);
            let changed = written + self.parity * stripes;
            all.stripes += stripes;
            all.read += changed.min(others);
            all.written += changed;
            at += in_row;
        }
        all
    }
}

/// Chunks that a request touches.
fn pieces(chunk: u64, offset: u64, len: u64) -> u64 {
    if len == 0 { 0 } else { (offset + len - 1) / chunk - offset / chunk + 1 }
}

/// The cost of a write to md's parity thread, counted: stripes of a page of each member, and blocks of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stripes {
    stripes: u64,
    read: u64,
    written: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn md_pays_for_pieces_copies_and_stripes() {
        let of = |kernel, level, members: usize| {
            let sizes = vec![1 << 30; members];
            let geometry =
                Geometry::new(level, Layout::default_for(level), 32 << 10, &sizes).expect("a geometry");
            Costs::new(kernel, &geometry)
        };
        let costs = |level, members| of(Policies::LinuxMd(Kernel::USUAL), level, members);
        let raid10 = costs(Level::Raid10, 4);
        let shared = |pieces| Cost { shared: pieces * MD_PIECE, ..Cost::default() };
        assert_eq!(raid10.read(4096, 64 << 10), shared(3));
        assert_eq!(raid10.write(0, 64 << 10), shared(4));
        // Two members hold all: each chunk is a piece of a read all the same, from Linux 6.12 on.
        let pair = costs(Level::Raid10, 2);
        assert_eq!((pair.read(16 << 10, 64 << 10), pair.write(16 << 10, 64 << 10)), (shared(3), shared(2)));
        assert_eq!(
            of(Policies::LinuxMd(Kernel::PUBLISHED), Level::Raid10, 2).read(16 << 10, 64 << 10),
            shared(1)
        );
        let raid6 = costs(Level::Raid6, 12);
        let stripe = |read, written| MD_STRIPE + MD_BLOCK_READ * read + MD_BLOCK_WRITTEN * written;
        assert_eq!(raid6.write(0, 4096), Cost { own: stripe(3, 3), ..shared(1) });
        assert!(stripe(3, 3).abs_diff(25_000) < 100, "39,908 a second");
        assert_eq!(raid6.read(0, 4096), shared(1));
        // Before Linux 5.14 reads take the lock that the parity thread needs.
        let older = of(Policies::LinuxMd(Kernel::PUBLISHED), Level::Raid6, 12).read(0, 4096);
        let locked = MD_PIECE + MD_LOCKED_READ;
        assert_eq!(older, Cost { shared: locked, held: locked, ..Cost::default() });
        // Two whole rows: eight pages of each member in both, nothing is read, and members begin with the first page.
        let (all, first) = (16 * stripe(0, 12), stripe(0, 12));
        assert_eq!(raid6.write(0, 640 << 10), Cost { own: first, beside: all - first, ..shared(20) });
        // Of three data members two others are as many as the old block and its parity.
        let raid5 = costs(Level::Raid5, 4);
        assert_eq!(raid5.write(0, 4096), Cost { own: stripe(2, 2), ..shared(1) });
    }

    #[test]
    fn a_core_pays_for_the_door_and_each_member_operation() {
        let geometry =
            Geometry::new(Level::Raid6, Layout::default_for(Level::Raid6), 32 << 10, &[1 << 30; 6]).unwrap();
        let by = |door| Costs::new(Policies::Brindle(door), &geometry);
        let ours = by(Door::Tcp);
        assert_eq!(ours.parity_operations(4096, 4096), 6, "three are read, three written");
        // Three of four: the fourth is read, and five are written.
        assert_eq!(ours.parity_operations(0, 96 << 10), 6);
        assert_eq!(ours.parity_operations(0, 512 << 10), 6, "whole rows, one after the other");
        for door in [Door::InProcess, Door::Unix, Door::Tcp, Door::Iscsi] {
            assert_eq!(by(door).write(4096, 4096).own, 1000 + 200 + door.cost(4096) + 6 * MEMBER);
            let read = by(Door::InProcess).read(0, 4096).own + door.cost(4096);
            assert_eq!(by(door).read(0, 4096).own, read);
        }
        assert_eq!(Costs::new(Policies::DrivesAlone, &geometry).write(0, 4096), Cost::default());
    }

    /// How many times as many requests two reactors do as one, both busy all the time.
    fn of_two(level: Level, members: usize, cost: impl Fn(Costs) -> Cost) -> f64 {
        let geometry =
            Geometry::new(level, Layout::default_for(level), 64 << 10, &vec![1 << 38; members]).unwrap();
        let on = |cores| {
            let costs = Costs::new(Policies::Brindle(Door::InProcess), &geometry);
            cost(costs.on_null_members().shared_by(cores))
        };
        let (one, two) = (on(1), on(2));
        let elsewhere = two.elsewhere.expect("it is shared");
        assert!(one.elsewhere.is_none() && elsewhere.handed[0] + elsewhere.handed[1] == two.own + HANDED);
        one.own as f64 / two.own as f64 + one.own as f64 / elsewhere.in_channel as f64
    }

    /// Measured in process, on null members, 4 KiB: medians where they were told, else the middle of what was seen.
    #[test]
    fn two_reactors_come_to_what_two_did() {
        let read = |costs: Costs| costs.read(0, 4096);
        let write = |costs: Costs| costs.write(0, 4096);
        for (what, predicted, measured) in [
            ("reads of RAID 0", of_two(Level::Raid0, 4, read), 1.885),
            ("reads of RAID 10", of_two(Level::Raid10, 4, read), 2.7),
            ("reads of RAID 5", of_two(Level::Raid5, 4, read), 1.865),
            ("reads of RAID 6", of_two(Level::Raid6, 6, read), 2.01),
            ("writes to RAID 0", of_two(Level::Raid0, 4, write), 1.875),
            ("writes to RAID 10", of_two(Level::Raid10, 4, write), 1.91),
            ("writes to RAID 5", of_two(Level::Raid5, 4, write), 1.85),
            ("writes to RAID 6", of_two(Level::Raid6, 6, write), 1.85),
        ] {
            let off = predicted / measured - 1.0;
            assert!(off.abs() < 0.1, "{what}: {predicted:.2} in place of {measured}, {:.1} %", off * 100.0);
        }
    }
}
