//! Writes of channels that some members have refused. Home does with them as with its own: it has the members failed, or notes what is in doubt.

use core::cell::RefCell;
use core::ops::Range;
use std::collections::BTreeMap;

use brindle_io::{MemberId, OpClass, OpError};

use super::Channels;
use super::shared::Ask;

/// A device that has refused its part of a write, the byte of the device, and why.
pub(crate) type RefusedWrite = (MemberId, u64, OpError);

/// The parts of a write as they are told one after the other, by reactor.
#[derive(Default)]
pub(super) struct Settling(RefCell<BTreeMap<usize, Parts>>);

#[derive(Default)]
struct Parts {
    /// The place that is told of next.
    at: u64,
    refused: Vec<RefusedWrite>,
}

impl Settling {
    pub(super) fn at(&self, from: usize, place: u64) {
        self.0.borrow_mut().entry(from).or_default().at = place;
    }

    pub(super) fn refused(&self, from: usize, device: MemberId, why: OpError) {
        let mut all = self.0.borrow_mut();
        let parts = all.entry(from).or_default();
        parts.refused.push((device, parts.at, why));
    }

    pub(super) fn forget(&self, from: usize) {
        self.0.borrow_mut().remove(&from);
    }

    fn take(&self, from: usize, len: u64) -> (Vec<RefusedWrite>, Range<u64>) {
        let Parts { at, refused } = self.0.borrow_mut().remove(&from).unwrap_or_default();
        (refused, at..at.saturating_add(len))
    }
}

impl Channels {
    /// Settles a write of a channel to so many bytes of each member, and answers whether its success may be acknowledged.
    pub(super) fn settle(&self, to: usize, number: u32, len: u64) {
        let (refused, range) = self.leases.settling.take(to, len);
        let settled = self.array.get().map(|array| array.settle(refused, range));
        let me = self.me.clone();
        drop(self.io.spawn_as(OpClass::Metadata, async move {
            let is_well = match settled {
                Some(settled) => settled.await,
                None => false,
            };
            let answer = [u64::from(number), u64::from(is_well)];
            if let Some(asking) = me.upgrade().map(|me| me.ask(to, Ask::Settled, answer)) {
                let _ = asking.await;
            }
        }));
    }
}
