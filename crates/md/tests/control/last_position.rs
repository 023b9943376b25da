//! Recoveries that end between the record of their last position and the one that takes the member in: the power goes, or the
//! array is stopped. The next run has nothing left to rebuild, and takes the member in.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::rc::Rc;

use brindle_array::{OpenConfig, Recovery, RoleState, SyncMode};
use brindle_io::sim::{Model, Sim, When};
use brindle_io::{Duration, Instant};
use brindle_layout::{Family, Level};
use brindle_md::assembly::DeviceUse;
use brindle_volume::Volume;

use crate::common::*;

const LEVELS: [(Level, usize); 4] =
    [(Level::Raid1, 2), (Level::Raid5, 3), (Level::Raid6, 4), (Level::Raid10, 4)];
/// The role whose member is rebuilt.
const ROLE: u16 = 1;

/// Ways in which a recovery ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Nothing,
    Cut(u64),
    Stop(Instant),
}

/// An array whose recovery has come to some end.
struct Run {
    world: World<Sim>,
    content: Vec<u8>,
    /// The step and the moment at which all was rebuilt, and those at which the recovery had ended.
    from: (u64, Instant),
    upto: (u64, Instant),
}

/// The member's size is not a multiple of what a recovery takes at a time.
fn shape(level: Level, members: usize, bitmap: bool) -> Shape {
    let bitmap = bitmap.then_some(8192);
    Shape { rows: 50, spares: 1, bitmap, ..Shape::new(level, members) }
}

fn recovered(shape: &Shape, end: End) -> Run {
    let world = World::in_sim(shape, Model::nvme(), 7);
    // Marked clean soon: a cut leaves nothing in doubt.
    let config = OpenConfig { idle: Duration::from_millis(1), ..patient() };
    let array = world.try_open(world.assembly().unwrap(), config).unwrap();
    let content = pattern(5, array.limits().size as usize);
    world.write(&array, 0, &content).unwrap();
    idle(&world, Duration::from_secs(1));
    world.io.block_on(array.fail(ROLE)).unwrap();
    if let End::Cut(step) = end {
        world.bench.cut_power_at(When::Step(step));
    }
    if let End::Stop(moment) = end {
        let (stopping, io) = (array.clone(), world.io.clone());
        drop(world.io.spawn(async move {
            io.sleep(moment.since(io.now())).await;
            stopping.stop().await.unwrap();
        }));
    }
    let total = array.geometry().member_size();
    let now = |world: &World<Sim>| (world.bench.steps(), world.io.now());
    let from = Rc::new(Cell::new(now(&world)));
    let (seen, bench, io) = (Rc::clone(&from), world.bench.clone(), world.io.clone());
    let window = if matches!(array.geometry().family(), Family::Parity(_)) { 16 << 10 } else { 64 << 10 };
    let recovery = array.recover(ROLE, array.spares()[0], move |progress| {
        if progress.position == total {
            seen.set((bench.steps(), io.now()));
        }
    });
    // Between two windows so much time passes that how far it came is put on record after each.
    array.process().unwrap().set_pace(NonZeroU64::new(window / 11));
    let ended = world.io.block_on(world.bench.until_end(&world.io, recovery));
    let upto = now(&world);
    match end {
        End::Nothing => ended.unwrap().unwrap(),
        End::Cut(_) => assert!(ended.is_none()),
        // Which of the two comes first is not this test's.
        End::Stop(_) => idle(&world, Duration::from_millis(50)),
    }
    drop(array);
    Run { world: world.restart(8), content, from: from.get(), upto }
}

/// The next run takes the member in. Gives whether all of it had been rebuilt and it had not been taken in.
fn goes_on(run: Run, who: &str) -> bool {
    let world = run.world;
    let assembly = world.assembly().unwrap();
    let total = assembly.geometry.member_size();
    let is_between = |usage| usage == DeviceUse::Recovering { role: ROLE, upto: total };
    let between = assembly.devices.iter().any(|device| is_between(device.usage));
    let config = OpenConfig { recovery: Recovery::Automatic, ..patient() };
    let array = world.try_open(assembly, config).unwrap();
    world.io.block_on(async {
        for _ in 0..10_000 {
            if array.state(ROLE) == RoleState::InSync && array.process().is_none() {
                return;
            }
            world.io.sleep(Duration::from_millis(1)).await;
        }
        panic!("{who}: {:?}, {:?}", array.state(ROLE), array.last_outcome());
    });
    let report = world.io.block_on(array.check(SyncMode::Check, |_| ())).unwrap();
    assert_eq!(report.mismatch_sectors, 0, "{who}");
    world.io.block_on(array.fail(0)).unwrap();
    assert!(whole(&world, &array) == run.content, "{who}");
    between
}

fn each(ends: impl Fn(&Run) -> Vec<End>) {
    for (level, members) in LEVELS {
        for bitmap in [false, true] {
            let shape = shape(level, members, bitmap);
            let ends = ends(&recovered(&shape, End::Nothing));
            let gone_on = ends.into_iter().filter(|&end| {
                let who = format!("{shape}, {end:?}");
                goes_on(recovered(&shape, end), &who)
            });
            assert!(gone_on.count() > 0, "{shape}: some end is between the two records");
        }
    }
}

#[test]
fn a_cut_after_the_last_position_leaves_nothing_to_rebuild() {
    each(|calm| (calm.from.0..calm.upto.0).map(End::Cut).collect());
}

#[test]
fn a_stop_after_the_last_position_leaves_nothing_to_rebuild() {
    each(|calm| {
        let span = calm.upto.1.since(calm.from.1).as_nanos() as u64;
        (0..8).map(|n| End::Stop(calm.from.1.after(Duration::from_nanos(span * n / 8)))).collect()
    });
}
