//! Commands and flags as data, and the pages that are made of them. They are carried out elsewhere.

pub(crate) mod cli;
pub(crate) mod docs;
pub(crate) mod job_flags;
