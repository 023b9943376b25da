//! Servers: arrays and pools that they serve, their settings, sockets and signals, and their end.

pub(crate) mod assemble;
pub(crate) mod daemon;
pub(crate) mod descriptors;
pub(crate) mod reach;
pub(crate) mod saving;
pub(crate) mod serve;
pub(crate) mod settings;
pub(crate) mod shutdown;
