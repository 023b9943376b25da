//! Connections that take their time, come in pieces and break.

use brindle_io::sim::{Hostility, Sim};
use brindle_io::sync::join_all;
use brindle_io::{Duration, Instant, Io, OpError, Pool, SocketId};

use crate::sim::world;

/// Both ends of a connection.
fn connection(sim: &Sim, io: &Io) -> (SocketId, SocketId) {
    let listener = sim.listen();
    let client = sim.connect(listener);
    (client, io.block_on(io.accept(listener)).unwrap())
}

/// Receives until the stream ends; gives the sizes of the pieces too.
async fn receive(io: Io, pool: Pool, socket: SocketId) -> (Vec<u8>, Vec<usize>) {
    let buf = pool.alloc(64 << 10).await;
    let (mut all, mut pieces) = (Vec::new(), Vec::new());
    loop {
        let got = io.recv(socket, &buf.all()).await.unwrap();
        if got == 0 {
            return (all, pieces);
        }
        pieces.push(got);
        all.extend_from_slice(&buf.bytes()[..got]);
    }
}

/// Sends 256 KiB in three stretches; gives what arrived, in which pieces, and when.
fn transfer(seed: u64, hostility: Hostility) -> (Vec<usize>, u64, (u64, u64)) {
    let (sim, io, pool) = world(seed);
    sim.set_hostility(hostility);
    let (client, server) = connection(&sim, &io);
    let buf = pool.try_alloc(256 << 10).unwrap();
    buf.bytes_mut().iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 7 + (at >> 8)) as u8);
    let sending = async {
        let parts = [buf.slice(0..100), buf.slice(100..200_001), buf.slice(200_001..256 << 10)];
        io.send(client, &parts).await.unwrap();
        io.close(client);
    };
    let receiving = io.spawn(receive(io.clone(), pool, server));
    let (all, pieces) = io.block_on(async {
        sending.await;
        receiving.await
    });
    assert!(all == *buf.bytes(), "seed {seed}");
    (pieces, io.now().as_nanos(), sim.trace())
}

#[test]
fn streams_come_in_pieces_late_and_whole() {
    let calm = transfer(1, Hostility::default());
    assert!(calm.0.len() < 10 && calm.1 == 0, "{calm:?}");
    let rough = Hostility {
        socket_fragments: 980,
        socket_latency: Duration::from_micros(100),
        ..Hostility::default()
    };
    for seed in 0..8 {
        let (pieces, nanos, trace) = transfer(seed, rough);
        assert!(pieces.len() > 20 && pieces.iter().any(|&piece| piece < 100), "{pieces:?}");
        assert!(nanos > 100_000, "{nanos}");
        assert_eq!((pieces, nanos, trace), transfer(seed, rough));
    }
}

#[test]
fn connections_break_for_both_ends() {
    let rough = Hostility { socket_resets: 100, socket_fragments: 500, ..Hostility::default() };
    let mut reached = Vec::new();
    for seed in 0..16 {
        let (sim, io, pool) = world(seed);
        sim.set_hostility(rough);
        let (client, server) = connection(&sim, &io);
        let sending = async {
            let buf = pool.alloc(1000).await;
            let mut count = 0;
            while io.send(client, &[buf.all()]).await.is_ok() {
                count += 1;
            }
            assert_eq!(io.send(client, &[buf.all()]).await, Err(OpError::Disconnected));
            count
        };
        let (io2, pool2) = (io.clone(), pool.clone());
        let receiving = io.spawn(async move {
            let buf = pool2.alloc(1000).await;
            while let Ok(got) = io2.recv(server, &buf.all()).await {
                assert!(got > 0, "a broken stream has no orderly end");
            }
            assert_eq!(io2.recv(server, &buf.all()).await, Err(OpError::Disconnected));
        });
        reached.push(io.block_on(async {
            let count = sending.await;
            receiving.await;
            count
        }));
        io.close(server);
        let buf = pool.try_alloc(1000).unwrap();
        assert_eq!(io.block_on(io.recv(server, &buf.all())), Err(OpError::Cancelled));
    }
    reached.sort_unstable();
    reached.dedup();
    assert!(reached.len() > 4, "they break at different places: {reached:?}");
}

#[test]
fn a_test_can_break_one_connection_of_several() {
    let (sim, io, pool) = world(1);
    let (first, second) = (connection(&sim, &io), connection(&sim, &io));
    let receiving = |socket| {
        let (io, pool) = (io.clone(), pool.clone());
        async move {
            let buf = pool.alloc(4096).await;
            io.recv(socket, &buf.all()).await
        }
    };
    let tasks = [first.0, first.1, second.1].map(|socket| io.spawn(receiving(socket)));
    io.block_on(async {
        io.sleep_until(Instant::from_nanos(1000)).await;
        sim.reset(first.0);
        let buf = pool.alloc(10).await;
        io.send(second.0, &[buf.all()]).await.unwrap();
        let broken = Err(OpError::Disconnected);
        assert_eq!(join_all(tasks).await, [broken, broken, Ok(10)]);
    });
}

#[test]
fn a_power_cut_stops_connections_too() {
    let (sim, io, pool) = world(1);
    let (client, server) = connection(&sim, &io);
    let buf = pool.try_alloc(4096).unwrap();
    let ended = io.block_on(sim.until_end(&io, async {
        io.send(client, &[buf.slice(0..10)]).await.unwrap();
        sim.cut_power();
        io.close(client);
        let into = pool.alloc(4096).await;
        io.recv(server, &into.all()).await
    }));
    assert_eq!(ended, None);
    io.shutdown();
    drop(buf);
    assert_eq!((io.in_flight(), pool.free_bytes()), (0, pool.capacity()));
}
