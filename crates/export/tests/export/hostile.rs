//! An array served over connections that are slow, carry pieces and break, in virtual time, from many seeds. No
//! client ever reads bytes that no client wrote, and clients that read nothing or lie stop no other. No resource of a
//! closed connection remains, and a server that is told to stop stops.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::support::session;
use brindle_array::Array;
use brindle_export::nbd::client::{Remote, wire};
use brindle_export::nbd::proto::{Request, option_code};
use brindle_export::nbd::{Config, Server};
use brindle_io::sim::{Hostility, Model, Sim};
use brindle_io::{Duration, Io, OpError, Pool, Slice, SocketId};
use brindle_layout::Level;
use brindle_testkit::client::{Client, Trouble};
use brindle_testkit::load::{Load, Mix};
use brindle_testkit::oracle::Oracle;
use brindle_testkit::random::Random;
use brindle_testkit::shape::Shape;
use brindle_testkit::world::World;
use brindle_volume::{Allocation, Limits, Volume, VolumeError, ZeroOptions};

/// Clients of a run; each asks several things at once over one connection after the other.
const CLIENTS: u64 = 4;
/// Things that a client asks at once.
const LANES: u64 = 3;
/// Requests that each lane sends over one connection.
const REQUESTS: u64 = 12;
/// Connections of each client.
const LIVES: u64 = 4;
/// Longer than this nothing of a connection may stay that has ended.
const LINGER: Duration = Duration::from_secs(5);

/// Counts of a run, so that a test can't pass because nothing happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    done: u64,
    broken: u64,
}

/// All that the tasks of a run share.
struct Run {
    sim: Sim,
    io: Io,
    pool: Pool,
    server: Server<Array>,
    listener: SocketId,
    oracle: Rc<RefCell<Oracle>>,
    connections: Cell<u64>,
    stopping: Cell<bool>,
    tally: Cell<Tally>,
    seed: u64,
}

/// A remote export whose changes have ended when they return: also where the connection has broken, after which the
/// server may still be busy with what had been asked.
#[derive(Clone)]
struct Settled {
    remote: Remote,
    run: Rc<Run>,
    id: u64,
}

impl Settled {
    async fn settle(&self, answer: Result<(), VolumeError>) -> Result<(), VolumeError> {
        if answer == Err(VolumeError::of_some_member(OpError::Disconnected)) {
            self.run.gone(self.id).await;
        }
        answer
    }
}

impl Volume for Settled {
    fn limits(&self) -> Limits {
        self.remote.limits()
    }

    async fn read(&self, offset: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        self.remote.read(offset, into).await
    }

    async fn write(&self, offset: u64, from: impl AsRef<[Slice]>, fua: bool) -> Result<(), VolumeError> {
        self.settle(self.remote.write(offset, from, fua).await).await
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.remote.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.settle(self.remote.discard(offset, len).await).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError> {
        self.settle(self.remote.write_zeroes(offset, len, options).await).await
    }

    async fn allocation(
        &self,
        offset: u64,
        len: u64,
        found: &mut Vec<Allocation>,
    ) -> Result<(), VolumeError> {
        self.remote.allocation(offset, len, found).await
    }
}

impl Run {
    fn connect(&self) -> (SocketId, u64) {
        let id = self.connections.get();
        self.connections.set(id + 1);
        (self.sim.connect(self.listener), id)
    }

    /// Waits until nothing is left of a connection.
    async fn gone(&self, id: u64) {
        let began = self.io.now();
        while self.server.connection_stats().iter().any(|connection| connection.id == id) {
            let waited = self.io.now().since(began);
            assert!(waited < LINGER, "seed {}: connection {id} stays", self.seed);
            self.io.sleep(Duration::from_micros(100)).await;
        }
    }

    fn note(&self, change: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        change(&mut tally);
        self.tally.set(tally);
    }

    /// One connection of a client, to its end.
    async fn live(self: &Rc<Self>, mut chance: Random) {
        let (socket, id) = self.connect();
        let Ok(remote) = Remote::connect(&self.io, socket, "", &self.pool).await else {
            self.note(|tally| tally.broken += 1);
            return;
        };
        let volume = Settled { remote: remote.clone(), run: Rc::clone(self), id };
        let lanes = (0..LANES).map(|lane| {
            let client = Client::new(volume.clone(), self.pool.clone(), Rc::clone(&self.oracle));
            let load = Load::new(Random::stream(chance.next(), lane), volume.limits().size, mix());
            self.io.spawn(Rc::clone(self).lane(client, load))
        });
        let lanes: Vec<_> = lanes.collect();
        if chance.one_in(3) {
            self.io.sleep(Duration::from_micros(chance.below(8000))).await;
            remote.close(); // dies, at any moment
        }
        for lane in lanes {
            lane.await;
        }
        if !remote.is_closed() && chance.one_in(2) {
            remote.leave().await;
        }
        remote.close();
        self.gone(id).await;
    }

    async fn lane(self: Rc<Self>, client: Client<Settled>, mut load: Load) {
        for _ in 0..REQUESTS {
            match client.ask(load.next_request()).await {
                Ok(()) => self.note(|tally| tally.done += 1),
                Err(Trouble::Refused(_, VolumeError::Member { error: OpError::Disconnected, .. })) => {
                    return self.note(|tally| tally.broken += 1);
                }
                Err(trouble) => panic!("seed {}: {trouble}", self.seed),
            }
        }
    }

    async fn client(self: Rc<Self>, number: u64) {
        let mut chance = Random::stream(self.seed, number);
        for _ in 0..LIVES {
            if self.stopping.get() {
                return;
            }
            Rc::clone(&self).live(Random::new(chance.next())).await;
        }
    }

