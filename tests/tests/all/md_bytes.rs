//! The bytes that a stock kernel's md reads and writes of each member, cell by cell, each on an array just made.
//!
//! They are kept in `crates/lab/reference/md-bytes-*.csv`, with which the tests of `lab` compare predictions. `BRINDLE_GOLDENS=write` makes the
//! files anew, which takes a quarter of an hour; with `BRINDLE_CELLS='6.12: ,10,f2 ,1024,'` only the lines of this kernel
//! that have both texts. Else a few cells
//! are measured again, to show that the files are md's.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brindle_tests::tools::{Missing, or_skip};
use brindle_tests::vm::{Kernel, Vm};

/// A kind of array: level, layout, members, KiB of a chunk, and which of them may be missing at once.
struct Array {
    level: &'static str,
    layout: &'static str,
    members: usize,
    chunk: u64,
    missing: &'static [&'static [usize]],
}

const fn array(
    (level, layout): (&'static str, &'static str),
    members: usize,
    chunk: u64,
    missing: &'static [&'static [usize]],
) -> Array {
    Array { level, layout, members, chunk, missing }
}

const LS: &str = "left-symmetric";
const RAID5: (&str, &str) = ("5", LS);
const RAID6: (&str, &str) = ("6", LS);

const ARRAYS: [Array; 30] = [
    array(("0", ""), 2, 512, &[]),
    array(("0", ""), 4, 64, &[]),
    array(("0", ""), 7, 4, &[]),
    array(("1", ""), 2, 0, &[&[0], &[1]]),
    array(("1", ""), 3, 0, &[&[0]]),
    array(("10", "n2"), 2, 64, &[&[0]]),
    array(("10", "n2"), 4, 64, &[&[0], &[3]]),
    array(("10", "n2"), 5, 512, &[&[1]]),
    array(("10", "n2"), 8, 4, &[]),
    array(("10", "n3"), 3, 512, &[&[0]]),
    array(("10", "n3"), 4, 64, &[&[0, 1]]),
    array(("10", "n3"), 6, 16, &[]),
    array(("10", "f2"), 2, 1024, &[&[0]]),
    array(("10", "f2"), 4, 64, &[&[0]]),
    array(("10", "f2"), 5, 4, &[]),
    array(("10", "f3"), 4, 64, &[&[1]]),
    array(("10", "o2"), 2, 64, &[&[1]]),
    array(("10", "o2"), 3, 512, &[&[0]]),
    array(("10", "o2"), 4, 64, &[&[3]]),
    array(("10", "o2"), 5, 4, &[]),
    array(RAID5, 3, 512, &[&[0]]),
    array(RAID5, 4, 64, &[&[0], &[3]]),
    array(RAID5, 5, 1024, &[&[2]]),
    array(RAID5, 8, 4, &[&[1]]),
    array(("5", "parity-last"), 4, 16, &[&[3]]),
    array(RAID6, 4, 512, &[&[0]]),
    array(RAID6, 5, 64, &[&[1], &[1, 4]]),
    array(RAID6, 6, 64, &[&[0], &[0, 2]]),
    array(RAID6, 7, 1024, &[]),
    array(RAID6, 8, 4, &[&[7]]),
];

/// KiB of a request.
const SIZES: [u64; 5] = [4, 16, 64, 256, 1024];

/// Arrays that are measured with 32 requests in flight, too.
const DEEP: [Array; 11] = [
    array(("1", ""), 2, 0, &[]),
    array(("1", ""), 3, 0, &[&[0]]),
    array(("10", "n2"), 4, 64, &[&[0]]),
    array(("10", "n2"), 5, 512, &[]),
    array(("10", "n3"), 6, 16, &[]),
    array(("10", "f2"), 4, 64, &[&[0]]),
    array(("10", "o2"), 4, 64, &[&[3]]),
    array(RAID5, 4, 64, &[&[0]]),
    array(RAID5, 3, 512, &[]),
    array(RAID6, 6, 64, &[&[0, 2]]),
    array(RAID6, 8, 16, &[&[1]]),
];

/// Runs of such a cell.
const RUNS: usize = 5;

/// How many requests are in flight, and at which drives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    One,
    /// 32, at members without heads.
    Flash,
    /// 32, at members with heads.
    Disk,
}

/// Requests on one array.
#[derive(Clone, Copy)]
struct Cell {
    array: &'static Array,
    missing: &'static [usize],
    op: &'static str,
    order: &'static str,
    size: u64,
    depth: Depth,
}

impl Cell {
    fn one_at_a_time() -> Vec<Self> {
        Self::each(&ARRAYS, &SIZES, Depth::One)
    }

    fn deep() -> Vec<Self> {
        let sizes = &[4, 64, 1024];
        [Depth::Flash, Depth::Disk].into_iter().flat_map(|depth| Self::each(&DEEP, sizes, depth)).collect()
    }

