//! The cost of requests to parity arrays: the fewest reads, no needless writes, and steps that fit the scratch.

use brindle_array::{Device, ProcessError, Progress, RoleState, SyncMode, SyncReport};
use brindle_io::sync::join_all;
use brindle_layout::{Layout, Level, ParityLayout};
use brindle_volume::Volume;

use crate::parity::{SIZE, counted, dirty, roomy, write_counts};
use crate::world::{self, DATA_OFFSET, Running};

const UNIT: u64 = 4096;
/// Units of a chunk.
const COLS: u64 = 4;
const CHUNK: u64 = COLS * UNIT;
/// More than a step may take: an eighth of 1 MiB, of all members together.
const WIDE: usize = 512 << 10;

/// Fewest read operations, and their bytes, for a write of some units of a row's data. Each column reads either the
/// data that stay or the data that are replaced.
fn fewest(data: u64, parity: u64, start: u64, len: u64) -> (u64, u64) {
    let written = |index: u64, col: u64| (start..start + len).contains(&(index * COLS + col));
    let touched = |col: u64| (0..data).any(|index| written(index, col));
    let cost = |ways: u64| {
        let modified = |col: u64| touched(col) && ways >> col & 1 == 1;
        let is_read = |index: u64, col: u64| touched(col) && written(index, col) == modified(col);
        let runs = |reads: &dyn Fn(u64) -> bool| {
            let begins = (0..COLS).filter(|&col| reads(col) && (col == 0 || !reads(col - 1))).count() as u64;
            (begins, (0..COLS).filter(|&col| reads(col)).count() as u64 * UNIT)
        };
        let of_data = (0..data).map(|index| runs(&|col| is_read(index, col)));
        let all = of_data.chain((0..parity).map(|_| runs(&modified)));
        all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    (0..1 << COLS).map(cost).min().unwrap()
}

#[test]
fn no_write_reads_more_than_the_cheapest_plan() {
    for (level, data, parity) in [(Level::Raid5, 5, 1), (Level::Raid6, 4, 2)] {
        let world = dirty(level, CHUNK as usize, 6, roomy());
        let bytes_read = || world.ids.iter().map(|&id| world.io.counters(id).bytes_read).sum::<u64>();
        for start in 0..data * COLS {
            for len in 1..(data * COLS - start).min(data * COLS - 1) {
                let before = bytes_read();
                let (reads, _) = write_counts(&world, (start * UNIT) as usize, (len * UNIT) as usize);
                let cost = (reads, bytes_read() - before);
                assert_eq!(cost, fewest(data, parity, start, len), "{level}: {len} units at {start}");
            }
        }
    }
}

/// Row 0 of these has its data on the first members, then P, then Q.
fn parity_last(level: Level, members: usize) -> Running {
    let layout = if level == Level::Raid6 { ParityLayout::ParityLast } else { ParityLayout::LeftSymmetric };
    world::start(level, Layout::Parity(layout), CHUNK, members, 8 * CHUNK)
}

#[test]
fn nothing_is_read_or_written_for_parity_that_is_lost_or_says_nothing() {
    for (level, members, lost) in [(Level::Raid5, 4, vec![3]), (Level::Raid6, 5, vec![3, 4])] {
        let world = parity_last(level, members).without(&lost);
        world.run(async |w| w.write(w.size() - 512, &[1; 512]).await).unwrap();
        assert_eq!(write_counts(&world, 0, 4096), (0, 1), "{level}");
        assert_eq!(write_counts(&world, 0, 2 * CHUNK as usize), (0, 2), "{level}: nor the block that stays");
    }
    for (level, members) in [(Level::Raid5, 4), (Level::Raid6, 5)] {
        let world = world::doubted(&parity_last(level, members), 0);
        world.run(async |w| {
            w.array.fail(1).await.unwrap();
            w.write(w.size() - 512, &[1; 512]).await.unwrap();
        });
        assert_eq!(write_counts(&world, 0, 4096), (0, 1), "{level}: what is lost stays unknown");
    }
}

#[test]
fn full_rows_are_written_in_steps_that_fit_the_scratch() {
    const CHUNK: usize = 64 << 10;
    // A step has 128 KiB: parity of two rows, or P and Q of one.
    let raid5 = dirty(Level::Raid5, CHUNK, 4, world::config());
    assert_eq!(write_counts(&raid5, 0, 12 * CHUNK), (0, 8));
    let raid6 = dirty(Level::Raid6, CHUNK, 4, world::config());
    assert_eq!(write_counts(&raid6, 0, 8 * CHUNK), (0, 16));
    // With more scratch it has 8 MiB of data: the rows are locked meanwhile.
    let wide = dirty(Level::Raid5, CHUNK, 9, roomy());
    let counts = counted(&wide, async |w| {
        let buf = w.io.pool(16 << 20).alloc(16 << 20).await;
        w.array.write(0, buf.all(), false).await.unwrap();
    });
    assert_eq!(counts, (0, 2 * 9));
}

#[test]
fn wide_chunks_are_gone_over_in_columns_that_fit_the_scratch() {
    // P and Q of 64 KiB of a row.
    let raid6 = dirty(Level::Raid6, WIDE, 4, world::config());
    assert_eq!(write_counts(&raid6, 0, 2 * WIDE), (0, 8 * 4));
    let content = world::pattern(1, 2 * WIDE);
    assert!(raid6.without(&[0, 1]).run(async |w| w.read(0, 2 * WIDE).await).unwrap() == content);
    // P, a place for Q, and three blocks of 24 KiB: five columns that end with the first chunk, two that begin the second.
    let raid5 = dirty(Level::Raid5, WIDE, 3, world::config());
    assert_eq!(write_counts(&raid5, WIDE - (100 << 10), 148 << 10), (7, 14));
    // P and Q computed beside three members: 48 KiB at a time, of eight rows.
    let counts = raid5.counted(async |w| {
        assert_eq!(w.array.sync_window(0, SIZE, SyncMode::Check).await.unwrap(), SyncReport::default());
    });
    assert_eq!(counts, [(8 * 11, 0); 3]);
}

#[test]
fn a_part_of_a_recovery_touches_its_rows_only() {
    const CHUNK: u64 = 4096;
    let layout = Layout::Parity(ParityLayout::LeftSymmetric);
    let whole = world::start(Level::Raid5, layout, CHUNK, 3, 16 * CHUNK);
    whole.run(async |w| w.write_all(&world::pattern(2, w.size() as usize)).await).unwrap();
    let (world, garbage) = (whole.recovering(1), vec![0xAA; 16 * CHUNK as usize]);
    let at = DATA_OFFSET as usize;
    let expected = whole.image(1);
    world.bench.poke(world.ids[1], DATA_OFFSET, &garbage);
    let device = Device { id: world.ids[1], data_offset: DATA_OFFSET };
    let stopped = world.run(async |w| {
        let stop = |progress: Progress| {
            if progress.position >= 6 * CHUNK {
                w.array.process().unwrap().stop();
            }
        };
        w.array.recover(1, device, stop).await
    });
    assert_eq!(stopped, Err(ProcessError::Interrupted));
    let RoleState::Recovering(upto) = world.array.state(1) else { unreachable!("it was stopped") };
    assert!((6 * CHUNK..12 * CHUNK).contains(&upto), "{upto}");
    let mut bytes = garbage.clone();
    world.bench.peek(world.ids[1], DATA_OFFSET, &mut bytes);
    let upto = upto as usize;
    assert!(bytes[..upto] == expected[at..at + upto] && bytes[upto..] == garbage[upto..]);
}

#[test]
fn writes_in_flight_are_joined_in_whatever_order_they_come() {
    for order in [[0, 1, 2, 3, 4, 5, 6, 7], [7, 6, 5, 4, 3, 2, 1, 0], [3, 0, 7, 5, 6, 1, 4, 2]] {
        let world = dirty(Level::Raid5, CHUNK as usize, 3, roomy());
        let counts = counted(&world, async |w| {
            let write = async |n: u64| w.write(n * UNIT, &world::pattern(n, UNIT as usize)).await;
            assert!(join_all(order.map(write)).await.into_iter().all(|done| done.is_ok()));
        });
        // The first goes alone: it reads the block beside it. The others are a block, three quarters of one, whose rest is
        // read, and parity: an operation each.
        assert_eq!(counts, (1 + 1, 2 + 3), "{order:?}");
        for n in order {
            let bytes = world.run(async |w| w.read(n * UNIT, UNIT as usize).await).unwrap();
            assert!(bytes == world::pattern(n, UNIT as usize));
        }
        let report = world.run(async |w| w.scrub(SyncMode::Check).await).unwrap();
        assert_eq!(report.mismatch_sectors, 0);
    }
}
