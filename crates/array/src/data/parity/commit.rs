//! The one place between parity computed and members written: every write of rows goes through it, be it of data with
//! parity, of parity alone, of zeroes, or of what was rebuilt.

use brindle_io::OpError;
use brindle_volume::{VolumeError, ZeroOptions};

use super::Parity;
use super::window::{Planes, Window};
use crate::data::mend::Ailing;
use crate::door::{Done, MemberOps};

impl Parity {
    /// Sends what makes a window hold new content, and waits for the last. The caller holds the rows.
    ///
    /// # Errors
    /// If the change could not be put on record: nothing was sent then.
    #[inline]
    pub(super) async fn commit(&self, window: &Window, ops: MemberOps<'_>) -> Result<Done, VolumeError> {
        self.core.intent.computed(window.range(&self.map)).await?;
        Ok(ops.submit().await)
    }

    /// The same of zeroes in whole rows: zero data has zero parity.
    pub(super) async fn commit_zeroes(
        &self,
        window: &Window,
        options: ZeroOptions,
    ) -> Result<(), VolumeError> {
        let range = window.range(&self.map);
        self.core.intent.computed(range.clone()).await?;
        let len = range.end - range.start;
        let spans: Vec<_> = (0..self.width()).map(|role| (role, range.start, len)).collect();
        self.door().zero_spans(&spans, options, range).await
    }

    /// The same of what was rebuilt of a role's block in a window of one row, since its member could not read it (because
    /// of `why`). True if it can now.
    pub(super) async fn commit_mended(
        &self,
        window: &Window,
        role: u16,
        why: OpError,
        planes: &Planes,
        ailing: &mut Ailing,
    ) -> bool {
        let range = window.range(&self.map);
        let (offset, read_only) = (range.start, self.core.config.read_only);
        if !read_only && self.core.intent.computed(range).await.is_err() {
            return false;
        }
        let (good, spare) = (planes.all(role), planes.all(self.width()));
        self.door().mend_place(role, offset, why, &good, &spare, ailing).await
    }
}
