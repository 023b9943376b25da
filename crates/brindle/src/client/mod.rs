//! Commands that ask a running server, and words for its answers.

pub(crate) mod action;
pub(crate) mod ask;
pub(crate) mod bundle;
pub(crate) mod choice;
pub(crate) mod console;
pub(crate) mod control;
pub(crate) mod exports;
pub(crate) mod findings;
pub(crate) mod health;
pub(crate) mod metrics;
pub(crate) mod monitor;
pub(crate) mod mount;
pub(crate) mod next_step;
pub(crate) mod scan;
pub(crate) mod scrub;
pub(crate) mod status;
pub(crate) mod wait;
pub(crate) mod watch;
