//! A volume whose requests take processor time, which is modelled: virtual time has no other.

use core::cell::Cell;
use core::ops::Range;
use std::rc::Rc;

use brindle_io::{Duration, Instant, Io, Slice};
use brindle_volume::{Allocation, Limits, Volume, VolumeError, ZeroOptions, bytes};

use super::costs::{Cost, Costs};
use crate::drive::constants::MD_CONTENTION;

/// The processor that carries out what others hand over.
const HOME: usize = 0;

/// A handle to the modelled processors.
#[derive(Clone)]
pub(super) struct Processors {
    io: Io,
    all: Rc<[Processor]>,
    /// The part of them that only one request can have at a time.
    shared: Rc<Processor>,
    /// How busy that part was lately.
    load: Rc<Cell<Load>>,
}

/// A processor, or what all of them share.
#[derive(Default)]
struct Processor {
    /// The time from which it is free.
    free: Cell<Instant>,
    /// Nanoseconds of work that it was given.
    given: Cell<u64>,
}

impl Processor {
    /// Nanoseconds that it has worked. Work that is given and not begun is none.
    fn worked(&self, now: Instant) -> u64 {
        self.given.get().saturating_sub(self.free.get().since(now).as_nanos() as u64)
    }
}

/// The share of time in which a station is busy, smoothed over [`Load::SPAN`].
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    share: f64,
    at: Instant,
}

impl Load {
    /// Nanoseconds.
    const SPAN: f64 = 1e6;

    fn given(self, now: Instant, nanos: u64) -> Self {
        let since = now.since(self.at).as_nanos() as f64;
        Self { share: (self.share * Self::SPAN + nanos as f64) / (Self::SPAN + since), at: now }
    }
}

impl Processors {
    pub(super) fn new(io: &Io, count: u32) -> Self {
        let all = (0..count).map(|_| Processor::default()).collect();
        Self { io: io.clone(), all, shared: Rc::default(), load: Rc::default() }
    }

    /// Nanoseconds that one of `count` has worked on average, or has held what only one can at a time, if that is more.
    pub(super) fn worked(&self, count: u32) -> u64 {
        let now = self.io.now();
        let own: u64 = self.all.iter().map(|one| one.worked(now)).sum();
        self.shared.worked(now).max(own / u64::from(count.max(1)))
    }

    /// Nanoseconds that each has worked.
    pub(super) fn each(&self) -> Vec<u64> {
        let now = self.io.now();
        self.all.iter().map(|one| one.worked(now)).collect()
    }

    /// Returns once the work is done: first what is shared, then what any of them can do. What comes to another than home
    /// is done there if channels carry it out, else for the most part at home.
    async fn work(&self, cost: Cost, in_channels: impl FnOnce() -> bool) {
        if cost.shared > 0 {
            self.load.set(self.load.get().given(self.io.now(), cost.shared));
            self.io.sleep_until(self.give(&self.shared, cost.shared)).await;
        }
        if cost.own == 0 {
            return;
        }
        let first = self.first_free();
        let done = match cost.elsewhere.filter(|_| first != HOME) {
            None => self.give(&self.all[first], cost.own),
            Some(elsewhere) if in_channels() => self.give(&self.all[first], elsewhere.in_channel),
            Some(elsewhere) => {
                let [there, at_home] = elsewhere.handed;
                self.io.sleep_until(self.give(&self.all[first], there)).await;
                self.give(&self.all[HOME], at_home)
            }
        };
        self.io.sleep_until(done).await;
    }

    /// The time that a holder of a lock costs another that needs it: little where it is seldom held, and more than in proportion where it is often.
    fn contended(&self, held: u64) -> u64 {
        let busy = self.load.get().share.min(1.0);
        (held as f64 * MD_CONTENTION * busy * busy) as u64
    }

    /// The processor that is free first.
    fn first_free(&self) -> usize {
        (0..self.all.len()).min_by_key(|&one| self.all[one].free.get()).unwrap_or(HOME)
    }

