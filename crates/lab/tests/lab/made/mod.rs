//! Jobs from the text of a job file.

pub(crate) mod md_bytes;
pub(crate) mod published;

use brindle_lab::job::{Job, JobPlan, Surroundings, parse};

struct Text(String);

impl Surroundings for Text {
    fn read(&self, _: &str) -> Result<String, String> {
        Ok(self.0.clone())
    }
    fn variable(&self, _: &str) -> Option<String> {
        None
    }
    fn pagesize(&self) -> u64 {
        4096
    }
    fn mb_memory(&self) -> u64 {
        1
    }
    fn ncpus(&self) -> u64 {
        1
    }
}

/// The plan of a job file.
pub(crate) fn plan(text: &str) -> JobPlan {
    parse(&["job.fio"], false, &Text(text.to_owned())).unwrap_or_else(|error| panic!("{error}"))
}

/// Its jobs.
pub(crate) fn jobs(text: &str) -> Vec<Job> {
    plan(text).jobs
}

/// No files and no environment.
pub(crate) struct Nowhere;

impl Surroundings for Nowhere {
    fn read(&self, _: &str) -> Result<String, String> {
        Err("no file is read here".to_owned())
    }
    fn variable(&self, _: &str) -> Option<String> {
        None
    }
    fn pagesize(&self) -> u64 {
        4096
    }
    fn mb_memory(&self) -> u64 {
        1
    }
    fn ncpus(&self) -> u64 {
        1
    }
}
