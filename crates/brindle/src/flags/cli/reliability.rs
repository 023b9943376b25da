//! Flags of `brindle reliability`, which estimates data loss.

use std::str::FromStr;

use brindle_planner::reliability::{Batch, Weibull};
use clap::Args;

/// Flags of `brindle reliability`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("redundancy").required(true).args(["level", "bears", "classes"])))]
pub(crate) struct Reliability {
    /// Drives of a group
    #[arg(
        long,
        short = 'n',
        value_name = "COUNT",
        required_unless_present = "classes",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub(crate) drives: u32,
    /// Level of a group: 0, 1, 4, 5, 6, raidz1, raidz2, raidz3; 10 is a group for each pair of drives
    #[arg(long, short = 'l')]
    pub(crate) level: Option<String>,
    /// How many failures a group bears, instead of a level
    #[arg(long, value_name = "COUNT")]
    pub(crate) bears: Option<u32>,
    /// Groups that data is striped over: 2 for a RAID 50 of two RAID 5
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(crate) groups: u32,
    /// How large a drive is, as drives are sold: 2TB, 1.92TB, or 2TiB
    #[arg(long, short = 'z', value_name = "SIZE", default_value = "4TB", value_parser = brindle_planner::size)]
    pub(crate) size: u64,
    /// Drives whose failures and defects were published: --classes lists them
    #[arg(long, value_name = "NAME", default_value = "hdd-2025")]
    pub(crate) class: String,
    /// Failures in a hundred drive-years, as annual failure rates are published, instead of the class's: a constant rate
    #[arg(long, value_name = "FAILURES", conflicts_with = "failures", allow_negative_numbers = true)]
    pub(crate) afr: Option<f64>,
    /// Per cent of drives that fail within a year, instead of the class's: the constant rate that comes to it
    #[arg(long, value_name = "PERCENT", conflicts_with_all = ["failures", "afr"], allow_negative_numbers = true)]
    pub(crate) annual_share: Option<f64>,
    /// Time from new to failure, instead of the class's, as in 1.12/461386
    #[arg(long, value_name = "WEIBULL", allow_hyphen_values = true)]
    pub(crate) failures: Option<Weibull>,
    /// Unnoticed defects that arise on a drive in an hour, instead of the class's
    #[arg(long, value_name = "RATE", allow_negative_numbers = true)]
    pub(crate) defects: Option<f64>,
    /// Time from a defect to the scrub that mends it, or none for no scrubs [default: that of a monthly check]
    #[arg(
        long,
        value_name = "WEIBULL|none",
        default_value = "3/730+6",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub(crate) scrub: Scrub,
    /// Time that a rebuild takes [default: 2/12, and the size at 150 MB/s]
    #[arg(long, value_name = "WEIBULL", allow_hyphen_values = true)]
    pub(crate) repairs: Option<Weibull>,
    /// Time until there is a drive to rebuild on [default: none, a hot spare]
    #[arg(long, value_name = "WEIBULL", allow_hyphen_values = true)]
    pub(crate) delay: Option<Weibull>,
    /// Probability that a working drive of the group is pulled by mistake when one is replaced
    #[arg(long, value_name = "PROBABILITY", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) wrong_pull: f64,
    /// All drives come from one delivery: the probability that it is a bad one, and how much more often its drives fail, as in
    /// 0.05:4
    #[arg(long, value_name = "SHARE:FACTOR", allow_hyphen_values = true)]
    pub(crate) batch: Option<BatchOf>,
    /// Years that are simulated
    #[arg(long, value_name = "YEARS", default_value_t = 5.0, allow_negative_numbers = true)]
    pub(crate) years: f64,
    /// Histories that are simulated [default: 100000; with --until-relative-error at most 100 million]
    #[arg(long, value_name = "COUNT")]
    pub(crate) histories: Option<u64>,
    /// Go on until half the interval's width is this share of the probability, as in 0.02
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    pub(crate) until_relative_error: Option<f64>,
    /// Confidence level of the intervals
    #[arg(long, value_name = "SHARE", default_value_t = 0.95, allow_negative_numbers = true)]
    pub(crate) confidence: f64,
    /// Seed of all random draws: the same seed, the same answer, on any number of cores
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Threads; 0 for one on each core
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(crate) threads: usize,
    /// Draw histories as they come, unweighted: to see that the weighted ones are right
    #[arg(long)]
    pub(crate) plain: bool,
    /// List the classes of drives, with their sources
    #[arg(long)]
    pub(crate) classes: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Whether there are scrubs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scrub(pub(crate) Option<Weibull>);

impl FromStr for Scrub {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(None)),
            _ => text.parse().map(|time| Self(Some(time))).map_err(|why| format!("{why}, or none")),
        }
    }
}

/// A delivery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchOf(pub(crate) Batch);

impl FromStr for BatchOf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = text
            .split_once(':')
            .and_then(|(share, factor)| Some((share.parse().ok()?, factor.parse().ok()?)));
        let (share, factor) = read.ok_or("write SHARE:FACTOR, as in 0.05:4")?;
        Ok(Self(Batch { share, factor }))
    }
}
