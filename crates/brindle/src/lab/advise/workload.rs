//! The array's main load, and its speed with other chunks.

use brindle_lab::job::{Direction, Job, parse};
use brindle_planner::advice::{Chunks, Facts, Simulator, chunks};

use super::simulated::Simulated;
use crate::base::failure::Failure;
use crate::flags::cli::Advise;
use crate::lab::bench::{Here, tell_notes};

/// Predictions of the load that was named, if one was.
pub(super) fn predicted(
    args: &Advise,
    facts: &Facts,
    simulator: Option<&Simulated>,
) -> Result<Chunks, Failure> {
    let (Some(workload), Some(chunk)) = (&args.workload, facts.chunk()) else { return Ok(Chunks::NoLoad) };
    let job = job(&workload.display().to_string())?;
    let Some(simulator) = simulator else { return Ok(Chunks::NoModel) };
    let predicted = chunks(chunk).into_iter().map(|chunk| simulator.with_chunk(chunk, job.clone()));
    Ok(Chunks::Predicted(simulator.name().to_owned(), predicted.collect::<Result<_, _>>()?))
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
