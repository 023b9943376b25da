//! Hosts that have a pool: given away and taken, refused to others, served by a daemon without being named.

use std::process::Command;

use super::*;
use crate::pools::{Tank, write};

/// A host by its identity, which it keeps in a folder of its own.
struct Machine {
    state: PathBuf,
}

impl Machine {
    fn new(tank: &Tank, name: &str, id: u32) -> Self {
        let state = tank.dir.path().join(name);
        std::fs::create_dir(&state).unwrap();
        std::fs::write(state.join("host-id"), format!("{id:08x}-0000-4000-8000-000000000000\n")).unwrap();
        Self { state }
    }

    fn run(&self, words: &str, paths: &[PathBuf]) -> Ran {
        let mut command = Command::new(program::path());
        command.env("STATE_DIRECTORY", &self.state).args(super::words(words, paths));
        Ran::of(command)
    }

    fn env(&self) -> [(&str, &str); 1] {
        [("STATE_DIRECTORY", name(&self.state))]
    }
}

/// A pool of three members that the host `nas` has made; and another host.
fn two_hosts() -> (Tank, Machine, Machine) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("disks")).unwrap();
    let members = files::members(&dir.path().join("disks"), "m", 3, 16 * MIB);
    let tank = Tank { dir, members };
    let (nas, other) = (Machine::new(&tank, "nas", 1), Machine::new(&tank, "other", 2));
    nas.run("pool create tank raidz", &tank.members).ok();
    (tank, nas, other)
}

/// The folder of the members, and the runtime folder of commands.
fn places(tank: &Tank) -> String {
    format!("-d {}/disks --runtime-dir {}", tank.dir.path().display(), tank.runtime().display())
}

fn unchanged(tank: &Tank, work: impl FnOnce()) {
    let hashes = || tank.members.iter().map(|member| files::sha256(member)).collect::<Vec<_>>();
    let before = hashes();
    work();
    assert!(hashes() == before, "a member was changed");
}

#[test]
fn a_pool_of_another_host_is_refused_until_it_is_exported_or_taken_by_force() {
    let (tank, nas, other) = two_hosts();
    let (members, places) = (&tank.members, places(&tank));
    let one = ["--", "tank/one", "1M"].map(PathBuf::from);
    let make = |host: &Machine| host.run("volume create --array", &[&members[..], &one].concat());
    unchanged(&tank, || {
        make(&other).refused(1, &["has not exported it", "brindle pool export tank", "import --force tank"]);
        let runtime = tank.runtime();
        other
            .run(&format!("serve --runtime-dir {}", runtime.display()), members)
            .refused(1, &["has not exported it"]);
        other.run(&format!("pool import {places} tank"), &[]).refused(1, &["has not exported it"]);
        let listed = other.run(&format!("pool import {places} --json"), &[]).json();
        assert_eq!(
            (&listed[0]["state"], &listed[0]["foreign"]),
            (&"ONLINE".into(), &true.into()),
            "{listed}"
        );
        let disks = tank.dir.path().join("disks");
        let next = format!("brindle pool import -d {} --force tank", disks.display());
        assert_eq!(listed[0]["next"], next, "it names where the pool was found");
        let nowhere = format!("pool import -d {}/nowhere", disks.display());
        other.run(&nowhere, &[]).refused(1, &["nowhere: it can't be looked at"]);
        let listed = other.run(&format!("pool import {places}"), &[]).ended(0).text();
        for line in ["   pool: tank\n", "  state: ONLINE\n", "raidz1-0", "if that host is gone for good"] {
            assert!(listed.contains(line), "{line}: {listed}");
        }
        let read = other.run("detail", members).ended(0);
        assert!(read.err.contains("what is read here may be wrong"), "{}", read.err);
        let of_nas = nas.run(&format!("pool import {places} --json"), &[]).json();
        assert_eq!(of_nas[0]["foreign"], false);
        assert_eq!(of_nas[0]["next"], format!("brindle pool import -d {} tank", disks.display()));
    });
    make(&nas).ok();
    nas.run("pool export --array", &[&members[..], &["--".into(), "tank".into()]].concat()).ok();
    assert!(other.run("detail --json", members).json()["host"].is_null());
    let told = other.run(&format!("pool import {places} tank"), &[]).ok().text();
    assert!(
        told.contains("tank is this host's") && told.contains("brindle assemble --scan --array tank"),
        "{told}"
    );
    nas.run(&format!("pool import {places} tank"), &[]).refused(1, &["has not exported it"]);
    let taken = nas.run(&format!("pool import {places} --force tank"), &[]).ended(0);
    assert!(taken.err.contains("is taken from host") && taken.err.contains("is lost"), "{}", taken.err);
    nas.run(&format!("pool import {places} pond"), &[]).refused(1, &["no pool 'pond' was found"]);
    nas.run(&format!("pool import {places} -o ashift=12 tank"), &[]).refused(2, &["readonly=on"]);
}

