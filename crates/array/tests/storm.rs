//! Overlapping requests of all kinds against drives that die, can't read and are replaced: every answer must be one
//! that some order of the requests explains, and redundancy must be true in the end.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_array::{Array, Config, Device, RoleState, SyncMode, Volume, VolumeError, ZeroOptions};
use brindle_io::sim::{Model, Sim};
use brindle_io::sync::join_all;
use brindle_io::{Duration, Io, MemberId, Pool};
use brindle_layout::{Family, Geometry, Layout, Level, ParityRows};

const SECTOR: u64 = 512;
const DATA_OFFSET: u64 = 4096;
const CHUNK: u64 = 16 << 10;
const MEMBER: u64 = 20 * CHUNK;
const LANES: u64 = 10;
const ROUNDS: u64 = 30;

/// A write or write-zeroes: when it began and returned on a counter of events, where, and what (0: zeroes).
#[derive(Clone, Copy)]
struct Change {
    began: u64,
    ended: u64,
    offset: u64,
    len: u64,
    value: u64,
}

/// All changes so far.
#[derive(Default)]
struct History {
    now: Cell<u64>,
    changes: RefCell<Vec<Change>>,
}

impl History {
    fn tick(&self) -> u64 {
        self.now.set(self.now.get() + 1);
        self.now.get()
    }

    fn begin(&self, offset: u64, len: u64, value: u64) -> usize {
        let began = self.tick();
        let mut changes = self.changes.borrow_mut();
        changes.push(Change { began, ended: u64::MAX, offset, len, value });
        changes.len() - 1
    }

    fn end(&self, change: usize) {
        self.changes.borrow_mut()[change].ended = self.tick();
    }

    /// Whether a read that ran from `began` to now may have seen `value` in a sector.
    fn explains(&self, began: u64, sector: u64, value: u64) -> bool {
        let changes = self.changes.borrow();
        let over: Vec<&Change> =
            changes.iter().filter(|c| c.offset <= sector && sector < c.offset + c.len).collect();
        let overwritten = |c: &Change| over.iter().any(|next| next.began > c.ended && next.ended < began);
        let zero = Change { began: 0, ended: 0, offset: 0, len: 0, value: 0 };
        core::iter::once(&zero).chain(over.iter().copied()).any(|c| c.value == value && !overwritten(c))
    }

    /// Whether a change of a sector had been acknowledged by then.
    fn acknowledged(&self, by: u64, sector: u64) -> bool {
        let over = |c: &Change| c.offset <= sector && sector < c.offset + c.len && c.ended < by;
        self.changes.borrow().iter().any(over)
    }
}

