//! Places of an iSCSI server, in virtual time: logins that wait, and those who only ask for targets, keep nobody out.

use crate::support::initiator::{self, Client};
use crate::support::slow::Doors;
use brindle_export::Config;
use brindle_export::iscsi::DISCOVERY;
use brindle_export::iscsi::pdu::{FINAL, Header, request, response};
use brindle_io::Duration;

fn doors() -> Doors {
    let session = Config {
        memory: 32 << 20,
        connections: 8,
        requests: 16,
        handshake: Duration::from_secs(10),
        ..Config::default()
    };
    Doors::with(session)
}

/// A session that asks for targets.
async fn discover(doors: &Doors, name: u8) -> Client {
    let mut client = doors.stranger(name).await;
    let text = format!("InitiatorName=iqn.2026-11.example:{name}\0SessionType=Discovery\0");
    client.send(client.login_header(0x87), text.as_bytes()).await;
    assert_eq!(client.receive().await.expect("an answer").0.0[36], 0);
    client
}

fn visits(doors: &Doors) -> usize {
    let all = doors.iscsi.connection_stats();
    all.iter().filter(|one| one.export.as_deref() == Some(DISCOVERY)).count()
}

async fn targets(client: &mut Client) -> String {
    let header = Header::new(request::TEXT, 5).byte(0, request::TEXT | 0x40).byte(1, FINAL);
    client.send(header.with(20, u32::MAX).with(24, client.next), b"SendTargets=All\0").await;
    String::from_utf8(client.receive().await.expect("an answer").1).unwrap()
}

#[test]
fn those_who_ask_for_targets_keep_nobody_out() {
    let doors = doors();
    doors.io.block_on(async {
        let mut idle = Vec::new();
        for name in 1..=64 {
            idle.push(discover(&doors, name).await);
        }
        doors.rest(1).await;
        assert_eq!(visits(&doors), 16, "the latest are there");
        let mut good = Vec::new();
        for name in 0..7 {
            good.push(doors.initiator(100 + name).await);
        }
        // One that goes on asking stays; those that are silent for 30 s go.
        let mut asking = discover(&doors, 200).await;
        for _ in 0..4 {
            doors.rest(12_000).await;
            assert!(targets(&mut asking).await.contains(initiator::TARGET));
        }
        assert_eq!(visits(&doors), 1);
        assert!(idle.last_mut().unwrap().receive().await.is_none());
        // It can be disconnected, and nobody else is.
        assert_eq!(doors.iscsi.disconnect(DISCOVERY, |_, _| true), 1);
        assert!(asking.receive().await.is_none());
        doors.rest(1).await;
        assert_eq!(doors.iscsi.connection_stats().len(), 7);
        for client in &mut good {
            assert_eq!(client.read(0, 512).await.status, 0);
        }
    });
    doors.end();
}

/// A session of an initiator port, whose old one does not end: a member keeps its command for so long.
async fn stuck(doors: &Doors, name: u8) -> Client {
    let client = doors.initiator(name).await;
    let mut header = Header::new(request::COMMAND, 77).byte(1, FINAL);
    // SYNCHRONIZE CACHE, which nothing interrupts.
    header.0[32] = 0x35;
    doors.volume.hangs.set(true);
    client.send(header.with(24, client.next), &[]).await;
    doors.rest(100).await;
    client
}

#[test]
fn logins_that_wait_for_a_session_to_end_leave_when_their_clients_do() {
    let doors = doors();
    doors.io.block_on(async {
        let old = stuck(&doors, 1).await;
        for round in 0..3 {
            let mut waiting = Vec::new();
            for _ in 0..30 {
                let again = doors.stranger(1).await;
                again.send(again.login_header(0x87), again.introduction().as_bytes()).await;
                waiting.push(again);
            }
            doors.rest(100).await;
            // Others come in meanwhile.
            let mut other = doors.initiator(10 + round).await;
            assert_eq!(other.read(0, 512).await.status, 0);
            if round < 2 {
                waiting.iter().for_each(|client| client.io.close(client.socket));
                doors.rest(100).await;
            } else {
                // Those that are silent are closed, as others are that choose nothing.
                doors.rest(15_000).await;
            }
            other.io.close(other.socket);
            doors.rest(100).await;
            assert_eq!(doors.iscsi.connection_stats().len(), 1, "only the one whose command goes on");
            drop(waiting);
        }
        // One that waits long enough comes in, and goes on as any other.
        let mut again = doors.stranger(1).await;
        again.send(again.login_header(0x87), again.introduction().as_bytes()).await;
        doors.rest(1000).await;
        doors.volume.release();
        let (header, _) = again.receive().await.expect("it is let in");
        assert_eq!((header.opcode(), header.0[36]), (response::LOGIN, 0));
        assert_eq!(again.command(&[0; 16], &[], 0).await.status, 2, "NEXUS LOSS");
        assert_eq!(again.read(0, 512).await.status, 0);
        old.io.close(old.socket);
    });
    doors.end();
}

#[test]
fn a_client_that_talks_before_its_login_is_answered_waits_for_nothing() {
    let doors = doors();
    doors.io.block_on(async {
        let _old = stuck(&doors, 1).await;
        let mut again = doors.stranger(1).await;
        again.send(again.login_header(0x87), again.introduction().as_bytes()).await;
        doors.rest(10).await;
        again.raw(&[0; 48]).await;
        assert!(again.receive().await.is_none());
        doors.volume.release();
    });
    doors.end();
}

#[test]
fn those_that_wait_for_a_place_hold_up_nobody_and_end_with_the_server() {
    let doors = doors();
    doors.io.block_on(async {
        let mut all = Vec::new();
        for name in 1..=8 {
            all.push(doors.initiator(name).await);
        }
        // All have chosen: one more is sent away as soon as it says something, and one that is silent before long.
        let mut more = doors.stranger(20).await;
        more.send(more.login_header(0x87), more.introduction().as_bytes()).await;
        let (took, came) = doors.seconds(more.receive()).await;
        let (header, _) = came.expect("it is told");
        assert_eq!((header.opcode(), header.0[36..38].to_vec()), (response::LOGIN, vec![3, 2]));
        assert!(took < 0.1, "{took} s");
        let mut silent = doors.stranger(21).await;
        let (took, came) = doors.seconds(silent.receive()).await;
        assert!(came.is_none() && took < 3.0, "{took} s");
        // One whose command does not end leaves its place as soon as that does.
        doors.volume.hangs.set(true);
        let mut header = Header::new(request::COMMAND, 77).byte(1, FINAL);
        header.0[32] = 0x35;
        let last = all.pop().unwrap();
        last.send(header.with(24, last.next), &[]).await;
        doors.rest(10).await;
        last.io.close(last.socket);
        doors.volume.release();
        doors.rest(10).await;
        let mut next = doors.initiator(30).await;
        assert_eq!(next.read(0, 512).await.status, 0);
    });
    doors.end();
}
