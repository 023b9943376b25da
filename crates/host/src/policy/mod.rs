//! Decisions that nobody asks for, as long as arrays are served.

pub(crate) mod again;
pub(crate) mod former;
mod returns;
mod spares;
