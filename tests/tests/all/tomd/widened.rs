//! Arrays of rows with parity that Brindle gave a member more, or was giving it when it was killed: md finds all that was written, and moves
//! what has not moved.

use std::path::{Path, PathBuf};

use brindle_tests::files::{self, MIB, sha256_of};
use brindle_tests::load::Load;
use brindle_tests::program::{self, Server};
use brindle_tests::vm::Report;
use rustix::process::Signal;

/// Of each member.
const SIZE: u64 = 24 * MIB;

/// The level, members before, the metadata, and whether the server is killed on the way. Of 1.2: with a write-intent bitmap.
const ARRAYS: [(&str, usize, &str, bool); 4] =
    [("5", 3, "1.2", false), ("6", 4, "1.1", false), ("5", 3, "1.2", true), ("4", 2, "1.1", true)];

/// One of them.
pub(super) struct Widened {
    what: String,
    pub(super) members: Vec<PathBuf>,
    /// Bytes that it had before, and their hash.
    size: u64,
    sha256: String,
    is_cut: bool,
    has_bitmap: bool,
}

fn words<'a>(words: &'a str, members: &'a [PathBuf]) -> impl Iterator<Item = PathBuf> + 'a {
    words.split(' ').map(PathBuf::from).chain(members.iter().cloned())
}

pub(super) fn all(dir: &Path) -> Vec<Widened> {
    ARRAYS.into_iter().enumerate().map(|(number, array)| Widened::new(number, array, dir)).collect()
}

impl Widened {
    fn new(number: usize, (level, count, metadata, is_cut): (&str, usize, &str, bool), dir: &Path) -> Self {
        let members = files::members(dir, &format!("widened{number}-"), count + 1, SIZE);
        let bitmap = if metadata == "1.2" { "internal --bitmap-chunk 64K" } else { "none" };
        let make = format!("create --assume-clean --bitmap {bitmap} -l {level} -e {metadata} --chunk 64K");
        program::brindle(words(&make, &members[..count])).ok();
        let run = dir.join(format!("widened{number}"));
        let pace = if is_cut { "--memory 32M --max-speed 3M" } else { "--memory 32M" };
        let server = Server::start(&run, words(pace, &members[..count]));
        let size = server.status()["array"]["size"].as_u64().unwrap();
        let mut load = Load::on_zeroes(&server.uri(), number as u64);
        load.fill();
        let more = (count + 1).to_string();
        server.ask("grow", &["--raid-devices", &more, "--add", members[count].to_str().unwrap()]).ok();
        load.storm();
        load.end();
        if is_cut {
            let moved = || server.status()["array"]["sync"]["position"].as_u64().unwrap_or_default();
            crate::cli::until("some of it has moved", || moved() > 4 * MIB);
            assert_eq!(server.signal(Signal::KILL).0, -1);
        } else {
            server.ask("wait", &[]).ok();
            server.stop();
        }
        let content = program::brindle(words("cat", &members)).ended(0).out;
        let sha256 = sha256_of(&content[..size as usize]);
        let what = format!("level {level} of {count}, metadata {metadata}, cut: {is_cut}");
        let has_bitmap = bitmap != "none";
        Self { what, members, size, sha256, is_cut, has_bitmap }
    }

    /// md takes it as it is, and goes on where there is something left to be moved.
    pub(super) fn script(&self, index: usize, first: usize) -> String {
        let device = |at| format!(" /dev/member/{}", first + at);
        let devices: String = (0..self.members.len()).map(device).collect();
        format!(
            "md=/dev/md{index} sys=/sys/block/md{index}/md
             dmesg -c >/dev/null
             step 'assemble {name}' mdadm --assemble --run $md{devices}
             mdadm --readwrite $md 2>/dev/null || true
             idle $md
             while [ $(cat $sys/reshape_position) != none ]; do sleep 0.2; done
             idle $md
             put size{index} $(blockdev --getsize64 $md)
             put sha{index} $(head -c {size} $md | sha256sum | cut -d' ' -f1)
             put degraded{index} $(cat $sys/degraded)
             put members{index} $(cat $sys/raid_disks)
             put bitmap{index} $(cat $sys/bitmap/location)
             echo check >$sys/sync_action
             idle $md
             put mismatches{index} $(cat $sys/mismatch_cnt)
             dmesg -c >/tmp/log
             put log{index} \"$(flat /tmp/log)\"
             step 'stop {name}' mdadm --stop $md\n",
            name = self.what,
            size = self.size,
        )
    }

    pub(super) fn judge(&self, index: usize, report: &Report) {
        let value = |key: &str| &report[format!("{key}{index}").as_str()];
        let (name, log) = (&self.what, value("log").replace('|', "\n"));
        assert_eq!((value("sha"), value("degraded")), (&*self.sha256, "0"), "{name}\n{log}");
        assert_eq!(value("bitmap") != "none", self.has_bitmap, "{name}\n{log}");
        assert_eq!(value("members"), self.members.len().to_string(), "{name}\n{log}");
        assert!(value("size").parse::<u64>().unwrap() > self.size, "{name}\n{log}");
        assert_eq!(value("mismatches"), "0", "{name}\n{log}");
        assert_eq!(log.contains("reshape"), self.is_cut, "{name}\n{log}");
        // And again Brindle.
        let content = program::brindle(words("cat", &self.members)).ended(0).out;
        assert_eq!(sha256_of(&content[..self.size as usize]), self.sha256, "{name}");
    }
}
