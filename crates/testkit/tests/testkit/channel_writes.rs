//! Writes of an array on an executor that is not its home: done there while the array is whole and home has lent it, and at home otherwise.

use core::num::NonZeroU64;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use brindle_array::{Channeled, OpenConfig, Recovery, Removal, RoleState, Speeds, SyncMode};
use brindle_format::md::Uuid;
use brindle_io::Duration;
use brindle_layout::Level;
use brindle_testkit::conformance::conforms;
use brindle_testkit::shape::Shape;
use brindle_testkit::world::{patient, read, write};
use brindle_volume::{Volume, ZeroOptions};

use crate::channels::Beside;

const BLOCK: usize = 4096;

pub(crate) fn shapes() -> Vec<Shape> {
    let shape = |level, members| Shape { rows: 32, ..Shape::new(level, members) };
    vec![
        shape(Level::Linear, 3),
        shape(Level::Raid0, 3),
        shape(Level::Raid1, 2),
        shape(Level::Raid1, 3),
        shape(Level::Raid10, 4).layout("n2"),
        shape(Level::Raid10, 3).layout("f2"),
        shape(Level::Raid10, 5).layout("o2"),
        shape(Level::Raid4, 3),
        shape(Level::Raid5, 4),
        shape(Level::Raid5, 3).layout("right-asymmetric"),
        shape(Level::Raid6, 5),
    ]
}

/// Does something with an array that is written to by both executors. Home is not observed: then it would write all by itself.
pub(crate) fn written(shape: &Shape, seed: u64, work: impl AsyncFnOnce(&Beside)) {
    written_with(shape, seed, patient(), work);
}

fn written_with(shape: &Shape, seed: u64, config: OpenConfig, work: impl AsyncFnOnce(&Beside)) {
    let (idle, observers) = (Duration::from_millis(200), Vec::new());
    let beside = Beside::with(shape, seed, OpenConfig { idle, observers, ..config });
    beside.running.io.block_on(work(&beside));
    beside.stop();
}

impl Beside {
    /// Writes until that is done on the other executor.
    pub(crate) async fn write_until_there(&self, offset: u64, byte: u8) {
        for _ in 0..200 {
            let before = self.requests();
            self.write(offset, byte).await;
            if self.requests() > before {
                return;
            }
            self.running.io.sleep(Duration::from_millis(20)).await;
        }
        panic!("no write is done there");
    }

    async fn write(&self, offset: u64, byte: u8) {
        let write = async move |volume: Rc<Channeled>, pool| {
            write(&pool, &*volume, offset, &[byte; BLOCK]).await.expect("it can be written");
        };
        self.over_there(write).await;
    }

    /// Every copy of all that is written is the same.
    pub(crate) async fn compare(&self) {
        let report = self.running.array.check(SyncMode::Check, |_| {}).await.expect("it can be checked");
        assert_eq!(report.mismatch_sectors, 0, "{report:?}");
    }
}

#[test]
fn an_array_that_is_written_in_a_channel_conforms() {
    for (seed, shape) in (140..).zip(shapes()) {
        written(&shape, seed, async |beside| {
            beside.write_until_there(0, 1).await;
            let (name, io, before) = (shape.level.name(), beside.io.clone(), beside.requests());
            beside.over_there(async move |volume, pool| conforms(name, &io, &pool, &*volume).await).await;
            assert!(beside.requests() > before + 40, "{name}: {}", beside.requests() - before);
            if shape.level.is_redundant() {
                beside.compare().await;
            }
        });
    }
}

/// Two executors write to the same blocks: whatever remains, all copies have the same.
#[test]
fn writes_of_two_executors_leave_all_copies_the_same() {
    for (seed, shape) in (160..).zip(shapes().into_iter().filter(|shape| shape.level.is_redundant())) {
        written(&shape, seed, async |beside| {
            beside.write_until_there(0, 1).await;
            let before = beside.requests();
            let there = beside.begin_there(async move |volume: Rc<Channeled>, pool| {
                for round in 0..200u64 {
                    let at = round * 7 % 24 * 512;
                    write(&pool, &*volume, at, &[round as u8; BLOCK]).await.expect("it can be written");
                }
            });
            let mut round = 0u64;
            while !there.get() {
                let at = round * 5 % 24 * 512;
                let bytes = [0x80 | round as u8; BLOCK];
                write(&beside.running.pool, &beside.running.array, at, &bytes).await.expect("written");
                round += 1;
            }
            assert!(beside.requests() > before + 10, "{}: {}", shape.level, beside.requests() - before);
            beside.compare().await;
        });
    }
}

