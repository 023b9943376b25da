//! A member that is still there is copied before another device takes its place: it answers for all it has until then, and the pool is as safe
//! as before all the time.
//!
//! Its closed segments are gone over as resilvering does it, and the blocks of its role go to the new device. Segments that were closed meanwhile
//! follow in further rounds; a closed segment is never written to, so that a copy holds until the segment is used again. Once little is left the
//! device takes the place: of the few segments that it lacks it gets the rest as any member does. Nothing of this is on record before that, so that
//! a crash leaves the pool with the member that it had.

use std::rc::Rc;

use brindle_io::Duration;
use brindle_volume::VolumeError;

use super::resilver::{Copied, Successor, Target};
use crate::core::Core;

/// Segments that may be left once the device takes the place.
const FEW: usize = 4;
/// Rounds after which it does so in any case: a pool that is written to all the time always leaves some.
const ROUNDS: usize = 6;
/// The time between two looks at whether another task has ended that resilvers.
const PAUSE: Duration = Duration::from_millis(200);

impl Core {
    /// Copies what a member has to a device. Ends early, and well, if the member is out of use meanwhile.
    ///
    /// # Errors
    /// The device does not take it, or the pool stops.
    pub(crate) async fn copy_to(self: &Rc<Self>, successor: Successor) -> Result<Copied, VolumeError> {
        while !self.resilvering.begins() {
            if self.run.is_stopping() {
                return Err(VolumeError::Stopping);
            }
            self.set.io.sleep(PAUSE).await;
        }
        let copied = self.copy_in_rounds(successor).await;
        self.resilvering.ends();
        copied
    }

    async fn copy_in_rounds(self: &Rc<Self>, successor: Successor) -> Result<Copied, VolumeError> {
        let role = self.role_of(successor.member);
        let mut copied = Copied::new();
        for _ in 0..ROUNDS {
            let due = self.space.borrow().held_by(role.vdev, role.index, &copied);
            if due.len() <= FEW || self.set.members.writable(successor.member).is_none() {
                break;
            }
            copied.extend(self.resilver_pass(&due, Target::Successor(successor)).await?);
            if self.run.is_stopping() {
                return Err(VolumeError::Stopping);
            }
        }
        Ok(copied)
    }
}
