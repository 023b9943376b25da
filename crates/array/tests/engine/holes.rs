//! Holes that arrays tell of: all of them read as zeroes, and of a whole array none is left out.

use std::ops::Range;

use brindle_array::{Array, Device};
use brindle_layout::{Layout, Level, ParityLayout};
use brindle_testkit::shape::Shape;
use brindle_testkit::world::in_memory;
use brindle_volume::{Allocation, Volume};

use crate::model::shapes;
use crate::world::{self, Random, Running};

const CHUNK: u64 = 16 << 10;
const BLOCK: u64 = 4096;

/// The array's answers for a range, asked again for the rest of it; each stretch with whether it is a hole.
async fn asked(run: &Running, range: Range<u64>) -> Vec<(Range<u64>, bool)> {
    asked_of(&run.array, range).await
}

async fn asked_of(array: &Array, range: Range<u64>) -> Vec<(Range<u64>, bool)> {
    let (mut at, mut reported) = (range.start, Vec::new());
    while at < range.end {
        let mut found = Vec::new();
        array.allocation(at, range.end - at, &mut found).await.unwrap();
        assert!(!found.is_empty());
        for Allocation { len, hole, zero } in found {
            assert!(len > 0 && hole == zero && len % 512 == 0);
            reported.push((at..at + len, hole));
            at += len;
        }
        assert!(at <= range.end);
    }
    reported
}

