//! Writes that some members have refused: home settles them, as it does its own.

use core::ops::Range;
use std::rc::{Rc, Weak};

use brindle_io::OpError;
use brindle_members::door::Done;
use brindle_members::events::Cause;
use brindle_volume::VolumeError;

use super::open::OpenChannel;
use super::state::Channel;
use crate::channels::shared::Tell;
use crate::home::{Home, Settled};

/// A part of a write that a device has refused: the device's number, the byte of it, and why.
type RefusedPart = (u32, u64, OpError);

impl Channel {
    /// Has home settle a write to a range of the members' data areas. The rows are held until it has.
    async fn settle(&self, refused: Vec<RefusedPart>, range: Range<u64>) -> Result<(), VolumeError> {
        let number = self.settlements.number();
        for (device, at, why) in refused {
            self.telling.tell(Tell::At(at));
            self.telling.tell(Tell::Refused(device, why));
        }
        self.telling.tell(Tell::At(range.start));
        self.telling.tell(Tell::Settle(number, range.end - range.start));
        if self.settlements.answer(number).await { Ok(()) } else { Err(VolumeError::Stopping) }
    }
}

/// Home, as the core of an open channel asks it.
struct ToHome {
    channel: Weak<Channel>,
    open: Weak<OpenChannel>,
}

/// See [`Home`].
pub(super) fn to_home(channel: Weak<Channel>, open: Weak<OpenChannel>) -> Rc<dyn Home> {
    Rc::new(ToHome { channel, open })
}

impl Home for ToHome {
    fn settle(&self, outcome: &Done, range: Range<u64>) -> Settled {
        let (channel, open) = (self.channel.upgrade(), self.open.upgrade());
        let refused: Vec<_> = outcome.refused().to_vec();
        Box::pin(async move {
            let (Some(channel), Some(open)) = (channel, open) else { return Err(VolumeError::Stopping) };
            // Home sends nothing more to a device on which writes may still land, and settles by that.
            channel.tell_orphans(&open).await;
            let part = |refused: &brindle_members::door::Refused| {
                let port = open.ports.iter().find(|port| port.id == refused.member)?;
                let at = Cause::from(refused).offset.unwrap_or(refused.offset);
                Some((port.number(), at, refused.error))
            };
            channel.settle(refused.iter().filter_map(part).collect(), range).await
        })
    }
}
