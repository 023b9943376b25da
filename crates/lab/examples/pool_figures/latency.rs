//! How long writes take: many at an even rate while segments are cleaned, and one that is to be stable.

use crate::amplification::{LARGER, used};
use crate::load::{Kind, closed, fill, open_loop};
use crate::table::{Limit, head, line};
use crate::world::{Scale, Stage, bare};

/// Part of the sustained rate.
const PART: f64 = 0.7;
/// Virtual seconds of the even load.
const SECONDS: f64 = 5.0;
/// Stable writes of a row.
const SYNC: u64 = 20_000;

/// Prints the tables.
pub(crate) fn print(live: u64) {
    head("How long 4K writes take while segments are cleaned");
    for percent in [70, 80] {
        even(live * LARGER, percent);
    }
    stable(live);
}

fn even(live: u64, percent: u64) {
    let stage = used(&Scale::of(live, percent));
    let volumes = core::slice::from_ref(&stage.volume);
    let rate = closed(&stage.io, volumes, Kind::Write, 2048, stage.blocks / 2, 5).rate;
    let count = (rate * PART * SECONDS) as u64;
    for (name, kind) in [("plain", Kind::Write), ("FUA", Kind::Fua)] {
        let done = open_loop(&stage.io, &stage.volume, kind, rate * PART, count, 6);
        let why = format!("{:.0} a second, median {:.0} us", rate * PART, done.within(500));
        let what = format!("{percent} % live, {name}, at 70 % of the sustained rate");
        line(&format!("{what}: p99.9"), Limit::Most(10.0), done.within(999) / 1e3, " ms", &why);
        let why = format!("{} whole seconds", done.seconds.len());
        let worst = 100.0 * done.worst_second();
        line(&format!("{what}: worst second"), Limit::Least(80.0), worst, " % of the mean", &why);
    }
    stage.end();
}

fn stable(live: u64) {
    head("4K writes that are to be stable, beside a write and a flush of one member");
    let scale = Scale::of(live, 70);
    let fresh = Stage::new(&scale);
    fill(&fresh.io, &fresh.volume, 16);
    rows(&scale, &fresh, "idle pool", 1.3);
    fresh.end();
    let stage = used(&scale);
    rows(&scale, &stage, "while it is cleaned", 2.0);
    stage.end();
}

fn rows(scale: &Scale, stage: &Stage, state: &str, limit: f64) {
    for depth in [1, 32] {
        let (io, drives) = bare(scale);
        let member = closed(&io, &drives[..1], Kind::Flushed, depth, SYNC, 1);
        io.shutdown();
        for (name, kind) in [("FUA", Kind::Fua), ("write and flush", Kind::Flushed)] {
            let before = (stage.moved().1, stage.pool.status().busy.freed);
            let volumes = core::slice::from_ref(&stage.volume);
            let done = closed(&stage.io, volumes, kind, depth, SYNC, 4);
            let bytes = (stage.moved().1 - before.0) as f64 / (SYNC * 4096) as f64;
            let freed = stage.pool.status().busy.freed - before.1;
            let why = format!(
                "{:.0} us beside {:.0}; {bytes:.1} bytes written for each, {freed} segments became free",
                done.within(500),
                member.within(500)
            );
            let ratio = done.within(500) / member.within(500);
            line(&format!("{state}, {name}, {depth} in flight"), Limit::Most(limit), ratio, "x", &why);
        }
    }
}
