//! Flags of the commands that talk to a running server.

use std::path::PathBuf;

use clap::Args;

use crate::control::Word;
use crate::units::Bytes;

/// Where control sockets are.
#[derive(Clone, Debug, Args)]
pub(crate) struct Runtime {
    /// Folder of the control sockets [default: $XDG_RUNTIME_DIR/brindle, or /run/brindle for root]
    #[arg(long, env = "BRINDLE_RUNTIME_DIR", value_name = "FOLDER")]
    pub(crate) runtime_dir: Option<PathBuf>,
}

/// Flags of `brindle status`.
#[derive(Debug, Args)]
pub(crate) struct Status {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the array, its UUID or one of its members [default: all that run]
    pub(crate) array: Option<String>,
}

/// Flags of `brindle fail`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct Fail {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the array, or its UUID [default: the one that has the member]
    pub(crate) array: Option<String>,
    /// The member, as it was named to `serve`, or its role's number
    pub(crate) member: String,
}

/// Flags of `brindle action`.
#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(crate) struct Action {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Go over so many bytes a second at most; 0 for as fast as it goes
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse)]
    pub(crate) max_speed: Option<Bytes>,
    /// Name of the array, its UUID, or one of its members [default: the only one]
    pub(crate) array: Option<String>,
    /// What is to be done
    pub(crate) action: Word,
}

/// Flags of `brindle wait`.
#[derive(Debug, Args)]
pub(crate) struct Wait {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the array, its UUID, or one of its members [default: the only one]
    pub(crate) array: Option<String>,
}

/// Flags of `brindle stop`.
#[derive(Debug, Args)]
pub(crate) struct Stop {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The whole server of the array, with all that it serves
    #[arg(long)]
    pub(crate) all: bool,
    /// Name of the array, its UUID or one of its members [default: the only server, with all that it serves]
    pub(crate) array: Option<String>,
}
