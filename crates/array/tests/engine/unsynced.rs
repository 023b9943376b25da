//! Parity that is not known true, and members lost: every answer that can be given is, and no byte that was never
//! written.

use brindle_array::{Array, RoleState, SyncMode, Volume, VolumeError};
use brindle_io::sync::join_all;
use brindle_layout::{Family, Layout, Level, ParityLayout, ParityRows};

use crate::world::{self, DATA_OFFSET, Random, World};

const CHUNK: u64 = 8192;
const ROWS: u64 = 6;
const SECTOR: u64 = 512;
/// Sectors of a chunk.
const COLS: u64 = CHUNK / SECTOR;

fn map(world: &World) -> ParityRows {
    match world.array.geometry().family() {
        Family::Parity(map) => map.clone(),
        _ => unreachable!("these are parity arrays"),
    }
}

/// An array with this content, whose parity is in doubt from a row on, and wrong there.
fn doubtful(level: Level, layout: ParityLayout, members: usize, from: u64, content: &mut Vec<u8>) -> World {
    let world = World::new(level, Layout::Parity(layout), CHUNK, members, ROWS * CHUNK);
    *content = world::pattern(5, world.array.limits().size as usize);
    world.run(async |w| w.write_all(content).await).unwrap();
    for row in from..ROWS {
        let roles = map(&world).row(row);
        for (seed, role) in (row * 2..).zip(core::iter::once(roles.p()).chain(roles.q())) {
            let garbage = world::pattern(900 + seed, CHUNK as usize);
            world.memory.poke(world.ids[usize::from(role)], DATA_OFFSET + row * CHUNK, &garbage);
        }
    }
    world.array.doubt_redundancy(from * CHUNK);
    world
}

/// What must be true of the array.
struct Model {
    map: ParityRows,
    content: Vec<u8>,
    lost: Vec<u16>,
    /// By row and sector of a chunk: parity is known true.
    known: Vec<bool>,
}

impl Model {
    fn new(world: &World, content: Vec<u8>, from: u64) -> Self {
        let known = (0..ROWS * COLS).map(|at| at / COLS < from).collect();
        Self { map: map(world), content, lost: Vec::new(), known }
    }

    /// Data members of a row that are lost, by index.
    fn lost_of(&self, row: u64) -> Vec<u16> {
        let roles = self.map.row(row);
        (0..roles.data_members()).filter(|&index| self.lost.contains(&roles.data_member(index))).collect()
    }

