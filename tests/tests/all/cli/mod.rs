//! The program, proved as a user would: on files, with other people's NBD clients, and with everything that can be
//! wrong with what it is given.

mod actions;
mod advise;
mod agree;
mod assembled;
mod assumed;
mod background;
mod bad_places;
mod bench;
mod bitmap_added;
mod bitmap_files;
mod client_access;
mod configured;
mod containers;
mod control;
mod cores;
mod crash;
mod daemon;
mod daemon_goldens;
mod damaged_disks;
mod devices;
mod emulate;
mod every_level;
mod exports;
mod fio_plot;
mod flags;
mod foreign_content;
mod full;
mod goldens;
mod groups;
mod grown;
mod guards;
mod hang;
mod idle;
mod joins;
mod limits;
mod log;
mod lost_members;
mod members_in_use;
pub(crate) mod memory;
mod metrics;
mod monitored;
mod names;
mod nas;
mod near_words;
mod next_step;
mod not_served;
mod overlay;
mod partitioned;
mod places;
mod plan;
mod pool_goldens;
mod pool_history;
mod pool_hosts;
mod pool_shown;
mod power;
mod predict;
mod profile;
mod pulled;
mod readd;
mod readd_together;
mod refuse;
mod reliability;
mod report;
mod rescue;
mod seccomp;
mod secure;
mod serve;
mod several;
mod shortfalls;
mod sparse;
mod starts;
mod sweep;
mod takeover;
mod too_many_clients;
mod truncated;
mod unusable_members;
mod updated;
mod watch;
mod words;
mod write_behind;
mod zeroed;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use brindle_tests::files::{self, KIB, MIB};
use brindle_tests::program::{self, Ran, Server};
use serde_json::Value;
use tempfile::TempDir;

/// nbdsh's binding is for the system's Python, which another may hide.
const SYSTEM_PATH: &str = "/usr/bin:/bin";

/// Members of one test in a folder of their own.
struct Set {
    dir: TempDir,
    members: Vec<PathBuf>,
}

impl Set {
    /// `count` sparse members of `size` bytes.
    fn sparse(count: usize, size: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let members = files::members(dir.path(), "m", count, size);
        Self { dir, members }
    }

    /// `count` members full of bytes that look like chance.
    fn random(count: usize, size: u64) -> Self {
        let set = Self::sparse(count, size);
        for (seed, member) in set.members.iter().enumerate() {
            files::write_pattern(member, size, seed as u64);
        }
        set
    }

    /// The usual victim: a small clean RAID 5 of `count` members, called `a`.
    fn raid5(count: usize) -> Self {
        let set = Self::sparse(count, 4 * MIB);
        set.create("-l 5 -c 64K -N a").ok();
        set
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn runtime(&self) -> PathBuf {
        self.path("run")
    }

    /// `brindle COMMAND FLAGS MEMBERS`.
    fn run(&self, command: &str) -> Ran {
        run(command, &self.members)
    }

    fn create(&self, flags: &str) -> Ran {
        self.run(&format!("create {flags}"))
    }

    /// Serves all members, in little memory: many tests run side by side.
    #[track_caller]
    fn serve(&self, flags: &str) -> Server {
        self.serve_some(&format!("--memory 32M {flags}"), &self.members)
    }

    #[track_caller]
    fn serve_some(&self, flags: &str, members: &[PathBuf]) -> Server {
        Server::start(&self.runtime(), words(flags, members))
    }

    /// `brindle serve`, of which a refusal is expected.
    fn serve_refused(&self, flags: &str) -> Ran {
        self.run(&format!("serve --runtime-dir {} {flags}", self.runtime().display()))
    }

    fn hashes(&self) -> Vec<String> {
        self.members.iter().map(|member| files::sha256(member)).collect()
    }

    /// Asserts that `work` changes no member.
    #[track_caller]
    fn unchanged(&self, work: impl FnOnce()) {
        let before = self.hashes();
        work();
        assert!(self.hashes() == before, "a member was changed");
    }

    #[track_caller]
    fn detail(&self) -> Value {
        self.run("detail --json").json()
    }
}

/// Waits until this is so.
#[track_caller]
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed().as_secs() < 60, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Flags in one text, then paths.
fn words(flags: &str, paths: &[PathBuf]) -> Vec<OsString> {
    flags.split_whitespace().map(OsString::from).chain(paths.iter().map(OsString::from)).collect()
}

fn run(command: &str, paths: &[PathBuf]) -> Ran {
    program::brindle(words(command, paths))
}

/// The words of the array's state in a report.
fn state(array: &Value) -> Vec<&str> {
    array["state"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
}

fn name(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Changes one byte of a file.
fn flip(path: &Path, offset: u64) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[byte[0] ^ 0x55], offset).unwrap();
}
