//! The parts that servers of every protocol share: who may connect, how much memory and how many requests a client
//! may have, the tasks that carry them out, and how clients end. Those that are slow, silent, lying or many are dealt with here, too.
//!
//! | part | does |
//! |---|---|
//! | [`Sessions`] | lets clients in up to a limit, counts them, ends them |
//! | `patrol` | looks once a round which clients have stopped moving, and closes them if they harm others |
//! | [`Exports`] | the volumes that a door offers, each an [`Offered`]: terms, counters, clients |
//! | [`Account`] | a client: what its requests hold, whether it moves, its end; its [`Seat`] is its place among all |
//! | [`Memory`] | the buffers of requests: a share for each client, a reserve for small requests |
//! | [`MemoryShare`] | the part of a reactor in the buffers that several have together |
//! | [`Ticket`] | a request's place in the account, with its buffer |
//! | [`Slots`] | the tasks that carry out a client's requests |
//! | `Link` | an account with a socket, and TLS on it |
//! | `Inbox`, `Replies` | bytes that have come and have not been looked at; replies that are to be sent |
//!
//! A protocol on sockets (`Protocol`) gets `ConnectionResources` and talks until the connection is over. A door without sockets takes
//! a [`Seat`] for each client by [`Sessions::enter`], and has all of this but the last two rows.

mod account;
mod client_progress;
mod common;
mod config;
mod course;
mod inbox;
mod link;
mod memory;
mod offered;
mod overflow;
mod patrol;
mod receiving;
mod refusals;
mod replies;
mod roster;
mod seat;
mod secure;
mod sessions;
mod slots;
mod tally;
mod unread_replies;

pub use crate::pieces::Unfinished;
pub use account::{Account, End, Wire};
pub use common::MemoryShare;
pub use config::Config;
pub(crate) use inbox::{INBOX, Inbox};
pub(crate) use link::Link;
pub use memory::{Memory, Ticket};
pub use offered::{Export, ExportStats, Exports, Moves, Offered};
pub(crate) use receiving::Coming;
pub(crate) use refusals::Refusals;
pub(crate) use replies::{PIECE, Replies, STRETCHES};
pub use seat::Seat;
pub(crate) use secure::SecureError;
pub use secure::Security;
pub(crate) use sessions::{ConnectionResources, Protocol};
pub use sessions::{ConnectionStats, Sessions};
pub use slots::{Slots, Worker, dispatch};
pub use tally::Counters;
pub(crate) use tally::CountersAway;
