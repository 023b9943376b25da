//! Resyncs and recoveries that Brindle had half done are completed by md: they go on where the superblocks say.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use brindle_testkit::skip::is_long;
use brindle_tests::files::{self, MIB};
use brindle_tests::nbd::{Change, Client, Work};
use brindle_tests::program::{self, Server};
use brindle_tests::vm::Report;
use rustix::process::Signal;

/// Of each member.
const SIZE: u64 = 24 * MIB;

/// The process under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Resync,
    Recovery,
    /// A member is copied to a spare, and serves as long as that goes on.
    Replacement,
}

/// An array that was stopped in the middle of something.
#[derive(Debug)]
pub(super) struct Continued {
    level: &'static str,
    half: Half,
    pub(super) members: Vec<PathBuf>,
    sha256: String,
    /// Sectors that are done, of each member or of the array.
    done: u64,
}

/// A resync, a recovery or a replacement of each family of levels; all of each, if `make test-long` asks for that.
pub(super) fn all(dir: &Path) -> Vec<Continued> {
    let levels = [("1", 2), ("5", 3), ("6", 4), ("10", 4)];
    let halves = [Half::Resync, Half::Recovery, Half::Replacement];
    let each = levels.into_iter().flat_map(|level| halves.map(|half| (level, half)));
    let some = each.enumerate().filter(|(number, _)| is_long() || [0, 4, 5, 6, 10, 11].contains(number));
    some.map(|(number, ((level, count), half))| Continued::new(level, count, half, number, dir)).collect()
}

impl Continued {
    fn new(level: &'static str, count: usize, half: Half, number: usize, dir: &Path) -> Self {
        let more = usize::from(half != Half::Resync);
        let members = files::members(dir, &format!("half{number}-"), count + more, SIZE);
        // A replacement is given to mdadm by that word.
        let ours = if half == Half::Replacement { &members[..count] } else { &members };
        let name = format!("half{number}");
        let words = ["create", "-N", &name, "--assume-clean", "--bitmap", "none", "-l", level];
        let words = words.iter().chain(if half == Half::Recovery { &["-x", "1"][..] } else { &[] });
        program::brindle(words.map(PathBuf::from).chain(ours.iter().cloned())).ok();
        let serve = || {
            let flags = ["--memory", "32M"].map(PathBuf::from);
            Server::start(&dir.join(format!("half{number}-run")), flags.iter().chain(ours))
        };
        let mut server = serve();
        let content = filled(&server);
        match half {
            // Nothing is under way any more, but nobody has said so on the members.
            Half::Resync => {
                server.signal(Signal::KILL);
                server = serve();
            }
            Half::Recovery => server.fail("0"),
            Half::Replacement => {
                let with = members[count].to_str().expect("a name of this test");
                server.ask("replace", &["0", "--with", with, "--json"]).json();
            }
        }
        let position = stopped_half_way(server, usize::from(half == Half::Recovery));
        Self { level, half, members, sha256: files::sha256_of(&content), done: position / 512 }
    }

    fn name(&self) -> String {
        format!("level {}, half of the {:?}", self.level, self.half)
    }

    /// Has md go on, and compare all in the end.
    pub(super) fn script(&self, index: usize, first: usize) -> String {
        let devices: String =
            (first..first + self.members.len()).map(|at| format!(" /dev/member/{at}")).collect();
        format!(
            "md=/dev/md{index} sys=/sys/block/md{index}/md
             dmesg -c >/dev/null
             step 'assemble {name}' mdadm --assemble --run $md{devices}
             idle $md
             put degraded{index} $(cat $sys/degraded)
             dmesg -c >/tmp/log
             put log{index} \"$(flat /tmp/log)\"
             put sha{index} $(sha $md)
             echo check >$sys/sync_action
             idle $md
             put mismatches{index} $(cat $sys/mismatch_cnt)
             step 'stop {name}' mdadm --stop $md\n",
            name = self.name()
        )
    }

    pub(super) fn judge(&self, index: usize, report: &Report) {
        let value = |key: &str| &report[format!("{key}{index}").as_str()];
        let (name, log) = (self.name(), value("log").replace('|', "\n"));
        assert!(self.done > 0, "{name}");
        let word = if self.half == Half::Resync { "resync of RAID array" } else { "recovery of RAID array" };
        assert!(log.contains(word), "{name}\n{log}");
        assert_eq!((value("degraded"), value("mismatches")), ("0", "0"), "{name}\n{log}");
        assert_eq!(*value("sha"), self.sha256, "{name}");
    }
}

/// Writes all of the array, and gives what.
fn filled(server: &Server) -> Vec<u8> {
    const PIECE: usize = 4 << 20;
    let mut client = Client::connect(&server.uri());
    let content: Vec<u8> = (0..client.size()).map(|at| (at / 4096 * 31 + at % 251) as u8).collect();
    for (number, piece) in content.chunks(PIECE).enumerate() {
        let (offset, len) = ((number * PIECE) as u64, piece.len() as u64);
        let work = Work::Write { data: piece.to_vec(), fua: false };
        client.all_at_once(&[Change { offset, len, work }]);
    }
    client.close();
    content
}

/// Stops it when a third of what is under way is done, and tells how much that was.
fn stopped_half_way(server: Server, failed: usize) -> u64 {
    let begun = Instant::now();
    while server.ask("action", &["speed", "--max-speed", "16M"]).code != 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing began: {}", server.status());
    }
    loop {
        let sync = &server.status()["array"]["sync"];
        let of = |key: &str| sync[key].as_u64().unwrap_or_else(|| panic!("it is under way: {sync}"));
        if of("position") * 3 >= of("total") {
            let position = of("position");
            server.stop_after_failing(failed);
            return position;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
