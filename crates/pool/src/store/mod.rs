//! The state of what is stored: volumes, their map and its leaves, segments and their table, parity of stripes. Nothing here asks a
//! member.

pub(crate) mod history;
pub(crate) mod leaf;
pub(crate) mod map;
pub(crate) mod owed;
pub(crate) mod space;
pub(crate) mod stripe;
pub(crate) mod table;
pub(crate) mod volumes;
