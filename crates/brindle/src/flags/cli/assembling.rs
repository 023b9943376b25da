//! Flags of `brindle assemble`.

use std::path::PathBuf;

use clap::Args;

use super::Runtime;
use crate::base::units::Span;

/// Flags of `brindle assemble`.
#[derive(Debug, Args)]
pub(crate) struct Assemble {
    /// Find the members: among the devices and in the folders that are named, or among all disks and partitions of this machine
    #[arg(long, short = 's', required = true)]
    pub(crate) scan: bool,
    /// Only show the arrays that would be started
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Serve arrays that can't be put together for certain: with as few members that are out of date as are needed, the newest first, or
    /// dirty and degraded; and pools that another host has not exported. --dry-run shows the risks. What members that are out of date hold is only read
    #[arg(long, short = 'f')]
    pub(crate) force: bool,
    /// Serve pools that lack members which were in use, once the wait is over: they are out of use from then on
    #[arg(long)]
    pub(crate) degraded: bool,
    /// Arrays of which host are started: its name, or any for all, pools too [default: this one's]
    #[arg(long, value_name = "HOST")]
    pub(crate) homehost: Option<String>,
    /// Start what has this name or UUID, whichever host's it is; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) array: Vec<String>,
    /// How long to wait for members that were there when the array was used last; it is started without them then, if it can be
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = Span::parse_any)]
    pub(crate) wait: Span,
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Disks, partitions, files, or folders of them
    #[arg(value_name = "DEVICE|FOLDER")]
    pub(crate) places: Vec<PathBuf>,
}
