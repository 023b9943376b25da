//! Pools as their users walk through them: made, served, killed, degraded, read from what is left.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use brindle_tests::files::{self, KIB, MIB};
use brindle_tests::loops::Loop;
use brindle_tests::nbd::{Change, Client, Work};
use brindle_tests::program::{self, Ran, Server};
use brindle_tests::tools::{self, or_skip};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::cli::until;

pub(crate) struct Tank {
    pub(crate) dir: TempDir,
    pub(crate) members: Vec<PathBuf>,
}

impl Tank {
    pub(crate) fn new(vdev: &str, count: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let members = files::members(dir.path(), "m", count, 16 * MIB);
        let tank = Self { dir, members };
        tank.run(&format!("pool create tank {vdev}"), &tank.members).ok();
        tank
    }

    pub(crate) fn run(&self, words: &str, members: &[PathBuf]) -> Ran {
        let words = words.split_whitespace().map(PathBuf::from);
        program::brindle(words.chain(members.iter().cloned()))
    }

    /// On the pool that nobody serves.
    pub(crate) fn stopped(&self, command: &str, names: &str) -> Ran {
        let words = format!("{command} --array").split_whitespace().map(PathBuf::from).collect::<Vec<_>>();
        let names = std::iter::once("--").chain(names.split_whitespace()).map(PathBuf::from);
        program::brindle(words.into_iter().chain(self.members.iter().cloned()).chain(names))
    }

