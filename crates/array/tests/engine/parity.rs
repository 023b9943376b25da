//! How many operations parity arrays spend, and that requests of every kind get along.

use std::cell::Cell;
use std::rc::Rc;

use brindle_array::{Array, Config, Device, Volume, VolumeError};
use brindle_io::sync::join_all;
use brindle_layout::{Geometry, Layout, Level, ParityLayout};
use proptest::prelude::*;

use crate::world::{self, DATA_OFFSET, Random, World};

const CHUNK: usize = 64 << 10;
const SYMMETRIC: Layout = Layout::Parity(ParityLayout::LeftSymmetric);

/// Scratch in which no step of these tests has to be cut.
fn roomy() -> Config {
    Config { scratch_bytes: 64 << 20, ..world::config() }
}

/// Reads and writes of all members while `work` runs.
fn counted(world: &World, work: impl AsyncFnOnce(&World)) -> (u64, u64) {
    let counts = || {
        let members = world.ids.iter().map(|&id| world.memory.op_counts(id));
        members.fold((0, 0), |sum, (reads, writes)| (sum.0 + reads, sum.1 + writes))
    };
    let before = counts();
    world.run(async |w| work(w).await);
    let after = counts();
    (after.0 - before.0, after.1 - before.1)
}

fn write_counts(world: &World, offset: usize, len: usize) -> (u64, u64) {
    counted(world, async |w| w.write(offset as u64, &world::pattern(1, len)).await.unwrap())
}

#[test]
fn full_rows_are_one_write_per_member_and_no_read() {
    let world = World::new(Level::Raid6, SYMMETRIC, CHUNK as u64, 6, 4 << 20);
    assert_eq!(write_counts(&world, 0, 4 * CHUNK), (0, 6));
    // A step takes as many rows as its share of the scratch memory holds parity of: here one.
    let world = World::with(Level::Raid6, SYMMETRIC, CHUNK as u64, &[4 << 20; 6], roomy());
    assert_eq!(write_counts(&world, 4 * CHUNK, 16 * CHUNK), (0, 6));
}

#[test]
fn parts_of_rows_are_written_with_the_fewest_reads() {
    let raid5 = World::with(Level::Raid5, SYMMETRIC, CHUNK as u64, &[4 << 20; 6], roomy());
    let raid6 = World::with(Level::Raid6, SYMMETRIC, CHUNK as u64, &[4 << 20; 6], roomy());
    // One block of five (four): the old block and the parity are read.
    assert_eq!(write_counts(&raid5, 0, 4096), (2, 2));
    assert_eq!(write_counts(&raid6, 0, 4096), (3, 3));
    // All but one: the block that stays is read.
    assert_eq!(write_counts(&raid5, 0, 4 * CHUNK), (1, 5));
    assert_eq!(write_counts(&raid6, 0, 3 * CHUNK), (1, 5));
    // Across two chunks, in columns that don't meet: each band for itself is cheapest by its own parity.
    assert_eq!(write_counts(&raid6, CHUNK - 4096, 8192), (6, 6));
    // Half of the first, all of the second and third chunk: by reconstruction the first chunk's rest is read and the
    // fourth chunk, once.
    assert_eq!(write_counts(&raid6, CHUNK / 2, CHUNK / 2 + 2 * CHUNK), (2, 5));
}

#[test]
fn an_unaligned_large_write_reads_at_its_edges_only() {
    let world = World::with(Level::Raid5, SYMMETRIC, CHUNK as u64, &[4 << 20; 5], roomy());
    let (reads, _) = write_counts(&world, 3 * CHUNK, 10 * CHUNK);
    assert_eq!(reads, 2 + 2 + 1 - 1, "old block and parity of the head's; the rest of the tail's row");
}

#[test]
fn small_sequential_writes_in_flight_become_full_rows() {
    let world = World::new(Level::Raid5, SYMMETRIC, 16 << 10, 4, 4 << 20);
    let total = 1536u64;
    let (reads, _) = counted(&world, async |w| {
        let cursor = Rc::new(Cell::new(0u64));
        let tasks = (0..32).map(|_| {
            let (array, pool, cursor) = (w.array.clone(), w.pool.clone(), Rc::clone(&cursor));
            w.io.spawn(async move {
                let buf = pool.alloc(4096).await;
                while cursor.get() < total {
                    let at = cursor.replace(cursor.get() + 1);
                    array.write(at * 4096, buf.all(), false).await.unwrap();
                }
            })
        });
        join_all(tasks.collect::<Vec<_>>()).await;
    });
    // One by one each write would read twice.
    assert!(reads < total / 8, "{reads} reads for {total} writes");
}

#[test]
fn a_large_degraded_read_reads_each_survivor_once() {
    let world =
        World::with(Level::Raid6, Layout::Parity(ParityLayout::ParityLast), 65536, &[4 << 20; 6], roomy());
    let content = world::pattern(4, 1 << 20);
    world.run(async |w| w.write(0, &content).await).unwrap();
    let geometry = world.array.geometry().clone();
    for lost in [vec![1], vec![0, 2], vec![3, 4]] {
        let device = |(role, &id)| (!lost.contains(&role)).then_some(Device { id, data_offset: DATA_OFFSET });
        let devices = (0..).zip(&world.ids).map(device).collect();
        let degraded = World {
            array: Array::volatile(&world.io, geometry.clone(), devices, roomy()),
            ..world.without(&[])
        };
        let (reads, _) = counted(&degraded, async |w| {
            assert!(w.read(0, 1 << 20).await.unwrap() == content);
        });
        assert!(reads <= 4, "{reads} reads without {lost:?}");
    }
}

