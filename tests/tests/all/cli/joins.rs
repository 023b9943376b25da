//! Pools, arrays with a bitmap in a file, and those that a file of access names, come to a daemon that runs.

use std::os::unix::net::UnixStream;

use brindle_export::nbd::client::Client as NbdClient;
use brindle_tests::nbd::{Change, Client, Work};
use brindle_tests::tools::{self, or_skip};
use rustix::process::Signal;

use super::*;

/// Disks that are put one by one into the folder where a daemon looks. It serves an array `a` from the start.
struct Bay {
    set: Set,
    folder: PathBuf,
    file: PathBuf,
}

impl Bay {
    /// With so many disks beside the two of `a`.
    fn new(others: usize) -> Self {
        let set = Set::sparse(2 + others, 16 * MIB);
        let folder = set.path("disks");
        std::fs::create_dir(&folder).unwrap();
        run("create -l 1 -N here:a", &set.members[..2]).ok();
        let bay = Self { file: set.path("brindle.toml"), folder, set };
        (0..2).for_each(|at| drop(bay.come(at)));
        bay
    }

    /// With a pool `tank` of all other disks and its volumes `one` and `two`.
    fn with_tank(vdev: &str, disks: usize) -> Self {
        let bay = Self::new(disks);
        let tank = &bay.set.members[2..];
        run(&format!("pool create tank {vdev}"), tank).ok();
        for volume in ["one", "two"] {
            let names = ["--".into(), format!("tank/{volume}").into(), "1M".into()];
            run("volume create --array", &[tank, &names].concat()).ok();
        }
        bay
    }

    fn settings(&self, lines: &str) {
        let head = format!("homehost = \"here\"\nwait = \"1ms\"\ndevices = [{:?}]\n", self.folder);
        std::fs::write(&self.file, head + "[tuning]\nmemory = \"64M\"\n" + lines).unwrap();
    }

    fn start(&self) -> Server {
        Server::start_by(
            "daemon",
            &self.set.runtime(),
            words("--config", std::slice::from_ref(&self.file)),
            &[],
        )
    }

    /// A disk appears.
    fn come(&self, at: usize) -> PathBuf {
        let to = self.folder.join(self.set.members[at].file_name().unwrap());
        std::fs::rename(&self.set.members[at], &to).unwrap();
        to
    }

    /// A disk is pulled.
    fn go(&self, at: usize) {
        let from = self.folder.join(self.set.members[at].file_name().unwrap());
        std::fs::rename(from, &self.set.members[at]).unwrap();
    }

    fn ask(&self, command: &str) -> Ran {
        run(&format!("{command} --runtime-dir {}", self.set.runtime().display()), &[])
    }

    fn reload(&self) -> String {
        self.ask("reload").ok().text()
    }

    /// `brindle incremental`, as the udev rule runs it.
    fn hand(&self, flags: &str, device: &Path) -> Ran {
        let runtime = self.set.runtime();
        let command = format!("incremental --json {flags} --config {} --runtime-dir", name(&self.file));
        run(&command, &[runtime, device.to_owned()])
    }

    fn status(&self, of: &str) -> Value {
        self.ask(&format!("status --json {of}")).report()
    }

    /// A client of an export.
    fn client(&self, export: &str) -> Client {
        let socket = self.set.runtime().join("brindle.nbd");
        Client::connect(&format!("nbd+unix:///{export}?socket={}", socket.display()))
    }

    /// Whether a client of this machine may only read; none if it may not even do that.
    fn right(&self, export: &str) -> Option<bool> {
        let socket = UnixStream::connect(self.set.runtime().join("brindle.nbd")).unwrap();
        let mut client = NbdClient::connect(socket, export).ok()?;
        Some(client.write(0, &[7; 4096]).is_err())
    }
}

fn write(client: &mut Client, at: u64, byte: u8) {
    let work = Work::Write { data: vec![byte; 4096], fua: true };
    client.all_at_once(&[Change { offset: at, len: 4096, work }]);
}

