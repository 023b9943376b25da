//! From job files and flags to jobs.

use std::path::{Path, PathBuf};
use std::thread;

use brindle_host::opening::Tuning;
use brindle_lab::job::{JobPlan, Surroundings, parse, parse_words};

use crate::base::failure::Failure;
use crate::base::machine::kib;
use crate::base::text;
use crate::flags::cli::{self, Bench};

/// A list of devices takes all names that follow it: job files at its end are no devices, and are not to be written to.
pub(super) fn take_job_files(args: &mut Bench) -> Result<(), Failure> {
    let is_job = |name: &PathBuf| name.extension().is_some_and(|ending| ending == "fio");
    for list in [&mut args.array, &mut args.device] {
        let devices = list.iter().rposition(|name| !is_job(name)).map_or(0, |at| at + 1);
        args.jobs.extend(list.drain(devices..));
    }
    let instead = args.suite.is_some() || args.traces.trace_set.is_some() || !args.traces.trace.is_empty();
    if args.array.is_empty() && args.device.is_empty() && args.nbd.is_none() {
        return Err(Failure::Usage("only job files are named: name a device or members, too".to_owned()));
    }
    if instead && !args.jobs.is_empty() {
        let both = format!("{} is a job file, and --suite and traces have their own", args.jobs[0].display());
        return Err(Failure::Usage(both));
    }
    Ok(())
}

/// The jobs of the files named, or those of the flags; options without effect are reported on standard error.
pub(super) fn plan(args: &Bench) -> Result<JobPlan, Failure> {
    let flags = &args.options.0;
    let plan = if args.jobs.is_empty() {
        parse_words(flags, args.lenient, &Here)?
    } else if flags.is_empty() {
        let files: Vec<String> = args.jobs.iter().map(|file| file.display().to_string()).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        parse(&files, args.lenient, &Here)?
    } else {
        let both =
            "give job files or options of jobs as flags, not both: options of a file stand in the file";
        return Err(Failure::Usage(both.to_owned()));
    };
    tell(&plan);
    Ok(plan)
}

/// Prints which options have no effect, and which errors were skipped.
pub(crate) fn tell(plan: &JobPlan) {
    for note in &plan.notes {
        eprintln!("brindle: {}: {}: {}", note.place, note.option, note.effect);
    }
    for warning in &plan.warnings {
        eprintln!("brindle: {warning}");
    }
}

/// This machine, as the environment of job files.
pub(crate) struct Here;

impl Surroundings for Here {
    fn read(&self, file: &str) -> Result<String, String> {
        text::read(Path::new(file)).map_err(|error| error.to_string())
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn pagesize(&self) -> u64 {
        // Of the first stretch of this program; nothing maps others.
        kib(Path::new("/proc/self/smaps"), "KernelPageSize:").unwrap_or(4) << 10
    }

    fn mb_memory(&self) -> u64 {
        kib(Path::new("/proc/meminfo"), "MemTotal:").unwrap_or(0) >> 10
    }

    fn ncpus(&self) -> u64 {
        thread::available_parallelism().map_or(1, |count| count.get() as u64)
    }
}

/// Bytes for requests in flight: half of `--memory`, and without it as much as jobs need, up to half of what the machine has to
/// spare.
pub(super) fn for_requests(tuning: cli::Tuning) -> u64 {
    let usual = Tuning::from(tuning).for_requests();
    let spare = kib(Path::new("/proc/meminfo"), "MemAvailable:").unwrap_or(0) << 9;
    if tuning.memory.is_some() { usual } else { usual.max(spare) }
}
