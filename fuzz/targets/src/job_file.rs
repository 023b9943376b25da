//! fio's job files, from users and from others. Input: how (1 byte), then the text of a job file and of one
//! that it may include, with a zero byte between them.

use brindle_lab::job::{JobPlan, Surroundings, parse, parse_words};

/// The two files, and an environment in which every variable holds the first text's beginning.
struct Files<'a> {
    job: &'a str,
    included: &'a str,
}

impl Surroundings for Files<'_> {
    fn read(&self, file: &str) -> Result<String, String> {
        match file {
            "job.fio" => Ok(self.job.to_owned()),
            "nothing" => Err("no such file".to_owned()),
            _ => Ok(self.included.to_owned()),
        }
    }
    fn variable(&self, name: &str) -> Option<String> {
        (!name.is_empty()).then(|| self.job.chars().take(9).collect())
    }
    fn pagesize(&self) -> u64 {
        4096
    }
    fn mb_memory(&self) -> u64 {
        u64::MAX
    }
    fn ncpus(&self) -> u64 {
        1
    }
}

/// Takes the bytes as job files, or as options of the command line.
pub fn run(data: &[u8]) {
    let Some((how, rest)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    let (job, included) = text.split_once('\0').unwrap_or((&text, ""));
    let files = Files { job, included };
    let lenient = how & 1 == 1;
    let plan = if how & 2 == 0 {
        parse(&["job.fio"], lenient, &files)
    } else {
        let words = job.lines().map(|line| match line.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (line.to_owned(), None),
        });
        parse_words(&words.collect::<Vec<_>>(), lenient, &files)
    };
    match plan {
        Ok(plan) => sound(&plan, lenient),
        Err(error) => assert!(!error.to_string().is_empty() && !error.place.file.is_empty()),
    }
}

/// Checks the invariants of every job, whatever was asked for.
fn sound(plan: &JobPlan, lenient: bool) {
    assert!(!plan.jobs.is_empty() && (lenient || plan.warnings.is_empty()));
    for job in &plan.jobs {
        for blocks in &job.blocks {
            assert!(blocks.least() > 0 && blocks.least() <= blocks.most() && blocks.most() <= 32 << 20);
        }
        assert!((1..=65536).contains(&job.depth()) && (1..=1024).contains(&job.numjobs));
        assert!(job.loops > 0 && job.thinktime_blocks > 0 && job.reads <= 100 && !job.name.is_empty());
        assert!(job.startdelay.0 <= job.startdelay.1 && (1..=20).contains(&job.percentiles.len()));
        assert!(job.percentiles.iter().all(|percentile| *percentile > 0.0 && *percentile <= 100.0));
        assert!(!job.time_based || job.runtime.is_some());
    }
}
