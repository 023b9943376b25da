//! Overlapping requests of all kinds against drives that die, can't read and are replaced: every answer must be one
//! that some order of the requests explains, and redundancy must be in sync in the end.

use std::cell::RefCell;
use std::rc::Rc;

use brindle_array::{Array, OpenConfig, RoleState, SyncMode};
use brindle_io::sim::{Model, Sim};
use brindle_io::{Duration, MemberId};
use brindle_layout::{Family, Geometry, Level, ParityRows};
use brindle_testkit::client::{Client, Trouble};
use brindle_testkit::load::{Load, Mix, Request};
use brindle_testkit::oracle::Oracle;
use brindle_testkit::random::Random;
use brindle_testkit::running::Running;
use brindle_testkit::shape::{Shape, planned};
use brindle_testkit::stamp::SECTOR;
use brindle_testkit::world::{World, patient};

const CHUNK: u64 = 16 << 10;
const ROWS: u64 = 20;
const LANES: u64 = 10;
const ROUNDS: u64 = 30;

/// Half of the requests meet in a few rows.
const MIX: Mix = Mix {
    reads: 8,
    writes: 14,
    zeroes: 2,
    discards: 0,
    flushes: 1,
    most: 150 << 10,
    crowd: 12 * CHUNK,
    block: SECTOR as u64,
};

fn sized(shape: &Shape) -> Shape {
    Shape { chunk: CHUNK, rows: ROWS, ..shape.clone() }
}

fn start(world: World<Sim>) -> Running<Sim> {
    Running::start(world, OpenConfig { scratch_bytes: 0, ..patient() })
}

/// Spoils ranges of one drive now and then, and scrubs.
async fn weather(run: &Running<Sim>, read_failures: usize, seed: u64) {
    let mut random = Random::stream(seed, 77);
    let sector = SECTOR as u64;
    for _ in 0..12 {
        run.io.sleep(Duration::from_micros(300 + random.below(900))).await;
        let at = random.below(CHUNK * ROWS / sector - 4) * sector;
        run.bench.spoil(run.ids[read_failures], run.data_offset + at, sector * (1 + random.below(4)));
        if random.one_in(3) {
            assert_eq!(run.scrub(SyncMode::Check).await.unwrap().mismatch_sectors, 0, "seed {seed}");
        }
    }
}

/// Kills members and rebuilds each onto a new drive, while all goes on; gives the drives that are good in the end.
async fn deaths(run: &Running<Sim>, client: &Client<Array>, dead: &[u16]) -> Vec<MemberId> {
    let mut drives = run.ids.clone();
    for &role in dead {
        run.io.sleep(Duration::from_millis(2)).await;
        run.bench.kill(drives[usize::from(role)]);
    }
    for &role in dead {
        while run.array.state(role) == RoleState::InSync {
            run.io.sleep(Duration::from_micros(100)).await;
            client.read_all().await.unwrap();
        }
        let bytes = run.data_offset + CHUNK * ROWS;
        let id = run.bench.add_blank_drive(Model::sata_ssd(), bytes);
        // One at a time.
        run.recovery(role, id).await.unwrap();
        drives[usize::from(role)] = id;
    }
    drives
}

fn storm(shape: &Shape, dead: &[u16], read_failures: Option<usize>, seed: u64) {
    let who = format!("{shape}, seed {seed}");
    let run = Rc::new(start(World::in_sim(&sized(shape), Model::sata_ssd(), seed)));
    let oracle = run.oracle();
    let client = run.client(&oracle);
    run.io.block_on(async {
        let (asking, io) = (client.clone(), run.io.clone());
        let load = run.io.spawn(async move { asking.side_by_side(&io, LANES, ROUNDS, MIX, seed).await });
        let weather = read_failures.map(|read_failures| {
            let run = Rc::clone(&run);
            let io = run.io.clone();
            io.spawn(async move { weather(&run, read_failures, seed).await })
        });
        let drives = deaths(&run, &client, dead).await;
        let troubles = load.await;
        assert!(troubles.is_empty(), "{who}: {}", troubles[0]);
        if let Some(weather) = weather {
            weather.await;
        }
        client.read_all().await.unwrap_or_else(|trouble| panic!("{who}: {trouble}"));
        run.array.stop().await.unwrap();
        // Rebuilt drives are as good as any: a run in which they are in sync finds nothing amiss.
        oracle.borrow_mut().stopped();
        let whole = run.unrecorded(&drives);
        assert_eq!(whole.check(SyncMode::Check, |_| ()).await.unwrap().mismatch_sectors, 0, "{who}");
        let client = Client::new(whole, run.pool.clone(), oracle);
        client.read_all().await.unwrap_or_else(|trouble| panic!("{who}, rebuilt: {trouble}"));
    });
}

/// Level, layout, members, those that die, and one whose sectors go bad.
type Case = (Level, &'static str, usize, &'static [u16], Option<usize>);

