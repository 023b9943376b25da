//! Write-behind of mirrors: the task that completes a write after the client got its answer. The rules stand at the
//! head of `data/mirrored/write_behind.rs`.

use std::rc::Rc;

use brindle_io::Slice;
use brindle_members::copies::Copies;
use brindle_volume::VolumeError;

use crate::array::Array;
use crate::data::mirrored::Mirror;
use crate::data::mirrored::write_behind::{ClientAnswer, Leave};
use crate::placement::{Family, write_copied};

impl Array {
    /// Writes these bytes to a mirror that lets writes lag: returns when members have taken them that are not write-mostly, or
    /// else all of them.
    pub(crate) async fn write_behind(&self, offset: u64, from: &[Slice]) -> Result<(), VolumeError> {
        let core = &self.0.core;
        let Family::Mirror(mirror) = self.0.placement.one()? else { return Err(VolumeError::Unsupported) };
        if let Some((leave, copy)) = self.permit_write_behind(mirror, from) {
            return self.finish_write_behind(offset, copy, leave).await;
        }
        if from.iter().any(Slice::is_shared) {
            let write = async |at, copy: &[Slice]| mirror.write(at, copy, false).await;
            return write_copied(core, offset, from, write).await;
        }
        mirror.write(offset, from, false).await
    }

    /// Leave for a write to lag, and a copy of it, if there may be one more and there is memory for it.
    fn permit_write_behind(&self, mirror: &Mirror, from: &[Slice]) -> Option<(Leave, Slice)> {
        let core = &self.0.core;
        let leave = mirror.permit_write_behind()?;
        let copies =
            core.copies.get_or_init(|| Copies::new(&core.io, core.limits.optimal, core.members.len()));
        Some((leave, copies.try_of(from)?))
    }

    /// Writes a copy in a task of its own; returns when the client may get its answer.
    async fn finish_write_behind(&self, offset: u64, copy: Slice, leave: Leave) -> Result<(), VolumeError> {
        let answer = Rc::new(ClientAnswer::new(&self.0.core.io));
        let (array, tells) = (self.clone(), Rc::clone(&answer));
        // A task of its own finishes the write even if the requesting task is dropped, so that the members agree in
        // the end.
        drop(self.0.core.io.spawn(async move {
            let written = match array.0.placement.one() {
                Ok(Family::Mirror(mirror)) => mirror.write_behind(offset, &copy, &tells).await,
                Ok(_) => Err(VolumeError::Unsupported),
                Err(error) => Err(error),
            };
            drop(leave);
            tells.tell(written);
        }));
        answer.answer().await
    }

    /// Writes that lag behind on write-mostly members now, and the most that ever did at once in this run.
    pub fn lagging(&self) -> (u32, u32) {
        let each = self.0.placement.mirrors().map(Mirror::lagging);
        each.fold((0, 0), |(now, most), (here, most_here)| (now + here, most.max(most_here)))
    }

    /// Waits until no member lags behind.
    pub(crate) async fn caught_up(&self) {
        for mirror in self.0.placement.mirrors() {
            mirror.caught_up().await;
        }
    }
}
