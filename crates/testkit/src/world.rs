//! Members that carry an array, in RAM or as modelled drives, and an executor over them.

use brindle_md::assembly::{AssembleOptions, Assembly, AssemblyError, Candidate, assemble};
use brindle_md::create::CreateSpec;
use std::cell::Cell;

use brindle_array::ledger::Nothing;
use brindle_array::{Access, Array, Device, OpenConfig};
use brindle_format::md::{SUPERBLOCK_BYTES, Superblock, Version};
use brindle_io::memory::Memory;
use brindle_io::sim::{Model, Sim};
use brindle_io::{Duration, Io, MemberId, OpError, Pool, Slice};
use brindle_layout::Geometry;
use brindle_md::OpenError;
use brindle_volume::{Volume, VolumeError, read_again};

use crate::guard;
use crate::shape::{Shape, encoded, given, planned};

/// The time of the last change in the superblocks of new arrays.
pub const NOW: u64 = 1_800_000_000;

thread_local! {
    static TIME: Cell<u64> = const { Cell::new(NOW) };
}

/// A clock that never shows the same second twice to a test: what was not written together has not the same time.
pub fn clock() -> u64 {
    TIME.replace(TIME.get() + 1)
}

/// Bytes of a world's pool.
const POOL: usize = 8 << 20;

/// A reactor into whose members a test may look, beside the engine's back.
pub trait Bench: Clone {
    /// An executor over the bench.
    fn io(&self) -> Io;

    /// Copies bytes of a member, as a reader would see them.
    fn peek(&self, member: MemberId, offset: u64, into: &mut [u8]);

    /// Changes bytes of a member.
    fn poke(&self, member: MemberId, offset: u64, from: &[u8]);
}

impl Bench for Memory {
    fn io(&self) -> Io {
        Io::new(Box::new(self.clone()))
    }

    fn peek(&self, member: MemberId, offset: u64, into: &mut [u8]) {
        Self::peek(self, member, offset, into);
    }

    fn poke(&self, member: MemberId, offset: u64, from: &[u8]) {
        Self::poke(self, member, offset, from);
    }
}

impl Bench for Sim {
    fn io(&self) -> Io {
        Io::new(Box::new(self.clone()))
    }

    fn peek(&self, member: MemberId, offset: u64, into: &mut [u8]) {
        Self::peek(self, member, offset, into);
    }

    fn poke(&self, member: MemberId, offset: u64, from: &[u8]) {
        Self::poke(self, member, offset, from);
    }
}

/// Members that carry an array, and an executor over them.
pub struct World<B: Bench = Memory> {
    /// The reactor.
    pub bench: B,
    /// The executor.
    pub io: Io,
    /// Buffers for clients.
    pub pool: Pool,
    /// The members in their order.
    pub ids: Vec<MemberId>,
    version: Version,
}

impl World<Memory> {
    /// Members in RAM that carry a new array.
    ///
    /// # Panics
    /// If it can't be made.
    pub fn create(spec: &CreateSpec) -> Self {
        let memory = Memory::new();
        let ids: Vec<MemberId> = given(spec).iter().map(|m| memory.add_ram(m.info.size)).collect();
        for write in planned(spec).writes() {
            memory.poke(ids[write.device], write.offset, &write.bytes);
        }
        Self::over(memory, ids, spec.version)
    }

    /// Members in RAM that carry an array of this shape.
    ///
    /// # Panics
    /// If it can't be made.
    pub fn of(shape: &Shape) -> Self {
        let memory = Memory::new();
        let superblocks = shape.superblocks();
        let ids: Vec<_> = superblocks.iter().map(|_| memory.add_ram(shape.device_bytes())).collect();
        for (&id, (offset, bytes)) in ids.iter().zip(&superblocks) {
            memory.poke(id, *offset, bytes);
        }
        for (device, offset, bytes) in shape.bitmaps() {
            memory.poke(ids[device], offset, &bytes);
        }
        Self::over(memory, ids, shape.version)
    }

    /// Members with the same bytes in another world: what a new process finds after the old one was killed.
    #[must_use]
    pub fn reboot(&self) -> Self {
        self.reboot_with(&self.ids)
    }

    /// Restarts with these members, whether they are in use or not.
    pub(crate) fn reboot_with(&self, ids: &[MemberId]) -> Self {
        let memory = Memory::new();
        let copy = |&id: &MemberId| {
            let bytes = self.image_of(id);
            let copy = memory.add_ram(bytes.len() as u64);
            memory.poke(copy, 0, &bytes);
            copy
        };
        let ids = ids.iter().map(copy).collect();
        Self::over(memory, ids, self.version)
    }

