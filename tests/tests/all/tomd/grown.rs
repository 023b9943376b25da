//! Arrays that got another size by Brindle, and then by md, and again by Brindle: the same content, and true redundancy everywhere.

use std::path::{Path, PathBuf};

use brindle_tests::files::{self, MIB, sha256};
use brindle_tests::load::Load;
use brindle_tests::program::{self, Server};
use brindle_tests::vm::Report;
use serde_json::Value;

/// Of each member.
const SIZE: u64 = 16 * MIB;

const ARRAYS: [(&str, usize, &str, &str); 5] = [
    ("1", 2, "1.2", "internal"),
    ("5", 3, "1.2", "internal"),
    ("6", 4, "1.1", "none"),
    ("4", 3, "1.0", "none"),
    ("1", 2, "0.90", "none"),
];

/// An array that Brindle has given another size.
pub(super) struct Resized {
    what: String,
    dir: PathBuf,
    pub(super) members: Vec<PathBuf>,
    /// Of its content as md is to find it.
    sha256: String,
    size: u64,
}

fn words<'a>(words: &'a str, members: &'a [PathBuf]) -> impl Iterator<Item = PathBuf> + 'a {
    words.split(' ').map(PathBuf::from).chain(members.iter().cloned())
}

pub(super) fn all(dir: &Path) -> Vec<Resized> {
    ARRAYS.into_iter().enumerate().map(|(number, array)| Resized::new(number, array, dir)).collect()
}

impl Resized {
    fn new(number: usize, (level, count, metadata, bitmap): (&str, usize, &str, &str), dir: &Path) -> Self {
        let members = files::members(dir, &format!("resized{number}-"), count, SIZE);
        let make = format!("create --assume-clean --bitmap {bitmap} -l {level} -e {metadata} --size 2M");
        program::brindle(words(&make, &members)).ok();
        let what = format!("level {level}, metadata {metadata}, bitmap {bitmap}");
        let mut array =
            Self { what, dir: dir.join(format!("resized{number}")), members, sha256: String::new(), size: 0 };
        // Every second one while a client uses it.
        let served = number.is_multiple_of(2);
        let server = array.serve();
        let mut load = Load::on_zeroes(&server.uri(), number as u64);
        load.fill();
        if served {
            server.ask("grow", &["--size", "6M"]).ok();
        }
        load.storm();
        load.end();
        server.ask("wait", &[]).ok();
        server.stop();
        if !served {
            program::brindle(words("grow --size 6M --array", &array.members)).ok();
            let server = array.serve();
            server.ask("wait", &[]).ok();
            server.stop();
        }
        array.size = array.detail()["size"].as_u64().unwrap();
        let content = dir.join(format!("resized{number}.content"));
        program::cat(&array.members, &content);
        array.sha256 = sha256(&content);
        array
    }

    fn serve(&self) -> Server {
        Server::start(&self.dir, words("--memory 32M", &self.members))
    }

    fn detail(&self) -> Value {
        program::brindle(words("detail --json", &self.members)).json()
    }

    /// md takes it as it is, and makes it as large as it can.
    pub(super) fn script(&self, index: usize, first: usize) -> String {
        let device = |at| format!(" /dev/member/{}", first + at);
        let devices: String = (0..self.members.len()).map(device).collect();
        format!(
            "md=/dev/md{index} sys=/sys/block/md{index}/md
             dmesg -c >/dev/null
             step 'assemble {name}' mdadm --assemble --run $md{devices}
             idle $md
             put size{index} $(blockdev --getsize64 $md)
             put sha{index} $(sha $md)
             put degraded{index} $(cat $sys/degraded)
             echo check >$sys/sync_action
             idle $md
             put mismatches{index} $(cat $sys/mismatch_cnt)
             dmesg -c >/tmp/log
             put log{index} \"$(flat /tmp/log)\"
             step 'grow {name}' mdadm --grow --size=max $md
             idle $md
             put larger{index} $(blockdev --getsize64 $md)
             step 'write {name}' dd if=/dev/urandom of=$md bs=64k count=3 oflag=direct
             put written{index} $(sha $md)
             step 'stop {name}' mdadm --stop $md\n",
            name = self.what
        )
    }

    pub(super) fn judge(&self, index: usize, report: &Report) {
        let value = |key: &str| &report[format!("{key}{index}").as_str()];
        let (name, log) = (&self.what, value("log").replace('|', "\n"));
        assert_eq!(value("size"), self.size.to_string(), "{name}\n{log}");
        assert_eq!((value("sha"), value("degraded")), (&*self.sha256, "0"), "{name}\n{log}");
        assert_eq!(value("mismatches"), "0", "{name}\n{log}");
        let larger: u64 = value("larger").parse().unwrap();
        assert!(larger > self.size, "{name}: {larger}");
        let detail = self.detail();
        assert_eq!(detail["size"], larger, "{name}");
        let content = self.dir.with_extension("content");
        std::fs::remove_file(&content).unwrap();
        program::cat(&self.members, &content);
        assert_eq!(sha256(&content), value("written"), "{name}");
        let checked = program::brindle(words("check --json", &self.members)).json();
        assert_eq!(checked["mismatch_cnt"], 0, "{name}");
        let smaller = "grow --size 4M --force --array";
        program::brindle(words(smaller, &self.members)).ok();
        assert!(self.detail()["size"].as_u64().unwrap() < self.size, "{name}");
    }
}
