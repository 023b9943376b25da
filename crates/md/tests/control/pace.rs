//! Mirrors with a member that is slow, in virtual time: what it costs, and how the others share the work.

use std::cell::Cell;
use std::rc::Rc;

use brindle_io::Duration;
use brindle_io::sim::{Model, Sim};
use brindle_io::sync::join_all;
use brindle_layout::Level;
use brindle_testkit::running::Running;
use brindle_volume::{Volume, read_again};

use crate::common::*;

/// A drive on which a second has a tenth of the reads of [`Model::sata_ssd`], and so costs a tenth to run.
const UNHURRIED: Model = Model { read_latency: 900_000, read_bandwidth: 53_000_000, ..Model::sata_ssd() };

/// A read of the slow member takes some 200 ms.
const SLOWNESS: u32 = 220;

/// An array of which each member has 16 MiB.
struct Mirror(Running<Sim>);

impl Mirror {
    fn new(shape: &Shape, model: Model) -> Self {
        Self(Running::start(World::in_sim(shape, model, 3), patient()))
    }

    fn set_slowness(&self, member: usize, slowness: u32) {
        self.0.bench.afflict(self.0.ids[member], |faults| faults.slowness = slowness);
    }

    /// Reads at places without pattern, `depth` at a time, for some virtual seconds; how many were answered.
    fn reads(&self, len: usize, depth: u64, seconds: f64) -> u64 {
        let end = self.0.io.now().after(Duration::from_secs_f64(seconds));
        let count = Rc::new(Cell::new(0));
        self.0.io.block_on(async {
            let lanes = (0..depth).map(|lane| {
                let (array, io, count) = (self.0.array.clone(), self.0.io.clone(), Rc::clone(&count));
                self.0.io.spawn(async move {
                    // A slow member keeps some of it for a while, after it was given up.
                    let pool = io.pool(16 * len);
                    let (mut random, places) = (Random::stream(3, lane), array.limits().size / len as u64);
                    while io.now() < end {
                        let place = random.below(places) * len as u64;
                        read_again(&array, place, async || pool.alloc(len).await.all()).await.unwrap();
                        count.set(count.get() + 1);
                    }
                })
            });
            join_all(lanes.collect::<Vec<_>>()).await;
        });
        count.get()
    }

    /// Reads that each member has been asked for.
    fn shares(&self) -> Vec<u64> {
        self.0.ids.iter().map(|&id| self.0.bench.operations(id)).collect()
    }
}

fn mirrors() -> [Shape; 4] {
    let shape = |level, members| Shape { chunk: 64 << 10, rows: 256, ..Shape::new(level, members) };
    [
        shape(Level::Raid1, 2),
        shape(Level::Raid1, 3),
        shape(Level::Raid10, 4).layout("n2"),
        shape(Level::Raid10, 4).layout("f2"),
    ]
}

#[test]
fn one_slow_member_costs_little_of_what_the_others_can_do() {
    for shape in mirrors() {
        for (len, depth, seconds) in [(4096, 1, 15.0), (1 << 20, 1, 25.0), (4096, 8, 4.0)] {
            let healthy = Mirror::new(&shape, UNHURRIED);
            let slow = Mirror::new(&shape, UNHURRIED);
            slow.set_slowness(1, SLOWNESS);
            let (healthy, slow) = (healthy.reads(len, depth, seconds), slow.reads(len, depth, seconds));
            // Small reads lose next to nothing. Of large ones, another member has twice as much to read.
            let share = if len == 4096 { 80 } else { 35 };
            assert!(slow * 100 >= healthy * share, "{shape}, {len} bytes: {slow} of {healthy}");
        }
    }
}

#[test]
fn a_member_that_becomes_slow_is_noticed_and_so_is_its_recovery() {
    for shape in mirrors() {
        for len in [4096, 1 << 20] {
            let world = Mirror::new(&shape, UNHURRIED);
            let healthy = world.reads(len, 1, 2.0);
            world.set_slowness(1, SLOWNESS);
            world.reads(len, 1, 10.0);
            let slow = world.reads(len, 1, 2.0);
            assert!(slow * 100 >= healthy * 35, "{shape}, {len} bytes: {slow} of {healthy}");
            world.set_slowness(1, 0);
            // 20 s until it is asked again, and then as long as it takes to trust it.
            world.reads(len, 1, 25.0);
            let before = world.shares();
            let again = world.reads(len, 1, 2.0);
            assert!(again * 100 >= healthy * 95, "{shape}, {len} bytes: {again} of {healthy}");
            let shares: Vec<u64> =
                world.shares().iter().zip(before).map(|(now, before)| now - before).collect();
            let (most, least) = (shares.iter().max().unwrap(), shares.iter().min().unwrap());
            assert!(least * 100 >= most * 80, "{shape}, {len} bytes: {shares:?}");
        }
    }
}

#[test]
fn equal_members_share_the_reads_evenly() {
    for model in [Model::nvme(), Model::sata_ssd(), Model::hdd()] {
        for shape in mirrors() {
            for (len, depth) in [(4096, 1), (4096, 32), (1 << 20, 1), (256 << 10, 8)] {
                let world = Mirror::new(&shape, model);
                let before = world.shares();
                world.reads(len, depth, if model.rotation > 0 { 20.0 } else { 0.1 });
                let shares: Vec<u64> =
                    world.shares().iter().zip(before).map(|(now, before)| now - before).collect();
                let (most, least) = (shares.iter().max().unwrap(), shares.iter().min().unwrap());
                assert!(least * 100 >= most * 85, "{shape}, {len} bytes, {depth}: {shares:?}");
            }
        }
    }
}

/// Arrays with parity have no other copy: the rest of the row is read instead.
#[test]
fn a_member_of_an_array_with_parity_that_grows_slow_is_read_less_until_it_is_as_fast_again() {
    for (level, members) in [(Level::Raid4, 4), (Level::Raid5, 4), (Level::Raid6, 5)] {
        let shape = Shape { chunk: 64 << 10, rows: 64, ..Shape::new(level, members) };
        let world = Mirror::new(&shape, UNHURRIED);
        let reads_of = |seconds: f64| {
            let before = world.shares();
            let count = world.reads(4096, 4, seconds);
            let shares: Vec<u64> =
                world.shares().iter().zip(before).map(|(now, before)| now - before).collect();
            (count, shares)
        };
        let (healthy, shares) = reads_of(5.0);
        assert!(shares[1] * 2 > shares[0], "{level}: {shares:?}");
        world.set_slowness(1, 20);
        let (slow, _) = reads_of(5.0);
        assert!(slow * 3 < healthy, "{level}: {slow} of {healthy}");
        reads_of(30.0);
        assert!(world.0.array.detail().devices[1].slower.is_some(), "{level}: it is told");
        let (slow_peer, shares) = reads_of(5.0);
        assert!(slow_peer > 2 * slow, "{level}: {slow_peer}, {slow} before, {healthy} when all were fast");
        assert!(shares[1] * 4 < shares[0] && shares[1] > 0, "{level}: {shares:?}");
        // No operation is given up, and no member failed.
        assert_eq!(world.0.array.detail().degraded, 0);
        world.set_slowness(1, 0);
        reads_of(40.0);
        assert_eq!(world.0.array.detail().devices[1].slower, None, "{level}");
        let (again, shares) = reads_of(5.0);
        assert!(
            again * 10 > healthy * 9 && shares[1] * 2 > shares[0],
            "{level}: {again} of {healthy}, {shares:?}"
        );
    }
}
