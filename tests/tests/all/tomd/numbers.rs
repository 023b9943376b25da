//! Members of arrays with metadata 0.90 that were replaced: mdadm takes the array in whichever order its members are named,
//! since a device that was rebuilt has the number of its role.

use std::path::{Path, PathBuf};
use std::time::Duration;

use brindle_tests::files::{self, MIB};
use brindle_tests::program::{self, Server};
use brindle_tests::tools::{Missing, or_skip};
use brindle_tests::vm::{Kernel, Report, Vm};

/// Of each member.
const SIZE: u64 = 8 * MIB;

/// Ends of the member that failed, before the array is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    Stays,
    Removed,
}

/// An array whose members were replaced, the last first, each by a device that was added.
struct Replaced {
    level: &'static str,
    failed: Failed,
    /// Indexed by role.
    members: Vec<PathBuf>,
    sha256: String,
}

impl Replaced {
    fn new(level: &'static str, count: usize, failed: Failed, number: usize, dir: &Path) -> Self {
        let mut members = files::members(dir, &format!("numbers{number}-"), count, SIZE);
        let words = ["create", "-e", "0.90", "--assume-clean", "-l", level].map(PathBuf::from);
        program::brindle(words.into_iter().chain(members.iter().cloned())).ok();
        let spares = files::members(dir, &format!("numbers{number}-new-"), 2, SIZE);
        let flags = ["--memory", "32M"].map(PathBuf::from);
        let server = Server::start(&dir.join(format!("run{number}")), flags.iter().chain(&members));
        for (role, spare) in (0..count).rev().zip(spares) {
            let name = members[role].to_str().unwrap().to_owned();
            server.fail(&name);
            server.ask("add", &[spare.to_str().unwrap()]).ok();
            server.ask("wait", &[]).ok();
            if failed == Failed::Removed {
                server.ask("remove", &[&name]).ok();
            }
            members[role] = spare;
        }
        server.stop_after_failing(2);
        let content = dir.join(format!("content{number}"));
        program::cat(&members, &content);
        let sha256 = files::sha256_of(&std::fs::read(&content).unwrap());
        Self { level, failed, members, sha256 }
    }

    fn name(&self) -> String {
        format!("level {}, the failed one {:?}", self.level, self.failed)
    }

    fn script(&self, index: usize, first: usize) -> String {
        let (md, name) = (format!("/dev/md{index}"), self.name());
        let mut script = String::new();
        for (at, order) in orders(self.members.len()).into_iter().enumerate() {
            let devices: String = order.iter().map(|role| format!(" /dev/member/{}", first + role)).collect();
            script += &format!(
                "step 'assemble {name} in order {order:?}' mdadm --assemble {md}{devices}
                 put degraded{index}-{at} $(cat /sys/block/md{index}/md/degraded)
                 put sha{index}-{at} $(sha {md})
                 step 'stop {name}' mdadm --stop {md}\n"
            );
        }
        script
    }

    fn judge(&self, index: usize, report: &Report) {
        for (at, order) in orders(self.members.len()).into_iter().enumerate() {
            let value = |key: &str| &report[format!("{key}{index}-{at}").as_str()];
            assert_eq!(value("degraded"), "0", "{}: {order:?}", self.name());
            assert_eq!(value("sha"), self.sha256, "{}: {order:?}", self.name());
        }
    }
}

/// Every order of so many things.
fn orders(count: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for next in 0..count {
        let with = |order: Vec<usize>| {
            (0..=order.len()).map(move |at| {
                let mut order = order.clone();
                order.insert(at, next);
                order
            })
        };
        all = all.into_iter().flat_map(with).collect();
    }
    all
}

fn assembled_in_every_order() -> Result<(), Missing> {
    let vm = Vm::on(Kernel::Release)?.limit(Duration::from_secs(900));
    let dir = tempfile::tempdir().unwrap();
    let cases = [("5", 3, Failed::Stays), ("5", 3, Failed::Removed), ("1", 2, Failed::Stays)];
    let cases = cases.into_iter().enumerate();
    let new = |(number, (level, count, failed))| Replaced::new(level, count, failed, number, dir.path());
    let all: Vec<Replaced> = cases.map(new).collect();
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
fn mdadm_takes_replaced_members_of_0_90_in_every_order() {
    let _ = or_skip(assembled_in_every_order());
}
