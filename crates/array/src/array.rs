//! The array: a volume over its members.

use core::cell::{Cell, OnceCell};
use std::rc::{Rc, Weak};

use brindle_io::{Io, PAGE, Slice};
use brindle_layout::{Family, Geometry, Level};
use brindle_parity::Kernel;

use crate::data::lock::RangeLock;
use crate::data::mirrored::{Paces, block};
use crate::data::parity::{Batches, Writers};
use crate::keeper::{Keeper, Truth};
use crate::members::{Device, Members, RoleState};
use crate::patience::{self, Patience, Ration};
use crate::reshape::Border;
use crate::scratch::Scratch;
use crate::volume::{Limits, Volume, VolumeError, ZeroOptions};

/// Which copy of a mirrored array answers a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadPolicy {
    /// The member with the least work in flight, and one that answers much slower than another seldom; large reads are
    /// split over all copies but those.
    #[default]
    LeastOutstanding,
    /// The first copy that can be read.
    First,
    /// The copies in turn; large reads are split over all copies.
    RoundRobin,
}

/// What becomes of a member that has no room for a write where it lives: a file on a full file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    /// It stays in use. The write is refused with that error, and what it may have changed in part is made true once
    /// there is room.
    #[default]
    Wait,
    /// It is failed as md does, if the array can do without it.
    Fail,
}

/// How an array runs.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Memory for parity and reconstruction, in bytes; raised to what the array's width needs.
    pub scratch_bytes: usize,
    /// Which copy answers a read.
    pub read_policy: ReadPolicy,
    /// Changes are refused.
    pub read_only: bool,
    /// What becomes of a member that has no room.
    pub on_full: OnFull,
    /// How long members may take.
    pub patience: Patience,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            scratch_bytes: 64 << 20,
            read_policy: ReadPolicy::default(),
            read_only: false,
            on_full: OnFull::default(),
            patience: Patience::default(),
        }
    }
}

/// A running array. A handle: cloning gives the same array.
///
/// Requests must be driven to their end (as tasks of their own, for instance): one that is dropped on its way may
/// have changed some members and not others.
#[derive(Clone)]
pub struct Array(pub(crate) Rc<Inner>);

pub(crate) struct Inner {
    pub(crate) io: Io,
    pub(crate) geometry: Geometry,
    pub(crate) members: Rc<Members>,
    pub(crate) keeper: Rc<Keeper>,
    pub(crate) config: Config,
    pub(crate) limits: Limits,
    pub(crate) kernel: &'static Kernel,
    pub(crate) scratch: Scratch,
    /// Stopped: nobody looks at the members any more.
    pub(crate) ended: Cell<bool>,
    /// What answering reads early may still cost.
    pub(crate) ration: Ration,
    /// Bytes of the array (mirrored) or rows (parity).
    pub(crate) locks: RangeLock,
    /// Writes to rows that can be joined.
    pub(crate) batches: Batches,
    /// Writes in progress (parity).
    pub(crate) writers: Writers,
    /// Zeroes to be written, once there was need of them.
    pub(crate) zeroes: OnceCell<Slice>,
    /// Work in flight by role, in bytes; mirrored arrays choose by it.
    pub(crate) load: Vec<Cell<u64>>,
    /// How fast the members answer reads.
    pub(crate) paces: Paces,
    /// Breaks ties between copies.
    pub(crate) turn: Cell<u16>,
    /// How far the resync has come that is under way.
    pub(crate) resyncing: Cell<Option<u64>>,
    /// While the array is being reshaped: where what has moved is read.
    pub(crate) border: Option<Border>,
    /// For the task that makes true what found no room: it must not keep the array alive.
    pub(crate) me: OnceCell<Weak<Inner>>,
}

impl Array {
    /// An array whose state lives in memory only: no superblocks are read or written, every present member is in
    /// sync. For tests and benches. `devices` are in the order of roles; `None` is a missing member.
    pub fn volatile(io: &Io, geometry: Geometry, devices: Vec<Option<Device>>, config: Config) -> Self {
        let members = Rc::new(Members::new(io, devices));
        let map = geometry.clone();
        let truth = Truth::of(&geometry, None);
        let keeper =
            Keeper::volatile(io, Rc::clone(&members), Box::new(move |lost| map.can_lose(lost)), truth);
        Self::new(io, geometry, members, Rc::new(keeper), config).known().watched()
    }

    /// The array, known to itself.
    pub(crate) fn known(self) -> Self {
        self.0.me.get_or_init(|| Rc::downgrade(&self.0));
        self
    }

    /// An array whose state `keeper` keeps.
    pub(crate) fn new(
        io: &Io,
        geometry: Geometry,
        members: Rc<Members>,
        keeper: Rc<Keeper>,
        config: Config,
    ) -> Self {
        let limits = limits(io, &geometry, &members, config.read_only);
        let bytes = scratch_bytes(&geometry, config.scratch_bytes);
        Self(Rc::new(Inner {
            io: io.clone(),
            limits,
            kernel: brindle_parity::kernel(),
            scratch: Scratch::new(io, bytes, members.len()),
            ended: Cell::new(false),
            ration: Ration::default(),
            locks: RangeLock::new(io),
            batches: Batches::default(),
            writers: Writers::default(),
            zeroes: OnceCell::new(),
            load: (0..members.len()).map(|_| Cell::new(0)).collect(),
            paces: Paces::new(members.len()),
            turn: Cell::new(0),
            resyncing: Cell::new(None),
            border: None,
            me: OnceCell::new(),
            geometry,
            members,
            keeper,
            config,
        }))
    }

