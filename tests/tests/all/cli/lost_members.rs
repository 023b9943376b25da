//! Members that are taken away under a server: deleted, replaced, made shorter.

use brindle_tests::nbd::{Change, Client, Work};
use rustix::process::Signal;

use super::*;

/// Reads the server's events up to one of that kind.
pub(super) fn event(server: &mut Server, kind: &str) -> Value {
    loop {
        let event = server.next_event();
        if event["kind"] == kind {
            return event;
        }
    }
}

#[test]
fn a_file_that_is_deleted_or_replaced_goes_on_and_is_reported() {
    let set = Set::raid5(3);
    let mut server = set.serve("");
    std::fs::remove_file(&set.members[1]).unwrap();
    let deleted = event(&mut server, "deleted");
    assert_eq!(
        (&deleted["role"], &deleted["member"]),
        (&1.into(), &name(&set.members[1]).into()),
        "{deleted}"
    );
    let other = set.path("other");
    files::sparse(&other, 4 * MIB);
    std::fs::rename(&other, &set.members[2]).unwrap();
    assert_eq!(event(&mut server, "replaced")["role"], 2);
    let status = server.status();
    assert_eq!(state(&status["array"]), ["clean"], "{status}");
    let kinds: Vec<&str> =
        status["events"].as_array().unwrap().iter().filter_map(|e| e["kind"].as_str()).collect();
    assert_eq!(kinds, ["deleted", "replaced"], "once each: {status}");
    let (code, err) = server.signal(Signal::TERM);
    assert!(code == 0 && err.contains("was deleted") && err.contains("was replaced"), "{err}");
}

#[test]
fn a_file_that_is_made_shorter_is_a_member_that_failed() {
    let set = Set::sparse(3, 24 * MIB);
    set.create("-l 5 -c 64K -N a").ok();
    let mut server = set.serve("");
    let mut client = Client::connect(&server.uri());
    let piece = |at: u64| vec![at as u8 + 1; MIB as usize];
    let writes: Vec<Change> = (0..32)
        .map(|at| Change { offset: at * MIB, len: MIB, work: Work::Write { data: piece(at), fua: false } })
        .collect();
    client.all_at_once(&writes);
    std::fs::File::options().write(true).open(&set.members[1]).unwrap().set_len(0).unwrap();
    for at in (20..24).chain(0..16) {
        assert!(client.read(at * MIB, MIB) == piece(at), "the mebibyte {at} is what was written");
    }
    let failed = event(&mut server, "member-failed");
    assert_eq!((&failed["role"], &failed["member"]), (&1.into(), &name(&set.members[1]).into()), "{failed}");
    assert_eq!(server.status()["array"]["missing"], serde_json::json!([1]));
    client.close();
    let (code, err) = server.signal(Signal::TERM);
    assert!(code == 0 && err.contains("has failed"), "{err}");
    assert_eq!(set.members[1].metadata().unwrap().len(), 0, "nothing makes it long again");
    let detail = run("detail --json", &[set.members[0].clone(), set.members[2].clone()]).json();
    assert_eq!(state(&detail), ["clean", "degraded"], "{detail}");
}

/// Writes that reach the end of such a file would make it long again, with a hole where its content was.
#[test]
fn a_file_that_is_made_shorter_under_writes_is_a_member_that_failed() {
    let set = Set::sparse(3, 8 * MIB);
    set.create("-l 5 -c 64K -N a").ok();
    let mut server = set.serve("");
    let mut client = Client::connect(&server.uri());
    let size = client.size() / MIB;
    let write = |from: u64, to: u64, byte: u8| -> Vec<Change> {
        let work = || Work::Write { data: vec![byte; MIB as usize], fua: false };
        (from..to).map(|at| Change { offset: at * MIB, len: MIB, work: work() }).collect()
    };
    client.all_at_once(&write(0, size, 7));
    std::fs::File::options().write(true).open(&set.members[1]).unwrap().set_len(0).unwrap();
    client.all_at_once(&write(size - 4, size, 9));
    for at in 0..size {
        let byte = if at < size - 4 { 7 } else { 9 };
        assert!(client.read(at * MIB, MIB) == [byte; MIB as usize], "the mebibyte {at} is what was written");
    }
    assert_eq!(event(&mut server, "member-failed")["role"], 1);
    assert_eq!(set.members[1].metadata().unwrap().len(), 0, "nothing makes it long again");
    client.close();
    let (code, err) = server.signal(Signal::TERM);
    assert!(code == 0 && err.contains("has failed"), "{err}");
}
