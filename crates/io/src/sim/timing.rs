//! What a modelled drive is busy with. Times are nanoseconds on the sim's clock.

use std::collections::VecDeque;

use super::model::Model;
use super::rng::Rng;
use crate::op::{OpKey, OpKind};

/// The channels, the link and the head of one drive.
pub(super) struct Timing {
    model: Model,
    size: u64,
    free_channels: u32,
    /// Operations that wait for a channel.
    waiting: VecDeque<OpKey>,
    link_free: u64,
    head: u64,
}

impl Timing {
    pub(super) fn new(model: Model, size: u64) -> Self {
        let free_channels = model.channels.max(1);
        Self { model, size, free_channels, waiting: VecDeque::new(), link_free: 0, head: 0 }
    }

    /// An operation has come: whether it begins at once. If not, it waits for a channel.
    pub(super) fn enter(&mut self, key: OpKey) -> bool {
        if self.free_channels == 0 {
            self.waiting.push_back(key);
            return false;
        }
        self.free_channels -= 1;
        true
    }

    /// An operation leaves its channel: to the one that is given back, if any waits.
    pub(super) fn leave(&mut self) -> Option<OpKey> {
        let next = self.waiting.pop_front();
        self.free_channels += u32::from(next.is_none());
        next
    }

    /// How long an operation that begins now takes until its first byte can move.
    pub(super) fn latency(&mut self, kind: OpKind, len: u64, rng: &mut Rng) -> u64 {
        let (latency, offset) = match kind {
            OpKind::Read { offset, .. } => (self.model.read_latency, Some(offset)),
            OpKind::Write { offset, .. } => (self.model.write_latency, Some(offset)),
            OpKind::Flush { .. } => (self.model.flush_latency, None),
            _ => (self.model.write_latency, None),
        };
        let seek = offset.map_or(0, |offset| self.seek(offset, len, rng));
        let swing = latency / 100 * u64::from(self.model.jitter.min(100));
        latency - swing + rng.below(2 * swing + 1) + seek
    }

    /// An operation's bytes are ready at `now`: when they will have moved. `None` if none have to.
    pub(super) fn transfer(&mut self, now: u64, kind: OpKind, len: u64, slowness: u64) -> Option<u64> {
        let bandwidth = match kind {
            OpKind::Read { .. } => self.model.read_bandwidth,
            OpKind::Write { .. } => self.model.write_bandwidth,
            _ => 0,
        };
        if bandwidth == 0 {
            return None;
        }
        let nanos = u128::from(len) * 1_000_000_000 / u128::from(bandwidth);
        self.link_free = self.link_free.max(now).saturating_add((nanos as u64).saturating_mul(slowness));
        Some(self.link_free)
    }

    /// Seek time grows with the square root of the distance (Ruemmler & Wilkes, 1994); then half a turn on average.
    fn seek(&mut self, offset: u64, len: u64, rng: &mut Rng) -> u64 {
        if self.model.rotation == 0 || offset == self.head {
            self.head = offset.saturating_add(len); // checked against the size when it takes its effect
            return 0;
        }
        let distance = offset.abs_diff(self.head) as f64 / self.size.max(1) as f64;
        self.head = offset.saturating_add(len);
        (self.model.full_seek as f64 * distance.sqrt()) as u64 + rng.below(self.model.rotation)
    }
}
