//! Histories of pools, as `pool history` shows them: of one that is served, and of one that is not.

use crate::pools::Tank;

/// Commands of a history, and who gave them.
fn commands(report: &serde_json::Value) -> Vec<String> {
    let entries = report[0]["history"].as_array().unwrap();
    let is_whole = |entry: &&serde_json::Value| entry["time"].as_u64() > Some(1_700_000_000);
    assert!(entries.iter().all(|entry| is_whole(&entry)), "{report}");
    entries.iter().filter_map(|entry| entry["command"].as_str().map(str::to_owned)).collect()
}

#[test]
fn commands_that_change_a_pool_go_down_in_it_once() {
    let tank = Tank::new("raidz1", 3);
    tank.stopped("volume create", "tank/one 1M").ok();
    tank.stopped("volume create", "tank/one 1M").ended(1);
    let history = tank.run("pool history --json --array", &tank.members).json();
    let made = commands(&history);
    assert_eq!(made.len(), 2, "{made:?}");
    assert!(
        made[0].starts_with("brindle pool create tank raidz1 ") && made[0].ends_with("/m2.img"),
        "{made:?}"
    );
    assert!(made[1].ends_with(" -- tank/one 1M"), "{made:?}");
    assert!(history[0]["history"][0]["user"].is_u64(), "{history}");
    let server = tank.serve();
    tank.ask("volume create --json tank/two 1M").ok();
    tank.ask("volume create tank/two 1M").ended(1);
    tank.ask("pool scrub -w tank").ok();
    tank.ask("pool status tank").ok();
    tank.ask("fail tank 0.1").ok();
    tank.ask("pool rename tank pond").ok();
    let served = tank.ask("pool history --json").json();
    let words: Vec<String> = commands(&served)
        .iter()
        .map(|command| command.split_whitespace().skip(1).take(2).collect::<Vec<_>>().join(" "))
        .collect();
    let all = ["pool create", "volume create", "volume create", "pool scrub", "fail tank", "pool rename"];
    assert_eq!(words, all);
    let text = tank.ask("pool history -i -l pond").ok().text();
    for part in [
        "History for 'pond':\n",
        " [internal] opened for writing [on ",
        " [internal] repair of all that is stored has begun",
        " [internal] repair has ended: healed 0, errors 0",
        " [internal] tank 0.1 (role 1) failed: it is out of use",
        " [user ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let short = tank.ask("pool history pond").ok().text();
    assert!(!short.contains("[internal]") && !short.contains("[user"), "{short}");
    assert_eq!(short.lines().count(), 1 + all.len(), "{short}");
    tank.ask("pool history lake").refused(1, &["has a pool 'lake'"]);
    // A server that is killed takes nothing with it that was told.
    drop(server);
    // The member that failed is told of.
    let after = tank.run("pool history --json --array", &tank.members).ended(0).report();
    assert_eq!(commands(&after), commands(&served));
    let hashes = || tank.members.iter().map(|member| super::files::sha256(member)).collect::<Vec<_>>();
    let before = hashes();
    tank.run("pool history -il --array", &tank.members).ended(0);
    assert!(hashes() == before, "a history is only read");
    let _server = tank.serve();
    tank.ask("pool export -f pond").ok();
    let last = commands(&tank.run("pool history --json --array", &tank.members).json()).pop().unwrap();
    assert!(last.contains("pool export -f pond"), "{last}");
}
