//! A scripted initiator over in-process sockets: what a server answers, and what it does not let itself be told.

use std::num::NonZeroU64;
use std::rc::Rc;

use crate::support::initiator::{self, SECRET, World, cdb, prove};
use brindle_export::Rates;
use brindle_export::iscsi::login::{Chap, Credentials, Hash};
use brindle_export::iscsi::pdu::{FINAL, Header, request, response};
use brindle_export::scsi::reservation::Reservations;
use brindle_io::Duration;
use brindle_io::sync::join_all;

#[test]
fn data_go_both_ways_with_digests_and_without() {
    for keys in [&["HeaderDigest=CRC32C", "DataDigest=CRC32C", "MaxBurstLength=65536"][..], &[]] {
        let world = World::new(None, 16);
        world.io.block_on(async {
            let mut client = world.connect(1);
            assert_eq!(client.login(keys).await.0[36], 0);
            assert_eq!(client.digests, !keys.is_empty());
            assert_eq!(client.command(&[0; 16], &[], 0).await.sense[12], 0x29, "POWER ON");
            let bytes: Vec<u8> = (0..300_032).map(|n| (n % 251) as u8).collect();
            assert_eq!(client.write(3, &bytes).await.status, 0);
            let came = client.read(3, bytes.len()).await;
            assert!(came.status == 0 && came.data == bytes && came.residual == (0, 0), "{:?}", came.sense);
            assert_eq!(world.volume.content(3 * 512, 512), bytes[..512]);
            assert_eq!(client.read(8192, 512).await.sense[12], 0x21, "beyond the end");
        });
        world.end();
    }
}

#[test]
fn a_window_of_one_never_closes_for_good() {
    let world = World::new(None, 1);
    world.io.block_on(async {
        let mut client = world.client(1).await;
        for n in 0..50 {
            assert_eq!(client.write(n, &[n as u8; 2048]).await.status, 0);
            assert_eq!(client.read(n, 2048).await.data[2047], n as u8);
        }
    });
    world.end();
}

#[test]
fn four_initiators_count_by_compare_and_write() {
    let world = World::new(None, 16);
    world.volume.dawdle(3);
    let world = Rc::new(world);
    let times = if std::env::var_os("BRINDLE_LONG").is_some() { 250_000_u32 } else { 50 };
    world.io.block_on(async {
        let count = async |name: u8| {
            let mut client = world.client(name).await;
            for _ in 0..times {
                loop {
                    let old = client.read(0, 512).await.data;
                    let number = u32::from_le_bytes([old[0], old[1], old[2], old[3]]) + 1;
                    let mut both = [&old[..], &old].concat();
                    both[512..516].copy_from_slice(&number.to_le_bytes());
                    let mut cdb = [0; 16];
                    (cdb[0], cdb[13]) = (0x89, 1);
                    let came = client.command(&cdb, &both, 0).await;
                    if came.status == 0 {
                        break;
                    }
                    assert_eq!((came.status, came.sense[2] & 0xf), (2, 0xe), "MISCOMPARE");
                }
            }
        };
        join_all((1..=4).map(count)).await;
    });
    assert_eq!(world.volume.content(0, 4), (4 * times).to_le_bytes());
    world.end();
}

#[test]
fn registrations_are_kept_before_they_are_acknowledged() {
    let world = World::new(None, 16);
    world.io.block_on(async {
        let (mut one, mut two) = (world.client(1).await, world.client(2).await);
        world.refuses.set(true);
        let came = one.reserve(0, 0, 0, 7, true).await;
        assert_eq!((came.status, came.sense[12], came.sense[13]), (2, 0x55, 0x04), "no resources");
        // It has not registered: to reserve is a conflict.
        assert_eq!(one.reserve(1, 1, 7, 0, false).await.status, 0x18);
        world.refuses.set(false);
        assert_eq!(one.reserve(0, 0, 0, 7, true).await.status, 0);
        assert!(!world.gate.is_closed());
        assert_eq!(one.reserve(1, 1, 7, 0, false).await.status, 0);
        assert!(world.gate.is_closed(), "other doors may not write");
        let kept = Reservations::from_file_text(world.kept.borrow().as_ref().unwrap()).unwrap();
        assert_eq!((kept.registrants(), kept.held().map(|kind| kind as u8)), (1, Some(1)));
        assert_eq!(two.write(0, &[1; 512]).await.status, 0x18, "RESERVATION CONFLICT");
        assert_eq!(two.read(0, 512).await.status, 0);
        assert_eq!(one.write(0, &[1; 512]).await.status, 0);
        assert_eq!(one.reserve(3, 0, 7, 0, false).await.status, 0);
        assert!(!world.gate.is_closed());
        assert_eq!(two.write(0, &[1; 512]).await.status, 0);
    });
    world.end();
}

