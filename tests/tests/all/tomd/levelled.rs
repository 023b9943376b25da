//! Arrays that got another level or more members by one side, by which no byte moves, and were taken on by the other.

use std::path::{Path, PathBuf};

use brindle_tests::files::{self, MIB, sha256};
use brindle_tests::load::Load;
use brindle_tests::program::{self, Server};
use brindle_tests::vm::Report;
use serde_json::Value;

/// Of each member.
const SIZE: u64 = 12 * MIB;

/// The array at first, its members, what Brindle makes of it with a device more or without, and what md makes of that.
const ARRAYS: [(&str, usize, &str, &str, &str); 4] = [
    ("1", 2, "--raid-devices 3 --add", "raid1", "mdadm --grow $md --level=1"),
    ("1", 2, "--level 5", "raid5", "mdadm --grow $md --level=1"),
    ("5", 3, "--level 6 --add", "raid6", "true"),
    ("5", 3, "", "raid5", "mdadm $md --add $spare && mdadm --grow $md --level=6 --layout=preserve"),
];

/// One of them.
pub(super) struct Levelled {
    what: String,
    dir: PathBuf,
    pub(super) members: Vec<PathBuf>,
    /// Members that it has when md gets it: the last is a blank device, if it is not among them.
    used: usize,
    level: &'static str,
    by_md: &'static str,
    sha256: String,
}

fn words<'a>(words: &'a str, members: &'a [PathBuf]) -> impl Iterator<Item = PathBuf> + 'a {
    words.split(' ').map(PathBuf::from).chain(members.iter().cloned())
}

pub(super) fn all(dir: &Path) -> Vec<Levelled> {
    ARRAYS.into_iter().enumerate().map(|(number, array)| Levelled::new(number, array, dir)).collect()
}

impl Levelled {
    fn new(
        number: usize,
        (from, count, change, level, by_md): (&str, usize, &str, &'static str, &'static str),
        dir: &Path,
    ) -> Self {
        let members = files::members(dir, &format!("levelled{number}-"), count + 1, SIZE);
        let make = format!("create --assume-clean --bitmap none -l {from} -e 1.2");
        program::brindle(words(&make, &members[..count])).ok();
        let dir = dir.join(format!("levelled{number}"));
        let server = Server::start(&dir, words("--memory 32M", &members[..count]));
        let mut load = Load::on_zeroes(&server.uri(), number as u64);
        load.fill();
        let adds = change.ends_with("--add");
        if !change.is_empty() {
            let mut args: Vec<&str> = change.split(' ').collect();
            args.extend(members[count].to_str().filter(|_| adds));
            server.ask("grow", &args).ok();
        }
        load.storm();
        load.end();
        server.ask("wait", &[]).ok();
        server.stop();
        let used = count + usize::from(adds);
        let content = dir.with_extension("content");
        program::cat(&members[..used], &content);
        let what = format!("raid{from} of {count}, then {level}, then '{by_md}'");
        Self { what, dir, members, used, level, by_md, sha256: sha256(&content) }
    }

    /// md takes it as it is, compares its redundancy, and changes it.
    pub(super) fn script(&self, index: usize, first: usize) -> String {
        let device = |at| format!(" /dev/member/{}", first + at);
        let devices: String = (0..self.used).map(device).collect();
        format!(
            "md=/dev/md{index} sys=/sys/block/md{index}/md spare={spare}
             step 'assemble {index}' mdadm --assemble --run $md{devices}
             idle $md
             put level{index} $(cat $sys/level)
             put degraded{index} $(cat $sys/degraded)
             put sha{index} $(sha $md)
             echo check >$sys/sync_action
             idle $md
             put mismatches{index} $(cat $sys/mismatch_cnt)
             {by_md} >/tmp/said 2>&1 || true
             put said{index} \"$(flat /tmp/said)\"
             idle $md
             put again{index} $(sha $md)
             put now{index} $(cat $sys/level)
             step 'stop {index}' mdadm --stop $md\n",
            spare = device(self.members.len() - 1).trim(),
            by_md = self.by_md,
        )
    }

    pub(super) fn judge(&self, index: usize, report: &Report) {
        let value = |key: &str| &report[format!("{key}{index}").as_str()];
        let name = &self.what;
        assert_eq!((value("level"), value("degraded")), (self.level, "0"), "{name}");
        assert_eq!((value("sha"), value("mismatches")), (&*self.sha256, "0"), "{name}");
        assert_eq!(value("again"), self.sha256, "{name}: {}", value("said"));
        let now = value("now");
        let mut members = self.members.clone();
        members.truncate(if now == "raid6" { members.len() } else { self.used });
        let detail: Value = program::brindle(words("detail --json", &members)).json();
        assert_eq!(detail["level"], now, "{name}: {}", value("said"));
        let checked = program::brindle(words("check --json", &members)).json();
        assert_eq!(checked["mismatch_cnt"], 0, "{name}");
        if now == "raid6" {
            program::brindle(words("grow --level 5 --array", &members)).ok();
            let content = self.dir.with_extension("content");
            program::cat(&members[..members.len() - 1], &content);
            assert_eq!(sha256(&content), self.sha256, "{name}: without Q");
        }
    }
}
