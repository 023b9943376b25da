//! Settings that the starter of a server chooses.

use brindle_io::{Duration, MAX_BUF, PAGE};

/// The longest time between two looks at the progress of clients.
const LONGEST_ROUND: Duration = Duration::from_secs(1);

/// Connections of clients that only want to learn of exports: beside those that the config allows, so that they keep nobody from one.
pub(super) const VISITS: usize = 16;
/// Time after which one is closed that has asked nothing more.
pub(super) const VISIT: Duration = Duration::from_secs(30);

/// Bounds of a server. Bytes and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Buffers of requests, for all connections together. A request larger than this (rounded down to a power of two)
    /// is refused, so less than 32 MiB makes for a server that takes less than clients may expect.
    pub memory: usize,
    /// Connections at a time. When there are as many, one more takes the place of one that has not chosen an export
    /// yet, else of the one that has not taken a byte of its replies for longest, for `stall` at least. A connection
    /// for which no place is free is closed at once.
    pub connections: usize,
    /// Requests of one connection that are under way, counted until their replies are sent. What a client sends
    /// beyond that stays in its socket.
    pub requests: usize,
    /// A client that has not chosen an export by then is disconnected.
    pub handshake: Duration,
    /// A client that takes less than 1 MiB of its replies, or sends less than 1 MiB of its announced data, in this
    /// time is disconnected if others wait for the memory it holds. A client that takes no byte of its replies in
    /// this time is disconnected if others wait for its place.
    pub stall: Duration,
    /// Time after which a client is disconnected that takes no byte of waiting replies, or sends less than 1 MiB of
    /// announced data.
    pub deadline: Duration,
    /// Time that clients may take to read the replies to their last requests when the server stops.
    pub grace: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            memory: 128 << 20,
            connections: 64,
            requests: 128,
            handshake: Duration::from_secs(10),
            stall: Duration::from_secs(10),
            deadline: Duration::from_secs(120),
            grace: Duration::from_secs(1),
        }
    }
}

impl Config {
    /// The largest request that the memory has room for, at most [`MAX_BUF`] (32 MiB).
    pub fn largest_request(&self) -> usize {
        MAX_BUF.min(1 << self.memory.max(PAGE).ilog2())
    }

    /// Time from one look at who moves to the next.
    pub(super) fn round(&self) -> Duration {
        LONGEST_ROUND.min(self.stall / 4).min(self.handshake / 4)
    }

    /// Rounds in which `span` is over.
    pub(super) fn rounds(&self, span: Duration) -> u32 {
        let rounds = span.as_nanos().div_ceil(self.round().as_nanos().max(1));
        u32::try_from(rounds).unwrap_or(u32::MAX).max(1)
    }
}
