//! Arrays that md left in every state it knows: whole, created with members missing, with spares, with members that
//! missed writes, half-resynced, half-recovered; and what md itself says of each when it assembles it again.
//!
//! Like [`crate::golden`]'s they are made in few boots and kept.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::files::{self, MIB};
use crate::golden::{self, Recipe};
use crate::tools::{self, Missing};
use crate::vm::{Kernel, Vm};

const HELPERS: &str = include_str!("states.sh");

/// How an array is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Filled, resynced, stopped.
    Whole,
    /// Created with these roles `missing`.
    Missing(Vec<usize>),
    /// With so many spares.
    Spares(usize),
    /// The members of these roles failed and were removed, then all was overwritten.
    Stale(Vec<usize>),
    /// Stopped when half of its first resync was done. Nothing was written to the last quarter.
    HalfResynced,
    /// The same, but the member of this role failed before it was stopped.
    LostInResync(usize),
    /// Created with this role missing, and stopped when half of a new member's recovery was done.
    HalfRecovered(usize),
}

/// An array to be brought into a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// How it is created; its members are those of the roles.
    pub recipe: Recipe,
    /// How it is left.
    pub state: State,
    /// Sector size of its members in bytes.
    pub sector: u32,
}

impl Case {
    /// An array left in this state, on members with sectors of 512 bytes.
    pub fn new(recipe: Recipe, state: State) -> Self {
        Self { recipe, state, sector: 512 }
    }

    /// On members with sectors of this size in bytes.
    #[must_use]
    pub fn sector(mut self, bytes: u32) -> Self {
        self.sector = bytes;
        self
    }

    /// For messages.
    pub fn name(&self) -> String {
        let chunk = self.recipe.chunk.map_or(0, |bytes| bytes >> 10);
        let extra = self.recipe.extra.join(" ");
        format!("{} {chunk}K {extra} {:?} {}", self.recipe.name(), self.state, self.sector).replace('"', "")
    }

    /// Whether md refuses to assemble it unless forced: parity that was not brought in sync would have to stand in for a member.
    pub fn is_refused(&self) -> bool {
        matches!(self.state, State::LostInResync(_)) && ["4", "5", "6"].contains(&self.recipe.level)
    }

    /// Sizes of all disks that it takes.
    fn disks(&self) -> Vec<u64> {
        let mut sizes = self.recipe.members.clone();
        let size = sizes[0];
        match &self.state {
            State::Missing(roles) => sizes.truncate(sizes.len() - roles.len()),
            State::Spares(count) => sizes.resize(sizes.len() + count, size),
            _ => {}
        }
        sizes
    }

    /// The commands that make it as `/dev/mdINDEX` of the disks from `first` on.
    fn script(&self, index: usize, first: usize) -> String {
        let disk = |number: usize| format!("/dev/member/{number}");
        let roles = self.recipe.members.len();
        let end = first + self.disks().len();
        let all: Vec<String> = (first..end).map(disk).collect();
        let mut devices = all.clone();
        let absent: &[usize] = match &self.state {
            State::Missing(roles) => roles,
            // Its disk is the last one, and added later.
            State::HalfRecovered(role) => {
                devices.pop();
                std::slice::from_ref(role)
            }
            _ => &[],
        };
        for &role in absent {
            devices.insert(role, "missing".to_owned());
        }
        let mut create = self.recipe.command(index, &devices[..roles]);
        if let State::Spares(count) = self.state {
            let _ = write!(create, " --spare-devices={count} {}", devices[roles..].join(" "));
        }
        // One member is missing of two that may: md would make Q true first, and refuses to begin so. It is true of zeroes.
        if absent.len() == 1 && self.recipe.level == "6" {
            create += " --assume-clean";
        }
        let create = format!("step \"create $name\" {create}\n");
        let steps = match &self.state {
            State::Whole | State::Missing(_) | State::Spares(_) => {
                format!("{create}fill {index} 4\nsettle\n")
            }
            State::Stale(roles) => {
                let mut steps = format!("{create}fill {index} 4\nsettle\n");
                for &role in roles {
                    let gone = &all[role];
                    let _ = writeln!(steps, "step \"fail $name\" mdadm $md --fail {gone} --remove {gone}");
                }
                steps + &format!("fill {} 4\n", index + 100)
            }
            State::HalfResynced | State::LostInResync(_) => {
                // RAID 10 counts the array's sectors, all others those of a member.
                let whole = if self.recipe.level == "10" {
                    "$(($(blockdev --getsize64 $md) / 1024))"
                } else {
                    "$(cat $sys/component_size)"
                };
                let mut steps = format!(
                    "garble $members\nslow\n{create}halfway {whole} yes\nfast\n\
                     echo resync >$sys/sync_action\nfill {index} 3\nreached\n"
                );
                if let State::LostInResync(role) = self.state {
                    let _ = writeln!(steps, "step \"fail $name\" mdadm $md --fail {}", all[role]);
                }
                steps
            }
            State::HalfRecovered(_) => format!(
                "garble {}\n{create}fill {index} 4\nhalfway $(cat $sys/component_size) no\n\
                 step \"add to $name\" mdadm $md --add {}\nreached\n",
                end - 1,
                disk(end - 1)
            ),
        };
        let numbers: Vec<String> = (first..end).map(|number| number.to_string()).collect();
        let all = all.join(" ");
        let (reopen, back) = if self.is_refused() {
            (format!("force {all}\n"), "give_back\n")
        } else {
            (format!("step \"reopen $name\" mdadm --assemble --readonly --run $md {all}\n"), "")
        };
        format!(
            "n={index} name='{}' md=/dev/md{index} sys=/sys/block/md{index}/md members='{}'\n{steps}\
             step \"stop $name\" mdadm --stop $md\n\
             {reopen}tell\n\
             step \"stop $name again\" mdadm --stop $md\n{back}",
            self.name(),
            numbers.join(" "),
        )
    }
}

