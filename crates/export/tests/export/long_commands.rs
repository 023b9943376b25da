//! Commands that take long on members of 5 ms, in virtual time: they end soon when they are told to, and limits charge what they move.

use std::num::NonZeroU64;
use std::rc::Rc;

use crate::support::initiator::{Client, TARGET, cdb};
use crate::support::slow::Doors;
use brindle_export::Rates;
use brindle_export::iscsi::pdu::{FINAL, Header, request, response};
use brindle_export::scsi::Identity;
use brindle_io::Duration;
use brindle_io::sync::join_all;
use brindle_volume::{Volume, ZeroOptions};

const MIB: u64 = 1 << 20;
const ABORT_TASK: u8 = 1;
const ABORT_TASK_SET: u8 = 2;
const RESET_UNIT: u8 = 5;
const RESET_WARM: u8 = 6;
const RESET_COLD: u8 = 7;
/// The tag of the command that takes long.
const LONG: u32 = 77;

/// A command with a 64-bit address and 32-bit length.
fn long_cdb(code: u8, flags: u8, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (code, flags);
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

/// 256 ranges of 512 MiB.
fn unmap() -> ([u8; 16], Vec<u8>) {
    let len = 256_u16 * 16;
    let mut list = [&(len + 6).to_be_bytes()[..], &len.to_be_bytes(), &[0; 4]].concat();
    for at in 0..256_u64 {
        list.extend([&(at << 20).to_be_bytes()[..], &(1_u32 << 20).to_be_bytes(), &[0; 4]].concat());
    }
    (cdb(&[0x42], 0, &[0, 0, (list.len() >> 8) as u8, list.len() as u8]), list)
}

/// Sixteen segments of almost 32 MiB each.
fn copy(blocks: u16) -> ([u8; 16], Vec<u8>) {
    let naa = Identity { uuid: [1; 16], product: "t".into(), target: TARGET.into() }.naa();
    let unit = [&[0xe4, 0, 0, 0, 1, 3, 0, 16][..], &naa, &[0, 0, 0, 0, 0, 0, 2, 0]].concat();
    let mut list = vec![0; 16];
    let segments = 16_u16 * 28;
    (list[3], list[10], list[11]) = (32, (segments >> 8) as u8, segments as u8);
    list.extend(unit);
    for at in 0..16_u64 {
        let [high, low] = blocks.to_be_bytes();
        list.extend([2, 0, 0, 24, 0, 0, 0, 0, 0, 0, high, low]);
        list.extend([(at << 20).to_be_bytes(), ((at + 64) << 20).to_be_bytes()].concat());
    }
    let mut cdb = [0; 16];
    (cdb[0], cdb[12], cdb[13]) = (0x83, (list.len() >> 8) as u8, list.len() as u8);
    (cdb, list)
}

/// Commands that go on for longer than anybody should wait.
fn long() -> Vec<(&'static str, [u8; 16], Vec<u8>)> {
    let (unmap, ranges) = unmap();
    let (copy, segments) = copy(u16::MAX);
    vec![
        ("VERIFY", long_cdb(0x8f, 0, u32::MAX), Vec::new()),
        ("VERIFY of one block", long_cdb(0x8f, 6, u32::MAX), vec![0; 512]),
        ("OR WRITE", long_cdb(0x8b, 0, 16384), vec![1; 8 << 20]),
        ("UNMAP", unmap, ranges),
        ("EXTENDED COPY", copy, segments),
    ]
}

/// Sends a command, with all of its data as they are asked for.
async fn begin(client: &mut Client, cdb: &[u8; 16], out: &[u8]) {
    let flags = FINAL | if out.is_empty() { 0 } else { 0x20 };
    let mut header = Header::new(request::COMMAND, LONG).byte(1, flags);
    header.0[32..48].copy_from_slice(cdb);
    let header = header.with(20, out.len() as u32).with(24, client.next);
    client.next += 1;
    client.send(header, &out[..out.len().min(512)]).await;
    let mut given = out.len().min(512);
    while given < out.len() {
        let (asked, _) = client.receive().await.expect("R2T");
        assert_eq!(asked.opcode(), response::R2T);
        client.give(&asked, out).await;
        given += asked.word(44) as usize;
    }
}

async fn manage(client: &Client, function: u8) {
    let header = Header::new(request::TASK, 99).byte(0, request::TASK | 0x40).byte(1, FINAL | function);
    client.send(header.with(20, LONG).with(24, client.next), &[]).await;
}

/// The answer to a task management function. What comes before belongs to commands that were aborted.
async fn managed(client: &mut Client) -> u8 {
    loop {
        let (header, _) = client.receive().await.expect("an answer");
        if header.opcode() == response::TASK {
            return header.0[2];
        }
    }
}

fn limit(mib: u64) -> Rates {
    Rates { requests: None, bytes: NonZeroU64::new(mib * MIB), burst: Duration::ZERO }
}

#[test]
fn whoever_ends_a_long_command_waits_less_than_a_second() {
    for (name, cdb, out) in long() {
        let doors = Doors::new();
        doors.io.block_on(async {
            for function in [ABORT_TASK, ABORT_TASK_SET, RESET_UNIT, RESET_WARM] {
                let mut client = doors.initiator(1).await;
                begin(&mut client, &cdb, &out).await;
                doors.rest(100).await;
                manage(&client, function).await;
                let (took, answer) = doors.seconds(managed(&mut client)).await;
                assert!(answer == 0 && took < 1.0, "{name}, function {function}: {answer} after {took} s");
                client.io.close(client.socket);
                doors.rest(100).await;
            }
            // Another initiator resets the unit: who has sent the command learns of it.
            let (mut one, mut two) = (doors.initiator(1).await, doors.initiator(2).await);
            begin(&mut one, &cdb, &out).await;
            doors.rest(100).await;
            manage(&two, RESET_UNIT).await;
            let (took, answer) = doors.seconds(managed(&mut two)).await;
            assert!(answer == 0 && took < 1.0, "{name}: {answer} after {took} s");
            let (header, _) = one.receive().await.expect("a status");
            assert_eq!((header.word(16), header.0[3]), (LONG, 0x40), "{name}: TASK ABORTED");
            assert_eq!(one.command(&[0; 16], &[], 0).await.status, 2, "the reset");
            // It comes again while its command goes on; it leaves, and nothing goes on for it.
            begin(&mut one, &cdb, &out).await;
            let (took, again) = doors.seconds(doors.initiator(1)).await;
            assert!(took < 1.0, "{name}: {took} s");
            one = again;
            begin(&mut one, &cdb, &out).await;
            doors.rest(100).await;
            one.io.close(one.socket);
            doors.rest(900).await;
            let before = doors.volume.moved.get();
            doors.rest(1000).await;
            assert_eq!(doors.volume.moved.get(), before, "{name} goes on for nobody");
        });
        doors.end();
    }
}

#[test]
fn an_export_and_a_server_end_within_a_second() {
    for (name, cdb, out) in long() {
        for stops in [false, true] {
            let doors = Doors::new();
            doors.io.block_on(async {
                let mut client = doors.initiator(1).await;
                begin(&mut client, &cdb, &out).await;
                doors.rest(100).await;
                let ending = async {
                    if stops { doors.iscsi.stop().await } else { doors.iscsi.remove_target(TARGET).await }
                };
                let listening = async {
                    let (header, _) = client.receive().await.expect("a status");
                    assert_eq!((header.word(16), header.0[3]), (LONG, 0x40), "{name}: TASK ABORTED");
                    assert!(client.receive().await.is_none());
                };
                let both: [std::pin::Pin<Box<dyn Future<Output = ()> + '_>>; 2] =
                    [Box::pin(ending), Box::pin(listening)];
                let (took, _) = doors.seconds(join_all(both)).await;
                assert!(took < 1.5, "{name}: {took} s");
            });
            doors.end();
        }
    }
}

#[test]
fn a_volume_that_answers_at_once_lets_others_go_on() {
    let doors = Doors::new();
    doors.volume.instant.set(true);
    doors.io.block_on(async {
        let mut client = doors.initiator(1).await;
        begin(&mut client, &long_cdb(0x8f, 0, u32::MAX), &[]).await;
        manage(&client, ABORT_TASK).await;
        assert_eq!(managed(&mut client).await, 0);
    });
    doors.end();
}

#[test]
fn a_compare_and_write_that_is_aborted_as_it_compares_writes_nothing() {
    let doors = Doors::new();
    doors.io.block_on(async {
        let mut cdb = [0; 16];
        (cdb[0], cdb[13]) = (0x89, 128);
        for ends in [true, false] {
            let mut client = doors.initiator(1).await;
            begin(&mut client, &cdb, &[0; 2 * 65536]).await;
            doors.rest(2).await;
            if ends {
                client.io.close(client.socket);
            } else {
                manage(&client, ABORT_TASK).await;
                assert_eq!(managed(&mut client).await, 0);
                client.io.close(client.socket);
            }
            doors.rest(100).await;
            assert_eq!((doors.volume.exchanged.get(), doors.volume.moved.take()), (0, 65536), "it compared");
        }
    });
    doors.end();
}

#[test]
fn a_command_that_waits_until_it_is_due_ends_and_has_used_up_little() {
    let doors = Doors::new();
    doors.io.block_on(async {
        let mut client = doors.initiator(1).await;
        doors.gate.set_rates(&doors.io, limit(1));
        let mut read = cdb(&[0x28, 0], 0, &[0, 0x40, 0]);
        for function in [ABORT_TASK, ABORT_TASK_SET] {
            let mut header = Header::new(request::COMMAND, LONG).byte(1, FINAL | 0x40);
            header.0[32..48].copy_from_slice(&read);
            client.send(header.with(20, 8 << 20).with(24, client.next), &[]).await;
            client.next += 1;
            doors.rest(500).await;
            manage(&client, function).await;
            let (took, answer) = doors.seconds(managed(&mut client)).await;
            assert!(answer == 0 && took < 1.0, "{took} s");
        }
        // 4 MiB of two commands that would have had 16 were charged at most.
        read[7] = 0;
        read[8] = 1;
        let (took, _) = doors.seconds(client.command(&read, &[], 512)).await;
        assert!(took < 4.1, "{took} s");
        // A server that stops answers what waits.
        let mut header = Header::new(request::COMMAND, LONG).byte(1, FINAL | 0x40);
        (read[7], read[8]) = (0x40, 0);
        header.0[32..48].copy_from_slice(&read);
        client.send(header.with(20, 8 << 20).with(24, client.next), &[]).await;
        doors.rest(100).await;
        let (took, ()) = doors.seconds(doors.iscsi.remove_target(TARGET)).await;
        assert!(took < 1.5, "{took} s");
    });
    doors.end();
}

#[test]
fn limits_charge_what_is_sent_to_members_or_read_from_them() {
    let doors = Doors::new();
    doors.io.block_on(async {
        let mut client = doors.initiator(1).await;
        doors.gate.set_rates(&doors.io, limit(4));
        // A request of no bytes that waits for all before it.
        let (copy, segments) = copy(2048);
        let pattern = vec![5; 512];
        let commands: [(&str, [u8; 16], Vec<u8>, f64); 7] = [
            ("WRITE SAME", long_cdb(0x93, 0, 32768), pattern.clone(), 16.0),
            ("zeroes that are sent", long_cdb(0x93, 1, 32768), Vec::new(), 16.0),
            ("VERIFY", long_cdb(0x8f, 0, 32768), Vec::new(), 16.0),
            ("VERIFY of one block", long_cdb(0x8f, 6, 32768), vec![0; 512], 16.0),
            ("OR WRITE", long_cdb(0x8b, 0, 8192), vec![1; 4 << 20], 8.0),
            ("WRITE AND VERIFY", long_cdb(0x8e, 0, 8192), vec![0; 4 << 20], 8.0),
            ("EXTENDED COPY", copy, segments, 16.0),
        ];
        for (name, cdb, out, mib) in commands {
            doors.gate.set_rates(&doors.io, limit(4));
            let (took, came) = doors.seconds(client.command(&cdb, &out, 0)).await;
            assert_eq!(came.status, 0, "{name}: {came:?}");
            // The last piece is paid for by who comes after it.
            let due = (mib - 1.0) / 4.0;
            assert!((due..due + 1.0).contains(&took), "{name}: {took} s");
        }
        // Zeroes and holes that devices make are a request each.
        doors.volume.makes_zeroes.set(true);
        doors.gate.set_rates(&doors.io, limit(1));
        let (took, came) = doors.seconds(client.command(&long_cdb(0x93, 1, 30720), &[], 0)).await;
        assert!(came.status == 0 && took < 0.1, "{took} s: {came:?}");
        let (unmap, ranges) = unmap();
        let requests = NonZeroU64::new(100);
        doors.gate.set_rates(&doors.io, Rates { requests, bytes: None, burst: Duration::ZERO });
        let (took, came) = doors.seconds(client.command(&unmap, &ranges, 0)).await;
        assert!(came.status == 0 && (2.5..6.0).contains(&took), "{took} s: {came:?}");
        client.io.close(client.socket);
    });
    doors.end();
}

#[test]
fn zeroes_of_nbd_clients_are_charged_as_they_are_sent_and_end_with_the_server() {
    let doors = Doors::new();
    doors.io.block_on(async {
        let remote = doors.remote().await;
        let zeroes = ZeroOptions::default();
        doors.gate.set_rates(&doors.io, limit(4));
        let (took, done) = doors.seconds(remote.write_zeroes(0, 16 * MIB, zeroes)).await;
        assert!(done.is_ok() && (3.7..4.5).contains(&took), "{took} s");
        let (took, done) = doors.seconds(remote.write_zeroes(65536, 4 * MIB, zeroes)).await;
        assert!(done.is_ok() && (0.9..1.5).contains(&took), "{took} s");
        doors.volume.makes_zeroes.set(true);
        doors.gate.set_rates(&doors.io, limit(1));
        let (took, done) = doors.seconds(remote.write_zeroes(0, 2 << 30, zeroes)).await;
        assert!(done.is_ok() && took < 1.5, "{took} s: but for its last part row they make them");
        let (took, done) = doors.seconds(remote.discard(0, 2 << 30)).await;
        assert!(done.is_ok() && took < 1.5, "{took} s");
        // Without limits, what takes long ends with the export.
        doors.volume.makes_zeroes.set(false);
        doors.gate.set_rates(&doors.io, Rates::default());
        for paced in [false, true] {
            let remote = doors.remote().await;
            if paced {
                doors.gate.set_rates(&doors.io, limit(1));
            }
            let zeroing = doors.io.spawn(async move { remote.write_zeroes(0, 4 << 30, zeroes).await });
            doors.rest(500).await;
            let (took, ()) = doors.seconds(doors.nbd.dismiss("disk")).await;
            assert!(took < 1.5, "{took} s");
            assert!(zeroing.await.is_err());
        }
    });
    // One that is gone without a word is not served on.
    doors.gate.set_rates(&doors.io, limit(1));
    doors.io.block_on(async {
        let remote = Rc::new(doors.remote().await);
        let client = Rc::clone(&remote);
        let zeroing =
            doors.io.spawn(async move { client.write_zeroes(0, 1 << 30, ZeroOptions::default()).await });
        doors.rest(500).await;
        remote.close();
        assert!(zeroing.await.is_err());
        doors.rest(100).await;
        assert_eq!(doors.nbd.connection_stats().len(), 0);
    });
    assert!(doors.volume.longest.get() <= 512 * MIB, "all of it goes piece by piece");
    doors.end();
}

#[test]
fn a_reset_with_anything_behind_it_ends_its_session_alone() {
    for behind in [ABORT_TASK, RESET_UNIT, RESET_WARM, RESET_COLD] {
        let doors = Doors::new();
        doors.io.block_on(async {
            let remote = doors.remote().await;
            let mut client = doors.initiator(1).await;
            begin(&mut client, &long_cdb(0x8f, 0, u32::MAX), &[]).await;
            let reset = |function| {
                let header = Header::new(request::TASK, 99).byte(0, request::TASK | 0x40);
                header.byte(1, FINAL | function).with(20, u32::MAX).with(24, client.next)
            };
            let ping = Header::new(request::NOP, 78).byte(0, request::NOP | 0x40).byte(1, FINAL);
            let ping = ping.with(20, u32::MAX).with(24, client.next);
            let all = [reset(RESET_COLD).0, reset(behind).0, ping.0, reset(behind).0].concat();
            client.raw(&all).await;
            doors.rest(1000).await;
            let memory = doors.pool.alloc(512).await;
            assert_eq!(remote.read(0, memory.slice(0..512)).await, Ok(()));
            while client.receive().await.is_some() {}
            assert_eq!(doors.iscsi.connection_stats().len(), 0);
            client.io.close(client.socket);
        });
        doors.end();
    }
}
