//! Requests and replies: right data, right errors, whatever the order.

use crate::support::{Reply, World, go, small};
use brindle_export::nbd::Config;
use brindle_export::nbd::proto::{
    Request, StatusExtent, command_code as code, command_flags as flag, option_code,
};
use brindle_io::{Duration, OpError};
use brindle_testkit::ram::{RamRequest, RamVolume};
use brindle_testkit::random::Random;
use brindle_volume::{VolumeError, ZeroOptions};

const PERM: u32 = 1;
const IO: u32 = 5;
const INVALID: u32 = 22;
const NO_SPACE: u32 = 28;
const OVERFLOW: u32 = 75;
const NOT_SUPPORTED: u32 = 95;
const SHUTDOWN: u32 = 108;

fn request(command: u16, flags: u16, offset: u64, len: u32) -> Request {
    Request { flags, command, cookie: 42, offset, len }
}

/// An error chunk that answers `request`'s cookie.
fn is_refusal(reply: &Reply, number: u32) -> bool {
    matches!(reply, Reply::Error { cookie: 42, error, .. } if *error == number)
}

#[test]
fn many_requests_at_once_agree_with_a_model() {
    const SIZE: u64 = 1 << 20;
    const REGION: u64 = SIZE / 16;
    let world = World::new(small(), SIZE);
    world.volume.dawdle(5);
    let mut model = vec![0u8; SIZE as usize];
    let mut dice = Random::new(1);
    world.io.block_on(async {
        let mut client = world.client().await;
        for round in 0..200u64 {
            // Each request of a round has a region of its own, so that their order does not matter.
            let mut expected = Vec::new();
            for cookie in 0..16u64 {
                let len = (dice.below(8) + 1) * 512 * (dice.below(8) + 1);
                let offset = cookie * REGION + dice.below((REGION - len) / 512 + 1) * 512;
                let range = offset as usize..(offset + len) as usize;
                let (command, data) = match dice.below(4) {
                    0 => (code::WRITE, vec![(round * 16 + cookie) as u8; len as usize]),
                    1 => (code::WRITE_ZEROES, vec![]),
                    _ => (code::READ, vec![]),
                };
                let request = Request { flags: 0, command, cookie, offset, len: len as u32 };
                client.request(request, &data).await;
                match command {
                    code::WRITE => model[range].copy_from_slice(&data),
                    code::WRITE_ZEROES => model[range].fill(0),
                    _ => {
                        expected.push(Reply::Data {
                            cookie,
                            offset: Some(offset),
                            data: model[range].to_vec(),
                        });
                        continue;
                    }
                }
                expected.push(Reply::Simple { cookie, error: 0 });
            }
            for _ in 0..16 {
                let reply = client.reply(0).await;
                let at = expected.iter().position(|e| e.cookie() == reply.cookie()).expect("a known cookie");
                assert_eq!(reply, expected.swap_remove(at));
            }
        }
        client.close();
    });
    assert_eq!(world.volume.content(0, SIZE as usize), model);
    let total = world.server.export_stats()[0].total;
    assert_eq!((total.requests, total.errors), (3200, 0));
    world.end();
}

#[test]
fn plain_replies_carry_data_too() {
    let world = World::new(small(), 1 << 20);
    world.volume.set_content(8192, &[9; 1024]);
    world.io.block_on(async {
        let mut client = world.connect();
        client.greet().await;
        client.option(option_code::GO, &go(b"", &[])).await;
        client.write(512, &[3; 512]).await;
        assert_eq!(client.read(8192, 1024).await, [9; 1024]);
        assert_eq!(client.read(0, 1024).await, [[0; 512], [3; 512]].concat());
        let reply = client.ask(request(code::READ, flag::DF, 0, 512), b"").await;
        assert_eq!(reply, Reply::Simple { cookie: 42, error: INVALID }, "no DF without structured replies");
        let reply = client.ask(request(code::READ, 0, 1, 512), b"").await;
        assert_eq!(reply, Reply::Simple { cookie: 42, error: INVALID });
        client.close();
    });
    world.end();
}

