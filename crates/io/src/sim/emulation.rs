//! Measured drives on another clock: the stations of the sim without its world, for members that answer in real time.

use core::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use super::busy::Busy;
use super::rng::Rng;
use super::stations::{Stations, Uplink};
use crate::op::{OpKey, OpKind};

/// Drives, and the operations under way at them. Moments are nanoseconds on the caller's clock, which never goes
/// back.
pub struct Emulation {
    rng: Rng,
    uplink: Uplink,
    drives: Vec<Busy>,
    /// Indexed by moment; events of one moment come in the order in which they were added.
    agenda: BinaryHeap<Reverse<(u64, u64, EmulationEvent)>>,
    known: u64,
    /// Indexed by key.
    flying: Vec<Option<Flying>>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum EmulationEvent {
    /// An operation's first byte can move.
    Ready(u32),
    /// An operation is done.
    Done(u32),
}

#[derive(Clone, Copy)]
struct Flying {
    drive: usize,
    kind: OpKind,
    len: u64,
}

impl Emulation {
    /// No drives yet; the spread of latencies comes from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            uplink: Uplink::default(),
            drives: Vec::new(),
            agenda: BinaryHeap::new(),
            known: 0,
            flying: Vec::new(),
        }
    }

    /// A drive of `bytes` bytes; gives its number.
    pub fn add(&mut self, stations: &Rc<Stations>, bytes: u64) -> usize {
        self.drives.push(Busy::new(Rc::clone(stations), bytes));
        self.drives.len() - 1
    }

    /// A drive is asked for something. `key` is that of no other operation under way.
    pub fn ask(&mut self, now: u64, drive: usize, key: OpKey, kind: OpKind, len: u64) {
        let at = key.0 as usize;
        if at >= self.flying.len() {
            self.flying.resize(at + 1, None);
        }
        self.flying[at] = Some(Flying { drive, kind, len });
        if self.drives[drive].enter(key, kind) {
            self.begin(now, key);
        }
    }

    /// When something happens next; none if nothing is under way.
    #[must_use]
    pub fn next(&self) -> Option<u64> {
        self.agenda.peek().map(|Reverse((at, ..))| *at)
    }

    /// Carries out all events up to a moment, and adds the completed operations with their times.
    pub fn advance(&mut self, until: u64, done: &mut Vec<(OpKey, u64)>) {
        while let Some(&Reverse((at, _, event))) = self.agenda.peek()
            && at <= until
        {
            self.agenda.pop();
            match event {
                EmulationEvent::Ready(key) => self.ready(at, OpKey(key), done),
                EmulationEvent::Done(key) => self.done(at, OpKey(key), done),
            }
        }
    }

    /// Forgets all operations under way.
    pub fn forget(&mut self) {
        self.agenda.clear();
        self.flying.clear();
        self.drives.iter_mut().for_each(Busy::forget);
    }

    fn schedule(&mut self, at: u64, event: EmulationEvent) {
        self.known += 1;
        self.agenda.push(Reverse((at, self.known, event)));
    }

    fn begin(&mut self, now: u64, key: OpKey) {
        let Some(op) = self.flying[key.0 as usize] else { return };
        let latency = self.drives[op.drive].latency(now, op.kind, op.len, &mut self.rng);
        self.schedule(now.saturating_add(latency), EmulationEvent::Ready(key.0));
    }

    fn ready(&mut self, now: u64, key: OpKey, done: &mut Vec<(OpKey, u64)>) {
        let Some(op) = self.flying[key.0 as usize] else { return };
        match self.drives[op.drive].transfer(now, op.kind, op.len, 1, &mut self.uplink) {
            Some(at) => self.schedule(at, EmulationEvent::Done(key.0)),
            None => self.done(now, key, done),
        }
    }

    fn done(&mut self, now: u64, key: OpKey, done: &mut Vec<(OpKey, u64)>) {
        let Some(op) = self.flying[key.0 as usize].take() else { return };
        done.push((key, now));
        if let Some(next) = self.drives[op.drive].leave() {
            self.begin(now, next);
        }
    }
}
