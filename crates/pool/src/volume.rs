//! A volume of a pool, as its users see it.

use std::rc::Rc;

use brindle_format::pool::{BLOCK, EntryKind};
use brindle_io::Slice;
use brindle_members::lock::Hold;
use brindle_volume::{Allocation, Limits, Volume, VolumeError, Wanted, ZeroOptions, first_difference};
use smallvec::SmallVec;

use crate::core::Core;
use crate::log::crew::{Change, Order, Work};
use crate::log::queue::{Item, Source};
use crate::read::cut;
use crate::store::leaf::Located;
use crate::store::map::lock_of;

const BLOCK_BYTES: u64 = BLOCK as u64;
/// Blocks that a look at what is allocated goes through.
const LOOKED_AT: u64 = 64 << 10;

/// A volume of a running pool. A handle: cloning gives the same one.
#[derive(Clone)]
pub struct PoolVolume {
    pub(crate) core: Rc<Core>,
    pub(crate) id: u32,
    pub(crate) size: u64,
}

impl PoolVolume {
    /// Its number in the pool.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// An error for changes if the volume takes none.
    fn check_change(&self) -> Result<(), VolumeError> {
        if self.core.read_only {
            return Err(VolumeError::ReadOnly);
        }
        self.check_there()
    }

    fn check_there(&self) -> Result<(), VolumeError> {
        let gone = || !self.core.volumes.is_there(self.id);
        if self.core.run.is_stopping() || gone() { Err(VolumeError::Stopping) } else { Ok(()) }
    }

    /// Carries a change out in another task: once begun it comes to its end.
    async fn change(&self, offset: u64, len: u64, change: Change, fua: bool) -> Result<(), VolumeError> {
        let core = &self.core;
        core.asked();
        let ticket = core.crew.ticket();
        let order = Order { volume: self.id, offset, len, change, fua, ticket: Rc::clone(&ticket) };
        core.carry(Work::Change(order));
        let result = ticket.ended().await;
        core.crew.keep(ticket);
        result
    }
}

impl Core {
    /// Carries a change of a client out.
    pub(crate) async fn carry_out_change(&self, order: Order) {
        let (first, last) = order.blocks();
        let lock = lock_of((order.volume, first));
        let held = self.locks.acquire(lock..lock + (last - first), Hold::Exclusive).await;
        let put = self.put(&order).await;
        drop(held);
        order.ticket.end(put);
    }

    /// The caller holds the blocks. Waits for all items of the order's ticket but one.
    async fn put(&self, order: &Order) -> Result<(), VolumeError> {
        let &Order { volume, offset, len, ref change, fua, ref ticket } = order;
        let (end, node) = (offset + len, self.volumes.node(volume));
        let item = |(block, count, source): (u64, u32, Source)| {
            let kind = if matches!(source, Source::None) { EntryKind::Zeroes } else { EntryKind::Data };
            Item { kind, volume, node, block, count, source, fua, ticket: Rc::clone(ticket) }
        };
        let mut items: SmallVec<[Item; 1]> = SmallVec::new();
        let mut at = offset;
        // Blocks of which only a part changes are read first.
        while at < end {
            let block = at / BLOCK_BYTES;
            let stop = end.min((block + 1) * BLOCK_BYTES);
            let whole = stop - at == BLOCK_BYTES;
            items.push(item(match change {
                Change::Write(list) if whole => {
                    (block, 1, Source::Slices(cut(list, at - offset, BLOCK).collect()))
                }
                Change::Zeroes if whole => {
                    let whole_end = end / BLOCK_BYTES;
                    let count = (whole_end - block).min(u64::from(u32::MAX));
                    at = (block + count) * BLOCK_BYTES;
                    items.push(item((block, count as u32, Source::None)));
                    continue;
                }
                _ => {
                    let mut bytes = self.read_block(volume, block).await?;
                    let place = &mut bytes[(at - block * BLOCK_BYTES) as usize..][..(stop - at) as usize];
                    match change {
                        Change::Write(list) => {
                            let mut filled = 0;
                            for slice in cut(list, at - offset, (stop - at) as usize) {
                                slice.copy_to(&mut place[filled..filled + slice.len()]);
                                filled += slice.len();
                            }
                        }
                        Change::Zeroes => place.fill(0),
                    }
                    (block, 1, Source::Bytes(Rc::from(bytes)))
                }
            }));
            at = stop;
        }
        ticket.more(items.len());
        self.append(false, items);
        ticket.ended_but(1).await
    }
}

