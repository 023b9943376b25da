//! Flags of `brindle plan`.

use std::path::PathBuf;

use brindle_planner::{Fraction, Goal, ParseError, counts, number, size};
use clap::{Args, ValueEnum};

use crate::base::units::Bytes;

/// Flags of `brindle plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanFlags {
    #[command(flatten)]
    pub(crate) drives: Drives,
    #[command(flatten)]
    pub(crate) needs: Needs,
    #[command(flatten)]
    pub(crate) terms: Conditions,
    #[command(flatten)]
    pub(crate) likelihood: Likelihood,
    /// Levels to list: raid0, raid1, raid4, raid5, raid6, raid10, raid50, raid60, raidz, raidz2, raidz3, raidz10, raidz20, raidz30,
    /// or all. Or table, which is raidz and raidz2 of all drives, pairs as raid10, and raidz10, as published tables have them
    /// [default: all, with --format csv table]
    #[arg(long, short = 'l', value_name = "LIST", value_delimiter = ',', help_heading = "What is listed")]
    pub(crate) levels: Vec<String>,
    /// Order of the list, and goal of the recommendation. Else the list is in the order of levels, and recommended is the fastest
    /// at the load, else the one with the most writes in the room asked for, else the one with the most room
    #[arg(long, value_name = "WHAT", help_heading = "What is listed")]
    pub(crate) sort: Option<Order>,
    /// Most configurations to list
    #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..), help_heading = "What is listed")]
    pub(crate) limit: u32,
    /// How to report [default: table]
    #[arg(long, value_name = "FORMAT", help_heading = "What is listed")]
    pub(crate) format: Option<PlanFormat>,
    /// Report as JSON, as --format json
    #[arg(long, conflicts_with = "format", help_heading = "What is listed")]
    pub(crate) json: bool,
    /// Columns of CSV: as in published tables, or all
    #[arg(long, value_name = "WHICH", default_value = "table", help_heading = "What is listed")]
    pub(crate) columns: Columns,
    /// Where the report is written to [default: standard output]
    #[arg(long, short = 'o', value_name = "FILE", help_heading = "What is listed")]
    pub(crate) output: Option<PathBuf>,
}

/// The drives to build of.
#[derive(Debug, Args)]
#[command(next_help_heading = "Drives")]
pub(crate) struct Drives {
    /// How many; several numbers are planned for one after the other: 4, 4,6 or 4-12
    #[arg(long, short = 'n', value_name = "COUNTS", value_parser = parse_counts)]
    pub(crate) drives: Counts,
    /// How large each is, as drives are sold: 2TB, 1.92TB, or 2TiB [default: the model's]
    #[arg(long, short = 'z', value_parser = size)]
    pub(crate) size: Option<u64>,
    /// Small random requests that each does a second; READS/WRITES where they differ
    #[arg(long, value_name = "IOPS", value_parser = parse_pair)]
    pub(crate) iops: Option<Pair>,
    /// 10^6 bytes that each moves a second in sequence; READS/WRITES where they differ
    #[arg(long, value_name = "MB/S", value_parser = parse_pair)]
    pub(crate) mb_s: Option<Pair>,
    /// The model of each, in place of --iops and --mb-s: a file, or evo850, p3700, nvme, nvme-consumer, nvme-qlc, nvme-tlc, sata-ssd,
    /// sata-dc, hdd-7200, hdd-24tb
    #[arg(long, value_name = "FILE|NAME")]
    pub(crate) drive: Option<String>,
    /// Price of one
    #[arg(long, value_name = "MONEY", value_parser = number)]
    pub(crate) price: Option<f64>,
    /// Other drives beside these: COUNTxSIZE, and what differs of iops=, mb_s=, drive=, price=, as in 2x4TB,iops=150
    #[arg(long, value_name = "SET")]
    pub(crate) and: Option<String>,
}

/// Requirements of the array. If no configuration meets them, requirements that exclude each other are named.
#[derive(Debug, Args)]
#[command(next_help_heading = "Needs")]
pub(crate) struct Needs {
    /// Room for data; of RAID-Z as allocated
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) min_capacity: Option<u64>,
    /// Small random reads a second
    #[arg(long, value_name = "IOPS", value_parser = number)]
    pub(crate) min_read_iops: Option<f64>,
    /// Small random writes a second
    #[arg(long, value_name = "IOPS", value_parser = number)]
    pub(crate) min_write_iops: Option<f64>,
    /// Requests of the load a second
    #[arg(long, value_name = "IOPS", value_parser = number, requires = "workload")]
    pub(crate) min_iops: Option<f64>,
    /// Highest acceptable risk: with --years, the probability of data loss in that time (1e-4); without, the share of double failures
    /// that lose data (1/3, 0.2, 20%)
    #[arg(long, value_name = "SHARE")]
    pub(crate) max_loss: Option<Fraction>,
    /// Failures that lose nothing, whichever drives they are
    #[arg(long, value_name = "COUNT")]
    pub(crate) tolerates: Option<u32>,
    /// Most that all drives may cost; needs their price
    #[arg(long, value_name = "MONEY", value_parser = number, requires = "price")]
    pub(crate) budget: Option<f64>,
}

