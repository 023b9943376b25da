//! Killed in mid-write: servers of Brindle, whose arrays md then takes over, and machines with md, whose arrays Brindle
//! takes over. Either knows what the other left: what is in doubt is brought in sync or refused, and what was flushed is there.

mod client;
mod machine;
mod server;

use std::cell::RefCell;
use std::ops::Range;
use std::path::{Path, PathBuf};

use brindle_testkit::oracle::Oracle;
use brindle_testkit::stamp::SECTOR;
use brindle_tests::files::{self, MIB};
use brindle_tests::program;
use serde_json::Value;

/// Size of each member.
const MEMBER: u64 = 3 * MIB;

/// Chunk of all levels that have one.
const CHUNK: u64 = 16 << 10;

#[derive(Clone, Copy, Debug)]
struct Shape {
    level: &'static str,
    metadata: &'static str,
    members: usize,
    /// Roles without a member when the writes begin.
    lost: &'static [usize],
}

const fn shape(level: &'static str, metadata: &'static str, members: usize, lost: &'static [usize]) -> Shape {
    Shape { level, metadata, members, lost }
}

impl Shape {
    /// Nobody may start it without being forced: its parity is in doubt, and has to stand in for members.
    fn hopeless(&self) -> bool {
        !self.lost.is_empty() && matches!(self.level, "4" | "5" | "6")
    }

    /// Bytes of the array that share parity with this one.
    fn row(&self, at: u64) -> Range<u64> {
        let data = self.members as u64 - if self.level == "6" { 2 } else { 1 };
        let row = at / (data * CHUNK);
        row * data * CHUNK..(row + 1) * data * CHUNK
    }
}

/// An array whose writer is killed.
struct Victim {
    shape: Shape,
    /// Tells it from others.
    number: usize,
    /// Indexed by role; those that are lost too.
    members: Vec<PathBuf>,
    size: u64,
    /// The values that its sectors may hold.
    oracle: RefCell<Oracle>,
}

impl std::fmt::Display for Victim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Shape { level, metadata, members, lost } = self.shape;
        write!(f, "array {}, level {level}, {metadata}, {members} members without {lost:?}", self.number)
    }
}

impl Victim {
    /// Has Brindle make it, full of zeroes; every second one with a write-intent bitmap.
    fn new(dir: &Path, number: usize, shape: Shape) -> Self {
        let members = files::members(dir, &format!("v{number}-"), shape.members, MEMBER);
        let chunk = format!("{}K", CHUNK >> 10);
        let mut words = vec!["create", "--json", "--level", shape.level, "--metadata", shape.metadata];
        if shape.level != "1" {
            words.extend(["--chunk", &chunk]);
        }
        if number % 2 == 1 {
            words.extend(["--bitmap", "internal", "--bitmap-chunk", "64K"]);
        }
        words.extend(members.iter().map(|member| member.to_str().unwrap()));
        let size = program::brindle(words).json()["size"].as_u64().unwrap();
        Self { shape, number, members, size, oracle: RefCell::new(Oracle::zeroes(size)) }
    }

    /// The same array on members of its own, as they are now.
    fn copy(&self, dir: &Path) -> Self {
        let copied = |(role, member): (usize, &PathBuf)| {
            let copy = dir.join(format!("copy{}-{role}", self.number));
            std::fs::copy(member, &copy).unwrap();
            copy
        };
        let members = self.members.iter().enumerate().map(copied).collect();
        Self { members, oracle: self.oracle.clone(), ..*self }
    }

    /// The members that are left.
    fn left(&self) -> Vec<PathBuf> {
        let left = self.members.iter().enumerate().filter(|(role, _)| !self.shape.lost.contains(role));
        left.map(|(_, member)| member.clone()).collect()
    }

    /// Waits until a killed server has let go of the members: the kernel ends its ring later than the process.
    fn released(&self) {
        for member in self.left() {
            let file = std::fs::File::open(member).unwrap();
            for _ in 0..600 {
                if file.try_lock().is_ok() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
        }
    }

    /// `brindle COMMAND ... MEMBERS` with the members that are left.
    fn brindle(&self, words: &[&str]) -> program::Ran {
        let left = self.left();
        program::brindle(words.iter().copied().chain(left.iter().map(|member| member.to_str().unwrap())))
    }

    fn detail(&self) -> Value {
        self.brindle(&["detail", "--json"]).json()
    }

    /// Members that nobody may change now stay as they are.
    #[track_caller]
    fn unchanged(&self, work: impl FnOnce()) {
        let hashes = || self.members.iter().map(|member| files::sha256(member)).collect::<Vec<_>>();
        let before = hashes();
        work();
        assert!(hashes() == before, "{self}: a member was changed");
    }

    /// Every byte is one that was written, and none is older than what was flushed. Where parity in doubt stands in for
    /// lost members, rows that were being written to are not asked about: nobody can know them.
    #[track_caller]
    fn judge(&self, content: &[u8], what: &str) {
        assert_eq!(content.len() as u64, self.size, "{self}: {what}: size");
        let oracle = &mut *self.oracle.borrow_mut();
        // Until all copies are made alike, each reader may meet another one of what was not flushed.
        oracle.upset();
        let began = oracle.read_begins();
        let mut judged = 0;
        for (offset, sector) in (0..).step_by(SECTOR).zip(content.chunks_exact(SECTOR)) {
            if self.shape.hopeless()
                && self.shape.row(offset).step_by(SECTOR).any(|at| !oracle.is_certain(at))
            {
                continue;
            }
            judged += usize::from(oracle.is_certain(offset) && sector.iter().any(|&byte| byte != 0));
            let fits = oracle.judge(began, offset, sector);
            fits.unwrap_or_else(|wrong| panic!("{self}: {what}: {wrong}"));
        }
        assert!(judged > 0, "{self}: {what}: nothing was flushed");
    }

    #[track_caller]
    fn judge_cat(&self, flags: &[&str], what: &str) -> Vec<u8> {
        let ran = self.brindle(&[&["cat", "--memory", "16M"], flags].concat()).ended(0);
        self.judge(&ran.out, what);
        ran.out
    }
}

/// The words of an array's state.
fn state(report: &Value) -> Vec<&str> {
    report["state"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect()
}
