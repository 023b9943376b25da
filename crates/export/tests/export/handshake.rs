//! Options, one by one, and what a server must bear before an export is chosen.

use crate::support::{World, go, meta, small};
use brindle_export::nbd::proto::{OptionHeader, OptionReplyHeader, info_code, option_code as code};
use brindle_export::nbd::{AddExportError, Config};
use brindle_io::Duration;
use brindle_testkit::ram::RamVolume;
use brindle_volume::Limits;

const UNSUP: u32 = 1 << 31 | 1;
const INVALID: u32 = 1 << 31 | 3;
const UNKNOWN: u32 = 1 << 31 | 6;
const TOO_BIG: u32 = 1 << 31 | 9;

fn world() -> World {
    let world = World::new(small(), 1 << 20);
    let other = RamVolume::with(&world.io, |limits| {
        *limits = Limits { size: 3 << 20, block: 4096, preferred: 65536, read_only: true, ..*limits };
    });
    world.server.add_export("second", "read-only", other).expect("a fresh name");
    world
}

fn codes(replies: &[(u32, Vec<u8>)]) -> Vec<u32> {
    replies.iter().map(|reply| reply.0).collect()
}

#[test]
fn exports_are_listed() {
    let world = world();
    world.io.block_on(async {
        let mut client = world.connect();
        client.greet().await;
        let replies = client.option(code::LIST, b"").await;
        let entry = |name: &str, rest: &str| {
            [&(name.len() as u32).to_be_bytes()[..], name.as_bytes(), rest.as_bytes()].concat()
        };
        let expected = [(2, entry("disk", "a disk in RAM")), (2, entry("second", "read-only")), (1, vec![])];
        assert_eq!(replies, expected);
        assert_eq!(codes(&client.option(code::LIST, b"x").await), [INVALID]);
        client.close();
    });
    world.end();
}

#[test]
fn info_tells_what_was_asked_for() {
    let world = world();
    world.io.block_on(async {
        let mut client = world.connect();
        client.greet().await;
        let wants = [info_code::NAME, info_code::DESCRIPTION, info_code::BLOCK_SIZE, 99];
        let replies = client.option(code::INFO, &go(b"second", &wants)).await;
        // Size 3 MiB; has-flags, read-only, flush, multi-conn.
        assert_eq!(replies[0], (3, vec![0, 0, 0, 0, 0, 0, 0, 0x30, 0, 0, 1, 7]));
        assert_eq!(replies[1], (3, b"\0\x01second".to_vec()));
        assert_eq!(replies[2], (3, b"\0\x02read-only".to_vec()));
        // 4096, 65536, and 4 MiB: this server has memory for no more.
        assert_eq!(replies[3], (3, vec![0, 3, 0, 0, 0x10, 0, 0, 1, 0, 0, 0, 0x40, 0, 0]));
        assert_eq!(replies[4..], [(1, vec![])]);
        let replies = client.option(code::INFO, &go(b"third", &[])).await;
        assert_eq!(
            replies[0],
            (UNKNOWN, b"there is no export of this name; exports: 'disk', 'second'".to_vec())
        );
        client.close();
    });
    world.end();
}

#[test]
fn no_name_means_the_export_of_a_server_that_has_had_only_one() {
    let world = World::new(small(), 1 << 20);
    world.io.block_on(async {
        let mut client = world.connect();
        client.greet().await;
        let replies = client.option(code::INFO, &go(b"", &[])).await;
        assert_eq!(replies[0].1[2..10], (1u64 << 20).to_be_bytes());
        world.server.add_export("second", "", RamVolume::new(&world.io, 1 << 20)).expect("a fresh name");
        for _ in 0..2 {
            let replies = client.option(code::GO, &go(b"", &[])).await;
            let (code, said) = &replies[0];
            assert!(*code == UNKNOWN && String::from_utf8_lossy(said).contains("'disk'"), "{replies:?}");
            // One export is left, but a client that names none may have meant the removed one.
            world.server.remove_export("second").await;
        }
        client.send_option(code::EXPORT_NAME, b"").await;
        client.assert_closed().await;
    });
    world.end();
}

