//! Members that left an array of Brindle's with a bitmap and come back: md goes on with one that Brindle has re-added, and
//! takes one again itself, by the bitmap that Brindle has kept.

use std::path::{Path, PathBuf};
use std::time::Duration;

use brindle_tests::files::{self, MIB};
use brindle_tests::nbd::{Change, Client, Work};
use brindle_tests::program::{self, Server};
use brindle_tests::tools::{Missing, or_skip};
use brindle_tests::vm::{Kernel, Report, Vm};

/// Of each member.
const SIZE: u64 = 12 * MIB;
const PIECE: usize = 1 << 20;

/// The side that takes the member again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Brindle,
    Md,
}

/// An array some of whose members were away while it was written to, each for longer than the next.
struct Returned {
    level: &'static str,
    by: By,
    /// Their numbers, in the order in which they are re-added.
    away: Vec<usize>,
    members: Vec<PathBuf>,
    sha256: String,
}

fn write(client: &mut Client, offset: u64, data: Vec<u8>) {
    let len = data.len() as u64;
    client.all_at_once(&[Change { offset, len, work: Work::Write { data, fua: false } }]);
}

impl Returned {
    fn new(level: &'static str, count: usize, away: &[usize], by: By, number: usize, dir: &Path) -> Self {
        let members = files::members(dir, &format!("again{number}-"), count, SIZE);
        let words = "create -N again --assume-clean --bitmap internal --bitmap-chunk 64K -l";
        let words = words.split(' ').chain([level]).map(PathBuf::from);
        program::brindle(words.chain(members.iter().cloned())).ok();
        let flags = ["--memory", "32M"].map(PathBuf::from);
        let serve = |number| Server::start(&dir.join(format!("run{number}")), flags.iter().chain(&members));
        let server = serve(2 * number);
        let mut client = Client::connect(&server.uri());
        let mut content: Vec<u8> = (0..client.size()).map(|at| (at / 4096 * 31 + at % 251) as u8).collect();
        for (at, piece) in content.chunks(PIECE).enumerate() {
            write(&mut client, (at * PIECE) as u64, piece.to_vec());
        }
        client.close();
        server.stop();
        let server = serve(2 * number + 1);
        let mut client = Client::connect(&server.uri());
        let mut leaving = away.to_vec();
        leaving.sort_unstable();
        for role in leaving {
            server.fail(&role.to_string());
            for offset in [0, content.len() / 2 / 4096 * 4096, content.len() - 8192] {
                content[offset..offset + 8192].fill((0x40 + 8 * role + number) as u8);
                write(&mut client, offset as u64, content[offset..offset + 8192].to_vec());
            }
        }
        client.close();
        server.stop_after_failing(away.len());
        if by == By::Brindle {
            let words = ["add", "--re-add", "--array"].map(PathBuf::from);
            let again = away.iter().map(|&at| members[at].clone());
            let again: Vec<PathBuf> = [PathBuf::from("--")].into_iter().chain(again).collect();
            program::brindle(words.iter().chain(&members).chain(&again)).ok();
        }
        Self { level, by, away: away.to_vec(), members, sha256: files::sha256_of(&content) }
    }

    fn name(&self) -> String {
        format!("level {} by {:?} in the order {:?}", self.level, self.by, self.away)
    }

    fn script(&self, index: usize, first: usize) -> String {
        let device = |at: usize| format!(" /dev/member/{}", first + at);
        let present = |at: &usize| self.by == By::Brindle || !self.away.contains(at);
        let devices: String = (0..self.members.len()).filter(present).map(device).collect();
        let name = self.name();
        let again = match self.by {
            By::Brindle => String::new(),
            By::Md => {
                let devices: String = self.away.iter().map(|&at| device(at)).collect();
                format!("step 're-add {name}' mdadm $md --re-add{devices}\n")
            }
        };
        format!(
            "md=/dev/md{index} sys=/sys/block/md{index}/md
             dmesg -c >/dev/null
             step 'assemble {name}' mdadm --assemble --run $md{devices}
             {again}
             idle $md
             put degraded{index} $(cat $sys/degraded)
             dmesg -c >/tmp/log
             put log{index} \"$(flat /tmp/log)\"
             put sha{index} $(sha $md)
             echo check >$sys/sync_action
             idle $md
             put mismatches{index} $(cat $sys/mismatch_cnt)
             step 'stop {name}' mdadm --stop $md\n"
        )
    }

    fn judge(&self, index: usize, report: &Report) {
        let value = |key: &str| &report[format!("{key}{index}").as_str()];
        let (name, log) = (self.name(), value("log").replace('|', "\n"));
        assert!(log.contains("recovery of RAID array"), "{name}\n{log}");
        assert_eq!((value("degraded"), value("mismatches")), ("0", "0"), "{name}\n{log}");
        assert_eq!(*value("sha"), self.sha256, "{name}");
    }
}

fn given_to_md() -> Result<(), Missing> {
    let vm = Vm::on(Kernel::Release)?.limit(Duration::from_secs(900));
    let dir = tempfile::tempdir().unwrap();
    let levels: [(&str, usize, &[usize]); 8] = [
        ("1", 2, &[1]),
        ("5", 3, &[1]),
        ("6", 4, &[1]),
        ("10", 4, &[1]),
        // Two that left one after the other: whichever is named first, both are re-added.
        ("1", 3, &[0, 1]),
        ("1", 3, &[1, 0]),
        ("6", 4, &[0, 2]),
        ("6", 4, &[2, 0]),
    ];
    let both = levels.into_iter().flat_map(|level| [(level, By::Brindle), (level, By::Md)]);
    let array =
        |(number, ((level, count, away), by))| Returned::new(level, count, away, by, number, dir.path());
    let all: Vec<Returned> = both.enumerate().map(array).collect();
    let (mut script, mut first) = (String::new(), 0);
    for (index, array) in all.iter().enumerate() {
        script += &array.script(index, first);
        first += array.members.len();
    }
    let report = vm.disks(all.iter().flat_map(|array| &array.members)).run(&script).unwrap();
    all.iter().enumerate().for_each(|(index, array)| array.judge(index, &report));
    Ok(())
}

#[test]
fn md_goes_on_with_members_that_came_back_and_takes_them_again_itself() {
    let _ = or_skip(given_to_md());
}
