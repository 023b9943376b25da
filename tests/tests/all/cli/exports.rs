//! Doors of clients, changed while a server runs: `export`, `unexport`, `disconnect`, and rates.

use std::process::Command;
use std::time::{Duration, Instant};

use brindle_tests::nbd::Client;
use brindle_tests::tools::{self, or_skip};

use super::*;

#[test]
fn an_array_is_offered_no_more_and_again() {
    let set = Set::raid5(3);
    let Some(nbdinfo) = or_skip(tools::find("nbdinfo")) else { return };
    let state = set.path("state");
    let server = set.serve(&format!("--name a --iscsi 127.0.0.1:0 --iscsi-state {}", state.display()));
    let reached = |uri: &str| Command::new(&nbdinfo).args(["--size", uri]).output().unwrap().status.success();
    let _client = Client::connect(&server.uri());
    assert_eq!(server.status()["clients"].as_array().map(Vec::len), Some(1));
    assert_eq!(server.status()["clients"][0]["address"], "local");
    server.ask("unexport", &[]).ok();
    let status = server.status();
    assert!(status["exported"] == false && status["clients"] == Value::Array(vec![]), "{status}");
    assert!(!reached(&server.uri()));
    let text = server.ask("status", &[]).ok();
    assert!(text.text().contains("offered to no client"), "{}", text.text());
    server.ask("export", &[]).ok();
    assert!(reached(&server.uri()));
    assert_eq!(server.status()["exported"], true);
    server.stop();
}

#[test]
fn clients_are_disconnected_by_name_or_all() {
    let set = Set::raid5(3);
    let server = set.serve("--name a");
    let ended = |args: &[&str]| server.ask("disconnect", args).json()["disconnected"].as_u64();
    let _one = Client::connect(&server.uri());
    assert_eq!(ended(&["10.0.0.1", "--json"]), Some(0));
    assert_eq!(ended(&["local", "--json"]), Some(1));
    let _two = [Client::connect(&server.uri()), Client::connect(&server.uri())];
    assert_eq!(ended(&["--json"]), Some(2));
    server.stop();
}

#[test]
fn clients_are_granted_so_much() {
    let set = Set::raid5(3);
    let server = set.serve("--name a --max-iops 100 --burst 1ms");
    assert_eq!(server.status()["limits"]["iops"], 100);
    let mut client = Client::connect(&server.uri());
    let begun = Instant::now();
    (0..31).for_each(|at| drop(client.read(at * 4096, 4096)));
    // Slower machines take longer, none takes less.
    assert!(begun.elapsed() >= Duration::from_millis(290), "{:?}", begun.elapsed());
    server.ask("export", &["--max-iops", "0", "--max-bandwidth", "1M"]).ok();
    let limits = server.status()["limits"].clone();
    assert!(limits["iops"].is_null() && limits["bandwidth"] == 1 << 20 && limits["burst"] == 100, "{limits}");
    server.ask("export", &["--max-bandwidth", "0"]).ok();
    assert!(server.status()["limits"].is_null());
    client.read(0, 4096);
    client.close();
    server.stop();
}
