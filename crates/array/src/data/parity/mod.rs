//! RAID 4, 5 and 6: rows of data chunks with parity.
//!
//! A row is locked while its parity and data don't agree, and while something is computed from both. A task takes all
//! the scratch memory that a step needs at once, and never waits for a lock while it holds some.

mod bad;
mod batch;
mod commit;
mod full;
mod load;
mod locate;
mod mend;
mod no_space;
mod pieces;
mod plan;
mod read;
mod recovery;
mod row_read;
mod row_write;
mod scrub;
mod solve;
mod streams;
mod trusted;
mod window;
mod write;
mod writers;
mod zero;

use core::ops::Range;
use std::rc::Rc;

use brindle_io::PAGE as IO_PAGE;
use brindle_io::sync::Semaphore;
use brindle_layout::{ParityRows, Row};
use brindle_members::door::{Door, MemberOps, Moved};
use brindle_members::lock::{Hold, RangeGuard, RangeLock};
use brindle_members::members::Device;
use brindle_parity::Kernel;
use smallvec::{SmallVec, smallvec};

use batch::Batches;
pub(crate) use read::place;
use streams::Streams;
use writers::Writers;

use crate::core::Core;
use crate::data::allocation::Sources;

/// Columns are cut at multiples of this: no member has larger blocks.
const PAGE: u64 = 4096;

/// Updates of rows under way at once for each that a member takes part in: members are not busier with more, while what is kept for each
/// leaves the caches. With 2048 in flight a 4K write of RAID 6 x6 takes 1.5 times the time of one of 32 with this, 2.1 with
/// twice as many, and 2.3 with four times; a request of RAID 0 takes 1.15.
const AT_A_MEMBER: usize = 64;

/// The same where disks rotate. They choose among what waits: of 24 TB ten in a hundred requests more with 512 than with 64.
const AT_A_DISK: usize = 512;

/// One block per term of a parity; an empty one stands for zeroes.
type Slots<'a> = SmallVec<[&'a [u8]; 32]>;

/// An array of rows of data with parity.
pub(crate) struct Parity {
    core: Rc<Core>,
    map: ParityRows,
    moved: Option<Moved>,
    kernel: &'static Kernel,
    /// Rows.
    locks: RangeLock,
    /// Writes to rows that can be joined.
    batches: Batches,
    /// Writes that follow each other.
    streams: Streams,
    /// Writes in progress.
    writers: Writers,
    /// Updates of parts of rows under way. A write has its row before it waits for a permit, so that writes with permits wait for no row.
    updates: Semaphore,
}

impl Parity {
    pub(crate) fn new(core: &Rc<Core>, map: &ParityRows, moved: Option<Moved>) -> Self {
        Self {
            core: Rc::clone(core),
            map: map.clone(),
            moved,
            kernel: brindle_parity::kernel(),
            locks: RangeLock::new(&core.io),
            batches: Batches::new(map.row_data_bytes()),
            streams: Streams::new(map.row_data_bytes()),
            writers: Writers::default(),
            updates: Semaphore::new(&core.io, updates(core, map)),
        }
    }

    /// Scratch bytes of an array that asks for `wanted` bytes: the widest step holds a page of each member and as
    /// much again. Buffers are powers of two.
    pub(crate) fn scratch_bytes(map: &ParityRows, wanted: usize) -> usize {
        let members = usize::from(map.data_members() + map.parity_members());
        let step = ((members + 4) * 2 * IO_PAGE).next_power_of_two();
        wanted.max(4 * step.max(256 << 10))
    }

    #[inline]
    pub(crate) fn door(&self) -> Door<'_> {
        self.core.door(self.moved.as_ref())
    }

    #[inline]
    fn ask(&self) -> MemberOps<'_> {
        self.door().ask()
    }

    /// Where a byte of the array is read from, as long as its member has it, and how far that goes.
    pub(crate) fn sources(&self, at: u64) -> Sources {
        let position = self.map.position(at);
        let role = self.map.row(position.row).data_member(position.data_index);
        let offset = self.map.row_offset(position.row) + position.column;
        Sources { len: self.map.chunk() - position.column, of: smallvec![(role, offset)] }
    }

    /// Blocks of a row, and so the roles that have some.
    #[inline]
    fn width(&self) -> u16 {
        self.map.data_members() + self.map.parity_members()
    }

    /// Bytes of scratch that one step may take: several steps can run side by side.
    fn budget(&self) -> u64 {
        self.core.scratch.capacity().min(64 << 20) as u64 / 8
    }

    /// Rows that requests hold.
    pub(crate) fn locks(&self) -> &RangeLock {
        &self.locks
    }

    /// Writes to a row that wait for the rest of it wait no longer.
    pub(crate) fn hurry(&self, row: u64) {
        drop(self.locks.enter(row..row + 1, Hold::Exclusive));
    }

    /// The rows of a range of bytes that is not empty.
    #[inline]
    pub(crate) fn rows(&self, range: &Range<u64>) -> Range<u64> {
        let row = self.map.row_data_bytes();
        range.start / row..(range.end - 1) / row + 1
    }

    /// All rows are held, as by a write to all of them.
    pub(crate) async fn quiet(&self) -> RangeGuard<'_> {
        self.locks.acquire(0..self.map.rows(), Hold::Exclusive).await
    }

    /// Takes a place in the queue for the rows that have these parts of data areas, from the lowest to the highest.
    pub(crate) fn enter_all(&self, parts: &[(u16, Range<u64>)]) -> Vec<RangeGuard<'_>> {
        let (chunk, rows) = (self.map.chunk(), self.map.rows());
        let first = parts.iter().map(|(_, range)| range.start / chunk).min();
        let end = parts.iter().map(|(_, range)| range.end.div_ceil(chunk).min(rows)).max();
        let range = first.zip(end).map(|(first, end)| first..end).filter(|range| !range.is_empty());
        range.map(|range| self.locks.enter(range, Hold::Exclusive)).into_iter().collect()
    }

    /// The member of `role` if its bytes in row `row` can be trusted.
    ///
    /// Recovery advances by whole rows, so that a row is either rebuilt or not.
    #[inline]
    fn readable_in(&self, row: u64, role: u16) -> Option<Device> {
        self.core.members.readable(role, self.map.row_offset(row + 1))
    }
}

/// Updates of parts of rows that run at once. Each takes part in a data member and those of the row's parity.
fn updates(core: &Core, map: &ParityRows) -> usize {
    let (data, parity) = (map.data_members(), map.parity_members());
    let device = |role| core.members.device(role).and_then(|device| core.io.member_info(device.id));
    let rotates = (0..data + parity).filter_map(device).any(|info| info.rotational);
    let each = if rotates { AT_A_DISK } else { AT_A_MEMBER };
    usize::from(data + parity) * each / usize::from(parity + 1)
}

/// The roles that hold the row's data, in its order.
fn data_roles(row: &Row) -> impl Iterator<Item = u16> + '_ {
    (0..row.data_members()).map(|index| row.data_member(index))
}

/// The roles that hold the row's parity: P, then Q if there is one.
fn parity_roles(row: &Row) -> impl Iterator<Item = u16> {
    core::iter::once(row.p()).chain(row.q())
}
