//! Parity that is not known to be in sync, and members lost: every answer that can be given is, and no byte that was never
//! written.

use std::cell::RefCell;
use std::rc::Rc;

use brindle_array::{Array, RoleState, SyncMode};
use brindle_io::sync::join_all;
use brindle_layout::{Family, Layout, Level, ParityLayout, ParityRows};
use brindle_testkit::client::{Client, Trouble};
use brindle_testkit::load::Request;
use brindle_testkit::oracle::Oracle;
use brindle_volume::VolumeError;

use crate::world::{self, DATA_OFFSET, Random, Running};

const CHUNK: u64 = 8192;
const ROWS: u64 = 6;
const SECTOR: u64 = 512;
/// Sectors of a chunk.
const COLS: u64 = CHUNK / SECTOR;

fn map(run: &Running) -> ParityRows {
    match run.array.geometry().family() {
        Family::Parity(map) => map.clone(),
        _ => unreachable!("these are parity arrays"),
    }
}

/// A full array whose parity is in doubt from a row on, and wrong there; and what it holds.
fn doubtful(level: Level, layout: ParityLayout, members: usize, from: u64) -> (Running, Rc<RefCell<Oracle>>) {
    let run = world::start(level, Layout::Parity(layout), CHUNK, members, ROWS * CHUNK);
    let oracle = run.oracle();
    run.run(async |run| run.client(&oracle).write_all().await).unwrap();
    oracle.borrow_mut().stopped();
    for row in from..ROWS {
        let roles = map(&run).row(row);
        for (seed, role) in (row * 2..).zip(core::iter::once(roles.p()).chain(roles.q())) {
            let garbage = world::pattern(900 + seed, CHUNK as usize);
            run.bench.poke(run.ids[usize::from(role)], DATA_OFFSET + row * CHUNK, &garbage);
        }
    }
    (world::doubted(&run, from * CHUNK), oracle)
}

/// The state that the array must be in, beside the content of its sectors.
struct Model {
    map: ParityRows,
    client: Client<Array>,
    lost: Vec<u16>,
    /// By row and sector of a chunk: parity is known to be in sync.
    known: Vec<bool>,
}

impl Model {
    fn new(run: &Running, oracle: &Rc<RefCell<Oracle>>, from: u64) -> Self {
        let known = (0..ROWS * COLS).map(|at| at / COLS < from).collect();
        Self { map: map(run), client: run.client(oracle), lost: Vec::new(), known }
    }

    /// Data members of a row that are lost, by index.
    fn lost_of(&self, row: u64) -> Vec<u16> {
        let roles = self.map.row(row);
        (0..roles.data_members()).filter(|&index| self.lost.contains(&roles.data_member(index))).collect()
    }

    /// Whether a write may be done, and what is known after it.
    fn write(&mut self, offset: u64, len: u64) -> bool {
        let written = |row: u64, index: u16, col: u64| {
            let at = row * self.map.row_data_bytes() + u64::from(index) * CHUNK + col * SECTOR;
            offset <= at && at < offset + len
        };
        let mut known = self.known.clone();
        for row in 0..ROWS {
            let lost = self.lost_of(row);
            for col in 0..COLS {
                let count = lost.iter().filter(|&&index| written(row, index, col)).count();
                let touched = (0..self.map.data_members()).any(|index| written(row, index, col));
                let known = &mut known[(row * COLS + col) as usize];
                if count > 0 && count < lost.len() && !*known {
                    return false;
                }
                *known |= touched && count == lost.len();
            }
        }
        self.known = known;
        true
    }

    /// Whether a request lies in one row, of which all is known or nothing: what is refused there is not done in part.
    fn is_plain(&self, offset: u64, len: u64) -> bool {
        let row = offset / self.map.row_data_bytes();
        let known = &self.known[(row * COLS) as usize..((row + 1) * COLS) as usize];
        row == (offset + len - 1) / self.map.row_data_bytes() && known.iter().all(|one| *one == known[0])
    }

    fn readable(&self, sector: u64) -> bool {
        let position = self.map.position(sector * SECTOR);
        let role = self.map.row(position.row).data_member(position.data_index);
        let known = self.known[(position.row * COLS + position.column / SECTOR) as usize];
        !self.lost.contains(&role) || known
    }

    /// Reads single sectors, and a longer stretch.
    async fn check(&self, run: &Running, random: &mut Random, who: &str) {
        let sectors = run.size() / SECTOR;
        let long = random.below(sectors - 40);
        for (from, len) in (0..sectors).map(|sector| (sector, 1)).chain([(long, 40)]) {
            let answer = self.client.ask(Request::Read { offset: from * SECTOR, len: len * SECTOR }).await;
            let readable = (from..from + len).all(|sector| self.readable(sector));
            let fits = match answer {
                Ok(()) => readable,
                Err(Trouble::Refused(..)) => !readable,
                Err(Trouble::Wrong(..)) => false,
            };
            assert!(fits, "{who}: {len} sectors at {from}: {answer:?}");
        }
    }
}

