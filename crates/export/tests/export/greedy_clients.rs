//! Clients that are slow, silent, lying or many, in virtual time: what they hold is bounded, and they end in time.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{Client, World, small};
use brindle_export::nbd::Config;
use brindle_export::nbd::proto::{Request, command_code as code};
use brindle_io::Duration;

const MIB: usize = 1 << 20;

/// Asks for `count` times `len` bytes, and does not take a byte of them.
pub(crate) async fn deaf(world: &World, count: u64, len: usize) -> Client {
    let client = world.client().await;
    let request = |cookie| Request { cookie, len: len as u32, ..Request::default() }.encode();
    client.send(&(0..count).flat_map(request).collect::<Vec<_>>()).await.expect("the server reads");
    client
}

/// Reads on a connection of its own; returns how long that took.
pub(crate) async fn timed_read(world: &World, client: &mut Client, len: usize) -> Duration {
    let began = world.io.now();
    assert_eq!(client.read(0, len as u32).await.len(), len);
    world.io.now().since(began)
}

/// The export's threads of a server as the program starts it, and four clients that ask for 32 MiB four times.
async fn besieged(world: &World) -> Vec<Client> {
    let mut greedy = Vec::new();
    for _ in 0..4 {
        greedy.push(deaf(world, 4, 32 * MIB).await);
    }
    for _ in 0..1000 {
        world.io.yield_now().await;
    }
    greedy
}

#[test]
fn four_clients_that_never_read_stop_nobody() {
    let world = World::sim(Config::default(), 64 << 20);
    world.io.block_on(async {
        let mut greedy = besieged(&world).await;
        let mut healthy = world.client().await;
        for len in [512, 4096, 32 * 1024] {
            assert_eq!(timed_read(&world, &mut healthy, len).await, Duration::ZERO, "{len} bytes");
        }
        healthy.write(0, &[7; 4096]).await;
        // Only until it is clear that those who hold the memory don't move.
        let took = timed_read(&world, &mut healthy, MIB).await;
        assert!(took <= Duration::from_secs(2), "{took:?} for 1 MiB");
        assert_eq!(world.server.connection_stats().len(), 5, "nobody has been sent away yet");
        let took = timed_read(&world, &mut healthy, 32 * MIB).await;
        assert!(took <= Duration::from_secs(13), "{took:?} for 32 MiB");
        // Those who waited before it have had their turn, but not two.
        let held: Vec<usize> = world.server.connection_stats().iter().map(|stats| stats.held_bytes).collect();
        assert_eq!(held, [32 * MIB, 32 * MIB, 0]);
        greedy[0].assert_hung_up().await;
        healthy.close();
        greedy.iter().for_each(Client::close);
        world.settle(0).await;
        assert_eq!(world.server.memory_in_use(), 0);
    });
    world.end();
}

#[test]
fn a_server_stops_within_its_grace_whoever_does_not_read() {
    let world = World::sim(Config::default(), 64 << 20);
    let greedy = world.io.block_on(besieged(&world));
    let began = world.io.now();
    world.end();
    let took = world.io.now().since(began);
    assert!(took <= Config::default().grace, "{took:?}");
    drop(greedy);
}

#[test]
fn whoever_reads_gets_his_last_replies_from_a_server_that_stops() {
    let world = World::sim(Config::default(), 64 << 20);
    world.io.block_on(async {
        let deaf = deaf(&world, 4, 8 * MIB).await;
        let mut healthy = world.client().await;
        for cookie in 0..3 {
            healthy.request(Request { cookie, len: 8 << 20, ..Request::default() }, b"").await;
        }
        while world.server.connection_stats()[1].outstanding < 3 {
            world.io.yield_now().await;
        }
        let server = world.server.clone();
        let stop = world.io.spawn(async move { server.stop().await });
        for _ in 0..3 {
            assert_eq!(healthy.reply(8 << 20).await.error(), 0);
        }
        healthy.assert_closed().await;
        stop.await;
        drop(deaf);
    });
    world.end();
}

#[test]
fn however_many_hold_what_they_can_small_requests_go() {
    let world = World::sim(Config { memory: 4 * MIB, connections: 40, ..small() }, 8 << 20);
    world.io.block_on(async {
        let mut greedy = Vec::new();
        for _ in 0..36 {
            greedy.push(deaf(&world, 8, MIB).await);
            greedy.push(deaf(&world, 64, 64 * 1024).await);
            greedy.push(deaf(&world, 64, 4096).await);
            if greedy.len() >= 36 {
                break;
            }
        }
        let mut healthy = world.client().await;
        for _ in 0..100 {
            assert_eq!(timed_read(&world, &mut healthy, 32 * 1024).await, Duration::ZERO);
            healthy.write(4096, &[1; 512]).await;
        }
        greedy.iter().for_each(Client::close);
        healthy.close();
        world.settle(0).await;
    });
    world.end();
}

