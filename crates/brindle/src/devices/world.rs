//! The real world: one ring on this thread, the devices named on the command line, and how arrays are put together of
//! them. Commands own what comes of it by `host`, servers by `server/serve`.

mod assembled;
mod assumed;
pub(crate) mod attach;
mod beginning;
mod bitmap;
mod claims;
mod emulate;
mod geometry;
mod joined;
mod lost_superblocks;
mod members;
mod newcomers;
mod notes;
pub(crate) mod place;
mod plain_devices;
pub(crate) mod search;
mod truncated;

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use brindle_array::{OpenConfig, ReadPolicy, Recovery};
use brindle_host::opening::{Opening, Tuning};
use brindle_io::device::{DeviceAccess, Identity};
use brindle_io::emulated::Emulated;
use brindle_io::uring::Uring;
use brindle_io::{Io, MemberId, PAGE, Pool, Watch};
use brindle_md::assembly::Candidate;

use crate::base::failure::Failure;
use crate::base::locks::Locks;
use crate::base::units::Bytes;
use crate::base::{reactor, stuck};
pub(crate) use assembled::{Assembled, describe, describe_any};
pub(crate) use assumed::assume;
pub(crate) use bitmap::{MadeBitmap, Make, SeenBitmap, see_bitmap};
pub(crate) use emulate::file_of;
pub(crate) use geometry::Assume;
pub(crate) use joined::parts;
pub(crate) use lost_superblocks::bare;
pub(crate) use members::{LeftOut, Named, Nested, Seen, Set, see, warn_of_left_out};
pub(crate) use newcomers::{FormerMembers, Newcomer, Search, Terms, block_devices, identity_of};
pub(crate) use notes::{note, notes};
pub(crate) use search::Through;
pub(crate) use truncated::of_no_set;

/// Least and most memory: room for a request of a usual size on each side, and what one machine may have.
const MEMORY: (Bytes, Bytes) = (Bytes(16 << 20), Bytes(1 << 36));

/// Least and most memory for maps of pools.
const MAP_MEMORY: (Bytes, Bytes) = (Bytes(1 << 20), Bytes(1 << 44));

/// Memory needed beside the buffers: rings, threads, tables.
const OTHER_MEMORY: usize = 48 << 20;

/// Bytes of metadata that are read at a time.
const PIECE: usize = 16 * PAGE;

/// For commands that make arrays and pools or change what is on record of them: small machines have as much, too.
pub(crate) const TO_CHANGE: Tuning = Tuning { memory: 64 << 20, ..Tuning::USUAL };

/// Treatment of members that were cut at their ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// They are no members.
    Refused,
    /// They are known as members, and the caller says that they were cut.
    Known,
    /// They are read as far as they go, which is said of each.
    Read,
}

/// How the devices and arrays of a world are opened.
#[derive(Clone, Copy)]
pub(crate) struct WorldOptions {
    pub(crate) access: DeviceAccess,
    /// Use arrays of which some bytes may be wrong.
    pub(crate) force: bool,
    pub(crate) cut: Cut,
    /// Read arrays that lack more members than they can do without.
    pub(crate) partial: bool,
    /// Devices that are no members are looked through for members that end before they do.
    pub(crate) search: Through,
    pub(crate) tuning: Tuning,
    /// When members that are lost are rebuilt.
    pub(crate) recovery: Recovery,
}

impl WorldOptions {
    /// To look at superblocks only.
    pub(crate) const LOOK: Self = Self {
        access: DeviceAccess::Examine,
        force: true,
        cut: Cut::Refused,
        partial: false,
        search: Through::Never,
        tuning: Tuning { read_policy: ReadPolicy::First, memory: 4 << 20, ..Tuning::USUAL },
        recovery: Recovery::Manual,
    };

    /// To look at devices that are to be served.
    pub(crate) fn to_serve(opening: &Opening, search: Through) -> Self {
        Self {
            access: DeviceAccess::Examine,
            force: opening.force,
            cut: Cut::Refused,
            partial: false,
            search,
            tuning: opening.tuning,
            recovery: Recovery::Automatic,
        }
    }

