//! A file system on a volume, and all that happens to its pool in a bad week: members replaced, one gone and back, a device more, kills.
//!
//! The kernel's ext4 lies on a loop device over a file of FUSE, behind which nbdkit has the volume by NBD, and asks again when its server is gone.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use brindle_tests::files::{self, KIB, MIB};
use brindle_tests::loops::Loop;
use brindle_tests::program::Server;
use brindle_tests::tools::{self, Missing, or_skip};
use rustix::process::Signal;
use serde_json::Value;

use super::pools::{Tank, bytes};
use crate::cli::until;

/// Bytes of each file, and how many there are.
const FILE: u64 = 256 * KIB;
const FILES: usize = 48;

/// A volume as a file of FUSE, over a client that connects anew when its server is gone, and asks again what had no answer; ended when dropped.
struct Fused {
    children: [Child; 2],
    file: PathBuf,
}

impl Fused {
    fn new(dir: &Path, socket: &Path, export: &str) -> Result<Self, Missing> {
        let (kit, fuse) = (tools::find("nbdkit")?, tools::find("nbdfuse")?);
        if !Path::new("/dev/fuse").exists() {
            return Err(Missing::new("there is no /dev/fuse"));
        }
        let (file, patient) = (dir.join("fused"), dir.join("patient"));
        files::sparse(&file, 0);
        let uri = format!("uri=nbd+unix:///{export}?socket={}", socket.display());
        let mut asks = Command::new(kit);
        asks.args(["-f", "--filter=retry", "-U"]).arg(&patient).args(["nbd", &uri]);
        asks.args(["retries=300", "retry-delay=1", "retry-exponential=no"]).stderr(Stdio::null());
        let asks = asks.spawn().unwrap();
        until("the patient client is there", || patient.exists());
        let mut fused = Command::new(fuse);
        let fused = fused.arg(&file).arg("--unix").arg(&patient).stderr(Stdio::null()).spawn().unwrap();
        let fused = Self { children: [fused, asks], file };
        until("the volume is a file", || fs::metadata(&fused.file).is_ok_and(|file| file.len() > 0));
        Ok(fused)
    }
}

impl Drop for Fused {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = rustix::process::kill_process(rustix::process::Pid::from_child(child), Signal::TERM);
            let _ = child.wait();
        }
    }
}

/// A file system that is mounted, until it is dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn new(device: &Path, at: PathBuf, options: &str) -> Self {
        fs::create_dir_all(&at).unwrap();
        let mut command = Command::new(tools::find("mount").unwrap());
        let status = command.args(["-o", options]).arg(device).arg(&at).status().unwrap();
        assert!(status.success(), "{} is mounted", device.display());
        Self(at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// The content of a file that was written in that turn.
fn content(turn: usize) -> Vec<u8> {
    bytes(turn as u64 * 2 + 1, FILE)
}

/// Writes files one after the other, each made stable and then renamed over the one before, until it is told to end. Gives the turn of each.
fn write_files(folder: &Path, ends: &AtomicBool, written: &AtomicUsize) -> Vec<usize> {
    let mut turns = vec![0; FILES];
    let mut turn = 0;
    while !ends.load(Ordering::Relaxed) || turn < FILES {
        turn += 1;
        let (new, name) = (folder.join("new"), folder.join((turn % FILES).to_string()));
        let mut file = File::create(&new).unwrap();
        file.write_all(&content(turn)).unwrap();
        file.sync_all().unwrap();
        fs::rename(new, name).unwrap();
        turns[turn % FILES] = turn;
        written.store(turn, Ordering::Relaxed);
    }
    File::open(folder).unwrap().sync_all().unwrap();
    turns
}

/// The pool and its server.
struct Week<'a> {
    tank: Tank,
    server: Option<Server>,
    kills: usize,
    written: &'a AtomicUsize,
}

