//! Parity arrays that lack members and have no room: whatever is lost and whoever is full, a refused write leaves each
//! sector old or new, everything readable, and nothing in doubt.

use std::collections::BTreeSet;

use brindle_array::{Array, OpenConfig, Recovery, SyncMode};
use brindle_format::md::Version;
use brindle_io::Duration;
use brindle_io::sim::{Model as Drive, Sim};
use brindle_layout::Level;
use brindle_volume::{Volume, ZeroOptions};

use crate::common::{whole as common_whole, *};
use crate::full::is_full;

const CHUNK: usize = 4096;
const ROWS: u64 = 40;
const SECTOR: usize = 512;
const SHAPES: [(Level, usize); 6] = [
    (Level::Raid4, 3),
    (Level::Raid4, 4),
    (Level::Raid5, 3),
    (Level::Raid5, 4),
    (Level::Raid6, 4),
    (Level::Raid6, 5),
];
/// Steps of a run: each is one write, or some at once.
const STEPS: u64 = 48;

/// One array, some of whose members are lost and some full.
struct Run {
    who: String,
    world: World<Sim>,
    array: Array,
    random: Random,
    row: usize,
    /// The content that the array must have.
    holds: Vec<u8>,
    refused: u32,
}

impl Run {
    fn new(level: Level, members: usize, lost: &[usize], full: &[usize]) -> Self {
        let shape = Shape { rows: ROWS, ..Shape::new(level, members) };
        let sim = Sim::new(3);
        let mut random = Random::new(7);
        // Sparse files: what was never written reads as zeroes. Here and there zeroes were.
        let carry = |(offset, bytes): (u64, Vec<u8>)| {
            let drive = Drive { volatile_cache: true, jitter: 0, ..Drive::sata_ssd() };
            let id = sim.add_blank_drive(drive, shape.device_bytes());
            sim.poke(id, offset, &bytes);
            for sector in (0..ROWS * CHUNK as u64).step_by(SECTOR) {
                if random.below(4) == 0 {
                    sim.poke(id, shape.data_offset() + sector, &[0; SECTOR]);
                }
            }
            id
        };
        let ids = shape.superblocks().into_iter().map(carry).collect();
        let world = World::over(sim, ids, shape.version);
        let array = world.open();
        let holds = vec![0; array.limits().size as usize];
        let parity = if level == Level::Raid6 { 2 } else { 1 };
        let who = format!("{level} of {members} without {lost:?}, {full:?} full");
        let mut run = Self { who, world, array, random, row: (members - parity) * CHUNK, holds, refused: 0 };
        for n in 0..10 {
            run.step(n);
        }
        assert_eq!(run.refused, 0);
        for &role in lost {
            run.world.io.block_on(run.array.fail(role as u16)).unwrap();
        }
        run.room(full, false);
        run
    }

    fn room(&self, members: &[usize], is_there: bool) {
        for &member in members {
            let full = (!is_there).then_some(0..u64::MAX);
            self.world.bench.afflict(self.world.ids[member], |faults| faults.full = full);
        }
    }

    /// Ranges to be written at once; none overlaps another.
    fn ranges(&mut self, n: u64) -> Vec<(usize, usize)> {
        let row = self.row;
        let lens = [SECTOR, CHUNK / 2, CHUNK, CHUNK + SECTOR, row, 3 * row, row + CHUNK / 2, row - SECTOR];
        let len = lens[(n % 8) as usize].min(self.holds.len());
        let unit = [SECTOR, CHUNK, row][self.random.below(3) as usize];
        let at = self.random.below(((self.holds.len() - len) / unit + 1) as u64) as usize * unit;
        if !n.is_multiple_of(3) || len > row {
            return vec![(at, len)];
        }
        // Several parts of one row.
        let start = at - at % row;
        let sectors: BTreeSet<u64> = (0..5).map(|_| self.random.below((row / SECTOR) as u64 / 4)).collect();
        sectors
            .into_iter()
            .map(|s| (start + s as usize * 4 * SECTOR, SECTOR << self.random.below(3)))
            .collect()
    }