    /// Returns the world with truncated members allowed: each is read as far as it goes.
    pub(crate) fn with_cut(self) -> Self {
        Self { cut: Cut::Read, tuning: Tuning { read_errors: u32::MAX, ..self.tuning }, ..self }
    }

    /// As [`WorldOptions::with_cut`], of arrays that lack more members than they can do without.
    pub(crate) fn with_partial(self) -> Self {
        Self { partial: true, ..self.with_cut() }
    }
}

/// A device that was opened.
#[derive(Clone)]
struct Opened {
    identity: Identity,
    path: PathBuf,
    id: MemberId,
    /// The world has been closed.
    closed: bool,
}

/// A ring, its executor, and the devices on it.
pub(crate) struct World {
    /// Ends the process if a task has no end.
    _watch: Watch,
    pub(crate) uring: Uring,
    pub(crate) io: Io,
    /// The ring as the executor has it: some members may answer as modelled drives do.
    emulated: Emulated,
    /// For superblocks and what else is looked at before an array runs.
    pub(crate) metadata: Pool,
    options: WorldOptions,
    devices: RefCell<Vec<Opened>>,
    /// Devices that have not answered already, by their names: they are not asked once more.
    pub(crate) silent: RefCell<Vec<String>>,
    /// The identities of all devices.
    pub(crate) locks: Arc<Locks>,
    /// Arrays and reactors in all, which share the memory for parity and reconstruction.
    shares: (u64, usize),
    ended: Cell<bool>,
}

impl World {
    pub(crate) fn new(options: WorldOptions) -> Result<Self, Failure> {
        check_memory(options.tuning.memory)?;
        let uring = reactor::new()?;
        let emulated = Emulated::new(uring.clone());
        let io = Io::new(Box::new(emulated.clone()));
        Ok(Self {
            _watch: stuck::end_if_stuck(&io, stuck::MOST)?,
            uring,
            emulated,
            metadata: io.pool(PIECE),
            io,
            options,
            devices: RefCell::default(),
            silent: RefCell::default(),
            locks: Arc::default(),
            shares: (1, 1),
            ended: Cell::new(false),
        })
    }

    /// The access with which arrays are started from now on.
    pub(crate) fn set_access(&mut self, access: DeviceAccess) {
        self.options.access = access;
    }

    /// Divides the memory for parity and reconstruction among this many arrays, which have channels on all but one of so many reactors.
    pub(crate) fn share_memory(&mut self, arrays: u64, reactors: usize) {
        self.shares = (arrays, reactors);
    }

    pub(crate) fn config(&self) -> OpenConfig {
        self.config_for(self.options.access)
    }

    fn config_for(&self, access: DeviceAccess) -> OpenConfig {
        let access = match access {
            DeviceAccess::Write => brindle_array::Access::ReadWrite,
            DeviceAccess::Read | DeviceAccess::Examine => brindle_array::Access::ReadOnly,
        };
        let WorldOptions { tuning, recovery, .. } = self.options;
        tuning.array(access, recovery, self.shares, seconds_since_1970)
    }

    /// Reads the superblocks of a member.
    pub(crate) fn look(&self, id: MemberId, label: &str) -> Result<Candidate, Failure> {
        let read = self.io.block_on(Candidate::read(&self.io, &self.metadata, id, label));
        read.map_err(|error| Failure::probe(label, error))
    }

    /// Reads bytes at any alignment.
    pub(crate) fn read_at(&self, member: &Named, offset: u64, len: usize) -> Result<Vec<u8>, Failure> {
        self.bytes_at(member.id, &member.label, offset, len)
    }

    /// As [`World::read_at`], of a device by its number; `label` is its name in messages.
    pub(crate) fn bytes_at(
        &self,
        id: MemberId,
        label: &str,
        offset: u64,
        len: usize,
    ) -> Result<Vec<u8>, Failure> {
        let block = self.io.member_info(id).map_or(PAGE as u64, |info| u64::from(info.logical_block));
        let first = offset / block * block;
        let end = (offset + len as u64).next_multiple_of(block);
        let mut bytes = Vec::with_capacity((end - first) as usize);
        self.io.block_on(async {
            for at in (first..end).step_by(PIECE) {
                let buf = self.metadata.alloc((end - at).min(PIECE as u64) as usize).await;
                let mut group = self.io.group();
                group.read(id, at, &buf.all());
                group.submit().await.ok().map_err(|error| Failure::probe(label, error))?;
                bytes.extend_from_slice(&buf.bytes());
            }
            Ok::<(), Failure>(())
        })?;
        let skip = (offset - first) as usize;
        Ok(bytes[skip..skip + len].to_vec())
    }
}

