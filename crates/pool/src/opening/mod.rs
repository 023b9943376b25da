//! The way to a running pool: creation, looks at devices, opening, recovery from the log; members that leave, come back and are replaced;
//! growth.

pub(crate) mod create;
mod dead;
pub(crate) mod grow;
pub(crate) mod labels;
pub(crate) mod look;
pub(crate) mod open;
pub(crate) mod replay;
pub(crate) mod returned;
mod sparing;
mod succession;
mod tables;
pub(crate) mod whose;