    fn each(arrays: &'static [Array], sizes: &[u64], depth: Depth) -> Vec<Self> {
        let mut all = Vec::new();
        for array in arrays {
            for &missing in [&[][..]].iter().chain(array.missing) {
                for (op, order) in
                    [("read", "sequential"), ("read", "random"), ("write", "sequential"), ("write", "random")]
                {
                    all.extend(sizes.iter().map(|&size| Self { array, missing, op, order, size, depth }));
                }
            }
        }
        all
    }

    /// Two rows in order, within bounds.
    fn count(&self) -> u64 {
        let rows = 2 * self.array.chunk * self.array.members as u64 / self.size;
        if self.depth != Depth::One {
            return if self.size < 1024 { 512 } else { 128 };
        }
        if self.order == "random" { 24 } else { rows.clamp(24, 512) }
    }

    /// The cell, as its line begins.
    fn name(&self) -> String {
        let &Array { level, layout, members, chunk, .. } = self.array;
        let missing: Vec<_> = self.missing.iter().map(usize::to_string).collect();
        let (op, order, size, count) = (self.op, self.order, self.size, self.count());
        let drives = match self.depth {
            Depth::One => "",
            Depth::Flash => "flash,",
            Depth::Disk => "disk,",
        };
        format!(
            "{drives}{level},{layout},{members},{chunk},{},{op},{order},{size},{count}",
            missing.join("+")
        )
    }

    /// Makes the array, measures, and stops it.
    fn script(&self, number: usize) -> String {
        let Array { level, layout, members, chunk, .. } = self.array;
        let first = match self.depth {
            Depth::One if *level == "10" && self.op == "read" && self.size > *chunk => 8,
            Depth::One => 0,
            Depth::Flash if self.op == "read" && self.size >= 1024 => 24,
            Depth::Flash | Depth::Disk => 16,
        };
        let depth = if self.depth == Depth::One { 1 } else { 32 };
        let device = |role: usize| match self.missing.contains(&role) {
            true => "missing".to_owned(),
            false => format!("/dev/nullb{}", first + role),
        };
        let devices: Vec<_> = (0..*members).map(device).collect();
        let names: Vec<_> = (0..*members).map(|role| format!("nullb{}", first + role)).collect();
        let mut made = format!("--level={level} --raid-devices={members}");
        if !layout.is_empty() {
            let _ = write!(made, " --layout={layout}");
        }
        if *level != "0" {
            made += " --assume-clean --bitmap=none";
        }
        if *chunk > 0 {
            let _ = write!(made, " --chunk={chunk}");
        }
        format!(
            "cell {number} '{made} {}' {} {} {} {} {depth} '{}'\n",
            devices.join(" "),
            self.op,
            self.order,
            self.size * 1024,
            self.count(),
            names.join(" ")
        )
    }
}

/// Sets of eight drives of memory, and how a cell is measured on some of them. Drives for one request at a time answer after one millisecond, and
/// after fifty: where a drive answers before all pieces of a request are sent, the next piece finds its copy idle. Those for more answer
/// after two and large reads after twenty, as the emulated processor takes a twentieth of that for a request, and those with heads after
/// eight. Their requests are as long and their queues as deep as no cell exceeds.
const BEGIN: &str = "
echo 2 >/proc/sys/vm/nr_hugepages
drives=/sys/kernel/config/nullb
# drives FIRST NANOSECONDS ROTATIONAL
drives() {
    for n in 0 1 2 3 4 5 6 7; do
        n=$(($1 + n))
        mkdir $drives/nullb$n
        echo 1 >$drives/nullb$n/memory_backed
        echo 41 >$drives/nullb$n/size
        echo 512 >$drives/nullb$n/blocksize
        echo 2560 >$drives/nullb$n/max_sectors
        echo 1024 >$drives/nullb$n/hw_queue_depth
        echo 2 >$drives/nullb$n/irqmode
        echo $2 >$drives/nullb$n/completion_nsec
        echo 1 >$drives/nullb$n/power
        echo $3 >/sys/block/nullb$n/queue/rotational
    done
}
# cell NUMBER ARRAY read|write sequential|random SIZE COUNT DEPTH MEMBERS
cell() {
    mdadm --create /dev/md0 --run --force --data-offset=1M $2 >/tmp/out 2>&1 || { cat /tmp/out; exit 1; }
    echo 0 >/sys/block/md0/md/safe_mode_delay
    found=$(cells /dev/md0 $3 $4 $5 $6 $7 $8) || exit 1
    put $1 $found
    until mdadm --stop /dev/md0 >/tmp/out 2>&1; do sleep 0.05; done
}
";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/lab/reference")
}

