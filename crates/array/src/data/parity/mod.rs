//! RAID 4, 5 and 6: rows of data chunks with parity.
//!
//! A row is locked while its parity and data don't agree, and while something is computed from both. A task takes all
//! the scratch memory that a step needs at once, and never waits for a lock while it holds some.

mod batch;
mod full;
mod mend;
mod plan;
mod read;
mod rebuild;
mod row_write;
mod scrub;
mod solve;
mod truth;
mod undo;
mod window;
mod write;
mod zero;

use brindle_layout::{ParityRows, Row};
use smallvec::SmallVec;

pub(crate) use batch::Batches;
pub(crate) use write::Writers;

use crate::array::Inner;
use crate::members::Device;

/// Columns are cut at multiples of this: no member has larger blocks.
const PAGE: u64 = 4096;

/// One block per term of a parity; an empty one stands for zeroes.
type Slots<'a> = SmallVec<[&'a [u8]; 32]>;

impl Inner {
    /// Bytes of scratch that one step may take: several steps can run side by side.
    fn budget(&self) -> u64 {
        self.scratch.capacity().min(64 << 20) as u64 / 8
    }

    /// The member of `role` if its bytes in row `row` can be trusted.
    ///
    /// Recovery advances by whole rows, so that a row is either rebuilt or not.
    #[inline]
    fn readable_in(&self, map: &ParityRows, row: u64, role: u16) -> Option<Device> {
        self.members.readable(role, map.row_offset(row + 1))
    }
}

/// The roles that hold the row's data, in its order.
fn data_roles(row: &Row) -> impl Iterator<Item = u16> + '_ {
    (0..row.data_members()).map(|index| row.data_member(index))
}

/// The roles that hold the row's parity: P, then Q if there is one.
fn parity_roles(row: &Row) -> impl Iterator<Item = u16> {
    core::iter::once(row.p()).chain(row.q())
}