#[test]
fn an_array_is_clean_soon_after_the_last_write_of_a_channel() {
    written(&Shape { rows: 32, ..Shape::new(Level::Raid1, 2) }, 180, async |beside| {
        beside.write_until_there(0, 1).await;
        assert!(beside.running.array.detail().active);
        beside.running.io.sleep(Duration::from_secs(2)).await;
        assert!(!beside.running.array.detail().active, "it stays dirty");
        beside.write_until_there(0, 2).await;
        assert!(beside.running.array.detail().active);
    });
}

#[test]
fn a_member_that_refuses_a_write_of_a_channel_is_failed_by_home() {
    let shapes = [
        Shape::new(Level::Raid1, 2),
        Shape::new(Level::Raid10, 4).layout("n2"),
        Shape::new(Level::Raid5, 3),
        Shape::new(Level::Raid6, 4),
    ];
    for (seed, shape) in (181..).zip(shapes) {
        let level = shape.level;
        written(&Shape { rows: 32, ..shape }, seed, async |beside| {
            beside.write_until_there(0, 1).await;
            beside.running.bench.refuse_writes(beside.running.ids[0]);
            beside.write(0, 2).await;
            assert_ne!(beside.running.array.state(0), RoleState::InSync);
            let before = beside.requests();
            beside.write(BLOCK as u64, 3).await;
            assert_eq!(beside.requests(), before, "home writes to an array that is degraded");
            let found = beside.read(0, 2 * BLOCK).await;
            assert!(found[..BLOCK] == [2; BLOCK] && found[BLOCK..] == [3; BLOCK]);
            // Mirrors are written to there again, once channels have heard what is left.
            beside.running.io.sleep(Duration::from_secs(1)).await;
            if matches!(level, Level::Raid1 | Level::Raid10) {
                beside.write_until_there(0, 4).await;
                assert_eq!(beside.read(0, BLOCK).await, [4; BLOCK]);
            } else {
                let before = beside.requests();
                beside.write(0, 4).await;
                assert_eq!(beside.requests(), before, "home writes where blocks are lost");
            }
        });
    }
}

/// A member that is rebuilt gets what is written meanwhile, by whatever reactor.
#[test]
fn a_member_comes_back_to_a_mirror_that_is_written_in_a_channel() {
    let shapes = [Shape::new(Level::Raid1, 2), Shape::new(Level::Raid10, 4).layout("n2")];
    for (seed, shape) in (400..).zip(shapes) {
        // So slow that channels hear what is left, and write, meanwhile.
        let speeds = Speeds { pace: NonZeroU64::new(1 << 20), floor: None };
        let config = OpenConfig { recovery: Recovery::Automatic, speeds, ..patient() };
        written_with(&Shape { rows: 512, ..shape }, seed, config, async |beside| {
            let (io, array, id) = (&beside.running.io, &beside.running.array, beside.running.ids[0]);
            beside.write_until_there(0, 1).await;
            beside.running.bench.refuse_writes(id);
            beside.write(0, 2).await;
            beside.running.bench.afflict(id, |faults| faults.unwritable.clear());
            array.remove(Removal::Failed).await.expect("it has failed");
            beside.write_until_there(0, 3).await;
            array.add(id, "it", Uuid::from_u128(5), false).await.expect("it is as large as before");
            let blocks = beside.running.size() / BLOCK as u64;
            for round in 0..10_000u64 {
                beside.write(round * 7 % blocks * BLOCK as u64, round as u8).await;
                io.sleep(Duration::from_millis(1)).await;
                if array.state(0) == RoleState::InSync {
                    break;
                }
            }
            assert_eq!(array.state(0), RoleState::InSync);
            beside.compare().await;
        });
    }
}

