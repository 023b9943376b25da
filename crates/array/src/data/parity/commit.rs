//! The one step between computing parity and writing members. All writes of rows go through it: data with parity,
//! parity alone, zeroes, rebuilt blocks.

use brindle_io::OpError;
use brindle_members::door::{Done, MemberOps};
use brindle_volume::{VolumeError, ZeroOptions};

use super::Parity;
use super::window::{Planes, RowWindow};
use crate::data::mend::ReadFailures;
use crate::observer::{Content, MemberChange};
use crate::row_log::{Change, Computed};

impl Parity {
    /// Sends what makes a window hold new content, and waits for the last. The caller holds the rows.
    ///
    /// # Errors
    /// If the change could not be put on record: nothing was sent then.
    #[inline]
    pub(super) async fn commit(&self, window: &RowWindow, ops: MemberOps<'_>) -> Result<Done, VolumeError> {
        let rows = || Computed { range: window.range(&self.map), changes: ops.changes() };
        self.core.intent.computed(&self.core.keeper, rows).await?;
        Ok(ops.submit().await)
    }

    /// Commits zeroes to whole rows: zero data has zero parity.
    pub(super) async fn commit_zeroes(
        &self,
        window: &RowWindow,
        options: ZeroOptions,
    ) -> Result<(), VolumeError> {
        let range = window.range(&self.map);
        let len = range.end - range.start;
        let spans: Vec<_> = (0..self.width()).map(|role| (role, range.start, len)).collect();
        let zeroes = |&(role, offset, len): &_| MemberChange { role, offset, len, content: Content::Zeroes };
        let rows = || Computed { range: range.clone(), changes: spans.iter().map(zeroes).collect() };
        self.core.intent.computed(&self.core.keeper, rows).await?;
        if self.core.home().is_some() {
            let outcome = self.door().put_zeroes(&spans, options).await?;
            return self.core.settle_range(&outcome, true, range).await;
        }
        self.door().zero_spans(&spans, options, range).await
    }

    /// Commits the rebuilt block of a role in a window of one row, which its member could not read because of `why`.
    /// True if the member can read it now.
    pub(super) async fn commit_mended(
        &self,
        window: &RowWindow,
        role: u16,
        why: OpError,
        planes: &Planes,
        read_failures: &mut ReadFailures,
    ) -> bool {
        let range = window.range(&self.map);
        let (offset, len) = (range.start, range.end - range.start);
        let (good, spare) = (planes.all(role), planes.all(self.width()));
        let Ok(_maintenance) = self.core.maintenance(Change::Member { role, range: range.clone() }).await
        else {
            return false;
        };
        let mended = || MemberChange { role, offset, len, content: Content::Bytes(vec![good.clone()]) };
        let rows = || Computed { range, changes: vec![mended()] };
        if self.core.intent.computed(&self.core.keeper, rows).await.is_err() {
            return false;
        }
        self.core.mend_place(self.door(), role, offset, why, &good, &spare, read_failures).await
    }
}
