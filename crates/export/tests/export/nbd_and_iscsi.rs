//! An array behind both doors, in virtual time: initiators that add by COMPARE AND WRITE, that reserve, crash and take over, NBD clients
//! that write beside them and are thrown out, and a member that fails or hangs meanwhile.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;

use crate::support::initiator::{Client, TARGET};
use brindle_array::{Array, OpenConfig};
use brindle_export::iscsi::{IscsiConfig, Server, TargetSpec};
use brindle_export::nbd::client::Remote;
use brindle_export::scsi::Identity;
use brindle_export::scsi::reservation::Reservations;
use brindle_export::{Config, Gate, nbd};
use brindle_io::sim::{Faults, Model, Sim, When};
use brindle_io::sync::join_all;
use brindle_io::{Duration, Pool, SocketId};
use brindle_layout::Level;
use brindle_testkit::random::Random;
use brindle_testkit::running::Running;
use brindle_testkit::shape::Shape;
use brindle_testkit::world::{World, patient};
use brindle_volume::{Volume, VolumeError};

const BLOCK: usize = 512;
/// Where initiators add, and where NBD clients write: in one chunk, so that parity is common.
const NUMBER: u32 = 0;
const BESIDE: u64 = 8;
const BESIDES: u64 = 8;
/// Time that a member may take to answer, as arrays with an iSCSI door have it.
const PATIENCE: Duration = Duration::from_secs(4);

const SHAPES: [(Level, usize); 4] =
    [(Level::Raid5, 3), (Level::Raid1, 2), (Level::Raid6, 4), (Level::Raid10, 4)];

const GOOD: u8 = 0;
const CHECK: u8 = 2;
const CONFLICT: u8 = 0x18;

struct Doors {
    running: Running<Sim>,
    nbd: nbd::Server<Array>,
    iscsi: Server<Array>,
    at: [SocketId; 2],
    pool: Pool,
}

impl Doors {
    fn new(level: Level, members: usize, seed: u64) -> Self {
        Self::on(Model::nvme(), level, members, seed)
    }

    fn on(model: Model, level: Level, members: usize, seed: u64) -> Self {
        let shape = Shape { chunk: 16 << 10, rows: 32, ..Shape::new(level, members) };
        let mut config: OpenConfig = patient();
        config.patience.answer = PATIENCE;
        let running = Running::start(World::in_sim(&shape, model, seed), config);
        let (io, sim) = (running.io.clone(), running.bench.clone());
        let session = Config { memory: 8 << 20, connections: 16, requests: 16, ..Config::default() };
        let nbd = nbd::Server::new(&io, session);
        let iscsi =
            Server::new(&io, IscsiConfig { session, chap: None, random: Box::new(|bytes| bytes.fill(7)) });
        let (gate, volume) = (Rc::<Gate>::default(), Rc::new(running.array.clone()));
        nbd.add_guarded("disk", "", Rc::clone(&volume), Rc::clone(&gate)).expect("a fresh name");
        let identity = Identity { uuid: [1; 16], product: "t".into(), target: TARGET.into() };
        iscsi.add_target(TargetSpec {
            identity,
            volume,
            reservations: Reservations::default(),
            keep: None,
            gate,
        });
        let at = [sim.listen(), sim.listen()];
        nbd.serve(at[0]);
        iscsi.serve(at[1], None);
        let pool = io.pool(64 << 20);
        Self { running, nbd, iscsi, at, pool }
    }

    async fn remote(&self) -> Remote {
        let socket = self.running.bench.connect(self.at[0]);
        Remote::connect(&self.running.io, socket, "disk", &self.pool).await.expect("a server")
    }

    async fn initiator(&self, name: u8) -> Client {
        let (io, socket) = (self.running.io.clone(), self.running.bench.connect(self.at[1]));
        let buf = self.pool.alloc(2 << 20).await;
        let mut client =
            Client { io, socket, buf, inbox: Vec::new(), name, next: 1, status: 0, digests: false };
        assert_eq!(client.login(&[]).await.0[36], 0, "login");
        assert_eq!(
            client.command(&[0; 16], &[], 0).await.status,
            CHECK,
            "POWER ON, or what became of the session"
        );
        client
    }