/// A write that a channel waits for is given up by home's word, and nothing is written over it before it has landed.
#[test]
fn a_silent_member_is_judged_by_home_for_a_write_of_a_channel() {
    let shapes = [
        Shape::new(Level::Raid1, 2),
        Shape::new(Level::Raid0, 3),
        Shape::new(Level::Raid5, 3),
        Shape::new(Level::Raid6, 4),
    ];
    for (seed, shape) in (1900..).zip(shapes) {
        written(&Shape { rows: 32, ..shape.clone() }, seed, async |beside| {
            beside.write_until_there(0, 1).await;
            beside.running.bench.afflict(beside.running.ids[0], |faults| faults.hangs = true);
            let began = beside.running.io.now();
            let written = beside
                .over_there(async move |volume: Rc<Channeled>, pool| {
                    write(&pool, &*volume, 0, &[2; BLOCK]).await
                })
                .await;
            let took = beside.running.io.now().since(began);
            assert!(took < Duration::from_secs(60), "{took:?}");
            assert_eq!(written.is_ok(), shape.level.is_redundant(), "{}: {written:?}", shape.level);
            if shape.level.is_redundant() {
                assert_ne!(beside.running.array.state(0), RoleState::InSync);
                assert_eq!(beside.read(0, BLOCK).await, [2; BLOCK]);
                beside.running.bench.afflict(beside.running.ids[0], |faults| faults.hangs = false);
                return;
            }
            // Home writes nothing there either as long as it may land.
            let refused = write(&beside.running.pool, &beside.running.array, 0, &[3; BLOCK]).await;
            assert!(refused.is_err());
            beside.running.bench.afflict(beside.running.ids[0], |faults| faults.hangs = false);
            beside.running.io.sleep(Duration::from_secs(1)).await;
            beside.write_until_there(0, 4).await;
            let found = read(&beside.running.pool, &beside.running.array, 0, BLOCK).await.expect("read");
            assert_eq!(found, [4; BLOCK]);
        });
    }
}

/// A range that is wider than the units which reactors hold against each other.
#[test]
fn zeroes_all_over_are_alone_among_writes_of_channels() {
    for (seed, level) in [(210, Level::Raid5), (211, Level::Raid6), (212, Level::Raid5)] {
        written(&Shape { rows: 160, ..Shape::new(level, 4) }, seed, async |beside| {
            beside.write_until_there(0, 1).await;
            let (io, array, size) = (&beside.running.io, &beside.running.array, beside.running.size());
            let (before, blocks) = (beside.requests(), size / BLOCK as u64);
            let there = beside.begin_there(async move |volume: Rc<Channeled>, pool| {
                for round in 0..6000u64 {
                    let at = round * 7919 % blocks * BLOCK as u64;
                    write(&pool, &*volume, at, &[round as u8; BLOCK]).await.expect("it can be written");
                }
            });
            while !there.get() {
                array.write_zeroes(0, size, ZeroOptions::default()).await.expect("zeroes");
                io.sleep(Duration::from_millis(5)).await;
            }
            assert!(beside.requests() > before + 50, "{level}: {}", beside.requests() - before);
            beside.compare().await;
        });
    }
}

/// A claim waits for writes of channels, and they for it.
#[test]
fn compare_and_write_is_alone_among_writes_of_channels() {
    written(&Shape { rows: 32, ..Shape::new(Level::Raid1, 2) }, 195, async |beside| {
        beside.write_until_there(0, 0).await;
        let there = beside.begin_there(async move |volume: Rc<Channeled>, pool| {
            for round in 0..100u8 {
                write(&pool, &*volume, BLOCK as u64, &[round; BLOCK]).await.expect("it can be written");
            }
        });
        let pool = &beside.running.pool;
        let mut found = 0;
        while !there.get() {
            let (old, new, scratch) = (pool.alloc(512).await, pool.alloc(512).await, pool.alloc(512).await);
            old.bytes_mut().fill(found);
            new.bytes_mut().fill(found.wrapping_add(1));
            let slices = [old, new, scratch].map(|buf| buf.slice(0..512));
            let [old, new, scratch] = &slices;
            let wanted = brindle_volume::Wanted::default();
            let array = &beside.running.array;
            let done = array.compare_and_write(0, old, new, scratch, false, &wanted).await;
            assert_eq!(done, Ok(None));
            found = found.wrapping_add(1);
        }
        assert_eq!(beside.read(0, 512).await, vec![found; 512]);
        beside.compare().await;
    });
}

