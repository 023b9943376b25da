//! md's turn: a stock kernel with the members as its disks, in any order.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use brindle_testkit::random::Random;
use brindle_tests::vm::{Report, Vm};

use super::Side;
use super::array::{Array, Piece, Source, shuffle};

/// Functions that the scripts call; `$md` is the array, `$sys` its folder.
const HELPERS: &str = "
# back DEVICE: a member returns as a new one. If it missed no more than one change of the superblocks, md has assembled
# it as a failed one. mdadm wants it emptied if it still looks like a member that works.
back() {
    while grep \"^${md##*/} \" /proc/mdstat | grep -q '(F)'; do
        mdadm $md --remove failed || sleep 0.05
    done
    mdadm $md --add $1 || { mdadm --zero-superblock $1; mdadm $md --add $1; }
}

# recovered COUNT: waits until no more than so many members are missing.
recovered() {
    until [ $(cat $sys/degraded) -eq $1 ]; do
        sleep 0.05
    done
    idle $md
}
";

/// The commands for md on one array.
struct Turn {
    script: String,
    /// Hash of what it held, if it was made before.
    before: Option<String>,
    lose: Vec<usize>,
}

/// Assembles every array, or makes it; reads, writes, has md recover what was lost and compare redundancy, and degrades
/// the array if it is md's turn to. `sector` tells the bytes of a sector of its members.
pub(super) fn turn(
    arrays: &mut [Array],
    vm: Vm,
    sector: impl Fn(&Array) -> u32,
    source: &Source,
    random: &mut Random,
) {
    let disks_of = |array: &Array| {
        let sector = sector(array);
        array.members.clone().into_iter().map(move |path| (path, sector))
    };
    let mut disks: Vec<(PathBuf, u32)> = arrays.iter().flat_map(disks_of).collect();
    shuffle(&mut disks, random);
    let numbers = disks.iter().enumerate().map(|(number, (path, _))| (path.clone(), number)).collect();
    let turns: Vec<Turn> = arrays
        .iter_mut()
        .map(|array| {
            let mut script = Script { text: String::new(), numbers: &numbers, number: array.number };
            let before = array.made.then(|| array.sha256());
            script.begin(array, random);
            let pieces = array.change(source, u64::from(sector(array)), random);
            script.write(&pieces);
            script.recover(array);
            let lose = array.to_lose(Side::Md);
            script.end(array, &lose, random);
            Turn { script: script.text, before, lose }
        })
        .collect();
    let script: String = turns.iter().map(|turn| &*turn.script).collect();
    let last = disks.len();
    let vm = disks.into_iter().fold(vm, |vm, (path, sector)| vm.disks_of(sector, [path]));
    let vm = vm.disks([&source.path]).limit(Duration::from_secs(600));
    let report = vm.run(&format!("{HELPERS}source=/dev/member/{last}\n{script}")).unwrap();
    for (array, turn) in arrays.iter_mut().zip(turns) {
        judge(array, turn, &report);
    }
}

/// The script for one array, in the making.
struct Script<'a> {
    text: String,
    /// Disks by their path on the host.
    numbers: &'a BTreeMap<PathBuf, usize>,
    number: usize,
}