#[test]
fn large_requests_are_not_starved_by_many_smaller_ones() {
    let world = Rc::new(World::sim(Config { memory: 8 * MIB, connections: 16, ..small() }, 8 << 20));
    world.volume.dawdle(3);
    let done = Rc::new(std::cell::Cell::new(0));
    world.io.block_on(async {
        let mut busy = Vec::new();
        for _ in 0..12 {
            let (world, done) = (Rc::clone(&world), Rc::clone(&done));
            let io = world.io.clone();
            busy.push(io.spawn(async move {
                let mut client = world.client().await;
                for round in 0..200u64 {
                    client.request(Request { cookie: round, len: 1 << 20, ..Request::default() }, b"").await;
                    client.request(Request { cookie: round, len: 1 << 20, ..Request::default() }, b"").await;
                    client.reply(MIB).await;
                    client.reply(MIB).await;
                    done.set(done.get() + 1);
                }
                client.close();
            }));
        }
        let mut large = world.client().await;
        for _ in 0..5 {
            let before = done.get();
            assert_eq!(large.read(0, 8 << 20).await.len(), 8 << 20);
            assert!(done.get() - before < 200, "{} went before it", done.get() - before);
        }
        large.close();
        for task in busy {
            task.await;
        }
        world.settle(0).await;
    });
    world.end();
}

#[test]
fn nobody_is_sent_away_for_memory_that_nobody_wants() {
    let world = World::sim(Config::default(), 64 << 20);
    world.io.block_on(async {
        let mut silent = deaf(&world, 2, 32 * MIB).await;
        world.io.sleep(Duration::from_secs(100)).await;
        assert_eq!(world.server.connection_stats().len(), 1, "it may dawdle");
        world.io.sleep(Duration::from_secs(30)).await;
        assert_eq!(world.server.connection_stats().len(), 0, "but not for ever");
        silent.assert_hung_up().await;
        // An idle client may stay idle.
        let mut idle = world.client().await;
        world.io.sleep(Duration::from_secs(100_000)).await;
        assert_eq!(idle.read(0, 512).await, [0; 512]);
        idle.close();
    });
    world.end();
}

/// Announces a write of all that one may hold and sends it a byte a second.
async fn drip(world: &World) -> Client {
    let client = world.client().await;
    let write = Request { command: code::WRITE, len: 32 << 20, ..Request::default() };
    client.request(write, &[1; 100]).await;
    client
}

#[test]
fn a_client_that_sends_its_data_byte_by_byte_does_not_keep_memory_from_others() {
    let config = Config { memory: 32 * MIB, ..Config::default() };
    let world = Rc::new(World::sim(config, 64 << 20));
    world.io.block_on(async {
        let slow = Rc::new(drip(&world).await);
        let dripping = {
            let (world, slow) = (Rc::clone(&world), Rc::clone(&slow));
            world.io.clone().spawn(async move {
                while slow.send(&[1]).await.is_ok() {
                    world.io.sleep(Duration::from_secs(1)).await;
                }
            })
        };
        let mut healthy = world.client().await;
        assert_eq!(timed_read(&world, &mut healthy, 4096).await, Duration::ZERO);
        let took = timed_read(&world, &mut healthy, MIB).await;
        assert!(took <= Duration::from_secs(13), "{took:?}");
        dripping.await;
        healthy.close();
        slow.close();
        world.settle(0).await;
    });
    world.end();
}

#[test]
fn those_who_choose_no_export_make_room() {
    let config = Config { connections: 8, ..small() };
    let world = World::sim(config, 1 << 20);
    world.io.block_on(async {
        let mut settled = world.client().await;
        let mut silent = Vec::new();
        for _ in 0..7 {
            silent.push(world.connect());
            world.io.sleep(Duration::from_millis(1)).await;
        }
        // The second says something: the third has been silent longest.
        silent[0].greet().await;
        world.io.sleep(Duration::from_millis(1)).await;
        let mut newcomer = world.client().await;
        assert_eq!(newcomer.read(0, 512).await, [0; 512]);
        silent[1].recv::<18>().await;
        silent[1].assert_closed().await;
        assert_eq!(world.server.connection_stats().len(), 8);
        silent[0].structured().await;
        // However many come, those who use the export are left in peace.
        for _ in 0..100 {
            world.connect();
            world.io.yield_now().await;
        }
        settled.write(0, &[1; 512]).await;
        assert_eq!(newcomer.read(0, 512).await, [1; 512]);
        silent.iter().for_each(Client::close);
    });
    world.end();
}

