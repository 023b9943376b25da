//! The parts that servers of every protocol share: who may connect, how much memory and how many requests a client
//! may have, and the treatment of clients that are slow, silent, lying or many.
//!
//! | part | does |
//! |---|---|
//! | [`Sessions`] | accepts connections up to a limit, counts them, ends them |
//! | `patrol` | looks once a round which clients have stopped moving, and closes them if they harm others |
//! | [`Memory`] | the buffers of requests: a share for each connection, a reserve for small requests |
//! | [`Link`] | a connection: its socket, and the account of what it holds |
//! | [`Ticket`] | a request's place in that account, with its buffer |
//! | [`Inbox`] | what has come from a socket and has not been looked at |
//!
//! A protocol ([`Protocol`]) gets a [`ConnectionResources`] and talks until the connection is over.

mod client_progress;
mod config;
mod inbox;
mod link;
mod memory;
mod overflow;
mod patrol;
mod refusals;
mod roster;
mod secure;
mod sessions;
mod tally;
mod unread_replies;

pub use config::Config;
pub(crate) use inbox::{INBOX, Inbox};
pub(crate) use link::{End, Link};
pub(crate) use memory::{Memory, Ticket};
pub(crate) use refusals::Refusals;
pub(crate) use secure::SecureError;
pub use secure::Security;
pub use sessions::ConnectionStats;
pub(crate) use sessions::{ConnectionResources, Protocol, Sessions};
pub use tally::Counters;
pub(crate) use tally::{Latencies, SharedCounters};
