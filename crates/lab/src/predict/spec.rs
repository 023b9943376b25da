//! The specification of a prediction.

use brindle_io::OpError;
use brindle_layout::{GeometryError, Layout, Level};
use brindle_md::OpenError;
use brindle_md::assembly::AssemblyError;
use brindle_md::create::CreateError;

use super::door::Door;
use super::kernel::Kernel;
use crate::drive::Drive;
use crate::job::{Job, JobError, Kinds, Surroundings, parse_words};
use crate::run::{RunError, Trouble};

/// A question.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The model of every member.
    pub drive: Drive,
    /// The array; none asks for one drive by itself.
    pub shape: Option<Shape>,
    /// The policies that the array follows.
    pub policies: Policies,
    /// Processors: of md its worker threads, of this engine its reactors.
    pub cores: u32,
    /// Each copy of the job has one processor for what it sends, as a thread of fio's has; of md's arrays. Of this engine's it is one session, which
    /// one reactor has. Else the load comes from as many as it takes.
    pub by_job: bool,
    /// The load.
    pub job: Job,
}

/// An array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its level.
    pub level: Level,
    /// Its layout.
    pub layout: Layout,
    /// Bytes of a chunk.
    pub chunk: u64,
    /// The number of members.
    pub members: u16,
    /// Bytes to a bit of its write-intent bitmap, beside each superblock; none has neither.
    pub bitmap: Option<u64>,
}

/// The implementation that runs the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policies {
    /// This engine, to which requests come by a door.
    Brindle(Door),
    /// This engine on a processor that takes no time: the drives alone decide.
    DrivesAlone,
    /// This engine with md's choice of copies, and md's costs, as of a kernel.
    LinuxMd(Kernel),
}

/// Reasons why nothing can be predicted.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    /// The array can't be.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The load makes no sense.
    #[error(transparent)]
    Job(#[from] JobError),
    /// The load does not fit the array.
    #[error(transparent)]
    Run(#[from] RunError),
    /// More members, cores or requests than make sense.
    #[error("{what} must be from {least} to {most}")]
    Range {
        /// The quantity in question.
        what: &'static str,
        /// The smallest value.
        least: u32,
        /// The largest value.
        most: u32,
    },
    /// A request failed.
    #[error("{0}")]
    Trouble(Trouble),
    /// An array with a bitmap can't be made so.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The array that was made can't be assembled.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
    /// The array could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A drive could not be read.
    #[error(transparent)]
    Drive(#[from] OpError),
}

impl Spec {
    pub(super) fn members(&self) -> u16 {
        self.shape.map_or(1, |shape| shape.members)
    }

    /// Of a mix, the writes wait for md's parity thread and the reads do not: in time all that is in flight are writes. Only a stretch amid that
    /// tells the rate.
    pub(super) fn piles_up(&self) -> bool {
        let is_parity = |shape: Shape| matches!(shape.level, Level::Raid4 | Level::Raid5 | Level::Raid6);
        matches!(self.policies, Policies::LinuxMd(_))
            && self.job.access.kinds == Kinds::Mixed
            && self.shape.is_some_and(is_parity)
    }

    pub(super) fn processors(&self) -> u32 {
        self.cores.max(1)
    }

    /// Processors that requests come to. Sessions of iSCSI are home's, and those of NBD are spread evenly.
    pub(super) fn visited(&self) -> u32 {
        match self.policies {
            Policies::Brindle(Door::Iscsi) => 1,
            Policies::Brindle(_) if self.by_job => self.processors().min(self.job.numjobs.max(1)),
            _ => self.processors(),
        }
    }

    pub(super) fn check(&self) -> Result<(), PredictError> {
        if !(1..=1024).contains(&self.cores) {
            return Err(PredictError::Range { what: "--cores", least: 1, most: 1024 });
        }
        if !(1..=384).contains(&self.members()) {
            return Err(PredictError::Range { what: "--members", least: 1, most: 384 });
        }
        Ok(())
    }
}

/// A load in fio's words: `rw`, `bs`, `rwmixread`, `iodepth`, `numjobs`; places of random ones may come again.
///
/// # Errors
/// The first error in the words of the job.
pub fn job(words: &[(&str, &str)]) -> Result<Job, JobError> {
    let mut words: Vec<_> =
        words.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))).collect();
    words.push(("norandommap".to_owned(), Some("1".to_owned())));
    let plan = parse_words(&words, false, &Nowhere)?;
    Ok(plan.jobs.into_iter().next().unwrap_or_default())
}

/// No files and no environment.
struct Nowhere;

impl Surroundings for Nowhere {
    fn read(&self, _: &str) -> Result<String, String> {
        Err("no file is read here".to_owned())
    }
    fn variable(&self, _: &str) -> Option<String> {
        None
    }
    fn pagesize(&self) -> u64 {
        4096
    }
    fn mb_memory(&self) -> u64 {
        1024
    }
    fn ncpus(&self) -> u64 {
        1
    }
}
