//! Errors of an array that a boot accepts.

use brindle_array::ProcessError;

use super::super::judge::Failure;
use crate::client::Trouble;

/// The errors that a boot must accept.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// Answers may be errors.
    pub(super) errors: bool,
}

impl Patience {
    pub(super) fn with(self, answer: Result<(), Trouble>) -> Result<(), Failure> {
        match answer {
            Err(Trouble::Refused(..)) if self.errors => Ok(()),
            other => other.map_err(Failure::Client),
        }
    }

    pub(super) fn engine(
        self,
        what: &'static str,
        answer: Result<(), impl Into<ProcessError>>,
    ) -> Result<(), Failure> {
        answer.or_else(
            |error| {
                if self.errors { Ok(()) } else { Err(Failure::Engine { what, error: error.into() }) }
            },
        )
    }
}
