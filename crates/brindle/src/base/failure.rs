//! Errors of commands, with their exit statuses.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use brindle_md::OpenError;
use brindle_md::assembly::{AssemblyError, ReshapeError};

use crate::base::units::Bytes;

/// Why a command ended without doing its work. Every message names the thing, the cause and, where there is one, the
/// way out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A member could not be opened or is not to be used.
    #[error(transparent)]
    Open(#[from] brindle_io::device::DeviceError),
    /// A task computes without end.
    #[error(
        "{task}: this task has used {seconds} s of processor time and let nothing else go on: the process ends, as in a crash, \
         since it can serve nothing any more; start it again, and report this line as a fault of Brindle"
    )]
    Stuck {
        /// The function that it is in.
        task: String,
        /// Processor time, in seconds.
        seconds: u64,
    },
    /// A member could not be read before the array was assembled.
    #[error("{path}: can't be read: {source}")]
    Probe {
        /// The member.
        path: String,
        /// The reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A member's superblock is damaged.
    #[error("{path}: {why}")]
    Damaged {
        /// The member.
        path: String,
        /// The damage.
        why: brindle_format::md::SuperblockError,
        /// The array and event count that it claims.
        claim: Option<brindle_md::assembly::Claim>,
    },
    /// Something can be no member.
    #[error("{path}: {why}")]
    Unfit {
        /// The name that was given.
        path: String,
        /// The reason.
        why: String,
    },
    /// Something is not a member, but its partitions or other parts of it are.
    #[error("{path}: it has members inside: name {}", names(inside))]
    Partitioned {
        /// The name that was given.
        path: String,
        /// Names of those partitions.
        inside: Vec<std::path::PathBuf>,
    },
    /// A member with a damaged superblock may have what all others lack.
    #[error(
        "{why}; but it says event {says}, and the others have come to {others}: they may lack what was written last; \
         give a good copy of it, or use --force to do without"
    )]
    Newer {
        /// The member, and its fault.
        why: String,
        /// The event count that it claims.
        says: u64,
        /// The event count of the others.
        others: u64,
    },
    /// The members do not form an array.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
    /// The members that are left form no array.
    #[error("{source}; left out: {left_out}")]
    Without {
        /// Why they don't.
        source: Box<Failure>,
        /// The other devices that were named, each with the reason why it is not used.
        left_out: String,
    },
    /// The members that are left form no array, but one that was left out may be read another way.
    #[error("{source}; {way}")]
    Cut {
        /// Why they don't.
        source: Box<Failure>,
        /// The way.
        way: String,
    },
    /// One of the named arrays can't be assembled.
    #[error(
        "array {array}: {source}; the members belong to different arrays: {arrays}; give those of one, or enough of each"
    )]
    OneOf {
        /// Its UUID and name.
        array: String,
        /// The reason.
        source: Box<Failure>,
        /// All arrays, with their members.
        arrays: String,
    },
    /// An array that is a member can't be used.
    #[error("{label}: {why}")]
    Nested {
        /// The name that was given: `a+b+c`.
        label: String,
        /// The reason.
        why: String,
    },
    /// An array can't be made this way.
    #[error(transparent)]
    Create(#[from] brindle_md::create::CreateError),
    /// The superblocks can't be changed this way.
    #[error(transparent)]
    Update(#[from] brindle_md::update::UpdateError),
    /// The metadata of a disk of Intel's RAID are damaged.
    #[error("{path}: {why}")]
    Imsm {
        /// The disk.
        path: String,
        /// The damage.
        why: brindle_format::imsm::ImsmError,
    },
    /// Disks of Intel's RAID make no container, or its volume can't be read.
    #[error(transparent)]
    Container(#[from] brindle_host::ContainerError),
    /// The array can't be opened this way.
    #[error(transparent)]
    OpenArray(#[from] OpenError),
    /// The array did not carry out a request.
    #[error("{doing}: {source}")]
    Volume {
        /// The step that failed.
        doing: &'static str,
        /// The reason of the failure.
        source: brindle_volume::VolumeError,
    },
    /// A process of the array did not come to its end.
    #[error("{doing}: {source}")]
    Process {
        /// The step that failed.
        doing: &'static str,
        /// The reason why the process ended.
        source: brindle_array::ProcessError,
    },
    /// Something already stands on a member.
    #[error("{path}: carries {what}; use --force to overwrite it")]
    Occupied {
        /// The member.
        path: String,
        /// The content found there.
        what: String,
    },
    /// A device does not become one of the array.
    #[error(transparent)]
    Add(brindle_array::AddError),
    /// A pool does not open.
    #[error(transparent)]
    OpenPool(#[from] brindle_pool::PoolOpenError),
    /// There can be no such pool, or a device does not take it.
    #[error(transparent)]
    CreatePool(#[from] brindle_pool::PoolCreateError),
    /// A pool's volumes stay as they are.
    #[error(transparent)]
    ChangePool(#[from] brindle_pool::PoolChangeError),
    /// The reactor could not be set up.
    #[error(transparent)]
    Reactor(#[from] brindle_io::uring::UringError),
    /// A socket could not be listened on.
    #[error(transparent)]
    Listen(#[from] brindle_io::uring::ListenError),
    /// Something could not be written.
    #[error("{what}: can't be written: {source}")]
    Output {
        /// File or stream.
        what: String,
        /// The reason.
        source: io::Error,
    },
    /// A file system has no space for a member's content.
    #[error(
        "{path}: no space left for {what}; make room where it lives, or use --assume-clean on members of zeroes"
    )]
    NoSpace {
        /// The member.
        path: String,
        /// Bytes that must be written, or may have to be.
        what: Bytes,
    },
    /// Another call of the operating system failed.
    #[error("{what}: {source}")]
    System {
        /// The step that failed.
        what: String,
        /// The reason.
        source: io::Error,
    },
    /// No server answers.
    #[error("{0}")]
    NoServer(String),
    /// A running server refused.
    #[error("{0}")]
    Refused(String),
    /// A job file, or an option of a job, is not as it should be.
    #[error(transparent)]
    Job(#[from] brindle_lab::job::JobError),
    /// Jobs can't run on the named target.
    #[error(transparent)]
    Run(#[from] brindle_lab::run::RunError),
    /// A drive's model or a measured table is not as it should be.
    #[error(transparent)]
    Drive(#[from] brindle_lab::drive::DriveError),
    /// A suite has an error.
    #[error(transparent)]
    Suite(#[from] brindle_lab::suite::SuiteError),
    /// A suite's jobs can't be read.
    #[error(transparent)]
    Loads(#[from] brindle_lab::suite::LoadsError),
    /// A trace has an error.
    #[error(transparent)]
    Trace(#[from] brindle_lab::trace::TraceError),
    /// Nothing can be predicted.
    #[error(transparent)]
    Predict(#[from] brindle_lab::predict::PredictError),
    /// The words of the command line fit no array.
    #[error("{0}")]
    Usage(String),
    /// A step of the demo went wrong.
    #[error("the demo failed: {0}")]
    Demo(String),
}

/// Names one after the other.
fn names(all: &[std::path::PathBuf]) -> String {
    all.iter().map(|name| name.display().to_string()).collect::<Vec<_>>().join(", ")
}

impl From<brindle_lab::points::PointError> for Failure {
    fn from(why: brindle_lab::points::PointError) -> Self {
        Self::Usage(why.to_string())
    }
}

impl Failure {
    /// The fault of a label, if a device is a member of a pool that this release does not read.
    pub(crate) fn of_another_version(&self) -> Option<&brindle_format::pool::PoolError> {
        match self {
            Self::OpenPool(brindle_pool::PoolOpenError::OtherVersion { error, .. }) => Some(error),
            _ => None,
        }
    }

    pub(crate) fn probe(path: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Probe { path: path.to_owned(), source: source.into() }
    }

    pub(crate) fn output(what: impl Display, source: io::Error) -> Self {
        Self::Output { what: what.to_string(), source }
    }

    pub(crate) fn system(what: impl Into<String>, source: io::Error) -> Self {
        Self::System { what: what.into(), source }
    }

    /// The reader of a pipe has closed it: no failure to speak of.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The members that are left are too few for their array.
    pub(crate) fn too_few(&self) -> bool {
        if matches!(self, Self::Container(brindle_host::ContainerError::TooFew { .. })) {
            return true;
        }
        matches!(self, Self::Assembly(AssemblyError::TooFewMembers { .. } | AssemblyError::NoMember { .. }))
    }

    /// The members belong to several arrays.
    pub(crate) fn is_mixed(&self) -> bool {
        matches!(self, Self::Assembly(AssemblyError::Mixed { .. }))
    }

    /// No device is left that could be a member.
    pub(crate) fn no_member_left(&self) -> bool {
        matches!(self, Self::Assembly(AssemblyError::Empty))
    }

    /// A device was named that has no superblock, and nothing else that could be looked into.
    pub(crate) fn is_no_member(&self) -> bool {
        matches!(self, Self::Assembly(AssemblyError::NoSuperblock { .. }))
    }

    /// Other members may put it right: a look at one of them alone does not ask for them.
    pub(crate) fn lacks_others(&self) -> bool {
        let lacks = matches!(
            self,
            Self::Assembly(AssemblyError::DirtyDegraded { .. } | AssemblyError::JournalMissing { .. })
        );
        lacks || self.too_few()
    }

    /// The array is there, and only its use has to be forced.
    pub(crate) fn only_needs_force(&self) -> bool {
        match self {
            Self::Without { source, .. } => source.only_needs_force(),
            Self::Assembly(
                AssemblyError::DirtyDegraded { .. }
                | AssemblyError::Apart { .. }
                | AssemblyError::JournalMissing { .. }
                | AssemblyError::Reshape(ReshapeError::InDoubt),
            )
            | Self::OpenArray(OpenError::Journal { .. })
            | Self::Newer { .. } => true,
            _ => false,
        }
    }

    /// 2 for wrong words, 1 for everything else.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) | Self::Job(_) | Self::Loads(_) | Self::Predict(_) => ExitCode::from(2),
            Self::Without { source, .. } | Self::Cut { source, .. } | Self::OneOf { source, .. } => {
                source.exit_code()
            }
            Self::CreatePool(why) if !matches!(why, brindle_pool::PoolCreateError::Write { .. }) => {
                ExitCode::from(2)
            }
            _ => ExitCode::FAILURE,
        }
    }
}
