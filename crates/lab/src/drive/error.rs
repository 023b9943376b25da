//! Errors in models of drives and in tables, with their place.

use core::fmt;

/// Most bytes of a model, and of a table.
pub(super) const LONGEST: usize = 1 << 20;

/// An error in a file, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveError {
    /// The file, as it was named.
    pub file: String,
    /// Its line, from 1; 0 is the file as a whole.
    pub line: usize,
    /// The error itself.
    pub kind: DriveErrorKind,
}

/// Kinds of errors in models and tables.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriveErrorKind {
    /// It is no TOML, or has keys that models don't have, or lacks some.
    #[error("{0}")]
    Syntax(String),
    /// A number that can't be.
    #[error("{what} must be {wanted}")]
    Number {
        /// The quantity in question.
        what: &'static str,
        /// The values that are allowed.
        wanted: &'static str,
    },
    /// Points of a curve that do not rise.
    #[error("the points of {0} must be pairs of numbers that rise in the first, and there must be one")]
    Curve(&'static str),
    /// No header that says what a table holds.
    #[error(
        "the header must be 'pattern,bs_kib,mb_s', 'bs,rN,...' with N per cent of reads from r0 to r100, or 'stat,bs,rN,...'"
    )]
    Header,
    /// A row with too many or too few columns.
    #[error("{found} columns, where the header has {wanted}")]
    Columns {
        /// The number of columns in the row.
        found: usize,
        /// The number of columns in the header.
        wanted: usize,
    },
    /// A cell with an unknown value.
    #[error("'{0}' is not a {1}")]
    Cell(String, &'static str),
    /// Two figures of one measurement.
    #[error("the same was measured in line {0}: a table has one figure for each")]
    Twice(usize),
    /// Rows that a fit needs are not there.
    #[error("{0}")]
    Lacks(&'static str),
    /// The file is larger than any model or table.
    #[error("more than {0} bytes")]
    TooLong(usize),
}

impl fmt::Display for DriveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.kind),
            line => write!(f, "{}:{line}: {}", self.file, self.kind),
        }
    }
}

impl core::error::Error for DriveError {}
