//! A volume of another executor keeps the contract of volumes: its requests are carried out where the volume is, with memory that is
//! lent. The executors are in one modelled world, and their messages come late.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use brindle_array::{Array, ChannelTable, Channeled};
use brindle_export::nbd::client::Remote;
use brindle_export::nbd::{HOME, Server};
use brindle_export::{Config, Gate, MemoryShare};
use brindle_host::Any;
use brindle_io::sim::{Model, Sim};
use brindle_io::{Berth, Io};
use brindle_layout::Level;
use brindle_testkit::conformance::{conforms, refuses_changes};
use brindle_testkit::crew;
use brindle_testkit::ram::RamVolume;
use brindle_testkit::random::Random;
use brindle_testkit::shape::Shape;
use brindle_testkit::world::{World, patient};
use brindle_volume::{Distant, Forward, Volume, VolumeError};

/// The question by which the other executor says that it is done.
const DONE: u64 = 0xfe;

/// Judges what another executor has of a volume.
fn judge<V: Volume + 'static>(name: &'static str, io: &Io, sim: &Sim, volume: &Rc<V>) {
    let mut berths = Berth::crew(2).into_iter();
    let other = sim.add_executor();
    for io in [io, &other] {
        io.join(berths.next().expect("a berth for each"));
    }
    let limits = volume.limits();
    let done = Rc::new(Cell::new(false));
    // As many as the suite has requests at a time.
    for _ in 0..32 {
        let (io_, volume, done) = (io.clone(), Rc::clone(volume), Rc::clone(&done));
        drop(io.spawn(async move {
            loop {
                let loan = io_.next_loan().await;
                let Some(forward) = Forward::of(loan.question()) else {
                    done.set(true);
                    return loan.answer(0);
                };
                assert_eq!(forward.volume, 7);
                let answer = forward.carry_out(&*volume, &loan).await;
                loan.answer(answer);
            }
        }));
    }
    let theirs = other.clone();
    drop(other.spawn(async move {
        let (io, pool) = (theirs.clone(), theirs.pool(8 << 20));
        let distant =
            Distant { number: 7, limits, ticket: None, paced: Arc::default(), closed: Arc::default() };
        let forwarded = Any::Away(Channeled::new(&io, distant, &ChannelTable::new(&io)));
        if limits.read_only {
            refuses_changes(name, &io, &pool, &forwarded).await;
        } else {
            conforms(name, &io, &pool, &forwarded).await;
        }
        io.ask(HOME, [DONE, 0, 0, 0], false, &[]).await.expect("the first one is there");
    }));
    io.block_on(async {
        while !done.get() {
            io.another_task_runs().await;
        }
    });
    assert!(io.crew_turns().iter().all(|&turns| turns > 0));
}

#[test]
fn a_volume_of_another_executor_conforms() {
    for (seed, turns) in [(16, 0), (17, 5)] {
        let sim = Sim::new(seed);
        let io = Io::new(Box::new(sim.clone()));
        let volume = RamVolume::new(&io, 256 << 10);
        volume.dawdle(turns);
        judge("a volume in RAM", &io, &sim, &volume);
        io.shutdown();
        sim.end_others();
    }
}

#[test]
fn a_volume_of_another_executor_that_is_read_only_conforms() {
    let sim = Sim::new(16);
    let io = Io::new(Box::new(sim.clone()));
    judge("read-only", &io, &sim, &RamVolume::with(&io, |limits| limits.read_only = true));
    io.shutdown();
    sim.end_others();
}

#[test]
fn an_array_of_another_executor_conforms() {
    let shape = Shape { rows: 32, ..Shape::new(Level::Raid5, 4) };
    let running = World::in_sim(&shape, Model::nvme(), 17).assembled(&[], patient());
    judge("an array", &running.io.clone(), &running.bench.clone(), &Rc::new(running.array.clone()));
    let sim = running.bench.clone();
    running.stop();
    sim.end_others();
}

/// A server in a world of three executors, and clients that come until each has had some.
struct Served {
    sim: Sim,
    io: Io,
    server: Server<Array>,
    gate: Rc<Gate>,
    listener: brindle_io::SocketId,
}

impl Served {
    fn of(running: &brindle_testkit::running::Running<Sim>) -> Self {
        let (sim, io) = (running.bench.clone(), running.io.clone());
        let config = Config { memory: 1 << 20, connections: 16, ..Config::default() };
        let mut shares = MemoryShare::of(config.memory, 3);
        let own = shares.pop().expect("three");
        let (server, gate) = (Server::sharing(&io, config, own), Rc::<Gate>::default());
        server.send_away(crew::away(&sim, &io, shares, config, &Random::new(3)));
        let volume = Rc::new(running.array.clone());
        server.add_guarded("disk", "", volume, Rc::clone(&gate)).expect("a fresh name");
        let listener = sim.listen();
        server.serve(listener);
        Self { sim, io, server, gate, listener }
    }

    async fn connect(&self, pool: &brindle_io::Pool) -> Remote {
        let socket = self.sim.connect(self.listener);
        Remote::connect(&self.io, socket, "disk", pool).await.expect("a server")
    }
}

#[test]
fn sessions_go_to_other_executors_and_end_as_others_do() {
    let shape = Shape { rows: 32, ..Shape::new(Level::Raid5, 4) };
    let running = World::in_sim(&shape, Model::nvme(), 18).assembled(&[], patient());
    let sim = running.bench.clone();
    running.run(async |running| {
        let served = Served::of(running);
        let pool = running.io.pool(16 << 20);
        let mut clients = Vec::new();
        for _ in 0..12 {
            clients.push(served.connect(&pool).await);
        }
        let buf = pool.alloc(4096).await;
        for (number, client) in (0..).zip(&clients) {
            buf.bytes_mut().fill(number);
            client.write(u64::from(number) * 4096, buf.all(), true).await.expect("written");
        }
        for number in 0..12_u8 {
            let client = &clients[11 - usize::from(number)];
            client.read(u64::from(number) * 4096, buf.all()).await.expect("read");
            assert!(buf.bytes().iter().all(|&byte| byte == number));
        }
        assert!(running.io.crew_turns().iter().all(|&turns| turns > 0));
        // Counted where they are reported, whoever had them.
        let stats = served.server.export_stats();
        let total = stats[0].total;
        assert_eq!((stats[0].connections, total.requests, total.errors), (12, 24, 0));
        assert_eq!((total.read_bytes, total.written_bytes), (12 * 4096, 12 * 4096));
        let connections = served.server.connection_stats();
        assert!(connections.iter().all(|one| one.total.requests == 2), "{connections:?}");
        // Sessions end here wherever they are.
        served.gate.withdraw(true);
        let ended = served.server.disconnect("disk", |id, _| id < 6);
        assert_eq!(ended, 6);
        for client in &clients[..6] {
            assert!(client.read(0, buf.all()).await.is_err());
        }
        clients[6].read(0, buf.all()).await.expect("it is not meant");
        served.server.dismiss("disk").await;
        assert_eq!(served.server.connections_of("disk"), 0);
        let gone = clients[6].read(0, buf.all()).await;
        assert!(matches!(gone, Err(VolumeError::Stopping | VolumeError::Member { .. })), "{gone:?}");
        served.gate.withdraw(false);
        served.connect(&pool).await.read(0, buf.all()).await.expect("it is offered on");
        served.server.stop().await;
        assert_eq!(served.server.memory_in_use(), 0);
    });
    running.stop();
    sim.end_others();
}
