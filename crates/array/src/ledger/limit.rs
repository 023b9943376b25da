//! Limits of an array: why it is not written to, or why its content is less certain.

use core::fmt;

/// A reason why an array is not written to, or why its content is less certain, as the format of its record has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The text of the limitation.
    pub text: String,
    /// Whether the limitation forbids writes.
    pub forbids_writes: bool,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
