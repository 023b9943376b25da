//! Rights to each disk: what others see of it, and do to it.

use std::rc::Rc;

use crate::support::initiator::{self, Client, SECRET, World, cdb, prove_for};
use crate::support::{go, small};
use brindle_export::Gate;
use brindle_export::access::AccessList;
use brindle_export::iscsi::TargetSpec;
use brindle_export::iscsi::login::{Chap, Credentials};
use brindle_export::iscsi::pdu::{FINAL, Header, request};
use brindle_export::nbd::proto::{info_code, option_code as code};
use brindle_export::scsi::Identity;
use brindle_export::scsi::reservation::Reservations;
use brindle_testkit::ram::RamVolume;

fn list(rules: &[&str]) -> Gate {
    let rules = rules.iter().map(|rule| rule.parse().expect("a rule"));
    Gate::default().for_those(Some(AccessList(rules.collect())))
}

fn identity(number: u8, name: &str) -> Identity {
    Identity { uuid: [number; 16], product: "t".into(), target: name.into() }
}

/// The usual target, which `one` may write to and `two` may read, and two that are for one of them each.
fn world() -> World {
    let secret = |name: &str| Credentials { name: name.into(), secret: SECRET.as_bytes().to_vec() };
    let chap = Chap::new(vec![secret("one"), secret("two")], None).expect("good secrets");
    let both = list(&["cert:two write", "chap:one write", "chap:two read"]);
    let world = World::guarded(Some(chap), 16, both);
    for (number, name, rule) in [(2, "iqn.x:one", "chap:one write"), (3, "iqn.x:two", "chap:two write")] {
        world.server.add_target(TargetSpec {
            identity: identity(number, name),
            volume: RamVolume::new(&world.io, 4 << 20),
            reservations: Reservations::default(),
            keep: None,
            gate: Rc::new(list(&[rule])),
        });
    }
    world
}

/// Logs in as `name`, whatever the initiator is called; tells the class of the last answer.
async fn log_in(client: &mut Client, target: &str, name: &str) -> u8 {
    let target =
        if target.is_empty() { "SessionType=Discovery".into() } else { format!("TargetName={target}") };
    let introduction = format!("InitiatorName=iqn.x:{name}\0{target}\0");
    prove_for(client, &introduction, name, SECRET.as_bytes(), Some("")).await.0
}

async fn client(world: &World, number: u8, target: &str, name: &str) -> Client {
    let mut client = world.connect(number);
    assert_eq!(log_in(&mut client, target, name).await, 0, "{name} with {target}");
    assert_eq!(client.command(&[0; 16], &[], 0).await.sense[12], 0x29, "POWER ON");
    client
}

#[test]
fn discovery_tells_what_the_asker_may_use_and_nothing_else_is_found() {
    let world = world();
    world.io.block_on(async {
        for (number, name, other) in [(1, "one", "two"), (2, "two", "one")] {
            let mut asker = world.connect(number);
            assert_eq!(log_in(&mut asker, "", name).await, 0);
            let ask = Header::new(request::TEXT, 5).byte(1, FINAL).with(20, u32::MAX).with(24, 1);
            asker.send(ask, b"SendTargets=All\0").await;
            let (_, reported) = asker.receive().await.expect("an answer");
            let reported = String::from_utf8(reported).expect("text");
            let names: Vec<&str> =
                reported.split('\0').filter_map(|pair| pair.strip_prefix("TargetName=")).collect();
            assert_eq!(names, [initiator::TARGET, &format!("iqn.x:{name}")]);
            assert_eq!(log_in(&mut world.connect(number), &format!("iqn.x:{other}"), name).await, 2);
        }
        assert_eq!(world.server.refused(), 2);
    });
    world.end();
}

#[test]
fn one_that_may_only_read_changes_nothing_and_keeps_nobody_out() {
    let world = world();
    world.io.block_on(async {
        let mut one = client(&world, 1, initiator::TARGET, "one").await;
        let mut two = client(&world, 2, initiator::TARGET, "two").await;
        assert_eq!(one.write(0, &[7; 4096]).await.status, 0);
        assert_eq!(two.read(0, 4096).await.data, [7; 4096]);
        let protected = |came: initiator::Came| {
            assert_eq!((came.status, came.sense[2] & 15, came.sense[12]), (2, 7, 0x27), "{came:?}");
        };
        protected(two.write(0, &[9; 512]).await);
        protected(two.reserve(0, 0, 0, 7, false).await);
        protected(two.command(&cdb(&[0x16], 0, &[]), &[], 0).await);
        protected(two.command(&cdb(&[0x41, 0], 0, &[0, 0, 1]), &[0; 512], 0).await);
        protected(two.command(&cdb(&[0x42, 0], 0, &[0, 0, 24]), &[0; 24], 0).await);
        protected(two.command(&cdb(&[0x89, 0, 0, 0, 0, 0], 0, &[0, 0, 0, 1]), &[0; 1024], 0).await);
        // MODE SENSE says so too.
        assert_eq!(two.command(&cdb(&[0x1a, 8, 8, 0, 64], 0, &[]), &[], 64).await.data[2] >> 7, 1);
        assert_eq!(one.command(&cdb(&[0x1a, 8, 8, 0, 64], 0, &[]), &[], 64).await.data[2] >> 7, 0);
        assert_eq!(one.write(0, &[8; 512]).await.status, 0);
    });
    world.end();
}

