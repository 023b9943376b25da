//! Parses the requests of the control socket. Pure, so that tests and fuzzers can try any input.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use super::new_vdev::NewVdev;
pub use crate::limits::RateLimits;

/// The version of the protocol: more with each request or field that an older client or server does not know.
pub const VERSION: u32 = 14;

/// A request to a running server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The request itself.
    #[serde(flatten)]
    pub ask: Ask,
    /// The array or pool that it is for: its name, its UUID or one of its members. By default all that the server has
    /// (`status`, `stop`), the one that has the member (`fail`, `flag`), else the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<String>,
    /// The command that asks, for the history of a pool that it changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Author>,
}

/// A command that changes something, and the user who gave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// The command, as it was typed.
    pub command: String,
    /// The number of the user.
    pub user: u32,
}

/// A question or an order, whichever array it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Ask {
    /// Report the status.
    Status,
    /// Report the status of all that was made last, of whatever moment, if it is another than the asker knows.
    Look {
        /// The number of the one that the asker has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known: Option<u64>,
    },
    /// Take a member out of service.
    Fail {
        /// Path as given to `serve`, or role number.
        member: String,
    },
    /// Set a flag of a device, or clear it.
    Flag {
        /// Path as given to `serve`, or role number.
        member: String,
        /// The flag to set or clear.
        flag: DeviceFlag,
        /// Clear the flag.
        #[serde(default)]
        clear: bool,
    },
    /// Begin, pause or end a process of an array.
    Action {
        /// The action to take.
        action: Word,
        /// Most bytes a second; 0 for no limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_speed: Option<u64>,
        /// Least bytes a second, where possible, whatever clients ask for; 0 for none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min_speed: Option<u64>,
    },
    /// Take devices into an array.
    Add {
        /// Absolute paths. With `re_add` also names that the array knows, or `missing` alone for all former members
        /// that can be found.
        devices: Vec<PathBuf>,
        /// Content of theirs may be lost.
        #[serde(default)]
        force: bool,
        /// Take them only as the members that they were.
        #[serde(default)]
        re_add: bool,
    },
    /// Replace a member that still works.
    Replace {
        /// The member: path as it was given, or role number.
        member: String,
        /// The replacement: a spare, by the path that was given for it, or a new device, by its absolute path.
        with: PathBuf,
        /// Content of the new one may be lost.
        #[serde(default)]
        force: bool,
    },
    /// Let devices go that are not in use.
    Remove {
        /// Paths as they were given, numbers of roles, `failed` or `detached`.
        devices: Vec<String>,
    },
    /// Give an array a write-intent bitmap, move it, or take it away.
    Bitmap {
        /// The place for the bitmap.
        place: BitmapPlace,
        /// Bytes to a bit, a power of two; as mdadm chooses if it is not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chunk: Option<u64>,
        /// Writes that may lag behind on write-mostly members; as many as before if it is not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        write_behind: Option<u32>,
        /// An existing file may be overwritten.
        #[serde(default)]
        force: bool,
    },
    /// Give an array another size.
    Resize {
        /// Bytes of each member; as many as the smallest has room for if it is not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
        /// Redundancy of the new part counts as in sync.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        assume_clean: bool,
        /// It may become smaller.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        force: bool,
        /// Only tell what it would come to.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        dry_run: bool,
    },
    /// Give an array another number of members, or another level.
    Reshape {
        /// Members of a mirror.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raid_devices: Option<u16>,
        /// As md counts it: 1, 5 or 6.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        level: Option<i32>,
        /// Devices that are added first, by their absolute paths.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        add: Vec<PathBuf>,
        /// Content of theirs may be lost.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        force: bool,
        /// Only tell what it would come to.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        dry_run: bool,
    },
    /// Set the limit of write-behind.
    WriteBehind {
        /// Writes that may lag behind.
        count: u32,
    },
    /// Offer an array to clients again, with other limits if some are said.
    Export {
        /// The new limits; the present ones if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<RateLimits>,
    },
    /// Offer an array to no client any more, and end the connections of those that use it. It runs on.
    Unexport,
    /// End connections of clients.
    Disconnect {
        /// An address, a name that was proved, or the name of an initiator; all, if none is named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<String>,
    },
    /// Make a device of the kernel of an array or of a volume of a pool.
    Attach {
        /// The number of the device: /dev/nbdN; the first that is free if it is not said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        index: Option<u32>,
        /// Connections, 1 to 8.
        connections: u8,
        /// Seconds for which requests wait in the kernel when the server is gone.
        dead_timeout: u64,
    },
    /// End such a device.
    Detach,
    /// Serve a mount of an array or of a volume of a pool, by the open /dev/fuse that comes with the request.
    Mount {
        /// Where it is mounted, by its absolute path.
        folder: PathBuf,
        /// Its files can be written to.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        write: bool,
        /// The user to whom the files belong,
        user: u32,
        /// and the group.
        group: u32,
    },
    /// Make a volume of a pool, and offer it to clients.
    VolumeCreate {
        /// The pool.
        pool: String,
        /// The volume's name in it.
        name: String,
        /// Bytes.
        size: u64,
    },
    /// Give a pool another name; the clients of its volumes are sent away.
    PoolRename {
        /// The pool,
        pool: String,
        /// and its new name.
        to: String,
    },
    /// Give a pool away with the stop that follows within 30 s: no host has it then.
    PoolExport {
        /// The pool.
        pool: String,
        /// Even if clients have volumes of it open.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        force: bool,
    },
    /// The history of a pool is asked for.
    PoolHistory {
        /// The pool.
        pool: String,
    },
    /// Take a member of a pool out until it is brought back.
    PoolOffline {
        /// The pool.
        pool: String,
        /// The member: path as given to `serve`, `VDEV.ROLE`, or its number.
        member: String,
    },
    /// Take a member of a pool into use again. It gets what it lacks.
    PoolOnline {
        /// The pool.
        pool: String,
        /// The member, as of `pool-offline`; or a device, by its absolute path, which says itself which member it is.
        member: String,
        /// Its device, by its absolute path, if it has another name by now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        device: Option<PathBuf>,
    },
    /// Give the role of a member of a pool to a new device.
    PoolReplace {
        /// The pool.
        pool: String,
        /// The member, as of `pool-offline`.
        member: String,
        /// The new device, by its absolute path.
        with: PathBuf,
        /// Content of the new one may be lost.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        force: bool,
    },
    /// Add a vdev of new devices to a pool, or spares.
    PoolAdd {
        /// The pool.
        pool: String,
        /// The kind of vdev.
        kind: NewVdev,
        /// Its devices, by their absolute paths.
        devices: Vec<PathBuf>,
        /// Their content may be lost, and the vdev may bear less than those of the pool.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        force: bool,
    },
    /// Give a vdev of a pool one member more.
    PoolAttach {
        /// The pool.
        pool: String,
        /// The vdev, as `raidz1-0`, or one of its members, as of `pool-offline`.
        to: String,
        /// The new device, by its absolute path.
        device: PathBuf,
        /// Content of it may be lost.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        force: bool,
    },
    /// Take a copy out of a mirror of a pool for good, or a spare out of it.
    PoolDetach {
        /// The pool.
        pool: String,
        /// The member, as of `pool-offline`.
        member: String,
    },
    /// Give a volume of a pool another name; its clients are sent away.
    VolumeRename {
        /// The pool.
        pool: String,
        /// The volume's name in it,
        name: String,
        /// and the new one.
        to: String,
    },
    /// Destroy a volume of a pool; its clients are sent away.
    VolumeDestroy {
        /// The pool.
        pool: String,
        /// The volume's name in it.
        name: String,
        /// Even if clients have it open.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        force: bool,
    },
    /// Drain, flush, mark clean, end.
    Stop,
    /// Drain, flush, mark clean, then hand the listening sockets to the process that asks, and end when it serves.
    Takeover {
        /// The Unix socket, by its absolute path, on which that process waits for them.
        socket: PathBuf,
    },
    /// The version of the protocol is asked for.
    Version,
    /// Its metrics, as it publishes them.
    Metrics {
        /// All of them, also histograms and what each member does.
        #[serde(default, skip_serializing_if = "core::ops::Not::not")]
        full: bool,
    },
    /// Devices are asked for that could come to an array or a pool: those among which members are looked for, without members.
    Disks,
    /// The settings that hold are asked for.
    Settings,
    /// Files that it was started with are to be read anew.
    Reload,
    /// An array that its settings mean is to be served, though members may be missing.
    Incremental {
        /// The array.
        uuid: String,
    },
}