impl Week<'_> {
    /// Some more files are written.
    fn goes_on(&self) {
        let before = self.written.load(Ordering::Relaxed);
        until("files are written", || self.written.load(Ordering::Relaxed) >= before + 3);
    }

    /// The server is killed, and another is there at once.
    fn kill(&mut self, flags: &[&str]) {
        self.is_killed();
        self.starts(flags);
    }

    fn is_killed(&mut self) {
        assert_eq!(self.server.take().unwrap().signal(Signal::KILL).0, -1);
        self.kills += 1;
    }

    fn starts(&mut self, flags: &[&str]) {
        let count = self.tank.members.len();
        self.tank.members.rotate_left(self.kills % count);
        let flags = ["--memory", "64M"].iter().chain(flags).map(PathBuf::from);
        let members = self.tank.members.iter().cloned();
        self.server = Some(Server::start(&self.tank.runtime(), flags.chain(members)));
        self.goes_on();
    }

    fn pool(&self) -> Value {
        self.tank.ask("status tank --json").ended(0).report()["pool"].clone()
    }

    fn has(&self, device: &Path) -> bool {
        let pool = self.pool();
        let all = pool["devices"].as_array().unwrap();
        all.iter().any(|one| one["path"] == device.display().to_string() && one["state"] == "online")
    }

    /// One member gets another's place; the server is killed on the way, and when it is done.
    fn replace(&mut self, old: &Path, new: &Path) {
        self.tank.ask(&format!("pool replace tank {} {}", old.display(), new.display())).ended(0);
        std::thread::sleep(Duration::from_millis(30));
        self.is_killed();
        // A device without a label is no member, and is not named.
        let examined = self.tank.run("examine", &[new.to_owned()]).text();
        let is_member = examined.contains("of the pool \"tank\"");
        self.tank.members.extend(is_member.then(|| new.to_owned()));
        self.starts(&[]);
        self.tank.ask("wait tank").ended(0);
        if !self.has(new) {
            self.tank.members.retain(|member| *member != new);
            self.tank
                .ask(&format!("pool replace tank -w --force {} {}", old.display(), new.display()))
                .ended(0);
            self.tank.members.push(new.to_owned());
        }
        assert!(self.has(new), "{}", self.pool());
        self.tank.members.retain(|member| member != old);
        self.kill(&[]);
    }
}

#[test]
fn ext4_on_a_volume_lives_through_replacements_a_member_that_goes_a_device_more_and_ten_kills() {
    let Some(mkfs) = or_skip(tools::find("mkfs.ext4")) else { return };
    let Some(fsck) = or_skip(tools::find("e2fsck")) else { return };
    let dir = tempfile::tempdir().unwrap();
    let members = files::members(dir.path(), "m", 6, 32 * MIB);
    let tank = Tank { dir, members };
    tank.run("pool create tank raidz2", &tank.members).ok();
    tank.stopped("volume create", "tank/one 48M").ok();
    let server = Some(tank.serve());
    let new = files::members(tank.dir.path(), "n", 3, 32 * MIB);
    let fused = Fused::new(tank.dir.path(), &tank.runtime().join("tank.nbd"), "tank/one");
    let Some(fused) = or_skip(fused) else { return };
    let Some(device) = or_skip(Loop::over(&fused.file, 512)) else { return };
    tools::run(&mkfs, [Path::new("-q"), device.path()]);
    let (ends, written) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mounted = Mounted::new(device.path(), tank.dir.path().join("mounted"), "rw");
    let mut week = Week { tank, server, kills: 0, written: &written };
    let turns = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_files(&mounted.0, &ends, &written));
        // Whatever fails, the writer ends.
        let lived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| live(&mut week, &new)));
        ends.store(true, Ordering::Relaxed);
        let turns = writer.join().unwrap();
        lived.unwrap_or_else(|why| std::panic::resume_unwind(why));
        turns
    });
    drop(mounted);
    drop(device);
    drop(fused);
    // All is read from the members, and nothing from a cache.
    let (server, tank) = (week.server.take().unwrap(), week.tank);
    assert_eq!(server.signal(Signal::TERM).0, 0);
    let image = tank.dir.path().join("image");
    fs::write(&image, tank.cat(&tank.members)).unwrap();
    tools::run(&fsck, [Path::new("-fn"), &image]);
    let Some(device) = or_skip(Loop::over(&image, 512)) else { return };
    let mounted = Mounted::new(device.path(), tank.dir.path().join("read"), "ro");
    for (n, &turn) in turns.iter().enumerate() {
        assert!(
            fs::read(mounted.0.join(n.to_string())).unwrap() == content(turn),
            "file {n}, of turn {turn}"
        );
    }
}

/// Two of six members are replaced one after the other, one goes and comes back, one more is attached.
fn live(week: &mut Week<'_>, new: &[PathBuf]) {
    let all = week.tank.members.clone();
    week.goes_on();
    week.kill(&[]);
    week.replace(&all[0], &new[0]);
    week.replace(&all[3], &new[1]);
    // It goes with a kill, and another server does without it; then it is back, and gets what it missed.
    week.tank.members.retain(|member| *member != all[5]);
    week.kill(&["--degraded"]);
    assert_eq!(week.pool()["state"][1], "degraded");
    week.tank.members.push(all[5].clone());
    week.kill(&[]);
    week.kill(&[]);
    week.tank.ask("wait tank").ended(0);
    week.tank.ask(&format!("pool attach tank raidz2-0 {}", new[2].display())).ended(0);
    week.tank.members.push(new[2].clone());
    week.kill(&[]);
    week.goes_on();
    week.kill(&[]);
    let scrubbed = week.tank.ask("pool scrub -w tank").ended(0).text();
    assert!(scrubbed.contains("healed 0 blocks") && scrubbed.contains(" 0 errors"), "{scrubbed}");
    assert_eq!(week.pool()["state"], serde_json::json!(["online"]));
    assert_eq!((week.kills, week.pool()["devices"].as_array().unwrap().len()), (10, 7));
}