#[test]
fn requests_of_32_mib_pass_and_larger_ones_do_not() {
    const BIG: usize = 32 << 20;
    let world = World::new(Config { memory: 32 << 20, ..small() }, 65 << 20);
    world.io.block_on(async {
        let mut client = world.client().await;
        let data: Vec<u8> = (0..BIG).map(|i| (i / 512 * 7) as u8).collect();
        client.write(1 << 20, &data).await;
        assert!(client.read(1 << 20, BIG as u32).await == data);
        let over = BIG as u32 + 512;
        assert_eq!(client.ask(request(code::READ, flag::DF, 0, over), b"").await.error(), OVERFLOW);
        let reply = client.ask(request(code::WRITE, 0, 0, over), &vec![1; over as usize]).await;
        assert_eq!(reply.error(), INVALID);
        assert_eq!(client.read(0, 512).await, [0; 512], "the stream is in step");
        client.close();
    });
    world.end();
}

#[test]
fn flags_reach_the_volume() {
    let world = World::new(small(), 8 << 20);
    world.io.block_on(async {
        let mut client = world.client().await;
        client.ask(request(code::WRITE, flag::FUA, 512, 512), &[1; 512]).await;
        client.ask(request(code::WRITE, 0, 512, 512), &[1; 512]).await;
        client.ask(request(code::FLUSH, 0, 0, 0), b"").await;
        client.ask(request(code::TRIM, flag::FUA, 0, 4096), b"").await;
        client.ask(request(code::TRIM, 0, 0, 4096), b"").await;
        client.ask(request(code::WRITE_ZEROES, flag::FUA | flag::NO_HOLE, 0, 4096), b"").await;
        client.ask(request(code::WRITE_ZEROES, flag::FAST_ZERO, 0, 4096), b"").await;
        let slow = client.ask(request(code::WRITE_ZEROES, flag::FAST_ZERO, 0, 2 << 20), b"").await;
        assert_eq!(slow.error(), NOT_SUPPORTED);
        client.close();
    });
    let zeroes = |fua, keep_allocated, fast_only| ZeroOptions { fua, keep_allocated, fast_only };
    let expected = [
        RamRequest::Write(512, 512, true),
        RamRequest::Write(512, 512, false),
        RamRequest::Flush,
        RamRequest::Discard(0, 4096),
        RamRequest::Flush, // a trim with FUA is stable when it is answered
        RamRequest::Discard(0, 4096),
        RamRequest::Zeroes(0, 4096, zeroes(true, true, false)),
        RamRequest::Zeroes(0, 4096, zeroes(false, false, true)),
        RamRequest::Zeroes(0, 2 << 20, zeroes(false, false, true)),
    ];
    assert_eq!(*world.volume.asked.borrow(), expected);
    world.end();
}

#[test]
fn allocation_is_told() {
    let world = World::new(small(), 1 << 20);
    world.volume.set_content(8192, &[1; 4096]);
    world.volume.set_content(16384, &[1; 8192]);
    world.io.block_on(async {
        let mut client = world.client().await;
        let hole = |len| StatusExtent { len, hole: true, zero: true };
        let data = |len| StatusExtent { len, hole: false, zero: false };
        let status = |flags, offset, len| request(code::BLOCK_STATUS, flags, offset, len);
        let reply = client.ask(status(0, 0, 1 << 20), b"").await;
        let rest = (1 << 20) - 24576;
        let extents = vec![hole(8192), data(4096), hole(4096), data(8192), hole(rest)];
        assert_eq!(reply, Reply::Status { cookie: 42, extents });
        let reply = client.ask(status(flag::REQ_ONE, 512, 4096), b"").await;
        assert_eq!(reply, Reply::Status { cookie: 42, extents: vec![hole(4096)] });
        let reply = client.ask(status(flag::REQ_ONE, 8192, 65536), b"").await;
        assert_eq!(reply, Reply::Status { cookie: 42, extents: vec![data(4096)] });
        client.close();
    });
    world.end();
}

