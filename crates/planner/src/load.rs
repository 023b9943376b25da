//! The load that an array is planned for.

/// A load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Share of requests that read, from 0 to 1.
    pub reads: f64,
    /// Places are random, not sequential.
    pub random: bool,
    /// Bytes of a read, on average.
    pub read_size: u64,
    /// Bytes of a write, on average.
    pub write_size: u64,
    /// Requests in flight.
    pub depth: u32,
}
