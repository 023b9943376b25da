//! The timing of a modelled drive. Times are nanoseconds on the sim's clock.

use std::collections::VecDeque;

use super::busy::Busy;
use super::model::Model;
use super::rng::Rng;
use super::stations::Uplink;
use crate::op::{OpKey, OpKind};

/// The timing of one drive.
pub(super) enum Timing {
    /// Times from round figures of the kind of drive.
    Simple(Simple),
    /// Times from measurements.
    Measured(Box<Busy>),
}

impl Timing {
    pub(super) fn new(model: Model, size: u64) -> Self {
        Self::Simple(Simple::new(model, size))
    }

    /// Forgets all operations under way.
    pub(super) fn forget(&mut self, size: u64) {
        *self = match self {
            Self::Simple(simple) => Self::new(simple.model, size),
            Self::Measured(busy) => Self::Measured(Box::new(Busy::new(busy.stations().clone(), size))),
        };
    }

    pub(super) fn worked(&self) -> u64 {
        match self {
            Self::Simple(_) => 0,
            Self::Measured(busy) => busy.worked(),
        }
    }

    /// An operation has come: whether it begins at once. If not, it waits for a channel.
    #[inline]
    pub(super) fn enter(&mut self, key: OpKey, kind: OpKind) -> bool {
        match self {
            Self::Simple(simple) => simple.enter(key),
            Self::Measured(busy) => busy.enter(key, kind),
        }
    }

    /// An operation leaves its channel: to the one that is given back, if any waits.
    #[inline]
    pub(super) fn leave(&mut self) -> Option<OpKey> {
        match self {
            Self::Simple(simple) => simple.leave(),
            Self::Measured(busy) => busy.leave(),
        }
    }

    /// How long an operation that begins now takes until its first byte can move.
    #[inline]
    pub(super) fn latency(&mut self, now: u64, kind: OpKind, len: u64, rng: &mut Rng) -> u64 {
        match self {
            Self::Simple(simple) => simple.latency(kind, len, rng),
            Self::Measured(busy) => busy.latency(now, kind, len, rng),
        }
    }

    /// An operation's bytes are ready at `now`: when they will have moved. `None` if none have to.
    #[inline]
    pub(super) fn transfer(
        &mut self,
        now: u64,
        kind: OpKind,
        len: u64,
        slowness: u64,
        uplink: &mut Uplink,
    ) -> Option<u64> {
        match self {
            Self::Simple(simple) => simple.transfer(now, kind, len, slowness),
            Self::Measured(busy) => busy.transfer(now, kind, len, slowness, uplink),
        }
    }
}

/// The channels, the link and the head of one drive.
pub(super) struct Simple {
    model: Model,
    size: u64,
    free_channels: u32,
    /// Operations that wait for a channel.
    waiting: VecDeque<OpKey>,
    link_free: u64,
    head: u64,
}

impl Simple {
    fn new(model: Model, size: u64) -> Self {
        let free_channels = model.channels.max(1);
        Self { model, size, free_channels, waiting: VecDeque::new(), link_free: 0, head: 0 }
    }

    fn enter(&mut self, key: OpKey) -> bool {
        if self.free_channels == 0 {
            self.waiting.push_back(key);
            return false;
        }
        self.free_channels -= 1;
        true
    }

    fn leave(&mut self) -> Option<OpKey> {
        let next = self.waiting.pop_front();
        self.free_channels += u32::from(next.is_none());
        next
    }

    fn latency(&mut self, kind: OpKind, len: u64, rng: &mut Rng) -> u64 {
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

    fn transfer(&mut self, now: u64, kind: OpKind, len: u64, slowness: u64) -> Option<u64> {
        let bandwidth = match kind {
            OpKind::Read { .. } => self.model.read_bandwidth,
            OpKind::Write { .. } => self.model.write_bandwidth,
            _ => 0,
        };
        if bandwidth == 0 {
            return None;
        }
        // Divisions of 128 bits cost a call, and few transfers are of more than 18 GB.
        let nanos = match len.checked_mul(1_000_000_000) {
            Some(product) => product / bandwidth,
            None => (u128::from(len) * 1_000_000_000 / u128::from(bandwidth)) as u64,
        };
        self.link_free = self.link_free.max(now).saturating_add(nanos.saturating_mul(slowness));
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
