//! The other end of a connection, for the log.

use std::fmt;
use std::net::SocketAddr;

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Address(SocketAddr),
    User(Option<u32>),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::User(Some(user)) => write!(f, "user {user}"),
            Self::User(None) => f.write_str("a user who is not known"),
        }
    }
}