impl Script<'_> {
    fn disks(&self, array: &Array, roles: &[usize]) -> String {
        let disk = |&role: &usize| format!(" /dev/member/{}", self.numbers[&array.members[role]]);
        roles.iter().map(disk).collect()
    }

    fn line(&mut self, line: &str) {
        let _ = writeln!(self.text, "{line}");
    }

    fn begin(&mut self, array: &Array, random: &mut Random) {
        let n = self.number;
        self.line(&format!("md=/dev/md{n}\nsys=/sys/block/md{n}/md"));
        if array.made {
            let disks = self.disks(array, &array.given(random));
            self.line(&format!("step 'assemble {array}' mdadm --assemble --run $md{disks}"));
        } else {
            self.create(array);
        }
        self.line(&format!(
            "put state{n} $(cat $sys/array_state)
             put size{n} $(blockdev --getsize64 $md)
             put degraded{n} $(cat $sys/degraded 2>/dev/null || echo 0)
             put action{n} $(cat $sys/sync_action 2>/dev/null || echo idle)"
        ));
        self.hash("before");
    }

    fn create(&mut self, array: &Array) {
        let shape = array.shape;
        let mut options = format!("--level={} --metadata={}", shape.level, shape.metadata);
        if shape.chunk > 0 {
            let _ = write!(options, " --chunk={}", shape.chunk);
        }
        if let Some(layout) = shape.layout {
            let _ = write!(options, " --layout={layout}");
        }
        let roles: Vec<usize> = (0..shape.members).collect();
        let (count, disks) = (shape.members, self.disks(array, &roles));
        self.line(&format!(
            "step 'create {array}' mdadm --create $md --run --force {options} --raid-devices={count}{disks}"
        ));
        if array.tolerance() > 0 {
            self.line("idle $md");
        }
    }

    /// Hands over the hash of the content at this time.
    fn hash(&mut self, time: &str) {
        self.line(&format!("put {time}{} $(sha $md)", self.number));
    }

    fn write(&mut self, pieces: &[Piece]) {
        for (i, Piece { from, to, len }) in pieces.iter().enumerate() {
            // Past the page cache or through it, which makes whole pages of what is written.
            let how = if i % 2 == 0 { ",direct" } else { "" };
            self.line(&format!(
                "dd if=$source of=$md bs={len} count=1 skip={from} seek={to} conv=notrunc,fsync \
                 iflag=skip_bytes,fullblock oflag=seek_bytes{how} 2>/dev/null"
            ));
        }
        self.hash("written");
    }

    /// The members that the array does without come back, as new ones.
    fn recover(&mut self, array: &Array) {
        let n = self.number;
        // One after the other, the lowest first: md gives it the lowest role that is free.
        for (i, role) in array.lost.iter().enumerate() {
            let disk = self.disks(array, &[*role]);
            let left = array.lost.len() - 1 - i;
            self.line(&format!("step 'add role {role} to {array}' back{disk}\nrecovered {left}"));
        }
        if array.tolerance() > 0 {
            self.line(&format!(
                "echo check >$sys/sync_action
                 idle $md
                 put mismatches{n} $(cat $sys/mismatch_cnt)"
            ));
        }
    }

    fn end(&mut self, array: &Array, lose: &[usize], random: &mut Random) {
        for &role in lose {
            let disk = self.disks(array, &[role]);
            self.line(&format!("step 'fail role {role} of {array}' mdadm $md --fail{disk}"));
            if random.below(2) == 0 {
                self.line(&format!("step 'remove role {role} from {array}' mdadm $md --remove{disk}"));
            }
        }
        self.hash("after");
        self.line(&format!("step 'stop {array}' mdadm --stop $md"));
    }
}

/// Compares md's report with the expected state, and notes its changes.
fn judge(array: &mut Array, turn: Turn, report: &Report) {
    let number = array.number;
    let value = |key: &str| &report[format!("{key}{number}").as_str()];
    let size = value("size").parse().unwrap();
    if let Some(before) = &turn.before {
        assert_eq!(value("before"), before, "{array}: what md reads");
        assert_eq!(value("state"), "clean", "{array}");
        assert_eq!(value("action"), "idle", "{array}: md saw no need to resync");
        assert_eq!(value("degraded"), array.lost.len().to_string(), "{array}");
    }
    if array.tolerance() > 0 {
        assert_eq!(value("mismatches"), "0", "{array}");
    }
    if turn.before.is_none() {
        array.made(size);
    }
    let model = array.sha256();
    assert_eq!(value("written"), model, "{array}: what md wrote");
    assert_eq!(value("after"), model, "{array}: after recovery, and degraded again");
    array.written_by(Side::Md);
    array.lost.clear();
    array.degraded(turn.lose);
}
