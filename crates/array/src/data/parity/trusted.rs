//! Rows whose parity is not known to be in sync, and how they are read and written.
//!
//! After a crash, and until a first resync has come by, the blocks of a row may be of different moments: any of data, P
//! and Q may be older or newer than the others. Parity then says nothing about a block that is lost. What redundancy is
//! known to be in sync is kept by columns (ranges of the members' data areas): those below the resync's position, and beyond it
//! those that the resync or a write has brought in sync. In columns that are not known to be in sync:
//!
//! - Blocks that can be read are read, and a lost block is an error. Nothing else is sure not to give bytes that were
//!   never written. For RAID 6 with one data block lost that is so even where P and Q agree about it. They are a code
//!   of distance 3: with one block erased, one wrong block is always found, and two are not. Agreement says that the
//!   changes which the survivors lack, or have too much, cancel out in both equations. That rules out a torn write of
//!   one data block. But take a torn write of two blocks, i and j, that changes them by d and e. If P and the new i
//!   are on stable storage, and Q and j are not, P and Q agree about a wrong block wherever `e = g^(i-x) d`. That is
//!   one in 255 bytes that change in both.
//! - Parity is never modified. With all data there it is recomputed from all of it, and true from then on; also by a
//!   write that covers every lost block.
//! - A write that covers no lost block writes its data and leaves parity alone: a lost block stays unknown.
//! - A block that can't be read counts as lost, in its columns.
//! - A write that covers one of two lost blocks is refused: no parity could tell the written from the unknown.
//!
//! The columns that have been brought in sync are kept in memory, within bounds. They need not survive the run: a dirty
//! array that lacks a member is assembled by force only.
//!
//! By force, parity is taken as true where nothing is left to compare it with: in RAID 4 and 5, and in a RAID 6 that lacks two.
//! A RAID 6 that lacks one has P and Q, which need not agree about the block that is lost. That block is what P gives from then
//! on, for reads and for all that is computed from it. So each write to such columns makes P and Q of all data, and the resync
//! makes Q of what P gives. Until then no other block is worked out: it was not being written, maybe, and P and Q would
//! give bytes for it that were never there.

use core::ops::Range;

use brindle_volume::VolumeError;

use super::solve::{Trust, lost_data};
use super::window::{Blocks, RowWindow};
use super::{Parity, data_roles, parity_roles};

impl Parity {
    /// Whether parity is known to agree with the data in columns of a row.
    #[inline]
    pub(super) fn is_in_sync(&self, row: u64, cols: &Range<u64>) -> bool {
        let start = self.map.row_offset(row);
        self.core.keeper.is_in_sync(&(start + cols.start..start + cols.end))
    }

    /// The data that parity may stand for in columns of a row.
    #[inline]
    pub(super) fn trust(&self, row: u64, cols: &Range<u64>) -> Trust {
        if self.is_in_sync(row, cols) {
            return Trust::InSync;
        }
        self.presumed_in(row, cols).map_or(Trust::InDoubt, Trust::Presumed)
    }

    /// The role whose data P is presumed to give in columns of a row.
    #[inline]
    pub(super) fn presumed_in(&self, row: u64, cols: &Range<u64>) -> Option<u16> {
        let start = self.map.row_offset(row);
        self.core.keeper.presumed.role_in(&(start + cols.start..start + cols.end))
    }

    /// The role whose data in columns of a row are lost, as the only ones, while P is there and presumed to give them.
    pub(super) fn given_by_p(&self, row: u64, cols: &Range<u64>) -> Option<u16> {
        let role = self.presumed_in(row, cols)?;
        let roles = self.map.row(row);
        let there = |role: u16| self.readable_in(row, role).is_some();
        let is_lost = matches!(*lost_data(&roles, there).ok()?, [index] if roles.data_member(index) == role);
        (is_lost && there(roles.p())).then_some(role)
    }

    /// Puts parity that a log has in place of what was read from the member, in blocks of a row that begin at a column.
    #[inline]
    pub(super) fn put_logged(&self, row: u64, column: u64, blocks: &mut Blocks<'_>) {
        if let Some(logged) = self.core.keeper.ledger().logged_parity() {
            let p = usize::from(self.map.row(row).p());
            logged.put(self.map.row_offset(row) + column, &mut *blocks[p]);
        }
    }

    /// Where within columns of a row, which begin known to be in sync or not, that changes.
    pub(super) fn in_sync_run(&self, row: u64, cols: &Range<u64>) -> u64 {
        let start = self.map.row_offset(row);
        self.core.keeper.in_sync_run(&(start + cols.start..start + cols.end)).1 - start
    }

    /// Parity of a window was made from all its data and written, or found to agree. The caller holds the rows alone.
    #[inline]
    pub(super) fn note_window_in_sync(&self, window: &RowWindow, needed: bool) {
        self.core.keeper.note_in_sync(window.range(&self.map), needed);
    }

    /// Refuses to change a row of which more is lost than its parity can replace.
    pub(super) fn check_row(&self, row: u64) -> Result<(), VolumeError> {
        if self.core.members.all_in_sync() {
            return Ok(());
        }
        let roles = self.map.row(row);
        let lost = |role: &u16| self.readable_in(row, *role).is_none();
        let data = data_roles(&roles).filter(lost).count();
        let parity = parity_roles(&roles).filter(|role| !lost(role)).count();
        if data > parity { Err(VolumeError::TooManyLost) } else { Ok(()) }
    }

    /// Refuses success for a write to columns of a row if too many members were lost meanwhile, with data that only
    /// they were to hold.
    #[inline]
    pub(super) fn check_written(
        &self,
        row: u64,
        cols: &Range<u64>,
        written: impl Fn(u16) -> bool,
    ) -> Result<(), VolumeError> {
        if self.core.members.all_in_sync() {
            return Ok(());
        }
        self.check_row(row)?;
        let lost = |&(_, role): &(u16, u16)| self.readable_in(row, role).is_none();
        let in_parity =
            (0..).zip(data_roles(&self.map.row(row))).filter(lost).any(|(index, _)| written(index));
        let is_kept = || self.is_in_sync(row, cols) || self.given_by_p(row, cols).is_some();
        if in_parity && !is_kept() { Err(VolumeError::TooManyLost) } else { Ok(()) }
    }

    /// [`Parity::check_written`] of a window that was written whole, after noting that its parity is in sync.
    pub(super) fn settle_window(&self, window: &RowWindow) -> Result<(), VolumeError> {
        self.note_window_in_sync(window, !self.core.members.all_in_sync());
        window.rows.clone().try_for_each(|row| self.check_written(row, &window.cols, |_| true))
    }
}
