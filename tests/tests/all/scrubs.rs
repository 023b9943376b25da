//! Scrubs of pools as their users ask for them.

use brindle_tests::files::MIB;

use crate::pools::{Tank, bytes, flip, place, write};

#[test]
fn a_scrub_heals_what_has_rotted_and_names_what_it_can_not_heal() {
    let tank = Tank::new("mirror", 2);
    tank.stopped("volume create", "tank/one 2M").ok();
    let mut content = bytes(3, 2 * MIB);
    let server = tank.serve();
    write(&mut tank.client("one"), 0, &content);
    server.stop();
    let at = |member: usize, block: usize| place(&tank.members[member], &content[block * 4096..][..4096]);
    // One copy of blocks 16 to 31, and both of block 64.
    for block in 16..32 {
        flip(&tank.members[1], at(1, block));
    }
    let both = [at(0, 64), at(1, 64)];
    for (member, at) in tank.members.iter().zip(both) {
        flip(member, at);
    }

    let server = tank.serve();
    let text = tank.ask("pool scrub tank --wait").ended(4).text();
    assert!(text.contains("1 errors left, 1 blocks of volumes are lost"), "{text}");
    let status = tank.ask("pool status --json tank").json();
    let pool = &status[0]["pool"];
    assert_eq!(
        pool["damaged"],
        serde_json::json!([{"volume": "tank/one", "offset": 262_144, "length": 4096}])
    );
    let scan = &pool["scan"];
    assert_eq!((&scan["scan"], &scan["state"]), (&"scrub".into(), &"finished".into()), "{scan}");
    assert!(scan["healed"].as_u64() >= Some(16) && scan["errors"] == 1 && scan["lost"] == 1, "{scan}");
    tank.ask("wait tank").ended(4);
    let mended: u64 =
        pool["devices"].as_array().unwrap().iter().filter_map(|device| device["mended"].as_u64()).sum();
    assert_eq!(Some(mended), scan["healed"].as_u64());

    // It is written anew, and then nothing is wrong.
    content[64 * 4096..][..4096].fill(5);
    write(&mut tank.client("one"), 64 * 4096, &[5; 4096]);
    let report = tank.ask("pool scrub tank --wait --json").json();
    assert_eq!((&report["scan"]["errors"], &report["scan"]["healed"]), (&0.into(), &0.into()), "{report}");
    tank.ask("action tank check").ok();
    tank.ask("wait tank").ok();
    let state = tank.dir.path().join("scrubs").display().to_string();
    let nightly = tank.ask(&format!("scrub tank --json --state {state}")).json();
    assert_eq!((&nightly["outcome"], &nightly["mismatch_cnt"]), (&"finished".into(), &0.into()), "{nightly}");
    let again = tank.ask(&format!("scrub tank --json --every 1 --state {state}")).json();
    assert_eq!(again["outcome"], "not-due", "{again}");
    // There is none to be paused.
    let refused = tank.ask("pool scrub tank --pause").ended(1);
    assert!(refused.err.contains("no scrub is under way"), "{}", refused.err);
    assert!(tank.client("one").read(0, 2 * MIB) == content);
    server.stop_after_telling(&["they were rebuilt, and written anew", "has lost blocks"]);
    tank.run("check", &tank.members).ok();
}
