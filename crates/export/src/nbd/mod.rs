//! The Network Block Device protocol, fixed newstyle: `docs/protocols/nbd.md` draws the messages.
//!
//! | part | does |
//! |---|---|
//! | [`proto`] | bytes to structs and back, what is allowed on an export; no I/O |
//! | `handshake` | options, until the client has chosen an export |
//! | `connection` | requests: one receiver, some slots, one sender per connection |
//! | [`Away`], [`Outpost`] | sessions that another reactor has: at home, and there |
//! | [`client`] | the other side, for tools, tests and what comes |
//! | [`Server`] | the exports; memory, limits and patience are those of every protocol (`crate::session`) |

mod away;
pub mod client;
mod connection;
mod export;
mod handshake;
mod outpost;
pub mod proto;
mod server;

pub use crate::session::{Config, ConnectionStats, Counters, ExportStats};
pub use away::{Away, AwayUse, Choose, Departing, Post, Posting, Unplaced};
pub use export::AddExportError;
pub use outpost::{HOME, MakeVolume, Outpost};
pub use server::Server;
