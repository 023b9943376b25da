//! Counters of the work done.

use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicU64, Ordering};

use brindle_io::{Histogram, Instant, Io};

/// Counters of the work on an export, or on a connection, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests replied to.
    pub requests: u64,
    /// Bytes read by clients.
    pub read_bytes: u64,
    /// Bytes written by clients.
    pub written_bytes: u64,
    /// Requests replied to with an error.
    pub errors: u64,
}

/// Counters that are added to while others look.
#[derive(Default)]
pub(crate) struct SharedCounters(Cell<Counters>);

impl SharedCounters {
    pub(crate) fn get(&self) -> Counters {
        self.0.get()
    }

    #[inline]
    pub(crate) fn add(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.0.get();
        change(&mut counters);
        self.0.set(counters);
    }
}

/// Counters and latencies of clients of another reactor, which adds to them. Whoever looks takes what has come.
#[derive(Default)]
pub(crate) struct CountersAway {
    /// Requests, bytes read, bytes written, and errors.
    counts: [AtomicU64; 4],
    latencies: [[AtomicU64; 28]; 2],
}

impl CountersAway {
    /// The reactor that counts has counted so much in all. It alone stores.
    #[cold]
    pub(super) fn tell(&self, counters: Counters, latencies: &Latencies) {
        let Counters { requests, read_bytes, written_bytes, errors } = counters;
        for (to, count) in self.counts.iter().zip([requests, read_bytes, written_bytes, errors]) {
            to.store(count, Ordering::Relaxed);
        }
        for (to, from) in self.latencies.iter().zip(&mut *latencies.0.borrow_mut()) {
            for (to, from) in to.iter().zip(&mut from.buckets).filter(|(_, from)| **from > 0) {
                to.fetch_add(core::mem::take(from), Ordering::Relaxed);
            }
        }
    }

    /// The counters now.
    pub(crate) fn get(&self) -> Counters {
        let [requests, read_bytes, written_bytes, errors] =
            self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        Counters { requests, read_bytes, written_bytes, errors }
    }

    /// Takes the latencies that have come since they were last taken.
    pub(crate) fn take_latencies(&self, into: &Latencies) {
        let all = &mut *into.0.borrow_mut();
        for (from, to) in self.latencies.iter().zip(all) {
            for (from, to) in from.iter().zip(&mut to.buckets) {
                *to += from.swap(0, Ordering::Relaxed);
            }
        }
    }
}

/// One request in so many is timed.
const TIMED: u64 = 16;

/// Latencies of some requests: reads, and changes.
#[derive(Default)]
pub(crate) struct Latencies(RefCell<[Histogram; 2]>);

impl Latencies {
    pub(crate) fn get(&self) -> [Histogram; 2] {
        self.0.borrow().clone()
    }

    /// The moment at which a request begins, if it is to be timed.
    #[inline]
    pub(crate) fn begin(io: &Io, tally: &SharedCounters) -> Option<Instant> {
        tally.get().requests.is_multiple_of(TIMED).then(|| io.now())
    }

    /// A request that began then has been carried out.
    pub(crate) fn end(&self, io: &Io, begun: Instant, changes: bool) {
        let micros = io.now().since(begun).as_micros();
        let bucket = (u128::BITS - micros.leading_zeros()) as usize;
        let buckets = &mut self.0.borrow_mut()[usize::from(changes)].buckets;
        let last = buckets.len() - 1;
        buckets[bucket.min(last)] += 1;
    }
}
