//! Writes that follow each other: rows that they fill are not read, and no part of a row waits for what does not come.

use core::cell::Cell;
use core::future::Future;
use core::pin::pin;

use brindle_array::SyncMode;
use brindle_io::Duration;
use brindle_io::sim::{Model, Sim};
use brindle_io::sync::join_all;
use brindle_layout::{Layout, Level, ParityLayout, Place};
use brindle_testkit::shape::Shape;
use brindle_testkit::world::{World, patient};
use brindle_volume::{Volume, ZeroOptions};

use crate::concurrent_writes::once;
use crate::world::{self, DATA_OFFSET, Random, Running, pattern};

const KIB: u64 = 1024;

/// The longest that a part may wait, and the time that members take at most besides, in these tests.
const LONGEST: Duration = Duration::from_millis(20);

fn shapes(chunk: u64) -> [(Shape, u64); 2] {
    let rows = (6 << 20) / chunk;
    let shape = |level, members| Shape { chunk, rows, ..Shape::new(level, members) };
    [(shape(Level::Raid5, 4), 3 * chunk), (shape(Level::Raid6, 6), 4 * chunk)]
}

/// Writes the array from its start on, `depth` requests in flight, each after at most so long a delay on its way; gives the bytes
/// that members read for that.
fn stream(shape: &Shape, len: u64, depth: u64, late: Duration) -> (u64, u64) {
    let world: Running<Sim> = Running::start(World::in_sim(shape, Model::sata_ssd(), 1), patient());
    let read = || world.ids.iter().map(|&id| world.io.counters(id).bytes_read).sum::<u64>();
    let (before, next, end) = (read(), Cell::new(0), world.size() / len * len);
    world.run(async |w| {
        let (bytes, next) = (w.pool.alloc(len as usize).await, &next);
        let lane = async |seed| {
            let mut random = Random::new(seed);
            while next.get() < end {
                let offset = next.replace(next.get() + len);
                w.io.sleep(Duration::from_nanos(random.below(late.as_nanos().max(1) as u64))).await;
                w.array.write(offset, bytes.all(), false).await.unwrap();
            }
        };
        join_all((0..depth).map(lane)).await;
    });
    (read() - before, end)
}

#[test]
fn rows_that_a_stream_fills_are_not_read() {
    for (shape, row) in [64, 512].into_iter().flat_map(|chunk| shapes(chunk * KIB)) {
        for len in [4, 16, 64, 128, 256, 512, 1024].map(|len| len * KIB) {
            // A row and a request in flight, and more.
            let least = (row + len).div_ceil(len);
            for (depth, late) in [(least, 0), (2 * least, 0), (2 * least, 30)] {
                let (read, written) = stream(&shape, len, depth, Duration::from_micros(late));
                let most = written / 50 + 2 * row;
                let what = format!("{shape}: {depth} of {len} in flight, up to {late} us late");
                assert!(read <= most, "{what}: {read} bytes read for {written}, at most {most}");
            }
        }
    }
}

/// Bytes of the chunk that a part of a row is in, and of the rows, of which it is in the fourth.
const CHUNK: u64 = 16 * KIB;
const ROW: u64 = 3 * CHUNK;
const PART: u64 = 3 * ROW;

#[test]
fn rows_that_a_stream_fills_again_are_not_read_either() {
    for (shape, row) in shapes(64 * KIB) {
        let world: Running<Sim> = Running::start(World::in_sim(&shape, Model::sata_ssd(), 1), patient());
        let read = || world.ids.iter().map(|&id| world.io.counters(id).bytes_read).sum::<u64>();
        world.run(async |w| {
            let (len, before) = (row - 16 * KIB, read());
            let bytes = pattern(1, len as usize);
            // A log of seven rows, within what counts as one stream.
            for _ in 0..16 {
                let next = Cell::new(0);
                let lane = async |late: u64| {
                    while next.get() + len <= 7 * row {
                        let offset = next.replace(next.get() + len);
                        w.io.sleep(Duration::from_micros(10 * late)).await;
                        w.write(offset, &bytes).await.unwrap();
                    }
                };
                join_all((0..4).map(lane)).await;
            }
            let most = 16 * 2 * row;
            assert!(read() - before <= most, "{shape}: {} bytes read, at most {most}", read() - before);
        });
    }
}

/// Has a part wait for its row behind rows whose writes hang, and ends the wait by `what`: the part must be on its member soon.
fn ended_by(name: &str, what: impl AsyncFnOnce(&Running)) {
    let layout = Layout::Parity(ParityLayout::LeftSymmetric);
    let world = world::start(Level::Raid5, layout, CHUNK, 4, 16 * CHUNK);
    let member = |offset| {
        let place = |&role: &u16| world.array.geometry().place(role, 3 * CHUNK);
        let has =
            |role: &u16| matches!(place(role), Place::Data { array_offset, .. } if array_offset == offset);
        world.ids[usize::from((0..4).find(has).unwrap())]
    };
    // Of the part's row nothing is asked of the member that hangs: it has other data.
    let (member, hangs) = (member(PART), member(PART + 2 * CHUNK));
    let on_member = || {
        let mut found = [0; 2048];
        world.bench.peek(member, DATA_OFFSET + 3 * CHUNK, &mut found);
        found == [9; 2048]
    };
    world.run(async |w| {
        w.write(w.size() - 512, &[1; 512]).await.unwrap();
        w.bench.hang(hangs);
        let (bytes, part) = (pattern(3, ROW as usize), [9; 4096]);
        let mut writes: Vec<_> = (0..3).map(|row| Box::pin(w.write(row * ROW, &bytes))).collect();
        writes.push(Box::pin(w.write(PART, &part)));
        let mut writes = pin!(join_all(writes));
        assert!(once(writes.as_mut()).await.is_none());
        assert!(!on_member(), "{name}: the part waits");
        let (since, mut what, mut ended) = (w.io.now(), pin!(what(w)), false);
        while !on_member() && w.io.now() < since.after(LONGEST) {
            ended = ended || once(what.as_mut()).await.is_some();
            assert!(once(writes.as_mut()).await.is_none());
            w.io.yield_now().await;
        }
        assert!(w.io.now() < since.after(LONGEST / 2), "{name}: the wait has ended");
        w.bench.release(hangs);
        let (mut written, since) = (false, w.io.now());
        while !(ended && written) && w.io.now() < since.after(LONGEST * 5) {
            ended = ended || once(what.as_mut()).await.is_some();
            written = written || once(writes.as_mut()).await.is_some();
            w.io.yield_now().await;
        }
        assert!(ended && written, "{name}");
    });
}

