//! Members of pools that are missing, come back or have lost their labels.

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use brindle_format::pool::{CONFIG_BYTES, LABEL, checksum, second_label};
use brindle_tests::files::{self, MIB};
use brindle_tests::nbd::Client;
use brindle_tests::program::{self, Server};
use rustix::process::Signal;

use super::pools::{Tank, bytes, write};

/// The state of each member, by the pool that nobody serves.
fn states(tank: &Tank) -> Vec<String> {
    let detail = tank.run("detail --json", &tank.members).ended(0).report();
    let devices = detail["devices"].as_array().unwrap();
    devices.iter().map(|device| device["state"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn no_member_leaves_by_a_change_that_is_refused_or_without_a_word() {
    let tank = Tank::new("raidz1", 3);
    tank.stopped("volume create", "tank/one 1M").ok();
    let two = Tank { dir: tempfile::tempdir().unwrap(), members: tank.members[..2].to_vec() };
    let lacks = ["0.2", "--degraded"];
    // Each of these would be carried out, or is refused for itself.
    for (command, names) in [
        ("volume create", "tank/two 1M"),
        ("volume create", "tank/two 900G"),
        ("volume rename", "tank/one tank/two"),
        ("volume destroy", "tank/one"),
        ("pool destroy", "tank"),
    ] {
        two.stopped(command, names).refused(1, &lacks);
    }
    for (command, names, words) in [
        ("volume create --degraded", "tank/two 900G", "does not fit"),
        ("volume create --degraded", "tank/one 1M", "already"),
        ("volume rename --degraded", "tank/two tank/three", "no volume two"),
        ("volume destroy --degraded", "tank/two", "no volume two"),
        ("volume destroy --degraded", "pond/one", "'pond'"),
        ("pool destroy --degraded", "pond", "'pond'"),
    ] {
        let refused = two.stopped(command, names);
        assert!(refused.code != 0 && refused.err.contains(words), "{command} {names}: {}", refused.err);
    }
    let words = format!("serve --runtime-dir {}", tank.runtime().display());
    two.run(&words, &two.members).refused(1, &lacks);
    assert_eq!(states(&tank), ["online"; 3]);
    // With the word it goes on without, and has the member again when that is back.
    let content = bytes(3, MIB);
    let without = ["--degraded"].map(PathBuf::from).into_iter().chain(two.members.iter().cloned());
    let server = Server::start(&tank.runtime(), without);
    write(&mut tank.client("one"), 0, &content);
    server.stop();
    assert_eq!(states(&tank), ["online", "online", "missing"]);
    let told = tank.run("detail", &tank.members).ended(0).err;
    assert!(told.contains("used again as soon as the pool is written to"), "{told}");
    let server = tank.serve();
    let status = tank.ask("status tank --json").json();
    assert_eq!(status["pool"]["state"], serde_json::json!(["online"]), "{status}");
    assert_eq!(status["events"][0]["kind"], "member-returned", "{status}");
    tank.ask("wait tank").ok();
    tank.ask("stop tank").ok();
    assert_eq!(server.signal_or_ended().0, 0);
    assert_eq!(states(&tank), ["online"; 3]);
    assert!(tank.cat(&tank.members[1..]) == content, "it counts for all it has");
    tank.run("check", &tank.members).ok();
}

#[test]
fn a_named_device_that_lost_both_labels_does_not_stop_the_others() {
    let tank = Tank::new("raidz1", 3);
    tank.stopped("volume create", "tank/one 1M").ok();
    std::fs::write(&tank.members[1], vec![0; 16 * MIB as usize]).unwrap();
    let server = tank.serve();
    let status = tank.ask("status tank --json").json();
    assert_eq!(status["pool"]["devices"][1]["state"], "missing", "{status}");
    let why = status["left_out"][0]["why"].as_str().unwrap();
    assert!(why.contains("not a member of a pool"), "{why}");
    tank.ask("stop tank").ok();
    assert_eq!(server.signal_or_ended().0, 0);
    tank.stopped("volume create", "tank/two 1M").ended(0);
    // One that can't be a member of this pool is told as ever.
    let strange = tank.dir.path().join("strange");
    std::fs::write(&strange, vec![0; MIB as usize]).unwrap();
    let all: Vec<PathBuf> = tank.members.iter().cloned().chain([strange]).collect();
    let words = format!("serve --runtime-dir {}", tank.runtime().display());
    let refused = tank.run(&words, &all).ended(1);
    assert!(refused.err.contains("has no md superblock"), "{}", refused.err);
}

/// A daemon has a pool that lacks a member for reading alone until that is here, unless its settings say otherwise.
#[test]
fn a_daemon_waits_for_members_of_a_pool_that_were_in_use() {
    let tank = Tank::new("raidz1", 3);
    tank.stopped("volume create", "tank/one 1M").ok();
    let (folder, file) = (tank.dir.path().join("disks"), tank.dir.path().join("brindle.toml"));
    std::fs::create_dir(&folder).unwrap();
    let place = |n: usize| folder.join(tank.members[n].file_name().unwrap());
    (0..2).for_each(|n| std::fs::rename(&tank.members[n], place(n)).unwrap());
    let settings = |degraded: bool| {
        let text = format!(
            "homehost = \"none\"\nwait = \"1ms\"\nname = \"tank\"\ndevices = [{folder:?}]\n[tuning]\nmemory = \"64M\"\n[[pools]]\nname = \"tank\"\ndegraded = {degraded}\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    let start = || Server::start_by("daemon", &tank.runtime(), [Path::new("--config"), file.as_path()], &[]);
    // It is not there for a moment when it is opened for writing.
    let state = || {
        let asked = tank.ask("status tank --json");
        let report = if asked.code == 0 { asked.report() } else { serde_json::Value::Null };
        report["pool"]["state"].as_array().cloned().unwrap_or_default()
    };
    let is = |word: &str| state().iter().any(|one| one == word);
    settings(false);
    let server = start();
    let status = tank.ask("status tank --json").json();
    assert_eq!(status["waits_for"], serde_json::json!(["0.2"]), "{status}");
    assert!(is("degraded") && is("read-only"), "{:?}", state());
    let told = tank.ask("status tank").ended(0).text();
    assert!(told.contains("are missing: 0.2; it is read-only until"), "{told}");
    tank.ask("volume create tank/two 1M").ended(1);
    // Nothing but that member changes it.
    tank.ask("reload").ended(0);
    assert!(is("degraded") && is("read-only"), "{:?}", state());
    std::fs::rename(&tank.members[2], place(2)).unwrap();
    let begun = std::time::Instant::now();
    while state() != ["online"] {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{:?}", state());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(tank.ask("status tank --json").json()["waits_for"].is_null());
    write(&mut tank.client("one"), 0, &bytes(2, 4096));
    let (code, err) = server.signal(Signal::TERM);
    assert!(code == 0 && err.contains("it is read-only until they are here"), "{code}: {err}");

    std::fs::rename(place(2), &tank.members[2]).unwrap();
    settings(true);
    let server = start();
    assert!(is("degraded") && !is("read-only"), "{:?}", state());
    let (code, err) = server.signal(Signal::TERM);
    assert_eq!(code, 0, "{err}");
}

/// Clients that find the socket find the exports.
#[test]
fn exports_of_a_pool_are_there_when_the_socket_is() {
    let tank = Tank::new("mirror", 2);
    tank.stopped("volume create", "tank/one 1M").ok();
    for _ in 0..3 {
        let mut command = std::process::Command::new(program::path());
        command.args(["serve", "--runtime-dir"]).arg(tank.runtime()).args(&tank.members);
        let mut server = command.stdout(std::process::Stdio::null()).spawn().unwrap();
        let socket = tank.runtime().join("tank.nbd");
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(server.try_wait().unwrap().is_none(), "it has ended");
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        assert_eq!(tank.client("one").size(), MIB);
        tank.ask("stop tank").ok();
        assert!(server.wait().unwrap().success());
    }
}

/// Has the labels of a member say that they are of another version.
fn set_version(member: &Path, version: u32) {
    let file = std::fs::File::options().read(true).write(true).open(member).unwrap();
    for at in [LABEL, second_label(file.metadata().unwrap().len())] {
        let mut config = vec![0; CONFIG_BYTES];
        file.read_exact_at(&mut config, at).unwrap();
        config[8..12].fill(0);
        config[12..16].copy_from_slice(&version.to_le_bytes());
        let sum = checksum(&config);
        config[8..12].copy_from_slice(&sum.to_le_bytes());
        file.write_all_at(&config, at).unwrap();
    }
}

/// A member of a later version is there, and nobody writes as if it were not.
#[test]
fn a_member_of_another_version_is_refused_by_name_and_does_not_count_as_missing() {
    let tank = Tank::new("raidz1", 3);
    tank.stopped("volume create", "tank/one 1M").ok();
    set_version(&tank.members[1], 3);
    let before: Vec<Vec<u8>> = tank.members.iter().map(|member| std::fs::read(member).unwrap()).collect();
    let device = tank.members[1].display().to_string();
    let words = [&*device, "version 3"];
    for (command, names) in [
        ("volume create --degraded", "tank/two 1M"),
        ("volume destroy --degraded", "tank/one"),
        ("pool rename --degraded", "tank pond"),
    ] {
        tank.stopped(command, names).refused(1, &words);
    }
    let serve = format!("serve --degraded --runtime-dir {}", tank.runtime().display());
    for command in ["detail", "check", "cat tank/one", &serve] {
        tank.run(command, &tank.members).refused(1, &words);
    }
    let scan = format!("assemble --scan --dry-run --runtime-dir {}", tank.runtime().display());
    let folder = [tank.dir.path().to_owned()];
    for command in [&*scan, "examine --scan"] {
        let told = tank.run(command, &folder).err;
        assert!(words.iter().all(|word| told.contains(word)), "{command}: {told}");
    }
    let scan = "assemble --scan --degraded --array tank --runtime-dir";
    let told = tank.run(&format!("{scan} {}", tank.runtime().display()), &folder).ended(1).text();
    assert!(words.iter().all(|word| told.contains(word)), "{told}");
    let examined = tank.run("examine", &tank.members[1..2]).ended(1).text();
    assert!(words.iter().all(|word| examined.contains(word)), "{examined}");
    let file = tank.dir.path().join("brindle.toml");
    let settings =
        format!("name = \"tank\"\ndevices = [{:?}]\n[[pools]]\nname = \"tank\"\n", tank.dir.path());
    std::fs::write(&file, settings).unwrap();
    let words_of = format!("--config {} --runtime-dir {}", file.display(), tank.runtime().display());
    tank.run(&format!("incremental {words_of}"), &tank.members[1..2]).refused(1, &words);
    for (member, before) in tank.members.iter().zip(&before) {
        assert!(std::fs::read(member).unwrap() == *before, "{} was changed", member.display());
    }
}

/// Lines of access are by name: they are held against the name of now.
#[test]
fn lines_of_access_are_for_the_name_of_now_when_they_are_read_anew() {
    let tank = Tank::new("mirror", 2);
    tank.stopped("volume create", "tank/one 1M").ok();
    let file = tank.dir.path().join("access");
    let lines_for = |name: &str| std::fs::write(&file, format!("{name} local write\n")).unwrap();
    lines_for("tank");
    let flags = ["--memory", "32M", "--access"].map(PathBuf::from).into_iter().chain([file.clone()]);
    let server = Server::start(&tank.runtime(), flags.chain(tank.members.iter().cloned()));
    let told = tank.ask("pool rename tank lake").ended(0).err;
    assert!(told.contains("lines for \"tank\"") && told.contains("from the next start on"), "{told}");
    let socket = tank.runtime().join("tank.nbd");
    let uri = format!("nbd+unix:///lake/one?socket={}", socket.display());
    let is_served = || Client::connect(&uri).size() == MIB;
    assert!(is_served());
    // Lines for no name of now are refused, and all stays as it was.
    tank.ask("reload").refused(1, &["no array \"tank\"", "give one of lake"]);
    assert!(is_served());
    lines_for("lake");
    tank.ask("reload").ended(0);
    assert!(is_served());
    let (code, err) = server.signal(Signal::TERM);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn members_are_taken_out_brought_back_and_replaced_while_a_pool_is_served() {
    let mut tank = Tank::new("raidz1", 4);
    tank.stopped("volume create", "tank/one 4M").ok();
    let mut content = bytes(5, 4 * MIB);
    let server = tank.serve();
    let mut client = tank.client("one");
    write(&mut client, 0, &content);
    let state = |n: usize| tank.ask("status tank --json").json()["pool"]["devices"][n]["state"].clone();
    tank.ask("pool offline tank 0.1").ok();
    assert_eq!((state(1), state(0)), ("offline".into(), "online".into()));
    tank.ask("pool offline tank 0.2").refused(1, &["can't do without", "0.2"]);
    tank.ask("pool offline tank 0.1").refused(1, &["not in use", "pool online"]);
    content[..256 << 10].fill(4);
    write(&mut client, 0, &[4; 256 << 10]);
    tank.ask("pool online tank 0.1").ok();
    tank.ask("wait tank").ok();
    assert_eq!(state(1), "online");
    tank.ask("pool online tank 0.1").refused(1, &["is in use"]);
    // A device that dies, and others in its place.
    let new = files::members(tank.dir.path(), "n", 1, 16 * MIB).remove(0);
    let small = files::members(tank.dir.path(), "s", 1, 8 * MIB).remove(0);
    tank.ask("fail tank 0.2").ok();
    let told = tank.ask("status tank --json").json()["pool"]["raises_in"].as_u64();
    assert!(told.is_some_and(|seconds| seconds > 800), "{told:?}");
    tank.ask(&format!("pool replace tank 0.2 {}", small.display())).refused(1, &["needs"]);
    let other = tank.members[0].display();
    tank.ask(&format!("pool replace tank 0.2 {other}")).refused(1, &["m0"]);
    let told = tank.ask(&format!("pool replace tank 0.2 {}", new.display())).ok().text();
    assert!(told.contains("has the place of 0.2, and gets what it lacks"), "{told}");
    tank.ask("wait tank").ok();
    let status = tank.ask("status tank --json").json();
    assert_eq!(
        (&status["pool"]["thin"], &status["pool"]["state"][0]),
        (&0.into(), &"online".into()),
        "{status}"
    );
    assert_eq!(status["pool"]["devices"][2]["path"], new.display().to_string());
    assert!(client.read(0, 4 * MIB) == content, "nothing is lost");
    // One that is there still answers until the device that takes its place has all.
    let third = files::members(tank.dir.path(), "t", 1, 16 * MIB).remove(0);
    let told = tank.ask(&format!("pool replace tank 0.3 {}", third.display())).ok().text();
    for words in ["0.3 is copied to", "stays in use until", "leave it in until `brindle pool status tank`"] {
        assert!(told.contains(words), "{told}");
    }
    tank.ask(&format!("pool replace tank 0.1 {}", third.display())).refused(1, &["t0"]);
    tank.ask("wait tank").ok();
    let status = tank.ask("status tank --json").json();
    assert_eq!(status["pool"]["devices"][3]["path"], third.display().to_string(), "{status}");
    assert_eq!(status["pool"]["state"][0], "online", "{status}");
    assert!(client.read(0, 4 * MIB) == content, "nothing is lost");
    client.close();
    server.stop_after_telling(&[
        "it is out of use: by command",
        "is in use again",
        "is another device from now on",
    ]);
    tank.members[3] = third;
    let old = std::mem::replace(&mut tank.members[2], new);
    tank.run("check", &tank.members).ok();
    // Another may be lost now.
    assert!(tank.cat(&tank.members[1..]) == content, "without the first");
    let with_the_old = [&tank.members[..], &[old]].concat();
    assert!(tank.cat(&with_the_old) == content, "the device of before is passed over");
}

/// `pool replace --wait` says how it ended, and orders about members are refused by what would do.
#[test]
fn a_replacement_is_waited_for_and_what_is_wrong_with_an_order_is_said() {
    let tank = Tank::new("raidz1", 4);
    tank.stopped("volume create", "tank/one 4M").ok();
    let server = tank.serve();
    let content = bytes(6, 4 * MIB);
    write(&mut tank.client("one"), 0, &content);
    let new = files::members(tank.dir.path(), "n", 2, 16 * MIB);
    // In the folder of the members a name of a file there is that of the member.
    let here = |words: &str| {
        let mut command = std::process::Command::new(program::path());
        command.args(words.split(' ')).arg("--runtime-dir").arg(tank.runtime()).current_dir(tank.dir.path());
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "{words}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).unwrap()
    };
    let m1 = tank.members[1].file_name().unwrap().to_str().unwrap();
    let told = here(&format!("pool offline tank {m1}"));
    assert!(told.contains(&format!("`brindle pool online tank {m1}` brings it back")), "{told}");
    here(&format!("pool online tank {m1}"));
    tank.ask("wait tank").ok();
    // A member in use, and one that has failed.
    let told = tank.ask(&format!("pool replace -w tank 0.1 {}", new[0].display())).ok().text();
    assert!(told.contains("has the place of 0.1, and all that it is to have"), "{told}");
    tank.ask("fail tank 0.2").ok();
    let told = tank.ask(&format!("pool replace --wait --json tank 0.2 {}", new[1].display())).ok().json();
    assert_eq!(told["pool"]["devices"][2]["path"], new[1].display().to_string(), "{told}");
    assert_eq!(told["pool"]["state"], serde_json::json!(["online"]), "{told}");
    let history = tank.ask("pool history tank").ok().text();
    assert!(history.contains("pool replace -w"), "{history}");
    // The first of these is over: what was waited for is told by itself, and nothing is left to wait for.
    tank.ask("pool offline tank 0.0").ok();
    tank.ask("pool online tank nosuch").refused(1, &["nosuch is not a member of tank"]);
    for words in ["offline nosuch 0.0", "online nosuch 0.0", "replace nosuch 0.0 x"] {
        let refused = tank.ask(&format!("pool {words}"));
        assert!(refused.code != 0 && refused.err.contains("has a pool 'nosuch'"), "{}", refused.err);
        assert!(!refused.err.contains("--array"), "{}", refused.err);
    }
    tank.ask("pool online tank 0.0").ok();
    tank.ask("wait tank").ok();
    let mut client = tank.client("one");
    assert!(client.read(0, 4 * MIB) == content, "nothing is lost");
    client.close();
    server.stop_after_telling(&[
        "it is out of use: by command",
        "is in use again",
        "is another device from now on",
    ]);
}
