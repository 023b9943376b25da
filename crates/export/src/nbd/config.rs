//! What whoever starts a server decides.

use brindle_io::{Duration, MAX_BUF, PAGE};

/// Bounds of a [`super::Server`]. Bytes and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Buffers of requests, for all connections together. A request larger than this (rounded down to a power of two)
    /// is refused, so less than 32 MiB makes for a server that takes less than clients may expect.
    pub memory: usize,
    /// Connections at a time; further ones are closed as they come.
    pub connections: usize,
    /// Requests of one connection that are under way, counted until their replies are sent. What a client sends
    /// beyond that stays in its socket.
    pub requests: usize,
    /// A client that has not chosen an export by then is disconnected.
    pub handshake: Duration,
    /// A client that neither takes a reply nor sends the data it has announced for so long is disconnected, if others
    /// wait for the memory it holds.
    pub stall: Duration,
    /// How long replies to a client that leaves, or that is left by a stopping server, may take.
    pub grace: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            memory: 128 << 20,
            connections: 64,
            requests: 128,
            handshake: Duration::from_secs(30),
            stall: Duration::from_secs(30),
            grace: Duration::from_secs(10),
        }
    }
}

impl Config {
    /// The largest request that the memory has room for, at most [`MAX_BUF`] (32 MiB).
    pub(crate) fn max_payload(&self) -> u32 {
        let largest = 1 << self.memory.max(PAGE).ilog2();
        largest.min(MAX_BUF) as u32
    }

    /// Bytes of buffers that one connection may hold: a quarter, but room for one request of the largest size.
    pub(crate) fn memory_per_connection(&self) -> usize {
        (self.memory / 4).max(self.max_payload() as usize)
    }
}
