//! Writes of mirrors that end for whoever asked before all members have taken them: the task that carries them on. What must hold
//! stands at the head of `data/mirrored/behind.rs`.

use std::rc::Rc;

use brindle_io::Slice;
use brindle_volume::VolumeError;

use crate::array::Array;
use crate::copies::Copies;
use crate::data::mirrored::behind::Told;
use crate::placement::Family;

impl Array {
    /// Writes a copy of these bytes; returns when members have taken it that are not write-mostly.
    pub(crate) async fn write_behind(&self, offset: u64, from: &[Slice]) -> Result<(), VolumeError> {
        let core = &self.0.core;
        let copies =
            core.copies.get_or_init(|| Copies::new(&core.io, core.limits.optimal, core.members.len()));
        let copy = copies.of(from).await;
        // The array may have been stopped while this waited.
        core.check(offset, copy.len() as u64)?;
        let told = Rc::new(Told::new(&core.io));
        let (array, tells) = (self.clone(), Rc::clone(&told));
        // Whatever becomes of who asked: the array is whole again when it ends.
        drop(core.io.spawn(async move {
            let written = match array.0.placement.one() {
                Ok(Family::Mirror(mirror)) => mirror.write_behind(offset, &copy, &tells).await,
                Ok(_) => Err(VolumeError::Unsupported),
                Err(error) => Err(error),
            };
            tells.tell(written);
        }));
        told.answer().await
    }

    /// Waits until no member lags behind.
    pub(crate) async fn caught_up(&self) {
        for mirror in self.0.placement.mirrors() {
            mirror.caught_up().await;
        }
    }
}