    pub(crate) fn runtime(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    pub(crate) fn serve(&self) -> Server {
        let memory = ["--memory", "32M"].map(PathBuf::from);
        Server::start(&self.runtime(), memory.into_iter().chain(self.members.iter().cloned()))
    }

    /// A command that asks the server.
    pub(crate) fn ask(&self, words: &str) -> Ran {
        let (command, rest) = words.split_at(words.rfind("--").unwrap_or(words.len()));
        let runtime = self.runtime().display().to_string();
        let words = command.split_whitespace().chain(["--runtime-dir", &runtime]);
        program::brindle(words.chain(rest.split_whitespace()))
    }

    pub(crate) fn client(&self, volume: &str) -> Client {
        let socket = self.runtime().join("tank.nbd");
        Client::connect(&format!("nbd+unix:///tank/{volume}?socket={}", socket.display()))
    }

    pub(crate) fn cat(&self, members: &[PathBuf]) -> Vec<u8> {
        self.run("cat tank/one", members).ended(0).out
    }
}

pub(crate) fn write(client: &mut Client, at: u64, data: &[u8]) {
    let work = Work::Write { data: data.to_vec(), fua: true };
    client.all_at_once(&[Change { offset: at, len: data.len() as u64, work }]);
}

pub(crate) fn bytes(seed: u64, len: u64) -> Vec<u8> {
    // No two blocks are the same.
    (0..len).map(|at| (((at / 4096 + 1) * 0x9e37_79b9 * seed) >> (at % 24)) as u8).collect()
}

#[test]
fn a_raidz2_is_made_served_killed_served_and_read_without_two_members() {
    let tank = Tank::new("raidz2", 5);
    tank.stopped("volume create", "tank/one 4M").ok();
    let mut content = bytes(7, 4 * MIB);
    let server = tank.serve();
    let mut client = tank.client("one");
    assert_eq!((client.size(), client.block()), (4 * MIB, 512));
    for at in (0..4 * MIB).step_by(256 << 10) {
        write(&mut client, at, &content[at as usize..][..256 << 10]);
    }
    // A part of a block is changed, too.
    content[5120..5632].fill(9);
    write(&mut client, 5120, &[9; 512]);
    let mut server = server;
    server.send(Signal::KILL);
    let _killed = server.end();

    let at_once = ["--raise-after", "1ms"].map(PathBuf::from);
    let server = Server::start(&tank.runtime(), at_once.into_iter().chain(tank.members.clone()));
    let mut client = tank.client("one");
    assert!(client.read(0, 4 * MIB) == content, "what was acknowledged is there");
    content[..4096].fill(3);
    write(&mut client, 0, &[3; 4096]);
    client.close();
    copied_by_others(&tank, &content);
    changes_while_it_runs(&tank);
    tank.ask("fail tank 0.1").ok();
    tank.ask("status -t tank").ended(1);
    let status = tank.ask("status tank --json").json();
    assert_eq!(status["pool"]["state"][1], "degraded", "{status}");
    assert_eq!(status["pool"]["devices"][1]["state"], "failed");
    assert_eq!(status["volumes"][0]["name"], "one");
    // The four that are left give all redundancy again.
    tank.ask("wait tank").ok();
    let status = tank.ask("status tank --json").json();
    assert_eq!((&status["pool"]["thin"], &status["pool"]["raising"]), (&0.into(), &false.into()), "{status}");
    tank.ask("stop tank").ok();
    let (code, err) = server.signal_or_ended();
    assert_eq!((code, err.lines().count()), (0, 1), "{err}");

    // One has failed, and two more are not there.
    let left: Vec<PathBuf> = [0, 3, 4].map(|n| tank.members[n].clone()).to_vec();
    assert!(tank.cat(&left) == content && tank.cat(&left[1..]) == content, "two of four are missing");
    let ran = tank.run("cat tank/one", &left[2..]).ended(1);
    assert!(ran.err.contains("too many members are missing"), "{}", ran.err);
    tank.run("check", &left).ended(5);
    let detail = tank.run("detail --json", &left).json();
    assert_eq!(detail["name"], "tank");
    assert_eq!(detail["devices"][1]["state"], "missing");
}

/// Other people's program reads the same.
fn copied_by_others(tank: &Tank, content: &[u8]) {
    let Some(nbdcopy) = or_skip(tools::find("nbdcopy")) else { return };
    let (socket, copy) = (tank.runtime().join("tank.nbd"), tank.dir.path().join("copy"));
    let uri = format!("nbd+unix:///tank%2Fone?socket={}", socket.display());
    tools::run(&nbdcopy, [uri.as_ref(), copy.as_os_str()]);
    assert!(std::fs::read(&copy).unwrap() == content, "nbdcopy reads something else");
}

/// A new volume is an export at once, and one that has gone is none any more.
fn changes_while_it_runs(tank: &Tank) {
    tank.ask("volume create tank/two 1M").ok();
    let mut client = tank.client("two");
    write(&mut client, 64 * KIB, &[5; 8192]);
    tank.ask("volume destroy tank/two").refused(1, &["tank/two is open", "1 clients", "--force"]);
    tank.ask("pool destroy tank").refused(1, &["tank is open", "1 clients", "--force"]);
    assert_eq!(client.read(64 * KIB, 8192), [5; 8192], "nothing has happened to it");
    client.close();
    tank.ask("volume rename tank/two tank/three").ok();
    assert_eq!(tank.client("three").read(64 * KIB, 8192), [5; 8192]);
    let listed = tank.ask("volume list --json").json();
    assert_eq!(listed[1]["name"], "tank/three");
    tank.ask("volume create tank/three 1M").refused(1, &["there is a volume three"]);
    tank.ask("volume create tank/four 1T").refused(1, &["does not fit"]);
    let _open = tank.client("three");
    tank.ask("volume destroy --force tank/three").ok();
    tank.ask("volume destroy tank/three").refused(1, &["no volume three"]);
    tank.ask("volume create pond/one 1M").refused(1, &["no server", "pond"]);
}

#[test]
fn a_flipped_bit_is_found_by_check_and_healed_by_a_read() {
    let tank = Tank::new("mirror", 2);
    tank.stopped("volume create", "tank/one 1M").ok();
    let content = bytes(3, MIB);
    let server = tank.serve();
    write(&mut tank.client("one"), 0, &content);
    server.stop();
    tank.run("check", &tank.members).ok();
    // One of the two is the block, the other its parity, by the same bytes.
    let wrong = tank.members.iter().filter(|member| {
        let at = place(member, &content[256 << 10..][..4096]);
        flip(member, at);
        let checked = tank.run("check --json", &tank.members).ended(3).report();
        assert_eq!(checked["mismatches"], 1, "{checked}");
        let is_block = checked["wrong"] == 1;
        flip(member, at);
        is_block
    });
    let wrong: Vec<&PathBuf> = wrong.collect();
    assert_eq!(wrong.len(), 1);
    flip(wrong[0], place(wrong[0], &content[256 << 10..][..4096]));
    let server = tank.serve();
    let mut client = tank.client("one");
    assert!(client.read(0, MIB) == content, "the other copy has it");
    let status = tank.ask("status tank --json").json();
    assert_eq!((&status["pool"]["blocks_wrong"], &status["pool"]["blocks_lost"]), (&1.into(), &0.into()));
    client.close();
    tank.ask("stop tank").ok();
    let _told = server.signal_or_ended();
    tank.run("check", &tank.members).ok();
}

#[test]
fn lost_blocks_are_told_by_volume_and_place() {
    let tank = Tank::new("mirror", 2);
    tank.stopped("volume create", "tank/one 1M").ok();
    let mut content = bytes(3, MIB);
    let server = tank.serve();
    write(&mut tank.client("one"), 0, &content);
    server.stop();
    // Blocks 16, 17 and 64 on both; 32 on one.
    let lost = [16, 17, 64];
    for block in lost {
        let at = place(&tank.members[0], &content[block * 4096..][..4096]);
        tank.members.iter().for_each(|member| flip(member, at));
    }
    flip(&tank.members[0], place(&tank.members[0], &content[32 * 4096..][..4096]));
    let ranges = serde_json::json!([
        {"volume": "tank/one", "offset": 65536, "length": 8192}, {"volume": "tank/one", "offset": 262_144, "length": 4096}]);

    let server = tank.serve();
    tank.ask("status -t tank").ended(0);
    let mut client = tank.client("one");
    for block in 0..256 {
        let read = client.try_read(block * 4096, 4096);
        assert_eq!(read.is_none(), lost.contains(&(block as usize)), "{block}");
    }
    let status = tank.ask("status tank --json").json();
    assert_eq!((&status["pool"]["damaged"], &status["pool"]["damaged_beyond"]), (&ranges, &0.into()));
    assert_eq!((&status["pool"]["state"][1], &status["pool"]["blocks_lost"]), (&"damaged".into(), &3.into()));
    let events = status["events"].as_array().unwrap();
    let of = |kind: &str| events.iter().find(|event| event["kind"] == kind);
    assert_eq!(of("block-lost").expect("it is an event")["damaged"]["volume"], "tank/one");
    // The rotten copy is not asked where the pool reads the other one.
    let rotten: u64 = status["pool"]["devices"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|device| device["wrong"].as_u64())
        .sum();
    assert_eq!(status["pool"]["blocks_wrong"], rotten);
    let text = tank.ask("status tank").ended(0).text();
    assert!(text.contains("lost: tank/one: 8192 bytes from byte 65536 on"), "{text}");
    tank.ask("status -t tank").ended(16 | 8);
    let told = tank.ask("monitor --oneshot --config /dev/null tank").ended(0).text();
    assert!(
        told.contains("BlocksLost on tank") && told.contains("tank/one: 8192 bytes from byte 65536"),
        "{told}"
    );
    assert!(told.contains("BlocksCorrected on tank"), "{told}");
    // Metrics are made of the status of the last second.
    let begun = std::time::Instant::now();
    let mut metrics = tank.ask("metrics").ended(0).text();
    while metrics.contains("brindle_volume_damaged_bytes{pool=\"tank\",volume=\"one\"} 0")
        && begun.elapsed().as_secs() < 60
    {
        std::thread::sleep(std::time::Duration::from_millis(100));
        metrics = tank.ask("metrics").ended(0).text();
    }
    for sample in [
        "brindle_volume_damaged_bytes{pool=\"tank\",volume=\"one\"} 12288",
        "brindle_pool_state{pool=\"tank\",state=\"damaged\"} 1",
    ] {
        assert!(metrics.contains(sample), "{metrics}");
    }
    // It ends where it is written anew.
    content[64 * 4096..][..4096].fill(9);
    write(&mut client, 64 * 4096, &[9; 4096]);
    client.close();
    let status = tank.ask("status tank --json").json();
    assert_eq!(status["pool"]["damaged"], serde_json::json!([ranges[0]]));
    tank.ask("stop tank").ok();
    let _told = server.signal_or_ended();

    let checked = tank.run("check --json", &tank.members).ended(4).report();
    assert_eq!((&checked["lost"], &checked["damaged"]), (&2.into(), &serde_json::json!([ranges[0]])));
    let checked = tank.run("check", &tank.members).ended(4);
    assert!(checked.text().contains("lost: tank/one: 8192 bytes from byte 65536 on"));
    let ran = tank.run("cat tank/one", &tank.members).ended(4);
    assert!(ran.err.contains("tank/one: ") && ran.err.contains("from byte 65536 on are lost"), "{}", ran.err);
    // A copy goes on behind them, and the same command goes on with it.
    let copy = tank.dir.path().join("copy");
    let words = format!("cat --output {} tank/one", copy.display());
    for _again in 0..2 {
        let ran = tank.run(&words, &tank.members).ended(4);
        assert!(ran.text().contains("bytes 65536 to 73728"), "{}", ran.text());
        let mut had = content.clone();
        had[65536..73728].fill(0);
        assert!(std::fs::read(&copy).unwrap() == had);
    }
    let map = std::fs::read_to_string(tank.dir.path().join("copy.map")).unwrap();
    assert!(map.contains("0x00010000  0x00002000  -"), "{map}");
    // Not of another state of the pool.
    tank.stopped("volume create", "tank/two 1M").ok();
    tank.run(&words, &tank.members).refused(1, &["copy.map", "the members have changed since"]);
    tank.run(&format!("cat --overwrite --output {} tank/one", tank.members[0].display()), &tank.members)
        .refused(1, &["it is a member"]);
}

/// Every sample of a metric has the labels that the others have, but for the bounds of histograms.
fn one_metric_has_one_set_of_labels(text: &str) {
    let mut labels = std::collections::BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once('{').unwrap_or((line, ""));
        let names: Vec<&str> = rest
            .split("=\"")
            .filter_map(|part| part.rsplit(['{', ',', ' ']).next())
            .filter(|name| *name != "le")
            .collect();
        let names = names[..names.len().saturating_sub(1)].to_vec();
        let others = labels.entry(name).or_insert_with(|| names.clone());
        assert_eq!(*others, names, "{line}");
    }
    assert!(labels.keys().any(|name| name.starts_with("brindle_pool_member_")), "{labels:?}");
}

