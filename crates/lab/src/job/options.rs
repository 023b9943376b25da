//! A job, with all its options.

use core::time::Duration;

use super::given::Given;
use super::pattern::Pattern;
use super::verify::Verify;

/// The operation of a request. The order is fio's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Reads blocks.
    Read,
    /// Writes blocks.
    Write,
    /// Discards blocks.
    Trim,
}

/// All directions, in fio's order.
pub const DIRECTIONS: [Direction; 3] = [Direction::Read, Direction::Write, Direction::Trim];

impl Direction {
    /// Place in fio's order, and the number that its logs have.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
        }
    }
}

/// One value for each direction, in the order of [`DIRECTIONS`].
pub type Each<T> = [T; 3];

/// The operations of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kinds {
    /// Only one thing.
    One(Direction),
    /// Reads and writes, drawn by their shares.
    Mixed,
    /// Each block is trimmed, then written.
    TrimThenWrite,
}

impl Kinds {
    /// A mix with this percentage of reads, the rest writes.
    pub fn of_reads(percent: u64) -> Self {
        match percent {
            0 => Self::One(Direction::Write),
            100 => Self::One(Direction::Read),
            _ => Self::Mixed,
        }
    }
}

/// `rw`: what is done and in which order of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoPattern {
    /// The operations of the job.
    pub kinds: Kinds,
    /// Places are random, not sequential.
    pub random: bool,
    /// Sequential: bytes left out behind each block, backwards if negative. Random: how many requests go on from each drawn
    /// place, 0 or 1 for one.
    pub step: i64,
}

impl IoPattern {
    /// Whether any request is of this direction.
    pub const fn has(self, direction: Direction) -> bool {
        match self.kinds {
            Kinds::One(one) => one as u8 == direction as u8,
            Kinds::Mixed => !matches!(direction, Direction::Trim),
            Kinds::TrimThenWrite => !matches!(direction, Direction::Read),
        }
    }

    /// Whether any request changes something.
    pub const fn changes(self) -> bool {
        self.has(Direction::Write) || self.has(Direction::Trim)
    }
}

/// Sizes of requests. Bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// All the same.
    One(u64),
    /// Multiples of the first, up to the second; each as often.
    Range(u64, u64),
    /// Sizes, and how often each comes, in proportion to one another.
    Split(Vec<(u64, u64)>),
}

impl Blocks {
    /// The smallest.
    pub fn least(&self) -> u64 {
        match self {
            Self::One(size) | Self::Range(size, _) => *size,
            Self::Split(sizes) => sizes.iter().map(|(size, _)| *size).min().unwrap_or(0),
        }
    }

    /// The largest.
    pub fn most(&self) -> u64 {
        match self {
            Self::One(size) | Self::Range(_, size) => *size,
            Self::Split(sizes) => sizes.iter().map(|(size, _)| *size).max().unwrap_or(0),
        }
    }
}

/// How much of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobExtent {
    /// Bytes.
    Bytes(u64),
    /// Per cent, from 1 to 100.
    Percent(u8),
}

impl JobExtent {
    /// Bytes of a whole, which may be fewer than were asked for.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (u128::from(whole) * u128::from(percent) / 100) as u64,
        }
    }
}

/// A part of the range, and how many of 100 requests go there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Per cent of requests.
    pub share: u64,
    /// How much of the range, from where the zone before it ends.
    pub extent: JobExtent,
}

/// The distribution of random places.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// Zipf's, with its exponent, which is more than 0 and not 1.
    Zipf(f64),
    /// Pareto's, with its power, between 0 and 1.
    Pareto(f64),
    /// Zones, for each direction.
    Zoned(Box<Each<Vec<Zone>>>),
}

/// `unified_rw_reporting`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unified {
    /// Directions by themselves.
    None,
    /// All as one.
    Mixed,
    /// Both.
    Both,
}

/// Files of single values to be written: the name's beginning, or nothing where it is the job's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logs {
    /// Bandwidth.
    pub bandwidth: Option<Option<String>>,
    /// Requests each second.
    pub iops: Option<Option<String>>,
    /// Latencies.
    pub latency: Option<Option<String>>,
    /// `log_avg_msec`: one line for so much time; nothing for one for each request.
    pub average: Option<Duration>,
    /// `log_offset`: where each request began stands in its line.
    pub offset: bool,
}

