//! How many operations parity arrays spend, and that requests of every kind get along.

use std::cell::Cell;
use std::rc::Rc;

use brindle_array::ledger::Nothing;
use brindle_array::{Array, Device, OpenConfig};
use brindle_io::sync::join_all;
use brindle_layout::{Geometry, Layout, Level, ParityLayout};
use brindle_testkit::load::Mix;
use brindle_testkit::world::{read, write};
use brindle_volume::Volume;

use crate::world::{self, DATA_OFFSET, Random, Running};

const CHUNK: usize = 64 << 10;
pub(crate) const SIZE: u64 = 4 << 20;
const SYMMETRIC: Layout = Layout::Parity(ParityLayout::LeftSymmetric);

/// An array that is marked dirty already, so that writes are all that is counted.
pub(crate) fn dirty(level: Level, chunk: usize, members: usize, config: OpenConfig) -> Running {
    let run = Running::of(&world::shape(level, SYMMETRIC, chunk as u64, members, SIZE), config);
    run.run(async |run| run.write(run.size() - 512, &[1; 512]).await).unwrap();
    run
}

/// Scratch in which no step of these tests has to be cut.
pub(crate) fn roomy() -> OpenConfig {
    OpenConfig { scratch_bytes: 64 << 20, ..world::config() }
}

/// Reads and writes of all members while `work` runs.
pub(crate) fn counted(world: &Running, work: impl AsyncFnOnce(&Running)) -> (u64, u64) {
    let counts = world.counted(work).into_iter();
    counts.fold((0, 0), |sum, (reads, writes)| (sum.0 + reads, sum.1 + writes))
}

pub(crate) fn write_counts(world: &Running, offset: usize, len: usize) -> (u64, u64) {
    counted(world, async |w| w.write(offset as u64, &world::pattern(1, len)).await.unwrap())
}

#[test]
fn full_rows_are_one_write_per_member_and_no_read() {
    let world = dirty(Level::Raid6, CHUNK, 6, world::config());
    assert_eq!(write_counts(&world, 0, 4 * CHUNK), (0, 6));
    // A step takes as many rows as its share of the scratch memory holds parity of: here one.
    let world = dirty(Level::Raid6, CHUNK, 6, roomy());
    assert_eq!(write_counts(&world, 4 * CHUNK, 16 * CHUNK), (0, 6));
}

#[test]
fn parts_of_rows_are_written_with_the_fewest_reads() {
    let raid5 = dirty(Level::Raid5, CHUNK, 6, roomy());
    let raid6 = dirty(Level::Raid6, CHUNK, 6, roomy());
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
    let world = dirty(Level::Raid5, CHUNK, 5, roomy());
    let (reads, _) = write_counts(&world, 3 * CHUNK, 10 * CHUNK);
    assert_eq!(reads, 2 + 2 + 1 - 1, "old block and parity of the head's; the rest of the tail's row");
}

#[test]
fn small_sequential_writes_in_flight_become_full_rows() {
    let world = dirty(Level::Raid5, 16 << 10, 4, world::config());
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
    let layout = Layout::Parity(ParityLayout::ParityLast);
    let world = Running::of(&world::shape(Level::Raid6, layout, CHUNK as u64, 6, SIZE), roomy());
    let content = world::pattern(4, 1 << 20);
    world.run(async |w| w.write(0, &content).await).unwrap();
    for lost in [vec![1], vec![0, 2], vec![3, 4]] {
        let degraded = world.without(&lost);
        let (reads, _) = counted(&degraded, async |w| {
            assert!(w.read(0, 1 << 20).await.unwrap() == content);
        });
        assert!(reads <= 4, "{reads} reads without {lost:?}");
    }
}

