//! The end of a run.

use std::rc::Rc;

use brindle_io::OpError;
use brindle_volume::VolumeError;

use crate::core::Core;
use crate::upkeep::checkpoint::Why;

impl Core {
    /// Ends the run in order.
    pub(crate) async fn stop(self: &Rc<Self>) -> Result<(), VolumeError> {
        if self.run.stops() { self.end(Why::Stop).await } else { Ok(()) }
    }

    /// The same, with the last uberblock that says that no host has the pool.
    pub(crate) async fn export(self: &Rc<Self>) -> Result<(), VolumeError> {
        if self.read_only {
            return Err(VolumeError::ReadOnly);
        }
        if self.run.stops() { self.end(Why::Export).await } else { Err(VolumeError::Stopping) }
    }

    async fn end(self: &Rc<Self>, why: Why) -> Result<(), VolumeError> {
        if let Some(scrub) = self.scrubs.process() {
            self.scrubs.rests();
            scrub.stop();
            scrub.release();
            self.room.until(|| self.scrubs.process().is_none().then_some(())).await;
        }
        // Moves that are under way would be written to segments that the next opening gives to others.
        self.resilvering.stop();
        // Tasks that wait for their turn give up.
        self.room.notify();
        let is_over =
            || !self.cleaner.is_cleaning() && !self.cleaner.is_reaping() && !self.resilvering.is_busy();
        self.room.until(|| is_over().then_some(())).await;
        self.log.landed.until(|| (self.log.flying() == 0).then_some(())).await;
        let stopped = if self.read_only {
            Ok(())
        } else {
            match self.flush().await {
                Ok(()) => match self.checkpoint(why).await {
                    // All is stable in the log, which needs no room: the next opening finds it there.
                    Err(VolumeError::Member { error: OpError::NoSpace, .. }) if why == Why::Stop => Ok(()),
                    stopped => stopped,
                },
                failed => failed,
            }
        };
        self.set.ended.set(true);
        stopped
    }
}
