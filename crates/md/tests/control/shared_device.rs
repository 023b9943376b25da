//! Two arrays on the same devices: each waits for them with its own patience.

use std::cell::Cell;
use std::rc::Rc;

use brindle_array::ledger::Nothing;
use brindle_array::{Array, Device, OpenConfig, Patience, RoleState};
use brindle_io::Duration;
use brindle_io::sim::{Model, Sim};
use brindle_layout::{Geometry, Layout, Level};
use brindle_testkit::world;

use crate::common::*;

const SIZE: u64 = MIB;

/// A mirror of all drives that begins at `data_offset` on each.
fn mirror(world: &World<Sim>, data_offset: u64, answer: Duration) -> Array {
    let geometry = Geometry::new(Level::Raid1, Layout::None, 0, &[SIZE, SIZE]).unwrap();
    let devices = world.ids.iter().map(|&id| Some(Device { id, data_offset })).collect();
    let patience = Patience { answer, ..Patience::default() };
    let config = OpenConfig { patience, ..world::patient() };
    Array::kept(&world.io, geometry, devices, Box::new(Nothing), &config)
}

#[test]
fn the_patience_of_one_array_gives_up_nothing_of_another() {
    let sim = Sim::new(3);
    let ids = (0..2).map(|_| sim.add_blank_drive(Model::nvme(), 4 * MIB)).collect();
    let world = World::over(sim, ids, brindle_format::md::Version::V1_2);
    let (io, slow) = (&world.io, world.ids[1]);
    let (hasty, calm) =
        (mirror(&world, 0, Duration::from_secs(2)), mirror(&world, 2 * MIB, Duration::from_secs(60)));
    let hang = |hangs| world.bench.afflict(slow, |faults| faults.hangs = hangs);
    hang(true);
    let write = |array: &Array| {
        let (pool, array, ended) = (world.pool.clone(), array.clone(), Rc::new(Cell::new(false)));
        let ends = Rc::clone(&ended);
        drop(io.spawn(async move {
            world::write(&pool, &array, 0, &[5; 4096]).await.unwrap();
            ends.set(true);
        }));
        ended
    };
    let (first, second) = (write(&hasty), write(&calm));
    io.block_on(io.sleep(Duration::from_secs(5)));
    assert!(first.get() && !second.get(), "{} {}", first.get(), second.get());
    assert_eq!((hasty.state(1), calm.state(1)), (RoleState::Failed, RoleState::InSync));
    let counters = io.counters(slow);
    // Each counts one write and one look at the device.
    assert_eq!((counters.given_up, io.orphans(slow), io.orphans_of_all(slow)), (2, 2, 2));
    assert!(counters.in_flight == 4 && counters.oldest > Some(Duration::from_secs(4)), "{counters:?}");
    // An array that has failed the device has no part in the other's operations from now on.
    let third = write(&calm);
    hang(false);
    io.block_on(io.sleep(Duration::from_secs(1)));
    assert!(second.get() && third.get(), "{:?}", calm.events_since(0));
    assert_eq!((calm.state(1), io.orphans(slow), io.counters(slow).late), (RoleState::InSync, 0, 2));
    io.block_on(calm.fail(0)).unwrap();
    assert!(world.read(&calm, 0, 4096).unwrap() == [5; 4096], "it is asked by the other still");
    world.stop(&calm);
    world.stop(&hasty);
}
