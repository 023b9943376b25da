//! Servers that serve what their command line names.

use super::*;

const TERM: Option<Signal> = Some(Signal::TERM);

#[test]
fn serve_begins_as_it_did() {
    let mut group = Group::new("serve");
    let mut all = |title: &str, sets: &str, command: &str, count: usize| {
        group.scene(title, sets, |scene| {
            let server = scene.serves(command, count);
            scene.ends(server, TERM);
        });
    };
    all("one array", "a", "serve @a", 1);
    all("one array, read-only", "a", "serve --read-only @a", 1);
    all("one array under another name", "a", "serve --name x @a", 1);
    all("two arrays, their members in no order", "a b", "serve @b1 @a2 @b0 @a0 @a1", 2);
    all("three arrays and a pool", "a b c tank", "serve --name all @tank @c @a @b", 4);
    all("an array with a pool", "a tank", "serve @a @tank", 2);
    all("a pool alone", "tank", "serve @tank", 1);
    all("a pool alone, read-only", "tank", "serve --read-only @tank", 1);
    all("an array with a member missing", "a", "serve @a0 @a2", 1);
    all("a pool with a member missing, read-only", "tank", "serve --read-only @tank0", 1);

    group.scene("an array is stopped, and started again", "a", |scene| {
        for _ in 0..2 {
            let server = scene.serves("serve @a", 1);
            scene.runs("stop --json a");
            scene.ends(server, None);
        }
    });
    group.scene("a pool with a member missing, which comes late", "tank", |scene| {
        scene.refused("serve @tank1");
        scene.is_vague = true;
        let server = scene.serves("serve --degraded @tank1", 1);
        scene.ends(server, TERM);
        let server = scene.serves("serve @tank", 1);
        scene.ends(server, TERM);
    });
    group.scene("an array in doubt and with a member missing", "a", |scene| {
        for disk in ["a0", "a1"] {
            limits::patch(&scene.disk(disk), |sb| sb.resync_offset = Some(0));
        }
        scene.prepared();
        scene.refused("serve @a0 @a1");
        let server = scene.serves("serve --force @a0 @a1", 1);
        scene.ends(server, TERM);
    });
    group.scene("an array in the background", "a", |scene| {
        scene.runs("serve --background --json @a");
        scene.runs("stop --json a");
    });
    group.hold();
}
