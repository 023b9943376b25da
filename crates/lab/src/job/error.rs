//! Why job files can't be used, and where in them.

use core::fmt;
use std::sync::Arc;

/// Where something stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingPlace {
    /// The file, as it was named; `command line` for a flag.
    pub file: Arc<str>,
    /// Counted from 1; 0 where there are no lines.
    pub line: usize,
}

impl fmt::Display for SettingPlace {
    /// `file:line`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// Why job files can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {kind}")]
pub struct JobError {
    /// Where.
    pub place: SettingPlace,
    /// The error itself.
    pub kind: JobErrorKind,
}

/// An error in a job file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobErrorKind {
    /// A file can't be read.
    #[error("can't be read: {0}")]
    Unreadable(String),
    /// Files include one another without end, or hold more than any job needs.
    #[error("{0}")]
    TooMuch(&'static str),
    /// A section's name does not end.
    #[error("a section's name stands in brackets, as in [name]")]
    Header,
    /// An option before the first section.
    #[error("option '{0}' stands in no section: put it below [global] or a job's [name]")]
    Outside(String),
    /// An included file has a section.
    #[error("an included file holds options only, no [section]")]
    SectionInside,
    /// An unknown option, which fio may know.
    #[error("option '{0}' is not supported; --lenient leaves it out")]
    Unknown(String),
    /// The engine does no block I/O.
    #[error("ioengine={0} reads and writes no blocks: nothing here stands for it")]
    Engine(String),
    /// The value of an option is wrong.
    #[error("{option}={value}: give {wants}")]
    Value {
        /// The option.
        option: String,
        /// The text that was given.
        value: String,
        /// The values that are allowed.
        wants: &'static str,
    },
    /// Options that can't be true together.
    #[error("job '{job}': {why}")]
    Contradiction {
        /// The job.
        job: String,
        /// The reason why the value does not fit.
        why: &'static str,
    },
    /// There are only global sections.
    #[error("there is no job: give a section other than [global]")]
    NoJob,
}

impl JobErrorKind {
    pub(super) fn at(self, place: &SettingPlace) -> JobError {
        JobError { place: place.clone(), kind: self }
    }
}

/// The values that would have been allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wants(pub(super) &'static str);