    /// Gives work to a processor: when it is done.
    fn give(&self, to: &Processor, nanos: u64) -> Instant {
        to.given.set(to.given.get() + nanos);
        let done = to.free.get().max(self.io.now()).after(Duration::from_nanos(nanos));
        to.free.set(done);
        done
    }
}

/// An array whose requests cost processor time before they begin. A handle.
#[derive(Clone)]
pub(super) struct Costly<V> {
    volume: V,
    processors: Processors,
    costs: Rc<Costs>,
    in_channels: Rc<InChannels>,
}

/// Whether channels carry out a read, or a write, of a range.
type InChannels = dyn Fn(Range<u64>, bool) -> bool;

impl<V: Volume> Costly<V> {
    /// Of several reactors those beside home carry out what `in_channels` says: a range, and whether it is written.
    pub(super) fn new(
        volume: V,
        processors: Processors,
        costs: Costs,
        in_channels: impl Fn(Range<u64>, bool) -> bool + 'static,
    ) -> Self {
        Self { volume, processors, costs: Rc::new(costs), in_channels: Rc::new(in_channels) }
    }

    /// Returns once what comes before a request is done: all that it costs. What the volume refuses costs nothing.
    async fn work(&self, (offset, len): (u64, u64), writes: bool) -> Cost {
        if self.volume.limits().check(offset, len).is_err() {
            return Cost::default();
        }
        let cost = if writes { self.costs.write(offset, len) } else { self.costs.read(offset, len) };
        self.processors.work(cost, || (self.in_channels)(offset..offset + len, writes)).await;
        cost
    }
}

impl<V: Volume> Volume for Costly<V> {
    fn limits(&self) -> Limits {
        self.volume.limits()
    }

    async fn read(&self, offset: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        let len = bytes(into.as_ref());
        let cost = self.work((offset, len), false).await;
        let taken = self.processors.contended(cost.held);
        if taken > 0 {
            // No request waits for what a read takes from the parity thread.
            self.processors.give(&self.processors.all[self.processors.first_free()], taken);
        }
        self.volume.read(offset, into).await
    }

    async fn write(&self, offset: u64, from: impl AsRef<[Slice]>, fua: bool) -> Result<(), VolumeError> {
        let len = bytes(from.as_ref());
        let Cost { beside, .. } = self.work((offset, len), true).await;
        if beside == 0 {
            return self.volume.write(offset, from, fua).await;
        }
        let processors = self.processors.clone();
        let rest = Cost { own: beside, ..Cost::default() };
        let beside = self.processors.io.spawn(async move { processors.work(rest, || false).await });
        let done = self.volume.write(offset, from, fua).await;
        beside.await;
        done
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.volume.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.volume.discard(offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError> {
        self.volume.write_zeroes(offset, len, options).await
    }

    async fn allocation(
        &self,
        offset: u64,
        len: u64,
        found: &mut Vec<Allocation>,
    ) -> Result<(), VolumeError> {
        self.volume.allocation(offset, len, found).await
    }
}

#[cfg(test)]
mod tests {
    use brindle_io::Io;
    use brindle_io::sim::{Model, Sim};
    use brindle_testkit::conformance::conforms;

    use brindle_layout::{Geometry, Layout, Level};

    use super::*;
    use crate::predict::door::Door;
    use crate::predict::spec::Policies;
    use brindle_volume::LoneMember;

    #[test]
    fn a_volume_whose_requests_cost_time_conforms_as_the_one_beneath() {
        let sim = Sim::new(21);
        let member = sim.add_blank_drive(Model::nvme(), 256 << 10);
        let io = Io::new(Box::new(sim));
        let pool = io.pool(8 << 20);
        let device = LoneMember::new(&io, member, false).unwrap();
        let geometry = Geometry::new(Level::Linear, Layout::None, 0, &[256 << 10]).unwrap();
        let costs = Costs::new(Policies::Brindle(Door::Tcp), &geometry).shared_by(2);
        let reads_alone = |_, writes: bool| !writes;
        let volume = Costly::new(device, Processors::new(&io, 2), costs, reads_alone);
        io.block_on(conforms("costly", &io, &pool, &volume));
        io.shutdown();
    }
}