impl Volume for PoolVolume {
    fn limits(&self) -> Limits {
        let read_only = self.core.read_only;
        let (block, preferred) = (512, BLOCK as u32);
        Limits { size: self.size, block, preferred, optimal: 0, read_only, discard: true }
    }

    async fn read(&self, offset: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        self.check_there()?;
        if self.limits().check_list(offset, into.as_ref())? == 0 {
            return Ok(());
        }
        self.core.asked();
        self.core.read(self.id, offset, into.as_ref()).await
    }

    async fn write(&self, offset: u64, from: impl AsRef<[Slice]>, fua: bool) -> Result<(), VolumeError> {
        self.check_change()?;
        let len = self.limits().check_list(offset, from.as_ref())?;
        if len == 0 {
            return Ok(());
        }
        self.change(offset, len, Change::Write(from.as_ref().iter().cloned().collect()), fua).await
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        if self.core.read_only {
            return Ok(());
        }
        if self.core.record.is_broken() {
            return Err(VolumeError::TooManyLost);
        }
        self.core.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.check_change()?;
        self.limits().check(offset, len)?;
        let (begin, end) = (offset.next_multiple_of(BLOCK_BYTES), (offset + len) / BLOCK_BYTES * BLOCK_BYTES);
        if begin >= end {
            return Ok(());
        }
        self.change(begin, end - begin, Change::Zeroes, false).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError> {
        self.check_change()?;
        self.limits().check(offset, len)?;
        if len == 0 {
            return Ok(());
        }
        if options.fast_only && !(offset | len).is_multiple_of(BLOCK_BYTES) {
            return Err(VolumeError::Unsupported);
        }
        // Room for it is kept whether or not something is stored.
        self.change(offset, len, Change::Zeroes, options.fua).await
    }

    async fn compare_and_write(
        &self,
        offset: u64,
        expected: &Slice,
        new: &Slice,
        scratch: &Slice,
        fua: bool,
        wanted: &Wanted,
    ) -> Result<Option<u64>, VolumeError> {
        self.check_change()?;
        let len = self.limits().check_list(offset, core::slice::from_ref(new))?;
        if expected.len() != new.len() || scratch.len() != new.len() {
            return Err(VolumeError::Unaligned);
        }
        if len == 0 {
            return Ok(None);
        }
        let (core, expected, scratch, wanted) =
            (Rc::clone(&self.core), expected.clone(), scratch.clone(), wanted.clone());
        let (change, ticket) = (Change::Write(SmallVec::from_iter([new.clone()])), core.crew.ticket());
        let order = Order { volume: self.id, offset, len, change, fua, ticket };
        let compared = self.core.set.io.spawn(async move {
            let (first, last) = order.blocks();
            let lock = lock_of((order.volume, first));
            let _held = core.locks.acquire(lock..lock + (last - first), Hold::Exclusive).await;
            core.read(order.volume, offset, core::slice::from_ref(&scratch)).await?;
            if let Some(differs) = first_difference(&expected, &scratch) {
                return Ok(Some(differs as u64));
            }
            wanted.check()?;
            core.put(&order).await.map(|()| None)
        });
        compared.await
    }

    async fn allocation(
        &self,
        offset: u64,
        len: u64,
        found: &mut Vec<Allocation>,
    ) -> Result<(), VolumeError> {
        self.check_there()?;
        self.limits().check(offset, len)?;
        let end = offset + len;
        let mut at = offset;
        while at < end && at - offset < LOOKED_AT * BLOCK_BYTES {
            let block = at / BLOCK_BYTES;
            let stop = end.min((block + 1) * BLOCK_BYTES);
            let hole = matches!(self.core.locate((self.id, block)).await?.0, Located::Zeroes);
            match found.last_mut().filter(|last| at > offset && last.hole == hole) {
                Some(last) => last.len += stop - at,
                None => found.push(Allocation { len: stop - at, hole, zero: hole }),
            }
            at = stop;
        }
        Ok(())
    }
}
