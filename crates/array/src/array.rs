//! The array: a volume over its members.

use core::cell::{Cell, OnceCell};
use std::rc::Rc;

use brindle_io::{Io, PAGE, Pool, Slice};
use brindle_layout::{Family, Geometry, Level};
use brindle_parity::Kernel;

use crate::data::lock::RangeLock;
use crate::data::mirrored::block;
use crate::data::parity::{Batches, Writers};
use crate::keeper::{Keeper, Truth};
use crate::members::{Device, Members, RoleState};
use crate::reshape::Border;
use crate::volume::{Limits, Volume, VolumeError, ZeroOptions};

/// Which copy of a mirrored array answers a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadPolicy {
    /// The member with the least work in flight; large reads are split over all copies.
    #[default]
    LeastOutstanding,
    /// The first copy that can be read.
    First,
    /// The copies in turn; large reads are split over all copies.
    RoundRobin,
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
}

impl Default for Config {
    fn default() -> Self {
        Self { scratch_bytes: 64 << 20, read_policy: ReadPolicy::default(), read_only: false }
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
    pub(crate) scratch: Pool,
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
    /// Breaks ties between copies.
    pub(crate) turn: Cell<u16>,
    /// While the array is being reshaped: where what has moved is read.
    pub(crate) border: Option<Border>,
}

impl Array {
    /// An array whose state lives in memory only: no superblocks are read or written, every present member is in
    /// sync. For tests and benches. `devices` are in the order of roles; `None` is a missing member.
    pub fn volatile(io: &Io, geometry: Geometry, devices: Vec<Option<Device>>, config: Config) -> Self {
        let members = Rc::new(Members::new(devices));
        let map = geometry.clone();
        let truth = Truth::of(&geometry, None);
        let keeper = Keeper::volatile(Rc::clone(&members), Box::new(move |lost| map.can_lose(lost)), truth);
        Self::new(io, geometry, members, Rc::new(keeper), config)
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
            scratch: io.pool(bytes),
            locks: RangeLock::new(io),
            batches: Batches::default(),
            writers: Writers::default(),
            zeroes: OnceCell::new(),
            load: (0..members.len()).map(|_| Cell::new(0)).collect(),
            turn: Cell::new(0),
            border: None,
            geometry,
            members,
            keeper,
            config,
        }))
    }

    /// What has become of a role's member.
    ///
    /// # Panics
    /// If the array has no such role.
    pub fn state(&self, role: u16) -> RoleState {
        self.0.members.state(role)
    }

    /// Gives a missing or failed role a device of which nothing is good yet; it takes every write from now on. For
    /// volatile arrays: superblocks learn nothing of it.
    ///
    /// # Panics
    /// If the array has no such role.
    pub fn begin_recovery(&self, role: u16, device: Device) {
        self.0.members.set_device(role, device, RoleState::Recovering(0));
    }

    /// Redundancy is not known true from `position` on (see [`Array::sync_len`]), as after a crash. For volatile
    /// arrays: superblocks learn nothing of it.
    pub fn doubt_redundancy(&self, position: u64) {
        self.0.keeper.doubt(position);
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