    async fn rest(&self, millis: u64) {
        self.running.io.sleep(Duration::from_millis(millis)).await;
    }

    fn end(&self) {
        self.running.io.block_on(async {
            self.iscsi.stop().await;
            self.nbd.stop().await;
        });
        self.running.stop();
    }
}

/// COMPARE AND WRITE of the number's block, with FUA: what was found, and the next number in every word.
fn addition(old: &[u8]) -> ([u8; 16], Vec<u8>) {
    let next = (number(old) + 1).to_le_bytes().repeat(BLOCK / 4);
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[13]) = (0x89, 8, 1);
    (cdb, [old, &next].concat())
}

/// The number in a block, which is whole.
fn number(block: &[u8]) -> u32 {
    assert!(block.chunks_exact(4).all(|word| word == &block[..4]), "a torn block: {block:?}");
    u32::from_le_bytes([block[0], block[1], block[2], block[3]])
}

/// How many additions of all initiators were done, and how many may have been.
#[derive(Default)]
struct Sum {
    done: Cell<u32>,
    /// Sent by one who was gone before the answer.
    perhaps: Cell<u32>,
}

fn count(of: &Cell<u32>) {
    of.set(of.get() + 1);
}

async fn adds(doors: &Doors, name: u8, times: u32, sum: &Sum, seed: u64) {
    let mut chance = Random::stream(seed, u64::from(name));
    let mut client = doors.initiator(name).await;
    for _ in 0..times {
        loop {
            let came = client.read(NUMBER, BLOCK).await;
            if came.status != GOOD {
                continue; // it is told of a preemption or the like
            }
            let (cdb, both) = addition(&came.data);
            if chance.one_in(12) {
                crash(&client, &cdb, &both).await;
                count(&sum.perhaps);
                client = doors.initiator(name).await;
                break;
            }
            match client.command(&cdb, &both, 0).await.status {
                GOOD => {
                    count(&sum.done);
                    break;
                }
                CONFLICT => doors.rest(5).await,
                other => assert_eq!(other, CHECK, "MISCOMPARE, or a unit attention"),
            }
        }
    }
}

/// Sends a command with all of its data, and is gone.
async fn crash(client: &Client, command: &[u8; 16], data: &[u8]) {
    use brindle_export::iscsi::pdu::{FINAL, Header, request};
    let mut header = Header::new(request::COMMAND, client.next).byte(1, FINAL | 0x20);
    header.0[32..48].copy_from_slice(command);
    client.send(header.with(20, data.len() as u32).with(24, client.next), data).await;
    client.io.close(client.socket);
}

/// Reserves again and again, or takes the reservation over; while it holds it nobody else changes a byte.
async fn reserves(doors: &Doors, name: u8, times: u32, held: &Cell<u32>, seed: u64) {
    let mut chance = Random::stream(seed, 100 + u64::from(name));
    let (key, other) = (u64::from(name), if name == 8 { 9 } else { 8 });
    let mut client = doors.initiator(name).await;
    for _ in 0..times {
        // REGISTER AND IGNORE EXISTING KEY, whatever became of the last one.
        while client.reserve(6, 0, 0, key, false).await.status != GOOD {}
        let reserved = client.reserve(1, 1, key, 0, false).await.status == GOOD
            || client.reserve(4, 1, key, other, false).await.status == GOOD;
        if !reserved {
            doors.rest(7).await;
            continue;
        }
        // Requests that had begun before may still end.
        doors.rest(50).await;
        let before = client.read(0, 32 * BLOCK).await;
        doors.rest(20).await;
        let after = client.read(0, 32 * BLOCK).await;
        let mine = client.reserve(6, 0, 0, key, false).await.status == GOOD
            && client.write(40, &[name; BLOCK]).await.status == GOOD;
        if before.status == GOOD && after.status == GOOD && mine {
            assert!(before.data == after.data, "seed {seed}: somebody wrote while {name} had it reserved");
            count(held);
        }
        if chance.one_in(3) {
            // The other one has to take it over.
            client.io.close(client.socket);
            client = doors.initiator(name).await;
        } else {
            client.reserve(2, 1, key, 0, false).await;
        }
        doors.rest(chance.below(40)).await;
    }
    while client.reserve(6, 0, 0, 0, false).await.status == CHECK {}
    // No client is left waiting behind the reservation.
    client.reserve(6, 0, 0, key, false).await;
    client.reserve(3, 0, key, 0, false).await;
}

