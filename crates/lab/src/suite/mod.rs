//! Suites: loads that have a name, those that ship and a user's own, as TOML. Pure.
//!
//! A suite has either axes, whose cross product is measured or predicted, or jobs in fio's words with scores over them.

mod jobs;
mod loads;

use serde::de::DeserializeOwned;

pub use jobs::{Jobs, Of, Score, Scored};
pub use loads::{Loads, LoadsError};

use crate::sweep::Axes;

/// Name and text of each suite that ships.
pub const SUITES: [(&str, &str); 10] = [
    ("as-ssd", include_str!("../../suites/as-ssd.toml")),
    ("chunk-table", include_str!("../../suites/chunk-table.toml")),
    ("fileserver", include_str!("../../suites/fileserver.toml")),
    ("gnome-disks", include_str!("../../suites/gnome-disks.toml")),
    ("jesd219", include_str!("../../suites/jesd219.toml")),
    ("latency", include_str!("../../suites/latency.toml")),
    ("mix-matrix", include_str!("../../suites/mix-matrix.toml")),
    ("overhead", include_str!("../../suites/overhead.toml")),
    ("scaling", include_str!("../../suites/scaling.toml")),
    ("throughput", include_str!("../../suites/throughput.toml")),
];

/// A suite.
#[derive(Clone, Debug)]
pub enum Suite {
    /// The cross product of lists.
    Axes(Axes),
    /// Jobs one after the other.
    Jobs(Jobs),
}

/// An error in a suite, with its line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {why}")]
pub struct SuiteError {
    /// The file, as it was named.
    pub file: String,
    /// Its line, from 1.
    pub line: usize,
    /// The error itself.
    pub why: String,
}

/// Reads a suite.
///
/// # Errors
/// If the text is not TOML, an axis or a job is wrong, or a score names no job.
pub fn suite(file: &str, text: &str) -> Result<Suite, SuiteError> {
    let table: toml::Table = read(file, text)?;
    if !table.contains_key("job") {
        return read(file, text).map(Suite::Axes);
    }
    let jobs: Jobs = read(file, text)?;
    jobs.check().map_err(|(at, why)| wrong(file, text, at, why))?;
    Ok(Suite::Jobs(jobs))
}

impl Suite {
    /// The purpose of the suite.
    pub fn about(&self) -> &str {
        match self {
            Self::Axes(axes) => &axes.about,
            Self::Jobs(jobs) => &jobs.about,
        }
    }

    /// The suite's axes, if it has axes and not jobs.
    pub fn axes(self) -> Option<Axes> {
        match self {
            Self::Axes(axes) => Some(axes),
            Self::Jobs(_) => None,
        }
    }
}

fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, SuiteError> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        wrong(file, text, at, error.message().to_owned())
    })
}

/// The line in which byte `at` stands.
fn wrong(file: &str, text: &str, at: usize, why: String) -> SuiteError {
    let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    SuiteError { file: file.to_owned(), line, why }
}
