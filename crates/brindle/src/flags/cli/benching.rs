//! Flags of `brindle bench`.

use std::path::PathBuf;

use brindle_host::opening::Listen;
use clap::{Args, ValueEnum};

use super::Tuning;
use crate::base::units::Span;
use crate::base::uri;
use crate::flags::job_flags::JobFlags;

/// Flags of `brindle bench`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("target").required(true).args(["array", "device", "nbd"])))]
pub(crate) struct Bench {
    /// The members of an array, in any order; A+B+C is the array that A, B and C form, as a member
    #[arg(long, value_name = "MEMBER", num_args = 1..)]
    pub(crate) array: Vec<PathBuf>,
    /// A device or file by itself; of several, requests go to each in turn, and sizes are of each
    #[arg(long, value_name = "DEVICE", num_args = 1..)]
    pub(crate) device: Vec<PathBuf>,
    /// An export of a server: nbd+unix:///EXPORT?socket=PATH or nbd://HOST:PORT/EXPORT
    #[arg(long, value_name = "URI")]
    pub(crate) nbd: Option<NbdUri>,
    /// Let jobs write, although the target's content is lost
    #[arg(long, short = 'f')]
    pub(crate) force: bool,
    /// The jobs of a suite, one after the other: as-ssd, chunk-table, fileserver, gnome-disks, jesd219, latency, mix-matrix,
    /// overhead, scaling, throughput, or a TOML file. Options of jobs as flags, such as --runtime, are of all of them. Those that
    /// write run with --force only; the others are measured without
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["jobs", "trace", "trace_set"])]
    pub(crate) suite: Option<String>,
    /// Leave out options that are not supported, with a warning
    #[arg(long)]
    pub(crate) lenient: bool,
    /// How to report; json and json+ are fio's
    #[arg(long, default_value = "normal", value_name = "FORMAT")]
    pub(crate) output_format: Format,
    /// Run the jobs again until their IOPS are steady, as SNIA's PTS 2.0.2 defines it: five rounds, excursion at most 20 %,
    /// slope at most 10 %; at most 25 rounds. The last one is reported
    #[arg(long)]
    pub(crate) until_steady: bool,
    /// First write all of the target twice, in sequence
    #[arg(long)]
    pub(crate) precondition: bool,
    /// Also write the course over time, IOPS, MiB/s, mean and maximum latency by steps of half a second, or of
    /// --log_avg_msec: a page that draws it if the name ends in .html, else CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) series: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) traces: Traces,
    #[command(flatten)]
    pub(crate) tuning: Tuning,
    #[command(flatten)]
    pub(crate) options: JobFlags,
    /// Job files; the jobs of a file begin once the jobs of the file before it have ended. Behind the devices or members too, if
    /// their names end in .fio
    #[arg(value_name = "JOBFILE")]
    pub(crate) jobs: Vec<PathBuf>,
}

/// Traces to be replayed in place of jobs, and how.
#[derive(Debug, Args)]
#[command(next_help_heading = "Traces")]
pub(crate) struct Traces {
    /// Replay traces, one after the other: fio's iolog, blktrace, blkparse, MSR Cambridge or any columns
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["jobs", "until_steady", "precondition"])]
    pub(crate) trace: Vec<PathBuf>,
    /// Replay the traces of a TOML file, and weigh them into one index
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trace", "jobs", "until_steady", "precondition"])]
    pub(crate) trace_set: Option<PathBuf>,
    /// How traces are written [default: what their beginning tells]
    #[arg(long, default_value = "auto", value_name = "FORMAT", hide_default_value = true)]
    pub(crate) trace_format: TraceFormat,
    /// Meaning of the traces' columns, as TOML (docs/traces.md)
    #[arg(long, value_name = "FILE", conflicts_with = "trace_format")]
    pub(crate) trace_columns: Option<PathBuf>,
    /// Send requests as soon as there is room, not at their recorded times
    #[arg(long, conflicts_with_all = ["time_scale", "max_idle"])]
    pub(crate) full_speed: bool,
    /// Multiply the times between requests by this: 0.5 is twice as fast
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = factor)]
    pub(crate) time_scale: f64,
    /// Make pauses between requests no longer than this, before they are scaled
    #[arg(long, value_name = "TIME", value_parser = Span::parse)]
    pub(crate) max_idle: Option<Span>,
    /// Most requests of a trace in flight; one without room is sent late, and that is reported
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(crate) trace_depth: u32,
    /// Let requests beyond the target's end go to its beginning
    #[arg(long)]
    pub(crate) wrap: bool,
}

fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse::<f64>().ok().filter(|factor| (1e-6..=1e6).contains(factor));
    factor.ok_or_else(|| format!("'{text}' is not a factor: write for example 0.5"))
}

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceFormat {
    /// The format that its beginning shows
    Auto,
    /// fio's write_iolog, version 2 or 3
    Iolog,
    /// Records, as blktrace and blkparse -d write them
    Blktrace,
    /// Lines of blkparse
    Blkparse,
    /// Columns of the MSR Cambridge traces
    Msr,
}

/// How `brindle bench` reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A few lines for each job
    Normal,
    /// fio's JSON
    Json,
    /// fio's JSON, with all bins of latencies
    #[value(name = "json+")]
    JsonPlus,
}

/// An export of an NBD server, and where that is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NbdUri {
    /// Where the server listens.
    pub(crate) place: Listen,
    /// Name of the export; empty for the default one.
    pub(crate) export: String,
}

impl std::str::FromStr for NbdUri {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "give nbd+unix:///EXPORT?socket=PATH or nbd://HOST:PORT/EXPORT".to_owned();
        let name = |export: &str| uri::name_of(export).ok_or_else(wrong);
        if let Some(rest) = text.strip_prefix("nbd+unix:///") {
            let (export, path) = rest.split_once("?socket=").ok_or_else(wrong)?;
            let path = uri::path_of(path);
            if path.as_os_str().is_empty() {
                return Err(wrong());
            }
            return Ok(Self { place: Listen::Unix(path), export: name(export)? });
        }
        let rest = text.strip_prefix("nbd://").ok_or_else(wrong)?;
        let (host, export) = rest.split_once('/').unwrap_or((rest, ""));
        // The protocol's own port.
        let place = host.parse().or_else(|_| format!("{host}:10809").parse()).map_err(|_| wrong())?;
        match place {
            Listen::Tcp(_) => Ok(Self { place, export: name(export)? }),
            Listen::Unix(_) => Err(wrong()),
        }
    }
}

impl std::fmt::Display for NbdUri {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let export = uri::name(&self.export);
        match &self.place {
            Listen::Unix(path) => write!(f, "nbd+unix:///{export}?socket={}", uri::path(path)),
            Listen::Tcp(address) => write!(f, "nbd://{address}/{export}"),
        }
    }
}
