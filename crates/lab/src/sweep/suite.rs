//! Named suites, and a user's own, as TOML.

use super::Axes;

/// Name and text of each suite that ships.
pub const SUITES: [(&str, &str); 7] = [
    ("chunk-table", include_str!("../../suites/chunk-table.toml")),
    ("fileserver", include_str!("../../suites/fileserver.toml")),
    ("jesd219", include_str!("../../suites/jesd219.toml")),
    ("latency", include_str!("../../suites/latency.toml")),
    ("mix-matrix", include_str!("../../suites/mix-matrix.toml")),
    ("scaling", include_str!("../../suites/scaling.toml")),
    ("throughput", include_str!("../../suites/throughput.toml")),
];

/// What is wrong with a suite, and in which line of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {why}")]
pub struct SuiteError {
    /// The file, as it was named.
    pub file: String,
    /// Its line, from 1.
    pub line: usize,
    /// What is wrong.
    pub why: String,
}

/// Reads a suite.
///
/// # Errors
/// What is no TOML, or no axis.
pub fn suite(file: &str, text: &str) -> Result<Axes, SuiteError> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
        SuiteError { file: file.to_owned(), line, why: error.message().to_owned() }
    })
}