/// A copy of the first 8 blocks of a unit to another, each named by the number in its identity.
fn copy_list(from: u8, to: u8) -> Vec<u8> {
    let name = |number: u8| {
        let naa = identity(number, "").naa();
        [&[0xe4, 0, 0, 0, 1, 3, 0, 16][..], &naa, &[0, 0, 0, 0, 0, 0, 2, 0]].concat()
    };
    let segment = [&[2, 0, 0, 24, 0, 0, 0, 1, 0, 0, 0, 8][..], &[0; 16]].concat();
    let mut list = vec![0; 16];
    (list[3], list[11]) = (64, 28);
    [list, name(from), name(to), segment].concat()
}

async fn copy(client: &mut Client, from: u8, to: u8) -> initiator::Came {
    let list = copy_list(from, to);
    let mut command = cdb(&[0x83], 0, &[]);
    command[13] = list.len() as u8;
    client.command(&command, &list, 0).await
}

#[test]
fn a_copy_reads_and_writes_only_where_its_initiator_may() {
    let world = world();
    world.volume.set_content(0, &[7; 4096]);
    world.io.block_on(async {
        let mut one = client(&world, 1, initiator::TARGET, "one").await;
        let mut own = client(&world, 2, "iqn.x:two", "two").await;
        assert_eq!(copy(&mut one, 1, 2).await.status, 0);
        let came = copy(&mut one, 1, 3).await;
        assert_eq!((came.status, came.sense[2] & 15), (2, 10), "COPY ABORTED: {came:?}");
        // To what it may read, and from what it may write to.
        assert_eq!(copy(&mut own, 1, 3).await.status, 0);
        assert_eq!(own.read(0, 4096).await.data, [7; 4096]);
        assert_eq!(own.write(0, &[9; 4096]).await.status, 0);
        assert_eq!(copy(&mut own, 3, 1).await.status, 2);
        assert_eq!(world.volume.content(0, 4096), [7; 4096]);
        // Reservations of the other unit count as well.
        assert_eq!(one.command(&cdb(&[0x16], 0, &[]), &[], 0).await.status, 0, "RESERVE (6)");
        assert_eq!(copy(&mut own, 1, 3).await.status, 2);
    });
    world.end();
}

#[test]
fn a_copy_may_be_told_in_bytes_of_whole_blocks() {
    let world = world();
    world.volume.set_content(0, &[7; 4096]);
    world.io.block_on(async {
        let mut one = client(&world, 1, initiator::TARGET, "one").await;
        let segment = |bytes: u32, within: u16| {
            let head = [&[0x0a, 0, 0, 28, 0, 0, 0, 1][..], &bytes.to_be_bytes(), &[0; 8]].concat();
            [&head[..], &8_u64.to_be_bytes(), &within.to_be_bytes(), &[0, 0]].concat()
        };
        let mut copied = async |bytes, within| {
            let mut list = copy_list(1, 1);
            list.truncate(16 + 64);
            list.extend(segment(bytes, within));
            list[11] = 32;
            let mut command = cdb(&[0x83], 0, &[]);
            command[13] = list.len() as u8;
            one.command(&command, &list, 0).await.status
        };
        assert_eq!((copied(1000, 0).await, copied(1024, 4).await, copied(33 << 20, 0).await), (2, 2, 2));
        assert_eq!(world.volume.content(4096, 4096), [0; 4096], "nothing is copied");
        assert_eq!(copied(1024, 0).await, 0);
        assert_eq!(world.volume.content(4096, 1024), [7; 1024]);
        assert_eq!(world.volume.content(5120, 512), [0; 512]);
    });
    world.end();
}

#[test]
fn an_nbd_client_sees_no_export_that_it_may_not_use() {
    let world = crate::support::World::new(small(), 1 << 20);
    let add = |name: &str, gate: Gate| {
        let volume = RamVolume::new(&world.io, 1 << 20);
        world.server.add_guarded(name, "", volume, Rc::new(gate)).expect("a fresh name");
    };
    add("seen", list(&["local read"]));
    add("hidden", list(&["10.0.0.0/8 write"]));
    world.io.block_on(async {
        let mut client = world.connect();
        client.greet().await;
        assert_eq!(client.option(code::LIST, b"").await.len(), 3);
        let replies = client.option(code::GO, &go(b"hidden", &[info_code::BLOCK_SIZE])).await;
        assert_eq!(replies.last().expect("a reply").0, 1 << 31 | 6, "unknown");
        assert!(!String::from_utf8_lossy(&replies[0].1).contains("hidden"));
        assert_eq!(world.server.refused(), 1);
        let replies = client.option(code::GO, &go(b"seen", &[])).await;
        // has-flags, read-only, flush and multi-conn.
        assert_eq!(replies[0].1[10..], [1, 7]);
        client.close();
        world.settle(0).await;
    });
    world.end();
}
