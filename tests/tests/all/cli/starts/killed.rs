//! Servers that are killed, and those that come after them.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use brindle_export::nbd::client::Client as NbdClient;

use super::*;

const KILL: Option<Signal> = Some(Signal::KILL);
const TERM: Option<Signal> = Some(Signal::TERM);

/// Writes one block without end, all the same, while the server is killed.
fn killed_under_writes(scene: &mut Scene, server: Server, export: &str) {
    let socket = scene.runtime().join(format!("{}.nbd", server.name()));
    let (ends, writes) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = NbdClient::connect(UnixStream::connect(&socket).unwrap(), export).unwrap();
            while !ends.load(Relaxed) && client.write(0, &[7; BLOCK]).is_ok() {
                writes.fetch_add(1, Relaxed);
            }
        });
        until("a write is done", || writes.load(Relaxed) > 0);
        scene.ends(server, KILL);
        ends.store(true, Relaxed);
    });
}

#[test]
fn servers_begin_behind_those_that_were_killed_as_they_did() {
    let mut group = Group::new("killed");
    group.scene("before anything was written", "a b tank", |scene| {
        let server = scene.serves("serve @a @b @tank", 3);
        scene.ends(server, KILL);
        let server = scene.serves("serve @a @b @tank", 3);
        scene.ends(server, TERM);
    });
    group.scene("a mirror is resynced", "b", |scene| {
        in_doubt(scene, "b", "b");
        let mut server = scene.begins("serve @b", 1);
        scene.says(&mut server, "resync-ended");
        scene.ends(server, TERM);
    });
    group.scene("redundancy is resynced", "a", |scene| {
        in_doubt(scene, "a", "a");
        let mut server = scene.begins("serve @a", 1);
        scene.says(&mut server, "resync-ended");
        scene.ends(server, TERM);
    });
    group.scene("an array in doubt is exposed without a member", "a", |scene| {
        in_doubt(scene, "a", "a");
        scene.refused("serve @a0 @a2");
        let server = scene.serves("serve --read-only @a", 1);
        scene.ends(server, TERM);
    });
    group.scene("a pool goes on with its log", "tank", |scene| {
        scene.is_vague = true;
        let server = scene.serves("serve @tank", 1);
        killed_under_writes(scene, server, "tank/one");
        let server = scene.serves("serve @tank", 1);
        scene.ends(server, TERM);
    });
    group.scene("a daemon", "a b", |scene| {
        scene.settings("settings", "");
        let server = scene.serves("daemon --config %settings", 2);
        scene.ends(server, KILL);
        let server = scene.serves("daemon --takeover --config %settings", 2);
        scene.ends(server, TERM);
    });
    group.hold();
}

/// An array whose server was killed under writes. A busy machine may leave a pause between two writes that is long enough for the array
/// to be marked clean, hence more than one try.
fn in_doubt(scene: &mut Scene, set: &str, export: &str) {
    for _ in 0..10 {
        let steps = scene.steps.len();
        let server = scene.serves(&format!("serve @{set}"), 1);
        killed_under_writes(scene, server, export);
        let member = std::fs::read(scene.disk(&format!("{set}0"))).unwrap();
        if record(&member).is_some_and(|record| record.starts_with("in sync to")) {
            return;
        }
        scene.steps.truncate(steps);
    }
    panic!("ten servers were killed under writes, and all arrays are clean");
}