/// Where a file holds a block.
pub(crate) fn place(path: &Path, block: &[u8]) -> usize {
    let bytes = std::fs::read(path).unwrap();
    bytes.chunks(4096).position(|have| have == block).expect("the member has it") * 4096
}

/// Changes a bit of a block.
pub(crate) fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at + 100] ^= 4;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn what_can_not_be_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let members = files::members(dir.path(), "m", 3, 16 * MIB);
    let names: Vec<&str> = members.iter().map(|path| path.to_str().unwrap()).collect();
    let create = |words: &[&str]| program::brindle(["pool", "create"].iter().chain(words));
    create(&["tank", names[0]]).refused(2, &["stands for itself", "--no-redundancy"]);
    create(&["tank", "raidz2", names[0], names[1]]).refused(2, &["has 2 devices", "needs 3"]);
    create(&["tank", "mirror", names[0], names[0]]).refused(2, &["same device"]);
    create(&["a/b", "mirror", names[0], names[1]]).refused(2, &["is not a name"]);
    create(&["-o", "compression=on", "tank", "mirror", names[0], names[1]]).refused(2, &["no such property"]);
    create(&["tank", "mirror", names[0], "log", names[1]]).refused(2, &["'log'"]);
    for name in [".", ".."] {
        create(&["-f", name, "mirror", names[0], names[1]]).refused(2, &["is not a name"]);
    }
    let unlike = ["tank", "mirror", names[0], names[1], "raidz2", names[2]];
    create(&unlike).refused(2, &["unlike redundancy", "a mirror of 2", "raidz2", "--force"]);
    // These bear the loss of one each.
    create(&["tank", "mirror", names[0], names[1], "raidz1", names[2]]).refused(2, &["has 1 device"]);
    let larger = dir.path().join("larger");
    std::fs::File::create(&larger).unwrap().set_len(64 * MIB).unwrap();
    let told = create(&["-n", "tank", "mirror", names[0], larger.to_str().unwrap()]).ended(0);
    assert!(
        told.err.contains("16 MiB to 64 MiB") && told.err.contains("48 MiB of them stay unused"),
        "{}",
        told.err
    );
    let wide = files::members(dir.path(), "w", 25, 16 * MIB);
    let wide = ["pool", "create", "-n", "tank", "raidz3"].map(PathBuf::from).into_iter().chain(wide);
    assert!(program::brindle(wide).ended(0).err.contains("vdev 0 has 25 devices"));
    create(&["-n", "tank", "raidz", names[0], names[1], names[2]]).ok();
    assert!(members.iter().all(|path| std::fs::read(path).unwrap().iter().all(|byte| *byte == 0)));

    let taken = create(&["-o", "ashift=12", "tank", "raidz", names[0], names[1], names[2]]).ended(0);
    assert!(taken.err.contains("not needed"), "{}", taken.err);
    create(&["pond", "mirror", names[0], names[1]]).refused(1, &["Brindle pool member", "--force"]);
    program::brindle(["create", "-l", "1", names[0], names[1]]).refused(1, &["Brindle pool member"]);
    program::brindle(["cat", names[0], names[1]]).refused(2, &["POOL/VOLUME"]);
    for name in ["tank/.", "tank/.."] {
        let volume = ["volume", "create", "--array", names[0], names[1], names[2], "--", name, "1M"];
        program::brindle(volume).refused(2, &["is not a name"]);
    }
    // A copy beside its original is named, and neither is taken.
    let copy = dir.path().join("copy");
    std::fs::copy(&members[0], &copy).unwrap();
    let twice = ["detail", names[0], names[1], copy.to_str().unwrap()];
    program::brindle(twice).refused(1, &["both are member 0.0"]);
    create(&["--force", "pond", "mirror", names[0], names[1]]).ended(0);
    let destroy = ["pool", "destroy", "--array", names[0], names[1], "--"];
    program::brindle(destroy.iter().chain(&["tank"])).refused(2, &["'pond'", "'tank'"]);
    program::brindle(destroy.iter().chain(&["pond"])).ok();
    program::brindle(["detail", names[0]]).ended(1);
}