/// An array that has some blocks somewhere, a tenth perhaps, and what is in it.
fn sparse((level, layout, members): (Level, Layout, usize), seed: u64) -> (Running, Vec<u8>) {
    let run = world::start(level, layout, CHUNK, members, 12 * CHUNK);
    let mut content = vec![0; run.size() as usize];
    let mut random = Random::new(seed);
    run.run(async |run| {
        for _ in 0..run.size() / BLOCK / 10 {
            let len = (1 + random.below(3)) * BLOCK;
            let at = random.below((run.size() - len) / BLOCK + 1) * BLOCK;
            let bytes = world::pattern(at, len as usize);
            run.write(at, &bytes).await.unwrap();
            content[at as usize..(at + len) as usize].copy_from_slice(&bytes);
        }
    });
    (run, content)
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// Every hole is one.
fn check(reported: &[(Range<u64>, bool)], content: &[u8], who: &str) {
    for (range, _) in reported.iter().filter(|(_, hole)| *hole) {
        assert!(is_zero(&content[range.start as usize..range.end as usize]), "{who}: {range:?}");
    }
}

fn holes(reported: &[(Range<u64>, bool)]) -> u64 {
    reported.iter().filter(|(_, hole)| *hole).map(|(range, _)| range.end - range.start).sum()
}

#[test]
fn every_block_that_was_never_written_is_a_hole_and_nothing_else() {
    for (n, shape) in shapes().into_iter().enumerate() {
        let who = format!("{shape:?}");
        let (run, content) = sparse(shape, n as u64);
        let mut random = Random::new(n as u64);
        run.run(async |run| {
            let reported = asked(run, 0..run.size()).await;
            check(&reported, &content, &who);
            let empty = content.chunks(BLOCK as usize).filter(|block| is_zero(block)).count() as u64;
            assert_eq!(holes(&reported), empty * BLOCK, "{who}: {reported:?}");
            for _ in 0..20 {
                let start = random.below(run.size() / 512) * 512;
                let end = start + (1 + random.below((run.size() - start) / 512)) * 512;
                check(&asked(run, start..end.min(run.size())).await, &content, &who);
            }
        });
        run.stop();
    }
}

#[test]
fn what_lies_on_a_member_that_is_missing_or_being_rebuilt_is_data() {
    for shape in shapes().into_iter().filter(|shape| shape.0.is_redundant()) {
        let who = format!("{shape:?}");
        let (run, content) = sparse(shape, 1);
        let whole = run.run(async |run| holes(&asked(run, 0..run.size()).await));
        for run in [run.without(&[1]), run.recovering(1)] {
            let reported = run.run(async |run| asked(run, 0..run.size()).await);
            check(&reported, &content, &who);
            let left = holes(&reported);
            // Where it has parity only, nothing is missing.
            let held = run.array.array_ranges(1, 0..12 * CHUNK);
            assert!(if held.is_empty() { left == whole } else { left < whole }, "{who}");
            let on_it =
                |range: &Range<u64>| held.iter().any(|held| held.start < range.end && range.start < held.end);
            assert!(reported.iter().all(|(range, hole)| !hole || !on_it(range)), "{who}: {reported:?}");
            run.stop();
        }
    }
}

#[test]
fn what_is_being_written_is_data_until_it_has_been() {
    let parity = Layout::Parity(ParityLayout::LeftSymmetric);
    for shape in [(Level::Raid0, Layout::None, 2), (Level::Raid1, Layout::None, 2), (Level::Raid5, parity, 3)]
    {
        let shape = if shape.0 == Level::Raid0 { shapes()[1] } else { shape };
        let (level, layout, members) = shape;
        let run = world::start(level, layout, CHUNK, members, 12 * CHUNK);
        run.run(async |run| {
            // Marks the array dirty, and is no hole.
            run.write(run.size() - BLOCK, &[1; BLOCK as usize]).await.unwrap();
            run.ids.iter().for_each(|&id| run.bench.hang(id));
            // Zeroes, so that what the member holds never tells.
            let (array, pool) = (run.array.clone(), run.pool.clone());
            let writing = run.io.spawn(async move {
                brindle_testkit::world::write(&pool, &array, BLOCK, &[0; BLOCK as usize]).await
            });
            while run.ids.iter().all(|&id| run.io.changing(id).is_empty()) {
                // A write to a part of a row reads first.
                run.ids.iter().for_each(|&id| run.bench.release(id));
                run.ids.iter().for_each(|&id| run.bench.hang(id));
                run.io.yield_now().await;
            }
            let array = run.array.clone();
            let asking = run.io.spawn(async move {
                let mut found = Vec::new();
                array.allocation(0, 4 * BLOCK, &mut found).await.map(|()| found)
            });
            for _ in 0..10 {
                run.io.yield_now().await;
            }
            run.ids.iter().for_each(|&id| run.bench.release(id));
            let found = asking.await.unwrap();
            let reported: Vec<_> = found.iter().map(|part| (part.len, part.hole)).collect();
            assert_eq!(reported[..2], [(BLOCK, true), (BLOCK, false)], "{shape:?}: {reported:?}");
            writing.await.unwrap();
            let reported = asked(run, 0..4 * BLOCK).await;
            assert_eq!(reported, [(0..4 * BLOCK, true)], "{shape:?}");
        });
        run.stop();
    }
}

#[test]
fn a_place_that_could_not_be_rebuilt_is_data() {
    let shape = Shape { spares: 1, ..world::shape(Level::Raid1, Layout::None, CHUNK, 2, 12 * CHUNK) };
    let run = Running::of(&shape, world::config());
    run.bench.wear_out(run.ids[0], run.data_offset + 2 * BLOCK, 512);
    run.run(async |run| {
        run.array.fail(1).await.unwrap();
        let spare = run.array.spares()[0];
        run.array.recover_all(&[(1, spare)], |_| ()).await.unwrap();
        let bad = run.array.bad_blocks(1);
        assert!(bad.len() == 1 && bad[0] == (2 * BLOCK..2 * BLOCK + 512), "{bad:?}");
        let reported = asked(run, 0..run.size()).await;
        assert_eq!(
            reported[..2],
            [(0..2 * BLOCK, true), (2 * BLOCK..2 * BLOCK + 512, false)],
            "{reported:?}"
        );
    });
    run.stop();
}

#[test]
fn what_lies_on_a_member_that_is_being_replaced_is_data() {
    let layout = Layout::Parity(ParityLayout::LeftSymmetric);
    let run = world::start(Level::Raid5, layout, CHUNK, 3, 12 * CHUNK);
    run.stop();
    let devices = run.ids.iter().map(|&id| Some(Device { id, data_offset: run.data_offset })).collect();
    let array = in_memory(&run.io, run.array.geometry().clone(), devices);
    let second = Device { id: run.bench.add_ram(12 * CHUNK), data_offset: 0 };
    run.run(async |run| {
        let size = array.limits().size;
        assert_eq!(holes(&asked_of(&array, 0..size).await), size);
        array.begin_second(1, second).unwrap();
        let reported = asked_of(&array, 0..size).await;
        let held = run.array.array_ranges(1, 0..12 * CHUNK);
        assert_eq!(holes(&reported), size - held.iter().map(|range| range.end - range.start).sum::<u64>());
    });
}