    /// Members that don't answer are given up from now on.
    pub(crate) fn watched(self) -> Self {
        let (io, patience) = (&self.0.io, self.0.config.patience);
        drop(io.spawn(patience::watch(Rc::downgrade(&self.0), io.clone(), patience)));
        self
    }

    /// What has become of a role's member.
    ///
    /// # Panics
    /// If the array has no such role.
    pub fn state(&self, role: u16) -> RoleState {
        self.0.members.state(role)
    }

    /// How often the role's member could not read something that redundancy made up for.
    ///
    /// # Panics
    /// If the array has no such role.
    pub fn corrected(&self, role: u16) -> u64 {
        self.0.members.errors(role).total()
    }

    /// Gives a missing or failed role a device of which nothing is good yet; it takes every write from now on. For
    /// volatile arrays: superblocks learn nothing of it.
    ///
    /// # Panics
    /// If the array has no such role.
    pub fn begin_recovery(&self, role: u16, device: Device) {
        self.0.members.set_device(role, device, RoleState::Recovering(0));
        self.0.paces.forget(role);
    }

    /// Where each byte lives.
    pub fn geometry(&self) -> &Geometry {
        &self.0.geometry
    }
}

/// How much scratch an array gets that asks for `wanted` bytes. Buffers are powers of two.
fn scratch_bytes(geometry: &Geometry, wanted: usize) -> usize {
    match geometry.family() {
        // The widest step holds a page of each member and as much again.
        Family::Parity(_) => {
            let step = ((usize::from(geometry.members()) + 4) * 2 * PAGE).next_power_of_two();
            wanted.max(4 * step.max(256 << 10))
        }
        // For mending and comparing only; the widest step holds a block of each copy.
        Family::Mirrored(map) => {
            let step = (usize::from(map.copies()) * block(map) as usize).next_power_of_two();
            wanted.clamp(step.max(1 << 20), step.max(4 << 20))
        }
        Family::Striped(_) => 1 << 20,
    }
}

fn limits(io: &Io, geometry: &Geometry, members: &Members, read_only: bool) -> Limits {
    let infos = || (0..members.len()).filter_map(|role| io.member_info(members.device(role)?.id));
    let block = infos().map(|info| info.logical_block).max().unwrap_or(512);
    let physical = infos().map(|info| info.physical_block).max().unwrap_or(block).max(block);
    let parity = matches!(geometry.level(), Level::Raid4 | Level::Raid5 | Level::Raid6);
    Limits {
        size: geometry.size(),
        block,
        preferred: if parity { geometry.chunk() as u32 } else { physical },
        optimal: geometry.row_bytes(),
        read_only,
        discard: infos().any(|info| info.discard),
    }
}

impl Inner {
    /// Refuses what no member could do.
    #[inline]
    fn check(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        if self.keeper.is_stopping() {
            return Err(VolumeError::Stopping);
        }
        let mask = u64::from(self.limits.block) - 1;
        if (offset | len) & mask != 0 {
            return Err(VolumeError::Unaligned);
        }
        match offset.checked_add(len) {
            Some(end) if end <= self.limits.size => Ok(()),
            _ => Err(VolumeError::OutOfRange),
        }
    }

    /// Reads a range that the array's geometry has, and that is not empty.
    #[inline]
    pub(crate) async fn read_placed(&self, offset: u64, into: &Slice) -> Result<(), VolumeError> {
        match self.geometry.family() {
            Family::Striped(map) => self.read_striped(map, offset, into).await,
            Family::Mirrored(map) => self.read_mirrored(map, offset, into).await,
            Family::Parity(map) => self.read_parity(map, offset, into).await,
        }
    }

    #[inline]
    fn check_change(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        if self.config.read_only {
            return Err(VolumeError::ReadOnly);
        }
        self.check(offset, len)
    }
}

impl Volume for Array {
    fn limits(&self) -> Limits {
        self.0.limits
    }

    async fn read(&self, offset: u64, into: Slice) -> Result<(), VolumeError> {
        let inner = &*self.0;
        inner.check(offset, into.len() as u64)?;
        match &inner.border {
            _ if into.is_empty() => Ok(()),
            Some(border) => Box::pin(inner.read_across(border, offset, &into)).await,
            None => inner.read_placed(offset, &into).await,
        }
    }

    async fn write(&self, offset: u64, from: Slice, fua: bool) -> Result<(), VolumeError> {
        let inner = &*self.0;
        inner.check_change(offset, from.len() as u64)?;
        match inner.geometry.family() {
            _ if from.is_empty() => Ok(()),
            Family::Striped(map) => inner.write_striped(map, offset, &from, fua).await,
            Family::Mirrored(map) => inner.write_mirrored(map, offset, &from, fua).await,
            Family::Parity(map) => inner.write_parity(map, offset, &from, fua).await,
        }
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.0.flush_members().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        let inner = &*self.0;
        inner.check_change(offset, len)?;
        match inner.geometry.family() {
            _ if len == 0 => Ok(()),
            Family::Striped(_) | Family::Mirrored(_) => inner.discard_data(offset, len).await,
            Family::Parity(map) => inner.discard_parity(map, offset, len).await,
        }
    }

    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError> {
        let inner = &*self.0;
        inner.check_change(offset, len)?;
        match inner.geometry.family() {
            _ if len == 0 => Ok(()),
            Family::Striped(_) | Family::Mirrored(_) => inner.zero_data(offset, len, options).await,
            Family::Parity(map) => inner.zero_parity(map, offset, len, options).await,
        }
    }
}