impl World {
    /// Closes devices once their operations have completed; devices that are closed already are left. Returns their identities: the caller
    /// ends their locks.
    pub(crate) fn close_devices(&self, ids: &[MemberId]) -> Vec<Identity> {
        let mut devices = self.devices.borrow_mut();
        let open = devices.iter_mut().filter(|device| !device.closed && ids.contains(&device.id));
        let close = |device: &mut Opened| {
            device.closed = true;
            self.uring.close_member(device.id);
            device.identity
        };
        open.map(close).collect()
    }

    /// The devices that it has.
    pub(crate) fn devices(&self) -> Vec<MemberId> {
        self.devices.borrow().iter().map(|device| device.id).collect()
    }

    /// Closes devices of an array that does not begin, and unlocks them. Waits for that.
    pub(crate) fn let_go_of(&self, ids: &[MemberId]) {
        let closed = self.close_devices(ids);
        self.locks.unlock_those(&closed);
    }

    /// Closes those that have come since, and unlocks them.
    pub(crate) fn let_go_of_all_but(&self, before: &[MemberId]) {
        let new: Vec<MemberId> = self.devices().into_iter().filter(|id| !before.contains(id)).collect();
        self.let_go_of(&new);
    }

    /// Tells of devices that have not answered so many operations of other threads, which have ended.
    pub(crate) fn tell_left_elsewhere(&self, left: &[(MemberId, usize)]) {
        for device in &*self.devices.borrow() {
            let of_it = left.iter().filter(|(id, _)| *id == device.id);
            tell_left(&device.path, of_it.map(|(_, left)| left).sum());
        }
    }

    /// Ends every task, and lets the devices go. Dropping the world does it, too. Values that tasks hold are dropped here, not before.
    pub(crate) fn end(&self) {
        if self.ended.replace(true) {
            return;
        }
        self.io.shutdown();
        // Operations that were never answered.
        for device in &*self.devices.borrow() {
            emulate::tell(&self.emulated, &device.path, device.id);
            tell_left(&device.path, self.io.orphans(device.id));
        }
    }
}

/// Tells of operations that were never answered.
fn tell_left(path: &Path, left: usize) {
    if left > 0 {
        tracing::warn!(
            "{}: has not answered {left} operations, which are left to the kernel: writes among them may still land",
            path.display()
        );
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.end();
    }
}

/// Fails before there is anything to clear away: a pool for which there is no room ends the process.
fn check_memory(budget: u64) -> Result<(), Failure> {
    let mut room = Vec::<u8>::new();
    // Nothing is touched, and so nothing used.
    room.try_reserve_exact(budget as usize + OTHER_MEMORY).map_err(|_| {
        Failure::Refused(format!(
            "memory can't be allocated: {} for buffers (--memory) and {} for the rest; give less, or raise the \
             limit of this process (ulimit -v)",
            Bytes(budget),
            Bytes(OTHER_MEMORY as u64)
        ))
    })
}

fn ids(members: &[Named]) -> Vec<MemberId> {
    members.iter().map(|member| member.id).collect()
}

/// Refuses memory that is too little or too much for arrays, or for the maps of pools.
pub(crate) fn check_budget(tuning: &Tuning) -> Result<(), Failure> {
    let map_memory = tuning.map_memory.map(|bytes| ("--map-memory", Bytes(bytes.get()), MAP_MEMORY));
    for (flag, bytes, (least, most)) in
        std::iter::once(("--memory", Bytes(tuning.memory), MEMORY)).chain(map_memory)
    {
        if !(least..=most).contains(&bytes) {
            return Err(Failure::Usage(format!("{flag} {bytes} is not possible: give {least} to {most}")));
        }
    }
    Ok(())
}

/// The time of day, for the superblocks.
pub(crate) fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
