//! Rows that home holds against channels: its lock of rows asks here for what it grants.

use core::ops::Range;
use core::pin::Pin;
use std::rc::Rc;

use brindle_members::buckets::Buckets;
use brindle_members::lock::Beside;

use super::Channels;
use super::leases::Quiet;
use super::shared::{Unit, units};

/// The channels of an array, beside a lock whose ranges are cut into such units.
pub(crate) struct BesideChannels {
    channels: Rc<Channels>,
    unit: Unit,
}

impl BesideChannels {
    pub(crate) fn new(channels: &Rc<Channels>, unit: Unit) -> Self {
        Self { channels: Rc::clone(channels), unit }
    }

    fn buckets(&self) -> &Buckets {
        self.channels.leases.buckets()
    }

    /// The units of a range, which may be empty; `None` if it is too wide.
    fn units(&self, range: &Range<u64>) -> Option<Range<u64>> {
        if range.is_empty() { Some(0..0) } else { units(range, self.unit) }
    }
}

impl BesideChannels {
    /// Has the reactor that has a row not wait for more of it.
    fn hurry(&self, unit: u64) {
        if let (Unit::Row, Some(reactor)) = (self.unit, self.buckets().reactor(unit)) {
            self.channels.hurry(reactor, unit);
        }
    }
}

impl Beside for BesideChannels {
    fn hold_at_once(&self, range: &Range<u64>) -> bool {
        let Some(units) = self.units(range) else { return false };
        for unit in units.clone() {
            if !self.buckets().enter_home(unit) {
                self.buckets().leave(units.start..unit, |_| {});
                return false;
            }
        }
        true
    }

    fn hold(&self, range: Range<u64>) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(async move {
            let Some(units) = self.units(&range) else {
                // Until it is let go.
                core::mem::forget(self.channels.quiet().await);
                return;
            };
            let mut entered = Entered(self.buckets(), units.start..units.start);
            for unit in units {
                if !self.buckets().enter_home(unit) {
                    self.hurry(unit);
                    self.channels.leases.freed(|| self.buckets().enter_home(unit)).await;
                }
                entered.1.end = unit + 1;
            }
            core::mem::forget(entered);
        })
    }

    fn let_go(&self, range: &Range<u64>) {
        match self.units(range) {
            Some(units) => self.buckets().leave(units, |_| {}),
            None => drop(Quiet::again(&self.channels.leases)),
        }
    }
}

/// Units that home has entered while it waits for more. If it is dropped, the bucket that it waited for stays marked: other reactors hand
/// their requests to home, which takes the mark away as it enters.
struct Entered<'a>(&'a Buckets, Range<u64>);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1.clone(), |_| {});
    }
}
