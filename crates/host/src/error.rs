//! Reasons why a host refuses a request.

use brindle_array::{AddError, BitmapError, GrowError, RemoveError};
use brindle_volume::VolumeError;

use crate::world::Refused;

/// Why a host does not do what it is asked. A message names the thing, the cause and, where there is one, the way out.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HostError {
    /// A volume is not mounted.
    #[error(transparent)]
    Mount(brindle_export::fuse::MountError),
    /// A request to mount has come without the descriptor of the mount.
    #[error("{0}: no /dev/fuse came with the request to mount: `brindle mount` hands it over")]
    NoDescriptor(String),
    /// The request does not say which array is meant.
    #[error("{0} serves several arrays: name one")]
    Several(String),
    /// No content of that name.
    #[error("the server '{server}' has no array '{array}': it has {}", known.join(", "))]
    NoSuchContent {
        /// The server.
        server: String,
        /// The name.
        array: String,
        /// Names of those that it has.
        known: Vec<String>,
    },
    /// No array is left.
    #[error("{0} has been stopped")]
    Stopped(String),
    /// The array was stopped already.
    #[error("{0} has been stopped already")]
    StoppedAlready(String),
    /// Arrays of the server have such a member each.
    #[error("several arrays of {server} have a member {member}: name the array")]
    SeveralHave {
        /// The server.
        server: String,
        /// The member.
        member: String,
    },
    /// No array has such a member.
    #[error("{member} is not a member of an array of {server}; `brindle status` lists them")]
    NoneHas {
        /// The server.
        server: String,
        /// The member.
        member: String,
    },
    /// The array has no such member.
    #[error("{member} is not a member of {array}: it has {}", known.join(", "))]
    NoMember {
        /// The name that was given.
        member: String,
        /// The array.
        array: String,
        /// Names of those that it has.
        known: Vec<String>,
    },
    /// The array has no such member that works.
    #[error("{member} is not a member in sync of {array}: it has {}", known.join(", "))]
    NoneInSync {
        /// The name that was given.
        member: String,
        /// The array.
        array: String,
        /// Names of those that it has.
        known: Vec<String>,
    },
    /// The array has no such device.
    #[error("{device} is not a device of {array}: it has {}", known.join(", "))]
    NoDevice {
        /// The name that was given.
        device: String,
        /// The array.
        array: String,
        /// Names of those that it has.
        known: Vec<String>,
    },
    /// The array, or one of its devices, refuses.
    #[error("{name}: {why}")]
    Refused {
        /// The array, or its member.
        name: String,
        /// The reason.
        why: String,
    },
    /// A kind of content does not know an order.
    #[error("{name}: it is {}, and '{order}' is not for {kind}s", with_article(kind))]
    NotForThis {
        /// The content.
        name: String,
        /// The word for its kind.
        kind: &'static str,
        /// The order.
        order: &'static str,
    },
    /// The array can't do without a member.
    #[error("{member} stays in service: {source}")]
    Stays {
        /// The member.
        member: String,
        /// The reason.
        source: VolumeError,
    },
    /// A failure is not on record yet.
    #[error(
        "{0} is still in service: the array is busy, and fails it as soon as it can; see `brindle status`"
    )]
    StillInService(String),
    /// Something that is asked of an array is not done yet.
    #[error("{0}: the array is busy, and does it as soon as it can; see `brindle status`")]
    Busy(String),
    /// Another change of a pool is under way.
    #[error("{0}: another change of it is under way, and this one was not begun: try again")]
    Changing(String),
    /// Clients of volumes that would be called otherwise, or be gone, have requests under way.
    #[error(
        "{0}: requests of its clients have not ended, so that nothing was changed and it is offered to them as before: see by `brindle status` \
         what they wait for, and try again"
    )]
    RequestsStay(String),
    /// A pool that is being stopped is not changed.
    #[error("{0}: it is being stopped, and nothing was changed: try again when it is served")]
    Stopping(String),
    /// Clients of an array that is offered no more have requests under way.
    #[error(
        "{0} is offered to no client any more, but some of its clients are not gone yet: their requests have not ended"
    )]
    ClientsStay(String),
    /// Clients have a volume open that is to be destroyed.
    #[error(
        "{name} is open: it has {clients} clients; unmount it where it is mounted, `brindle detach` it or have them leave, or give --force"
    )]
    Open {
        /// The volume.
        name: String,
        /// How many.
        clients: usize,
    },
    /// A device of the kernel has an export that would have another name: the device would end.
    #[error(
        "{export} is attached as {device}, which would end when {export} is called otherwise: unmount it where it is mounted, \
         `brindle detach {export}`, give the name, and attach it again"
    )]
    Attached {
        /// The export.
        export: String,
        /// `/dev/nbd0`.
        device: String,
    },
    /// A bitmap does not come or go.
    #[error("{name}: {source}")]
    Bitmap {
        /// The array.
        name: String,
        /// The reason.
        source: BitmapError,
    },
    /// The array keeps its shape.
    #[error("{name}: {source}")]
    Grow {
        /// The array.
        name: String,
        /// The reason.
        source: GrowError,
    },
    /// A member can't be replaced.
    #[error("{0}")]
    NotReplaced(String),
    /// A device does not become one of the array.
    #[error("{why}{}", before(added))]
    NotAdded {
        /// The reason.
        why: String,
        /// Devices that were added before the error.
        added: Vec<String>,
    },
    /// A device stays one of the array.
    #[error("{why}{}", gone(removed))]
    NotRemoved {
        /// The reason.
        why: Box<HostError>,
        /// Devices that were removed before the error.
        removed: Vec<String>,
    },
    /// A device is re-added or not by the array.
    #[error(transparent)]
    Add(#[from] AddError),
    /// A device stays in use.
    #[error(transparent)]
    Remove(#[from] RemoveError),
    /// An array can't have an export.
    #[error(transparent)]
    Export(#[from] brindle_export::nbd::AddExportError),
    /// A pool's volumes stay as they are.
    #[error(transparent)]
    Pool(#[from] brindle_pool::PoolChangeError),
    /// A pool's members stay as they are.
    #[error(transparent)]
    Member(#[from] brindle_pool::MemberError),
    /// Another array or pool of the server has the name.
    #[error("this server has an array or a pool called {0} already: choose another name, or stop that one")]
    NameTaken(String),
    /// The world does not give a device.
    #[error("{0}")]
    World(String),
    /// The array was not marked clean.
    #[error("stopping the array: {0}")]
    Stop(VolumeError),
    /// The array has not stopped in the time that it had.
    #[error("{}", not_stopped(.0))]
    NotStopped(String),
    /// Several of these.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    All(Vec<HostError>),
}

impl From<Refused> for HostError {
    fn from(why: Refused) -> Self {
        Self::World(why.to_string())
    }
}

fn with_article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {kind}")
}

fn before(added: &[String]) -> String {
    if added.is_empty() { String::new() } else { format!("; {} has been added", added.join(", ")) }
}

fn gone(removed: &[String]) -> String {
    if removed.is_empty() { String::new() } else { format!("; {} is removed", removed.join(", ")) }
}

/// The message of an array that was left as it was.
pub fn not_stopped(name: &str) -> String {
    format!(
        "{name}: did not stop in time: requests or flushes under way did not end; what was not flushed may be lost, and \
         the array is not marked clean"
    )
}
