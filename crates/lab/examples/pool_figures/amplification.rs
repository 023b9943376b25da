//! Random writes of 4 KiB: how many, and the bytes that members write for each byte of them.

use crate::load::{Kind, closed, fill};
use crate::reads::alone;
use crate::table::{Limit, line};
use crate::world::{SOLD, Scale, Stage};

/// Requests in flight.
const DEPTH: u64 = 2048;
/// The volume is overwritten so many times before anything counts, and once after.
const TIMES: u64 = 3;

/// So many times the blocks of other figures.
pub(crate) const LARGER: u64 = 8;

/// Rows: what, live per cent, live blocks to a change in memory, at most so many bytes, at least so much of the drives' writes.
type Row = (&'static str, u64, u64, f64, Option<f64>);

const ROWS: [Row; 5] = [
    ("70 % live, changes in memory 1/16", 70, 16, 2.7, Some(20.0)),
    ("80 % live, changes in memory 1/16", 80, 16, 3.8, Some(14.0)),
    ("70 % live, changes in memory 1/256", 70, 256, 4.0, None),
    ("80 % live, changes in memory 1/256", 80, 256, 5.7, None),
    ("all that is sold, changes in memory 1/16", SOLD, 16, 5.0, None),
];

/// A pool that has been overwritten at random until all of it is in use.
pub(crate) fn used(scale: &Scale) -> Stage {
    let stage = Stage::new(scale);
    fill(&stage.io, &stage.volume, 16);
    overwrite(&stage, stage.blocks * TIMES, 2);
    stage
}

fn overwrite(stage: &Stage, count: u64, seed: u64) -> f64 {
    closed(&stage.io, core::slice::from_ref(&stage.volume), Kind::Write, DEPTH, count, seed).rate
}

/// Prints the tables.
pub(crate) fn print(live: u64) {
    let jbod = alone(&Scale::of(live, 70), Kind::Write, DEPTH);
    let mut rates = Vec::new();
    println!("\n## Bytes written to members for each byte of a client, 4K random overwrites\n");
    println!(
        "| what | client | moves | map | summaries | parity | in all | to reach | |\n|---|---:|---:|---:|---:|---:|---:|---:|---|"
    );
    let mut last: Option<(u64, Stage)> = None;
    for (what, percent, changes, limit, share) in ROWS {
        // As many segments as a pool of a TiB has: what is kept free is a few of them.
        let unit = Some(64 << 10);
        let scale = Scale { changes, unit, ..Scale::of(live * LARGER, percent) };
        let stage = match last.take() {
            // One that is in use already: only its settings change.
            Some((of, stage)) if of == percent => {
                let stage = stage.reopened(scale.config());
                overwrite(&stage, stage.blocks / 2, 4);
                stage
            }
            other => {
                other.into_iter().for_each(|(_, stage)| stage.end());
                used(&scale)
            }
        };
        let (before, moved) = (stage.pool.status().written, stage.moved());
        let count = stage.blocks;
        let rate = overwrite(&stage, count, 5);
        let written = stage.written_since(&before);
        let client = (count * 4096) as f64;
        let of = |bytes: u64| bytes as f64 / client;
        let members = of(stage.moved().1 - moved.1);
        let verdict = if members <= limit { "reached" } else { "**missed**" };
        println!(
            "| {what} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {members:.2} | at most {limit} | {verdict} |",
            of(written.client),
            of(written.moved),
            of(written.pages),
            of(written.summaries),
            of(written.parity)
        );
        let read = of(stage.moved().0 - moved.0);
        rates.push((what, rate, share, members, read));
        last = Some((percent, stage));
    }
    last.into_iter().for_each(|(_, stage)| stage.end());
    crate::table::head("4K random overwrites, raidz2 of twelve drives");
    println!("| JBOD, M IOPS | | {:.2} | | the drives |", jbod / 1e6);
    for (what, rate, share, members, read) in rates {
        let limit = Limit::Least(share.unwrap_or(0.0));
        let bound = 100.0 / members;
        let why =
            format!("{members:.2} bytes written, which leaves {bound:.0} %, and {read:.2} read for each");
        line(what, limit, 100.0 * rate / jbod, " % of JBOD", &why);
    }
}
