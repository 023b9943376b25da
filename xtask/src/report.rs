//! The findings of a check, and how they are printed.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

/// One broken rule at one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Offence {
    /// Path relative to the root of the workspace.
    pub(crate) file: PathBuf,
    /// Line counted from 1; 0 where the whole file is meant.
    pub(crate) line: usize,
    /// Short stable name of the rule, for searching.
    pub(crate) rule: &'static str,
    /// The fault.
    pub(crate) what: String,
    /// The way out.
    pub(crate) way_out: String,
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}: {}; {}", self.rule, self.what, self.way_out)
    }
}

/// Prints the offences of the check `name` in order of place and turns them into an exit status.
pub(crate) fn print(name: &str, offences: &[Offence]) -> ExitCode {
    let mut sorted = offences.to_vec();
    sorted.sort();
    sorted.dedup();
    for offence in &sorted {
        eprintln!("{offence}");
    }
    if sorted.is_empty() {
        println!("{name}: nothing to complain about");
        ExitCode::SUCCESS
    } else {
        eprintln!("{name}: {} offence(s)", sorted.len());
        ExitCode::FAILURE
    }
}
