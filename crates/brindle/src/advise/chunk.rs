//! The chunk, against what the array is used for.

use brindle_lab::job::{Direction, Job, parse};

use super::array::Facts;
use super::finding::{Finding, Prediction};
use super::simulated::{NO_MODEL, Simulator};
use super::sysfs::Md;
use crate::bench::{Here, tell_notes};
use crate::cli::Advise;
use crate::failure::Failure;
use crate::units::Bytes;

/// Chunks that are looked at beside the one that there is.
const OTHERS: [u64; 4] = [64 << 10, 128 << 10, 256 << 10, 512 << 10];
/// A change has to give so much more, since all that is on the array is written anew for it.
const WORTH: f64 = 1.1;

pub(super) fn judge(
    args: &Advise,
    facts: &Facts,
    md: Option<&Md>,
    simulator: Option<&Simulator>,
) -> Result<Finding, Failure> {
    let Some(chunk) = facts.chunk() else {
        return Ok(Finding::fine(
            "chunk",
            "none",
            format!("{} has no chunks that count", facts.level.name()),
        ));
    };
    let found = Bytes(chunk).to_string();
    let Some(workload) = &args.workload else {
        let why = "whether a chunk is right depends on what the array is used for: name a job file of fio's with --workload";
        return Ok(Finding::unknown("chunk", found, why));
    };
    let job = job(&workload.display().to_string())?;
    let Some(simulator) = simulator else { return Ok(Finding::unknown("chunk", found, NO_MODEL)) };
    let mut chunks = vec![chunk];
    chunks.extend(OTHERS.into_iter().filter(|other| *other != chunk));
    let predicted = chunks
        .into_iter()
        .map(|chunk| simulator.with_chunk(chunk, format!("chunk {}", Bytes(chunk)), job.clone()))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(of(facts, md, &simulator.drive, chunk, predicted))
}

/// The first of what was predicted is the chunk that there is.
fn of(facts: &Facts, md: Option<&Md>, drive: &str, chunk: u64, predicted: Vec<Prediction>) -> Finding {
    let now = &predicted[0];
    let best = predicted.iter().fold(now, |best, other| if other.iops > best.iops { other } else { best });
    let found = Bytes(chunk).to_string();
    let finding = if best.iops < now.iops * WORTH {
        let why = format!("no other chunk from 64 KiB to 512 KiB gives 10 % more on {drive} drives: {}", now);
        Finding::fine("chunk", found, why)
    } else {
        let wanted = best.chunk.unwrap_or(chunk);
        let better = Bytes(wanted);
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

/// The load of the file's job, without its place and duration.
fn job(file: &str) -> Result<Job, Failure> {
    let plan = parse(&[file], false, &Here)?;
    tell_notes(&plan);
    let [job] = &plan.jobs[..] else {
        let why = format!(
            "{file}: has {} jobs; the chunk is judged by one: give a file with the one that counts",
            plan.jobs.len()
        );
        return Err(Failure::Usage(why));
    };
    if job.access.has(Direction::Trim) {
        return Err(Failure::Usage(format!(
            "{file}: job '{}' trims: a chunk is judged by reads and writes",
            job.name
        )));
    }
    Ok(job.load())
}
