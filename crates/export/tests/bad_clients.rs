//! Clients that die, lie or don't listen: they cost nobody else anything, and nothing of them stays.

mod support;

use brindle_export::nbd::Config;
use brindle_export::nbd::proto::{Request, command_code as code};
use brindle_io::Duration;
use support::{Client, World, session, small};

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
        let free = world.server.pool().free_bytes();
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
            assert_eq!(world.server.pool().free_bytes(), free, "buffers are left after {end} bytes");
        }
        healthy.close();
    });
    world.end();
}

#[test]
fn garbage_at_any_byte_harms_only_its_sender() {
    let world = World::new(small(), 1 << 20);
    let session = session();
    let mut chance = 12345u32;
    let mut random = || {
        chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (chance >> 24) as u8
    };
    world.io.block_on(async {
        let mut healthy = world.client().await;
        for start in (0..session.len()).step_by(3) {
            let client = world.connect();
            let mut bytes = session[..start].to_vec();
            bytes.extend((0..300).map(|_| random()));
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
    let config = Config { memory: 32 << 20, ..small() };
    let world = World::new(Config { memory: 128 << 20, ..config }, 4 << 20);
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
        assert_eq!(world.server.pool().free_bytes(), 128 << 20);
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
        // A quarter would be 4 MiB, but a request may have 16.
        assert_eq!((stats[0].outstanding, stats[0].held_bytes), (16, 16 << 20));
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
fn those_who_hold_memory_without_moving_make_room_for_others() {
    let config = Config { memory: 4 << 20, stall: Duration::from_millis(40), ..small() };
    let world = World::new(config, 8 << 20);
    world.io.block_on(async {
        // One does not listen, one does not send what it has announced: together they hold all memory.
        let mut silent = world.client().await;
        let half = Request { command: code::WRITE, len: 2 << 20, ..Request::default() };
        silent.request(half, &[1; 100]).await;
        let deaf = world.client().await;
        for cookie in 0..2 {
            deaf.request(Request { cookie, len: 1 << 20, ..Request::default() }, b"").await;
        }
        while world.server.pool().free_bytes() > 0 {
            world.io.yield_now().await;
        }
        world.io.sleep(Duration::from_millis(100)).await;
        assert_eq!(
            world.server.connection_stats().len(),
            2,
            "while nobody wants their memory they may dawdle"
        );
        let mut healthy = world.client().await;
        assert_eq!(healthy.read(0, 4 << 20).await.len(), 4 << 20);
        silent.assert_closed().await;
        world.settle(1).await;
        healthy.close();
        deaf.close();
    });
    world.end();
}

#[test]
fn a_deaf_client_does_not_keep_a_server_from_stopping() {
    let world = World::new(Config { grace: Duration::from_millis(20), ..small() }, 4 << 20);
    let deaf = world.io.block_on(deaf(&world));
    world.end();
    deaf.close();
}
