//! Flags of `calibrate`, `simulate` and `sweep`.

use std::path::PathBuf;

use brindle_lab::predict::Kernel;
use clap::{Args, ValueEnum};

use super::Tuning;
use crate::base::units::{Bytes, Span};

/// Flags of `brindle calibrate`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("source").required(true).args(["from", "device"])))]
pub(crate) struct Calibrate {
    /// Measure a drive or file, and fit to that: it is read only, and writes are taken to be as reads are, unless --force
    #[arg(value_name = "DEVICE")]
    pub(crate) device: Option<PathBuf>,
    /// Let the measurement write, although the drive's content is lost
    #[arg(long, short = 'f', conflicts_with = "from")]
    pub(crate) force: bool,
    /// How long each load is measured: 10 that read, with --force 30
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = Span::parse)]
    pub(crate) runtime: Span,
    /// Fit to a measured table (CSV); several of one drive may be given: docs/drive-models.md has the meaning of its
    /// columns
    #[arg(long, value_name = "TABLE", num_args = 1..)]
    pub(crate) from: Vec<PathBuf>,
    /// Name of the model [default: the drive's, or the first table's]
    #[arg(long, short = 'N')]
    pub(crate) name: Option<String>,
    /// Size of the drive, if it matters to predictions [default: the size that the drive has; for tables 500G]
    #[arg(long, short = 'z', value_parser = Bytes::parse)]
    pub(crate) size: Option<Bytes>,
    /// Port of the drive, which tells what a flush costs and whether drives share a link [default: a guess by its rate, which is reported]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<DrivePort>,
    /// Where the model is written to [default: standard output, and the report to standard error]
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Report the fit's errors as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The port that a drive hangs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DrivePort {
    /// SATA: 32 requests at a time, a volatile cache, one link for all drives
    Sata,
    /// NVMe, with a cache that outlives a power cut
    Nvme,
    /// NVMe of a drive for desktops, whose cache is lost with the power: a flush takes 2.85 ms
    NvmeConsumer,
}

/// An array and a load, as predictions take them.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// The model of every member: a file, or evo850, p3700, nvme, nvme-consumer, nvme-qlc, nvme-tlc, sata-ssd, sata-dc, hdd-7200, hdd-24tb
    #[arg(long, value_name = "FILE|NAME")]
    pub(crate) drive: String,
    /// How many members the array has
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub(crate) members: u16,
    /// Level: linear, 0, 1, 4, 5, 6, 10, or raid0 and so on; none is one drive by itself
    #[arg(long, short = 'l')]
    pub(crate) level: String,
    /// Layout, as `create` takes it
    #[arg(long, short = 'p')]
    pub(crate) layout: Option<String>,
    /// Chunk size; a plain number counts KiB
    #[arg(long, short = 'c', value_name = "SIZE", default_value = "512K", value_parser = Bytes::parse_kib)]
    pub(crate) chunk: Bytes,
    /// Give the array superblocks and a write-intent bitmap, a bit for so much, a power of two; a plain number counts KiB. Rates are those that
    /// last; of random writes the first 30 seconds, in which bits are set for the first time, are told as well
    #[arg(long, value_name = "SIZE", value_parser = Bytes::parse_power)]
    pub(crate) bitmap_chunk: Option<Bytes>,
    /// Kind of requests, in fio's words: read, write, randread, randwrite, rw, randrw
    #[arg(long, value_name = "KIND", required_unless_present = "jobs", conflicts_with = "jobs")]
    pub(crate) rw: Option<String>,
    /// Size of requests, or fio's bssplit where there is a / in it
    #[arg(long, value_name = "SIZE", required_unless_present = "jobs", conflicts_with = "jobs")]
    pub(crate) bs: Option<String>,
    /// Share of reads in a mixed load
    #[arg(long, value_name = "PERCENT", default_value = "50", conflicts_with = "jobs")]
    pub(crate) rwmixread: String,
    /// Which blocks are drawn how often: random, zipf:THETA, pareto:POWER, zoned:SHARE/PERCENT:...
    #[arg(
        long = "random_distribution",
        value_name = "KIND",
        default_value = "random",
        conflicts_with = "jobs"
    )]
    pub(crate) random_distribution: String,
    /// Requests in flight of each job
    #[arg(long, value_name = "COUNT", default_value = "1", conflicts_with = "jobs")]
    pub(crate) iodepth: String,
    /// Jobs that do the same at once. With --as linux-md each job has one processor to send its requests; with --as brindle it is one session,
    /// which one of --cores has [default: one job, with as many processors and sessions as it needs]
    #[arg(long, value_name = "COUNT", conflicts_with = "jobs")]
    pub(crate) numjobs: Option<String>,
    /// Implementation whose policies and processor time the array has
    #[arg(long = "as", value_name = "WHO", default_value = "brindle")]
    pub(crate) policies: Whose,
    /// Way by which the load comes to Brindle: each request takes processor time for it [default: tcp]
    #[arg(long, value_name = "WAY")]
    pub(crate) door: Option<DoorWord>,
    /// Linux whose md is meant: its choice of copies and its costs have changed [default: 6.12]
    #[arg(long, value_name = "VERSION", conflicts_with = "read_balance")]
    pub(crate) kernel: Option<Kernel>,
    /// How md's RAID 10 chooses the copy that it reads: in place of --kernel 5.3, or of the default
    #[arg(long, value_name = "HOW")]
    pub(crate) read_balance: Option<Balance>,
    /// Processors: of Brindle its reactors, of md the worker threads of its parity
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(crate) cores: u32,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// A job file, as fio and `bench` take it, in place of --rw and --bs. Its jobs say which requests are made, not where and how long. Several
    /// jobs count as one that makes the requests of all
    #[arg(value_name = "JOBFILE")]
    pub(crate) jobs: Option<PathBuf>,
}