#[test]
fn an_export_ends_with_its_clients_and_no_others() {
    let world = world();
    world.io.block_on(async {
        let mut stays = world.client().await;
        stays.write(0, &[7; 4096]).await;
        let mut haggles = world.connect();
        haggles.greet().await;
        haggles.structured().await;
        let second = meta(b"second", &[b"base:allocation"]);
        assert_eq!(codes(&haggles.option(code::SET_META_CONTEXT, &second).await), [4, 1]);
        let mut leaves = world.connect();
        leaves.greet().await;
        assert_eq!(codes(&leaves.option(code::GO, &go(b"disk", &[])).await), [3, 1]);
        leaves.write(4096, &[8; 4096]).await;

        let other = RamVolume::new(&world.io, 2 << 20);
        world.server.add_export("third", "", other.clone()).expect("a fresh name");
        let mut third = world.connect();
        third.greet().await;
        assert_eq!(codes(&third.option(code::GO, &go(b"third", &[])).await), [3, 1]);
        world.server.remove_export("disk").await;
        for gone in [&mut stays, &mut leaves] {
            gone.assert_closed().await;
        }
        assert_eq!(std::rc::Rc::strong_count(&world.volume), 1, "the volume is let go");
        assert_eq!(third.read(0, 512).await, [0; 512], "others go on");
        // Choices made for a removed export don't count for another one in its place.
        assert_eq!(codes(&haggles.option(code::LIST, b"").await), [2, 2, 1]);
        assert_eq!(codes(&haggles.option(code::INFO, &go(b"disk", &[])).await), [UNKNOWN]);
        assert_eq!(codes(&haggles.option(code::GO, &go(b"third", &[])).await), [3, 1]);
        let status = brindle_export::nbd::proto::Request { command: 7, len: 4096, ..Default::default() };
        assert_eq!(haggles.ask(status, b"").await.error(), 22, "the context was another's");
        world.server.remove_export("disk").await;
        // The name is free again.
        world.server.add_export("disk", "", other).expect("it has ended");
        [haggles, third].iter().for_each(|client| client.close());
    });
    world.end();
}

#[test]
fn the_largest_request_is_32_mib() {
    let world = World::new(Config { memory: 200 << 20, ..small() }, 1 << 20);
    world.io.block_on(async {
        let mut client = world.connect();
        client.greet().await;
        let replies = client.option(code::INFO, &go(b"", &[info_code::BLOCK_SIZE])).await;
        assert_eq!(replies[1].1, [0, 3, 0, 0, 2, 0, 0, 0, 0x10, 0, 2, 0, 0, 0]);
        client.close();
    });
    world.end();
}

#[test]
fn malformed_data_are_invalid_and_the_haggling_goes_on() {
    let world = world();
    world.io.block_on(async {
        let mut client = world.connect();
        client.greet().await;
        client.structured().await;
        let long_name = go(&[b'x'; 4097], &[]);
        let bad: [(u32, &[u8]); 8] = [
            (code::GO, b""),
            (code::GO, b"\xff\xff\xff\xffdisk\0\0"),
            (code::GO, b"\0\0\0\x04disk\0\x02\0\0"),
            (code::GO, b"\0\0\0\x04disk\0\0extra"),
            (code::INFO, &long_name),
            (code::SET_META_CONTEXT, b"\0\0\0\x04disk\xff\xff\xff\xff"),
            (code::LIST_META_CONTEXT, b"\0\0\0\x04disk\0\0\0\x01\0\0\0\x09base:"),
            (code::STRUCTURED_REPLY, b"x"),
        ];
        for (option, data) in bad {
            assert_eq!(codes(&client.option(option, data).await), [INVALID], "option {option}: {data:?}");
        }
        assert_eq!(codes(&client.option(code::LIST, b"").await), [2, 2, 1]);
        client.close();
    });
    world.end();
}

#[test]
fn unknown_options_are_refused_without_harm() {
    let world = world();
    world.io.block_on(async {
        let mut client = world.connect();
        client.greet().await;
        for option in [0, 4, code::STARTTLS, 11, 12, 0xffff_ffff] {
            assert_eq!(codes(&client.option(option, b"whatever").await), [UNSUP], "option {option}");
        }
        assert_eq!(codes(&client.option(code::LIST, &vec![0; 16_385]).await), [TOO_BIG]);
        assert_eq!(codes(&client.option(77, &vec![0; 1 << 20]).await), [TOO_BIG]);
        assert_eq!(codes(&client.option(code::GO, &go(b"disk", &[])).await), [3, 1]);
        assert_eq!(client.read(0, 512).await, [0; 512]);
        client.close();
    });
    world.end();
}

#[test]
fn contexts_need_structured_replies_and_the_right_name() {
    let world = world();
    world.io.block_on(async {
        let mut client = world.connect();
        client.greet().await;
        let all = meta(b"disk", &[]);
        assert_eq!(codes(&client.option(code::LIST_META_CONTEXT, &all).await), [INVALID]);
        client.structured().await;
        let context = |id: u8| (4, [&[0, 0, 0, id], b"base:allocation".as_slice()].concat());
        for queries in [&[][..], &[b"base:".as_slice()], &[b"x-y:z", b"base:allocation"]] {
            let replies = client.option(code::LIST_META_CONTEXT, &meta(b"disk", queries)).await;
            assert_eq!(replies, [context(0), (1, vec![])]);
        }
        let other = meta(b"disk", &[b"qemu:dirty-bitmap:"]);
        assert_eq!(codes(&client.option(code::LIST_META_CONTEXT, &other).await), [1]);
        assert_eq!(codes(&client.option(code::SET_META_CONTEXT, &meta(b"disk", &[])).await), [1]);
        let wildcard = meta(b"disk", &[b"base:"]);
        assert_eq!(codes(&client.option(code::SET_META_CONTEXT, &wildcard).await), [1]);
        let unknown = meta(b"third", &[b"base:allocation"]);
        assert_eq!(codes(&client.option(code::SET_META_CONTEXT, &unknown).await), [UNKNOWN]);
        let replies = client.option(code::SET_META_CONTEXT, &meta(b"disk", &[b"base:allocation"])).await;
        assert_eq!(replies, [context(1), (1, vec![])]);
        client.close();
    });
    world.end();
}

