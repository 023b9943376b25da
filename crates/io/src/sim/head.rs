//! The head of a modelled disk: where it is, and what it has yet to write.

use std::collections::VecDeque;

use super::look_ahead::{LookAhead, Stretch};
use super::rng::Rng;
use super::stations::Platter;

/// Millionths: the whole stroke.
const STROKE: u64 = 1_000_000;

pub(super) struct Head {
    platter: Platter,
    size: u64,
    at: u64,
    /// Writes that were acknowledged and are not on the platter: when each will be, and its bytes.
    cached: VecDeque<(u64, u64)>,
    held: u64,
    ahead: LookAhead,
    /// The head reads ahead until then.
    free: u64,
    worked: u64,
}

/// An operation of the head.
#[derive(Clone, Copy)]
pub(super) struct Move {
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) kind: Moves,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moves {
    Reads,
    /// Acknowledged once it is in the cache.
    Writes,
    /// Acknowledged once it is on the platter.
    WritesThrough,
}

impl Head {
    pub(super) fn new(platter: Platter, size: u64) -> Self {
        Self {
            platter,
            size: size.max(1),
            at: 0,
            cached: VecDeque::new(),
            held: 0,
            ahead: LookAhead::default(),
            free: 0,
            worked: 0,
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn worked(&self) -> u64 {
        self.worked
    }

    /// The operation that is next: of the oldest, as many as the queue has, the nearest. A read whose bytes have been read ahead needs no
    /// head, and would find them gone later. Each is its offset, and whether it reads.
    pub(super) fn nearest(&self, operations: impl Iterator<Item = (u64, bool)>) -> Option<usize> {
        let queue = self.platter.queue.max(1) as usize;
        let far = |(offset, reads): (u64, bool)| match reads && self.ahead.has(offset) {
            true => 0,
            false => offset.abs_diff(self.at),
        };
        let nearest = operations.take(queue).enumerate().min_by_key(|(_, operation)| far(*operation));
        nearest.map(|(at, _)| at)
    }

    /// How long an operation that begins now takes to its acknowledgement; `waiting` others do so.
    pub(super) fn serve(&mut self, now: u64, op: Move, waiting: usize, rng: &mut Rng) -> u64 {
        self.drain(now);
        let chosen = waiting.min(self.platter.queue.max(1) as usize - 1);
        if op.kind == Moves::Writes && self.platter.cache > 0 {
            // Cached writes go to the platter in the order that suits the head. The nearest of `n` places drawn at
            // random is nearer by a factor of about `n`. The operation was already the nearest of the `chosen` that
            // wait.
            let queued = chosen.max(self.cached.len().min(self.platter.queue as usize));
            let nearer = (chosen as u64 + 1, queued as u64 + 1);
            let takes = self.position(op.offset, nearer, rng) + self.transfer(op.offset, op.len);
            self.went(op.offset, op.len, takes);
            return self.cache(now, op.len, takes);
        }
        if op.kind == Moves::Reads {
            return self.read(now, op, chosen, rng);
        }
        let begins = self.begins(now);
        let takes = self.reach(op.offset, chosen, rng) + self.transfer(op.offset, op.len);
        self.take(op.offset, op.len, takes);
        begins.saturating_add(takes) - now
    }

    /// A read that goes on where another ended finds its bytes read ahead, or the head reads ahead from there.
    fn read(&mut self, now: u64, op: Move, chosen: usize, rng: &mut Rng) -> u64 {
        let (offset, end) = (op.offset, op.offset.saturating_add(op.len));
        if let Some(known) = self.ahead.holding(offset, end) {
            return known.done.saturating_sub(self.transfer(end, known.to - end)).saturating_sub(now);
        }
        let before = self.ahead.take_before(offset, self.platter.look_ahead);
        // Bytes that lie between are read, too.
        let from = before.map_or(offset, |before| before.to.min(self.size));
        let reads = end.saturating_sub(from).max(if before.is_some() { self.platter.look_ahead } else { 0 });
        let reads = reads.min(self.size.saturating_sub(from).max(op.len));
        let begins = self.begins(now);
        let reach = self.reach(from, chosen, rng);
        let takes = reach.saturating_add(self.transfer(from, reads));
        self.take(from, reads, takes);
        if self.platter.look_ahead > 0 {
            self.free = begins.saturating_add(takes);
            let kept = offset.saturating_sub(self.platter.look_ahead);
            let from = before.map_or(offset, |before| before.from.max(kept));
            self.ahead.put(Stretch { from, to: self.at, done: self.free });
        }
        begins.saturating_add(reach).saturating_add(self.transfer(from, end.saturating_sub(from))) - now
    }

    /// When the head is free: it is reading ahead, or at a write from the cache.
    fn begins(&self, now: u64) -> u64 {
        let free = self.free.max(now);
        self.cached.front().map_or(free, |(end, _)| free.max(*end))
    }

    fn reach(&self, offset: u64, chosen: usize, rng: &mut Rng) -> u64 {
        self.position(offset, (chosen as u64 + 1, chosen as u64 + 1), rng)
    }

    /// The head is taken for so long; cached writes wait until then.
    fn take(&mut self, offset: u64, len: u64, takes: u64) {
        self.went(offset, len, takes);
        self.cached.iter_mut().skip(1).for_each(|(end, _)| *end = end.saturating_add(takes));
    }

    fn went(&mut self, offset: u64, len: u64, takes: u64) {
        self.at = offset.saturating_add(len);
        self.worked = self.worked.saturating_add(takes);
    }

    pub(super) fn until_drained(&mut self, now: u64) -> u64 {
        self.drain(now);
        self.cached.back().map_or(0, |(end, _)| end - now)
    }

    /// Time of the seek and of the wait for the sector. Of `all` waiting requests about the square root of their number
    /// are so near that the head chooses among them by rotation. The shortest of n random waits is a turn divided by
    /// n + 1. The place is the nearest of `chosen` already.
    fn position(&self, offset: u64, (chosen, all): (u64, u64), rng: &mut Rng) -> u64 {
        if offset == self.at {
            return 0;
        }
        let distance = u128::from(offset.abs_diff(self.at)) * u128::from(STROKE) / u128::from(self.size);
        let turn = 2 * self.platter.rotation / (all.isqrt() + 1);
        self.platter.seek.at(distance as u64 * chosen / all.max(1)) + rng.below(turn)
    }

    /// Zones: the rate falls evenly from the outer edge to the inner one.
    fn transfer(&self, offset: u64, len: u64) -> u64 {
        let Platter { outer, inner, .. } = self.platter;
        let fall = u128::from(outer.saturating_sub(inner)) * u128::from(offset.min(self.size));
        let rate = u128::from(outer) - fall / u128::from(self.size);
        (u128::from(len) * 1_000_000_000 / rate.max(1)) as u64
    }

    /// Puts a write that the head will need `takes` for into the cache: how long it waits until there is room.
    fn cache(&mut self, now: u64, len: u64, takes: u64) -> u64 {
        let begins = self.cached.back().map_or(now.max(self.free), |(end, _)| *end);
        self.cached.push_back((begins.saturating_add(takes), len));
        self.held += len;
        let mut held = self.held;
        let mut room = now;
        for (end, bytes) in &self.cached {
            if held <= self.platter.cache {
                break;
            }
            held -= bytes;
            room = *end;
        }
        let wire = u128::from(len) * 1_000_000_000 / u128::from(self.platter.outer.max(1));
        (room - now).saturating_add(wire as u64)
    }

    /// Forgets writes that are on the platter by `now`.
    fn drain(&mut self, now: u64) {
        while let Some(&(end, len)) = self.cached.front()
            && end <= now
        {
            self.cached.pop_front();
            self.held -= len;
        }
    }
}