/// As for an initiator that reserves the volume: the flag comes first, then the wait.
#[test]
fn nothing_is_written_by_itself_once_home_has_closed_the_volume() {
    written(&Shape { rows: 32, ..Shape::new(Level::Raid10, 4) }, 196, async |beside| {
        beside.write_until_there(0, 1).await;
        beside.io.take_parcels_late(true);
        let there = beside.begin_there(async move |volume: Rc<Channeled>, pool| {
            for round in 0..100u8 {
                // From some moment on it is refused.
                let _written = write(&pool, &*volume, 0, &[round; BLOCK]).await;
            }
        });
        beside.running.io.sleep(Duration::from_micros(100)).await;
        beside.closed.store(true, Ordering::Relaxed);
        beside.io.take_parcels_late(false);
        beside.running.array.others_ended().await;
        let before = beside.requests();
        let _done = beside.ended(&there).await;
        assert_eq!(beside.requests(), before, "a write was carried out there");
        beside.closed.store(false, Ordering::Relaxed);
        beside.write_until_there(0, 2).await;
    });
}

/// A copy has a write, another has refused it, and home does not take the request: the copies are made the same all the same.
#[test]
fn copies_do_not_differ_by_a_write_that_home_refuses_to_finish() {
    for (seed, shape) in
        [(197, Shape::new(Level::Raid1, 2)), (198, Shape::new(Level::Raid10, 4).layout("n2"))]
    {
        written(&Shape { rows: 32, ..shape }, seed, async |beside| {
            beside.write_until_there(0, 1).await;
            let (bench, ids) = (&beside.running.bench, &beside.running.ids);
            beside.refuses.store(true, Ordering::Relaxed);
            bench.refuse_writes(ids[1]);
            let written = beside.over_there(async move |volume: Rc<Channeled>, pool| {
                write(&pool, &*volume, 0, &[2; BLOCK]).await
            });
            assert!(written.await.is_err());
            bench.afflict(ids[1], |faults| faults.unwritable.clear());
            beside.running.io.sleep(Duration::from_secs(30)).await;
            assert_eq!(beside.running.array.state(1), RoleState::InSync);
            beside.compare().await;
        });
    }
}

#[test]
fn a_stop_waits_for_a_write_of_a_channel_as_long_as_home_has_patience_with_its_member() {
    written(&Shape { rows: 32, ..Shape::new(Level::Raid1, 2) }, 199, async |beside| {
        beside.write_until_there(0, 1).await;
        beside.running.bench.afflict(beside.running.ids[0], |faults| faults.hangs = true);
        let there = beside.begin_there(async move |volume: Rc<Channeled>, pool| {
            write(&pool, &*volume, 0, &[2; BLOCK]).await
        });
        beside.running.io.sleep(Duration::from_millis(1)).await;
        let began = beside.running.io.now();
        beside.running.array.stop().await.expect("it can do without the member");
        let took = beside.running.io.now().since(began);
        assert!(took < Duration::from_secs(40), "{took:?}");
        assert_ne!(beside.running.array.state(0), RoleState::InSync);
        let _done = beside.ended(&there).await;
        beside.running.bench.afflict(beside.running.ids[0], |faults| faults.hangs = false);
        // Until it has landed.
        beside.running.io.sleep(Duration::from_secs(1)).await;
    });
}

/// With a bitmap each part has a lease of its own, to which writes at random places come back now and then.
#[test]
fn writes_at_random_places_of_an_array_with_a_bitmap_are_done_there() {
    let shape = Shape { rows: 32, bitmap: Some(4096), ..Shape::new(Level::Raid1, 2) };
    written(&shape, 200, async |beside| {
        beside.write_until_there(0, 1).await;
        let (blocks, before) = (beside.running.size() / BLOCK as u64, beside.requests());
        for round in 0..600u64 {
            beside.write(round * 7919 % blocks * BLOCK as u64, round as u8).await;
            beside.running.io.sleep(Duration::from_millis(10)).await;
        }
        let there = beside.requests() - before;
        assert!(there > 480, "{there} of 600");
        beside.compare().await;
    });
}
