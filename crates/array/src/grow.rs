//! What a running array is given, or has taken from it, beside its devices: the write-intent bitmap.

use std::rc::Rc;

use brindle_volume::VolumeError;

use crate::array::Array;
use crate::data::mirrored::Mirror;
use crate::keeper::Install;
use crate::ledger::BitmapError;

impl Array {
    /// Gives the array a write-intent bitmap beside each superblock, with so many bytes to a bit (a power of two; `None`: as
    /// mdadm chooses). It stands there, and that is on record, when this returns; requests go on meanwhile. All bits are set at
    /// first, as with md: they are cleared in time where redundancy is true and nothing is written.
    ///
    /// # Errors
    /// A [`BitmapError`]. But for [`BitmapError::Volume`] nothing has changed. After that a member may have failed; and where
    /// superblocks could not be written, some name the bitmap, which is kept up to date, and the next change of the state tells
    /// the others.
    pub async fn add_bitmap(&self, chunk: Option<u64>) -> Result<(), BitmapError> {
        self.check_bitmap_may_change()?;
        let geometry = self.0.geometry.clone();
        self.0.core.keeper.add_bitmap(geometry, chunk, self.install()).await
    }

    /// Takes the write-intent bitmap away: that is on record when this returns.
    ///
    /// # Errors
    /// A [`BitmapError`]: the array has its bitmap still.
    pub async fn remove_bitmap(&self) -> Result<(), BitmapError> {
        self.check_bitmap_may_change()?;
        self.0.core.keeper.remove_bitmap(self.install()).await
    }

    fn install(&self) -> Install {
        let array = self.clone();
        Box::new(move |bitmap, under_way| {
            array.0.core.intent.set_bitmap(bitmap.as_ref().map(Rc::clone), under_way);
            array.0.placement.mirrors().for_each(Mirror::look_at_flags);
            drop(array.clone().cleared_lazily());
        })
    }

    fn check_bitmap_may_change(&self) -> Result<(), BitmapError> {
        let core = &self.0.core;
        if !core.ties.redundant {
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