#[test]
fn a_session_begins_anew_and_loses_what_it_had_reserved() {
    let world = World::new(None, 16);
    world.io.block_on(async {
        let (mut one, mut two) = (world.client(1).await, world.client(2).await);
        assert_eq!(one.command(&cdb(&[0x16], 0, &[]), &[], 0).await.status, 0, "RESERVE (6)");
        assert_eq!(two.read(0, 512).await.status, 0x18);
        let mut again = world.connect(1);
        assert_eq!(again.login(&[]).await.0[36], 0);
        assert_eq!(again.command(&[0; 16], &[], 0).await.sense[13], 0x07, "NEXUS LOSS");
        assert!(one.receive().await.is_none(), "the old one is closed");
        assert_eq!(two.read(0, 512).await.status, 0);
        assert_eq!(world.server.target_stats()[0].initiators.len(), 2);
    });
    world.end();
}

#[test]
fn only_those_come_in_that_prove_themselves() {
    let own = Credentials { name: "target".into(), secret: b"the target's own secret".to_vec() };
    let theirs = Credentials { name: "one".into(), secret: SECRET.as_bytes().to_vec() };
    let world = World::new(Some(Chap::new(vec![theirs], Some(own)).unwrap()), 16);
    world.io.block_on(async {
        let (class, text) = prove(&mut world.connect(1), "one", SECRET.as_bytes(), false).await;
        let right = Hash::Sha256.answer(9, b"the target's own secret", &[1, 2, 3, 4, 5, 6, 7, 8]);
        let right: String = right.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(class, 0);
        assert!(text.contains(&format!("CHAP_N=target\0CHAP_R=0x{right}")), "{text}");
        assert_eq!(prove(&mut world.connect(2), "one", b"another secret ...", false).await.0, 2);
        assert_eq!(prove(&mut world.connect(2), "two", SECRET.as_bytes(), false).await.0, 2);
        assert_eq!(prove(&mut world.connect(2), "one", SECRET.as_bytes(), true).await.0, 2, "reflected");
        // Logins that skip the security stage, or offer no proof, are refused.
        assert_eq!(world.connect(3).login(&[]).await.0[36], 2);
        let client = &mut world.connect(3);
        let text = format!("{}AuthMethod=None\0", client.introduction());
        client.send(client.login_header(0x81), text.as_bytes()).await;
        assert_eq!(client.receive().await.expect("a verdict").0.0[36], 2);
    });
    world.end();
}

#[test]
fn what_comes_damaged_or_in_another_order_fails_its_command_only() {
    let world = World::new(None, 16);
    world.io.block_on(async {
        let mut client = world.client(1).await;
        let mut header = Header::new(request::COMMAND, 77).byte(1, FINAL | 0x20);
        header.0[32..48].copy_from_slice(&cdb(&[0x2a, 0], 0, &[0, 0, 8]));
        client.send(header.with(20, 4096).with(24, client.next), &[]).await;
        client.next += 1;
        let (asked, _) = client.receive().await.expect("R2T");
        let data = Header::new(request::DATA, 77).with(20, asked.word(20)).with(36, 5);
        client.send(data, &[9; 4096]).await;
        let (came, sense) = client.receive().await.expect("a status");
        assert_eq!((came.0[3], sense[2 + 12]), (2, 0x4b), "DATA PHASE ERROR");
        assert_eq!(world.volume.content(0, 1), [0]);
        assert_eq!(client.write(0, &[3; 4096]).await.status, 0);
    });
    world.end();
}