/// Writes beside the number, is refused while somebody has reserved the disk, and is thrown out now and then.
async fn writes(doors: &Doors, lane: u64, times: u32, refused: &Cell<u32>, seed: u64) {
    let mut chance = Random::stream(seed, 200 + lane);
    let at = (BESIDE + lane) * BLOCK as u64;
    let buf = doors.pool.alloc(2 * BLOCK).await;
    let (from, into) = (buf.slice(0..BLOCK), buf.slice(BLOCK..2 * BLOCK));
    let mut remote = doors.remote().await;
    // The sums that may be there.
    let mut may_be = vec![0];
    for stamp in 1..=times as u8 {
        from.put(0, &[stamp; BLOCK]);
        match remote.write(at, &from, false).await {
            Ok(()) => may_be = vec![stamp],
            Err(VolumeError::ReadOnly) => count(refused),
            Err(_) => {
                may_be.push(stamp);
                remote = doors.remote().await;
            }
        }
        match remote.read(at, &into).await {
            Ok(()) => {
                let found = into.bytes()[0];
                assert!(may_be.contains(&found), "seed {seed}, lane {lane}: {found}, not {may_be:?}");
                assert!(into.bytes().iter().all(|byte| *byte == found), "seed {seed}: a torn block");
                may_be = vec![found];
            }
            Err(_) => remote = doors.remote().await,
        }
        doors.rest(chance.below(12)).await;
    }
    remote.leave().await;
}

async fn operates(doors: &Doors, seed: u64) {
    let mut chance = Random::stream(seed, 300);
    for round in 0..12 {
        doors.rest(30 + chance.below(60)).await;
        if round == 3 && seed.is_multiple_of(2) {
            doors.running.bench.kill(doors.running.ids[1]);
        }
        doors.nbd.disconnect("disk", |number, _| number % 2 == round % 2);
    }
}

/// `few` seeds, or as many as there is time for: from SEED on, for BRINDLE_STORM_SECONDS, as `make storm ONLY=doors` has it.
fn seeds(few: u64) -> impl Iterator<Item = u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (first, time) = (number("SEED").unwrap_or(0), number("BRINDLE_STORM_SECONDS"));
    let begun = std::time::Instant::now();
    let goes_on = move |seed: &u64| match time {
        Some(seconds) => begun.elapsed().as_secs() < seconds,
        None => *seed < first + few,
    };
    (first..).take_while(goes_on)
}

#[test]
fn all_doors_of_an_array_keep_what_each_has_promised() {
    let (mut held, mut refused, mut perhaps) = (0, 0, 0);
    for seed in seeds(8) {
        let (level, members) = SHAPES[seed as usize / 2 % SHAPES.len()];
        let doors = Doors::new(level, members, seed);
        let (sum, own, no) = (Sum::default(), Cell::new(0), Cell::new(0));
        doors.running.run(async |_| {
            let mut actors: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> =
                vec![Box::pin(operates(&doors, seed))];
            for name in 1..=3 {
                actors.push(Box::pin(adds(&doors, name, 40, &sum, seed)));
            }
            for name in 8..=9 {
                actors.push(Box::pin(reserves(&doors, name, 6, &own, seed)));
            }
            for lane in 0..BESIDES / 2 {
                actors.push(Box::pin(writes(&doors, lane, 60, &no, seed)));
            }
            join_all(actors).await;
            let mut last = doors.initiator(20).await;
            let found = last.read(NUMBER, BLOCK).await.data;
            let found = number(&found);
            let (done, perhaps) = (sum.done.get(), sum.perhaps.get());
            assert!((done..=done + perhaps).contains(&found), "seed {seed}: {found} of {done} and {perhaps}");
            last.io.close(last.socket);
        });
        doors.end();
        held += own.get();
        refused += no.get();
        perhaps += sum.perhaps.get();
    }
    println!(
        "{held} reservations held, {refused} writes refused beside them, {perhaps} additions without an answer"
    );
    assert!(held > 0 && refused > 0 && perhaps > 0, "{held} {refused} {perhaps}");
}