#[test]
fn a_context_of_another_export_does_not_count() {
    let world = world();
    world.io.block_on(async {
        for (name, allowed) in [(b"second".as_slice(), false), (b"disk", true)] {
            let mut client = world.connect();
            client.greet().await;
            client.structured().await;
            client.choose_context().await;
            assert_eq!(codes(&client.option(code::GO, &go(name, &[])).await), [3, 1]);
            let status = brindle_export::nbd::proto::Request { command: 7, len: 4096, ..Default::default() };
            let reply = client.ask(status, b"").await;
            assert_eq!(reply.error(), if allowed { 0 } else { 22 });
            client.close();
        }
    });
    world.end();
}

#[test]
fn the_old_way_to_choose_works() {
    let world = world();
    world.io.block_on(async {
        for (flags, zeroes) in [(0u8, 124), (1, 124), (2, 0), (3, 0)] {
            let mut client = world.connect();
            client.recv::<18>().await;
            client.send(&[0, 0, 0, flags]).await.expect("open");
            client.send_option(code::EXPORT_NAME, b"disk").await;
            let answer = client.try_recv(10 + zeroes).await.expect("size, flags, zeroes");
            assert_eq!(answer[..8], (1u64 << 20).to_be_bytes());
            assert_eq!(answer[10..], vec![0; zeroes]);
            assert_eq!(client.read(4096, 512).await, [0; 512]);
            client.close();
        }
        let mut client = world.connect();
        client.greet().await;
        client.send_option(code::EXPORT_NAME, b"third").await;
        client.assert_closed().await;
    });
    world.end();
}

#[test]
fn abort_is_acknowledged() {
    let world = world();
    world.io.block_on(async {
        let mut client = world.connect();
        client.greet().await;
        assert_eq!(client.option(code::ABORT, b"ignored").await, [(1, vec![])]);
        client.assert_closed().await;
    });
    world.end();
}

#[test]
fn garbage_ends_a_handshake_at_once() {
    let world = world();
    world.io.block_on(async {
        let mut client = world.connect();
        client.recv::<18>().await;
        client.send(b"GET ").await.expect("open");
        client.assert_closed().await;
        let mut client = world.connect();
        client.greet().await;
        client.send(b"IHAVENOT\0\0\0\x07\0\0\0\0").await.expect("open");
        client.assert_closed().await;
        let mut client = world.connect();
        client.greet().await;
        client.send(&OptionHeader { option: 9, len: u32::MAX }.encode()).await.expect("open");
        client.assert_closed().await;
    });
    world.end();
}

#[test]
fn options_may_come_in_crumbs_or_all_at_once() {
    let world = world();
    world.io.block_on(async {
        let mut session = vec![0, 0, 0, 3];
        for (option, data) in [(code::LIST, vec![]), (code::GO, go(b"disk", &[]))] {
            session.extend(OptionHeader { option, len: data.len() as u32 }.encode());
            session.extend(data);
        }
        session.extend(brindle_export::nbd::proto::Request { len: 512, ..Default::default() }.encode());
        for crumb in [1, 7, session.len()] {
            let mut client = world.connect();
            client.recv::<18>().await;
            for bytes in session.chunks(crumb) {
                client.send(bytes).await.expect("open");
                world.io.yield_now().await;
            }
            let mut acks = 0;
            while acks < 2 {
                let header = OptionReplyHeader::decode(&client.recv().await).expect("magic");
                client.try_recv(header.len as usize).await.expect("data");
                acks += u32::from(header.reply == 1);
            }
            assert_eq!(client.reply(512).await.error(), 0);
            client.close();
        }
    });
    world.end();
}

#[test]
fn a_silent_client_is_sent_away() {
    let world = World::new(Config { handshake: Duration::from_millis(1), ..small() }, 1 << 20);
    world.io.block_on(async {
        let mut silent = world.connect();
        silent.greet().await;
        silent.assert_closed().await;
        world.settle(0).await;
    });
    world.end();
}

#[test]
fn there_are_only_so_many_connections() {
    let world = World::new(Config { connections: 2, ..small() }, 1 << 20);
    world.io.block_on(async {
        let mut first = world.client().await;
        let second = world.client().await;
        let mut third = world.connect();
        third.assert_closed().await;
        second.close();
        world.settle(1).await;
        world.client().await.close();
        assert_eq!(first.read(0, 512).await, [0; 512]);
        first.close();
    });
    world.end();
}

#[test]
fn names_are_unique_and_short() {
    let world = world();
    let again = world.server.add_export("disk", "", world.volume.clone());
    assert_eq!(again, Err(AddExportError::Duplicate("disk".to_owned())));
    let long = "x".repeat(4097);
    assert_eq!(world.server.add_export(&long, "", world.volume.clone()), Err(AddExportError::TooLong(long)));
    world.end();
}