/// Conditions beside the drives on which figures depend.
#[derive(Debug, Args)]
#[command(next_help_heading = "Conditions")]
pub(crate) struct Conditions {
    /// Load on the array: a job file of fio's. Its jobs count as one load, by their requests in flight
    #[arg(long, value_name = "JOBFILE")]
    pub(crate) workload: Option<PathBuf>,
    /// Fill random and sequential figures of md's levels from the engine on modelled drives instead of formulas, and tell the
    /// difference; of RAID-Z formulas stay
    #[arg(long)]
    pub(crate) simulate: bool,
    /// Chunk size [default: the best of the load in the simulator, else 512K]; a plain number counts KiB
    #[arg(long, short = 'c', value_name = "SIZE", value_parser = Bytes::parse_kib)]
    pub(crate) chunk: Option<Bytes>,
    /// With --simulate, give redundant arrays an internal bitmap, a bit for so much, a power of two; a plain number counts KiB. Tells what it
    /// leaves of random writes
    #[arg(long, value_name = "SIZE", requires = "simulate", value_parser = Bytes::parse_power)]
    pub(crate) bitmap_chunk: Option<Bytes>,
    /// Bytes a second that all drives together move on one link or adapter, as in 2GB/s; of each direction in the simulator
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub(crate) link: Option<u64>,
    /// Share of the drives' time that clients take while one is rebuilt
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=99))]
    pub(crate) load: u8,
    /// Sectors of RAID-Z have 2 to this many bytes
    #[arg(long, value_name = "BITS", default_value_t = 12)]
    pub(crate) ashift: u32,
    /// Blocks of RAID-Z: a volume's volblocksize, a file system's recordsize
    #[arg(long, value_name = "SIZE", default_value = "16K", value_parser = size)]
    pub(crate) volblocksize: u64,
}

/// How likely data is lost.
#[derive(Debug, Args)]
#[command(next_help_heading = "Loss of data")]
pub(crate) struct Likelihood {
    /// Estimate the probability of loss in so many years, with its interval, and the bytes that are lost in a year. `brindle
    /// reliability` tells more of one array
    #[arg(long, value_name = "YEARS", value_parser = number)]
    pub(crate) years: Option<f64>,
    /// Drives whose failures and defects were published [default: hdd-2025, of drives that do 2000 random reads a second ssd-2022]
    #[arg(long, value_name = "NAME", requires = "years")]
    pub(crate) class: Option<String>,
    /// Hours until there is a drive to rebuild on; 0 is a hot spare
    #[arg(long, value_name = "HOURS", default_value_t = 0.0, requires = "years")]
    pub(crate) spare_delay: f64,
}

/// Numbers of drives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counts(pub(crate) Vec<u32>);

fn parse_counts(text: &str) -> Result<Counts, ParseError> {
    counts(text).map(Counts)
}

/// A figure of reads and one of writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pair {
    pub(crate) reads: f64,
    pub(crate) writes: f64,
}

/// One number for both, or two with a slash between them.
pub(crate) fn parse_pair(text: &str) -> Result<Pair, ParseError> {
    let (reads, writes) = text.split_once('/').unwrap_or((text, text));
    Ok(Pair { reads: number(reads)?, writes: number(writes)? })
}

/// Bytes a second.
fn parse_rate(text: &str) -> Result<u64, String> {
    let rate = size(text.strip_suffix("/s").unwrap_or(text)).map_err(|why| why.to_string())?;
    if rate < 1000 {
        Err("a link's bandwidth must be at least 1KB/s, as in 2GB/s".to_owned())
    } else {
        Ok(rate)
    }
}

/// How to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanFormat {
    /// For people
    Table,
    /// docs/cli-json.md tells of each key
    Json,
    /// Comma-separated, with a header
    Csv,
    /// One page that needs no network
    Html,
}

/// Columns of CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Columns {
    /// disks, level, config, net_tb, random_iops (writes), loss_on_double_failure
    Table,
    /// The columns of `table`, and all others
    All,
}

/// The order of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// The most room
    Capacity,
    /// The most random reads
    ReadIops,
    /// The most random writes
    WriteIops,
    /// The most requests of the load
    Workload,
    /// The fewest failures that lose data
    Loss,
    /// The least money for its room
    Price,
    /// The shortest rebuild
    Rebuild,
    /// The most room times random writes
    Balance,
}

impl From<Order> for Goal {
    fn from(order: Order) -> Self {
        match order {
            Order::Capacity => Self::Capacity,
            Order::ReadIops => Self::ReadIops,
            Order::WriteIops => Self::WriteIops,
            Order::Workload => Self::LoadIops,
            Order::Loss => Self::Loss,
            Order::Price => Self::Price,
            Order::Rebuild => Self::Rebuild,
            Order::Balance => Self::Balance,
        }
    }
}
