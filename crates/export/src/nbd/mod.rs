//! The Network Block Device protocol, fixed newstyle: `docs/protocols/nbd.md` draws the messages.
//!
//! | part | does |
//! |---|---|
//! | [`proto`] | bytes to structs and back, what is allowed on an export; no I/O |
//! | `handshake` | options, until the client has chosen an export |
//! | `connection` | requests: one receiver, some slots, one sender per connection |
//! | [`Server`] | listeners, exports, memory, the end |

mod config;
mod connection;
mod export;
mod handshake;
mod inbox;
pub mod proto;
mod server;

pub use config::Config;
pub use export::{AddExportError, Counters};
pub use server::{ConnectionStats, ExportStats, Server};
