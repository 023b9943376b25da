//! Names of initiators and what is registered under them: nobody has another's, and nobody ends what others do.

use std::cell::RefCell;
use std::rc::Rc;

use crate::support::initiator::{Client, SECRET, TARGET, World, cdb, verdict};
use brindle_export::Gate;
use brindle_export::access::AccessList;
use brindle_export::iscsi::login::{Chap, Credentials};
use brindle_export::iscsi::pdu::{FINAL, Header, request, response};
use brindle_export::iscsi::{Keep, TargetSpec};
use brindle_export::scsi::Identity;
use brindle_export::scsi::reservation::Reservations;
use brindle_testkit::ram::RamVolume;

const LATER: &str = "another secret of 20";
const FORBIDDEN: [u8; 2] = [2, 2];

fn chap(of: &[(&str, &str)]) -> Chap {
    let credentials = |(name, secret): &(&str, &str)| Credentials {
        name: (*name).into(),
        secret: secret.as_bytes().to_vec(),
    };
    Chap::new(of.iter().map(credentials).collect(), None).expect("good secrets")
}

fn world() -> World {
    let names = ["iqn.x:node1", "iqn.x:node2", "bob", "eve"].map(|name| (name, SECRET));
    World::new(Some(chap(&names)), 16)
}

/// Logs in as an initiator, with the name and secret of CHAP; tells class and detail.
async fn log_in(client: &mut Client, target: &str, initiator: &str, proof: (&str, &str)) -> [u8; 2] {
    let introduction = format!("InitiatorName={initiator}\0TargetName={target}\0");
    let (name, secret) = proof;
    let (header, _) = verdict(client, &introduction, name, secret.as_bytes(), Some("")).await;
    assert_eq!(header.opcode(), response::LOGIN);
    [header.0[36], header.0[37]]
}

async fn session(world: &World, number: u8, initiator: &str, name: &str) -> Client {
    let mut client = world.connect(number);
    assert_eq!(log_in(&mut client, TARGET, initiator, (name, SECRET)).await, [0, 0], "{name} as {initiator}");
    client.command(&[0; 16], &[], 0).await;
    client
}

async fn leave(world: &World, client: Client) {
    let left = world.server.connection_stats().len() - 1;
    world.io.close(client.socket);
    while world.server.connection_stats().len() > left {
        world.io.yield_now().await;
    }
}

#[test]
fn sessions_and_registrations_are_those_of_the_name_that_was_proved() {
    let world = world();
    let attempt = async |number, initiator, name| {
        log_in(&mut world.connect(number), TARGET, initiator, (name, SECRET)).await
    };
    world.io.block_on(async {
        let mut bob = session(&world, 1, "iqn.x:i", "bob").await;
        // From another port and from the same one.
        assert_eq!(attempt(2, "iqn.x:i", "eve").await, FORBIDDEN);
        assert_eq!(attempt(1, "iqn.x:i", "eve").await, FORBIDDEN);
        assert_eq!(bob.reserve(0, 0, 0, 7, true).await.status, 0);
        assert_eq!(bob.reserve(1, 1, 7, 0, false).await.status, 0, "WRITE EXCLUSIVE");
        let kept = world.kept.borrow().clone().expect("it is kept");
        assert!(kept.lines().filter(|line| line.ends_with(" chap:bob")).count() == 2, "{kept}");
        leave(&world, bob).await;
        // The session is gone, and what it has registered is not.
        assert_eq!(attempt(1, "iqn.x:i", "eve").await, FORBIDDEN);
        let mut eve = session(&world, 2, "iqn.x:e", "eve").await;
        assert_eq!(eve.write(0, &[9; 512]).await.status, 0x18, "RESERVATION CONFLICT");
        let mut bob = session(&world, 1, "iqn.x:i", "bob").await;
        assert_eq!(bob.write(0, &[1; 512]).await.status, 0);
        assert_eq!(bob.reserve(0, 0, 7, 0, true).await.status, 0, "it takes its registration back");
        leave(&world, bob).await;
        leave(&world, eve).await;
        let eve = session(&world, 1, "iqn.x:i", "eve").await;
        leave(&world, eve).await;
    });
    world.end();
}

#[test]
fn a_name_of_a_secret_that_is_one_of_an_initiator_is_that_initiators_alone() {
    let world = world();
    world.io.block_on(async {
        for (initiator, name, verdict) in [
            ("iqn.x:node1", "iqn.x:node2", FORBIDDEN),
            ("iqn.x:node1", "bob", FORBIDDEN),
            ("iqn.x:other", "iqn.x:node2", FORBIDDEN),
            ("iqn.x:node2", "iqn.x:node2", [0, 0]),
            ("iqn.x:other", "bob", [0, 0]),
        ] {
            let mut client = world.connect(1);
            assert_eq!(log_in(&mut client, TARGET, initiator, (name, SECRET)).await, verdict, "{name}");
        }
        // A wrong secret is no question of names.
        let mut client = world.connect(1);
        assert_eq!(log_in(&mut client, TARGET, "iqn.x:node1", ("iqn.x:node1", LATER)).await, [2, 1]);
        assert_eq!(world.server.refused(), 4);
    });
    world.end();
}

