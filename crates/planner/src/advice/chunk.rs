//! The chunk, against what the array is used for.

use brindle_layout::Size;

use super::facts::{Facts, Md};
use super::finding::{Finding, Prediction};
use super::simulator::NO_MODEL;

/// Chunks that are looked at beside the present one.
const OTHERS: [u64; 4] = [64 << 10, 128 << 10, 256 << 10, 512 << 10];
/// A change has to give so much more, since all that is on the array is rewritten for it.
const WORTH: f64 = 1.1;

/// The array's main load with other chunks.
#[derive(Clone, Debug)]
pub enum Chunks {
    /// The load is unknown.
    NoLoad,
    /// The drives are unknown.
    NoModel,
    /// Predictions for each of [`chunks`], in their order, on drives of this name.
    Predicted(String, Vec<Prediction>),
}

/// Chunks that a load should be predicted with: the present one first.
pub fn chunks(chunk: u64) -> Vec<u64> {
    let others = OTHERS.into_iter().filter(|other| *other != chunk);
    [chunk].into_iter().chain(others).collect()
}

pub(super) fn judge(facts: &Facts, md: Option<&Md>, chunks: Chunks) -> Finding {
    let Some(chunk) = facts.chunk() else {
        return Finding::fine("chunk", "none", format!("{} has no chunks that count", facts.level.name()));
    };
    let found = Size(chunk).to_string();
    match chunks {
        Chunks::NoLoad => {
            let why = "whether a chunk is right depends on what the array is used for: name a job file of fio's with --workload";
            Finding::unknown("chunk", found, why)
        }
        Chunks::NoModel => Finding::unknown("chunk", found, NO_MODEL),
        Chunks::Predicted(drive, predicted) => of(facts, md, &drive, chunk, predicted),
    }
}

/// The first of what was predicted is the present chunk.
fn of(facts: &Facts, md: Option<&Md>, drive: &str, chunk: u64, predicted: Vec<Prediction>) -> Finding {
    let now = &predicted[0];
    let best = predicted.iter().fold(now, |best, other| if other.iops > best.iops { other } else { best });
    let found = Size(chunk).to_string();
    let finding = if best.iops < now.iops * WORTH {
        let why = format!("no other chunk from 64 KiB to 512 KiB gives 10 % more on {drive} drives: {}", now);
        Finding::fine("chunk", found, why)
    } else {
        let wanted = best.chunk.unwrap_or(chunk);
        let better = Size(wanted);
        let (command, how) =
            match md.filter(|_| facts.has_parity() || facts.level == brindle_layout::Level::Raid10) {
                Some(md) => (
                    format!(
                        "mdadm --grow --chunk={} --backup-file=$HOME/{}.backup /dev/{}",
                        wanted >> 10,
                        md.name,
                        md.name
                    ),
                    "all that is on the array is moved for that",
                ),
                None => (
                    format!("brindle create --level {} --chunk {}K ...", facts.level.name(), wanted >> 10),
                    "the array has to be made anew, and its content brought back from a backup",
                ),
            };
        let expected = format!(
            "{} instead of {} ({:+.0} %) on {drive} drives",
            best,
            now,
            (best.iops / now.iops - 1.0) * 100.0
        );
        Finding::change("chunk", found, format!("{better} suits this load better; {how}"), command, expected)
    };
    Finding { predicted, ..finding }
}
