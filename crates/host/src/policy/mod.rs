//! Decisions that a server takes by itself, as long as arrays are served.

pub(crate) mod former;
pub(crate) mod readd;
mod returns;
mod spares;