#[test]
fn registrations_of_files_without_names_belong_to_who_proves_one_first() {
    let world = world();
    let text = "brindle reservations 1\nreserved 1 1 iqn.x:i,i,0x800000000001\n\
                registered 0000000000000007 1 iqn.x:i,i,0x800000000001\nend\n";
    let kept = Rc::new(RefCell::new(String::new()));
    let keep: Keep = {
        let kept = Rc::clone(&kept);
        Rc::new(move |text| {
            *kept.borrow_mut() = text.unwrap_or_default();
            Box::pin(async { Ok(()) })
        })
    };
    world.server.add_target(TargetSpec {
        identity: Identity { uuid: [2; 16], product: "t".into(), target: "iqn.x:old".into() },
        volume: RamVolume::new(&world.io, 4 << 20),
        reservations: Reservations::from_file_text(text).expect("a file of before"),
        keep: Some(keep),
        gate: Rc::default(),
    });
    world.io.block_on(async {
        let mut eve = world.connect(1);
        assert_eq!(log_in(&mut eve, "iqn.x:old", "iqn.x:i", ("eve", SECRET)).await, [0, 0]);
        assert_eq!(kept.borrow().matches(" chap:eve\n").count(), 2, "{}", kept.borrow());
        eve.command(&[0; 16], &[], 0).await;
        assert_eq!(eve.write(0, &[1; 512]).await.status, 0, "it holds the reservation");
        leave(&world, eve).await;
        let attempt = log_in(&mut world.connect(1), "iqn.x:old", "iqn.x:i", ("bob", SECRET)).await;
        assert_eq!(attempt, FORBIDDEN);
    });
    world.end();
}

/// Asks for a function of task management; tells the response.
async fn manage(client: &mut Client, function: u8, task: u32) -> u8 {
    let header = Header::new(request::TASK, 900).byte(0, request::TASK | 0x40).byte(1, FINAL | function);
    client.send(header.with(20, task).with(24, client.next), &[]).await;
    let (came, _) = client.receive().await.expect("a response");
    assert_eq!((came.opcode(), came.task()), (response::TASK, 900));
    came.0[2]
}

#[test]
fn one_that_may_only_read_ends_nothing_of_others() {
    let rules = ["chap:bob write", "chap:eve read"].map(|rule| rule.parse().expect("a rule"));
    let gate = Gate::default().for_those(Some(AccessList(rules.to_vec())));
    let world = World::guarded(Some(chap(&[("bob", SECRET), ("eve", SECRET)])), 16, gate);
    world.io.block_on(async {
        let mut bob = session(&world, 1, "iqn.x:b", "bob").await;
        let mut eve = session(&world, 2, "iqn.x:e", "eve").await;
        // A command that waits for its data.
        let mut header = Header::new(request::COMMAND, 77).byte(1, FINAL | 0x20);
        header.0[32..48].copy_from_slice(&cdb(&[0x2a, 0], 0, &[0, 0, 8]));
        bob.send(header.with(20, 4096).with(24, bob.next), &[]).await;
        bob.next += 1;
        let (asked, _) = bob.receive().await.expect("R2T");
        for function in 3..=8 {
            assert_eq!(manage(&mut eve, function, u32::MAX).await, 6, "{function}: it is not authorized");
        }
        assert_eq!(manage(&mut eve, 1, 77).await, 1, "it has no such task");
        assert_eq!(manage(&mut eve, 2, u32::MAX).await, 0);
        assert_eq!(eve.read(0, 512).await.status, 0);
        bob.give(&asked, &[5; 4096]).await;
        let (came, _) = bob.receive().await.expect("a status");
        assert_eq!((came.opcode(), came.0[3]), (response::COMMAND, 0));
        assert_eq!(world.volume.content(0, 4096), [5; 4096]);
        assert_eq!(bob.write(0, &[6; 512]).await.status, 0, "nothing was reset");
        for function in [4, 5, 6] {
            assert_eq!(manage(&mut bob, function, u32::MAX).await, 0, "{function}");
        }
    });
    world.end();
}

