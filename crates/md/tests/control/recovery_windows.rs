//! A recovery or a copy holds up what lies in its windows, and nothing else.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use brindle_array::row_log::{Change, Computed, LogHost, MakeRowLog, OnRecord, RowLog};
use brindle_array::{Array, OpenConfig, RoleState, SyncMode};
use brindle_io::sim::{Model, Sim};
use brindle_io::{Duration, Io};
use brindle_layout::Level;
use brindle_testkit::world;
use brindle_volume::Volume;

use crate::common::*;

/// Holds what is computed for some bytes of members' data areas, and repairs of some of the array, until it is told to let go.
struct Stall {
    io: Io,
    range: Rc<Cell<(u64, u64)>>,
}

impl Stall {
    fn until_let_go(&self, range: Range<u64>) -> Option<OnRecord<'static>> {
        let (io, held) = (self.io.clone(), Rc::clone(&self.range));
        let holds = move || range.start < held.get().1 && held.get().0 < range.end;
        Some(Box::pin(async move {
            while holds() {
                io.sleep(Duration::from_millis(1)).await;
            }
            Ok(())
        }))
    }
}

impl RowLog for Stall {
    fn begins<'a>(&self, change: &Change, _: &'a dyn LogHost) -> Option<OnRecord<'a>> {
        match change {
            Change::Redundancy(range) => self.until_let_go(range.clone()),
            _ => None,
        }
    }

    fn ends(&self, _: &Change) {}

    fn computed<'a>(&self, rows: &Computed, _: &'a dyn LogHost) -> Option<OnRecord<'a>> {
        self.until_let_go(rows.range.clone())
    }
}

/// Holds a write up, changes role 1 meanwhile, and tells how far the write has come.
fn goes_on(level: Level, members: usize, copies: bool) {
    let shape = Shape { rows: 64, spares: 1, ..Shape::new(level, members) };
    let world = World::in_sim(&shape, Model::nvme(), 7);
    let stall = Rc::new(Stall { io: world.io.clone(), range: Rc::default() });
    let given = Rc::clone(&stall);
    let log = MakeRowLog::new(move |_, _| Rc::clone(&given) as Rc<dyn RowLog>);
    let config = OpenConfig { logs: vec![log], ..world::patient() };
    let array = world.try_open(world.assembly().unwrap(), config).unwrap();
    let size = array.limits().size;
    world.write(&array, 0, &pattern(5, size as usize)).unwrap();
    let (total, chunk) = (array.geometry().member_size(), array.geometry().chunk());
    let (io, spare) = (world.io.clone(), array.spares()[0]);
    let (pool, late, ended) = (world.pool.clone(), array.clone(), Rc::new(Cell::new(false)));
    let ends = Rc::clone(&ended);
    let mirrored = level == Level::Raid10;
    stall.range.set(if mirrored { (size - 4096, size) } else { (total - chunk, total) });
    if mirrored {
        // The copy of the last chunk on role 3's member is wrong.
        world.bench.poke(world.ids[3], shape.data_offset() + total - 4096, &[1; 4096]);
    }
    // A part of the array is held: by a repair of a mirror's end, or by a write to the last row.
    let slow = io.spawn(async move {
        if mirrored {
            let repaired = late.sync_window(size - (64 << 10), 64 << 10, SyncMode::Repair).await;
            assert_eq!(repaired.unwrap().mismatch_sectors, 8);
        } else {
            world::write(&pool, &late, size - 4096, &[7; 4096]).await.unwrap();
        }
        ends.set(true);
    });
    io.block_on(io.sleep(Duration::from_millis(10)));
    assert!(!ended.get(), "{level}: it is held up");
    let work = if copies {
        io.block_on(array.replace(world.ids[1], spare.id)).unwrap();
        io.spawn(array.copy_replacement(1, |_| ()))
    } else {
        io.block_on(array.fail(1)).unwrap();
        io.spawn(array.recover(1, spare, |_| ()))
    };
    let other = array.clone();
    let (pool, done) = (world.pool.clone(), Rc::new(Cell::new(0)));
    let counts = Rc::clone(&done);
    let writes = io.spawn(async move {
        for _ in 0..20 {
            world::write(&pool, &other, 0, &[9; 4096]).await.unwrap();
            counts.set(counts.get() + 1);
            other.detail();
        }
    });
    io.block_on(io.sleep(Duration::from_secs(1)));
    assert_eq!(done.get(), 20, "{level}: writes elsewhere go on");
    // Its last window may have been read and written, but nothing of it counts.
    let reached = array.process().expect("it has not ended").progress().position;
    assert!(reached >= total / 2, "{level}: {reached} of {total}");
    if !copies {
        assert!(matches!(array.state(1), RoleState::Recovering(upto) if upto >= total / 2), "{level}");
    }
    assert!(!ended.get(), "{level}: it is held up still");
    stall.range.set((0, 0));
    io.block_on(async {
        slow.await;
        work.await.unwrap();
        writes.await;
    });
    assert_eq!(array.state(1), RoleState::InSync, "{level}");
    expect_whole(&world, &array, (!mirrored).then_some(7));
}

fn expect_whole(world: &World<Sim>, array: &Array, end: Option<u8>) {
    let size = array.limits().size as usize;
    let mut expected = pattern(5, size);
    expected[..4096].fill(9);
    end.into_iter().for_each(|byte| expected[size - 4096..].fill(byte));
    assert!(whole(world, array) == expected);
    world.io.block_on(array.fail(0)).unwrap();
    assert!(whole(world, array) == expected, "the new member holds it");
    world.stop(array);
}

#[test]
fn a_recovery_does_not_wait_for_a_write_elsewhere_nor_have_others_wait() {
    for (level, members) in [(Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid10, 4)] {
        goes_on(level, members, false);
    }
}

#[test]
fn a_copy_does_not_wait_for_a_write_elsewhere_nor_have_others_wait() {
    for (level, members) in [(Level::Raid5, 4), (Level::Raid6, 5), (Level::Raid10, 4)] {
        goes_on(level, members, true);
    }
}