#[test]
fn a_part_that_waits_goes_on_at_once_when_somebody_needs_its_row_or_its_end() {
    ended_by("an overlapping write", async |w| w.write(PART + 2048, &[9; 4096]).await.unwrap());
    ended_by("a write that is to be stable", async |w| {
        let buf = w.pool.alloc(4096).await;
        buf.bytes_mut().fill(9);
        w.array.write(PART + 8192, buf.all(), true).await.unwrap();
    });
    ended_by("zeroes", async |w| {
        w.array.write_zeroes(PART + 2048, 4096, ZeroOptions::default()).await.unwrap();
    });
    ended_by("a check", async |w| {
        w.array.sync_window(3 * CHUNK, CHUNK, SyncMode::Check).await.unwrap();
    });
    ended_by("somebody who waits for memory", async |w| w.io.hurry());
    ended_by("a stop", async |w| w.array.stop().await.unwrap());
    ended_by("the rest of the row", async |w| {
        w.write(PART + 4096, &pattern(4, (ROW - 4096) as usize)).await.unwrap();
    });
}

#[test]
fn no_part_waits_while_somebody_is_in_a_hurry() {
    for (shape, row) in shapes(64 * KIB) {
        let world: Running<Sim> = Running::start(World::in_sim(&shape, Model::sata_ssd(), 7), patient());
        let took = |first: u64, hurries: bool| {
            world.run(async |w| {
                let _hurry = hurries.then(|| w.io.hurrying());
                let (bytes, since) = (pattern(1, row as usize), w.io.now());
                let mut rows = pin!(join_all((first..first + 4).map(|n| w.write(n * row, &bytes))));
                assert!(once(rows.as_mut()).await.is_none());
                w.write((first + 4) * row, &bytes[..4096]).await.unwrap();
                let took = w.io.now().since(since);
                rows.await;
                took
            })
        };
        // The first write of all is slower than others: the array is marked dirty.
        took(0, true);
        let (hurried, waited) = (took(30, true), took(60, false));
        assert!(hurried < waited, "{shape}: {hurried:?}, {waited:?}");
    }
}

#[test]
fn the_last_write_of_those_that_overlap_is_what_stays() {
    for (shape, row) in shapes(64 * KIB) {
        let world: Running<Sim> = Running::start(World::in_sim(&shape, Model::sata_ssd(), 3), patient());
        world.run(async |w| {
            let (bytes, part, over) = (pattern(1, row as usize), [2; 8192], [3; 8192]);
            let mut writes: Vec<_> = (0..4).map(|n| Box::pin(w.write(n * row, &bytes))).collect();
            writes.push(Box::pin(w.write(4 * row, &part)));
            writes.push(Box::pin(w.write(4 * row + 4096, &over)));
            assert!(join_all(writes).await.into_iter().all(|written| written.is_ok()));
            let read = w.read(4 * row, 3 * 4096).await.unwrap();
            assert!(read == [[2; 4096], [3; 4096], [3; 4096]].concat(), "{shape}");
        });
    }
}

/// The longest that any of these writes took.
async fn longest<F: Future>(world: &Running<Sim>, writes: impl IntoIterator<Item = F>) -> Duration {
    let timed = async |write: F| {
        let since = world.io.now();
        write.await;
        world.io.now().since(since)
    };
    join_all(writes.into_iter().map(timed)).await.into_iter().max().unwrap_or_default()
}

#[test]
fn a_stream_that_stops_in_the_middle_of_a_row_is_answered_and_read_back_at_once() {
    for (shape, row) in [64, 512].into_iter().flat_map(|chunk| shapes(chunk * KIB)) {
        let world: Running<Sim> = Running::start(World::in_sim(&shape, Model::sata_ssd(), 5), patient());
        world.run(async |w| {
            let len = row / 6 / 4096 * 4096;
            let bytes = pattern(1, len as usize);
            let write = async |n: u64| {
                w.write(n * len, &bytes).await.unwrap();
                assert!(
                    w.read(n * len, len as usize).await.unwrap() == bytes,
                    "{shape}: what is answered is there"
                );
            };
            let alone = longest(w, [write(0)]).await;
            // The same again, without an end of a row, several times: the row's parts are no longer waited for then.
            for round in 1..6 {
                let took = longest(w, (round * 12..round * 12 + 11).map(write)).await;
                let most = alone * 12 + LONGEST;
                assert!(took < most, "{shape}: {took:?}, at most {most:?}");
            }
        });
    }
}
