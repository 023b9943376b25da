//! The array, its server, and what happens to them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use brindle_testkit::hang::{Hang, HangingFiles};
use brindle_testkit::random::Random;
use brindle_tests::program::{self, Server};
use brindle_tests::tools::or_skip;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::fio::Verifier;

/// Devices: those of the array, and two that wait outside to take the place of one.
const DEVICES: usize = 7;
const MEMBERS: usize = 5;
/// Bytes of each.
const SIZE: usize = 52 << 20;
/// Data of members lie in here, whatever stands before and behind them.
const DATA: std::ops::Range<u64> = 4 << 20..48 << 20;
/// Far longer than anything here takes: what is not done by then hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The faults that happen while clients write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Failed,
    Replaced,
    Hung,
    Unreadable,
    FilledUp,
    Rotten,
    Killed,
    KilledWhileRebuilt,
}

/// A RAID 6 of five of seven files, served.
pub(super) struct Scene {
    /// Before the files: what waits for them ends when they go.
    files: HangingFiles,
    folder: TempDir,
    /// Of the array.
    inside: Vec<usize>,
    outside: Vec<usize>,
    server: Option<Server>,
    met: BTreeMap<Fault, u64>,
}

impl Scene {
    pub(super) fn new() -> Option<Self> {
        let files = or_skip(HangingFiles::mount(DEVICES, SIZE))?;
        let folder = tempfile::tempdir().expect("a folder");
        let (inside, outside) = ((0..MEMBERS).collect(), (MEMBERS..DEVICES).collect());
        let mut scene = Self { files, folder, inside, outside, server: None, met: BTreeMap::new() };
        let create = ["create", "-l", "6", "-c", "64K", "-N", "soak", "--bitmap", "none"].map(String::from);
        program::brindle(create.into_iter().chain(scene.members())).ok();
        scene.start(&[]);
        Some(scene)
    }

    /// A summary of the run so far.
    pub(super) fn reported(&self, verifier: &Verifier) -> String {
        let mut reported = format!("{} MiB verified", verifier.verified_mib());
        for (fault, times) in &self.met {
            let _ = write!(reported, ", {fault:?} {times}");
        }
        reported
    }

    fn path(&self, device: usize) -> String {
        self.files.path(device).to_str().expect("a path of this test").to_owned()
    }

    fn members(&self) -> Vec<String> {
        self.inside.iter().map(|&device| self.path(device)).collect()
    }

    fn start(&mut self, flags: &[&str]) {
        let flags = ["--memory", "64M", "--member-timeout", "2s"].iter().chain(flags);
        let args = flags.map(|&flag| flag.to_owned()).chain(self.members());
        let runtime: PathBuf = self.folder.path().join("run");
        self.server = Some(Server::start(&runtime, args));
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("it is served")
    }

    fn status(&self) -> Value {
        self.server().status()["array"].clone()
    }

    fn state_of(&self, device: usize) -> String {
        let (status, path) = (self.status(), self.path(device));
        let devices = status["devices"].as_array().expect("devices").iter();
        let mine = devices.filter(|device| device["path"] == *path);
        mine.map(|device| device["state"].as_str().unwrap_or_default().to_owned()).next().unwrap_or_default()
    }

    /// Bytes that clients have written since the server began.
    fn written(&self) -> u64 {
        self.server().status()["bytes_written"].as_u64().expect("a count")
    }

    fn wait(&self, why: &str, mut done: impl FnMut(&Self) -> bool) {
        let begun = Instant::now();
        while !done(self) {
            assert!(begun.elapsed() < PATIENCE, "{why}: {}", self.status());
            sleep(Duration::from_millis(10));
        }
    }

    /// Waits until all roles have a member in sync, and redundancy is in sync everywhere: also where members had no
    /// room.
    fn wait_until_whole(&self) {
        self.wait("the array does not become whole", |scene| {
            let status = scene.status();
            let words = status["state"].as_array().expect("words");
            let ill = |word: &Value| ["degraded", "resyncing", "recovering"].iter().any(|ill| word == ill);
            !words.iter().any(ill) && status["sync"].is_null() && status["resync_offset"].is_null()
        });
    }

    /// Each fault once, in an order of chance.
    pub(super) fn round(&mut self, verifier: &mut Verifier, random: &mut Random) {
        let mut faults = vec![
            Fault::Failed,
            Fault::Replaced,
            Fault::Hung,
            Fault::Unreadable,
            Fault::FilledUp,
            Fault::Rotten,
            Fault::Killed,
            Fault::KilledWhileRebuilt,
        ];
        verifier.write_first(&self.server().uri());
        while !faults.is_empty() {
            let fault = faults.swap_remove(random.below(faults.len() as u64) as usize);
            self.meet(fault, verifier, random);
            *self.met.entry(fault).or_default() += 1;
            verifier.verify_first(&self.server().uri());
            assert_eq!(self.action("check")["mismatch_cnt"], 0, "after {fault:?}");
        }
    }

