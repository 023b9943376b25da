//! The timing of a drive with a measured model: see [`Stations`]. Times are nanoseconds on the sim's clock.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use super::cache::Cache;
use super::head::{Head, Move, Moves};
use super::rng::Rng;
use super::stations::{Stations, Uplink};
use crate::op::{OpKey, OpKind};

/// Places at which the drive sees a stream go on.
const STREAMS: usize = 16;
/// The mix is measured over this many operations, smoothed.
const MEMORY: i64 = 128;
/// Thousandths of per cent.
const PERCENT: i64 = 1000;

/// The stations of one drive.
pub(super) struct Busy {
    stations: Rc<Stations>,
    /// Operations that are not begun, in the order in which they came: with their offsets, and whether they read.
    waiting: VecDeque<(OpKey, u64, bool)>,
    free_units: u32,
    /// The shared station is free from then on.
    shared: u64,
    /// Streams of writes and of reads that went on lately.
    streams: [[Stream; STREAMS]; 2],
    next_stream: [usize; 2],
    /// Operations of streams that have yet to pass the shared station: kind and offset.
    flowing: BTreeSet<(bool, u64)>,
    /// Reads among what was begun lately, thousandths of per cent; none before the first.
    reads: Option<i64>,
    worked: u64,
    head: Option<Head>,
    /// The volatile cache of a drive without a head.
    cache: Option<Cache>,
}

/// The position of a sequential stream of operations.
#[derive(Clone, Copy)]
struct Stream {
    end: u64,
    /// When the last of them is ready: what follows it is not sooner.
    ready: u64,
}

/// No operation has ended here.
const NOWHERE: Stream = Stream { end: u64::MAX, ready: 0 };

impl Busy {
    pub(super) fn new(stations: Rc<Stations>, size: u64) -> Self {
        let head = stations.platter.as_ref().map(|platter| Head::new(platter.clone(), size));
        Self {
            waiting: VecDeque::new(),
            free_units: if head.is_some() { 1 } else { stations.units.max(1) },
            shared: 0,
            streams: [[NOWHERE; STREAMS]; 2],
            next_stream: [0; 2],
            flowing: BTreeSet::new(),
            reads: None,
            worked: 0,
            cache: stations.volatile_flush().map(Cache::new),
            head,
            stations,
        }
    }

    pub(super) fn stations(&self) -> &Rc<Stations> {
        &self.stations
    }

    /// Forgets all operations under way.
    pub(super) fn forget(&mut self) {
        let size = self.head.as_ref().map_or(0, Head::size);
        *self = Self::new(Rc::clone(&self.stations), size);
    }

    pub(super) fn worked(&self) -> u64 {
        self.head.as_ref().map_or(self.worked, Head::worked)
    }

    pub(super) fn enter(&mut self, key: OpKey, kind: OpKind) -> bool {
        if self.free_units == 0 {
            let reads = matches!(kind, OpKind::Read { .. });
            self.waiting.push_back((key, offset(kind).unwrap_or(0), reads));
            return false;
        }
        self.free_units -= 1;
        true
    }

    pub(super) fn leave(&mut self) -> Option<OpKey> {
        let at = match &self.head {
            Some(head) => head.nearest(self.waiting.iter().map(|&(_, offset, reads)| (offset, reads))),
            None => (!self.waiting.is_empty()).then_some(0),
        };
        let next = at.and_then(|at| self.waiting.remove(at));
        self.free_units += u32::from(next.is_none());
        next.map(|next| next.0)
    }

    /// How long an operation that begins now takes until its first byte can move; on a disk until it is done.
    pub(super) fn latency(&mut self, now: u64, kind: OpKind, len: u64, rng: &mut Rng) -> u64 {
        let path = match kind {
            OpKind::Flush { .. } => return self.flush(now),
            OpKind::Read { .. } => &self.stations.read,
            _ => &self.stations.write,
        };
        let moved = if transfers(kind) { len } else { 0 };
        let reads = matches!(kind, OpKind::Read { .. });
        if let (Some(head), Some(offset)) = (&mut self.head, offset(kind)) {
            let own = spread(path.latency.at(moved), path.spread, rng);
            let kind = match kind {
                _ if reads => Moves::Reads,
                OpKind::Write { fua: true, .. } => Moves::WritesThrough,
                _ => Moves::Writes,
            };
            return own + head.serve(now, Move { offset, len, kind }, self.waiting.len(), rng);
        }
        let stream = offset(kind).map(|offset| self.stream(offset, len, reads));
        if transfers(kind) {
            let one = if reads { 100 * PERCENT } else { 0 };
            self.reads = Some(self.reads.map_or(one, |before| before + (one - before) / MEMORY));
        }
        let path = if reads { &self.stations.read } else { &self.stations.write };
        let Some((place, goes_on)) = stream else { return spread(path.latency.at(moved), path.spread, rng) };
        let (alone, stream) = (path.latency.at(moved), path.stream.at(moved));
        let mean = if goes_on { stream } else { alone };
        if goes_on && path.streamed.is_some() {
            self.flowing.extend(offset(kind).map(|offset| (reads, offset)));
        }
        let mut ready = now.saturating_add(spread(mean, path.spread, rng));
        let last = &mut self.streams[usize::from(reads)][place].ready;
        // A sequential read is faster because the operation before it prefetched its bytes.
        if goes_on && stream < alone {
            ready = ready.max(*last);
        }
        *last = ready;
        ready - now
    }

