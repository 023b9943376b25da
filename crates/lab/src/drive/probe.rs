//! The measurements on a drive from which a model is fitted: sizes, mixes, one request and many in flight.

use core::fmt::Write;
use core::time::Duration;

use super::error::DriveError;
use super::table::{Table, table};
use crate::job::{Blocks, IoPattern, Job, Kinds};
use crate::run::Outcome;

/// KiB of requests.
const SIZES: [u64; 5] = [4, 16, 64, 256, 1024];
/// Per cent of reads.
const MIXES: [u64; 3] = [100, 50, 0];
/// Most requests in flight, and most bytes of them.
const MANY: (u64, u64) = (256, 64 << 20);

/// The loads that tell how a drive behaves, one after the other, each so long; without `writes` those that read only.
pub fn probes(writes: bool, long: Duration) -> Vec<Job> {
    let mixes = &MIXES[..if writes { MIXES.len() } else { 1 }];
    let mut all = Vec::new();
    for many in [true, false] {
        for kib in SIZES {
            all.extend(mixes.iter().map(|reads| probe(kib << 10, *reads, many, long)));
        }
    }
    all
}

fn probe(size: u64, reads: u64, many: bool, long: Duration) -> Job {
    let depth = if many { MANY.0.min(MANY.1 / size) } else { 1 };
    Job {
        name: format!("{}k-r{reads}-d{depth}", size >> 10),
        access: IoPattern { kinds: Kinds::of_reads(reads), random: true, step: 0 },
        blocks: core::array::from_fn(|_| Blocks::One(size)),
        reads,
        iodepth: depth as u32,
        runtime: Some(long),
        time_based: true,
        norandommap: true,
        stonewall: true,
        ..Job::default()
    }
}

/// The results of [`probes`] as measured tables, like those a user might bring: IOPS with many in flight,
/// milliseconds with one.
///
/// # Errors
/// A load of which no request came back in its time.
pub fn tables(drive: &str, outcomes: &[Outcome]) -> Result<Vec<Table>, DriveError> {
    let mixes = outcomes.len() / SIZES.len() / 2;
    let (many, one) = outcomes.split_at(mixes * SIZES.len());
    let head: String = MIXES[..mixes.min(MIXES.len())].iter().map(|reads| format!(",r{reads}")).collect();
    let mut iops = format!("# Measured on {drive}.\nbs{head}\n");
    let mut latency = format!("stat,bs{head}\n");
    for ((kib, many), one) in SIZES.iter().zip(many.chunks(mixes.max(1))).zip(one.chunks(mixes.max(1))) {
        // Writing to a text does not fail.
        let _ = write!(iops, "{kib}k");
        let _ = write!(latency, "avg,{kib}k");
        for (many, one) in many.iter().zip(one) {
            let _ = write!(iops, ",{:.3}", many.mixed().iops());
            let _ = write!(latency, ",{:.6}", one.mixed().total.mean() / 1e6);
        }
        iops.push('\n');
        latency.push('\n');
    }
    Ok(vec![table(&format!("{drive}, IOPS"), &iops)?, table(&format!("{drive}, latency"), &latency)?])
}
