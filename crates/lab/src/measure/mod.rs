//! Measurements: latencies, throughput over time, and whether it is steady.

mod latency;
mod series;
mod steady;
mod tally;

pub use latency::Latency;
pub use series::{Bin, Series, Spread};
pub use steady::{Round, Steadiness, steadiness};
pub use tally::{LogEntry, Tally, Timing};
