//! Operations on sockets.

use brindle_io::{Io, OpError, PAGE, Pool, SocketId};

use crate::conformance::Stage;
use crate::conformance::worlds::World;

const TOTAL: usize = 8 << 20;

fn byte(at: usize, seed: usize) -> u8 {
    (at * 7 + (at >> 8) + (at >> 16) * 3 + seed) as u8
}

/// Sends [`TOTAL`] bytes in several stretches at a time, of which each byte tells its place.
async fn send_all(io: Io, pool: Pool, socket: SocketId, seed: usize) {
    let buf = pool.alloc(1 << 20).await;
    for round in 0..TOTAL >> 20 {
        for (at, place) in buf.bytes_mut().iter_mut().enumerate() {
            *place = byte(round << 20 | at, seed);
        }
        let cuts = [0, 28, 4096, 300_000, 300_001, 1 << 20];
        let parts: Vec<_> = cuts.windows(2).map(|cut| buf.slice(cut[0]..cut[1])).collect();
        if round % 2 == 0 {
            io.send(socket, &parts).await.unwrap();
        } else {
            io.send(socket, &[buf.all()]).await.unwrap();
        }
    }
}

async fn recv_all(io: Io, pool: Pool, socket: SocketId, seed: usize) {
    let buf = pool.alloc(100_000).await;
    let mut total = 0;
    while total < TOTAL {
        let got = io.recv(socket, &buf.all()).await.unwrap();
        assert!(got > 0, "the stream ended after {total} bytes");
        assert!(buf.bytes()[..got].iter().enumerate().all(|(at, &b)| b == byte(total + at, seed)));
        total += got;
    }
    assert_eq!(total, TOTAL);
}

pub(crate) fn both_directions_at_once<W: World>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let listener = world.listen();
    let client = world.connect(listener);
    io.block_on(async {
        let server = io.accept(listener).await.unwrap();
        let tasks = [
            io.spawn(send_all(io.clone(), pool.clone(), client, 1)),
            io.spawn(send_all(io.clone(), pool.clone(), server, 2)),
        ];
        let receivers = [
            io.spawn(recv_all(io.clone(), pool.clone(), server, 1)),
            io.spawn(recv_all(io.clone(), pool.clone(), client, 2)),
        ];
        for task in tasks.into_iter().chain(receivers) {
            task.await;
        }
    });
}

pub(crate) fn the_other_end_goes_away<W: World>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let listener = world.listen();
    let client = world.connect(listener);
    io.block_on(async {
        let server = io.accept(listener).await.unwrap();
        let buf = pool.alloc(64 << 10).await;
        buf.bytes_mut().fill(1);
        io.send(client, &[buf.slice(0..10)]).await.unwrap();
        io.close(client);
        assert_eq!(io.recv(server, &buf.all()).await, Ok(10), "what was sent before comes still");
        assert_eq!(io.recv(server, &buf.all()).await, Ok(0));
        // A stack may take some bytes before it learns of it.
        let mut result = Ok(());
        for _ in 0..100 {
            result = io.send(server, &[buf.all()]).await;
            if result.is_err() {
                break;
            }
        }
        assert_eq!(result, Err(OpError::Disconnected));
    });
}

pub(crate) fn closing_ends_what_waits<W: World>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let listener = world.listen();
    let client = world.connect(listener);
    io.block_on(async {
        let server = io.accept(listener).await.unwrap();
        let (io2, pool2) = (io.clone(), pool.clone());
        let receiving = io.spawn(async move {
            let buf = pool2.alloc(PAGE).await;
            io2.recv(server, &buf.all()).await
        });
        let (io2, pool2) = (io.clone(), pool.clone());
        let sending = io.spawn(async move {
            // The other end never reads.
            let buf = pool2.alloc(16 << 20).await;
            io2.send(server, &[buf.slice(0..100), buf.all()]).await
        });
        let io2 = io.clone();
        let accepting = io.spawn(async move { io2.accept(listener).await });
        while io.in_flight() < 3 {
            io.yield_now().await;
        }
        io.sleep(brindle_io::Duration::from_millis(1)).await;
        io.close(server);
        assert_eq!(receiving.await, Err(OpError::Cancelled));
        assert_eq!(sending.await, Err(OpError::Cancelled));
        io.close(listener);
        assert_eq!(accepting.await, Err(OpError::Cancelled));
        let buf = pool.alloc(PAGE).await;
        assert_eq!(io.recv(server, &buf.all()).await, Err(OpError::Cancelled));
        assert_eq!(io.send(server, &[buf.all()]).await, Err(OpError::Cancelled));
        assert_eq!(io.accept(listener).await, Err(OpError::Cancelled));
        io.close(server);
        io.close(client);
    });
}

