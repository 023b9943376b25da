//! A machine that serves itself, and whose memory is short.

use brindle_tests::files::MIB;
use brindle_tests::vm::Report;
use serde_json::Value;

/// Mebibytes of the machine.
pub(super) const MEMORY: u32 = 256;
/// Bytes of each of the three members.
pub(super) const MEMBER: u64 = 256 * MIB;
/// Mebibytes that are written.
const REACH: u64 = 256;

/// The lines that follow the script of [`super`].
pub(super) fn script() -> String {
    include_str!("reclaim.sh").replace("REACH", &REACH.to_string())
}

/// All that was written came back, and the array is whole.
pub(super) fn judge(report: &Report) {
    let number = |key: &str| report[key].parse::<u64>().unwrap();
    println!(
        "{} KiB of memory, {} available: written in {} s",
        &report["memory"],
        &report["available"],
        number("reclaim_seconds")
    );
    assert!(number("memory") * 1024 < REACH * MIB);
    let checked: Value = serde_json::from_str(&report["reclaimed"]).expect("JSON");
    assert_eq!(checked["mismatch_cnt"], 0, "{checked}");
    assert_eq!(&report["ended_last"], "-900");
    assert!(!report["reclaim_log"].contains("when memory is short"), "{}", &report["reclaim_log"]);
}