/// A sector tells which write it is of, and where it belongs.
fn fill(bytes: &mut [u8], offset: u64, value: u64) {
    for (n, sector) in (0..).zip(bytes.chunks_mut(SECTOR as usize)) {
        let word = value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (offset + n * SECTOR);
        for chunk in sector.chunks_mut(16) {
            chunk[..8].copy_from_slice(&value.to_le_bytes());
            chunk[8..].copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// The write that a sector is of; `None` if none wrote it so.
fn value_of(sector: &[u8], offset: u64) -> Option<u64> {
    let value = u64::from_le_bytes(sector[..8].try_into().unwrap());
    let mut expected = vec![0; SECTOR as usize];
    if value > 0 {
        fill(&mut expected, offset, value);
    }
    (expected == sector).then_some(value)
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

struct Storm {
    io: Io,
    sim: Sim,
    array: Array,
    pool: Pool,
    drives: Vec<MemberId>,
    history: History,
    level: Level,
    seed: u64,
    /// Parity is in doubt at first.
    doubtful: bool,
    /// Members that die.
    deaths: usize,
}

impl Storm {
    fn new(level: Level, layout: &str, members: usize, seed: u64) -> Rc<Self> {
        let sim = Sim::new(seed);
        let io = Io::new(Box::new(sim.clone()));
        let add = |_| sim.add_drive(Model::sata_ssd(), DATA_OFFSET + MEMBER);
        let drives: Vec<MemberId> = (0..members).map(add).collect();
        let layout = if layout.is_empty() {
            Layout::default_for(level)
        } else {
            Layout::parse(level, layout).unwrap()
        };
        let geometry = Geometry::new(level, layout, CHUNK, &vec![MEMBER; members]).unwrap();
        let config = Config { scratch_bytes: 0, ..Config::default() };
        let array = Array::volatile(&io, geometry, devices(&drives), config);
        let pool = io.pool(16 << 20);
        let history = History::default();
        Rc::new(Self { io, sim, array, pool, drives, history, level, seed, doubtful: false, deaths: 0 })
    }

    fn rows(&self) -> &ParityRows {
        match self.array.geometry().family() {
            Family::Parity(map) => map,
            _ => unreachable!("only parity is put in doubt"),
        }
    }

    /// Whether a read may fail that began at `began`: of an array whose parity was in doubt, what lost members held and
    /// nobody has written since. A second loss takes with it what was written to a survivor beside the first.
    fn may_fail(&self, began: u64, offset: u64, len: u64) -> bool {
        let lost = |&at: &u64| {
            let position = self.rows().position(at);
            let role = self.rows().row(position.row).data_member(position.data_index);
            let there = self.array.state(role) == RoleState::InSync;
            !there && (self.deaths > 1 || !self.history.acknowledged(began, at))
        };
        self.doubtful && (offset..offset + len).step_by(SECTOR as usize).any(|at| lost(&at))
    }

    async fn read(&self, array: &Array, offset: u64, len: u64) {
        let began = self.history.tick();
        let buf = self.pool.alloc(len as usize).await;
        if let Err(error) = array.read(offset, buf.all()).await {
            let who = (self.level.name(), self.seed);
            return assert!(self.may_fail(began, offset, len), "{who:?}: {len} bytes at {offset}: {error}");
        }
        for (n, sector) in (0..).zip(buf.bytes().chunks(SECTOR as usize)) {
            let at = offset + n * SECTOR;
            let who = (self.level.name(), self.seed);
            let Some(value) = value_of(sector, at) else {
                panic!("{who:?}: sector at {at} was never written so")
            };
            assert!(self.history.explains(began, at, value), "{who:?}: sector at {at} is of write {value}");
        }
    }

    async fn change(&self, random: &mut Random, offset: u64, len: u64) {
        let zero = random.below(8) == 0;
        if zero {
            let change = self.history.begin(offset, len, 0);
            let result = self.array.write_zeroes(offset, len, ZeroOptions::default()).await;
            return self.ended(change, result);
        }
        let buf = self.pool.alloc(len as usize).await;
        let value = 1 + self.history.changes.borrow().len() as u64;
        fill(&mut buf.bytes_mut(), offset, value);
        let change = self.history.begin(offset, len, value);
        let result = self.array.write(offset, buf.all(), random.below(4) == 0).await;
        self.ended(change, result);
    }

    /// One that failed may be seen for ever after.
    fn ended(&self, change: usize, result: Result<(), VolumeError>) {
        match result {
            Ok(()) => self.history.end(change),
            Err(error) => assert!(self.doubtful && self.deaths > 1, "{}: {error}", self.seed),
        }
    }

    async fn lane(&self, lane: u64) {
        let mut random = Random(self.seed * 1000 + lane);
        let size = self.array.limits().size;
        for _ in 0..ROUNDS {
            let most = [2, 16, 64, 300][random.below(4) as usize];
            let len = (1 + random.below(most)) * SECTOR;
            // Half of the requests meet in a few rows.
            let within = if random.below(2) == 0 { size } else { size.min(12 * CHUNK) };
            let len = len.min(within);
            let offset = random.below((within - len) / SECTOR + 1) * SECTOR;
            if random.below(3) == 0 {
                self.read(&self.array, offset, len).await;
            } else {
                self.change(&mut random, offset, len).await;
            }
        }
    }

    /// Spoils ranges of one drive now and then, and scrubs.
    async fn weather(&self, ailing: usize) {
        let mut random = Random(self.seed + 77);
        for _ in 0..12 {
            self.io.sleep(Duration::from_micros(300 + random.below(900))).await;
            let at = random.below(MEMBER / SECTOR - 4) * SECTOR;
            self.sim.spoil(self.drives[ailing], DATA_OFFSET + at, SECTOR * (1 + random.below(4)));
            if random.below(3) == 0 {
                self.scrub(&self.array).await;
            }
        }
    }

    async fn scrub(&self, array: &Array) {
        let len = array.sync_len();
        for pos in (0..len).step_by(64 << 10) {
            let report = array.sync_window(pos, (64 << 10).min(len - pos), SyncMode::Check).await.unwrap();
            assert_eq!(
                report.mismatch_sectors,
                0,
                "{} {}: {:?}",
                self.level.name(),
                self.seed,
                report.places
            );
        }
    }

    /// Kills members and rebuilds each onto a new drive, while all goes on.
    async fn deaths(&self, dead: &[u16]) -> Vec<MemberId> {
        let mut drives = self.drives.clone();
        for &role in dead {
            self.io.sleep(Duration::from_millis(2)).await;
            self.sim.kill(drives[usize::from(role)]);
        }
        for &role in dead {
            while self.array.state(role) == RoleState::InSync {
                self.io.sleep(Duration::from_micros(100)).await;
                self.read(&self.array, 0, self.array.limits().size.min(64 * CHUNK)).await;
            }
            let id = self.sim.add_drive(Model::sata_ssd(), DATA_OFFSET + MEMBER);
            self.array.begin_recovery(role, Device { id, data_offset: DATA_OFFSET });
            for pos in (0..MEMBER).step_by(2 * CHUNK as usize) {
                self.array.recover_window(role, pos, (2 * CHUNK).min(MEMBER - pos)).await.unwrap();
            }
            drives[usize::from(role)] = id;
        }
        drives
    }
}

fn devices(drives: &[MemberId]) -> Vec<Option<Device>> {
    drives.iter().map(|&id| Some(Device { id, data_offset: DATA_OFFSET })).collect()
}

fn run(level: Level, layout: &str, members: usize, dead: &'static [u16], ailing: Option<usize>, seed: u64) {
    let storm = Storm::new(level, layout, members, seed);
    let io = storm.io.clone();
    io.block_on(async {
        let mut lanes = Vec::new();
        for lane in 0..LANES {
            let storm = Rc::clone(&storm);
            lanes.push(io.spawn(async move { storm.lane(lane).await }));
        }
        if let Some(ailing) = ailing {
            let storm = Rc::clone(&storm);
            lanes.push(io.spawn(async move { storm.weather(ailing).await }));
        }
        let drives = storm.deaths(dead).await;
        join_all(lanes).await;
        let size = storm.array.limits().size;
        storm.read(&storm.array, 0, size).await;
        // Rebuilt drives are as good as any: a run in which they are in sync finds nothing amiss.
        let geometry = storm.array.geometry().clone();
        let whole = Array::volatile(&io, geometry, devices(&drives), Config::default());
        storm.scrub(&whole).await;
        storm.read(&whole, 0, size).await;
    });
    io.shutdown();
}

/// Level, layout, members, those that die, and one whose sectors go bad.
type Shape = (Level, &'static str, usize, &'static [u16], Option<usize>);

/// As many deaths as are tolerated, or one less and a drive that can't read.
const STORMS: [Shape; 9] = [
    (Level::Raid5, "", 5, &[], Some(2)),
    (Level::Raid5, "", 4, &[1], None),
    (Level::Raid6, "", 6, &[2], Some(3)),
    (Level::Raid6, "", 6, &[0, 5], None),
    (Level::Raid6, "ddf-zero-restart", 5, &[1, 2], None),
    (Level::Raid1, "", 3, &[0], Some(1)),
    (Level::Raid10, "n2", 5, &[1], None),
    (Level::Raid10, "f2", 4, &[], Some(2)),
    (Level::Raid10, "o2", 5, &[3], None),
];

#[test]
fn every_answer_is_explained_and_redundancy_is_true_in_the_end() {
    for (level, layout, members, dead, ailing) in STORMS {
        for seed in 0..4 {
            run(level, layout, members, dead, ailing, seed);
        }
    }
}

/// All parity is garbage, a resync is under way, and members die; none is rebuilt.
fn run_doubtful(level: Level, members: usize, dead: &'static [u16], seed: u64) {
    let storm = Storm::new(level, "", members, seed);
    let storm = Rc::into_inner(storm).unwrap();
    let storm = Rc::new(Storm { doubtful: true, deaths: dead.len(), ..storm });
    let io = storm.io.clone();
    io.block_on(async {
        scramble_parity(&storm).await;
        storm.array.doubt_redundancy(0);
        let mut lanes = Vec::new();
        for lane in 0..LANES {
            let storm = Rc::clone(&storm);
            lanes.push(io.spawn(async move { storm.lane(lane).await }));
        }
        let mut random = Random(seed);
        let array = storm.array.clone();
        lanes.push(io.spawn(async move {
            array.resync(|_| ()).await.unwrap();
        }));
        for &role in dead {
            io.sleep(Duration::from_micros(200 + random.below(6000))).await;
            storm.sim.kill(storm.drives[usize::from(role)]);
        }
        join_all(lanes).await;
        for at in (0..storm.array.limits().size).step_by(SECTOR as usize) {
            storm.read(&storm.array, at, SECTOR).await;
        }
    });
    io.shutdown();
}

async fn scramble_parity(storm: &Storm) {
    let garbage = storm.pool.alloc(CHUNK as usize).await;
    garbage.bytes_mut().fill(0xA5);
    let mut group = storm.io.group();
    for row in 0..storm.rows().rows() {
        let roles = storm.rows().row(row);
        for role in core::iter::once(roles.p()).chain(roles.q()) {
            let offset = DATA_OFFSET + storm.rows().row_offset(row);
            group.write(storm.drives[usize::from(role)], offset, &garbage.all(), false);
        }
    }
    assert!(group.submit().await.is_ok());
}

#[test]
fn members_that_die_in_a_resync_take_nothing_with_them_that_was_written() {
    let storms: [(Level, usize, &[u16]); 4] = [
        (Level::Raid5, 4, &[]),
        (Level::Raid5, 4, &[1]),
        (Level::Raid6, 5, &[2]),
        (Level::Raid6, 6, &[0, 3]),
    ];
    for (level, members, dead) in storms {
        for seed in 0..5 {
            run_doubtful(level, members, dead, seed);
        }
    }
}