/// Measures cells with a kernel, all of one depth: the lines of the file.
fn measured(kernel: Kernel, cells: &[Cell]) -> String {
    let Some(depth) = cells.first().map(|cell| cell.depth) else { return String::new() };
    let vm = Vm::on(kernel).expect("looked for").cells().expect("the program of cells");
    let (sets, runs) = match depth {
        Depth::One => ("drives 0 1000000 0\ndrives 8 50000000 0\n", 1),
        Depth::Flash => ("drives 16 2000000 0\ndrives 24 20000000 0\n", RUNS),
        Depth::Disk => ("drives 16 8000000 1\n", RUNS),
    };
    let mut script = [BEGIN, sets].concat();
    for (number, cell) in cells.iter().enumerate() {
        (0..runs).for_each(|run| script += &cell.script(number * runs + run));
    }
    let report = vm.limit(Duration::from_secs(3600)).run(&script).unwrap();
    let line = |(number, cell): (usize, &Cell)| {
        let runs: Vec<_> = (0..runs).map(|run| &report[&*(number * runs + run).to_string()]).collect();
        format!("{},{}\n", cell.name(), ranges(&runs))
    };
    cells.iter().enumerate().map(line).collect()
}

/// The least and the most of each number in texts that have the same form: `1+5,0` and `2+5,0` are `1-2+5,0`.
fn ranges(texts: &[&str]) -> String {
    let kinds = texts[0].split(',').enumerate().map(|(kind, first)| {
        let roles = first.split('+').enumerate().map(|(role, _)| {
            let number = |text: &&str| -> Option<u64> {
                text.split(',').nth(kind)?.split('+').nth(role)?.parse().ok()
            };
            let all = texts.iter().map(|text| number(text).expect("a number"));
            match (all.clone().min(), all.max()) {
                (least, most) if least == most => format!("{}", least.unwrap_or(0)),
                (least, most) => format!("{}-{}", least.unwrap_or(0), most.unwrap_or(0)),
            }
        });
        roles.collect::<Vec<_>>().join("+")
    });
    kinds.collect::<Vec<_>>().join(",")
}

/// The first line of the files.
const HEAD: &str = "level,layout,members,chunk KiB,missing,op,order,size KiB,requests,read KiB,written KiB\n";

/// The file of cells, those that `BRINDLE_CELLS` names measured anew.
fn made_anew(kernel: Kernel, kept: &str, cells: &[Cell]) -> String {
    let (major, minor) = Vm::on(kernel).expect("looked for").version();
    let wanted = std::env::var("BRINDLE_CELLS").unwrap_or_default();
    let is_wanted = |cell: &&Cell| {
        let name = format!("{major}.{minor}:,{},", cell.name());
        wanted.split_whitespace().all(|text| name.contains(text))
    };
    let mut lines = String::new();
    // Drives of another kind would not fit into the machine's memory beside those.
    for depth in [Depth::One, Depth::Flash, Depth::Disk] {
        let some: Vec<_> =
            cells.iter().filter(is_wanted).filter(|cell| cell.depth == depth).copied().collect();
        lines += &measured(kernel, &some);
    }
    let known: Vec<_> = lines.lines().chain(kept.lines()).collect();
    let line = |cell: &Cell| {
        let name = cell.name() + ",";
        known.iter().find(|line| line.starts_with(&name)).map(|line| (*line).to_owned())
    };
    let head = if cells[0].depth == Depth::One { HEAD.to_owned() } else { format!("drives,{HEAD}") };
    cells.iter().filter_map(line).fold(head, |all, line| all + &line + "\n")
}

#[test]
fn kernels_move_the_bytes_that_predictions_are_held_to() {
    let writes = std::env::var("BRINDLE_GOLDENS").is_ok_and(|what| what == "write");
    for kernel in Kernel::ALL {
        let Some(vm) = or_skip(Vm::on(kernel)) else { continue };
        let (major, minor) = vm.version();
        let file = |kind: &str| folder().join(format!("md-{kind}-{major}.{minor}.csv"));
        let kept = |kind: &str| std::fs::read_to_string(file(kind)).unwrap_or_default();
        let mut cells = Cell::one_at_a_time();
        if writes {
            for (kind, cells) in [("bytes", cells), ("deep", Cell::deep())] {
                let text = made_anew(kernel, &kept(kind), &cells);
                if text.lines().count() < 2 {
                    continue;
                }
                std::fs::write(file(kind), text).expect("the file is written");
            }
            continue;
        }
        let kept = kept("bytes");
        let known = if kept.is_empty() {
            Err(Missing::new(format!("no {}", file("bytes").display())))
        } else {
            Ok(kept)
        };
        let Some(kept) = or_skip(known) else { continue };
        let mut nth = 0;
        cells.retain(|_| {
            nth += 1;
            nth % 97 == 0
        });
        for line in measured(kernel, &cells).lines() {
            assert!(kept.lines().any(|known| known == line), "{}: {line}", file("bytes").display());
        }
    }
}