#[test]
fn extents_beyond_a_reply_are_left_for_the_next() {
    let world = World::new(small(), 16 << 20);
    for page in (0..4096).step_by(2) {
        world.volume.set_content(page * 4096, &[1]);
    }
    world.io.block_on(async {
        let mut client = world.client().await;
        let reply = client.ask(request(code::BLOCK_STATUS, 0, 0, 16 << 20), b"").await;
        let Reply::Status { extents, .. } = reply else { panic!("no status") };
        assert_eq!(extents.len(), 2047, "as many as the reply's buffer holds");
        assert_eq!(extents.iter().map(|extent| extent.len).sum::<u32>(), 2047 * 4096);
        client.close();
    });
    world.end();
}

#[test]
fn data_of_refused_writes_are_skipped() {
    let world = World::new(small(), 1 << 20);
    world.io.block_on(async {
        let mut client = world.client().await;
        let magic = Request::default().encode().repeat(40); // would be taken for requests
        for (offset, len, error) in
            [(1, 1024, INVALID), ((1 << 20) - 512, 1024, NO_SPACE), (0, 1000, INVALID)]
        {
            let reply = client.ask(request(code::WRITE, 0, offset, len), &magic[..len as usize]).await;
            assert!(is_refusal(&reply, error), "{reply:?}");
        }
        let reply = client.ask(request(code::WRITE, flag::REQ_ONE, 0, 512), &magic[..512]).await;
        assert_eq!(reply.error(), INVALID);
        assert_eq!(client.ask(request(0x1234, 0, 0, 512), b"").await.error(), INVALID);
        let over = (8 << 20) + 512;
        let reply = client.ask(request(code::WRITE, 0, 0, over), &vec![0; over as usize]).await;
        assert_eq!(reply.error(), INVALID, "more than the server has memory for");
        client.write(0, &[5; 512]).await;
        assert_eq!(client.read(0, 512).await, [5; 512]);
        client.close();
    });
    assert_eq!(world.server.export_stats()[0].total.errors, 6);
    world.end();
}

#[test]
fn a_read_only_volume_takes_nothing() {
    let world = World::with(small(), |io| RamVolume::with(io, |limits| limits.read_only = true));
    world.io.block_on(async {
        let mut client = world.client().await;
        for command in [code::TRIM, code::WRITE_ZEROES] {
            assert_eq!(client.ask(request(command, 0, 0, 512), b"").await.error(), PERM);
        }
        assert_eq!(client.ask(request(code::WRITE, 0, 0, 512), &[1; 512]).await.error(), PERM);
        assert_eq!(client.ask(request(code::FLUSH, 0, 0, 0), b"").await.error(), 0);
        assert_eq!(client.read(0, 512).await, [0; 512]);
        client.close();
    });
    assert_eq!(*world.volume.asked.borrow(), [RamRequest::Flush, RamRequest::Read(0, 512)]);
    world.end();
}

#[test]
fn each_error_of_a_volume_has_its_number() {
    let world = World::new(small(), 1 << 20);
    world.io.block_on(async {
        let mut client = world.client().await;
        let cases = [
            (VolumeError::TooManyLost, IO),
            (VolumeError::of_member(1, OpError::Medium(5)), IO),
            (VolumeError::of_some_member(OpError::NoSpace), NO_SPACE),
            (VolumeError::NoSpace, NO_SPACE),
            (VolumeError::ReadOnly, PERM),
            (VolumeError::Unaligned, INVALID),
            (VolumeError::Stopping, SHUTDOWN),
        ];
        for (error, number) in cases {
            world.volume.error.set(Some(error));
            for command in [code::READ, code::WRITE, code::TRIM, code::WRITE_ZEROES, code::BLOCK_STATUS] {
                if command == code::BLOCK_STATUS {
                    continue; // the volume in RAM always knows
                }
                let data: &[u8] = if command == code::WRITE { &[1; 512] } else { b"" };
                let reply = client.ask(request(command, 0, 0, 512), data).await;
                assert!(is_refusal(&reply, number), "{reply:?} for {error:?}, command {command}");
            }
        }
        world.volume.error.set(Some(VolumeError::Unsupported));
        assert_eq!(client.ask(request(code::TRIM, 0, 0, 512), b"").await.error(), 0, "a trim is a hint");
        let fast = request(code::WRITE_ZEROES, flag::FAST_ZERO, 0, 512);
        assert_eq!(client.ask(fast, b"").await.error(), NOT_SUPPORTED);
        let slow = request(code::WRITE_ZEROES, 0, 0, 512);
        assert_eq!(client.ask(slow, b"").await.error(), IO, "ENOTSUP is for those who asked for speed");
        world.volume.error.set(None);
        assert_eq!(client.read(0, 512).await, [0; 512]);
        client.close();
    });
    world.end();
}

