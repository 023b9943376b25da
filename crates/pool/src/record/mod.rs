//! The record of a pool on its members: uberblocks, and who is out of use.

pub(crate) mod state;
pub(crate) mod uberblock;