/// Initiators that are under way when the power goes.
const ADDING: u8 = 3;

#[test]
fn what_was_added_outlives_the_power() {
    let (mut added, mut whole) = (0, 0);
    let mut lives = 0;
    for seed in seeds(16) {
        lives += 1;
        let (level, members) = SHAPES[seed as usize % SHAPES.len()];
        // Drives that forget what was not made stable.
        let doors = Doors::on(Model::sata_ssd(), level, members, seed);
        let (sum, no) = (Sum::default(), Cell::new(0));
        let step = doors.running.bench.steps() + 100 + Random::new(seed).below(3000);
        doors.running.bench.cut_power_at(When::Step(step));
        doors.running.run(async |running| {
            let mut actors: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
            for name in 1..=ADDING {
                actors.push(Box::pin(adds(&doors, name, 40, &sum, seed)));
            }
            for lane in 0..BESIDES / 2 {
                actors.push(Box::pin(writes(&doors, lane, 60, &no, seed)));
            }
            if running.bench.until_end(&running.io, join_all(actors)).await.is_some() {
                running.bench.cut_power();
                whole += 1;
            }
        });
        let Doors { running, nbd, iscsi, pool, .. } = doors;
        let world = running.into_world();
        drop((nbd, iscsi, pool));
        let running = Running::start(world.restart(seed + 1), patient());
        let found = number(&running.run(async |running| running.read(0, BLOCK).await).expect("it is there"));
        let done = sum.done.get();
        let most = done + sum.perhaps.get() + u32::from(ADDING);
        assert!((done..=most).contains(&found), "{level}, seed {seed}: {found} of {done} to {most}");
        running.stop();
        added += done;
    }
    println!("{lives} power cuts, {added} additions before them");
    assert!(added > 0 && whole * 2 <= lives, "{added} additions, {whole} of {lives} lives whole");
}

#[test]
fn compare_and_write_ends_soon_while_a_member_fails_or_hangs() {
    type Fault = fn(&mut Faults);
    let faults: [(&str, Fault, Duration); 2] = [
        ("fails", |faults| faults.gone = true, Duration::from_secs(1)),
        ("hangs", |faults| faults.hangs = true, PATIENCE + Duration::from_secs(1)),
    ];
    for (level, members) in SHAPES {
        for (what, fault, longest) in faults {
            for role in 0..members {
                let doors = Doors::new(level, members, 5);
                let slowest = doors.running.run(async |running| {
                    let mut client = doors.initiator(1).await;
                    let mut slowest = Duration::ZERO;
                    for number in 0..40_u32 {
                        if number == 10 {
                            running.bench.afflict(running.ids[role], fault);
                        }
                        let begun = running.io.now();
                        let (cdb, both) = addition(&client.read(NUMBER, BLOCK).await.data);
                        assert_eq!(
                            client.command(&cdb, &both, 0).await.status,
                            GOOD,
                            "{level}, {role} {what}"
                        );
                        slowest = slowest.max(running.io.now().since(begun));
                    }
                    let found = client.read(NUMBER, BLOCK).await.data;
                    assert_eq!(number(&found), 40);
                    client.io.close(client.socket);
                    slowest
                });
                assert!(slowest < longest, "{level}: {role} {what}: {slowest:?}");
                running_again(&doors, role);
            }
        }
    }
}

/// A member that hangs answers again, so that the world can end.
fn running_again(doors: &Doors, role: usize) {
    let running = &doors.running;
    running.bench.afflict(running.ids[role], |faults| faults.hangs = false);
    doors.end();
}
