//! Flags of what clients come by, while a server runs.

use std::num::NonZeroU64;

use brindle_host::control::RateLimits;
use clap::Args;

use super::Runtime;
use crate::units::{Bytes, Span};

/// The burst that is borne where none is said. Milliseconds.
const BURST: u64 = 100;

/// Limits of the clients of each array.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Limits {
    /// Requests a second that the clients of an array are granted, all together; 0 for as many as they like
    #[arg(long, value_name = "COUNT")]
    pub(crate) max_iops: Option<u64>,
    /// Bytes a second that they may read and write, together; 0 for as many as they like
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    pub(crate) max_bandwidth: Option<Bytes>,
    /// Requests are granted at once that these limits would spread over so long [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = Span::parse)]
    pub(crate) burst: Option<Span>,
}

impl Limits {
    /// Limits as the server takes them; `None` if nothing is said of them.
    pub(crate) fn said(&self) -> Option<RateLimits> {
        let said = self.max_iops.is_some() || self.max_bandwidth.is_some() || self.burst.is_some();
        said.then(|| RateLimits {
            iops: self.max_iops.and_then(NonZeroU64::new),
            bandwidth: self.max_bandwidth.and_then(|bytes| NonZeroU64::new(bytes.0)),
            burst: self.burst.map_or(BURST, |burst| burst.0),
        })
    }
}

/// Flags of `brindle export`.
#[derive(Debug, Args)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    #[command(flatten)]
    pub(crate) limits: Limits,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the array, its UUID or one of its members
    pub(crate) array: String,
}

/// Flags of `brindle unexport`.
#[derive(Debug, Args)]
pub(crate) struct Unexport {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the array, its UUID or one of its members
    pub(crate) array: String,
}

/// Flags of `brindle disconnect`.
#[derive(Debug, Args)]
pub(crate) struct Disconnect {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the array, its UUID or one of its members
    pub(crate) array: String,
    /// An address, `local` for those of Unix sockets, a name of a certificate or a secret, or of an initiator [default: all]
    pub(crate) client: Option<String>,
}