#[test]
fn a_truncated_member_is_done_without_and_a_damaged_label_is_written_anew() {
    let tank = Tank::new("raidz1", 3);
    tank.stopped("volume create", "tank/one 1M").ok();
    let content = bytes(5, MIB);
    let server = tank.serve();
    write(&mut tank.client("one"), 0, &content);
    server.stop();
    let whole = std::fs::read(&tank.members[1]).unwrap();
    std::fs::write(&tank.members[1], &whole[..whole.len() / 2]).unwrap();
    let read = tank.run("detail", &tank.members).ended(0);
    assert!(read.err.contains("it is truncated; going on without it"), "{}", read.err);
    assert!(tank.cat(&tank.members) == content);
    std::fs::write(&tank.members[1], &whole).unwrap();

    let mut wrong = std::fs::read(&tank.members[2]).unwrap();
    wrong[40 << 10] ^= 1;
    std::fs::write(&tank.members[2], &wrong).unwrap();
    let check = || tank.run("check --json", &tank.members);
    let checked = check().ended(3);
    assert!(
        checked.err.contains("its label at byte 32768 is damaged; going on with the other"),
        "{}",
        checked.err
    );
    assert_eq!(checked.report()["labels"][0]["offset"], 32768);
    let server = tank.serve();
    tank.ask("stop tank").ok();
    let (status, told) = server.signal_or_ended();
    assert!(status == 0 && told.contains("it is written anew from the other"), "{status} {told}");
    assert_eq!(check().ok().report()["labels"], serde_json::json!([]));
    assert!(tank.cat(&tank.members) == content);
}

