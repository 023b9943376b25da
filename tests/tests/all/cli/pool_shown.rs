//! Pools as `pool status`, `list`, `iostat` and `volume list` show them.

use crate::pools::{Tank, write};

/// The lines of a table, each with its words.
fn table(text: &str) -> Vec<Vec<&str>> {
    text.lines()
        .map(|line| line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect())
        .collect()
}

#[test]
fn a_pool_is_shown_as_zpool_does_whole_and_without_a_member() {
    let tank = Tank::new("raidz1", 3);
    tank.stopped("volume create", "tank/one 1M").ok();
    let server = tank.serve();
    let mut client = tank.client("one");
    write(&mut client, 0, &[7; 65536]);
    client.close();
    let text = tank.ask("pool status").ok().text();
    for line in [
        "  pool: tank\n",
        " state: ONLINE\n",
        "  scan: none requested\n",
        "    raidz1-0",
        "errors: none known; no scrub has run\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("action:"), "{text}");
    assert_eq!(tank.ask("pool status -x").ok().text(), "all pools are healthy\n");
    assert_eq!(tank.ask("pool status -x tank").ok().text(), "pool 'tank' is healthy\n");
    assert_eq!(tank.ask("pool status -x --json").json(), serde_json::json!([]));
    let text = tank.ask("pool status -v tank").ok().text();
    for line in ["  host: ", "served: nbd+unix:", " bytes written to members for each of a client\n"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let listed = tank.ask("pool list").ok().text();
    let lines = table(&listed);
    assert_eq!(lines[0], ["NAME", "SIZE", "ALLOC", "FREE", "CAP", "HEALTH"]);
    assert_eq!((lines[1][0], lines[1][2], lines[1][5]), ("tank", "64 KiB", "ONLINE"), "{listed}");
    let listed = tank.ask("volume list").ok().text();
    let lines = table(&listed);
    assert_eq!(lines[0], ["NAME", "USED", "AVAIL", "RESERV"]);
    assert_eq!((lines[1][0], lines[1][1], lines[1][3]), ("tank/one", "1 MiB", "1 MiB"), "{listed}");
    let rates = tank.ask("pool iostat -v tank 0.05 2").ok().text();
    let lines = table(&rates);
    assert_eq!((lines.len(), lines[1][0], lines[2][0]), (12, "tank", "raidz1-0"), "{rates}");
    let rates = tank.ask("pool iostat --json 0.05").json();
    assert_eq!(
        (&rates[0]["name"], rates[0]["vdevs"][0]["devices"].as_array().map(Vec::len)),
        (&"tank".into(), Some(3))
    );
    tank.ask("pool iostat pond").refused(1, &["has a pool 'pond'"]);

    tank.ask("fail tank 0.1").ok();
    let text = tank.ask("pool status -x").ok().text();
    for line in
        [" state: DEGRADED\n", "status: a member failed: ", "action: brindle pool replace tank ", "FAULTED"]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert_eq!(tank.ask("pool status -x --json").json()[0]["name"], "tank");
    tank.ask("stop tank").ok();
    let _told = server.signal_or_ended();
    let stopped =
        tank.run("pool status --array", &[&tank.members[..1], &tank.members[2..]].concat()).ok().text();
    assert!(stopped.contains(" state: DEGRADED\n") && stopped.contains("UNAVAIL"), "{stopped}");
}