pub(crate) fn a_closed_socket_is_not_another<W: World>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let listener = world.listen();
    io.block_on(async {
        let buf = pool.alloc(PAGE).await;
        let mut seen: Vec<SocketId> = Vec::new();
        for _ in 0..50 {
            let client = world.connect(listener);
            let server = io.accept(listener).await.unwrap();
            assert!(!seen.contains(&client) && !seen.contains(&server));
            // Closing what is closed long since closes nothing of today.
            seen.iter().for_each(|&socket| io.close(socket));
            io.send(client, &[buf.all()]).await.unwrap();
            assert_eq!(io.recv(server, &buf.all()).await, Ok(PAGE));
            io.close(server);
            io.close(client);
            seen.extend([client, server]);
        }
    });
}

/// The count of bytes sent and not taken goes down as the other end takes them, to nothing; also while a send waits for room.
pub(crate) fn what_the_other_end_has_not_taken<W: World>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let listener = world.listen();
    let client = world.connect(listener);
    io.block_on(async {
        let server = io.accept(listener).await.unwrap();
        assert_eq!(io.untaken(server), Some(0));
        let buf = pool.alloc(64 << 10).await;
        io.send(server, &[buf.slice(0..4096)]).await.unwrap();
        assert!(io.untaken(server).unwrap() > 0 || world.takes_at_once());
        assert_eq!(io.untaken(client), Some(0));
        assert_eq!(io.recv(client, &buf.all()).await, Ok(4096));
        assert_eq!(io.untaken(server), Some(0));
        let (io2, pool2) = (io.clone(), pool.clone());
        let sending = io.spawn(async move {
            let buf = pool2.alloc(4 << 20).await;
            io2.send(server, &[buf.all()]).await
        });
        let (mut left, mut seen) = (4 << 20, Vec::new());
        while left > 0 {
            let got = io.recv(client, &buf.all()).await.unwrap();
            left -= got;
            seen.push(io.untaken(server).unwrap());
        }
        sending.await.unwrap();
        assert_eq!(io.untaken(server), Some(0));
        assert!(seen.windows(2).filter(|two| two[0] != two[1]).count() > 4, "{seen:?}");
        io.close(server);
        assert_eq!(io.untaken(server), None);
    });
}

/// Messages of all lengths, one after the other and several at once, each from one stretch of memory or two.
pub(crate) fn ports_keep_messages_whole<W: World>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let [one, other] = world.ports();
    io.block_on(async {
        let (from, into) = (pool.alloc(64 << 10).await, pool.alloc(64 << 10).await);
        from.bytes_mut().iter_mut().enumerate().for_each(|(at, place)| *place = byte(at, 3));
        let waits = io.spawn({
            let (io, into) = (io.clone(), into.clone());
            async move { io.recv(other, &into.all()).await }
        });
        io.send(one, &[from.slice(0..16), from.slice(4096..4100)]).await.unwrap();
        assert_eq!(waits.await, Ok(20), "a receive that waits gets one message");
        assert!(into.bytes()[..16] == from.bytes()[..16] && into.bytes()[16..20] == from.bytes()[4096..4100]);
        let lengths = [1, 4096, 40, 30_000];
        let messages = lengths.map(|len| [from.slice(0..len)]);
        io.send_messages(one, messages.iter().map(|message| &message[..])).await;
        for len in lengths {
            into.bytes_mut().fill(0);
            assert_eq!(io.recv(other, &into.all()).await, Ok(len), "no message is joined to another");
            assert!(into.bytes()[..len] == from.bytes()[..len]);
        }
        // The rest of a message that is longer than the memory for it is lost, and the next begins where it begins.
        io.send(one, &[from.slice(0..5000)]).await.unwrap();
        io.send(one, &[from.slice(7..9)]).await.unwrap();
        assert_eq!(io.recv(other, &into.slice(0..100)).await, Ok(100));
        assert_eq!(io.recv(other, &into.all()).await, Ok(2));
        assert_eq!(into.bytes()[..2], from.bytes()[7..9]);
        io.close(one);
        io.close(other);
    });
}

pub(crate) fn a_closed_port_ends_what_waits<W: World>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let [one, other] = world.ports();
    io.block_on(async {
        let into = pool.alloc(4096).await;
        let waits = io.spawn({
            let (io, into) = (io.clone(), into.clone());
            async move { io.recv(other, &into.all()).await }
        });
        io.yield_now().await;
        io.close(other);
        assert_eq!(waits.await, Err(OpError::Cancelled));
        drop(into);
        let into = pool.alloc(4096).await;
        assert!(matches!(io.recv(one, &into.all()).await, Ok(0) | Err(OpError::Disconnected)));
        io.close(one);
    });
}
