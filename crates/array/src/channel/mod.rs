//! Channels: an array on reactors that are not its home. They read it while it is whole, and write as far as that is one write to each member
//! that has the byte; all else goes home.
//!
//! [`crate::channels`] is home's side, and has the state that both share. Here are: the copy of an array's state, and what changes it
//! (`state`); its ports (`open`); `reads` and `writes`; `leases`, without which nothing is written; what home is told (`telling`); and the
//! look at what takes long (`patrol`).

mod leases;
mod open;
mod patrol;
mod reads;
mod state;
mod table;
mod telling;
mod volume;
mod writes;

pub use table::ChannelTable;
pub use volume::Channeled;