/// The implementation of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Whose {
    /// This program
    Brindle,
    /// Linux md: its choice of copies, and what it costs
    LinuxMd,
}

/// The way by which requests come to Brindle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DoorWord {
    /// The load runs in the same process, as that of `bench` does
    InProcess,
    /// NBD over a Unix socket
    Unix,
    /// NBD over TCP
    Tcp,
    /// iSCSI over TCP
    Iscsi,
}

/// How md's RAID 10 chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Balance {
    /// Kernels before 5.4: an idle member, else the one that was last sent somewhere nearest
    Nearest,
    /// Since then: the member with the fewest requests pending
    LeastPending,
}

/// Flags of `brindle sweep`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("world").required(true).args(["simulate", "destroy"])))]
pub(crate) struct Sweep {
    /// Predict each point, as `simulate` does
    #[arg(long, requires = "drive")]
    pub(crate) simulate: bool,
    /// The model of every member: a file or a name, as `simulate` takes it
    #[arg(long, value_name = "FILE|NAME", requires = "simulate")]
    pub(crate) drive: Option<String>,
    /// Measure each point on these members, and destroy their content: each array is made anew on the first of them,
    /// and the same load runs on them without an array
    #[arg(long, value_name = "MEMBER", num_args = 1..)]
    pub(crate) destroy: Vec<PathBuf>,
    /// Destroy file systems, partition tables and arrays on these members, too
    #[arg(long, short = 'f', requires = "destroy")]
    pub(crate) force: bool,
    /// Measure each load on this file, too, as level `file`, and destroy its content: on a file system over an array
    /// it shows the file system's cost
    #[arg(long, value_name = "FILE", requires = "destroy")]
    pub(crate) file: Option<PathBuf>,
    /// How long each point is measured
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = Span::parse, conflicts_with = "simulate")]
    pub(crate) runtime: Span,
    /// How long each load runs before it is measured
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = Span::parse, conflicts_with = "simulate")]
    pub(crate) ramp_time: Span,
    /// First write all of each member once, in sequence: drives answer reads of unwritten places faster than real
    /// reads
    #[arg(long, requires = "destroy")]
    pub(crate) precondition: bool,
    /// Axes from a suite: chunk-table, fileserver, jesd219, latency, mix-matrix, overhead, scaling, throughput, or a TOML file; other
    /// flags take the place of its axes
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) suite: Option<String>,
    /// Levels; measured, 1+0, 5+0 and 6+0 are RAID 0 over pairs, or over two arrays of half of the members
    #[arg(long, short = 'l', value_name = "LIST", value_delimiter = ',')]
    pub(crate) level: Vec<String>,
    /// Layouts [default: each level's own]
    #[arg(long, short = 'p', value_name = "LIST", value_delimiter = ',')]
    pub(crate) layout: Vec<String>,
    /// Chunk sizes; plain numbers count KiB
    #[arg(long, short = 'c', value_name = "LIST", value_delimiter = ',')]
    pub(crate) chunk: Vec<String>,
    /// Counts of members
    #[arg(long, short = 'n', value_name = "LIST", value_delimiter = ',')]
    pub(crate) members: Vec<String>,
    /// Sizes of requests, or fio's bssplit
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) bs: Vec<String>,
    /// Kinds of requests, in fio's words
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) rw: Vec<String>,
    /// Shares of reads in mixed loads
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) rwmixread: Vec<String>,
    /// Which blocks random loads draw how often
    #[arg(long = "random_distribution", value_name = "LIST", value_delimiter = ',')]
    pub(crate) random_distribution: Vec<String>,
    /// Requests in flight of each job
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) iodepth: Vec<String>,
    /// Jobs at once
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) numjobs: Vec<String>,
    /// Implementation whose policies and processor time the arrays have
    #[arg(long = "as", value_name = "WHO", default_value = "brindle", conflicts_with = "destroy")]
    pub(crate) policies: Whose,
    /// Way by which loads come to Brindle: each request takes processor time for it [default: tcp]
    #[arg(long, value_name = "WAY", conflicts_with = "destroy")]
    pub(crate) door: Option<DoorWord>,
    /// Linux whose md is meant: its choice of copies and its costs have changed [default: 6.12]
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["read_balance", "destroy"])]
    pub(crate) kernel: Option<Kernel>,
    /// How md's RAID 10 chooses the copy that it reads: in place of --kernel 5.3, or of the default
    #[arg(long, value_name = "HOW", conflicts_with = "destroy")]
    pub(crate) read_balance: Option<Balance>,
    /// Processors: of Brindle its reactors, of md the worker threads of its parity
    #[arg(long, value_name = "COUNT", default_value_t = 1, conflicts_with = "destroy")]
    pub(crate) cores: u32,
    #[command(flatten)]
    pub(crate) tuning: Tuning,
    /// Folder for points.jsonl (each point as soon as it is finished), sweep.json, sweep.csv and report.html; a sweep that was
    /// interrupted goes on there
    #[arg(long, short = 'o', value_name = "FOLDER", default_value = "sweep")]
    pub(crate) output: PathBuf,
}
