//! All that a server is told before it runs.

use std::path::{Path, PathBuf};

use brindle_host::opening::{Config, MetricsConfig, Opening};
use brindle_host::{Configured, FailingDrives};

use super::joining::Joins;
use super::takeover::IsMeant;
use crate::base::failure::Failure;
use crate::devices::world::Through;
use crate::server::descriptors::Room;
use crate::server::settings::{Settings, Sought, Taken};

/// All that a server is told before it runs.
pub(crate) struct ServeJob<'a> {
    pub(crate) opening: Opening,
    pub(crate) metrics: MetricsConfig,
    /// Whether devices that are no members are looked through for members that end before they do.
    pub(crate) search: Through,
    /// The runtime folder, if one was said.
    pub(crate) folder: Option<&'a Path>,
    /// Another process waits until it serves.
    pub(crate) background: bool,
    /// The folder on which its volume is mounted, as files.
    pub(crate) mount: Option<MountJob>,
    /// Events are printed as JSON.
    pub(crate) json: bool,
    /// The part of it that a daemon alone has.
    pub(crate) daemon: Option<DaemonJob<'a>>,
}

/// A mount for as long as a server runs.
pub(crate) struct MountJob {
    /// A folder that was looked at.
    pub(crate) place: PathBuf,
    /// The volume; the only one, if none is said.
    pub(crate) volume: Option<String>,
    /// Its files can be written to.
    pub(crate) write: bool,
}

/// All that a daemon is told besides.
pub(crate) struct DaemonJob<'a> {
    /// Finds the members.
    pub(crate) find: FindMembers<'a>,
    /// A daemon that runs is to end, and leave its listening sockets to this one, which goes on with all that it served and this means.
    pub(crate) takes_over: Option<IsMeant<'a>>,
    /// The file of settings that it was started with.
    pub(crate) settings: Settings,
    /// Drives that its monitor finds failing.
    pub(crate) failing: FailingDrives,
    /// The way by which it takes more contents.
    pub(crate) more: TakeMore,
}

/// Devices that were found for a server.
pub(crate) struct Gathered {
    /// Members of all that is to be served.
    pub(crate) members: Vec<PathBuf>,
    /// Files with write-intent bitmaps of some of it.
    pub(crate) bitmaps: Vec<PathBuf>,
    /// All that the settings mean, also what can't be served.
    pub(crate) configured: Vec<Configured>,
}

/// Finds members, and is told whether this server goes on in the place of one that has ended just now, and its room for descriptors.
pub(crate) type FindMembers<'a> = &'a dyn Fn(bool, Room) -> Result<Gathered, Failure>;

/// Finds arrays and pools for a server that runs: by its settings, with its runtime folder.
pub(crate) type TakeMore = fn(&Joins, &Config, &Path, Sought<'_>) -> Taken;
