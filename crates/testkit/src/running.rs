//! An array that runs on its members, and the next starts of it.

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;

use brindle_array::ledger::Nothing;
use brindle_array::{Array, Device, OpenConfig, ProcessError, SyncMode, SyncReport};
use brindle_io::MemberId;
use brindle_io::memory::Memory;
use brindle_volume::{Volume, VolumeError};

use crate::client::{Client, STEP, steps};
use crate::oracle::Oracle;
use crate::shape::Shape;
use crate::world::{self, Bench, World};

/// An array that runs, as the product runs it: assembled from superblocks, and recorded in them.
pub struct Running<B: Bench = Memory> {
    world: World<B>,
    config: OpenConfig,
    /// The array.
    pub array: Array,
    /// Its members by role, also those that were left out when it was assembled.
    pub ids: Vec<MemberId>,
    /// Where data begin on each member.
    pub data_offset: u64,
}

impl<B: Bench> Deref for Running<B> {
    type Target = World<B>;

    fn deref(&self) -> &World<B> {
        &self.world
    }
}

impl Running<Memory> {
    /// A new array in RAM.
    ///
    /// # Panics
    /// If it can't be made.
    pub fn of(shape: &Shape, config: OpenConfig) -> Self {
        Self::start(World::of(shape), config)
    }

    /// The array at its next start without some members, once this run has been stopped.
    ///
    /// # Panics
    /// If it can't be stopped or started.
    #[must_use]
    pub fn without(&self, lost: &[u16]) -> Self {
        self.stop();
        self.reboot_with(&self.ids).assembled(lost, self.config.clone())
    }

    /// The array at its next start, with a member of which nothing is rebuilt yet.
    ///
    /// # Panics
    /// If it can't be stopped or started.
    #[must_use]
    pub fn recovering(&self, role: u16) -> Self {
        let next = self.without(&[role]);
        // Stopped as soon as it has begun.
        drop(next.recovery(role, next.ids[usize::from(role)]));
        next
    }

    /// Reads and writes that each member does while `work` runs.
    pub fn counted(&self, work: impl AsyncFnOnce(&Self)) -> Vec<(u64, u64)> {
        let counts = || self.ids.iter().map(|&id| self.bench.op_counts(id)).collect::<Vec<_>>();
        let before = counts();
        self.run(work);
        let grown = |(after, before): ((u64, u64), (u64, u64))| (after.0 - before.0, after.1 - before.1);
        counts().into_iter().zip(before).map(grown).collect()
    }
}

impl<B: Bench> Running<B> {
    /// Assembles and opens the array of a world whose members stand in the order of their roles.
    ///
    /// # Panics
    /// If that fails.
    pub fn start(world: World<B>, config: OpenConfig) -> Self {
        world.assembled(&[], config)
    }

    /// Ends the run; once more does nothing.
    ///
    /// # Panics
    /// If it can't be ended.
    pub fn stop(&self) {
        self.world.stop(&self.array);
    }

    /// Gives the world back, for the next start.
    pub fn into_world(self) -> World<B> {
        self.world
    }

    /// Runs to the end of `work`.
    pub fn run<'a, T>(&'a self, work: impl AsyncFnOnce(&'a Self) -> T) -> T {
        self.io.block_on(work(self))
    }

    /// A client of the array, judged by an oracle.
    pub fn client(&self, oracle: &Rc<RefCell<Oracle>>) -> Client<Array> {
        Client::new(self.array.clone(), self.pool.clone(), Rc::clone(oracle))
    }

    /// Bytes of the array.
    pub fn size(&self) -> u64 {
        self.array.limits().size
    }

    /// An oracle of the array as it was made: all zeroes.
    pub fn oracle(&self) -> Rc<RefCell<Oracle>> {
        Rc::new(RefCell::new(Oracle::zeroes(self.size())))
    }

    /// Writes.
    ///
    /// # Errors
    /// As [`Volume::write`].
    pub async fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), VolumeError> {
        world::write(&self.pool, &self.array, offset, bytes).await
    }

    /// Reads.
    ///
    /// # Errors
    /// As [`Volume::read`].
    pub async fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, VolumeError> {
        world::read(&self.pool, &self.array, offset, len).await
    }

    /// Reads all of the array.
    ///
    /// # Errors
    /// As [`Volume::read`].
    pub async fn read_all(&self) -> Result<Vec<u8>, VolumeError> {
        let mut all = Vec::new();
        for (offset, len) in steps(self.size()) {
            all.extend(self.read(offset, len as usize).await?);
        }
        Ok(all)
    }

    /// Writes to the array from its first byte on.
    ///
    /// # Errors
    /// As [`Volume::write`].
    pub async fn write_all(&self, bytes: &[u8]) -> Result<(), VolumeError> {
        for (offset, step) in (0..).step_by(STEP as usize).zip(bytes.chunks(STEP as usize)) {
            self.write(offset, step).await?;
        }
        Ok(())
    }

    /// Goes over all redundancy, window by window.
    ///
    /// # Errors
    /// As [`Array::sync_window`].
    pub async fn scrub(&self, mode: SyncMode) -> Result<SyncReport, VolumeError> {
        let mut report = SyncReport::default();
        for (pos, len) in steps(self.array.sync_len()) {
            report.add(&self.array.sync_window(pos, len, mode).await?);
        }
        Ok(report)
    }

    /// Rebuilds a role that is missing or has failed, onto a member of which nothing is good yet; or goes on with that.
    /// Superblocks learn nothing of it.
    ///
    /// # Errors
    /// As [`Array::recover`].
    pub fn recovery(
        &self,
        role: u16,
        id: MemberId,
    ) -> impl Future<Output = Result<(), ProcessError>> + use<B> {
        self.array.recover(role, Device { id, data_offset: self.data_offset }, |_| ())
    }

    /// An array over these members that reads and writes no superblock: to look at the data that a recovery has
    /// rebuilt.
    pub fn unrecorded(&self, ids: &[MemberId]) -> Array {
        let device = |&id| Some(Device { id, data_offset: self.data_offset });
        let devices = ids.iter().map(device).collect();
        Array::kept(&self.io, self.array.geometry().clone(), devices, Box::new(Nothing), &world::patient())
    }

    /// Whether a member gives these bytes when asked directly.
    pub fn readable(&self, id: MemberId, offset: u64, len: usize) -> bool {
        self.io.block_on(async {
            let buf = self.pool.alloc(len).await;
            let mut group = self.io.group();
            group.read(id, offset, &buf.all());
            group.submit().await.is_ok()
        })
    }
}

impl<B: Bench> World<B> {
    /// Assembles and opens the array without the members of some roles; members stand in the order of their roles.
    ///
    /// # Panics
    /// If that fails.
    #[must_use]
    pub fn assembled(self, lost: &[u16], config: OpenConfig) -> Running<B> {
        let ids = self.ids.clone();
        let lost: Vec<usize> = lost.iter().copied().map(usize::from).collect();
        let world = self.without(&lost);
        let assembly = world.assembly().unwrap_or_else(|error| panic!("without {lost:?}: {error}"));
        let data_offset = assembly.devices[0].superblock.data_offset;
        let array = world.try_open(assembly, config.clone()).unwrap_or_else(|error| panic!("{error}"));
        Running { world, config, array, ids, data_offset }
    }
}
