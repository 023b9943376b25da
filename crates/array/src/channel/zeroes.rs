//! Zeroes and discards in a channel, where home has lent the part of the array: as `writes`, and narrow ones only where the array has copies or
//! parity. Discards are hints there too.

use std::rc::Rc;

use brindle_layout::Family;
use brindle_volume::{VolumeError, ZeroOptions};

use super::open::OpenChannel;
use super::state::Channel;
use crate::data::{mirrored, striped};

impl Channel {
    /// Has a range hold zeroes; false if home has to.
    pub(super) async fn write_zeroes(self: &Rc<Self>, offset: u64, len: u64, options: ZeroOptions) -> bool {
        // Home says whether that is fast, and flushes.
        if options.fast_only || options.fua {
            return false;
        }
        let Some(open) = self.may_change(offset, len) else { return false };
        let Some(under_way) = self.begin_change(&open, offset..offset + len) else { return false };
        let is_done = match &open.parity {
            // Home has settled what members refused.
            Some(parity) => parity.write_zeroes(offset, len, options).await.is_ok(),
            None => {
                let is_done = zero(&open, offset, len, options).await.is_ok();
                if !is_done {
                    self.unwritten(&open, under_way.units.clone()).await;
                }
                is_done
            }
        };
        if is_done {
            self.count();
        }
        is_done
    }

    /// Discards a range; false if home has to.
    pub(super) async fn discard(self: &Rc<Self>, offset: u64, len: u64) -> bool {
        let Some(open) = self.may_change(offset, len).filter(|open| open.plan.limits.discard) else {
            return false;
        };
        let Some(_under_way) = self.begin_change(&open, offset..offset + len) else { return false };
        if let Some(parity) = &open.parity {
            let is_done = parity.discard(offset, len).await.is_ok();
            if is_done {
                self.count();
            }
            return is_done;
        }
        let door = open.core.door(None);
        match open.plan.geometry.family() {
            Family::Striped(map) => {
                door.discard_rounds(offset, len, |at, len| striped::spans(map, at, len)).await;
            }
            Family::Mirrored(map) => {
                door.discard_rounds(offset, len, |at, len| mirrored::spans(map, at, len)).await;
            }
            Family::Parity(_) => return false,
        }
        // A hint that a member has not taken may still land.
        self.tell_orphans(&open).await;
        self.count();
        true
    }

    /// The open channel, if the range is one that may be changed. Home says what is wrong with it.
    fn may_change(&self, offset: u64, len: u64) -> Option<Rc<OpenChannel>> {
        let open = self.now()?;
        let limits = &open.plan.limits;
        let is_right = len > 0 && limits.check_change().and_then(|()| limits.check(offset, len)).is_ok();
        is_right.then_some(open)
    }
}

/// Zeroes a range of an array without parity.
async fn zero(open: &OpenChannel, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError> {
    let door = open.core.door(None);
    match open.plan.geometry.family() {
        Family::Striped(map) => {
            door.put_zero_rounds(offset, len, options, |at, len| striped::spans(map, at, len)).await
        }
        Family::Mirrored(map) => {
            door.put_zero_rounds(offset, len, options, |at, len| mirrored::spans(map, at, len)).await
        }
        Family::Parity(_) => Err(VolumeError::Unsupported),
    }
}