/// The type of partition that says that a disk is a member of a pool.
const OURS: &str = "43e4d00b-a67f-4518-8936-3cb2aaa11432";

#[test]
fn whole_disks_of_any_sector_get_a_table_that_other_programs_read_and_lose_it_with_the_pool() {
    let Some(sfdisk) = or_skip(tools::find("sfdisk")) else { return };
    let Some(blkid) = or_skip(tools::find("blkid")) else { return };
    let dir = tempfile::tempdir().unwrap();
    let files = files::members(dir.path(), "m", 3, 16 * MIB);
    let disks: Result<Vec<Loop>, _> =
        files.iter().zip([512, 4096, 512]).map(|(file, sector)| Loop::over(file, sector)).collect();
    let Some(disks) = or_skip(disks) else { return };
    let paths: Vec<PathBuf> = disks.iter().map(|disk| disk.path().to_owned()).collect();
    let has_table = |disk: &Path| {
        let ran = std::process::Command::new(&sfdisk).arg("--dump").arg(disk).output().unwrap();
        String::from_utf8_lossy(&ran.stdout).to_lowercase().contains(OURS)
    };
    let run = |words: &str, members: &[PathBuf], rest: &str| {
        let words = words.split_whitespace().map(PathBuf::from);
        let rest = rest.split_whitespace().map(PathBuf::from);
        program::brindle(words.chain(members.iter().cloned()).chain(rest))
    };
    let made = run("pool create --json tank raidz", &paths, "").json();
    assert_eq!(made["partition_tables"], 3);
    for disk in &paths {
        assert!(has_table(disk), "{}", disk.display());
        tools::run(&sfdisk, ["--verify".as_ref(), disk.as_os_str()]);
        assert!(tools::run(&blkid, ["-p".as_ref(), disk.as_os_str()]).contains("gpt"));
    }
    run("volume create --array", &paths, "-- tank/one 4M").ok();
    run("check", &paths, "").ok();
    let server = Server::start(
        &dir.path().join("run"),
        ["--memory", "32M"].map(PathBuf::from).into_iter().chain(paths.clone()),
    );
    let socket = dir.path().join("run/tank.nbd");
    let mut client = Client::connect(&format!("nbd+unix:///tank/one?socket={}", socket.display()));
    let content = bytes(5, MIB);
    write(&mut client, 0, &content);
    client.close();
    server.stop();
    // Images of the disks are members, too, one of which is not needed.
    assert!(run("cat tank/one", &files[1..], "").ended(0).out[..MIB as usize] == content);
    run("pool create pond raidz", &paths, "").refused(1, &["Brindle pool member", "GPT partition table"]);
    run("pool destroy --array", &paths, "-- tank").ok();
    assert!(!paths.iter().any(|disk| has_table(disk)), "it goes with the pool");
    run("pool create tank mirror", &paths[..2], "").ok();
    run("pool create --force --whole tank mirror", &paths[..2], "").ok();
    assert!(!paths.iter().any(|disk| has_table(disk)), "--whole");
    let found = std::process::Command::new(&blkid).arg("-p").arg(&paths[2]).output().unwrap().stdout;
    assert!(found.is_empty(), "{}", String::from_utf8_lossy(&found));
}