impl Ask {
    /// The word for it, as the protocol has it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Look { .. } => "look",
            Self::Fail { .. } => "fail",
            Self::Flag { .. } => "flag",
            Self::Action { .. } => "action",
            Self::Add { .. } => "add",
            Self::Replace { .. } => "replace",
            Self::Remove { .. } => "remove",
            Self::Bitmap { .. } => "bitmap",
            Self::Resize { .. } => "resize",
            Self::Reshape { .. } => "reshape",
            Self::WriteBehind { .. } => "write-behind",
            Self::Export { .. } => "export",
            Self::Unexport => "unexport",
            Self::Disconnect { .. } => "disconnect",
            Self::Attach { .. } => "attach",
            Self::Detach => "detach",
            Self::Mount { .. } => "mount",
            Self::VolumeCreate { .. } => "volume-create",
            Self::PoolRename { .. } => "pool-rename",
            Self::PoolExport { .. } => "pool-export",
            Self::PoolHistory { .. } => "pool-history",
            Self::PoolOffline { .. } => "pool-offline",
            Self::PoolOnline { .. } => "pool-online",
            Self::PoolReplace { .. } => "pool-replace",
            Self::PoolAdd { .. } => "pool-add",
            Self::PoolAttach { .. } => "pool-attach",
            Self::PoolDetach { .. } => "pool-detach",
            Self::VolumeRename { .. } => "volume-rename",
            Self::VolumeDestroy { .. } => "volume-destroy",
            Self::Stop => "stop",
            Self::Takeover { .. } => "takeover",
            Self::Version => "version",
            Self::Metrics { .. } => "metrics",
            Self::Disks => "disks",
            Self::Settings => "settings",
            Self::Reload => "reload",
            Self::Incremental { .. } => "incremental",
        }
    }

    /// This request for an array or a pool; with `None` for the one that it is for by default.
    pub fn of(self, array: impl Into<Option<String>>) -> Request {
        Request { ask: self, array: array.into(), by: None }
    }

    /// It only asks, and changes nothing.
    pub fn is_question(&self) -> bool {
        matches!(
            self,
            Self::Status
                | Self::Look { .. }
                | Self::Version
                | Self::Metrics { .. }
                | Self::Disks
                | Self::Settings
                | Self::PoolHistory { .. }
        )
    }

    /// Carried out, it changes what it is for, as the history of a pool tells.
    pub fn is_change(&self) -> bool {
        match self {
            Self::Fail { .. }
            | Self::Action { .. }
            | Self::Add { .. }
            | Self::Replace { .. }
            | Self::Remove { .. }
            | Self::VolumeCreate { .. }
            | Self::PoolRename { .. }
            | Self::PoolExport { .. }
            | Self::PoolOffline { .. }
            | Self::PoolOnline { .. }
            | Self::PoolReplace { .. }
            | Self::PoolAdd { .. }
            | Self::PoolAttach { .. }
            | Self::PoolDetach { .. }
            | Self::VolumeRename { .. }
            | Self::VolumeDestroy { .. } => true,
            Self::Status
            | Self::Look { .. }
            | Self::Flag { .. }
            | Self::Bitmap { .. }
            | Self::Resize { .. }
            | Self::Reshape { .. }
            | Self::WriteBehind { .. }
            | Self::Export { .. }
            | Self::Unexport
            | Self::Disconnect { .. }
            | Self::Attach { .. }
            | Self::Detach
            | Self::Mount { .. }
            | Self::PoolHistory { .. }
            | Self::Stop
            | Self::Takeover { .. }
            | Self::Version
            | Self::Metrics { .. }
            | Self::Disks
            | Self::Settings
            | Self::Reload
            | Self::Incremental { .. } => false,
        }
    }
}

