//! The executors of a world beside the first: which have work, and in which order they are driven.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::drive::Flying;
use super::rng::Rng;
use crate::exec::Io;
use crate::op::{Completion, OpKey, OpKind};
use crate::reactor::Unpark;

/// In keys of operations the number of the executor stands above this many bits.
pub(super) const KEY_BITS: u32 = 24;

/// One in so many executors that have work is passed over.
const LATE: u64 = 4;

/// The executors of a world beside the first.
pub(super) struct Others {
    pub(super) executors: Vec<Io>,
    pub(super) ports: Vec<Port>,
    /// Chance of its own, so that a world of one executor is as it is without this.
    pub(super) random: Rng,
    /// They are being driven by the first one.
    pub(super) driven: bool,
    /// The first one is wanted.
    pub(super) called: Arc<AtomicBool>,
}

/// An executor's side of the world.
#[derive(Default)]
pub(super) struct Port {
    pub(super) completed: Vec<Completion>,
    /// The moment at which it wants to be driven at the latest.
    pub(super) until: Option<u64>,
    /// Its operations on drives, by its own keys.
    flying: Vec<Option<Flying>>,
}

/// The operation of a key that is no operation of the first executor's.
pub(super) fn flying_beyond(others: &Others, key: u32) -> Option<&Flying> {
    let port = others.ports.get((key >> KEY_BITS).checked_sub(1)? as usize)?;
    port.flying.get(own_key(key) as usize)?.as_ref()
}

/// The key by which its port knows an operation.
fn own_key(key: u32) -> u32 {
    key & ((1 << KEY_BITS) - 1)
}

impl Others {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            executors: Vec::new(),
            ports: Vec::new(),
            random: Rng::new(seed ^ 0x706f_7274),
            driven: false,
            called: Arc::default(),
        }
    }

    /// Whether there is one, or was.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        !self.ports.is_empty()
    }

    /// Whether the first executor is wanted, by one of the others.
    pub(super) fn is_called(&self) -> bool {
        !self.executors.is_empty() && self.called.swap(false, Ordering::Relaxed)
    }

    pub(super) fn unpark(&self) -> Unpark {
        let called = Arc::clone(&self.called);
        Arc::new(move || called.store(true, Ordering::Relaxed))
    }

    /// Whether executor number `at` has something to do now.
    fn has_work(&self, at: usize, now: u64) -> bool {
        let Port { completed, until, .. } = &self.ports[at];
        !completed.is_empty() || until.is_some_and(|until| until <= now) || self.executors[at].has_work()
    }

    /// The executors that are driven next, in the order in which they are.
    pub(super) fn next(&mut self, now: u64) -> Vec<Io> {
        let mut ready: Vec<usize> = (0..self.executors.len()).filter(|&at| self.has_work(at, now)).collect();
        let mut next = Vec::new();
        while !ready.is_empty() {
            let at = ready.swap_remove(self.random.below(ready.len() as u64) as usize);
            if next.is_empty() && ready.is_empty() || self.random.below(LATE) > 0 {
                next.push(self.executors[at].clone());
            }
        }
        next
    }
}

impl Others {
    /// The place of a port's operation.
    ///
    /// # Panics
    /// If there never was an operation of that key.
    pub(super) fn get_mut(&mut self, key: u32) -> &mut Option<Flying> {
        &mut self.ports[(key >> KEY_BITS) as usize - 1].flying[own_key(key) as usize]
    }

    /// A port has one more operation on a drive.
    pub(super) fn put(&mut self, key: u32, op: Flying) {
        let (flying, at) = (&mut self.ports[(key >> KEY_BITS) as usize - 1].flying, own_key(key) as usize);
        if at >= flying.len() {
            flying.resize(at + 1, None);
        }
        flying[at] = Some(op);
    }

    /// Operations that are under way on drives for all ports.
    pub(super) fn kinds(&self) -> impl Iterator<Item = OpKind> + '_ {
        self.ports.iter().flat_map(|port| &port.flying).flatten().map(|op| op.kind)
    }

    /// Takes all operations on drives of all ports, with their keys.
    pub(super) fn take_flying(&mut self) -> Vec<(u32, Flying)> {
        let mut taken = Vec::new();
        for (number, port) in (1..).zip(&mut self.ports) {
            for (key, op) in (0..).zip(&mut port.flying) {
                taken.extend(op.take().map(|op| (key | number << KEY_BITS, op)));
            }
        }
        taken
    }

    /// An executor has ended: its memory is touched no more, whatever drives still have of it.
    pub(super) fn let_go(&mut self, number: usize) {
        let port = &mut self.ports[number - 1];
        port.completed.clear();
        port.until = None;
        port.flying.iter_mut().flatten().for_each(Flying::forget_memory);
    }

    /// Gives each its completions: what is left is the first one's.
    pub(super) fn sort(&mut self, completed: &mut Vec<Completion>) {
        if self.ports.is_empty() {
            return;
        }
        let theirs = completed.extract_if(.., |completion| completion.key.0 >> KEY_BITS > 0);
        for Completion { key, result } in theirs {
            let (port, key) = (key.0 >> KEY_BITS, OpKey(own_key(key.0)));
            self.ports[port as usize - 1].completed.push(Completion { key, result });
        }
    }

    /// The first moment that any of them wants.
    pub(super) fn until(&self) -> Option<u64> {
        self.ports.iter().filter_map(|port| port.until).min()
    }
}