    /// Asks for more than sockets and the server hold, reads nothing, and stays until it is sent away.
    async fn deaf(self: Rc<Self>) {
        let buf = self.pool.alloc(8192).await;
        let said = greedy();
        buf.bytes_mut()[..said.len()].copy_from_slice(&said);
        let (socket, id) = self.connect();
        let _ = self.io.send(socket, &[buf.slice(0..said.len())]).await;
        while self.server.connection_stats().iter().any(|connection| connection.id == id) {
            self.io.sleep(Duration::from_millis(10)).await;
        }
        self.io.close(socket);
    }

    /// Says nothing, or half of what a client says (of an export that is not there), or that and then noise, and leaves.
    async fn liar(self: Rc<Self>) {
        let mut chance = Random::stream(self.seed, 99);
        let buf = self.pool.alloc(8192).await;
        for _ in 0..6 {
            if self.stopping.get() {
                return;
            }
            let (socket, id) = self.connect();
            let mut said = session();
            said.truncate(chance.below(said.len() as u64 + 1) as usize);
            let noise = if chance.one_in(2) { 100 } else { 0 };
            said.extend(chance.bytes(noise));
            buf.bytes_mut()[..said.len()].copy_from_slice(&said);
            // The server may have hung up before it has heard all.
            let _ = self.io.send(socket, &[buf.slice(0..said.len())]).await;
            self.io.sleep(Duration::from_micros(chance.below(5000))).await;
            self.io.close(socket);
            self.gone(id).await;
        }
    }
}

/// The bytes of a client that asks for much and reads nothing.
fn greedy() -> Vec<u8> {
    let mut said = vec![0, 0, 0, 3];
    said.extend(wire::option(option_code::GO, &wire::info_request(b"", &[])));
    for cookie in 0..64 {
        said.extend(Request { cookie, len: 32 << 10, ..Request::default() }.encode());
    }
    said
}

fn mix() -> Mix {
    Mix { discards: 1, most: 24 << 10, crowd: 32 << 10, ..Mix::default() }
}

fn shape(chance: &mut Random) -> Shape {
    let shapes =
        [(Level::Raid0, 2), (Level::Raid1, 2), (Level::Raid5, 3), (Level::Raid6, 4), (Level::Raid10, 3)];
    let &(level, members) = chance.pick(&shapes);
    Shape::new(level, members)
}

/// A run; gives what happened, and the digest of all that the drives and sockets did.
fn run(seed: u64) -> (Tally, u64) {
    let mut chance = Random::new(seed);
    let world = World::in_sim(&shape(&mut chance), Model::nvme(), seed);
    let array = world.open();
    let oracle = Rc::new(RefCell::new(Oracle::anything(array.limits().size)));
    let local = Client::new(array.clone(), world.pool.clone(), Rc::clone(&oracle));
    world.io.block_on(local.write_all()).unwrap_or_else(|trouble| panic!("seed {seed}: {trouble}"));
    // The array has a task of its own, which marks it clean some day.
    let tasks = world.io.tasks_alive();
    let sim = world.bench.clone();
    sim.set_hostility(Hostility {
        socket_latency: Duration::from_micros(chance.below(500)),
        socket_fragments: chance.below(300) as u32,
        socket_resets: chance.below(6) as u32,
        ..Hostility::default()
    });
    let config = Config { memory: 128 << 10, requests: 1 + chance.below(8) as usize, ..Config::default() };
    let server = Server::new(&world.io, config);
    server.add_export("array", "", Rc::new(array.clone())).expect("a fresh name");
    let listener = sim.listen();
    server.serve(listener);
    let run = Rc::new(Run {
        io: world.io.clone(),
        pool: world.io.pool(8 << 20),
        server: server.clone(),
        listener,
        oracle,
        connections: Cell::new(0),
        stopping: Cell::new(false),
        tally: Cell::default(),
        seed,
        sim,
    });
    world.io.block_on(async {
        let mut clients: Vec<_> = (0..CLIENTS).map(|n| run.io.spawn(Rc::clone(&run).client(n))).collect();
        clients.push(run.io.spawn(Rc::clone(&run).liar()));
        let deaf: Vec<_> = (0..chance.below(3)).map(|_| run.io.spawn(Rc::clone(&run).deaf())).collect();
        if chance.one_in(2) {
            run.io.sleep(Duration::from_micros(chance.below(20_000))).await;
        } else {
            for client in clients.drain(..) {
                client.await;
            }
        }
        run.stopping.set(true);
        let began = run.io.now();
        server.stop().await;
        let took = run.io.now().since(began);
        assert!(took < config.grace + Duration::from_millis(100), "seed {seed}: stopping took {took:?}");
        for client in clients.into_iter().chain(deaf) {
            client.await;
        }
        assert_eq!(server.connection_stats(), []);
        // Cancelled operations may still be on their way back from the reactor.
        run.io.sleep(Duration::from_millis(10)).await;
        assert_eq!(server.memory_in_use(), 0, "seed {seed}: buffers are left");
        assert_eq!(run.io.tasks_alive(), tasks, "seed {seed}: tasks are left");
        local.read_all().await.unwrap_or_else(|trouble| panic!("seed {seed}: in the end {trouble}"));
        array.stop().await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    });
    (run.tally.get(), run.sim.trace().0)
}

#[test]
fn whatever_becomes_of_connections_the_content_is_true_and_nothing_stays() {
    let (mut all, seeds) = (Tally::default(), 100);
    for seed in 0..seeds {
        let (tally, _) = run(seed);
        all.done += tally.done;
        all.broken += tally.broken;
    }
    assert!(all.done > seeds * 100 && all.broken > seeds * 5, "too little has happened: {all:?}");
}

#[test]
fn a_seed_replays_its_run() {
    for seed in [3, 4] {
        assert_eq!(run(seed), run(seed));
    }
}