#[test]
fn what_is_assembled_is_this_hosts_and_another_ones_wants_force() {
    let (tank, nas, other) = two_hosts();
    let disks = [tank.dir.path().join("disks")];
    let words = format!("assemble --scan --json --runtime-dir {}", tank.runtime().display());
    let outcome = |host: &Machine, flags: &str| {
        let found = host.run(&format!("{words} {flags}"), &disks).report()["found"][0].clone();
        (found["outcome"].as_str().unwrap().to_owned(), found)
    };
    assert_eq!(outcome(&nas, "-n").0, "would-start");
    assert_eq!(outcome(&nas, "-n --homehost none").0, "foreign");
    let (foreign, found) = outcome(&other, "-n");
    assert!(foreign == "foreign" && found["host"].is_string(), "{found}");
    let (refused, found) = outcome(&other, "--array tank");
    assert!(
        refused == "refused" && found["why"].as_str().unwrap().contains("has not exported it"),
        "{found}"
    );
    assert!(found["risks"][0].as_str().unwrap().contains("both write to it"), "{found}");
    assert_eq!(outcome(&other, "--array tank --force").0, "started");
    other.run(&format!("stop tank --runtime-dir {}", tank.runtime().display()), &[]).ok();
    assert_eq!(outcome(&nas, "-n").0, "foreign");
}

#[test]
fn a_pool_that_is_served_is_exported_once_its_clients_are_gone_or_by_force() {
    let (tank, nas, other) = two_hosts();
    let one = ["--", "tank/one", "1M"].map(PathBuf::from);
    nas.run("volume create --array", &[&tank.members[..], &one].concat()).ok();
    let serve = |host: &Machine| {
        let memory = words("--memory 32M", &tank.members);
        Server::start_by("serve", &tank.runtime(), memory, &host.env())
    };
    let server = serve(&nas);
    let mut client = tank.client("one");
    write(&mut client, 0, &[7; 4096]);
    tank.ask("pool export tank").refused(1, &["tank/one is open: it has 1 clients", "--force"]);
    assert_eq!(client.read(0, 4096)[0], 7, "nothing was changed");
    tank.ask("pool export --force tank").ok();
    let (code, _) = server.signal_or_ended();
    assert_eq!(code, 0);
    drop(client);
    let server = serve(&other);
    assert_eq!(tank.client("one").read(0, 4096)[0], 7);
    // A stop alone gives nothing away.
    server.stop();
    nas.run("serve --runtime-dir", &[&[tank.runtime()], &tank.members[..]].concat())
        .refused(1, &["has not exported it"]);
    // Read by a server of its own, all stays as it is.
    unchanged(&tank, || {
        let told = nas.run(&format!("pool import {} -o readonly=on tank", places(&tank)), &[]).ended(0);
        assert!(told.err.contains("what is read here may be wrong"), "{}", told.err);
        tank.ask("pool export tank").refused(1, &["read-only"]);
        assert_eq!(tank.client("one").read(0, 4096)[0], 7);
        tank.ask("stop tank").ok();
    });
}

#[test]
fn a_daemon_serves_pools_of_this_host_and_takes_one_that_is_imported() {
    let (tank, nas, other) = two_hosts();
    let (file, disks) = (tank.dir.path().join("brindle.toml"), tank.dir.path().join("disks"));
    let array = files::members(&disks, "a", 2, 4 * MIB);
    run("create -l 1 -N a", &array).ok();
    std::fs::write(&file, format!("wait = \"1ms\"\ndevices = [{disks:?}]\n[tuning]\nmemory = \"64M\"\n"))
        .unwrap();
    let daemon = |host: &Machine| {
        Server::start_by(
            "daemon",
            &tank.runtime(),
            words("--config", std::slice::from_ref(&file)),
            &host.env(),
        )
    };
    let server = daemon(&nas);
    assert_eq!(tank.ask("status tank --json").json()["pool"]["state"][0], "online");
    tank.ask("pool export tank").ok();
    let told = nas.run(&format!("pool import {} tank", places(&tank)), &[]).ok().text();
    assert!(told.contains("tank is this host's\ntank is served\n"), "{told}");
    server.stop();
    let mut server = daemon(&other);
    tank.ask("status tank").ended(1);
    server.send(rustix::process::Signal::TERM);
    let (code, err) = server.end();
    assert!(
        code == 0 && err.contains("not served: pool tank: host") && err.contains("has not exported it"),
        "{err}"
    );
}