#[test]
fn the_silent_and_the_half_open_make_room() {
    let world = World::new(None, 16);
    world.io.block_on(async {
        let mut good = world.client(1).await;
        for n in 0..1000 {
            let client = world.connect(9);
            client.raw(&client.login_header(0x87).with_data(200).0[..n % 48]).await;
            if n % 50 == 0 {
                assert_eq!(good.write(0, &[n as u8; 512]).await.status, 0);
            }
        }
        assert_eq!(good.read(0, 512).await.status, 0);
        assert!(world.server.connection_stats().len() <= 8);
    });
    world.end();
}

#[test]
fn commands_wait_until_they_are_due_and_pings_do_not() {
    let world = World::new(None, 16);
    let rates = Rates { requests: NonZeroU64::new(100), bytes: None, burst: Duration::from_millis(1) };
    world.io.block_on(async {
        let mut client = world.client(1).await;
        world.gate.set_rates(&world.io, rates);
        let begun = world.io.now();
        for n in 0..11 {
            assert_eq!(client.write(n, &[n as u8; 512]).await.status, 0);
        }
        let took = world.io.now().since(begun);
        assert!(took >= Duration::from_millis(99), "{took:?}");
        // A command that waits for a second is overtaken by a ping.
        let rates = Rates { requests: NonZeroU64::new(1), ..rates };
        world.gate.set_rates(&world.io, rates);
        client.read(0, 512).await;
        let mut header = Header::new(request::COMMAND, 77).byte(1, FINAL | 0x40);
        header.0[32..48].copy_from_slice(&cdb(&[0x28, 0], 0, &[0, 0, 1]));
        client.send(header.with(20, 512).with(24, client.next), &[]).await;
        client.next += 1;
        let ping = Header::new(request::NOP, 78).byte(0, request::NOP | 0x40).byte(1, FINAL);
        client.send(ping.with(20, u32::MAX).with(24, client.next), &[]).await;
        assert_eq!(client.receive().await.expect("a pong").0.word(16), 78);
        world.gate.set_rates(&world.io, Rates::default());
        assert_eq!(client.receive().await.expect("the data").0.word(16), 77);
    });
    world.end();
}

/// Sends a WRITE (10) of 8 blocks with some data at once; `flags` has W or not.
async fn begin_write(client: &mut initiator::Client, task: u32, flags: u8, data: &[u8]) {
    let mut header = Header::new(request::COMMAND, task).byte(1, FINAL | flags);
    header.0[32..48].copy_from_slice(&cdb(&[0x2a, 0], 0, &[0, 0, 8]));
    client.send(header.with(20, 4096).with(24, client.next), data).await;
    client.next += 1;
}

/// The status of the next response, and its sense and residual.
async fn ended(client: &mut initiator::Client) -> (u8, Vec<u8>, (u8, u32)) {
    let (came, data) = client.receive().await.expect("a status");
    assert_eq!(came.opcode(), response::COMMAND);
    (came.0[3], data.get(2..).unwrap_or_default().to_vec(), (came.flags() & 6, came.word(44)))
}

#[test]
fn a_write_that_sends_nothing_is_refused() {
    let world = World::new(None, 16);
    world.volume.set_content(0, &[1; 4096]);
    world.io.block_on(async {
        let mut client = world.client(1).await;
        for flags in [0, 0x40] {
            for data in [&[][..], &[2; 4096]] {
                begin_write(&mut client, 77, flags, data).await;
                let (status, sense, residual) = ended(&mut client).await;
                assert_eq!((status, sense[2], residual), (2, 5, (4, 4096)), "{flags:#x} {}", data.len());
            }
        }
        assert_eq!(world.volume.content(0, 4096), [1; 4096]);
        assert_eq!(client.write(0, &[3; 4096]).await.status, 0);
    });
    world.end();
}