/// Writes, zeroes, full rows, windows of a resync, and members lost between them.
async fn live(run: &Running, model: &mut Model, deaths: &[(u64, u16)], random: &mut Random, who: &str) {
    let (row, size) = (model.map.row_data_bytes(), run.size());
    for step in 0..36 {
        for &(_, role) in deaths.iter().filter(|(at, _)| *at == step) {
            run.array.fail(role).await.unwrap();
            model.lost.push(role);
            model.check(run, random, who).await;
        }
        let (offset, len) = match random.below(6) {
            0 => (random.below(ROWS - 1) * row, row * (1 + random.below(2))),
            1 => (random.below(size / SECTOR - 60) * SECTOR, (1 + random.below(60)) * SECTOR),
            _ => (random.below(size / SECTOR - 8) * SECTOR, (1 + random.below(8)) * SECTOR),
        };
        if random.one_in(12) {
            let row = random.below(ROWS);
            run.array.sync_window(row * CHUNK, CHUNK, SyncMode::Repair).await.unwrap();
            if model.lost_of(row).is_empty() {
                model.known[(row * COLS) as usize..((row + 1) * COLS) as usize].fill(true);
            }
            continue;
        }
        let (fua, keep) = (false, false);
        let request = if random.one_in(6) {
            Request::Zeroes { offset, len, fua, keep }
        } else {
            Request::Write { offset, len, fua }
        };
        let allowed = model.write(offset, len);
        if !allowed && !model.is_plain(offset, len) {
            continue;
        }
        match model.client.ask(request).await {
            Ok(()) => assert!(allowed, "{who} step {step}: {request:?} was done"),
            Err(Trouble::Refused(_, VolumeError::TooManyLost)) if !allowed => {}
            Err(trouble) => panic!("{who} step {step}: {trouble}"),
        }
        if step % 6 == 5 {
            model.check(run, random, who).await;
        }
    }
}

#[test]
fn what_can_be_answered_is_and_the_rest_is_an_error() {
    let shapes = [
        (Level::Raid5, ParityLayout::LeftSymmetric, 4, 1),
        (Level::Raid4, ParityLayout::ParityLast, 4, 1),
        (Level::Raid6, ParityLayout::LeftSymmetric, 5, 2),
        (Level::Raid6, ParityLayout::ParityLast, 5, 2),
    ];
    for (level, layout, members, tolerance) in shapes {
        for seed in 0..24 {
            let who = format!("{level} {layout:?} seed {seed}");
            let mut random = Random::new(seed + 1);
            let from = random.below(3);
            let (run, oracle) = doubtful(level, layout, members, from);
            let mut model = Model::new(&run, &oracle, from);
            let first = random.below(members as u64) as u16;
            let second = (first + 1 + random.below(members as u64 - 1) as u16) % members as u16;
            let deaths = [(random.below(12), first), (random.below(30), second)];
            run.run(async |run| live(run, &mut model, &deaths[..tolerance], &mut random, &who).await);
        }
    }
}

/// Writes side by side, and a resync; gives what was not done.
async fn together(run: &Running, client: &Client<Array>) -> Vec<Trouble> {
    let row = map(run).row_data_bytes();
    let parts =
        [(0, row), (row + 512, 3072), (row + CHUNK, 8192), (2 * row + 4096, row), (4 * row + 1024, 512)];
    let array = run.array.clone();
    let resync = run.io.spawn(async move { resync(&array).await });
    let tasks = parts.map(|(offset, len)| {
        let client = client.clone();
        run.io.spawn(async move { client.ask(Request::Write { offset, len, fua: false }).await })
    });
    let troubles = join_all(tasks).await.into_iter().filter_map(Result::err).collect();
    resync.await;
    troubles
}

async fn resync(array: &Array) {
    for pos in (0..array.sync_len()).step_by(CHUNK as usize) {
        // Beyond tolerance it ends as all does.
        let _ended = array.sync_window(pos, CHUNK, SyncMode::Repair).await;
    }
}

/// Members vanish at every moment of a resync beside writes.
#[test]
fn members_lost_at_any_moment_of_a_resync() {
    for (level, members, deaths) in [(Level::Raid5, 4, 1), (Level::Raid6, 5, 1), (Level::Raid6, 5, 2)] {
        let start = || doubtful(level, ParityLayout::LeftSymmetric, members, 0);
        let (calm, oracle) = start();
        let counts = calm.counted(async |run| {
            assert_eq!(together(run, &run.client(&oracle)).await, []);
        });
        let operations: u64 = counts.into_iter().map(|(reads, writes)| reads + writes).sum();
        for at in 0..operations {
            for victim in 0..members {
                let who = format!("{level}: {deaths} lost from {victim} on after {at}");
                let (run, oracle) = start();
                for n in 0..deaths {
                    let (after, id) = (at + 3 * n as u64, run.ids[(victim + n) % members]);
                    run.bench.strike_after(after, id, at % 2 == 0);
                }
                oracle.borrow_mut().upset();
                let client = run.client(&oracle);
                let troubles = run.run(async |run| together(run, &client).await);
                assert!(deaths == 2 || troubles.is_empty(), "{who}: {troubles:?}");
                run.run(async |run| check_sectors(run, &client, deaths, &who).await);
            }
        }
    }
}

/// Each sector is what was acknowledged, or old or new where nothing was; or an error, if it was lost and nobody has
/// written it. With two deaths a write's member may be the second.
async fn check_sectors(run: &Running, client: &Client<Array>, deaths: usize, who: &str) {
    let rows = map(run);
    for offset in (0..run.size()).step_by(SECTOR as usize) {
        let began = client.oracle().borrow_mut().read_begins();
        let acknowledged = client.oracle().borrow().is_written(began, offset);
        let position = rows.position(offset);
        let role = rows.row(position.row).data_member(position.data_index);
        let lost = run.array.state(role) != RoleState::InSync;
        match client.ask(Request::Read { offset, len: SECTOR }).await {
            Ok(()) => {}
            Err(Trouble::Refused(_, error)) => {
                assert!(lost && (deaths == 2 || !acknowledged), "{who}: sector at {offset}: {error}");
            }
            Err(wrong) => panic!("{who}: {wrong}"),
        }
    }
}
