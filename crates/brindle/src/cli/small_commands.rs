//! Flags of commands that need few.

use std::path::PathBuf;

use clap::Args;

use crate::units::Bytes;

/// Flags of `brindle demo`.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Folder for the members [default: a new one that is removed at the end]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
    /// Keep the members
    #[arg(long)]
    pub(crate) keep: bool,
    /// Size of each of the six members
    #[arg(long, default_value = "64M", value_parser = Bytes::parse)]
    pub(crate) member_size: Bytes,
}

/// Flags of `brindle completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Flags of `brindle man`.
#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Folder to write to; made if it is not there
    #[arg(default_value = "man")]
    pub(crate) folder: PathBuf,
}