#[test]
fn data_that_were_not_agreed_on_end_their_command() {
    let world = World::new(None, 16);
    world.io.block_on(async {
        for (keys, len, taken) in [
            (&["ImmediateData=No"][..], 512, false),
            (&["FirstBurstLength=1024"], 1024, true),
            (&["FirstBurstLength=1024"], 1028, false),
            (&["MaxBurstLength=2048", "FirstBurstLength=4096"], 4096, false),
        ] {
            let mut client = world.connect(1);
            client.login(keys).await;
            client.command(&[0; 16], &[], 0).await;
            begin_write(&mut client, 77, 0x20, &vec![7; len]).await;
            if taken {
                let (asked, _) = client.receive().await.expect("R2T");
                assert_eq!((asked.opcode(), asked.word(40)), (response::R2T, len as u32));
                client.give(&asked, &[7; 4096]).await;
                assert_eq!(ended(&mut client).await.0, 0);
                world.volume.set_content(0, &[0; 4096]);
            } else {
                let (status, sense, _) = ended(&mut client).await;
                assert_eq!((status, sense[2], sense[12], sense[13]), (2, 0x0b, 0x0c, 0x0c), "{keys:?}");
                assert_eq!(world.volume.content(0, 4096), [0; 4096], "{keys:?}");
            }
            // The next command is understood.
            assert_eq!(client.read(0, 512).await.status, 0);
        }
    });
    world.end();
}

#[test]
fn data_with_a_wrong_tag_end_their_command() {
    let world = World::new(None, 16);
    world.io.block_on(async {
        let mut client = world.client(1).await;
        for (task, last) in [(77, FINAL), (78, 0)] {
            begin_write(&mut client, task, 0x20, &[]).await;
            let (asked, _) = client.receive().await.expect("R2T");
            let data = Header::new(request::DATA, task).byte(1, last).with(20, asked.word(20) ^ 1);
            client.send(data, &[9; 1024]).await;
            let (status, sense, _) = ended(&mut client).await;
            assert_eq!((status, sense[2], sense[12]), (2, 0x0b, 0x0c));
            // Those that were asked for come too late.
            client.give(&asked, &[9; 4096]).await;
            assert_eq!(client.read(0, 512).await.data, [0; 512]);
        }
        // A tag of no task is nobody's.
        client.send(Header::new(request::DATA, 5).with(20, 5), &[9; 1024]).await;
        assert_eq!(client.read(0, 512).await.data, [0; 512]);
    });
    world.end();
}

#[test]
fn immediate_commands_beyond_the_window_are_rejected() {
    let world = World::new(None, 2);
    let rates = Rates { requests: NonZeroU64::new(1), bytes: None, burst: Duration::from_millis(1) };
    world.io.block_on(async {
        let mut client = world.client(1).await;
        world.gate.set_rates(&world.io, rates);
        client.read(0, 512).await;
        for task in 50..56 {
            let mut header = Header::new(request::COMMAND, task).byte(1, FINAL | 0x40);
            header.0[0] |= 0x40;
            header.0[32..48].copy_from_slice(&cdb(&[0x28, 0], 0, &[0, 0, 1]));
            client.send(header.with(20, 512).with(24, client.next), &[]).await;
        }
        for task in 53..56 {
            let (came, rejected) = client.receive().await.expect("a reject");
            assert_eq!((came.opcode(), came.0[2]), (response::REJECT, 6), "too many immediate commands");
            assert_eq!(rejected[16..20], u32::to_be_bytes(task));
        }
        world.gate.set_rates(&world.io, Rates::default());
        for _ in 50..53 {
            assert_eq!(client.receive().await.expect("data").0.opcode(), response::DATA);
        }
    });
    world.end();
}

#[test]
fn a_volume_is_told_of_data_that_are_asked_for_and_of_their_end() {
    let world = World::new(None, 16);
    world.io.block_on(async {
        let mut client = world.client(1).await;
        assert_eq!(client.write(0, &[1; 512]).await.status, 0);
        assert_eq!(world.volume.coming.get(), (0, 0), "all of it came with the command");
        assert_eq!(client.write(8, &[2; 64 << 10]).await.status, 0);
        assert_eq!(world.volume.coming.get(), (0, 1));
    });
    world.end();
}