    /// Brings members home from another world: `from` there becomes `to` here.
    pub fn bring<O: Bench>(&self, other: &World<O>, members: &[(usize, usize)]) {
        for &(from, to) in members {
            self.bench.poke(self.ids[to], 0, &other.image(from));
        }
    }
}

impl World<Sim> {
    /// Drives of a kind that carry an array of this shape.
    ///
    /// # Panics
    /// If it can't be made.
    pub fn in_sim(shape: &Shape, model: Model, seed: u64) -> Self {
        // Superblocks hold the time: the same seed must find the same.
        TIME.set(NOW);
        let sim = Sim::new(seed);
        let drives = drives(&sim, shape, model);
        Self::over(sim, drives, shape.version)
    }

    /// The same drives in a new world, as the next start finds them.
    #[must_use]
    pub fn restart(mut self, seed: u64) -> Self {
        let (ids, version) = (core::mem::take(&mut self.ids), self.version);
        self.io.shutdown();
        Self::over(self.bench.restart(seed), ids, version)
    }
}

impl<B: Bench> World<B> {
    /// An executor over members that carry superblocks of this version.
    pub fn over(bench: B, ids: Vec<MemberId>, version: Version) -> Self {
        let io = bench.io();
        Self { pool: io.pool(POOL), io, bench, ids, version }
    }

    /// Bytes of a member's device.
    fn size(&self, id: MemberId) -> u64 {
        self.io.member_info(id).map_or(0, |info| info.size)
    }

    /// All bytes of a member.
    pub fn image(&self, member: usize) -> Vec<u8> {
        self.image_of(self.ids[member])
    }

    fn image_of(&self, id: MemberId) -> Vec<u8> {
        let mut bytes = vec![0; self.size(id) as usize];
        self.bench.peek(id, 0, &mut bytes);
        bytes
    }

    /// Without some of the members.
    #[must_use]
    pub fn without(mut self, members: &[usize]) -> Self {
        let mut numbers = 0..;
        self.ids.retain(|_| numbers.next().is_some_and(|n| !members.contains(&n)));
        self
    }

    /// Assembles as the product does.
    ///
    /// # Errors
    /// As [`brindle_md::assembly::assemble`].
    pub fn assembly(&self) -> Result<Assembly, AssemblyError> {
        self.assembly_with(AssembleOptions::default())
    }

    /// Assembles with other options.
    ///
    /// # Errors
    /// As [`brindle_md::assembly::assemble`].
    ///
    /// # Panics
    /// If a member can't be read.
    pub fn assembly_with(&self, options: AssembleOptions) -> Result<Assembly, AssemblyError> {
        let candidates = self.io.block_on(candidates(&self.io, &self.pool, &self.ids)).unwrap();
        assemble(&candidates, options)
    }

    /// Opens an assembly.
    ///
    /// # Errors
    /// As [`brindle_md::open()`].
    pub fn try_open(&self, assembly: Assembly, config: OpenConfig) -> Result<Array, OpenError> {
        self.io.block_on(brindle_md::open(&self.io, assembly, &self.ids, config))
    }