/// Makes something on a device, finds the magic number of a second copy of it at a byte, and has it erased.
#[test]
fn what_is_overwritten_by_force_is_not_found_again_by_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let cases = [
        ("mkfs.btrfs -q", 128, (64 << 20) + 64, b"_BHRfS_M".as_slice()),
        ("mkfs.ext4 -q -b 1024", 32, ((8192 + 1) << 10) + 56, b"\x53\xef"),
        ("mkfs.xfs -q", 300, 75 << 20, b"XFSB"),
        ("mkfs.vfat -F 32", 64, 6 * 512 + 82, b"FAT32"),
    ];
    for (command, mib, place, magic) in cases {
        let (name, args) = command.split_once(' ').unwrap();
        let args = args.split(' ');
        let Some(mkfs) = or_skip(tools::find(name)) else { continue };
        let members = files::members(dir.path(), name, 2, mib * MIB);
        tools::run(&mkfs, args.map(std::ffi::OsStr::new).chain([members[0].as_os_str()]));
        let there = || {
            let mut bytes = vec![0; magic.len()];
            let file = std::fs::File::open(&members[0]).unwrap();
            std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, place).unwrap();
            bytes == magic
        };
        assert!(there(), "{name} has no copy at byte {place}");
        let words = ["pool", "create", "tank", "mirror"].map(PathBuf::from).into_iter();
        let create = words.chain(members.clone()).collect::<Vec<_>>();
        program::brindle(create.iter()).refused(1, &["file system", "--force"]);
        assert!(there(), "{name}: refused, and changed all the same");
        program::brindle(create.iter().chain(&[PathBuf::from("--force")])).ok();
        assert!(!there(), "{name}: its copy is there still");
    }
}