#[test]
fn sessions_end_whose_secret_is_taken_back_or_another() {
    let world = world();
    world.io.block_on(async {
        let mut bob = session(&world, 1, "iqn.x:b", "bob").await;
        let mut eve = session(&world, 2, "iqn.x:e", "eve").await;
        let mut gone = session(&world, 3, "iqn.x:node1", "iqn.x:node1").await;
        // One has proved itself, and has not logged in yet.
        let mut half = world.connect(4);
        let text = "InitiatorName=iqn.x:h\0SessionType=Discovery\0AuthMethod=CHAP\0";
        half.send(half.login_header(0), text.as_bytes()).await;
        half.receive().await.expect("the method");
        assert_eq!(world.server.set_chap(chap(&[("bob", SECRET), ("eve", LATER)])), 2);
        assert_eq!(bob.write(0, &[1; 512]).await.status, 0, "its secret is the same");
        assert!(eve.receive().await.is_none() && gone.receive().await.is_none());
        for (name, secret, verdict) in [
            ("bob", SECRET, [0, 0]),
            ("eve", SECRET, [2, 1]),
            ("eve", LATER, [0, 0]),
            ("iqn.x:node1", SECRET, [2, 1]),
        ] {
            let mut client = world.connect(5);
            assert_eq!(log_in(&mut client, TARGET, &format!("iqn.x:{name}"), (name, secret)).await, verdict);
        }
    });
    world.end();
}

#[test]
fn a_proof_by_a_secret_that_is_taken_back_meanwhile_is_none() {
    let world = world();
    world.io.block_on(async {
        // It stays in the stage of security, and asks for the next one later.
        let mut eve = world.connect(1);
        eve.send(eve.login_header(0), b"InitiatorName=iqn.x:e\0SessionType=Discovery\0AuthMethod=CHAP\0")
            .await;
        eve.receive().await.expect("the method");
        eve.send(eve.login_header(0), b"CHAP_A=5\0").await;
        let (_, asked) = eve.receive().await.expect("a challenge");
        let asked = String::from_utf8(asked).expect("text");
        let value = |key: &str| asked.split('\0').find_map(|pair| pair.strip_prefix(key)).expect("a value");
        let hex = value("CHAP_C=0x");
        let challenge: Vec<u8> = (0..hex.len() / 2)
            .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("a byte"))
            .collect();
        let id = value("CHAP_I=").parse().expect("a number");
        let answer = brindle_export::iscsi::login::Hash::Md5.answer(id, SECRET.as_bytes(), &challenge);
        let answer: String = answer.iter().map(|byte| format!("{byte:02x}")).collect();
        eve.send(eve.login_header(0), format!("CHAP_N=eve\0CHAP_R=0x{answer}\0").as_bytes()).await;
        assert_eq!(eve.receive().await.expect("it is proved").0.0[36], 0);
        world.server.set_chap(chap(&[("bob", SECRET)]));
        eve.send(eve.login_header(0x83), b"").await;
        let (header, _) = eve.receive().await.expect("a verdict");
        assert_eq!(header.0[36..38], [2, 1]);
    });
    world.end();
}

#[test]
fn a_full_house_says_so_to_a_few_at_a_time() {
    let world = World::new(None, 16);
    world.io.block_on(async {
        let mut inside = Vec::new();
        for number in 1..=8 {
            inside.push(world.client(number).await);
        }
        let mut late = world.connect(9);
        assert_eq!(late.login(&[]).await.0[36..38], [3, 2], "out of resources");
        assert!(late.receive().await.is_none(), "and it is closed");
        // Those that say nothing take up the places for that, and not for ever.
        let silent: Vec<Client> = (0..4).map(|_| world.connect(9)).collect();
        let mut fifth = world.connect(9);
        assert!(fifth.receive().await.is_none(), "nothing is said to it");
        for mut client in silent {
            assert!(client.receive().await.is_none());
        }
        assert_eq!(world.connect(9).login(&[]).await.0[36..38], [3, 2]);
        for client in &mut inside {
            assert_eq!(client.read(0, 512).await.status, 0);
        }
        // One that is being told when the server stops is let go.
        world.connect(9);
    });
    world.end();
}

#[test]
fn a_login_that_has_begun_hears_that_the_server_ends() {
    let world = world();
    world.io.block_on(async {
        let (mut half, idle) = (world.connect(1), world.connect(2));
        half.send(half.login_header(0), b"InitiatorName=iqn.x:e\0SessionType=Discovery\0AuthMethod=CHAP\0")
            .await;
        half.receive().await.expect("the method");
        let stopped = world.io.spawn({
            let server = world.server.clone();
            async move { server.stop().await }
        });
        for _ in 0..8 {
            world.io.yield_now().await;
        }
        half.send(half.login_header(0), b"CHAP_A=5\0").await;
        assert_eq!(half.receive().await.expect("an answer").0.0[36..38], [3, 1]);
        stopped.await;
        drop(idle);
    });
    world.end();
}
