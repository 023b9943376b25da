//! Flags of the console.

use std::path::PathBuf;

use brindle_host::opening::Listen;
use clap::Args;

use super::Runtime;

/// Flags of `brindle console`.
#[derive(Debug, Args)]
pub(crate) struct Console {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Address of this machine alone: 127.0.0.1:PORT or unix:PATH
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8380")]
    pub(crate) listen: Listen,
    /// A name by which browsers reach it, besides those of this machine: that of a proxy, as NAME or NAME:PORT; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// Show, and refuse all commands
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Print the token by which browsers sign in, and end
    #[arg(long, conflicts_with_all = ["host", "read_only"])]
    pub(crate) token: bool,
    /// Folder of the token [default: $XDG_RUNTIME_DIR/brindle-console, or /run/brindle-console for root]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) state: Option<PathBuf>,
}
