//! Reports on pools against their golden files: of members that nobody serves, and of a server.

use brindle_tests::report::Goldens;
use brindle_tests::report::Shape::Exact;

use super::*;
use crate::pools::{Tank, write};

#[test]
fn reports_on_members_of_a_pool_are_as_they_were() {
    let set = Set::sparse(3, 16 * MIB);
    let goldens = Goldens::new(set.dir.path());
    let hold = |name: &str, ran: Ran| goldens.hold(name, Exact, &[], &ran);
    let of_all = |command: &str, rest: &[&str]| {
        let rest: Vec<PathBuf> = std::iter::once(&"--").chain(rest).map(PathBuf::from).collect();
        run(&format!("{command} --array"), &[&set.members[..], &rest].concat())
    };
    hold("pool-planned", set.run("pool create -n --json tank raidz"));
    hold("pool-create", set.run("pool create --json tank raidz"));
    hold("pool-volume-create", of_all("volume create --json", &["tank/one", "1M"]));
    hold("pool-volume-rename", of_all("volume rename --json", &["tank/one", "tank/two"]));
    hold("pool-volume-list", set.run("volume list --json --array"));
    hold("pool-examine", set.run("examine --json"));
    hold("pool-detail", set.run("detail --json"));
    hold("pool-status-unserved", set.run("pool status --json --array"));
    hold("pool-list-unserved", set.run("pool list --json --array"));
    hold("pool-check", set.run("check --json"));
    flip(&set.members[2], 40 << 10);
    hold("pool-check-wrong", set.run("check --json"));
    flip(&set.members[2], 40 << 10);
    hold("pool-detail-degraded", run("detail --json", &set.members[..2]));
    hold("pool-check-degraded", run("check --json", &set.members[..2]));
    hold("pool-volume-destroy", of_all("volume destroy --json", &["tank/two"]));
    hold("pool-rename", of_all("pool rename --json", &["tank", "pond"]));
    hold("pool-destroy", of_all("pool destroy --json", &["pond"]));
}

#[test]
fn reports_on_a_served_pool_are_as_they_were() {
    let tank = Tank::new("mirror", 2);
    tank.stopped("volume create", "tank/one 1M").ok();
    let goldens = Goldens::new(tank.dir.path());
    // How far the log has come, and the numbers of segments, depend on the moment.
    let hold = |name: &str, words: &str| goldens.hold(name, Exact, &["pool"], &tank.ask(words));
    let server = tank.serve();
    goldens.hold_value("pool-serving", Exact, 0, server.said.clone());
    goldens.hold("pool-status", Exact, &[], &tank.ask("pool status --json"));
    goldens.hold("pool-list", Exact, &[], &tank.ask("pool list --json"));
    goldens.hold("pool-watch", Exact, &[], &tank.ask("watch tank --json --interval=10ms"));
    goldens.hold("pool-wait", Exact, &["events"], &tank.ask("wait tank --json"));
    let mut client = tank.client("one");
    write(&mut client, 0, &[7; 4096]);
    hold("pool-client", "status tank --json");
    hold("pool-disconnect", "disconnect tank/one --json");
    drop(client);
    until("the client is gone", || tank.ask("status tank --json").json()["connections"] == 0);
    hold("pool-volume-create-served", "volume create tank/two 1M --json");
    hold("pool-volume-rename-served", "volume rename tank/two tank/three --json");
    goldens.hold("pool-volume-list-served", Exact, &[], &tank.ask("volume list --json"));
    hold("pool-volume-destroy-served", "volume destroy tank/three --json");
    hold("pool-unexport", "unexport tank --json");
    hold("pool-export", "export tank --json");
    hold("pool-fail", "fail tank 0.1 --json");
    hold("pool-rename-served", "pool rename tank pond --json");
    tank.ask("pool rename pond tank").ok();
    goldens.hold("pool-destroy-served", Exact, &[], &tank.ask("pool destroy tank --json"));
    let (code, _) = server.signal_or_ended();
    assert_eq!(code, 0);
}