/// A member of an assembled array as md sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its role, if it fills one.
    pub role: Option<u16>,
    /// Bytes of its data area that it holds; `None` if it holds all.
    pub recovered: Option<u64>,
    /// `in_sync`, `spare` and so on.
    pub state: String,
}

/// An array that md left in a state and looked at again; by force if it refuses otherwise.
#[derive(Debug, Clone)]
pub struct Left {
    /// How it was made.
    pub case: Case,
    /// Its members: by role, then spares; one whose recovery began is the last. To be read only.
    pub paths: Vec<PathBuf>,
    /// Size of its content in bytes.
    pub size: u64,
    /// Hash of its content.
    pub sha256: String,
    /// The words of mdadm.
    pub state: String,
    /// How many roles have no whole member.
    pub degraded: usize,
    /// Where redundancy stops being true, in bytes; `None` if it is in sync everywhere. If md refuses it, how far it had come:
    /// forced, it takes all as true.
    pub resync: Option<u64>,
    /// md's use of each path in the array; `None` if md left it out.
    pub members: Vec<Option<Member>>,
}

/// Has md leave an array in each case, or takes them from the cache.
///
/// # Errors
/// Names what this machine lacks to run the kernel.
///
/// # Panics
/// If md refuses a case, with the log of the machine.
pub fn left_by(kernel: Kernel, cases: &[Case]) -> Result<Vec<Left>, Missing> {
    golden::in_boots(cases, |case| case.disks().len(), |batch| one_boot(kernel, batch))
}

fn one_boot(kernel: Kernel, cases: &[Case]) -> Result<Vec<Left>, Missing> {
    let script = script(cases);
    let dir = tools::cached("golden", &format!("{kernel:?}{cases:?}{script}"), |dir| {
        make(Vm::on(kernel)?, cases, &script, dir)
    })?;
    let text = std::fs::read_to_string(dir.join("manifest")).expect("the manifest is there");
    let facts: BTreeMap<&str, &str> =
        text.lines().map(|line| line.split_once(' ').unwrap_or((line, ""))).collect();
    let mut first = 0;
    let mut all = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let disks = first..first + case.disks().len();
        first = disks.end;
        let fact = |key: &str| *facts.get(format!("{key}{index}").as_str()).expect("a fact");
        all.push(Left {
            case: case.clone(),
            paths: disks.clone().map(|disk| path(&dir, disk)).collect(),
            size: fact("size").parse().expect("a size"),
            sha256: fact("sha").to_owned(),
            state: fact("state").to_owned(),
            degraded: fact("degraded").parse().expect("a number"),
            resync: sectors(fact(if case.is_refused() { "refused" } else { "resync" })),
            members: disks
                .map(|disk| facts.get(format!("member{disk}").as_str()).map(|line| member(line)))
                .collect(),
        });
    }
    Ok(all)
}

fn path(dir: &Path, disk: usize) -> PathBuf {
    dir.join(format!("{disk}.img"))
}

/// `none` or a number of sectors, as sysfs shows it, in bytes.
fn sectors(text: &str) -> Option<u64> {
    (text != "none").then(|| text.parse::<u64>().expect("sectors") * 512)
}

fn member(line: &str) -> Member {
    let mut words = line.split(' ');
    let mut word = || words.next().expect("three words");
    Member { role: word().parse().ok(), recovered: sectors(word()), state: word().to_owned() }
}

fn script(cases: &[Case]) -> String {
    let source: usize = cases.iter().map(|case| case.disks().len()).sum();
    let mut script = format!("{HELPERS}\nsource=/dev/member/{source}\n");
    let mut first = 0;
    for (index, case) in cases.iter().enumerate() {
        script += &case.script(index, first);
        first += case.disks().len();
    }
    script
}

fn make(vm: Vm, cases: &[Case], script: &str, dir: &Path) -> Result<(), Missing> {
    let (mut vm, mut next) = (vm, 0);
    for case in cases {
        let mut images = Vec::new();
        for size in case.disks() {
            let image = path(dir, next);
            files::sparse(&image, size);
            images.push(image);
            next += 1;
        }
        vm = vm.disks_of(case.sector, images);
    }
    let source = dir.join("source.img");
    let most = cases.iter().map(|case| case.disks().iter().sum::<u64>()).max().unwrap_or_default();
    files::write_pattern(&source, most + 2 * MIB, 2);
    let report = vm.disks([&source]).limit(Duration::from_secs(1800)).run(script).unwrap();
    std::fs::remove_file(source).expect("a file in the cache can be removed");
    let manifest: String = report.results.iter().map(|(key, value)| format!("{key} {value}\n")).collect();
    std::fs::write(dir.join("manifest"), manifest).expect("the cache can be written");
    Ok(())
}
