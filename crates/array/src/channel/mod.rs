//! Channels: an array on reactors that are not its home. They read what its members have, and change it while it is whole and in sync, or a
//! mirror of which nothing is rebuilt; all else goes home.
//!
//! [`crate::channels`] is home's side, and has the state that both share. Here are: the copy of an array's state, and what changes it
//! (`state`); its ports (`open`); `reads`, `writes`, and `zeroes`; `leases`, without which nothing is changed. Members that have refused a write are
//! home's to judge (`settling`). What else home is told is in `telling`, and the look at requests that take long in `patrol`.

mod leases;
mod open;
mod patrol;
mod reads;
mod settlements;
mod settling;
mod state;
mod table;
mod telling;
mod volume;
mod writes;
mod zeroes;

pub use table::ChannelTable;
pub use volume::Channeled;
