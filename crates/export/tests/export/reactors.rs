//! Sessions of several reactors that have the memory for requests together: no rule of that memory ends where a reactor does.

use core::cell::Cell;
use std::rc::Rc;

use brindle_export::MemoryShare;
use brindle_export::nbd::proto::Request;
use brindle_export::nbd::{Config, Server, Unplaced};
use brindle_io::sim::Sim;
use brindle_io::sync::join_all;
use brindle_io::{Duration, Io};
use brindle_testkit::crew;
use brindle_testkit::ram::RamVolume;
use brindle_testkit::random::Random;

use crate::greedy_clients::{deaf, timed_read};
use crate::support::{Client, Net, World, small};

const MIB: usize = 1 << 20;

/// A server with several reactors, and where its next session goes.
struct Several {
    world: World,
    sim: Sim,
    next: Rc<Cell<usize>>,
}

impl Several {
    fn new(reactors: usize, config: Config, size: u64) -> Self {
        let (sim, next) = (Sim::new(5), Rc::new(Cell::new(0)));
        let (io, listener) = (Io::new(Box::new(sim.clone())), sim.listen());
        let mut shares = MemoryShare::of(config.memory, reactors);
        let server = Server::sharing(&io, config, shares.remove(0));
        let chosen = Rc::clone(&next);
        let choose = Box::new(move |_: Unplaced<'_>| Some(chosen.get()));
        server.send_away(crew::away_by(&sim, &io, (shares, config), &Random::new(5), choose));
        let volume = RamVolume::new(&io, size);
        server.add_export("disk", "", Rc::clone(&volume)).expect("a fresh name");
        server.serve(listener);
        let client_pool = io.pool(64 << 20);
        let world = World { net: Net::Sim(sim.clone()), io, server, listener, volume, client_pool };
        Self { world, sim, next }
    }

    /// A client of this reactor, which has had a request carried out there.
    async fn client(&self, reactor: usize) -> Client {
        self.next.set(reactor);
        let mut client = self.world.client().await;
        client.read(0, 4096).await;
        client
    }

    async fn deaf(&self, reactor: usize, count: u64, len: usize) -> Client {
        self.next.set(reactor);
        let client = deaf(&self.world, count, len).await;
        self.world.io.sleep(Duration::from_millis(20)).await;
        client
    }

    fn run(self, test: impl AsyncFnOnce(&Self)) {
        self.world.io.block_on(async {
            test(&self).await;
            self.world.server.stop().await;
        });
        assert_eq!(self.world.server.memory_in_use(), 0);
        self.world.io.shutdown();
        self.sim.end_others();
    }
}

#[test]
fn a_request_may_have_what_it_may_have_whichever_reactor_it_comes_to() {
    let config = Config { memory: 32 * MIB, ..Config::default() };
    Several::new(4, config, 64 << 20).run(async |several| {
        let mut clients = Vec::new();
        // Each reactor has had memory, and keeps some.
        for reactor in 0..4 {
            clients.push(several.client(reactor).await);
        }
        for round in 0..3 {
            for client in &mut clients {
                let took = timed_read(&several.world, client, 32 * MIB).await;
                assert!(took < Duration::from_millis(200), "{took:?} for all of it, round {round}");
                timed_read(&several.world, client, 64 << 10).await;
            }
        }
        assert!(several.world.io.crew_turns().iter().all(|&turns| turns > 4));
        clients.iter().for_each(Client::close);
    });
}

#[test]
fn silent_clients_of_two_reactors_do_not_keep_out_a_third() {
    for healthy in [0, 3] {
        Several::new(4, Config::default(), 64 << 20).run(async |several| {
            let world = &several.world;
            let mut greedy = Vec::new();
            for reactor in [1, 2, 1, 2] {
                greedy.push(several.deaf(reactor, 4, 32 * MIB).await);
            }
            let mut healthy = several.client(healthy).await;
            for len in [512, 4096, 32 * 1024] {
                let took = timed_read(world, &mut healthy, len).await;
                assert!(took < Duration::from_millis(20), "{took:?} for {len} bytes");
            }
            let took = timed_read(world, &mut healthy, MIB).await;
            assert!(took <= Duration::from_secs(3), "{took:?} for 1 MiB");
            assert_eq!(world.server.connection_stats().len(), 5, "nobody has been sent away yet");
            let took = timed_read(world, &mut healthy, 32 * MIB).await;
            assert!(took <= Duration::from_secs(14), "{took:?} for 32 MiB");
            greedy[0].assert_hung_up().await;
            healthy.close();
            greedy.iter().for_each(Client::close);
        });
    }
}

#[test]
fn large_requests_of_one_reactor_are_not_starved_by_smaller_ones_of_others() {
    let config = Config { memory: 8 * MIB, connections: 16, ..small() };
    let several = Several::new(3, config, 8 << 20);
    several.world.volume.dawdle(3);
    several.run(async |several| {
        let (done, over) = (&Cell::new(0), &Cell::new(false));
        let mut busy = Vec::new();
        for at in 0..8 {
            busy.push(several.client(1 + at % 2).await);
        }
        let mut large = several.client(0).await;
        let load = busy.iter_mut().map(async |client: &mut Client| {
            while !over.get() {
                for cookie in 0..2 {
                    let request = Request { cookie, len: MIB as u32, ..Request::default() };
                    client.request(request, b"").await;
                }
                client.reply(MIB).await;
                client.reply(MIB).await;
                done.set(done.get() + 1);
            }
            client.close();
        });
        let large = async {
            for _ in 0..5 {
                let before = done.get();
                assert_eq!(large.read(0, 8 << 20).await.len(), 8 << 20);
                assert!(done.get() - before < 200, "{} went before it", done.get() - before);
            }
            large.close();
            over.set(true);
        };
        let load = async {
            join_all(load).await;
        };
        let both: [core::pin::Pin<Box<dyn Future<Output = ()>>>; 2] = [Box::pin(load), Box::pin(large)];
        join_all(both).await;
    });
}

/// Less memory than an arena for each.
#[test]
fn reactors_take_turns_where_there_is_little() {
    for memory in [MIB, 6 * MIB, 8 * MIB] {
        let config = Config { memory, connections: 16, ..small() };
        let several = Several::new(4, config, 8 << 20);
        several.world.volume.dawdle(2);
        several.run(async |several| {
            let mut clients = Vec::new();
            for at in 0..8 {
                clients.push(several.client(at % 4).await);
            }
            let began = several.world.io.now();
            join_all(clients.iter_mut().map(async |client: &mut Client| {
                for round in 0..40 {
                    let len = [64 << 10, MIB / 2, MIB][round % 3];
                    assert_eq!(client.read(0, len as u32).await.len(), len);
                }
                client.close();
            }))
            .await;
            let took = several.world.io.now().since(began);
            assert!(took < Duration::from_secs(5), "{took:?} with {memory} bytes");
        });
    }
}