/// As many deaths as are tolerated, or one less and a drive that can't read.
const STORMS: [Case; 9] = [
    (Level::Raid5, "left-symmetric", 5, &[], Some(2)),
    (Level::Raid5, "left-symmetric", 4, &[1], None),
    (Level::Raid6, "left-symmetric", 6, &[2], Some(3)),
    (Level::Raid6, "left-symmetric", 6, &[0, 5], None),
    (Level::Raid6, "ddf-zero-restart", 5, &[1, 2], None),
    (Level::Raid1, "", 3, &[0], Some(1)),
    (Level::Raid10, "n2", 5, &[1], None),
    (Level::Raid10, "f2", 4, &[], Some(2)),
    (Level::Raid10, "o2", 5, &[3], None),
];

#[test]
fn every_answer_is_explained_and_redundancy_is_in_sync_in_the_end() {
    for (level, layout, members, dead, read_failures) in STORMS {
        let shape = Shape::new(level, members);
        let shape = if layout.is_empty() { shape } else { shape.layout(layout) };
        for seed in 0..8 {
            storm(&shape, dead, read_failures, seed);
        }
    }
}

/// An array whose parity is garbage, and its clients.
struct Doubtful {
    run: Running<Sim>,
    client: Client<Array>,
    oracle: Rc<RefCell<Oracle>>,
    deaths: usize,
    who: String,
}

impl Doubtful {
    /// Superblocks say that nothing is known of parity, all of which is garbage.
    fn new(shape: &Shape, deaths: usize, seed: u64) -> Self {
        let shape = sized(shape);
        let world = World::in_sim(&shape, Model::sata_ssd(), seed);
        let garbage = vec![0xa5; CHUNK as usize];
        let rows = rows(&planned(&shape.spec()).geometry);
        for row in 0..rows.rows() {
            let roles = rows.row(row);
            for role in core::iter::once(roles.p()).chain(roles.q()) {
                let offset = shape.data_offset() + rows.row_offset(row);
                world.bench.poke(world.ids[usize::from(role)], offset, &garbage);
            }
        }
        world.doubt(0);
        let run = start(world);
        let oracle = run.oracle();
        let client = run.client(&oracle);
        Self { run, client, oracle, deaths, who: format!("{shape}, seed {seed}, {deaths} die") }
    }

    /// Whether a read may fail that began at `began`: what lost members held and nobody has written since. A second loss
    /// takes with it what was written to a survivor beside the first.
    fn may_fail(&self, began: u64, offset: u64, len: u64) -> bool {
        let rows = rows(self.run.array.geometry());
        let lost = |at: u64| {
            let position = rows.position(at);
            let role = rows.row(position.row).data_member(position.data_index);
            let there = self.run.array.state(role) == RoleState::InSync;
            !there && (self.deaths > 1 || !self.oracle.borrow().is_written(began, at))
        };
        (offset..offset + len).step_by(SECTOR).any(lost)
    }

    /// Asks, and judges the answer; whether there was one.
    async fn ask(&self, request: Request) -> bool {
        let began = self.oracle.borrow_mut().read_begins();
        let fits = match (self.client.ask(request).await, request) {
            (Ok(()), _) => return true,
            (Err(Trouble::Refused(..)), Request::Read { offset, len }) => self.may_fail(began, offset, len),
            (Err(Trouble::Refused(..)), _) => self.deaths > 1,
            (Err(Trouble::Wrong(..)), _) => false,
        };
        assert!(fits, "{}: {request:?} failed", self.who);
        false
    }

    async fn lane(&self, lane: u64, seed: u64) {
        let mut load = Load::new(Random::stream(seed, lane), self.run.size(), MIX);
        for _ in 0..ROUNDS {
            self.ask(load.next_request()).await;
        }
    }
}

fn rows(geometry: &Geometry) -> ParityRows {
    match geometry.family() {
        Family::Parity(map) => map.clone(),
        _ => unreachable!("only parity is put in doubt"),
    }
}

/// A resync is under way, and members die; none is rebuilt. Gives how many sectors could be read in the end, of how many.
fn storm_in_doubt(shape: &Shape, dead: &[u16], seed: u64) -> (usize, usize) {
    let doubtful = Rc::new(Doubtful::new(shape, dead.len(), seed));
    let run = &doubtful.run;
    run.io.block_on(async {
        let mut lanes: Vec<_> = (0..LANES)
            .map(|lane| {
                let doubtful = Rc::clone(&doubtful);
                run.io.spawn(async move { doubtful.lane(lane, seed).await })
            })
            .collect();
        let array = run.array.clone();
        lanes.push(run.io.spawn(async move { drop(array.resync(|_| ()).await.unwrap()) }));
        let mut random = Random::new(seed);
        for &role in dead {
            run.io.sleep(Duration::from_micros(200 + random.below(6000))).await;
            doubtful.oracle.borrow_mut().upset();
            run.bench.kill(run.ids[usize::from(role)]);
        }
        for lane in lanes {
            lane.await;
        }
        let (mut answered, mut all) = (0, 0);
        for offset in (0..run.size()).step_by(SECTOR) {
            all += 1;
            answered += usize::from(doubtful.ask(Request::Read { offset, len: SECTOR as u64 }).await);
        }
        (answered, all)
    })
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
        for seed in 0..10 {
            let (answered, all) = storm_in_doubt(&Shape::new(level, members), dead, seed);
            // The data on the remaining members can always be read.
            assert!(
                answered * members >= all * (members - dead.len()),
                "{level}, seed {seed}: {answered} of {all}"
            );
        }
    }
}
