//! fio's own example job files, as Debian installs them: they are not kept here, since they are under another licence.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use brindle_lab::job::{JobError, JobPlan, Surroundings, parse};
use brindle_testkit::skip::{Missing, or_skip};

const FOLDER: &str = "/usr/share/doc/fio/examples";

/// This machine's files, in surroundings that are the same everywhere.
struct Files;

impl Surroundings for Files {
    fn read(&self, file: &str) -> Result<String, String> {
        std::fs::read_to_string(file).map_err(|error| error.to_string())
    }
    fn variable(&self, name: &str) -> Option<String> {
        // Values for the variables in the examples: sizes, counts, names of devices.
        let value = match name {
            "FIO_RW" => "randread",
            _ if name.contains("SIZE") => "64k",
            _ => "4",
        };
        Some(value.to_owned())
    }
    fn pagesize(&self) -> u64 {
        4096
    }
    fn mb_memory(&self) -> u64 {
        1024
    }
    fn ncpus(&self) -> u64 {
        2
    }
}

fn examples() -> Result<Vec<PathBuf>, Missing> {
    let missing = |_| Missing::new(format!("{FOLDER} is not there: install fio-examples"));
    let entries = std::fs::read_dir(FOLDER).map_err(missing)?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "fio"));
    paths.sort();
    if paths.is_empty() { Err(Missing::new(format!("{FOLDER} has no job files"))) } else { Ok(paths) }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn read(path: &Path, lenient: bool) -> Result<JobPlan, JobError> {
    parse(&[&path.to_string_lossy()], lenient, &Files)
}

/// The job files that `docs/fio.md` says are not read, each with the option that stands in the way.
fn documented() -> BTreeMap<String, String> {
    let text = include_str!("../../../../docs/fio.md");
    let (_, table) = text.split_once("## fio's examples").expect("a section on examples");
    let row = |line: &str| {
        let mut cells = line.split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).skip(1);
        Some((cells.next().filter(|name| name.ends_with(".fio"))?, cells.next()?))
    };
    table.lines().filter_map(row).collect()
}

#[test]
fn fios_own_examples_are_read_or_named_with_the_reason() {
    let Some(paths) = or_skip(examples()) else { return };
    let documented = documented();
    let (mut read_whole, mut wrong) = (0, Vec::new());
    for path in &paths {
        let name = name(path);
        match (read(path, false), documented.get(&name)) {
            (Ok(_), None) => read_whole += 1,
            (Ok(_), Some(_)) => wrong.push(format!("{name} is read, and docs/fio.md says it is not")),
            (Err(error), Some(reason)) if error.to_string().contains(reason.as_str()) => {}
            (Err(error), _) => wrong.push(format!("{name} should be in docs/fio.md: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(read_whole >= 40, "only {read_whole} of {} are read", paths.len());
}

#[test]
fn what_examples_say_is_what_jobs_have() {
    let Some(paths) = or_skip(examples()) else { return };
    let plan = |wanted: &str| {
        let path = paths.iter().find(|path| name(path) == wanted).expect("an example of every release");
        read(path, false).expect("a job file that is read")
    };
    let server = plan("iometer-file-access-server.fio");
    let depths: Vec<u32> = server.jobs.iter().map(|job| job.iodepth).collect();
    assert_eq!(depths, [64]);
    assert_eq!(server.jobs[0].reads, 80);
    assert_eq!((server.jobs[0].blocks[0].least(), server.jobs[0].blocks[0].most()), (512, 65536));
    let ssd = plan("ssd-test.fio");
    let names: BTreeSet<&str> = ssd.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, BTreeSet::from(["rand-read", "rand-write", "seq-read", "seq-write"]));
    assert!(ssd.jobs.iter().skip(1).all(|job| job.stonewall), "one after the other");
}
