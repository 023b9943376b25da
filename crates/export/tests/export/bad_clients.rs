//! Clients that die, lie or don't listen: they cost nobody else anything, and nothing of them stays.

use crate::support::{Client, World, session, small};
use brindle_export::nbd::Config;
use brindle_export::nbd::proto::Request;
use brindle_io::Duration;
use brindle_testkit::random::Random;

/// The healthy client's disk is where the session does not write.
async fn is_well(client: &mut Client, round: usize) {
    let data = [round as u8; 512];
    client.write(65536, &data).await;
    assert_eq!(client.read(65536, 512).await, data);
}

#[test]
fn a_client_may_die_at_any_byte() {
    let world = World::new(small(), 1 << 20);
    world.volume.dawdle(3);
    let session = session();
    world.io.block_on(async {
        let mut healthy = world.client().await;
        is_well(&mut healthy, 0).await;
        world.settle(1).await;
        let tasks = world.io.tasks_alive();
        let held = world.server.memory_in_use();
        for end in 0..=session.len() {
            let client = world.connect();
            client.send(&session[..end]).await.expect("the server reads");
            for _ in 0..end % 7 {
                world.io.yield_now().await;
            }
            client.close();
            is_well(&mut healthy, end).await;
            world.settle(1).await;
            assert_eq!(world.io.tasks_alive(), tasks, "tasks are left after {end} bytes");
            assert_eq!(world.server.memory_in_use(), held, "buffers are left after {end} bytes");
        }
        healthy.close();
    });
    world.end();
}

#[test]
fn garbage_at_any_byte_harms_only_its_sender() {
    let world = World::new(small(), 1 << 20);
    let session = session();
    let mut random = Random::new(12345);
    world.io.block_on(async {
        let mut healthy = world.client().await;
        for start in (0..session.len()).step_by(3) {
            let client = world.connect();
            let mut bytes = session[..start].to_vec();
            bytes.extend(random.bytes(300));
            // The server may have hung up before it has taken all.
            let _ = client.send(&bytes).await;
            for _ in 0..5 {
                world.io.yield_now().await;
            }
            client.close();
            is_well(&mut healthy, start).await;
        }
        world.settle(1).await;
        healthy.close();
    });
    world.end();
}

#[test]
fn wrong_magic_closes_the_connection() {
    let world = World::new(small(), 1 << 20);
    world.io.block_on(async {
        let mut client = world.client().await;
        assert_eq!(client.read(0, 512).await, [0; 512]);
        client.send(&[0x25; 28]).await.expect("open");
        client.assert_closed().await;
        world.settle(0).await;
    });
    world.end();
}

/// Asks for more than sockets hold and listens to nothing.
async fn deaf(world: &World) -> Client {
    let client = world.client().await;
    for cookie in 0..64 {
        client.request(Request { cookie, len: 1 << 20, ..Request::default() }, b"").await;
    }
    client
}

#[test]
fn a_deaf_client_holds_its_share_and_no_more() {
    let world = World::new(Config { memory: 128 << 20, ..small() }, 4 << 20);
    world.io.block_on(async {
        let deaf = deaf(&world).await;
        let mut healthy = world.client().await;
        for round in 0..100 {
            is_well(&mut healthy, round).await;
        }
        let stats = world.server.connection_stats();
        assert_eq!((stats[0].outstanding, stats[0].held_bytes), (16, 16 << 20), "bounded by requests");
        assert_eq!(stats[1].outstanding, 0);
        deaf.close();
        world.settle(1).await;
        assert_eq!(world.server.memory_in_use(), 0);
        healthy.close();
    });
    world.end();
}

#[test]
fn bytes_bound_a_client_too() {
    let world = World::new(Config { memory: 16 << 20, requests: 100, ..small() }, 4 << 20);
    world.io.block_on(async {
        let deaf = deaf(&world).await;
        for _ in 0..1000 {
            world.io.yield_now().await;
        }
        let stats = world.server.connection_stats();
        assert_eq!((stats[0].outstanding, stats[0].held_bytes), (8, 8 << 20), "as much as is left free");
        deaf.close();
        world.settle(0).await;
    });
    world.end();
}

#[test]
fn refused_requests_do_not_pile_up_either() {
    let world = World::new(Config { grace: Duration::from_millis(20), ..small() }, 1 << 20);
    world.io.block_on(async {
        let client = world.client().await;
        let io = world.io.clone();
        let flood = Request { command: 99, ..Request::default() }.encode().repeat(40_000);
        let sending = io.spawn(async move {
            let _ = client.send(&flood).await;
            client
        });
        for _ in 0..10_000 {
            io.yield_now().await;
        }
        assert_eq!(world.server.connection_stats()[0].outstanding, 16);
        let mut healthy = world.client().await;
        is_well(&mut healthy, 1).await;
        healthy.close();
        world.server.stop().await;
        sending.await;
    });
    world.end();
}

#[test]
fn nobody_loses_patience_while_the_server_itself_does_not_run() {
    let config = Config { memory: 4 << 20, stall: Duration::from_secs(2), ..small() };
    let world = World::new(config, 8 << 20);
    world.io.block_on(async {
        // One has announced all the memory there is, and another waits for it.
        let mut busy = world.client().await;
        busy.request(Request { command: 1, len: 4 << 20, ..Request::default() }, &[1; 100]).await;
        while world.server.memory_in_use() < 4 << 20 {
            world.io.yield_now().await;
        }
        let mut waiting = world.client().await;
        waiting.request(Request { len: 1 << 20, ..Request::default() }, b"").await;
        for _ in 0..100 {
            world.io.yield_now().await;
        }
        // The process is stopped, as by a signal.
        std::thread::sleep(std::time::Duration::from_millis(2500));
        world.io.sleep(Duration::from_millis(1)).await;
        busy.send(&vec![1; (4 << 20) - 100]).await.expect("it is still welcome");
        assert_eq!(busy.reply(0).await.error(), 0);
        assert_eq!(waiting.reply(1 << 20).await.error(), 0);
        busy.close();
        waiting.close();
        world.settle(0).await;
    });
    world.end();
}
