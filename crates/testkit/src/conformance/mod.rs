//! The contract of every volume, at [`brindle_volume::Volume`], as one suite. Implementations differ only in how a
//! volume is made.

mod changes;
mod compared;
mod order;
mod racing;
mod refusals;

use std::cell::RefCell;

use brindle_io::{Io, Pool, Slice};
use brindle_volume::{Volume, VolumeError, read_again};

use crate::random::Random;

/// A volume to be judged, whose content is known.
pub struct Subject<'a, V> {
    /// The executor, whose time is virtual.
    pub io: &'a Io,
    /// Memory for requests: at least four times the size of the volume.
    pub pool: &'a Pool,
    /// The volume: at least 64 blocks, and writable.
    pub volume: &'a V,
    /// For messages.
    pub name: String,
    /// Whether a byte is on a member that an array with parity lacks.
    missing: &'a dyn Fn(u64) -> bool,
    model: RefCell<Vec<u8>>,
    random: RefCell<Random>,
}

/// Holds a volume against all of the contract that needs no power cut.
///
/// # Panics
/// If something does not hold.
pub async fn conforms<V: Volume>(name: &str, io: &Io, pool: &Pool, volume: &V) {
    conforms_without(name, io, pool, volume, &|_| false).await;
}

/// Checks an array with parity that lacks members. `missing` tells whether a byte of the array is on one of those: of
/// such bytes a dropped write leaves what it likes in the rows that it touched, and that is all in which the contract
/// gives less.
///
/// # Panics
/// If something does not hold.
pub async fn conforms_without<V: Volume>(
    name: &str,
    io: &Io,
    pool: &Pool,
    volume: &V,
    missing: &dyn Fn(u64) -> bool,
) {
    let subject = Subject { missing, ..Subject::new(name, io, pool, volume).await };
    subject.ranges_are_refused().await;
    subject.no_bytes_are_done_at_once().await;
    subject.lists_are_as_one_slice().await;
    subject.zeroes_are_zeroes().await;
    subject.discards_stay_in_their_range().await;
    subject.allocation_covers().await;
    subject.overlapping_writes_leave_one_or_the_other().await;
    subject.memory_of_others_may_change().await;
    subject.compared_writes_are_one_step().await;
    subject.dropped_futures_leave_it_usable().await;
    subject.holds().await;
    subject.volume.flush().await.unwrap_or_else(|error| panic!("{name}: flush: {error}"));
}

/// Holds a volume that is read-only against the contract: all changes are refused, and nothing else.
///
/// # Panics
/// If something does not hold.
pub async fn refuses_changes<V: Volume>(name: &str, io: &Io, pool: &Pool, volume: &V) {
    refusals::read_only(name, io, pool, volume).await;
}

impl<'a, V: Volume> Subject<'a, V> {
    /// Writes all of the volume.
    ///
    /// # Panics
    /// If it can't be written.
    pub async fn new(name: &str, io: &'a Io, pool: &'a Pool, volume: &'a V) -> Self {
        let limits = volume.limits();
        assert_eq!(limits.size % u64::from(limits.block), 0, "{name}: {limits:?}");
        let (model, random) = (vec![0; limits.size as usize], Random::new(limits.size));
        let subject = Self {
            io,
            pool,
            volume,
            name: name.to_owned(),
            missing: &|_| false,
            model: model.into(),
            random: random.into(),
        };
        let all = subject.memory(0..limits.size as usize).await;
        subject.put(0, &[all]).await;
        subject
    }

    /// A block.
    fn block(&self) -> u64 {
        u64::from(self.volume.limits().block)
    }

    fn size(&self) -> u64 {
        self.volume.limits().size
    }

    fn below(&self, bound: u64) -> u64 {
        self.random.borrow_mut().below(bound)
    }

    /// A range of whole blocks, not empty, of at most half the volume.
    fn range(&self) -> (u64, usize) {
        let blocks = self.size() / self.block();
        // Long ones and short ones alike.
        let most = ((blocks / 2) >> self.below(6)).max(1);
        let len = 1 + self.below(most);
        let from = self.below(blocks - len + 1);
        (from * self.block(), (len * self.block()) as usize)
    }

    /// Memory full of bytes of its own.
    async fn memory(&self, range: core::ops::Range<usize>) -> Slice {
        let buf = self.pool.alloc(range.end).await;
        self.random.borrow_mut().fill(&mut buf.bytes_mut());
        buf.slice(range)
    }

    /// Writes some, flushes, and writes some more, part of it with FUA. Gives the bytes that must be there after a
    /// power cut that comes now: `None` where the old or the new ones may be.
    ///
    /// # Panics
    /// If something can't be written.
    pub async fn leave_for_a_power_cut(self) -> Vec<Option<u8>> {
        let all = self.memory(0..self.size() as usize).await;
        self.put(0, &[all]).await;
        self.volume.flush().await.unwrap_or_else(|error| panic!("{}: flush: {error}", self.name));
        let mut stable: Vec<_> = self.model.borrow().iter().copied().map(Some).collect();
        for round in 0..12 {
            let (offset, len) = self.range();
            let memory = self.memory(0..len).await;
            let fua = round % 2 == 0;
            let written = self.volume.write(offset, &memory, fua).await;
            written.unwrap_or_else(|error| panic!("{}: write: {error}", self.name));
            for (stable, &byte) in stable[offset as usize..].iter_mut().zip(&*memory.bytes()) {
                *stable = fua.then_some(byte);
            }
        }
        stable
    }

    /// Writes a list, and keeps in mind what it is.
    async fn put(&self, offset: u64, list: &[Slice]) {
        self.volume.write(offset, list, false).await.unwrap_or_else(|e| panic!("{}: write: {e}", self.name));
        self.keep(offset, list);
    }

    fn keep(&self, offset: u64, list: &[Slice]) {
        for (at, slice) in brindle_volume::stretches(offset, list) {
            self.model.borrow_mut()[at as usize..at as usize + slice.len()].copy_from_slice(&slice.bytes());
        }
    }

    async fn get(&self, offset: u64, len: usize) -> Vec<u8> {
        let fresh = async || self.pool.alloc(len).await.all();
        let read: Result<Slice, VolumeError> = read_again(self.volume, offset, fresh).await;
        read.unwrap_or_else(|error| panic!("{}: read: {error}", self.name)).bytes().to_vec()
    }

    /// All is as it was written.
    ///
    /// # Panics
    /// If not.
    pub async fn holds(&self) {
        let found = self.get(0, self.size() as usize).await;
        let wrong = found.iter().zip(self.model.borrow().iter()).position(|(a, b)| a != b);
        assert_eq!(wrong, None, "{}: the first wrong byte", self.name);
    }
}