#[test]
fn degraded_arrays_in_a_degraded_array_share_the_outer_ones_memory() {
    let inner = |seed: u64| {
        let world = World::new(Level::Raid5, SYMMETRIC, 8192, 3, 256 << 10);
        (world, seed)
    };
    let (first, _) = inner(1);
    let others: Vec<Array> = (0..3)
        .map(|_| {
            let ids: Vec<_> = (0..3).map(|_| first.memory.add_ram(DATA_OFFSET + (256 << 10))).collect();
            let devices = ids.iter().map(|&id| Some(Device { id, data_offset: DATA_OFFSET }));
            // Each lacks a member from the start.
            let devices = devices.enumerate().map(|(role, device)| device.filter(|_| role != 1)).collect();
            Array::volatile(&first.io, first.array.geometry().clone(), devices, world::config())
        })
        .collect();
    let size = others[0].limits().size - DATA_OFFSET;
    let members: Vec<_> =
        others.into_iter().map(|array| brindle_array::nest::serve(&first.io, array, 4)).collect();
    let geometry = Geometry::new(Level::Raid5, SYMMETRIC, 16384, &[size; 3]).unwrap();
    for lost in [None, Some(2)] {
        let device = |(role, &id)| (Some(role) != lost).then_some(Device { id, data_offset: DATA_OFFSET });
        let devices = (0..).zip(&members).map(device).collect();
        let array = Array::volatile(&first.io, geometry.clone(), devices, world::config());
        let outer = World { array, ..first.without(&[]) };
        let mut content = world::pattern(8, outer.array.limits().size as usize);
        outer.run(async |w| {
            w.write_all(&content).await.unwrap();
            let mut random = Random::new(3);
            for _ in 0..40 {
                let at = random.below(content.len() as u64 / 512 - 40) as usize * 512;
                let bytes = world::pattern(random.next(), 512 * (1 + random.below(40) as usize));
                w.write(at as u64, &bytes).await.unwrap();
                content[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            assert!(w.read_all().await.unwrap() == content);
        });
    }
}

/// A request of the property test, in sectors.
#[derive(Clone, Debug)]
enum Request {
    Write(u64, u64),
    Zero(u64, u64),
    Lose(u16),
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        8 => (0u64..160, 1u64..100).prop_map(|(at, len)| Request::Write(at, len)),
        1 => (0u64..160, 1u64..100).prop_map(|(at, len)| Request::Zero(at, len)),
        1 => (0u16..5).prop_map(Request::Lose),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is written together, on an array that loses members meanwhile, is read back.
    #[test]
    fn any_sequence_of_requests_leaves_what_a_vector_would_hold(
        layout in 0usize..14,
        steps in prop::collection::vec(prop::collection::vec(request(), 1..5), 1..8),
    ) {
        let layout = Layout::Parity(ParityLayout::ALL[layout]);
        let world = World::new(Level::Raid6, layout, 8192, 5, 4 * 8192);
        let mut model = vec![0; world.array.limits().size as usize];
        let mut lost = Vec::new();
        for (seed, step) in (1u64..).zip(steps) {
            // Requests of one step run at the same time, so they keep to parts of the array of their own.
            let lanes = step.len() as u64;
            let lane = model.len() as u64 / 512 / lanes;
            let mut tasks = Vec::new();
            for (number, request) in (0u64..).zip(step) {
                let clip = |at: u64, len: u64| {
                    let at = at % lane;
                    (((number * lane + at) * 512), (len.min(lane - at) * 512) as usize)
                };
                let bytes;
                let (offset, zero) = match request {
                    Request::Lose(role) => {
                        if lost.len() < 2 && !lost.contains(&role) {
                            world.memory.kill(world.ids[usize::from(role)]);
                            lost.push(role);
                        }
                        continue;
                    }
                    Request::Write(at, len) => {
                        let (offset, len) = clip(at, len);
                        bytes = world::pattern(seed * 100 + number, len);
                        (offset, false)
                    }
                    Request::Zero(at, len) => {
                        let (offset, len) = clip(at, len);
                        bytes = vec![0; len];
                        (offset, true)
                    }
                };
                model[offset as usize..offset as usize + bytes.len()].copy_from_slice(&bytes);
                let (array, pool) = (world.array.clone(), world.pool.clone());
                tasks.push(world.io.spawn(async move {
                    if zero {
                        return array.write_zeroes(offset, bytes.len() as u64, Default::default()).await;
                    }
                    let buf = pool.alloc(bytes.len()).await;
                    buf.bytes_mut().copy_from_slice(&bytes);
                    array.write(offset, buf.all(), false).await
                }));
            }
            let results: Vec<Result<(), VolumeError>> = world.run(async |_| join_all(tasks).await);
            prop_assert!(results.iter().all(Result::is_ok), "{results:?}");
        }
        let seen = world.run(async |w| w.read_all().await);
        prop_assert!(seen.as_ref() == Ok(&model), "lost {lost:?}");
    }
}
