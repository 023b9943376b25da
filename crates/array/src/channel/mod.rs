//! Channels: reads of an array that is whole, on reactors that are not its home.
//!
//! [`crate::channels`] is home's side, and has the state that both share.

mod reads;
mod table;
mod volume;

pub use table::ChannelTable;
pub use volume::Channeled;