    /// Whether a write may be done, and what is known after it.
    fn write(&mut self, offset: u64, bytes: &[u8]) -> bool {
        let written = |row: u64, index: u16, col: u64| {
            let at = row * self.map.row_data_bytes() + u64::from(index) * CHUNK + col * SECTOR;
            offset <= at && at < offset + bytes.len() as u64
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
        self.content[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
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
    async fn check(&self, world: &World, random: &mut Random, who: &str) {
        let sectors = self.content.len() as u64 / SECTOR;
        let stretch =
            |from: u64, len: u64| &self.content[(from * SECTOR) as usize..((from + len) * SECTOR) as usize];
        let long = random.below(sectors - 40);
        for (from, len) in (0..sectors).map(|sector| (sector, 1)).chain([(long, 40)]) {
            let read = world.read(from * SECTOR, (len * SECTOR) as usize).await;
            let readable = (from..from + len).all(|sector| self.readable(sector));
            assert_eq!(read.is_ok(), readable, "{who}: {len} sectors at {from}");
            assert!(read.is_err() || read.unwrap() == stretch(from, len), "{who}: {len} sectors at {from}");
        }
    }
}

/// Writes, zeroes, full rows, windows of a resync, and members lost between them.
async fn live(world: &World, model: &mut Model, deaths: &[(u64, u16)], random: &mut Random, who: &str) {
    let (row, size) = (model.map.row_data_bytes(), model.content.len() as u64);
    for step in 0..36 {
        for &(_, role) in deaths.iter().filter(|(at, _)| *at == step) {
            world.array.fail(role).await.unwrap();
            model.lost.push(role);
            model.check(world, random, who).await;
        }
        let (offset, len) = match random.below(6) {
            0 => (random.below(ROWS - 1) * row, row * (1 + random.below(2))),
            1 => (random.below(size / SECTOR - 60) * SECTOR, (1 + random.below(60)) * SECTOR),
            _ => (random.below(size / SECTOR - 8) * SECTOR, (1 + random.below(8)) * SECTOR),
        };
        if random.below(12) == 0 {
            let row = random.below(ROWS);
            world.array.sync_window(row * CHUNK, CHUNK, SyncMode::Repair).await.unwrap();
            if model.lost_of(row).is_empty() {
                model.known[(row * COLS) as usize..((row + 1) * COLS) as usize].fill(true);
            }
            continue;
        }
        let zero = random.below(6) == 0;
        let bytes = if zero { vec![0; len as usize] } else { world::pattern(random.next(), len as usize) };
        let allowed = model.write(offset, &bytes);
        if !allowed && !model.is_plain(offset, len) {
            continue;
        }
        let result = if zero {
            world.array.write_zeroes(offset, len, Default::default()).await
        } else {
            world.write(offset, &bytes).await
        };
        assert_eq!(result.is_ok(), allowed, "{who} step {step}: {result:?}, {len} bytes at {offset}");
        assert!(result.is_ok() || result == Err(VolumeError::TooManyLost));
        if step % 6 == 5 {
            model.check(world, random, who).await;
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
            let mut content = Vec::new();
            let world = doubtful(level, layout, members, from, &mut content);
            let mut model = Model::new(&world, content, from);
            let first = random.below(members as u64) as u16;
            let second = (first + 1 + random.below(members as u64 - 1) as u16) % members as u16;
            let deaths = [(random.below(12), first), (random.below(30), second)];
            world.run(async |w| live(w, &mut model, &deaths[..tolerance], &mut random, &who).await);
            world.io.shutdown();
        }
    }
}

/// Writes side by side, and a resync; gives what each write was answered.
async fn together(world: &World) -> (Vec<(u64, Vec<u8>)>, Vec<Result<(), VolumeError>>) {
    let mut random = Random::new(9);
    let row = map(world).row_data_bytes();
    let parts =
        [(0, row), (row + 512, 3072), (row + CHUNK, 8192), (2 * row + 4096, row), (4 * row + 1024, 512)];
    let writes: Vec<_> = parts.map(|(at, len)| (at, world::pattern(random.next(), len as usize))).to_vec();
    let array = world.array.clone();
    let resync = world.io.spawn(async move { resync(&array).await });
    let tasks = writes.iter().cloned().map(|(offset, bytes)| {
        let (array, pool) = (world.array.clone(), world.pool.clone());
        world.io.spawn(async move {
            let buf = pool.alloc(bytes.len()).await;
            buf.bytes_mut().copy_from_slice(&bytes);
            array.write(offset, buf.all(), false).await
        })
    });
    let results = join_all(tasks.collect::<Vec<_>>()).await;
    resync.await;
    (writes, results)
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
        let mut content = Vec::new();
        let calm = doubtful(level, ParityLayout::LeftSymmetric, members, 0, &mut content);
        let before: u64 = calm.ids.iter().map(|&id| calm.memory.op_counts(id)).map(|(r, w)| r + w).sum();
        calm.run(async |w| together(w).await);
        let after: u64 = calm.ids.iter().map(|&id| calm.memory.op_counts(id)).map(|(r, w)| r + w).sum();
        for at in 0..after - before {
            for victim in 0..members {
                let who = format!("{level}: {deaths} lost from {victim} on after {at}");
                let world = doubtful(level, ParityLayout::LeftSymmetric, members, 0, &mut content);
                for n in 0..deaths {
                    let (after, id) = (at + 3 * n as u64, world.ids[(victim + n) % members]);
                    world.memory.strike_after(after, id, at % 2 == 0);
                }
                let (writes, results) = world.run(async |w| together(w).await);
                assert!(deaths == 2 || results.iter().all(Result::is_ok), "{who}: {results:?}");
                world.run(async |w| check_sectors(w, &content, &writes, &results, deaths, &who).await);
                world.io.shutdown();
            }
        }
    }
}

/// Each sector is what was acknowledged, or old or new where nothing was; or an error, if it was lost and nobody has
/// written it. With two deaths a write's member may be the second.
async fn check_sectors(
    world: &World,
    content: &[u8],
    writes: &[(u64, Vec<u8>)],
    results: &[Result<(), VolumeError>],
    deaths: usize,
    who: &str,
) {
    let rows = map(world);
    for at in (0..content.len()).step_by(512) {
        let covers = |(offset, bytes): &(u64, Vec<u8>)| {
            (*offset as usize..*offset as usize + bytes.len()).contains(&at)
        };
        let over = writes.iter().zip(results).find(|(write, _)| covers(write));
        let new = over.map(|((offset, bytes), _)| &bytes[at - *offset as usize..][..512]);
        let acknowledged = over.is_some_and(|(_, result)| result.is_ok());
        let position = rows.position(at as u64);
        let role = rows.row(position.row).data_member(position.data_index);
        let lost = world.array.state(role) != RoleState::InSync;
        match world.read(at as u64, 512).await {
            Ok(bytes) => {
                let old = !acknowledged && bytes == content[at..at + 512];
                assert!(old || Some(&bytes[..]) == new, "{who}: sector at {at}");
            }
            Err(error) => {
                assert!(lost && (deaths == 2 || !acknowledged), "{who}: sector at {at}: {error}");
            }
        }
    }
}