impl From<Ask> for Request {
    fn from(ask: Ask) -> Self {
        ask.of(None)
    }
}

impl Request {
    /// Time that the arrays' thread may take. Requests that add devices take longer, since devices are examined and
    /// locks waited for. Requests to an array that may hang get a timely answer, which says that the work goes on.
    pub fn patience(&self) -> Duration {
        match self.ask {
            Ask::Version
            | Ask::Metrics { .. }
            | Ask::Settings
            | Ask::Status
            | Ask::Look { .. }
            | Ask::Fail { .. }
            | Ask::Stop
            | Ask::Takeover { .. } => Duration::from_millis(800),
            _ => Duration::from_secs(10),
        }
    }
}

/// Where a write-intent bitmap is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "in", rename_all = "kebab-case")]
pub enum BitmapPlace {
    /// Beside each superblock.
    Internal,
    /// Nowhere: there is to be none.
    None,
    /// In a file, which the server makes.
    File {
        /// From the root.
        path: PathBuf,
    },
}

/// A flag of one device, as md's superblocks have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceFlag {
    /// Read it only when no other can answer.
    WriteMostly,
    /// Give it up sooner.
    Failfast,
}

impl DeviceFlag {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::WriteMostly => "write-mostly",
            Self::Failfast => "failfast",
        }
    }
}

/// An order to a process of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// Compare redundancy.
    Check,
    /// Compare it, and bring it in sync.
    Repair,
    /// Compare it, and write what is known to be wrong.
    Locate,
    /// Begin no more of it.
    Pause,
    /// Go on.
    Resume,
    /// End it.
    Idle,
    /// Set only its speed.
    Speed,
}

impl Word {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Repair => "repair",
            Self::Locate => "locate",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Idle => "idle",
            Self::Speed => "speed",
        }
    }
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The server's report, as `brindle status --json` prints it.
    Ok(serde_json::Value),
    /// Why not.
    Error(String),
}

/// The line that follows the answer to a request to stop or to be taken over, when all is over and the members are free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ended")]
pub enum Ended {
    /// Everything that was written is on the members, and they say so.
    Well,
    /// Something could not be done.
    Badly {
        /// The reason.
        why: String,
    },
}

/// The request in a line.
///
/// # Errors
/// The answer to a line that is not a request.
pub fn request(line: &[u8]) -> Result<Request, Answer> {
    serde_json::from_slice(line).map_err(|error| {
        // Alone, the part that says what is asked tells the column of what is wrong in it.
        let error = serde_json::from_slice::<Ask>(line).err().unwrap_or(error);
        Answer::Error(format!("not a request: {error}"))
    })
}

/// An answer as a line.
pub fn line(answer: &impl Serialize) -> Vec<u8> {
    // Strings and plain values have a form in any case.
    let mut line = serde_json::to_vec(answer).unwrap_or_default();
    line.push(b'\n');
    line
}