    fn read(&self, at: usize, len: usize) -> Vec<u8> {
        self.world.read(&self.array, at as u64, len).unwrap_or_else(|error| panic!("{}: {error}", self.who))
    }

    /// Writes and looks at the rows around: sectors of a refused write are old or new and stay so, others as they were.
    fn step(&mut self, n: u64) {
        let ranges = self.ranges(n);
        let write_one = |&(at, len): &(usize, usize)| {
            let zeroes = ranges.len() == 1 && n.is_multiple_of(7);
            let bytes = if zeroes { vec![0; len] } else { pattern(1000 * n + at as u64, len) };
            let (array, pool, memory) = (self.array.clone(), self.world.pool.clone(), bytes.clone());
            let task = self.world.io.spawn(async move {
                if zeroes {
                    let options = ZeroOptions { keep_allocated: true, ..ZeroOptions::default() };
                    return array.write_zeroes(at as u64, len as u64, options).await;
                }
                write(&pool, &array, at as u64, &memory).await
            });
            (at, bytes, task)
        };
        let tasks: Vec<_> = ranges.iter().map(write_one).collect();
        let mut refused = vec![false; self.holds.len() / SECTOR];
        let mut due = self.holds.clone();
        for (at, bytes, task) in tasks {
            due[at..at + bytes.len()].copy_from_slice(&bytes);
            if let Err(error) = self.world.io.block_on(task) {
                assert!(is_full(Err(error)), "{}: {error}", self.who);
                refused[at / SECTOR..(at + bytes.len()) / SECTOR].fill(true);
                self.refused += 1;
            }
        }
        let start = ranges[0].0 / self.row * self.row;
        let last = ranges.iter().map(|(at, len)| at + len).max().unwrap_or(0);
        let end = last.next_multiple_of(self.row).min(self.holds.len());
        let found = self.read(start, end - start);
        assert!(found == self.read(start, end - start), "{}: one and the same answer", self.who);
        for (at, sector) in (start..).step_by(SECTOR).zip(found.chunks(SECTOR)) {
            let is = |bytes: &[u8]| bytes[at..at + SECTOR] == *sector;
            let fine = is(&due) || refused[at / SECTOR] && is(&self.holds);
            assert!(fine, "{}, step {n}, {ranges:?}: sector at {at}", self.who);
        }
        self.holds[start..end].copy_from_slice(&found);
    }

    fn holds_all(&self, when: &str) {
        assert!(self.read(0, self.holds.len()) == self.holds, "{}, {when}", self.who);
    }

    /// The next start, without force.
    fn restart(mut self) -> Self {
        self.world.stop(&self.array);
        drop(self.array);
        let ids = self.world.ids.clone();
        self.world = World::over(self.world.bench.restart(5), ids, Version::V1_2);
        self.array = self.world.open();
        self
    }
}

/// All sets of up to `most` of these members, the empty one too.
fn sets(members: usize, most: usize) -> Vec<Vec<usize>> {
    let all = (0..1u32 << members).filter(|set| set.count_ones() as usize <= most);
    all.map(|set| (0..members).filter(|member| set >> member & 1 == 1).collect()).collect()
}

fn all_runs(go: impl Fn(Run, &[usize], &[usize])) {
    for (level, members) in SHAPES {
        for lost in sets(members, if level == Level::Raid6 { 2 } else { 1 }) {
            let rest: Vec<usize> = (0..members).filter(|role| !lost.contains(role)).collect();
            let each = rest.iter().map(|&role| vec![role]);
            for full in each.chain([rest.clone()]) {
                go(Run::new(level, members, &lost, &full), &lost, &full);
            }
        }
    }
}

