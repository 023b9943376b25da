//! Reports for people.

use core::fmt::Write;

use super::words;
use crate::job::DIRECTIONS;
use crate::measure::Tally;
use crate::run::Outcome;

/// A few lines for each outcome.
pub fn text(outcomes: &[Outcome]) -> String {
    outcomes.iter().map(one).collect()
}

fn one(outcome: &Outcome) -> String {
    let job = &outcome.job;
    let mut text = format!(
        "{}: group {}, rw={}, bs={}, iodepth={}, numjobs={}, {:.1} s\n",
        job.name,
        outcome.group,
        words::rw(job.access),
        words::bs(job),
        job.depth(),
        job.numjobs,
        outcome.elapsed.as_secs_f64(),
    );
    for of in DIRECTIONS {
        let tally = &outcome.tallies[of.index()];
        if tally.ios > 0 {
            // Writing to a text does not fail.
            let _ = writeln!(text, "  {:<5} {}", of.name(), summary(tally));
        }
    }
    if outcome.flushes.count() > 0 {
        let flushes = &outcome.flushes;
        let _ = writeln!(
            text,
            "  flush {} flushes, mean {}, max {}",
            flushes.count(),
            time(flushes.mean()),
            time(flushes.max() as f64)
        );
    }
    if let Some(trouble) = outcome.trouble {
        let _ = writeln!(text, "  ended by: {trouble}");
    }
    text
}

/// IOPS, bandwidth and latencies in one line.
pub fn summary(tally: &Tally) -> String {
    let total = &tally.total;
    let of = |percent| time(total.percentile(percent) as f64);
    format!(
        "{:.0} IOPS, {:.1} MiB/s; latency: min {}, mean {}, 50 % {}, 99 % {}, 99.9 % {}, max {}",
        tally.iops(),
        tally.bandwidth() / f64::from(1 << 20),
        time(total.min() as f64),
        time(total.mean()),
        of(50.0),
        of(99.0),
        of(99.9),
        time(total.max() as f64),
    )
}

/// Nanoseconds in a unit that people read.
fn time(nanos: f64) -> String {
    match nanos {
        _ if nanos < 1e3 => format!("{nanos:.0} ns"),
        _ if nanos < 1e6 => format!("{:.1} us", nanos / 1e3),
        _ if nanos < 1e9 => format!("{:.2} ms", nanos / 1e6),
        _ => format!("{:.2} s", nanos / 1e9),
    }
}
