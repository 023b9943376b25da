//! The text of a prediction.

use core::fmt::Write;

use brindle_lab::predict::{EARLY, Policies, Predicted, Spec};
use brindle_layout::Level;
use serde_json::{Value, json};

use super::words_of;

/// Percentiles in the report.
const PERCENTILES: [f64; 7] = [1.0, 10.0, 50.0, 90.0, 99.0, 99.9, 99.99];

/// As JSON: `docs/cli-json.md` describes each key.
pub(super) fn json(spec: &Spec, predicted: &Predicted) -> Value {
    let all = predicted.outcome.mixed();
    let percentile =
        |percent: &f64| (format!("{percent:.6}"), Value::from(micros(all.total.percentile(*percent))));
    let thousandths = |value: &u32| f64::from(*value) / 1000.0;
    json!({
        "drive": spec.drive.name,
        "as": whose(spec),
        "door": door(spec).map(|(word, _)| word),
        "kernel": kernel(spec),
        "members": spec.shape.map_or(1, |shape| shape.members),
        "level": spec.shape.map_or("none", |shape| shape.level.name()),
        "layout": spec.shape.map(|shape| shape.layout.name()),
        "chunk": spec.shape.map(|shape| shape.chunk),
        "bitmap_chunk": spec.shape.and_then(|shape| shape.bitmap),
        "cores": spec.cores,
        "mb_s": all.bandwidth() / 1_048_576.0,
        "iops": all.iops(),
        "first_iops": predicted.at_first,
        "read_iops": predicted.outcome.tallies[0].iops(),
        "write_iops": predicted.outcome.tallies[1].iops(),
        "latency_us": {
            "mean": all.total.mean() / 1000.0,
            "max": micros(all.total.max()),
            "percentile": PERCENTILES.iter().map(percentile).collect::<serde_json::Map<_, _>>(),
        },
        "utilisation": predicted.busy.iter().map(thousandths).collect::<Vec<_>>(),
        "cpu_share": thousandths(&predicted.processor),
        "drives_carry": predicted.drives_carry,
        "requests": all.ios,
        "member_operations": predicted.operations,
        "digest": format!("{:016x}", predicted.digest),
        "extrapolated": beyond(spec),
    })
}

/// For people.
pub(super) fn text(spec: &Spec, predicted: &Predicted) -> String {
    let all = predicted.outcome.mixed();
    let mut text = String::new();
    let shape = spec.shape.map_or_else(
        || "one drive".to_owned(),
        |shape| {
            let (level, layout) = (shape.level.name(), shape.layout.name());
            format!(
                "{level} {layout} of {} drives, chunk {}K, as {}",
                shape.members,
                shape.chunk >> 10,
                implementation(spec)
            )
        },
    );
    let _ = writeln!(text, "{shape}; drive {}", spec.drive.name);
    let _ = writeln!(text, "  {:.1} MiB/s, {:.0} IOPS", all.bandwidth() / 1_048_576.0, all.iops());
    if let Some(first) = predicted.at_first {
        let _ = writeln!(
            text,
            "  in the first {} seconds, which begin with all bits clear: {first:.0} IOPS",
            EARLY.as_secs()
        );
    }
    let _ = writeln!(
        text,
        "  latency: mean {:.1} us, median {:.1}, 99 % {:.1}, most {:.1}",
        all.total.mean() / 1000.0,
        micros(all.total.percentile(50.0)),
        micros(all.total.percentile(99.0)),
        micros(all.total.max())
    );
    let busy: Vec<String> = predicted.busy.iter().map(|busy| (busy / 10).to_string()).collect();
    let _ = writeln!(text, "  busy: members {} %, processor {} %", busy.join(" "), predicted.processor / 10);
    if let Some(times) = predicted.drives_carry {
        let _ = writeln!(
            text,
            "  {}: the drives would {times:.1} times as much, {:.0} IOPS",
            no_more(spec.cores, predicted.is_by_all_cores()),
            all.iops() * times
        );
    }
    let _ =
        writeln!(text, "  digest {:016x} of {} member operations", predicted.digest, predicted.operations);
    for why in beyond(spec) {
        let _ = writeln!(text, "  extrapolated: {why}");
    }
    text
}

/// The cores that are the limit, for people.
fn no_more(cores: u32, all: bool) -> String {
    match (cores, all) {
        (1, _) => "one core carries no more".to_owned(),
        (_, true) => format!("{cores} cores carry no more"),
        (_, false) => {
            format!("one core of {cores} carries no more, and the load does not come to all of them")
        }
    }
}

/// Parts of the load that the drive's model was not fitted to.
fn beyond(spec: &Spec) -> Vec<String> {
    let chunk = spec.shape.filter(|shape| !matches!(shape.level, Level::Raid1 | Level::Linear));
    spec.drive.beyond(&spec.job, chunk.map(|shape| shape.chunk))
}

fn whose(spec: &Spec) -> &'static str {
    match spec.policies {
        Policies::Brindle(_) | Policies::DrivesAlone => "brindle",
        Policies::LinuxMd(_) => "linux-md",
    }
}

/// The Linux whose md is predicted.
fn kernel(spec: &Spec) -> Option<String> {
    match spec.policies {
        Policies::LinuxMd(kernel) => Some(format!("Linux {kernel}")),
        Policies::Brindle(_) | Policies::DrivesAlone => None,
    }
}

/// The door of an array that Brindle serves.
fn door(spec: &Spec) -> Option<(&'static str, &'static str)> {
    match spec.policies {
        Policies::Brindle(door) => spec.shape.map(|_| words_of(door)),
        Policies::LinuxMd(_) | Policies::DrivesAlone => None,
    }
}

/// The implementation, for people.
fn implementation(spec: &Spec) -> String {
    match (door(spec), kernel(spec)) {
        (Some((_, words)), _) => format!("{}, {words}", whose(spec)),
        (None, Some(kernel)) => format!("{} of {kernel}", whose(spec)),
        (None, None) => whose(spec).to_owned(),
    }
}

fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1000.0
}
