//! A volume whose requests take processor time, which is modelled: virtual time has no other.

use core::cell::Cell;
use std::rc::Rc;

use brindle_io::{Duration, Instant, Io, Slice};
use brindle_volume::{Allocation, Limits, Volume, VolumeError, ZeroOptions, bytes};

use super::costs::{Cost, Costs};
use crate::drive::constants::MD_CONTENTION;

/// A handle to the modelled processors.
#[derive(Clone)]
pub(super) struct Processors {
    io: Io,
    /// The time from which each processor is free.
    free: Rc<[Cell<Instant>]>,
    /// The part of the processor that only one request can have at a time: free from this time on.
    shared: Rc<Cell<Instant>>,
    /// How busy that part was lately.
    load: Rc<Cell<Load>>,
    /// Nanoseconds of work that was given to any processor, and of work that only one can do at a time.
    given: Rc<[Cell<u64>; 2]>,
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
        let free = (0..count).map(|_| Cell::new(Instant::default())).collect();
        Self { io: io.clone(), free, shared: Rc::default(), load: Rc::default(), given: Rc::default() }
    }

    /// Nanoseconds that one of `count` has worked on average, or has held what only one can at a time, if that is more. Work that is
    /// given and not begun is none.
    pub(super) fn worked(&self, count: u32) -> u64 {
        let now = self.io.now();
        let open = |until: &Cell<Instant>| until.get().since(now).as_nanos() as u64;
        let own = self.given[0].get().saturating_sub(self.free.iter().map(open).sum());
        let shared = self.given[1].get().saturating_sub(open(&self.shared));
        shared.max(own / u64::from(count.max(1)))
    }

    /// Returns once the work is done: first what is shared, then what any of them can do.
    async fn work(&self, cost: Cost) {
        if cost.shared > 0 {
            self.load.set(self.load.get().given(self.io.now(), cost.shared));
            self.io.sleep_until(self.give(1, &self.shared, cost.shared)).await;
        }
        if cost.own > 0 {
            self.io.sleep_until(self.give_to_any(cost.own)).await;
        }
    }

    /// The time that a holder of a lock costs another that needs it: little where it is seldom held, and more than in proportion where it is often.
    fn contended(&self, held: u64) -> u64 {
        let busy = self.load.get().share.min(1.0);
        (held as f64 * MD_CONTENTION * busy * busy) as u64
    }

    /// Gives work to the processor that is free first: when it is done.
    fn give_to_any(&self, nanos: u64) -> Instant {
        let first = self.free.iter().min_by_key(|free| free.get());
        first.map_or(self.io.now(), |first| self.give(0, first, nanos))
    }

    fn give(&self, kind: usize, station: &Cell<Instant>, nanos: u64) -> Instant {
        self.given[kind].set(self.given[kind].get() + nanos);
        let done = station.get().max(self.io.now()).after(Duration::from_nanos(nanos));
        station.set(done);
        done
    }
}

/// An array whose requests cost processor time before they begin. A handle.
#[derive(Clone)]
pub(super) struct Costly<V> {
    volume: V,
    processors: Processors,
    costs: Rc<Costs>,
}

impl<V: Volume> Costly<V> {
    pub(super) fn new(volume: V, processors: Processors, costs: Costs) -> Self {
        Self { volume, processors, costs: Rc::new(costs) }
    }

    /// Returns once what comes before a request is done: all that it costs. What the volume refuses costs nothing.
    async fn work(&self, offset: u64, len: u64, cost: impl FnOnce(&Costs) -> Cost) -> Cost {
        if self.volume.limits().check(offset, len).is_err() {
            return Cost::default();
        }
        let cost = cost(&self.costs);
        self.processors.work(cost).await;
        cost
    }
}

impl<V: Volume> Volume for Costly<V> {
    fn limits(&self) -> Limits {
        self.volume.limits()
    }

    async fn read(&self, offset: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        let len = bytes(into.as_ref());
        let cost = self.work(offset, len, |costs| costs.read(offset, len)).await;
        let taken = self.processors.contended(cost.held);
        if taken > 0 {
            // No request waits for what a read takes from the parity thread.
            self.processors.give_to_any(taken);
        }
        self.volume.read(offset, into).await
    }

    async fn write(&self, offset: u64, from: impl AsRef<[Slice]>, fua: bool) -> Result<(), VolumeError> {
        let len = bytes(from.as_ref());
        let Cost { beside, .. } = self.work(offset, len, |costs| costs.write(offset, len)).await;
        if beside == 0 {
            return self.volume.write(offset, from, fua).await;
        }
        let processors = self.processors.clone();
        let rest = Cost { own: beside, ..Cost::default() };
        let beside = self.processors.io.spawn(async move { processors.work(rest).await });
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
        let costs = Costs::new(Policies::Brindle(Door::Tcp), &geometry);
        let volume = Costly::new(device, Processors::new(&io, 2), costs);
        io.block_on(conforms("costly", &io, &pool, &volume));
        io.shutdown();
    }
}
