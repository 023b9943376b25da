//! Members that live on a file system that becomes full.

use std::os::unix::net::UnixStream;

use brindle_export::nbd::client::{Client, ClientError};

use brindle_tests::tools::or_skip;
use rustix::process::Signal;

use super::members_in_use::{Mount, fill_up};
use super::*;

const PIECE: u64 = 256 << 10;
const ENOSPC: u32 = 28;

/// Writes piece after piece until one finds no room; gives how many were taken.
fn write_until_full(client: &mut Client<UnixStream>) -> u64 {
    for piece in 0.. {
        if let Err(error) = client.write(piece * PIECE, &content(piece)) {
            assert!(matches!(error, ClientError::Failed(ENOSPC)), "{error}");
            return piece;
        }
    }
    unreachable!("the file system is smaller than its files")
}

fn content(piece: u64) -> Vec<u8> {
    (0..PIECE).map(|at| (piece * 37 + at / 509 + at) as u8).collect()
}

fn all_there(client: &mut Client<UnixStream>, pieces: u64) {
    for piece in 0..pieces {
        let mut bytes = vec![0; PIECE as usize];
        client.read(piece * PIECE, &mut bytes).unwrap();
        assert!(bytes == content(piece), "piece {piece} of {pieces}");
    }
}

pub(super) fn connect(server: &Server) -> Client<UnixStream> {
    let uri = server.uri();
    let path = uri.split_once("?socket=").unwrap().1;
    Client::connect(UnixStream::connect(path).unwrap(), "").unwrap()
}

#[test]
fn a_full_file_system_fails_no_member_and_loses_nothing() {
    for flags in ["-l 5 -c 64K", "-l 1"] {
        let mut set = Set::sparse(0, 0);
        let Some(mount) = or_skip(Mount::new(&set, &["-t", "tmpfs", "-o", "size=40m", "none"])) else {
            return;
        };
        set.members = files::members(&mount.0, "m", 3, 32 * MIB);
        set.create(&format!("{flags} --assume-clean -N a")).ok();
        let filler = mount.0.join("filler");
        files::write_pattern(&filler, 16 * MIB, 1);
        let server = set.serve("");
        let mut client = connect(&server);
        let taken = write_until_full(&mut client);
        assert!(taken > 4, "{flags}: {taken}");
        all_there(&mut client, taken);
        let status = server.status();
        for device in status["array"]["devices"].as_array().unwrap() {
            assert_eq!(device["state"], "in-sync", "{status}");
        }
        assert!(!state(&status["array"]).contains(&"degraded"), "{status}");

        // There is room again: it goes on, and what was half written is brought in sync.
        std::fs::remove_file(&filler).unwrap();
        client.write(taken * PIECE, &content(taken)).unwrap();
        all_there(&mut client, taken + 1);
        server.wait_for_state("needs resync", false);
        drop(client);
        let (code, said) = server.signal(Signal::TERM);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("no space left") && !said.contains("failed"), "{said}");
        assert_eq!(state(&set.detail()), ["clean"], "{flags}");
        assert_eq!(set.run("check --json").json()["mismatch_cnt"], 0, "{flags}");
        drop(mount);
    }
}

#[test]
fn by_policy_a_member_without_space_is_failed() {
    let mut set = Set::sparse(2, 32 * MIB);
    let Some(mount) = or_skip(Mount::new(&set, &["-t", "tmpfs", "-o", "size=8m", "none"])) else { return };
    set.members.extend(files::members(&mount.0, "small", 1, 32 * MIB));
    set.create("-l 1 --assume-clean -N a").ok();
    fill_up(&mount.0.join("filler"));
    let server = set.serve("--on-full fail");
    let mut client = connect(&server);
    client.write(0, &content(0)).unwrap();
    let status = server.status();
    assert!(state(&status["array"]).contains(&"degraded"), "{status}");
    assert_eq!(status["array"]["missing"], serde_json::json!([2]));
    drop(client);
    let (code, said) = server.signal(Signal::TERM);
    assert!(code == 0 && said.contains("no space left"), "{said}");
    drop(mount);
}
