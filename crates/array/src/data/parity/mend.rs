//! Rebuilds unreadable blocks of a row in memory, and mends them on their members.

use core::ops::Range;

use brindle_io::OpError;
use brindle_layout::Row;
use brindle_volume::VolumeError;

use super::bad::Bad;
use super::load::LoadError;
use super::window::{Planes, RowWindow};
use super::{PAGE, Parity};
use crate::data::mend::ReadFailures;

/// Bytes of each member that are mended at a time, as md does; where too much of those is bad, block by block. Not more: what is
/// mended is written whole, and where redundancy is wrong beside a bad place, good bytes would go with it.
pub(super) const STEP: u64 = PAGE;

impl Parity {
    /// The block of `role` in a window of one row, with all the means there are: members that fail to give their bytes
    /// (or are `bad` already) are left out, and what they should have given is written over theirs. The caller holds
    /// the row alone, and [judges](crate::core::Core::judge) the members with errors afterwards.
    ///
    /// # Errors
    /// If too little is left: what a member said that could not read; one that can't be asked at all, if there is one.
    pub(super) async fn load_carefully(
        &self,
        window: &RowWindow,
        role: u16,
        bad: Bad,
        read_failures: &mut ReadFailures,
    ) -> Result<Planes, VolumeError> {
        let mut bad = bad;
        let result = loop {
            let wanted = |_: &Row, wanted: u16| wanted == role || bad.has(wanted);
            match self.load(window, 1, wanted, &bad).await {
                Ok(planes) => break Ok(planes),
                Err(LoadError::Volume(error)) => break Err(bad.worst().unwrap_or(error)),
                Err(LoadError::Members(outcome)) if bad.add_all(&outcome) => {}
                Err(LoadError::Members(_)) => break Err(bad.worst().unwrap_or(VolumeError::TooManyLost)),
            }
        };
        match &result {
            Ok(planes) => {
                let _left = self.mend(window, planes, &bad, read_failures).await;
                if planes.are_pinned() {
                    return Err(VolumeError::Member { role: bad.silent(), error: OpError::TimedOut });
                }
            }
            Err(_) => self.note_window(window, &bad, read_failures),
        }
        result
    }

    /// A window of one row can't be rebuilt, since these members can't read it.
    pub(super) fn note_window(&self, window: &RowWindow, bad: &Bad, read_failures: &mut ReadFailures) {
        let offset = window.offset(&self.map, window.rows.start);
        for (role, error) in bad.iter() {
            self.core.note_unread(self.door(), read_failures, role, error, offset..offset + window.width());
        }
    }

    /// Writes rebuilt bytes of a window of one row over those that could not be read, and reads them back into the
    /// plane behind the members'. Gives the members that still can't read theirs.
    pub(super) async fn mend(
        &self,
        window: &RowWindow,
        planes: &Planes,
        bad: &Bad,
        read_failures: &mut ReadFailures,
    ) -> Bad {
        let mut left = Bad::default();
        for (role, why) in bad.iter() {
            if planes.are_pinned() {
                left.add(role, OpError::TimedOut);
                continue;
            }
            if !self.commit_mended(window, role, why, planes, read_failures).await {
                left.add(role, why);
            }
        }
        left
    }

    /// Makes the columns of a role's block in a row readable again where they are not, or fails its member. The caller
    /// holds the row alone.
    ///
    /// # Errors
    /// The member's, if redundancy does not make up for it everywhere.
    pub(super) async fn mend_block(&self, row: u64, cols: Range<u64>, role: u16) -> Result<(), VolumeError> {
        let mut result = Ok(());
        for step in RowWindow::of_row(row, cols).cut(STEP) {
            let mut read_failures = ReadFailures::default();
            if self.load_carefully(&step, role, Bad::default(), &mut read_failures).await.is_err() {
                read_failures.forget_lost();
                for block in step.cut(u64::from(self.core.limits.block)) {
                    let loaded = self.load_carefully(&block, role, Bad::default(), &mut read_failures).await;
                    result = result.and(loaded.map(|_| ()));
                }
            }
            self.core.judge(self.door(), read_failures).await;
        }
        result
    }
}
