//! Reads in a channel.

use brindle_io::Slice;
use brindle_members::direct::read_alone;
use brindle_volume::VolumeError;

use super::state::Channel;

impl Channel {
    /// Reads a range; false if home has to, which judges what was met. The memory is as good as before then.
    ///
    /// # Errors
    /// [`VolumeError::Again`]: a member may still fill this memory.
    pub(super) async fn read(&self, offset: u64, into: &[Slice]) -> Result<bool, VolumeError> {
        let Some(open) = self.now() else { return Ok(false) };
        // Home says what is wrong with a request.
        let door = open.core.door(None);
        if !open.plan.limits.check_list(offset, into).is_ok_and(|len| len > 0) || !door.reads_alone(into) {
            return Ok(false);
        }
        self.patrol();
        let Ok((pending, asked)) = read_alone(door, offset, into, |at| open.place(at)) else {
            return Ok(false);
        };
        let outcome = pending.await;
        if asked.is_well(&open.core, &outcome) && self.is_still(&open) {
            self.count();
            return Ok(true);
        }
        if into.iter().any(Slice::is_pinned) { Err(VolumeError::Again) } else { Ok(false) }
    }
}