/// Whole rows are computed in the request's own memory, unless others use that too; the ends of a read by way of scratch.
#[test]
fn a_large_degraded_read_gives_the_same_in_parts_of_one_buffer_that_are_read_together() {
    let world = Running::of(&world::shape(Level::Raid6, SYMMETRIC, CHUNK as u64, 6, SIZE), roomy());
    let content = world::pattern(5, 3 << 20);
    world.run(async |w| w.write(0, &content).await).unwrap();
    for lost in [vec![1], vec![0, 2], vec![3, 4]] {
        let degraded = world.without(&lost);
        for (start, cut, end) in
            [(4096, 1 << 20, 2 << 20), (0, 512 << 10, 1 << 20), (CHUNK, CHUNK + 512, 3 << 20)]
        {
            degraded.run(async |w| {
                let buf = w.pool.alloc(end - start).await;
                let parts = vec![buf.slice(0..cut - start), buf.slice(cut - start..end - start)];
                w.array.read(start as u64, parts).await.unwrap();
                assert!(*buf.bytes() == content[start..end], "{start}..{end} without {lost:?}");
            });
            let read = degraded.run(async |w| w.read(start as u64, end - start).await).unwrap();
            assert!(read == content[start..end], "{start}..{end} at once without {lost:?}");
        }
    }
}

/// Arrays without superblocks: what is asked is who waits for whose memory.
#[test]
fn degraded_arrays_in_a_degraded_array_share_the_outer_ones_memory() {
    let outermost = world::start(Level::Raid5, SYMMETRIC, 8192, 3, 256 << 10);
    let place = |lost: Option<usize>| {
        move |(role, id)| (Some(role) != lost).then_some(Device { id, data_offset: DATA_OFFSET })
    };
    let inner = |_| {
        let ids: Vec<_> = (0..3).map(|_| outermost.bench.add_ram(DATA_OFFSET + (256 << 10))).collect();
        // Each lacks a member from the start.
        let devices = ids.into_iter().enumerate().map(place(Some(1))).collect();
        Array::kept(
            &outermost.io,
            outermost.array.geometry().clone(),
            devices,
            Box::new(Nothing),
            &world::config(),
        )
    };
    let inner: Vec<Array> = (0..3).map(inner).collect();
    let size = inner[0].limits().size - DATA_OFFSET;
    let members: Vec<_> =
        inner.into_iter().map(|array| brindle_volume::nest::serve(&outermost.io, array, 4)).collect();
    let geometry = Geometry::new(Level::Raid5, SYMMETRIC, 16384, &[size; 3]).unwrap();
    for lost in [None, Some(2)] {
        let devices = members.iter().copied().enumerate().map(place(lost)).collect();
        let array =
            Array::kept(&outermost.io, geometry.clone(), devices, Box::new(Nothing), &world::config());
        let mut content = world::pattern(8, array.limits().size as usize);
        outermost.run(async |w| {
            write(&w.pool, &array, 0, &content).await.unwrap();
            let mut random = Random::new(3);
            for _ in 0..40 {
                let at = random.below(content.len() as u64 / 512 - 40) as usize * 512;
                let bytes = world::pattern(random.next(), 512 * (1 + random.below(40) as usize));
                write(&w.pool, &array, at as u64, &bytes).await.unwrap();
                content[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            assert!(read(&w.pool, &array, 0, content.len()).await.unwrap() == content);
        });
    }
}

/// Whatever is asked together, on an array that loses members meanwhile, is answered; in every layout.
#[test]
fn requests_of_every_kind_beside_one_another_survive_two_losses() {
    let mix = Mix { most: 50 << 10, ..Mix::default() };
    for (seed, layout) in (0..ParityLayout::ALL.len() as u64 * 8).zip(ParityLayout::ALL.into_iter().cycle()) {
        if !layout.belongs_to(Level::Raid6) {
            continue;
        }
        let run = world::start(Level::Raid6, Layout::Parity(layout), 8192, 5, 4 * 8192);
        let client = run.client(&run.oracle());
        let mut random = Random::new(seed);
        let victim = random.below(5) as usize;
        for lost in [None, Some(victim), None, Some((victim + 1 + random.below(4) as usize) % 5), None] {
            if let Some(role) = lost {
                run.bench.strike_after(random.below(20), run.ids[role], random.one_in(2));
            }
            let troubles = run.run(async |run| client.side_by_side(&run.io, 4, 4, mix, random.next()).await);
            assert_eq!(troubles, [], "{layout:?} seed {seed}");
        }
        assert_eq!(run.run(async |_| client.read_all().await), Ok(()), "{layout:?} seed {seed}");
    }
}
