//! The cost of LVM, and of ext4 on it, on an array that is attached in a guest: `scripts/bench-file-systems` prints the table. Its argument
//! is the program to measure.

use std::path::Path;
use std::time::Duration;

use brindle_tests::files::{self, MIB};
use brindle_tests::tools;
use brindle_tests::vm::{Report, Vm};

const ROUNDS: usize = 3;
/// Seconds of each load.
const SECONDS: usize = 2;
/// Mebibytes of each volume.
const SIZE: usize = 200;
/// Loads, with what was published of ext4 on LVM on a RAID 1 of the kernel's, relative to the raw device (<https://serverdevworker.com/2120df62c>).
const LOADS: [(&str, f64); 4] = [
    ("1M sequential reads, QD 8", 490.0 / 520.0),
    ("1M sequential writes, QD 8", 430.0 / 480.0),
    ("4K random reads, QD 32", 11_200.0 / 12_500.0),
    ("4K random writes, QD 32", 7_100.0 / 8_300.0),
];

fn main() {
    let program = std::env::args().nth(1).expect("the program to measure");
    let lvm = tools::find("lvm").unwrap_or_else(|missing| panic!("{missing}"));
    let dir = tempfile::tempdir().expect("a folder");
    let members = files::members(dir.path(), "m", 4, 256 * MIB);
    let vm = Vm::new().and_then(Vm::initiator).unwrap_or_else(|missing| panic!("{missing}"));
    let script = include_str!("lvm_cost.sh")
        .replace("ROUNDS", &ROUNDS.to_string())
        .replace("SECONDS", &SECONDS.to_string())
        .replace("SIZE", &SIZE.to_string());
    let vm = vm.program("lvm", &lvm).program("brindle", Path::new(&program)).disks(&members);
    let report =
        vm.memory(1024).limit(Duration::from_secs(900)).run(&script).unwrap_or_else(|why| panic!("{why}"));
    println!("|  | array | LVM | ext4 on LVM | LVM / array | ext4 on LVM / array | published |");
    println!("|---|---:|---:|---:|---:|---:|---:|");
    for (at, (load, published)) in LOADS.iter().enumerate() {
        let all = |name: &str| of(&report, name, at);
        let ratio =
            |name: &str| median(all(name).into_iter().zip(all("raw")).map(|(one, raw)| one / raw).collect());
        println!(
            "| guest: {load}, IOPS | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} | {published:.2} |",
            median(all("raw")),
            median(all("lvm")),
            median(all("ext4")),
            ratio("lvm"),
            ratio("ext4")
        );
    }
}

/// A load's figures, one for each round.
fn of(report: &Report, name: &str, load: usize) -> Vec<f64> {
    (1..=ROUNDS).map(|round| report[&format!("{round}.{name}.{load}")].parse().expect("a number")).collect()
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}