#[test]
fn a_client_that_takes_its_leave_gets_all_replies() {
    let world = World::new(small(), 1 << 20);
    world.volume.dawdle(50);
    world.io.block_on(async {
        let mut client = world.client().await;
        for cookie in 0..10 {
            client.request(Request { cookie, len: 4096, ..Request::default() }, b"").await;
        }
        client.request(request(code::DISC, 0, 0, 0), b"").await;
        let mut cookies = Vec::new();
        for _ in 0..10 {
            cookies.push(client.reply(4096).await.cookie());
        }
        cookies.sort_unstable();
        assert_eq!(cookies, (0..10).collect::<Vec<_>>());
        client.assert_closed().await;
    });
    world.end();
}

#[test]
fn a_server_that_stops_answers_what_it_has_taken() {
    let world = World::new(small(), 1 << 20);
    world.volume.dawdle(50);
    let mut client = world.io.block_on(world.client());
    world.io.block_on(async {
        for cookie in 0..10 {
            client.request(Request { cookie, len: 4096, ..Request::default() }, b"").await;
        }
        while world.volume.busy.get() < 10 {
            world.io.yield_now().await;
        }
        let server = world.server.clone();
        let stop = world.io.spawn(async move { server.stop().await });
        for _ in 0..10 {
            assert_eq!(client.reply(4096).await.error(), 0);
        }
        client.assert_closed().await;
        stop.await;
        let mut late = world.connect();
        late.assert_closed().await;
    });
    world.end();
}

#[test]
fn what_each_connection_does_is_counted() {
    let world = World::new(small(), 1 << 20);
    world.io.block_on(async {
        let mut first = world.client().await;
        let mut second = world.client().await;
        first.write(0, &[1; 4096]).await;
        second.read(0, 8192).await;
        second.ask(request(99, 0, 0, 0), b"").await;
        let stats = world.server.connection_stats();
        assert_eq!(stats.iter().map(|s| s.export.as_deref()).collect::<Vec<_>>(), [Some("disk"); 2]);
        assert_eq!((stats[0].total.written_bytes, stats[0].total.requests), (4096, 1));
        assert_eq!((stats[1].total.read_bytes, stats[1].total.errors), (8192, 1));
        let export = &world.server.export_stats()[0];
        assert_eq!((export.connections, export.total.requests), (2, 3));
        first.close();
        second.close();
        world.settle(0).await;
        assert_eq!(world.server.export_stats()[0].connections, 0);
    });
    world.end();
}

#[test]
fn a_volume_is_told_of_data_that_have_not_come_yet_and_of_their_end() {
    for ends in [false, true] {
        let world = World::sim(small(), 1 << 20);
        world.io.block_on(async {
            let mut client = world.client().await;
            client.write(0, &[1; 4096]).await;
            assert_eq!(world.volume.coming.get(), (0, 0), "all of it was here at once");
            client.request(request(code::WRITE, 0, 0, 128 << 10), &[2; 1000]).await;
            world.io.sleep(Duration::from_millis(10)).await;
            assert_eq!(world.volume.coming.get(), (1, 1));
            if ends {
                client.close();
            } else {
                client.send(&[2; (128 << 10) - 1000]).await.unwrap();
                assert_eq!(client.reply(0).await.error(), 0);
            }
            world.io.sleep(Duration::from_millis(10)).await;
            assert_eq!(world.volume.coming.get(), (0, 1));
        });
        world.end();
    }
}
