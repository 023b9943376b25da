//! Flags of commands that need few.

use std::path::PathBuf;

use clap::Args;

use super::Runtime;

use crate::base::units::Bytes;

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

/// Flags of `brindle report`.
#[derive(Debug, Args)]
pub(crate) struct Bundle {
    /// The file that is written; - is standard output
    #[arg(long, short = 'o', value_name = "FILE", default_value = "brindle-report.json")]
    pub(crate) output: PathBuf,
    /// Include serial numbers of drives
    #[arg(long)]
    pub(crate) serials: bool,
    /// Include addresses of exports and of clients
    #[arg(long)]
    pub(crate) clients: bool,
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Devices, and folders of them, that are looked at [default: all disks and partitions]
    #[arg(value_name = "DEVICE|FOLDER")]
    pub(crate) places: Vec<PathBuf>,
}

/// Flags of `brindle zero-superblock`.
#[derive(Debug, Args)]
pub(crate) struct ZeroSuperblock {
    /// Only show the superblocks that would be erased
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Erase superblocks that are damaged, or that are a partition's which ends with the device, too
    #[arg(long, short = 'f')]
    pub(crate) force: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Disks, partitions or files
    #[arg(required = true, value_name = "DEVICE")]
    pub(crate) devices: Vec<PathBuf>,
}
