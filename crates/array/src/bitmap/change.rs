//! Adds the write-intent bitmap to a running array, or removes it.

use std::rc::Rc;

use brindle_layout::Level;
use brindle_volume::VolumeError;

use super::record::Install;
use crate::array::Array;
use crate::data::mirrored::Mirror;
use crate::ledger::{BitmapError, BitmapSpec, MAX_WRITE_BEHIND};

impl Array {
    /// Gives the array such a write-intent bitmap, beside each superblock or in a file, in the place of the one that it has, if it has one.
    /// It stands there, and that is on record, when this returns; requests go on meanwhile. All bits are set at first, as with md: they
    /// are cleared in time where redundancy is in sync and nothing is written. Of one that moves, bits are clear that were clear before.
    ///
    /// A bitmap with chunks of another size that stands where the present one does takes its place once that is gone: a crash between
    /// finds none.
    ///
    /// # Errors
    /// [`BitmapError::Present`], [`BitmapError::NoRedundancy`], [`BitmapError::WriteBehind`], [`BitmapError::TooManyWriteBehind`],
    /// [`BitmapError::ReadOnly`], [`BitmapError::Room`], [`BitmapError::Guides`], [`BitmapError::SameFile`],
    /// [`BitmapError::FileChunk`], [`BitmapError::Unrecorded`], [`BitmapError::Encode`]: nothing has changed.
    /// [`BitmapError::File`] may have changed the file. After [`BitmapError::Volume`] a member may have failed; and where
    /// superblocks could not be written, some name the new bitmap, all of whose bits are set, and the next change of the state
    /// tells them otherwise. Where both were to stand in one place the array may have none.
    pub async fn set_bitmap(&self, spec: BitmapSpec) -> Result<(), BitmapError> {
        self.check_bitmap_may_change()?;
        self.check_write_behind(spec.write_behind.unwrap_or(0))?;
        let geometry = self.0.geometry.clone();
        let _quiet = self.0.core.keeper.channels.quiet().await;
        self.0.core.keeper.give_bitmap(geometry, spec, self.install()).await
    }

    /// Bytes that a file needs for the array's bitmap with such chunks (`None`: as the format chooses); `label` names it in errors.
    ///
    /// # Errors
    /// A [`BitmapError`]: [`Array::set_bitmap`] would refuse it.
    pub fn bitmap_file_bytes(&self, chunk: Option<u64>, label: &str) -> Result<u64, BitmapError> {
        self.check_bitmap_may_change()?;
        let bytes = self.0.core.keeper.ledger().bitmap_file_bytes(&self.0.geometry, chunk);
        bytes.ok_or_else(|| BitmapError::FileChunk { label: label.to_owned(), chunk })
    }

    /// Takes the write-intent bitmap away: that is on record when this returns.
    ///
    /// # Errors
    /// [`BitmapError::Absent`], [`BitmapError::Guides`] (a member is being recovered by it), [`BitmapError::NoRedundancy`],
    /// [`BitmapError::ReadOnly`], [`BitmapError::Unrecorded`], [`BitmapError::Volume`]: the array has its bitmap still.
    pub async fn remove_bitmap(&self) -> Result<(), BitmapError> {
        self.check_bitmap_may_change()?;
        let _quiet = self.0.core.keeper.channels.quiet().await;
        self.0.core.keeper.remove_bitmap(self.install()).await
    }

    /// Sets the limit of write-behind (0: none); the bitmap records it when this returns. md's `bitmap/backlog`.
    ///
    /// # Errors
    /// [`BitmapError::Absent`], [`BitmapError::WriteBehind`], [`BitmapError::TooManyWriteBehind`], [`BitmapError::NoRedundancy`],
    /// [`BitmapError::ReadOnly`], [`BitmapError::Unrecorded`]: nothing has changed. After [`BitmapError::Volume`] the
    /// bitmap of some members may say so.
    pub async fn set_write_behind(&self, count: u32) -> Result<(), BitmapError> {
        self.check_bitmap_may_change()?;
        self.check_write_behind(count)?;
        let array = self.clone();
        let changed = move || array.0.placement.mirrors().for_each(Mirror::look_at_flags);
        self.0.core.keeper.set_write_behind(count, changed).await
    }

    fn check_write_behind(&self, count: u32) -> Result<(), BitmapError> {
        match self.0.geometry.level() {
            _ if count == 0 => Ok(()),
            Level::Raid1 if count > MAX_WRITE_BEHIND => Err(BitmapError::TooManyWriteBehind { count }),
            Level::Raid1 => Ok(()),
            level => Err(BitmapError::WriteBehind { level }),
        }
    }

    fn install(&self) -> Install {
        let array = self.clone();
        Box::new(move |bitmap, under_way| {
            array.0.core.intent.set_bitmap(bitmap.as_ref().map(Rc::clone), under_way);
            // They have leases of other parts from now on.
            array.0.core.keeper.channels.close();
            array.0.placement.mirrors().for_each(Mirror::look_at_flags);
            drop(array.clone().cleared_lazily());
        })
    }

    fn check_bitmap_may_change(&self) -> Result<(), BitmapError> {
        let core = &self.0.core;
        if !core.dependence().redundant {
            return Err(BitmapError::NoRedundancy { level: self.0.geometry.level() });
        }
        let limits = core.keeper.ledger().describe().limits;
        if core.config.is_read_only() && !limits.is_empty() {
            return Err(BitmapError::ReadOnly { limits });
        }
        self.0.placement.one()?;
        match () {
            () if core.config.is_read_only() => Err(VolumeError::ReadOnly.into()),
            () if core.keeper.is_stopping() => Err(VolumeError::Stopping.into()),
            () if core.keeper.is_broken() => Err(VolumeError::TooManyLost.into()),
            () => Ok(()),
        }
    }
}
