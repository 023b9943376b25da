//! Arrays that Brindle made without a write-intent bitmap, and then gave one. md takes it as its own, removes it and
//! adds another. Writes that md had begun when it was killed are resynced by Brindle, by the bits that md set.

use std::path::{Path, PathBuf};
use std::time::Duration;

use brindle_tests::files::{self, MIB};
use brindle_tests::program::{self, Server};
use brindle_tests::tools::{Missing, or_skip};
use brindle_tests::vm::{Kernel, Report, Vm};
use serde_json::Value;

use super::{grown, levelled, widened};

/// Of each member.
const SIZE: u64 = 12 * MIB;

const ARRAYS: [(&str, usize, &str); 5] =
    [("1", 2, "1.2"), ("5", 3, "1.0"), ("6", 4, "1.1"), ("10", 4, "1.2"), ("1", 3, "0.90")];

struct Grown {
    what: String,
    dir: PathBuf,
    members: Vec<PathBuf>,
}

fn words<'a>(words: &'a str, members: &'a [PathBuf]) -> impl Iterator<Item = PathBuf> + 'a {
    words.split(' ').map(PathBuf::from).chain(members.iter().cloned())
}

impl Grown {
    fn new(number: usize, (level, count, metadata): (&str, usize, &str), dir: &Path) -> Self {
        let members = files::members(dir, &format!("grown{number}-"), count, SIZE);
        let make = format!("create --assume-clean --bitmap none -l {level} -e {metadata}");
        program::brindle(words(&make, &members)).ok();
        let array = Self {
            what: format!("level {level}, metadata {metadata}"),
            dir: dir.join(format!("grown{number}")),
            members,
        };
        // Every second one while it is served.
        if number.is_multiple_of(2) {
            let server = array.serve();
            server.ask("grow", &["--bitmap", "internal", "--bitmap-chunk", "64K"]).ok();
            server.stop();
        } else {
            let grow = "grow --bitmap internal --bitmap-chunk 64K --array";
            program::brindle(words(grow, &array.members)).ok();
        }
        array
    }

    fn serve(&self) -> Server {
        Server::start(&self.dir, words("--memory 32M", &self.members))
    }

    fn detail(&self) -> Value {
        program::brindle(words("detail --json", &self.members)).json()
    }

    /// md assembles it, with its bitmap; is written to, and never stopped.
    fn script(&self, index: usize, first: usize) -> String {
        let device = |at| format!(" /dev/member/{}", first + at);
        let devices: String = (0..self.members.len()).map(device).collect();
        format!(
            "md=/dev/md{index} sys=/sys/block/md{index}/md
             dmesg -c >/dev/null
             put bits{index} \"$(mdadm -X /dev/member/{first} | grep Bitmap)\"
             step 'assemble {name}' mdadm --assemble --run $md{devices}
             idle $md
             put degraded{index} $(cat $sys/degraded)
             put location{index} $(cat $sys/bitmap/location)
             put chunk{index} $(cat $sys/bitmap/chunksize)
             dmesg -c >/tmp/log
             put log{index} \"$(flat /tmp/log)\"
             step 'no bitmap {name}' mdadm --grow --bitmap=none $md
             put none{index} $(cat $sys/bitmap/location)
             step 'a bitmap again {name}' mdadm --grow --bitmap=internal --bitmap-chunk=128K $md
             idle $md
             step 'write {name}' dd if=/dev/urandom of=$md bs=64k count=3 oflag=direct\n",
            name = self.what
        )
    }

    fn judge(&self, index: usize, report: &Report) {
        let value = |key: &str| &report[format!("{key}{index}").as_str()];
        let (name, log) = (&self.what, value("log").replace('|', "\n"));
        let bits = value("bits");
        assert!(bits.contains(", 0 dirty (0.0%)"), "{name}: {bits}");
        assert!(!log.contains("resync of RAID array"), "{name}\n{log}");
        assert_eq!((value("degraded"), value("chunk")), ("0", "65536"), "{name}\n{log}");
        assert!(value("location").starts_with(['+', '-']), "{name}: {}", value("location"));
        assert_eq!(value("none"), "none", "{name}");
        // The machine was switched off: md had no time to clear its bits, nor to mark the array clean.
        let detail = self.detail();
        assert_eq!(detail["consistency_policy"], "bitmap", "{name}");
        let server = self.serve();
        let reported = server.status();
        let bitmap = &reported["array"]["bitmap"];
        assert_eq!(bitmap["chunk"], 131_072, "{name}: {reported}");
        server.ask("wait", &[]).ok();
        server.stop();
        let checked = program::brindle(words("check --json", &self.members)).json();
        assert_eq!(checked["mismatch_cnt"], 0, "{name}");
        assert_eq!(self.detail()["state"], serde_json::json!(["clean"]), "{name}");
        let none = "grow --bitmap none --array";
        program::brindle(words(none, &self.members)).ok();
        assert_eq!(self.detail()["consistency_policy"], "resync", "{name}");
    }
}

fn given_to_md() -> Result<(), Missing> {
    let vm = Vm::on(Kernel::Release)?.limit(Duration::from_secs(900));
    let dir = tempfile::tempdir().unwrap();
    let arrays = ARRAYS.into_iter().enumerate();
    let all: Vec<Grown> = arrays.map(|(number, array)| Grown::new(number, array, dir.path())).collect();
    let (mut script, mut first) = (String::new(), 0);
    for (index, array) in all.iter().enumerate() {
        script += &array.script(index, first);
        first += array.members.len();
    }
    // They share the boot.
    let resized = grown::all(dir.path());
    for (index, array) in (all.len()..).zip(&resized) {
        script += &array.script(index, first);
        first += array.members.len();
    }
    let levelled = levelled::all(dir.path());
    for (index, array) in (all.len() + resized.len()..).zip(&levelled) {
        script += &array.script(index, first);
        first += array.members.len();
    }
    let widened = widened::all(dir.path());
    let before = all.len() + resized.len() + levelled.len();
    for (index, array) in (before..).zip(&widened) {
        script += &array.script(index, first);
        first += array.members.len();
    }
    let members = all.iter().flat_map(|array| &array.members);
    let members = members.chain(resized.iter().flat_map(|array| &array.members));
    let members = members.chain(levelled.iter().flat_map(|array| &array.members));
    let members = members.chain(widened.iter().flat_map(|array| &array.members));
    let report = vm.disks(members).run(&script).unwrap();
    all.iter().enumerate().for_each(|(index, array)| array.judge(index, &report));
    (all.len()..).zip(&resized).for_each(|(index, array)| array.judge(index, &report));
    let after = all.len() + resized.len();
    (after..).zip(&levelled).for_each(|(index, array)| array.judge(index, &report));
    (before..).zip(&widened).for_each(|(index, array)| array.judge(index, &report));
    Ok(())
}

#[test]
fn md_keeps_a_bitmap_that_an_array_was_given_and_brindle_one_that_md_gave_and_both_give_sizes() {
    let _ = or_skip(given_to_md());
}
