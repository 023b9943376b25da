//! Flags that steer the engine: memory, mirrors, members without space.

use clap::{Args, ValueEnum};

use super::Patience;
use crate::base::units::Bytes;

/// Flags that steer the engine.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Tuning {
    /// Which copy a mirror is read from
    #[arg(long, default_value = "least-outstanding", value_name = "POLICY")]
    pub(crate) read_policy: ReadPolicy,
    /// Most memory for buffers, of all arrays together; taken as needed, given back when unused [default: 256M; of bench also
    /// what its jobs need, up to half of what the machine has to spare]
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    pub(crate) memory: Option<Bytes>,
    /// Most memory for the maps of pools, shared evenly by all of a server: 4 MiB for each TiB of data at least; 3 GiB hold all of a
    /// map. What is not in memory is read when it is needed [default: a sixteenth of what the machine or its container has]
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    pub(crate) map_memory: Option<Bytes>,
    #[command(flatten)]
    pub(crate) patience: Patience,
}

/// The treatment of a member that has no space for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnFull {
    /// It stays in use: the write is refused, and redundancy that it may have changed in part is brought in sync once there is space
    Wait,
    /// It fails, if the array can do without it, as with md
    Fail,
}

/// Which copy a mirror is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReadPolicy {
    /// The copy with the least work outstanding; large reads are split over all copies
    LeastOutstanding,
    /// The copies in turn
    RoundRobin,
    /// The first copy that can be read
    First,
}