#[test]
fn a_pool_comes_when_its_members_do() {
    let bay = Bay::with_tank("raidz", 3);
    bay.settings("[[pools]]\nname = \"tank\"\nlimits = { iops = 1000 }\n");
    let server = bay.start();
    assert_eq!(bay.hand("", &bay.folder.join("m0.img")).ended(0).report()["outcome"], "served");

    // Two of three: a reload leaves it, and who hands one over waits for the third.
    let (first, second) = (bay.come(2), bay.come(3));
    let reported = bay.reload();
    assert!(reported.contains("tank is not served: member 0.2 of tank was there"), "{reported}");
    bay.ask("status tank").ended(1);
    let last = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(1500));
            bay.come(4);
        });
        bay.hand("--wait 10m", &second).ended(0).report()
    });
    assert_eq!(last["outcome"], "started", "{last}");
    let tank = bay.status("tank");
    assert_eq!((&tank["server"], &tank["limits"]["iops"]), (&"brindle".into(), &1000.into()));
    assert_eq!(tank["pool"]["state"], serde_json::json!(["online"]), "{tank}");
    assert_eq!(tank["nbd"].as_array().map(Vec::len), Some(2), "each volume is an export: {tank}");
    let (mut one, mut two) = (bay.client("tank/one"), bay.client("tank/two"));
    write(&mut one, 4096, 1);
    write(&mut two, 4096, 2);
    assert_eq!((one.read(4096, 4096)[0], two.read(4096, 4096)[0]), (1, 2));
    one.close();
    two.close();
    bay.ask("volume create tank/three 1M").ok();
    bay.client("tank/three").close();

    // It goes by itself, and comes again without a member once that was waited for.
    bay.ask("stop tank").ok();
    bay.go(4);
    let started = bay.hand("--wait 100ms", &first).ended(0).report();
    let words = started["changed"][0].as_str().unwrap();
    assert!(
        words.contains("tank is served: member 0.2 of tank was there") && words.contains("missing"),
        "{words}"
    );
    let tank = bay.status("tank");
    assert!(state(&tank["pool"]).contains(&"degraded"), "{tank}");
    assert_eq!(bay.client("tank/one").read(4096, 4096)[0], 1);
    let (code, err) = server.signal(Signal::TERM);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn a_pool_comes_with_the_settings_and_goes_with_them() {
    let bay = Bay::with_tank("mirror", 2);
    (2..4).for_each(|at| drop(bay.come(at)));
    bay.settings("");
    let server = bay.start();
    bay.ask("status tank").ended(1);
    bay.settings("[[pools]]\nname = \"tank\"\n");
    let reported = bay.reload();
    assert!(reported.contains("tank is served\n") && !reported.contains("takes effect"), "{reported}");
    let mut client = bay.client("tank/one");
    write(&mut client, 0, 7);
    client.close();
    assert_eq!(bay.reload(), "brindle: nothing has changed\n");

    // Its members are free when it is gone, and it comes again.
    bay.settings("");
    let reported = bay.reload();
    assert_eq!(reported, "tank is stopped: the settings mean it no more\n");
    bay.ask("status tank").ended(1);
    run("check", &[bay.folder.join("m2.img"), bay.folder.join("m3.img")]).ok();
    bay.settings("[[pools]]\nname = \"tank\"\naccess = \"read-only\"\n");
    assert!(bay.reload().contains("tank is served\n"));
    assert_eq!(bay.right("tank/one"), Some(true), "it is read-only now");
    assert_eq!(bay.client("tank/one").read(0, 4096)[0], 7);

    // All that is served is not taken away by settings: the daemon would end.
    bay.ask("stop a").ok();
    (0..2).for_each(|at| bay.go(at));
    bay.settings("");
    let reported = bay.reload();
    assert!(reported.contains("'tank' is gone, and all that is served"), "{reported}");
    assert_eq!(bay.client("tank/one").read(0, 4096)[0], 7);
    let (code, err) = server.signal(Signal::TERM);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn a_pool_whose_name_another_has_is_refused_and_keeps_nothing_else_out() {
    let bay = Bay::with_tank("mirror", 2);
    let array = files::members(bay.set.dir.path(), "t", 2, 4 * MIB);
    run("create -l 1 -N here:tank", &array).ok();
    array.iter().for_each(|one| std::fs::rename(one, bay.folder.join(one.file_name().unwrap())).unwrap());
    bay.settings("[[pools]]\nname = \"tank\"\n");
    let server = bay.start();
    bay.come(2);
    let last = bay.come(3);
    let refused = bay.hand("", &last).ended(1);
    assert!(refused.err.contains("there is an array or a pool called 'tank' already"), "{}", refused.err);
    assert_eq!(bay.status("tank")["array"]["level"], "raid1");
    let (code, err) = server.signal(Signal::TERM);
    assert_eq!(code, 0, "{err}");
    // Nor does it at the next start.
    let server = bay.start();
    assert_eq!(bay.status("tank")["array"]["level"], "raid1");
    assert_eq!(bay.status("a")["server"], "brindle");
    let (code, err) = server.signal(Signal::TERM);
    assert!(
        code == 0 && err.contains("tank is not served: there is an array or a pool of that name"),
        "{err}"
    );
}

#[test]
fn an_array_comes_with_the_file_of_its_bitmap() {
    let bay = Bay::new(3);
    let bits = bay.set.path("bits");
    let create = format!("create -l 5 -c 64K -N here:b --bitmap {} --bitmap-chunk 64K", name(&bits));
    run(&create, &bay.set.members[2..]).ok();
    let group = "[[policies.spare-groups]]\nname = \"g\"\narrays = [\"a\", \"b\"]\n";
    bay.settings(&format!("{group}[[arrays]]\nname = \"b\"\nbitmap = {bits:?}\n"));
    // Neither the file nor a group that names it keeps anything from being served.
    let server = bay.start();
    bay.ask("status b").ended(1);
    bay.come(2);
    bay.come(3);
    let last = bay.come(4);
    let started = bay.hand("", &last).ended(0).report();
    assert_eq!(started["changed"], serde_json::json!(["b is served"]), "{started}");
    assert_eq!(bay.status("b")["spare_group"], "g");
    let bitmap = || bay.status("b")["array"]["bitmap"].clone();
    assert_eq!((&bitmap()["file"], &bitmap()["failed"]), (&name(&bits).into(), &false.into()));
    let mut client = bay.client("b");
    write(&mut client, 0, 9);
    client.close();

    // It is free when the array is stopped, and a reload has it again.
    bay.ask("stop b").ok();
    assert!(bay.reload().contains("b is served\n"));
    assert_eq!(bitmap()["failed"], false);
    assert_eq!(bay.client("b").read(0, 4096)[0], 9);
    // Without its file it is not served, and with it again.
    bay.ask("stop b").ok();
    std::fs::rename(&bits, bay.set.path("elsewhere")).unwrap();
    let reported = bay.reload();
    assert!(reported.contains("b is not served: ") && reported.contains(name(&bits)), "{reported}");
    std::fs::rename(bay.set.path("elsewhere"), &bits).unwrap();
    assert!(bay.reload().contains("b is served\n"));
    let (code, err) = server.signal(Signal::TERM);
    assert_eq!(code, 0, "{err}");
    let members: Vec<PathBuf> = (2..5).map(|at| bay.folder.join(format!("m{at}.img"))).collect();
    let detail = run(&format!("detail --json --bitmap {}", name(&bits)), &members).json();
    assert_eq!((state(&detail), &detail["consistency_policy"]), (vec!["clean"], &"bitmap".into()));
}

#[test]
fn a_file_of_access_holds_for_those_that_come() {
    let bay = Bay::with_tank("mirror", 2);
    let array = files::members(bay.set.dir.path(), "b", 2, 4 * MIB);
    run("create -l 1 -N here:b", &array).ok();
    let rules = bay.set.path("access");
    let say = |text: &str| std::fs::write(&rules, text).unwrap();
    say("a anyone write\nb anyone read\ntank local write\n");
    bay.settings(&format!("[exports]\naccess = {rules:?}\n[[pools]]\nname = \"tank\"\n"));
    let server = bay.start();
    array.iter().for_each(|one| std::fs::rename(one, bay.folder.join(one.file_name().unwrap())).unwrap());
    bay.come(2);
    let last = bay.come(3);
    assert_eq!(bay.hand("", &last).ended(0).report()["outcome"], "started");
    assert!(bay.reload().contains("b is served\n"));
    let rights = |exports: &[&str]| exports.iter().map(|export| bay.right(export)).collect::<Vec<_>>();
    let all = ["a", "b", "tank/one", "tank/two"];
    assert_eq!(rights(&all), [Some(false), Some(true), Some(false), Some(false)]);

    // Another file is taken for those that came, too: clients whose right is another are ended.
    let mut client = bay.client("tank/one");
    client.read(0, 4096);
    say("a anyone write\nb anyone write\ntank anyone read\n");
    bay.reload();
    let begun = std::time::Instant::now();
    while bay.status("tank")["connections"] != 0 {
        assert!(begun.elapsed().as_secs() < 60, "{}", bay.status("tank"));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop(client);
    assert_eq!(rights(&all), [Some(false), Some(false), Some(true), Some(true)]);
    // One that stops and comes back is found under the rules of now, and a volume that is new, too.
    bay.ask("stop tank").ok();
    assert!(bay.reload().contains("tank is served\n"));
    assert_eq!(rights(&all[2..]), [Some(true), Some(true)]);
    say("a anyone write\nb anyone write\n");
    bay.reload();
    assert_eq!(rights(&all), [Some(false), Some(false), None, None]);
    let (code, err) = server.signal(Signal::TERM);
    let lines =
        ["has lines for \"tank\", which is not served now", "has no line for tank: nobody may use it"];
    assert!(code == 0 && lines.iter().all(|line| err.contains(line)), "{code}: {err}");
}

#[test]
fn those_that_come_are_targets_too() {
    let Some(qemu_io) = or_skip(tools::find("qemu-io")) else { return };
    let bay = Bay::with_tank("mirror", 2);
    let array = files::members(bay.set.dir.path(), "b", 2, 4 * MIB);
    run("create -l 1 -N here:b", &array).ok();
    let kept = bay.set.path("kept");
    let iscsi = format!("[exports.iscsi]\nportals = [\"127.0.0.1:0\"]\nstate = {kept:?}\n");
    bay.settings(&format!("{iscsi}[[pools]]\nname = \"tank\"\n"));
    let server = bay.start();
    array.iter().for_each(|one| std::fs::rename(one, bay.folder.join(one.file_name().unwrap())).unwrap());
    (2..4).for_each(|at| drop(bay.come(at)));
    let reported = bay.reload();
    assert!(["b is served\n", "tank is served\n"].iter().all(|words| reported.contains(words)), "{reported}");
    let b = bay.status("b")["iscsi"]["addresses"].clone();
    let tank = bay.status("tank")["iscsi"].clone();
    let all = [&b[0], &tank[0], &tank[1]].map(|uri| uri.as_str().expect("a target").to_owned());
    let io = |uri: &str, does: &str| {
        let ran = std::process::Command::new(&qemu_io).args(["-f", "raw", "-c", does, uri]).output().unwrap();
        let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
        assert!(ran.status.success() && !said.contains("rror") && !said.contains("failed"), "{uri}: {said}");
    };
    for (at, uri) in all.iter().enumerate() {
        io(uri, &format!("write -P {} 4608 66048", at + 1));
    }
    for (at, uri) in all.iter().enumerate() {
        io(uri, &format!("read -P {} 4608 66048", at + 1));
    }
    bay.ask("stop b").ok();
    bay.ask("stop tank").ok();
    assert!(bay.reload().contains("b is served\n"), "their targets went with them");
    io(&all[0], "read -P 1 4608 66048");
    let (code, err) = server.signal(Signal::TERM);
    assert_eq!(code, 0, "{err}");
}
