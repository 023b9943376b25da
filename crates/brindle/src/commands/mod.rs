//! Commands that work on devices themselves, or on devices of a server by name.

pub(crate) mod cat;
pub(crate) mod check;
pub(crate) mod create;
pub(crate) mod demo;
pub(crate) mod detail;
pub(crate) mod devices;
pub(crate) mod examine;
pub(crate) mod grow;
pub(crate) mod growth;
pub(crate) mod pool;
pub(crate) mod update;
pub(crate) mod zero;