    fn flush(&mut self, now: u64) -> u64 {
        match (&mut self.head, &mut self.cache) {
            (Some(head), _) => head.until_drained(now) + self.stations.flush,
            (None, Some(cache)) => cache.stable(now) - now,
            (None, None) => self.stations.flush,
        }
    }

    /// The stream that an operation belongs to from now on, and whether it was there before.
    fn stream(&mut self, offset: u64, len: u64, reads: bool) -> (usize, bool) {
        let kind = usize::from(reads);
        let streams = &mut self.streams[kind];
        let at = streams.iter().position(|stream| stream.end == offset);
        let place = at.unwrap_or(self.next_stream[kind]);
        streams[place].end = offset.saturating_add(len);
        if at.is_none() {
            self.next_stream[kind] = (place + 1) % STREAMS;
        }
        (place, at.is_some())
    }

    /// An operation's bytes are ready at `now`: when they will have moved. `None` if none have to.
    pub(super) fn transfer(
        &mut self,
        now: u64,
        kind: OpKind,
        len: u64,
        slowness: u64,
        uplink: &mut Uplink,
    ) -> Option<u64> {
        if !transfers(kind) || self.head.is_some() {
            return None;
        }
        let reads = matches!(kind, OpKind::Read { .. });
        let path = if reads { &self.stations.read } else { &self.stations.write };
        let flows = offset(kind).is_some_and(|offset| self.flowing.remove(&(reads, offset)));
        let occupancy = path.streamed.as_ref().filter(|_| flows).unwrap_or(&path.occupancy);
        let mix = (self.reads.unwrap_or(0) + PERCENT / 2) / PERCENT;
        let factor = self.stations.mix(mix as u32, len);
        let holds = occupancy.growing_at(len).saturating_mul(factor) / 1000;
        self.worked = self.worked.saturating_add(holds);
        self.shared = self.shared.max(now).saturating_add(holds.saturating_mul(slowness));
        Some(self.settle(self.moved(now, reads, len, uplink), kind))
    }

    /// When the bytes have passed the link, too, that drives share.
    fn moved(&self, now: u64, reads: bool, len: u64, uplink: &mut Uplink) -> u64 {
        if self.stations.uplink == 0 {
            return self.shared;
        }
        let nanos = u128::from(len) * 1_000_000_000 / u128::from(self.stations.uplink);
        let link = if reads { &mut uplink.read } else { &mut uplink.write };
        *link = (*link).max(now).saturating_add(nanos as u64);
        self.shared.max(*link)
    }

    /// The drive has the bytes at `done`: when the operation is acknowledged.
    fn settle(&mut self, done: u64, kind: OpKind) -> u64 {
        let (Some(cache), OpKind::Write { fua, .. }) = (&mut self.cache, kind) else { return done };
        cache.wrote(done);
        if fua { cache.stable(done) } else { done }
    }
}

fn offset(kind: OpKind) -> Option<u64> {
    match kind {
        OpKind::Read { offset, .. } | OpKind::Write { offset, .. } => Some(offset),
        _ => None,
    }
}

fn transfers(kind: OpKind) -> bool {
    offset(kind).is_some()
}

/// A random latency with this mean, and a deviation of this many per cent. The sum of four even draws, which is close
/// to a normal distribution, and needs no function whose last digit differs between machines.
fn spread(mean: u64, percent: u32, rng: &mut Rng) -> u64 {
    if percent == 0 || mean == 0 {
        return mean;
    }
    let drawn = rng.next();
    let sum: u64 = (0..4).map(|n| drawn >> (16 * n) & 0xffff).sum();
    // The sum's mean, and its deviation: 65536 times the root of a third.
    let (middle, deviation) = (131_070i128, 37_837i128);
    let from = i128::from(mean) * i128::from(percent) * (i128::from(sum) - middle) / (100 * deviation);
    (i128::from(mean) + from).max(0) as u64
}
