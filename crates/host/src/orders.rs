//! Messages to the arrays' thread.

use std::time::Duration;

use crate::control::{Reply, Request};

/// A message to the arrays' thread.
pub enum Message {
    /// A request, and where its answer goes.
    Ask(Request, Reply),
    /// One array is to stop, within this time.
    StopOne(String, Duration, Reply),
    /// The whole server is to end.
    Order(Order),
}

/// An order to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Drain, flush, mark clean.
    Stop,
    /// As `Stop`, but devices of the kernel are left to the server that takes this one's place.
    HandOver,
    /// End at once: nothing is drained, flushed or marked.
    GiveUp,
}