#[test]
fn an_array_and_a_pool_are_served_by_one_process_over_both_protocols() {
    let Some(qemu_io) = or_skip(tools::find("qemu-io")) else { return };
    let tank = Tank::new("mirror", 2);
    tank.stopped("volume create", "tank/one 1M").ok();
    let members = files::members(tank.dir.path(), "a", 2, 16 * MIB);
    tank.run("create -l 1 -N a", &members).ok();
    let state = tank.dir.path().join("state");
    let flags = ["--memory", "64M", "--iscsi", "127.0.0.1:0", "--iscsi-state"].map(PathBuf::from).into_iter();
    let all = flags.chain([state]).chain(members).chain(tank.members.clone());
    let server = Server::start(&tank.runtime(), all);
    // Of a volume that was there, one that was made since, and the array.
    tank.ask("volume create tank/two 1M").ok();
    let status = tank.ask("status --json").json();
    let reports: Vec<_> = status.as_array().cloned().unwrap_or_else(|| vec![status.clone()]);
    let of = |name: &str| reports.iter().find(|report| report["name"] == name).expect("it is served");
    let mut targets: Vec<String> =
        of("tank")["iscsi"].as_array().unwrap().iter().map(|uri| uri.as_str().unwrap().to_owned()).collect();
    assert_eq!(targets.len(), 2, "{targets:?}");
    assert!(targets[0].contains(":tank-one.") && targets[1].contains(":tank-two."), "{targets:?}");
    let array = of("a")["iscsi"]["addresses"][0].as_str().unwrap().to_owned();
    targets.push(array);
    let io = |uri: &str, does: &str| {
        let ran = std::process::Command::new(&qemu_io).args(["-f", "raw", "-c", does, uri]).output().unwrap();
        (ran.status.success(), String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned())
    };
    for (at, uri) in targets.iter().enumerate() {
        let (done, out) = io(uri, &format!("write -P {} 4608 66048", at + 1));
        assert!(done && !out.contains("error"), "{uri}: {out}");
    }
    for (at, uri) in targets.iter().enumerate() {
        let (done, out) = io(uri, &format!("read -P {} 4608 66048", at + 1));
        assert!(done && !out.contains("erification failed"), "{uri}: {out}");
    }
    let uri = of("tank")["nbd"][1].as_str().unwrap().replace("%2F", "/");
    assert_eq!(Client::connect(&uri).read(4608, 66048), [2; 66048], "NBD has the same");
    one_metric_has_one_set_of_labels(&tank.ask("metrics").ended(0).text());
    // The URI that the status prints is one for our own client, too.
    let uri = of("tank")["nbd"][1].as_str().unwrap();
    assert!(uri.contains("tank%2Ftwo"), "{uri}");
    program::brindle(["bench", "--nbd", uri, "--name", "x", "--rw", "read", "--bs", "4k", "--size", "64k"])
        .ended(0);
    // A volume that is renamed is another target, and one that is destroyed is none.
    tank.ask("volume rename tank/two tank/three").ok();
    tank.ask("volume destroy tank/one").ok();
    let left = tank.ask("status tank --json").json();
    let left: Vec<&str> = left["iscsi"].as_array().unwrap().iter().map(|uri| uri.as_str().unwrap()).collect();
    assert!(left.len() == 1 && left[0].contains(":tank-three."), "{left:?}");
    assert!(!io(&targets[0], "read 0 512").0 && io(left[0], "read -P 2 4608 512").0);
    // Each stops by itself, and the other goes on.
    tank.ask("stop tank").ok();
    assert!(io(&targets[2], "read -P 3 4608 512").0);
    // The volume that was destroyed was asked for.
    server.stop_after_refusing("there is no such target");
    tank.run("check", &tank.members).ok();
}