#[test]
fn whatever_is_lost_and_whoever_is_full_nothing_else_is_lost() {
    all_runs(|mut run, lost, full| {
        (0..STEPS).for_each(|n| run.step(100 + n));
        assert!(run.refused > 5, "{}: {} refused", run.who, run.refused);
        run.holds_all("in the end");
        // Without redundancy to spare nothing may be in doubt: the next start would need force.
        assert!(lost.is_empty() || !run.array.needs_resync(), "{}", run.who);
        let doubt = run.array.needs_resync();
        let rest = (0..run.world.ids.len()).filter(|role| !lost.contains(role));
        let rest: Vec<usize> = rest.collect();
        let mut run = run.restart();
        assert!(rest.iter().all(|&role| doubt != run.world.superblock(role).is_clean()), "{}", run.who);
        run.holds_all("after a restart");
        run.room(full, true);
        if doubt {
            run.world.io.block_on(run.array.resync(|_| ())).unwrap();
        }
        let report = run.world.io.block_on(run.array.check(SyncMode::Check, |_| ())).unwrap();
        assert_eq!(report.mismatch_sectors, 0, "{}", run.who);
        // The remaining redundancy must agree with the remaining data.
        let another = rest[run.random.below(rest.len() as u64) as usize];
        if run.world.io.block_on(run.array.fail(another as u16)).is_ok() {
            run.holds_all("without another");
        }
        run.refused = 0;
        (0..20).for_each(|n| run.step(500 + n));
        assert_eq!(run.refused, 0, "{}: it goes on", run.who);
        run.holds_all("after all");
    });
}

#[test]
fn what_copies_on_write_gives_errors_where_it_can_not_be_made_good_and_nothing_that_was_never_written() {
    for (level, members) in SHAPES {
        for role in 1..members {
            let mut run = Run::new(level, members, &[0], &[]);
            let full = |is: bool| {
                let id = run.world.ids[role];
                run.world
                    .bench
                    .afflict(id, |faults| faults.full_on_write = is.then_some(DATA_OFFSET..u64::MAX));
            };
            full(true);
            let len = 2 * run.row;
            let bytes = pattern(5, len);
            let written = run.world.write(&run.array, 0, &bytes);
            assert_eq!(written, crate::full::full(role), "{}", run.who);
            for at in (0..len).step_by(SECTOR) {
                let Ok(found) = run.world.read(&run.array, at as u64, SECTOR) else { continue };
                let is = |bytes: &[u8]| bytes[at..at + SECTOR] == found;
                assert!(is(&bytes) || is(&run.holds), "{}, {role} copies: {at}", run.who);
            }
            full(false);
            run.world.write(&run.array, 0, &bytes).unwrap();
            run.holds[..len].copy_from_slice(&bytes);
            (0..20).for_each(|n| run.step(700 + n));
            run.holds_all("with room again");
        }
    }
}

/// A spare has the role of a member that fails while it is written to, before the others have answered: of the role nothing is
/// refused any more.
#[test]
fn a_member_that_fails_under_a_write_of_a_degraded_row_is_no_lack_of_space() {
    for whole_row in [false, true] {
        for after in (0..1200).step_by(8).map(Duration::from_micros) {
            let shape = Shape { rows: 16, spares: 1, ..Shape::new(Level::Raid6, 5) };
            let world = World::in_sim(&shape, Drive { jitter: 0, ..Drive::sata_ssd() }, 3);
            let array = world
                .try_open(world.assembly().unwrap(), OpenConfig { recovery: Recovery::Manual, ..patient() });
            let array = array.unwrap();
            let content = pattern(5, array.limits().size as usize);
            world.write(&array, 0, &content).unwrap();
            world.io.block_on(array.fail(0)).unwrap();
            // One member answers last.
            world.bench.afflict(world.ids[4], |faults| faults.slowness = 8);
            let new = pattern(6, if whole_row { 3 * CHUNK } else { CHUNK / 2 });
            let (writing, pool, bytes) = (array.clone(), world.pool.clone(), new.clone());
            let write = world.io.spawn(async move { write(&pool, &writing, 0, &bytes).await });
            let spare = array.spares()[0];
            let written = world.io.block_on(async {
                world.io.sleep(after).await;
                let failing = array.clone();
                let failed = world.io.spawn(async move { failing.fail(1).await });
                world.io.yield_now().await;
                let recovered = array.recover(1, spare, |_| ()).await;
                failed.await.unwrap();
                recovered.unwrap();
                write.await
            });
            assert_eq!(written, Ok(()), "{whole_row}, failed after {after:?}");
            let holds = [&new[..], &content[new.len()..]].concat();
            assert!(common_whole(&world, &array) == holds, "{whole_row}, failed after {after:?}");
            world.stop(&array);
        }
    }
}
