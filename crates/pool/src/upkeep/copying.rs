//! A member that is still there is copied before another device takes its place: it answers for all it has until then, and the pool is as safe
//! as before all the time.
//!
//! Its closed segments are gone over as resilvering does it, and the blocks of its role go to the new device. Segments that were closed meanwhile
//! follow in further rounds; a closed segment is never written to, so that a copy holds until the segment is used again. Before the last round
//! those are closed that are written to. Then the device takes the place, and gets as any member does what was written during that round.
//! The device is on record as the successor of the member, and so is each segment that it has a copy of, once that is stable: after a crash the
//! next opening goes on with the segments that are left.

use std::rc::Rc;

use brindle_volume::VolumeError;

use super::resilver::{Successor, Target};
use crate::core::Core;

/// Segments that may be left for the last round.
const FEW: usize = 4;
/// Rounds after which that begins in any case: a pool that is written to all the time always leaves some.
const ROUNDS: usize = 6;

/// The turn of the one task that resilvers.
pub(crate) struct Copying<'a>(&'a Rc<Core>);

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        self.0.resilvering.ends();
        // A stop waits for that, and so do others that resilver.
        self.0.room.notify();
        self.0.begin_resilver();
    }
}

impl Core {
    /// Waits for the turn.
    ///
    /// # Errors
    /// The pool stops.
    pub(crate) async fn begin_copying(self: &Rc<Self>) -> Result<Copying<'_>, VolumeError> {
        let turn = || match self.run.is_stopping() {
            true => Some(Err(VolumeError::Stopping)),
            false => self.resilvering.begins().then_some(Ok(())),
        };
        self.room.until(turn).await.map(|()| Copying(self))
    }
}

impl Copying<'_> {
    /// Copies what a member has to a device. Ends early, and well, if the member is out of use meanwhile.
    ///
    /// # Errors
    /// The device does not take it, or the pool stops.
    pub(crate) async fn copy_to(&self, successor: Successor) -> Result<(), VolumeError> {
        let core = self.0;
        let role = core.role_of(successor.member);
        for _ in 0..ROUNDS {
            let due = core.space.borrow().held_by(role.vdev, role.index);
            if due.len() <= FEW || core.set.members.writable(successor.member).is_none() {
                break;
            }
            core.resilver_pass(&due, Target::Successor(successor)).await?;
            // No other task gives members that came back meanwhile what they lack.
            core.resilver().await;
            self.goes_on()?;
        }
        // Those that were written to last are written to no more, and follow.
        core.space.borrow_mut().close_open(role.vdev);
        let due = core.space.borrow().held_by(role.vdev, role.index);
        core.resilver_pass(&due, Target::Successor(successor)).await?;
        self.goes_on()
    }

    /// The pool is not about to stop.
    ///
    /// # Errors
    /// It is.
    pub(crate) fn goes_on(&self) -> Result<(), VolumeError> {
        if self.0.run.is_stopping() { Err(VolumeError::Stopping) } else { Ok(()) }
    }
}