/// Logs in to ask which targets there are, and asks nothing.
fn discovers(address: &str) -> TcpStream {
    let text = b"InitiatorName=iqn.2026-11.example:stranger\0SessionType=Discovery\0";
    let mut login = [0; 48];
    // An immediate login request from operational negotiation to full feature phase.
    (login[0], login[1], login[7]) = (0x43, 0x87, text.len() as u8);
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&[&login[..], text, &[0; 3][..text.len().wrapping_neg() % 4]].concat()).unwrap();
    let mut reply = [0; 48];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!((reply[0], reply[1], reply[36]), (0x23, 0x87, 0), "it is logged in");
    stream
}

#[test]
fn the_clients_of_a_pool_are_shown_and_disconnected() {
    let tank = Tank::new("mirror", 2);
    for volume in ["one", "two"] {
        tank.stopped("volume create", &format!("tank/{volume} 1M")).ok();
    }
    let state = tank.dir.path().join("state");
    let flags = ["--memory", "64M", "--iscsi", "127.0.0.1:0", "--iscsi-state"].map(PathBuf::from).into_iter();
    let server = Server::start(&tank.runtime(), flags.chain([state]).chain(tank.members.clone()));
    let status = || tank.ask("status tank --json").json();
    let [one, two] = [0, 1].map(|at| status()["nbd"][at].as_str().unwrap().replace("%2F", "/"));
    let uri = status()["iscsi"][0].as_str().unwrap().to_owned();
    let mut stranger = discovers(uri.trim_start_matches("iscsi://").split('/').next().unwrap());
    let _clients = [Client::connect(&one), Client::connect(&two)];
    let reported = status();
    let clients = reported["clients"].as_array().unwrap();
    assert_eq!(clients.len(), 3, "{clients:?}");
    for volume in ["tank/one", "tank/two"] {
        assert!(clients.iter().any(|of| of["volume"] == volume && of["discovery"] == false), "{clients:?}");
    }
    assert!(clients.iter().any(|of| of["volume"].is_null() && of["discovery"] == true), "{clients:?}");
    let text = tank.ask("status tank").ok().text();
    assert!(
        text.contains("iscsi (discovery) from 127.0.0.1") && text.contains("nbd to tank/two from local"),
        "{text}"
    );
    let ended = |of: &str| tank.ask(&format!("disconnect {of} --json")).json()["disconnected"].clone();
    assert_eq!(ended("tank/two"), 2, "its client, and the session that only asks");
    // The rest of the reply, and the end.
    let _ = stranger.read_to_end(&mut Vec::new());
    assert_eq!(ended("tank 10.0.0.1"), 0);
    assert_eq!(ended("tank local"), 1);
    until("no client is left", || status()["clients"].as_array().is_some_and(Vec::is_empty));
    server.stop();
}
