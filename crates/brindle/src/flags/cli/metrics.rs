//! Flags of metrics.

use std::path::PathBuf;

use clap::Args;

use brindle_host::opening::Listen;

use super::Runtime;

/// Flags of `brindle serve` that say where metrics are to be had.
#[derive(Debug, Args)]
pub(crate) struct MetricsFlags {
    /// Where Prometheus finds metrics: unix:PATH or HOST:PORT, of this machine alone; may be given several times [default: nowhere;
    /// `brindle metrics` has them in any case]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Vec<Listen>,
    /// A file whose first line is the secret that scrapes have to say: Authorization: Bearer SECRET. SIGHUP reloads it
    #[arg(long, value_name = "FILE", requires = "metrics")]
    pub(crate) metrics_bearer: Option<PathBuf>,
    /// Serve all metrics: also histograms, clients, and all that is counted of each member. Without this flag an array has 100 series at most
    #[arg(long, requires = "metrics")]
    pub(crate) metrics_full: bool,
}

/// Flags of `brindle metrics`.
#[derive(Debug, Args)]
pub(crate) struct Metrics {
    #[command(flatten)]
    pub(crate) runtime: Runtime,
    /// Write them to FILE, which is there as a whole or not at all, for the textfile collector of node_exporter; - is standard
    /// output
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub(crate) textfile: PathBuf,
    /// Write all metrics: also histograms, clients, and all that is counted of each member. Without this flag an array has 100 series at most
    #[arg(long)]
    pub(crate) full: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
