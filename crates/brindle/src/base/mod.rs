//! Modules that all other folders use: failures, reports, texts and units, logs, places of running servers. They know no flag.

pub(crate) mod cores;
pub(crate) mod deadline;
pub(crate) mod executable;
pub(crate) mod exit_status;
pub(crate) mod failure;
pub(crate) mod host;
pub(crate) mod locks;
pub(crate) mod log;
pub(crate) mod look;
pub(crate) mod machine;
pub(crate) mod models;
pub(crate) mod path;
pub(crate) mod progress;
pub(crate) mod random;
pub(crate) mod reactor;
pub(crate) mod replace;
pub(crate) mod report;
pub(crate) mod runtime;
pub(crate) mod scrubs;
pub(crate) mod stuck;
pub(crate) mod sync;
pub(crate) mod text;
pub(crate) mod typed;
pub(crate) mod units;
pub(crate) mod uri;