    fn meet(&mut self, fault: Fault, verifier: &mut Verifier, random: &mut Random) {
        if fault == Fault::Rotten {
            return self.rot(random);
        }
        let before = self.written();
        let writing = verifier.keep_writing(&self.server().uri());
        self.wait("nothing is written", |scene| scene.written() > before);
        sleep(Duration::from_millis(random.below(200)));
        let at = random.below(self.inside.len() as u64) as usize;
        match fault {
            Fault::Failed => {
                self.server().fail(&self.path(self.inside[at]));
                self.put_another_in_place_of(at);
            }
            Fault::Replaced => self.replace(at),
            Fault::Hung => {
                let device = self.inside[at];
                self.files.hang(Hang::File(device));
                self.wait("a member that hangs is not failed", |scene| scene.state_of(device) == "failed");
                self.files.release();
                self.put_another_in_place_of(at);
            }
            Fault::Unreadable => {
                let place = DATA.start + random.below((DATA.end - DATA.start) / 4096) * 4096;
                self.files.spoil(self.inside[at], place as usize..place as usize + 4096);
                self.action("check");
            }
            Fault::FilledUp => {
                writing.is_doomed();
                self.files.fill_up(true);
                sleep(Duration::from_millis(100 + random.below(400)));
                self.files.fill_up(false);
            }
            Fault::Killed | Fault::KilledWhileRebuilt => {
                let rebuilt = fault == Fault::KilledWhileRebuilt;
                if rebuilt {
                    self.server().fail(&self.path(self.inside[at]));
                    self.exchange(at);
                    sleep(Duration::from_millis(random.below(100)));
                }
                writing.is_doomed();
                self.kill();
                writing.end();
                // Writes were under way when members were lacking: what is not known of their rows is taken as it is.
                self.start(if rebuilt { &["--force"] } else { &[] });
                return self.wait_until_whole();
            }
            Fault::Rotten => unreachable!("nobody writes meanwhile"),
        }
        self.wait_until_whole();
        writing.end();
    }

    /// Bytes of a member change behind everybody's back, while nobody writes: they are found and put right.
    fn rot(&mut self, random: &mut Random) {
        let device = self.inside[random.below(self.inside.len() as u64) as usize];
        let place = DATA.start + random.below((DATA.end - DATA.start) / 4096) * 4096;
        self.files
            .change(device, place as usize, |bytes| bytes[..4096].iter_mut().for_each(|byte| *byte ^= 0x5a));
        let found = self.action("locate");
        assert_ne!(found["mismatch_cnt"], 0, "{found}");
        assert_eq!(self.action("check")["mismatch_cnt"], 0, "{found}");
    }

    /// Begins it, waits for its end, and gives what came of it.
    fn action(&self, word: &str) -> Value {
        self.server().ask("action", &[word, "--json"]).json();
        let ended = self.server().ask("wait", &["--json"]).report();
        let last = ended["last_action"].clone();
        assert!(last["error"].is_null(), "{ended}");
        last
    }

    /// The device at that place has failed: it goes, and another comes.
    fn exchange(&mut self, at: usize) {
        let old = self.inside[at];
        self.wait("what has failed can't be removed", |scene| {
            scene.server().ask("remove", &[&scene.path(old), "--json"]).code == 0
        });
        let new = self.outside.remove(0);
        self.server().ask("add", &["--force", "--json", &self.path(new)]).json();
        self.inside[at] = new;
        self.outside.push(old);
    }

    fn put_another_in_place_of(&mut self, at: usize) {
        self.exchange(at);
        self.wait_until_whole();
    }

    /// The device at that place still works, and another takes its place.
    fn replace(&mut self, at: usize) {
        let (old, new) = (self.inside[at], self.outside.remove(0));
        let args = [&self.path(old), "--with", &self.path(new), "--force", "--json"];
        self.server().ask("replace", &args).json();
        self.inside[at] = new;
        self.outside.push(old);
        self.wait("a member is not replaced", |scene| scene.state_of(old) == "failed");
        self.wait_until_whole();
        self.server().ask("remove", &["failed", "--json"]).json();
    }

    fn kill(&mut self) {
        let server = self.server.take().expect("it is served");
        let (code, _) = server.signal(Signal::KILL);
        assert_eq!(code, -1);
    }

    /// Redundancy is in sync in the end, on the running array and on the members that it leaves.
    pub(super) fn ends(&mut self, verifier: &mut Verifier) {
        verifier.verify_first(&self.server().uri());
        assert_eq!(self.action("check")["mismatch_cnt"], 0);
        let (code, err) = self.server.take().expect("it is served").signal(Signal::TERM);
        assert_eq!(code, 0, "{err}");
        let report =
            program::brindle(["check".to_owned(), "--json".into()].into_iter().chain(self.members()));
        assert_eq!(report.json()["mismatch_cnt"], 0);
    }
}
