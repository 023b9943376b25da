//! The look at what takes long in a channel, some times a second while it has requests.

use std::rc::Weak;

use brindle_io::{Duration, Io, OpSpan};

use super::open::{OpenChannel, Port};
use super::state::Channel;
use crate::channels::shared::{Given, Tell};

/// Looks at the requests of a channel some times a second, for as long as there are any.
async fn patrol(channel: Weak<Channel>, io: Io) {
    let mut next = channel.upgrade().and_then(|channel| Some(channel.open.borrow().as_ref()?.tick()));
    while let Some(tick) = next {
        io.sleep(tick).await;
        let Some(channel) = channel.upgrade() else { return };
        next = channel.look_at_ports();
    }
    if let Some(channel) = channel.upgrade() {
        channel.is_patrolled.set(false);
    }
}

impl Channel {
    #[inline]
    pub(super) fn patrol(&self) {
        if !self.is_patrolled.get() {
            self.begin_patrol();
        }
    }

    #[cold]
    fn begin_patrol(&self) {
        self.is_patrolled.set(true);
        drop(self.io.spawn(patrol(self.me.clone(), self.io.clone())));
    }

    /// Gives up reads that have taken too long, tells home of writes that have, gives back leases that are of no use, and counts what members have
    /// done. The time until the next look; `None` if there is nothing to look at.
    fn look_at_ports(&self) -> Option<Duration> {
        let open = self.open.borrow().clone();
        if open.is_none() {
            self.in_doubt.set(false);
        }
        // Writes go on after the channel was closed.
        let open = open.or_else(|| self.last.borrow().upgrade())?;
        let is_read = self.look_at_reads(&open);
        self.look_at_writes(&open);
        self.publish(&open);
        let is_leased = open.leases.as_ref().is_some_and(|leases| {
            leases.give_back_unused(|part, number| {
                self.telling.tell(Tell::GivesBack(part, number));
            })
        });
        let is_busy = is_read || is_leased || self.writing.get() > 0 || self.in_doubt.get();
        is_busy.then(|| open.tick())
    }

    fn look_at_reads(&self, open: &OpenChannel) -> bool {
        let now = self.io.ran();
        let age = |port: &Port| Some(now.since(self.io.oldest(port.id, OpSpan::Read)?));
        let ages: Vec<Option<Duration>> = open.ports.iter().map(age).collect();
        for (at, port) in open.ports.iter().enumerate() {
            if let Some(patience) = open.overdue(&ages, at) {
                self.io.give_up(port.id, OpSpan::Read, now.before(patience));
                self.in_doubt.set(true);
            }
        }
        let waits = open.ports.iter().any(|port| self.io.orphans(port.id) > 0);
        self.in_doubt.set(self.in_doubt.get() && waits);
        ages.iter().any(Option::is_some)
    }

    /// Home judges a member that does not take a write: it is told for how long the oldest has waited.
    fn look_at_writes(&self, open: &OpenChannel) {
        let now = self.io.ran();
        for port in &open.ports {
            let age = |span| self.io.oldest(port.id, span).map(|since| now.since(since));
            // Home judges flushes, discards and zeroes by the patience with writes, from then on when these have had their own.
            let slow = age(OpSpan::Slow).and_then(|age| age.checked_sub(open.plan.slow_for));
            let age = age(OpSpan::Write).max(slow).filter(|&age| age >= open.plan.patience);
            if age.is_some() || port.waits.get() {
                let millis = age.map_or(0, |age| (age.as_nanos() / 1_000_000).max(1) as u32);
                port.waits.set(age.is_some());
                self.telling.tell(Tell::Waits(port.number(), millis));
            }
        }
    }

    pub(super) fn publish(&self, open: &OpenChannel) {
        for Port { id, device, counted, .. } in &open.ports {
            let now = Given::of(&self.io.counters(*id));
            let before = counted.replace(now);
            if now != before {
                self.seed.counts.add(*device, now.less(before));
            }
        }
    }
}