#[test]
fn who_uses_an_export_is_never_sent_away_for_a_newcomer() {
    let world = World::sim(Config { connections: 3, ..small() }, 1 << 20);
    world.io.block_on(async {
        let mut settled = [world.client().await, world.client().await, world.client().await];
        for _ in 0..5 {
            world.connect().assert_closed().await;
        }
        for client in &mut settled {
            assert_eq!(client.read(0, 512).await, [0; 512]);
        }
        settled[1].close();
        world.settle(2).await;
        world.client().await.close();
        settled[0].close();
        settled[2].close();
    });
    world.end();
}

#[test]
fn an_export_must_be_chosen_in_time() {
    let world = Rc::new(World::sim(Config::default(), 1 << 20));
    world.io.block_on(async {
        let mut silent = world.connect();
        // One that always has something to say, but never what is waited for.
        let mut lively = world.connect();
        lively.greet().await;
        for _ in 0..8 {
            lively.option(brindle_export::nbd::proto::option_code::LIST, b"").await;
            world.io.sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(world.server.connection_stats().len(), 2);
        world.io.sleep(Duration::from_secs(5)).await;
        assert_eq!(world.server.connection_stats().len(), 0);
        silent.recv::<18>().await;
        silent.assert_closed().await;
        lively.assert_closed().await;
    });
    world.end();
}

/// Counts warnings.
struct Warnings(Arc<AtomicUsize>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_crowd_is_said_once() {
    let said = Arc::new(AtomicUsize::new(0));
    tracing::subscriber::with_default(Warnings(Arc::clone(&said)), || {
        let world = World::sim(Config { connections: 4, ..small() }, 1 << 20);
        world.io.block_on(async {
            let flood = async |count| {
                for _ in 0..count {
                    world.connect();
                    world.io.yield_now().await;
                }
                for _ in 0..100 {
                    world.io.yield_now().await;
                }
            };
            flood(4).await;
            assert_eq!(said.load(Ordering::Relaxed), 0);
            flood(100).await;
            assert_eq!(said.load(Ordering::Relaxed), 1);
            // They leave, and another crowd comes.
            world.io.sleep(Duration::from_secs(70)).await;
            world.settle(0).await;
            flood(100).await;
            assert_eq!(said.load(Ordering::Relaxed), 2);
        });
        world.end();
    });
}

/// Whether a newcomer is let in and answered.
async fn is_let_in(world: &World) -> bool {
    let mut newcomer = world.connect();
    let greeted = newcomer.try_recv(18).await.is_some();
    newcomer.close();
    greeted
}

/// Takes a byte of what there is.
async fn sip(world: &World, client: &Client) {
    let drop = world.client_pool.try_alloc(4096).expect("few clients");
    assert_eq!(world.io.recv(client.socket, &drop.slice(0..1)).await, Ok(1));
}

#[test]
fn who_reads_no_replies_makes_room_the_one_first_that_took_none_for_longest() {
    let world = World::sim(Config { connections: 5, ..Config::default() }, 64 << 20);
    world.io.block_on(async {
        let mut idle = world.client().await;
        // Its reply is in the socket: nothing is being sent.
        let mut small = deaf(&world, 1, 4096).await;
        let slow = deaf(&world, 1, MIB).await;
        world.io.sleep(Duration::from_secs(4)).await;
        let mut large = deaf(&world, 4, 8 * MIB).await;
        let mut last = deaf(&world, 1, 512).await;
        for second in 0..8 {
            world.io.sleep(Duration::from_secs(1)).await;
            sip(&world, &slow).await;
            assert_eq!(is_let_in(&world).await, second >= 6, "{second}");
        }
        small.assert_hung_up().await;
        world.settle(4).await;
        let mut first = world.client().await;
        assert!(!is_let_in(&world).await, "one is enough, the next has not been deaf for long");
        last.reply(512).await;
        for _ in 0..5 {
            world.io.sleep(Duration::from_secs(1)).await;
            sip(&world, &slow).await;
        }
        let mut second = world.client().await;
        large.assert_hung_up().await;
        // An idle client and one that reads, however slowly, are never sent away.
        for _ in 0..300 {
            world.io.sleep(Duration::from_secs(1)).await;
            sip(&world, &slow).await;
            assert!(!is_let_in(&world).await);
        }
        for client in [&mut idle, &mut last, &mut first, &mut second] {
            assert_eq!(client.read(0, 512).await, [0; 512]);
            client.close();
        }
        slow.close();
        world.settle(0).await;
    });
    world.end();
}
