//! Keeps the array's state true on disk: dirty before the first write, clean after idle time, failures recorded before
//! anything relies on them.

use core::cell::Cell;
use std::rc::Rc;

use brindle_io::OpError;

use crate::members::{Members, RoleState};
use crate::volume::VolumeError;

/// Whether every byte survives the loss of these roles.
pub(crate) type CanLose = Box<dyn Fn(&[u16]) -> bool>;

/// What the data path tells the keeper, and must wait for.
pub(crate) struct Keeper {
    members: Rc<Members>,
    dirty: Cell<bool>,
    writes: Cell<u32>,
    synced_to: Cell<u64>,
    can_lose: CanLose,
}

impl Keeper {
    /// A keeper without superblocks: state lives in memory only.
    pub(crate) fn volatile(members: Rc<Members>, can_lose: CanLose) -> Self {
        Self {
            members,
            dirty: Cell::new(false),
            writes: Cell::new(0),
            synced_to: Cell::new(u64::MAX),
            can_lose,
        }
    }

    /// A write is about to touch members: returns once the array is marked dirty. Each success is matched by one
    /// [`Keeper::write_ends`].
    #[inline]
    pub(crate) async fn write_begins(&self) -> Result<(), VolumeError> {
        self.writes.set(self.writes.get() + 1);
        if !self.dirty.get() {
            self.dirty.set(true);
        }
        Ok(())
    }

    /// A write has touched its last member.
    #[inline]
    pub(crate) fn write_ends(&self) {
        self.writes.set(self.writes.get() - 1);
    }

    /// A member failed: returns once that is recorded in the surviving superblocks, so that a write which relies on
    /// its absence may be acknowledged.
    ///
    /// # Errors
    /// [`VolumeError::TooManyLost`] if the array can't live without it: then nothing is recorded.
    pub(crate) async fn member_failed(&self, role: u16, _why: OpError) -> Result<(), VolumeError> {
        let mut lost: Vec<u16> =
            (0..self.members.len()).filter(|&r| self.members.state(r) != RoleState::InSync).collect();
        if !lost.contains(&role) {
            lost.push(role);
        }
        if !(self.can_lose)(&lost) {
            return Err(VolumeError::TooManyLost);
        }
        self.members.set_state(role, RoleState::Failed);
        Ok(())
    }

    /// Every failure that [`Keeper::member_failed`] was told of is recorded: a write that left a failed member out
    /// waits for this before it is acknowledged, since another request may be the one that reported the failure.
    pub(crate) async fn failures_recorded(&self) -> Result<(), VolumeError> {
        Ok(())
    }

    /// Redundancy is known true below this position of the resync (bytes of the member's data area; of the array for
    /// mirrors); `u64::MAX` when all is in sync. At and above it parity must not be trusted, and mirrors are read
    /// from their first readable copy.
    #[inline]
    pub(crate) fn synced_to(&self) -> u64 {
        self.synced_to.get()
    }
}
