//! Flags of the daemon and its settings.

use std::path::PathBuf;

use brindle_host::opening::Cores;
use clap::Args;

use super::Runtime;
use crate::base::units::Span;

/// The settings of a machine.
pub(crate) const CONFIG: &str = "/etc/brindle/brindle.toml";

/// Flags of `brindle daemon`.
#[derive(Debug, Args)]
pub(crate) struct Daemon {
    /// The file of settings
    #[arg(long, short = 'c', value_name = "FILE", default_value = CONFIG)]
    pub(crate) config: PathBuf,
    /// Take over from the daemon that runs: it passes its sockets when its arrays are whole on disk, so that clients that reconnect see no
    /// error
    #[arg(long)]
    pub(crate) takeover: bool,
    /// Cores that have a reactor each, in place of those of the settings: how many, or which (`0-3,7`)
    #[arg(long, env = "BRINDLE_CORES", hide_env = true, value_name = "N|LIST")]
    pub(crate) cores: Option<Cores>,
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON: one object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `brindle incremental`.
#[derive(Debug, Args)]
pub(crate) struct Incremental {
    /// The file of settings of the daemon
    #[arg(long, short = 'c', value_name = "FILE", default_value = CONFIG)]
    pub(crate) config: PathBuf,
    /// How long to wait for members that were there when the array was used last
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = Span::parse_any)]
    pub(crate) wait: Span,
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The disk, partition or file
    pub(crate) device: PathBuf,
}

/// Flags of `brindle config`.
#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(flatten)]
    pub(crate) from: ConfigFrom,
    /// With --check: print the drop-in by which the unit of systemd lets the daemon use the folders that the file names, or write it to FILE,
    /// if it needs one
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, requires = "check", conflicts_with_all = ["json", "from", "from_running", "ignore", "schema"])]
    pub(crate) drop_in: Option<Option<PathBuf>>,
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The source of settings, or an action on them.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct ConfigFrom {
    /// Print settings that serve the arrays and pools that run now, with the places of their members
    #[arg(long)]
    pub(crate) from_running: bool,
    /// Print the settings that serve the arrays of an mdadm.conf
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Check a settings file and all files, programs and addresses that it names, and show its meaning
    #[arg(long, value_name = "FILE")]
    pub(crate) check: Option<PathBuf>,
    /// Look for the arrays that a file of settings means, and print lines for mdadm.conf by which md leaves them alone
    #[arg(long, value_name = "FILE")]
    pub(crate) ignore: Option<PathBuf>,
    /// Print the JSON Schema of files of settings
    #[arg(long)]
    pub(crate) schema: bool,
}

/// Flags of `brindle reload`.
#[derive(Debug, Args)]
pub(crate) struct Reload {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Name of the server, or of an array or pool that it serves [default: the only server]
    pub(crate) server: Option<String>,
}
