//! The record of a pool on its members: its label, uberblocks, and who is out of use.

mod config;
pub(crate) mod join;
pub(crate) mod label;
pub(crate) mod state;
pub(crate) mod uberblock;
