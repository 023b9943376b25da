//! The chunk, against what the array is used for.

use brindle_lab::job::{Direction, Job, parse};
use brindle_lab::predict::{Policies, Shape, Spec, predict};

use super::array::Facts;
use super::finding::{Finding, Prediction};
use super::sysfs::{Drive, Md};
use crate::bench::{Here, tell_notes};
use crate::cli::Advise;
use crate::failure::Failure;
use crate::predict::model;
use crate::units::Bytes;

/// Chunks that are looked at beside the one that there is.
const OTHERS: [u64; 4] = [64 << 10, 128 << 10, 256 << 10, 512 << 10];
/// A change has to give so much more, since all that is on the array is written anew for it.
const WORTH: f64 = 1.1;

pub(super) fn judge(
    args: &Advise,
    facts: &Facts,
    md: Option<&Md>,
    drives: &[Drive],
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
    let known = args.drive.as_deref().or_else(|| drives.iter().find_map(Drive::kind));
    let Some(drive) = known else {
        let why =
            "not predicted: the members are no block devices whose kind is known; name a model with --drive";
        return Ok(Finding::unknown("chunk", found, why));
    };
    let spec = |chunk: u64| -> Result<Spec, Failure> {
        let shape = Shape {
            level: facts.level,
            layout: facts.shape,
            chunk,
            members: u16::try_from(facts.raid_devices).unwrap_or(u16::MAX),
        };
        let policies = Policies::Brindle;
        Ok(Spec { drive: model(drive)?, shape: Some(shape), policies, cores: 1, job: job.clone() })
    };
    let mut chunks = vec![chunk];
    chunks.extend(OTHERS.into_iter().filter(|other| *other != chunk));
    let mut predicted = Vec::new();
    for chunk in chunks {
        let all = predict(&spec(chunk)?)?.outcome.mixed();
        predicted.push(Prediction { chunk, iops: all.iops(), mb_s: all.bandwidth() / 1_048_576.0 });
    }
    Ok(of(facts, md, drive, predicted))
}

/// The first of what was predicted is the chunk that there is.
fn of(facts: &Facts, md: Option<&Md>, drive: &str, predicted: Vec<Prediction>) -> Finding {
    let now = &predicted[0];
    let best = predicted.iter().fold(now, |best, other| if other.iops > best.iops { other } else { best });
    let told = |one: &Prediction| format!("{:.0} requests a second ({:.1} MiB/s)", one.iops, one.mb_s);
    let found = Bytes(now.chunk).to_string();
    let finding = if best.iops < now.iops * WORTH {
        let why =
            format!("no other chunk from 64 KiB to 512 KiB gives 10 % more on {drive} drives: {}", told(now));
        Finding::fine("chunk", found, why)
    } else {
        let better = Bytes(best.chunk);
        let (command, how) = match md
            .filter(|_| facts.has_parity() || facts.level == brindle_layout::Level::Raid10)
        {
            Some(md) => (
                format!(
                    "mdadm --grow --chunk={} --backup-file=$HOME/{}.backup /dev/{}",
                    best.chunk >> 10,
                    md.name,
                    md.name
                ),
                "all that is on the array is moved for that",
            ),
            None => (
                format!("brindle create --level {} --chunk {}K ...", facts.level.name(), best.chunk >> 10),
                "the array has to be made anew, and its content brought back from a backup",
            ),
        };
        let expected = format!(
            "{} instead of {} ({:+.0} %) on {drive} drives",
            told(best),
            told(now),
            (best.iops / now.iops - 1.0) * 100.0
        );
        Finding::change("chunk", found, format!("{better} suits this load better; {how}"), command, expected)
    };
    Finding { predicted, ..finding }
}

/// What the file's job asks for: where and how long does not matter here.
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
