//! Arrays over other ledgers than md's superblocks: the same policy.

use std::cell::RefCell;
use std::rc::Rc;

use brindle_array::ledger::{Bears, Ledger, Nothing, Recording, Refusals, State};
use brindle_array::{Array, Device, EventKind, Failed, OpenConfig, RoleState};
use brindle_format::md::Version;
use brindle_io::sim::Sim;
use brindle_io::{Duration, MemberId};
use brindle_layout::Level;
use brindle_volume::VolumeError;

use crate::common::*;

fn kept(world: &World<Sim>, ledger: impl Ledger + 'static, config: &OpenConfig) -> Array {
    let geometry = world.assembly().unwrap().geometry;
    let device = |&id| Some(Device { id, data_offset: DATA_OFFSET });
    Array::kept(&world.io, geometry, world.ids.iter().map(device).collect(), Box::new(ledger), config)
}

#[test]
fn an_array_in_memory_closes_when_it_is_broken() {
    let world = on_drives(Level::Raid5, 3, Version::V1_2);
    let array = kept(&world, Nothing, &patient());
    world.write(&array, 0, &pattern(1, 65536)).unwrap();
    assert_eq!(array.detail().state_words(), "active");
    (0..2).for_each(|n| world.bench.kill(world.ids[n]));
    assert_eq!(world.write(&array, 0, &pattern(2, 65536)), Err(VolumeError::TooManyLost));
    // In this place, too, whose row lost nothing yet.
    assert_eq!(world.write(&array, 65536, &pattern(2, 512)), Err(VolumeError::TooManyLost));
    assert!(array.detail().broken);
    assert!(array.events_since(0).iter().any(|event| event.kind == EventKind::Broken));
    assert_eq!(world.io.block_on(array.stop()), Err(VolumeError::TooManyLost));
}

#[test]
fn an_array_in_memory_is_clean_after_idle_time() {
    let world = on_drives(Level::Raid1, 2, Version::V1_2);
    let config = OpenConfig { idle: Duration::from_millis(200), ..patient() };
    let array = kept(&world, Nothing, &config);
    world.write(&array, 0, &pattern(1, 4096)).unwrap();
    let flushes = || world.io.counters(world.ids[0]).flushes;
    assert_eq!((array.detail().state_words().as_str(), flushes()), ("active", 0));
    idle(&world, Duration::from_secs(1));
    assert_eq!((array.detail().state_words().as_str(), flushes()), ("clean", 1));
}

/// The calls of a ledger in their order, each with the number of writes that members had by then.
#[derive(Clone, Debug, PartialEq)]
enum Asked {
    Record(State),
    Lose(MemberId),
}

/// Notes what it is asked, and keeps it nowhere.
struct Noting {
    asked: Rc<RefCell<Vec<(Asked, bool)>>>,
    /// Whether a member has been written to.
    touched: Rc<dyn Fn() -> bool>,
}

impl Ledger for Noting {
    fn in_doubt(&self) -> Option<u64> {
        None
    }

    fn record<'a>(&'a self, state: State, _: Bears<'a>) -> Recording<'a> {
        self.asked.borrow_mut().push((Asked::Record(state), (self.touched)()));
        Box::pin(core::future::ready(Refusals::new()))
    }

    fn lose(&self, device: MemberId, _: Failed) {
        self.asked.borrow_mut().push((Asked::Lose(device), (self.touched)()));
    }
}

#[test]
fn any_ledger_is_asked_in_the_same_order() {
    let world = on_drives(Level::Raid5, 3, Version::V1_2);
    let asked = Rc::new(RefCell::new(Vec::new()));
    let (io, ids) = (world.io.clone(), world.ids.clone());
    let touched = Rc::new(move || ids.iter().any(|&id| io.counters(id).writes > 0));
    let array = kept(&world, Noting { asked: Rc::clone(&asked), touched }, &patient());
    world.write(&array, 0, &pattern(1, 4096)).unwrap();
    let (dirty, clean) = (State { dirty: true, resync_offset: None }, State::default());
    assert_eq!(asked.take(), [(Asked::Record(dirty), false)], "before a member is written to, and once");
    world.bench.kill(world.ids[1]);
    world.write(&array, 0, &pattern(2, 65536)).unwrap();
    assert_eq!(array.state(1), RoleState::Failed);
    let lost = (Asked::Lose(world.ids[1]), true);
    assert_eq!(asked.take(), [lost, (Asked::Record(dirty), true)], "before the write is acknowledged");
    world.stop(&array);
    assert_eq!(asked.take(), [(Asked::Record(clean), true)]);
}