/// The percentiles of reports by default.
pub const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// A job: what fio's options say, with fio's defaults. Sizes are bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// The options of the job's own section, for reports.
    pub given: Vec<Given>,
    /// The operations, and their order of places.
    pub access: IoPattern,
    /// Sizes of requests.
    pub blocks: Each<Blocks>,
    /// Random requests begin at multiples of this; at those of their smallest size if nothing is said.
    pub align: Option<Each<u64>>,
    /// How much of the target the job works on.
    pub size: Option<JobExtent>,
    /// The target is taken to be no larger.
    pub filesize: Option<u64>,
    /// Where in the target that begins.
    pub offset: JobExtent,
    /// The distance that each further copy of the job adds to the offset.
    pub offset_increment: JobExtent,
    /// Bytes after which it ends, if not all of the size.
    pub io_size: Option<JobExtent>,
    /// The number of requests after which the job ends.
    pub number_ios: Option<u64>,
    /// Passes.
    pub loops: u64,
    /// Requests in flight.
    pub iodepth: u32,
    /// The named I/O engine has one request in flight only.
    pub one_at_a_time: bool,
    /// Copies.
    pub numjobs: u32,
    /// Bytes are not to be cached on their way.
    pub direct: bool,
    /// The time after which the job ends at the latest.
    pub runtime: Option<Duration>,
    /// The job starts again until its run time is over.
    pub time_based: bool,
    /// Requests before this time are not counted.
    pub ramp_time: Duration,
    /// The delay before the job begins: from, to.
    pub startdelay: (Duration, Duration),
    /// The job begins once all jobs before it have ended.
    pub stonewall: bool,
    /// The job begins once the earlier job of this name has ended.
    pub wait_for: Option<String>,
    /// All jobs end when this one ends.
    pub exitall: bool,
    /// A group of reports begins here.
    pub new_group: bool,
    /// Copies and jobs of a group are reported as one.
    pub group_reporting: bool,
    /// Whether directions are.
    pub unified: Unified,
    /// Blocks may come again before all have come.
    pub norandommap: bool,
    /// The same places in each run.
    pub randrepeat: bool,
    /// The seed of random places.
    pub randseed: Option<u64>,
    /// Per cent of requests of a mixed job that read.
    pub reads: u64,
    /// The rate limit in bytes a second.
    pub rate: Each<Option<u64>>,
    /// The rate limit in requests a second.
    pub rate_iops: Each<Option<u64>>,
    /// A pause.
    pub thinktime: Duration,
    /// The number of requests between two pauses.
    pub thinktime_blocks: u64,
    /// Which blocks are drawn how often.
    pub distribution: Distribution,
    /// The content that is written so that it can be verified.
    pub verify: Option<Verify>,
    /// `verify_pattern`: what a verified block holds, if not noise.
    pub verify_pattern: Option<Pattern>,
    /// `verify_interval`, as it was given; 0 if it was not.
    pub verify_interval: u64,
    /// `verify_offset`: bytes of a block before its header.
    pub verify_offset: u64,
    /// Whether a pass of writes is followed by one of reads that verify it.
    pub do_verify: bool,
    /// The content that is written without `verify`.
    pub buffer_pattern: Option<Vec<u8>>,
    /// How compressible the content is.
    pub shape: Shape,
    /// Writes between two flushes; 0 for none.
    pub fsync: u64,
    /// Writes after which an fdatasync is sent; 0: none.
    pub fdatasync: u64,
    /// A flush at the end.
    pub end_fsync: bool,
    /// Each write is stable when it returns.
    pub sync: bool,
    /// Percentiles of reports.
    pub percentiles: Vec<f64>,
    /// Whether submission latencies have percentiles.
    pub slat_percentiles: bool,
    /// Whether completion latencies have.
    pub clat_percentiles: bool,
    /// Whether total latencies have.
    pub lat_percentiles: bool,
    /// Files of single values.
    pub logs: Logs,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            name: String::new(),
            given: Vec::new(),
            access: IoPattern { kinds: Kinds::One(Direction::Read), random: false, step: 0 },
            blocks: core::array::from_fn(|_| Blocks::One(4096)),
            align: None,
            size: None,
            filesize: None,
            offset: JobExtent::Bytes(0),
            offset_increment: JobExtent::Bytes(0),
            io_size: None,
            number_ios: None,
            loops: 1,
            iodepth: 1,
            one_at_a_time: false,
            numjobs: 1,
            direct: false,
            runtime: None,
            time_based: false,
            ramp_time: Duration::ZERO,
            startdelay: (Duration::ZERO, Duration::ZERO),
            stonewall: false,
            wait_for: None,
            exitall: false,
            new_group: false,
            group_reporting: false,
            unified: Unified::None,
            norandommap: false,
            randrepeat: true,
            randseed: None,
            reads: 50,
            rate: [None; 3],
            rate_iops: [None; 3],
            thinktime: Duration::ZERO,
            thinktime_blocks: 1,
            distribution: Distribution::Uniform,
            verify: None,
            verify_pattern: None,
            verify_interval: 0,
            verify_offset: 0,
            do_verify: true,
            buffer_pattern: None,
            shape: Shape::default(),
            fsync: 0,
            fdatasync: 0,
            end_fsync: false,
            sync: false,
            percentiles: PERCENTILES.to_vec(),
            slat_percentiles: false,
            clat_percentiles: true,
            lat_percentiles: false,
            logs: Logs::default(),
        }
    }
}