    /// Assembles and opens, marking clean only on stop.
    ///
    /// # Panics
    /// If that fails.
    pub fn open(&self) -> Array {
        let assembly = self.assembly().unwrap_or_else(|error| panic!("{error}"));
        self.try_open(assembly, patient()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The superblock on a member, as it is on "disk" now.
    ///
    /// # Panics
    /// If there is none.
    pub fn superblock(&self, member: usize) -> Superblock {
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        let size = self.size(self.ids[member]);
        self.bench.peek(self.ids[member], self.version.superblock_offset(size).unwrap(), &mut bytes);
        Superblock::parse(self.version, &bytes, size).unwrap()
    }

    /// The superblocks on all members.
    pub fn superblocks(&self) -> Vec<Superblock> {
        (0..self.ids.len()).map(|n| self.superblock(n)).collect()
    }

    /// Changes the superblock on a member.
    ///
    /// # Panics
    /// If there is none.
    pub fn change(&self, member: usize, edit: impl FnOnce(&mut Superblock)) {
        let mut sb = self.superblock(member);
        edit(&mut sb);
        self.bench.poke(self.ids[member], sb.super_offset, &encoded(&sb));
    }

    /// Has all superblocks say that redundancy is not known to be in sync from a position on, as [`Array::sync_len`] counts.
    pub fn doubt(&self, position: u64) {
        (0..self.ids.len()).for_each(|n| self.change(n, |sb| sb.resync_offset = Some(position)));
    }

    /// Writes to an array.
    ///
    /// # Errors
    /// As [`Volume::write`].
    pub fn write(&self, array: &Array, offset: u64, bytes: &[u8]) -> Result<(), VolumeError> {
        self.io.block_on(write(&self.pool, array, offset, bytes))
    }

    /// Reads from an array.
    ///
    /// # Errors
    /// As [`Volume::read`].
    pub fn read(&self, array: &Array, offset: u64, len: usize) -> Result<Vec<u8>, VolumeError> {
        self.io.block_on(read(&self.pool, array, offset, len))
    }

    /// Stops an array.
    ///
    /// # Panics
    /// If it can't be stopped.
    pub fn stop(&self, array: &Array) {
        self.io.block_on(array.stop()).unwrap_or_else(|error| panic!("{error}"));
    }
}

impl<B: Bench> Drop for World<B> {
    fn drop(&mut self) {
        self.io.shutdown();
    }
}

/// New drives of a kind that carry an array of this shape. Where it is said to be in sync they are full of zeroes, else
/// of noise.
///
/// # Panics
/// If it can't be made.
pub fn drives(sim: &Sim, shape: &Shape, model: Model) -> Vec<MemberId> {
    let drive = |(offset, bytes): (u64, Vec<u8>)| {
        let bytes_of_it = shape.device_bytes();
        let id = if shape.in_sync {
            sim.add_blank_drive(model, bytes_of_it)
        } else {
            sim.add_drive(model, bytes_of_it)
        };
        sim.poke(id, offset, &bytes);
        id
    };
    let drives: Vec<MemberId> = shape.superblocks().into_iter().map(drive).collect();
    for (device, offset, bytes) in shape.bitmaps() {
        sim.poke(drives[device], offset, &bytes);
    }
    drives
}

/// The members as assembly sees them.
///
/// # Errors
/// As [`Candidate::read`], of the first member that can't be read.
pub async fn candidates(io: &Io, pool: &Pool, ids: &[MemberId]) -> Result<Vec<Candidate>, OpError> {
    let mut found = Vec::new();
    for id in ids {
        found.push(Candidate::read(io, pool, *id, id.to_string()).await?);
    }
    Ok(found)
}

/// Writes to a member directly, past any array, to stable storage.
///
/// # Errors
/// The member's error.
pub async fn put(io: &Io, pool: &Pool, id: MemberId, offset: u64, bytes: &[u8]) -> Result<(), OpError> {
    let buf = pool.alloc(bytes.len()).await;
    buf.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    let mut group = io.group();
    group.write(id, offset, &buf.slice(0..bytes.len()), true);
    group.submit().await.ok()
}

/// Writes to a volume.
///
/// # Errors
/// As [`Volume::write`].
pub async fn write(pool: &Pool, volume: &impl Volume, offset: u64, bytes: &[u8]) -> Result<(), VolumeError> {
    let buf = pool.alloc(bytes.len()).await;
    buf.bytes_mut().copy_from_slice(bytes);
    volume.write(offset, buf.all(), false).await
}

/// Memory for a read, full of what no test writes: what the read leaves out shows.
pub(crate) async fn unread(pool: &Pool, len: usize) -> Slice {
    let buf = pool.alloc(len).await;
    buf.bytes_mut().fill(0xee);
    buf.all()
}

/// Reads from a volume.
///
/// # Errors
/// As [`Volume::read`].
pub async fn read(
    pool: &Pool,
    volume: &impl Volume,
    offset: u64,
    len: usize,
) -> Result<Vec<u8>, VolumeError> {
    let memory = read_again(volume, offset, async || unread(pool, len).await).await?;
    let bytes = memory.bytes().to_vec();
    Ok(bytes)
}

/// An array whose state nothing keeps, guarded. `devices` are in the order of roles; `None` is a missing member, the others
/// are in sync.
pub fn in_memory(io: &Io, geometry: Geometry, devices: Vec<Option<Device>>) -> Array {
    Array::kept(io, geometry, devices, Box::new(Nothing), &patient())
}

/// An array without the guard, for measurements: the guard costs several times as much as the engine.
pub fn unguarded(io: &Io, geometry: Geometry, devices: Vec<Option<Device>>) -> Array {
    Array::kept(io, geometry, devices, Box::new(Nothing), &OpenConfig { observers: Vec::new(), ..patient() })
}

/// Read-write, guarded, marked clean on stop only.
pub fn patient() -> OpenConfig {
    let (idle, observers) = (Duration::from_secs(3600), vec![guard::observer()]);
    OpenConfig { idle, observers, ..OpenConfig::new(Access::ReadWrite, clock) }
}
