//! The client: what it makes of a good server, of one that lies, and of one that dies.

use std::io::{self, Read, Write};
use std::rc::Rc;

use crate::support::{Net, World, small};
use brindle_export::nbd::client::wire::{Head, Reply};
use brindle_export::nbd::client::{Agreed, Breach, Client, ClientError, Handshake, HandshakeStep, Remote};
use brindle_export::nbd::proto::{
    CHUNK_DONE, ChunkHeader, OptionReply, SimpleReply, chunk_type, greeting, info_block_size, info_export,
    option_code, option_reply,
};
use brindle_io::{OpError, Pool, SocketId};
use brindle_testkit::ram::RamRequest;
use brindle_volume::{Allocation, Volume, VolumeError, ZeroOptions};
use proptest::prelude::*;

/// A server that says what it is told to, whatever it hears.
#[derive(Debug)]
struct Script {
    says: io::Cursor<Vec<u8>>,
    heard: Vec<u8>,
}

impl Script {
    fn new(says: &[u8]) -> Self {
        Self { says: io::Cursor::new(says.to_vec()), heard: Vec::new() }
    }
}

impl Read for Script {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.says.read(into)
    }
}

impl Write for Script {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.heard.extend(from);
        Ok(from.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The bytes of a server that knows `GO` only.
fn plain_server() -> Vec<u8> {
    let mut says = greeting().to_vec();
    option_reply(&mut says, option_code::STRUCTURED_REPLY, OptionReply::ErrUnsup, b"what?");
    option_reply(&mut says, option_code::GO, OptionReply::Info, &info_export(4096, 1));
    option_reply(&mut says, option_code::GO, OptionReply::Info, &info_block_size(512, 4096, 65536));
    option_reply(&mut says, option_code::GO, OptionReply::Ack, b"");
    says
}

#[test]
fn a_server_that_knows_little_is_taken_as_it_is() {
    let mut says = plain_server();
    says.extend(SimpleReply { error: 0, cookie: 0 }.encode());
    says.extend([7; 1000]);
    says.extend(SimpleReply { error: 5, cookie: 1 }.encode());
    let mut client = Client::connect(Script::new(&says), "disk").expect("a server");
    let expected = Agreed {
        size: 4096,
        flags: 1,
        block: 512,
        preferred: 4096,
        max_payload: 65536,
        structured: false,
        status: false,
    };
    assert_eq!(*client.agreed(), expected);
    let mut into = [0; 1000];
    client.read(0, &mut into).expect("data");
    assert_eq!(into, [7; 1000]);
    assert!(matches!(client.flush(), Err(ClientError::Failed(5))));
}

#[test]
fn servers_that_lie_are_found_out() {
    let reply = |option, kind, data: &[u8]| {
        let mut says = greeting().to_vec();
        option_reply(&mut says, option, kind, data);
        says
    };
    let structured = option_code::STRUCTURED_REPLY;
    let go = |last: &[u8]| [&plain_server()[..18 + 25], last].concat();
    let mut no_size = Vec::new();
    option_reply(&mut no_size, option_code::GO, OptionReply::Ack, b"");
    let mut refused = Vec::new();
    option_reply(&mut refused, option_code::GO, OptionReply::ErrUnknown, b"no such export");
    let connect = |says: &[u8]| Client::connect(Script::new(says), "").expect_err("a lie");
    assert!(matches!(connect(b"HTTP/1.1 400 Bad Request\r\n"), ClientError::NotNbd));
    assert!(matches!(connect(&greeting()[..17]), ClientError::Io(_)));
    let other = reply(option_code::LIST, OptionReply::Ack, b"");
    assert!(matches!(connect(&other), ClientError::Broken(Breach::OptionReply)));
    let long = reply(structured, OptionReply::Ack, &[0; 20_000]);
    assert!(matches!(connect(&long), ClientError::Broken(Breach::OptionReply)));
    assert!(matches!(connect(&go(&no_size)), ClientError::Broken(Breach::NoSize)));
    let error = connect(&go(&refused));
    assert!(matches!(&error, ClientError::Refused { message, .. } if message == "no such export"));
}

#[test]
fn replies_that_fit_no_request_end_the_connection() {
    let chunk = |kind, cookie, len| ChunkHeader { flags: CHUNK_DONE, kind, cookie, len }.encode().to_vec();
    let cases = [
        (SimpleReply { error: 0, cookie: 9 }.encode().to_vec(), Breach::Cookie),
        (b"no reply at all, whatever it is".to_vec(), Breach::NoReply),
        (chunk(chunk_type::OFFSET_DATA, 0, 8 + 999), Breach::Shape),
        (chunk(chunk_type::OFFSET_DATA, 0, u32::MAX), Breach::Shape),
        ([chunk(chunk_type::ERROR, 0, 6), vec![0; 6]].concat(), Breach::Shape),
        (chunk(chunk_type::NONE, 0, 0), Breach::Shape),
    ];
    for (says, breach) in cases {
        let mut client =
            Client::connect(Script::new(&[plain_server(), says].concat()), "").expect("a server");
        let error = client.read(0, &mut [0; 1000]).expect_err("a breach");
        assert!(matches!(error, ClientError::Broken(found) if found == breach), "{error:?}");
    }
}

proptest! {
    #[test]
    fn whatever_comes_is_taken_or_refused(bytes: Vec<u8>, read: Option<u16>) {
        let whole = Reply::decode(&bytes, |_| read.map(usize::from));
        if let Ok(Some((_, len))) = &whole {
            prop_assert!(*len <= bytes.len());
            // Not earlier, and not otherwise with what follows cut off.
            for end in 0..*len {
                prop_assert_eq!(Reply::decode(&bytes[..end], |_| read.map(usize::from)), Ok(None));
            }
        }
        if let Ok(Some((head, _))) = Head::decode(&bytes) {
            prop_assert!(whole.is_err() || whole.ok().flatten().is_none_or(|(r, _)| r.cookie() == head.cookie()));
        }
    }

    #[test]
    fn no_server_confuses_a_handshake(mut says: Vec<u8>, honest in 0usize..110) {
        let good = plain_server();
        says.splice(0..0, good[..honest.min(good.len())].iter().copied());
        let mut handshake = Handshake::new("disk", true);
        let mut step = handshake.begin();
        let mut rest = says.as_slice();
        while let HandshakeStep::Exchange { hear, .. } = &step {
            prop_assert!(*hear <= 16 * 1024);
            let Some((heard, after)) = rest.split_at_checked(*hear) else { break };
            rest = after;
            let Ok(next) = handshake.next(heard) else { break };
            step = next;
        }
        if let HandshakeStep::Done(agreed) = step {
            prop_assert!(agreed.block > 0);
        }
    }
}

async fn remote(world: &World) -> (Remote, Pool) {
    let pool = world.io.pool(4 << 20);
    let socket = world.connect_socket();
    (Remote::connect(&world.io, socket, "disk", &pool).await.expect("a server"), pool)
}

#[test]
fn a_remote_export_is_a_volume() {
    let world = World::sim(small(), 1 << 20);
    world.volume.dawdle(5);
    world.io.block_on(async {
        let (remote, pool) = remote(&world).await;
        assert_eq!((remote.limits().size, remote.limits().block), (1 << 20, 512));
        assert!(remote.limits().discard && !remote.limits().read_only);
        let buf = pool.alloc(1 << 20).await;
        buf.bytes_mut()[..8192].fill(3);
        remote.write(4096, buf.slice(0..8192), true).await.expect("written");
        remote.write_zeroes(4096, 512, ZeroOptions::default()).await.expect("zeroed");
        remote.flush().await.expect("flushed");
        remote.discard(8192, 4096).await.expect("discarded");
        // Many at once, answered in any order, some straight into their memory.
        let reads = (0..20).map(|n| {
            let (remote, into) = (remote.clone(), buf.slice(n * 40_960..(n + 1) * 40_960));
            async move { remote.read(n as u64 * 512, into).await }
        });
        for read in brindle_io::sync::join_all(reads).await {
            read.expect("read");
        }
        let content = world.volume.content(0, 1 << 20);
        for n in 0..20 {
            assert_eq!(buf.bytes()[n * 40_960..(n + 1) * 40_960], content[n * 512..n * 512 + 40_960]);
        }
        let mut found = Vec::new();
        remote.allocation(0, 1 << 20, &mut found).await.expect("told");
        let reported = |len, hole| Allocation { len, hole, zero: hole };
        assert_eq!(found, [reported(4096, true), reported(4096, false), reported((1 << 20) - 8192, true)]);
        for (error, reported) in [
            (VolumeError::TooManyLost, VolumeError::of_some_member(OpError::Medium(5))),
            (VolumeError::of_member(2, OpError::NoSpace), VolumeError::of_some_member(OpError::NoSpace)),
            (VolumeError::ReadOnly, VolumeError::ReadOnly),
            (VolumeError::Stopping, VolumeError::Stopping),
        ] {
            world.volume.error.set(Some(error));
            assert_eq!(remote.read(0, buf.slice(0..512)).await, Err(reported));
        }
        world.volume.error.set(None);
        drop(buf);
        remote.leave().await;
        world.settle(0).await;
    });
    assert!(world.volume.asked.borrow().contains(&RamRequest::Write(4096, 8192, true)));
    world.end();
}

#[test]
fn wait_ends_when_its_server_dies() {
    let world = Rc::new(World::sim(small(), 1 << 20));
    world.volume.dawdle(1000);
    world.io.block_on(async {
        let (remote, pool) = remote(&world).await;
        let asked = (0..10).map(|_| {
            let (remote, into) = (remote.clone(), pool.try_alloc(4096).expect("room").all());
            world.io.spawn(async move { remote.read(0, into).await })
        });
        let asked: Vec<_> = asked.collect();
        world.io.yield_now().await;
        remote.close();
        for task in asked {
            assert_eq!(task.await, Err(VolumeError::of_some_member(OpError::Disconnected)));
        }
        assert_eq!(remote.flush().await, Err(VolumeError::of_some_member(OpError::Disconnected)));
        world.settle(0).await;
        for _ in 0..4 {
            world.io.yield_now().await;
        }
        drop(remote);
        assert_eq!(pool.free_bytes(), pool.capacity());
    });
    world.end();
}

#[test]
fn a_server_that_answers_what_was_not_asked_is_left() {
    let world = World::sim(small(), 1 << 20);
    let Net::Sim(sim) = &world.net else { panic!("a sim") };
    let listener = sim.listen();
    world.io.block_on(async {
        let pool = world.io.pool(4 << 20);
        let says = async |socket: SocketId, bytes: &[u8]| {
            let buf = pool.alloc(4096).await;
            buf.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
            world.io.send(socket, &[buf.slice(0..bytes.len())]).await.expect("somebody listens");
        };
        let client = sim.connect(listener);
        let server = world.io.accept(listener).await.expect("a client");
        says(server, &plain_server()).await;
        let remote = Remote::connect(&world.io, client, "", &pool).await.expect("a server");
        let flush = {
            let remote = remote.clone();
            world.io.spawn(async move { remote.flush().await })
        };
        says(server, &SimpleReply { error: 0, cookie: 77 }.encode()).await;
        assert_eq!(flush.await, Err(VolumeError::of_some_member(OpError::Disconnected)));
        assert!(remote.is_closed());
        world.io.close(server);
        world.io.close(listener);
    });
    world.end();
}