impl Job {
    /// Requests that are in flight at most.
    pub fn depth(&self) -> u32 {
        if self.one_at_a_time { 1 } else { self.iodepth }
    }

    /// The job's load without its target and duration: for a simulator.
    #[must_use]
    pub fn load(&self) -> Self {
        Self {
            name: self.name.clone(),
            access: self.access,
            blocks: self.blocks.clone(),
            align: self.align,
            iodepth: self.iodepth,
            one_at_a_time: self.one_at_a_time,
            numjobs: self.numjobs,
            reads: self.reads,
            norandommap: true,
            ..Self::default()
        }
    }

    /// The largest request. Bytes.
    pub fn largest(&self) -> u64 {
        self.blocks.iter().map(Blocks::most).max().unwrap_or(0)
    }

    /// Bytes from one verify header to the next, as fio derives them (`fixup_options` in its `init.c`): `verify_interval`, else
    /// the smallest write where sizes vary, and never more than that; a divisor of the smallest and of the largest.
    pub fn verify_interval(&self) -> u64 {
        let of = |direction: Direction| &self.blocks[direction.index()];
        let (least, most) = (of(Direction::Write).least(), of(Direction::Write).most());
        let mut interval = self.verify_interval;
        if interval == 0 && least != most {
            interval = least;
        }
        if interval > least {
            interval = least;
        } else if self.access.has(Direction::Read) && interval > of(Direction::Read).least() {
            interval = of(Direction::Read).least();
        }
        let divides = interval > 0 && least.is_multiple_of(interval) && most.is_multiple_of(interval);
        if divides { interval } else { common_divisor(least, most) }
    }

    /// Whether a block may be written again before it is verified: then the last write of each counts.
    pub fn overwrites(&self) -> bool {
        let longer = match (self.io_size, self.size) {
            (Some(JobExtent::Bytes(io)), Some(JobExtent::Bytes(size))) => io > size,
            (io, _) => io.is_some(),
        };
        self.repeats() || self.access.step != 0 || longer
    }

    /// Whether the same block may come again before all have come.
    pub fn repeats(&self) -> bool {
        self.norandommap || self.align.is_some() || self.distribution != Distribution::Uniform
    }
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

/// How much of what is written can be made smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Per cent of each piece that are zeroes, or the pattern.
    pub compress: u8,
    /// Bytes of a piece.
    pub piece: usize,
    /// Per cent of the requests that have one content.
    pub dedupe: u8,
}

impl Default for Shape {
    fn default() -> Self {
        Self { compress: 0, piece: 512, dedupe: 0 }
    }
}
