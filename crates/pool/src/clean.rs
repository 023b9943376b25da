//! Cleaning: what is left of segments that hold little is moved together, so that whole ones become free.

use std::rc::Rc;

use brindle_format::pool::place::Address;
use brindle_format::pool::{BLOCK, Batch, EntryKind};
use brindle_members::lock::Hold;
use brindle_volume::VolumeError;

use crate::checkpoint::Why;
use crate::core::Core;
use crate::log::{Item, Source, Ticket};
use crate::map::{Key, Located};
use crate::read::Pin;

/// Segments that are cleaned between two checkpoints.
const ROUND: usize = 8;

impl Core {
    /// Begins what is due: a checkpoint, cleaning.
    pub(crate) fn look_after(&self) {
        if self.read_only || self.stopping.get() || self.broken.get() {
            return;
        }
        let changes = self.map.borrow().changes();
        let (scarce, needs) = {
            let space = self.space.borrow();
            (space.is_scarce(), space.needs_cleaning())
        };
        let due = changes >= self.config.changes
            || self.log.since.get() >= self.config.batches
            || self.reshaped.get()
            || scarce;
        if due && let Some(core) = self.kept().filter(|core| !core.checkpointing.replace(true)) {
            drop(self.set.io.spawn(async move {
                let _due = core.some_checkpoint().await;
                core.checkpointing.set(false);
            }));
        }
        if needs && let Some(core) = self.kept().filter(|core| !core.cleaning.replace(true)) {
            drop(self.set.io.spawn(async move {
                core.clean().await;
                core.cleaning.set(false);
            }));
        }
    }

    /// Waits for a checkpoint that gives the log more segments; cleaning goes on beside it.
    pub(crate) async fn make_room(self: &Rc<Self>) -> Result<(), VolumeError> {
        self.look_after();
        self.some_checkpoint().await
    }

    /// Cleans until there is room enough, or nothing that would give some.
    async fn clean(self: &Rc<Self>) {
        let mut fruitless = 0;
        while fruitless < 3 && !self.stopping.get() && !self.broken.get() {
            if !self.space.borrow().needs_cleaning() {
                return;
            }
            // What was overwritten counts as dead once a checkpoint has gone through the leaves.
            if self.some_checkpoint().await.is_err() {
                return;
            }
            let before = self.space.borrow().free_share();
            for _ in 0..ROUND {
                let victim = self.space.borrow().victim(self.record.borrow().sequence);
                let Some(victim) = victim else { break };
                if self.empty(victim).await.is_err() {
                    break;
                }
            }
            if self.some_checkpoint().await.is_err() {
                return;
            }
            fruitless = if self.space.borrow().free_share() > before { 0 } else { fruitless + 1 };
        }
    }

    /// Moves what is live of a segment.
    async fn empty(self: &Rc<Self>, segment: u32) -> Result<(), VolumeError> {
        let _pin = Pin::new(&self.space, segment);
        let Some((shape, stripes)) =
            self.space.borrow().get(segment).map(|s| (s.record.shape(), s.record.stripes))
        else {
            return Ok(());
        };
        let mut stripe = 0;
        while stripe < stripes {
            let Some(batch) = self.summary(Address::new(segment, shape.place(stripe, 0))).await else {
                stripe += 1;
                continue;
            };
            let mut live: Vec<(Key, Address, u32)> = Vec::new();
            let mut next = 1;
            for entry in &batch.entries {
                let address = Address::new(segment, shape.data_place(stripe, next));
                next += u32::from(entry.kind.has_block());
                if entry.kind == EntryKind::Data {
                    live.push(((entry.volume, entry.block), address, entry.checksum));
                }
            }
            self.shift(&live).await?;
            stripe += u32::from(batch.stripes);
        }
        Ok(())
    }

    /// The summary that stands at an address, rebuilt if need be.
    pub(crate) async fn summary(&self, address: Address) -> Option<Batch> {
        let pool = self.label.pool;
        if let Some(block) = self.raw(address).await
            && let Ok(batch) = Batch::parse(&block, pool, address)
        {
            return Some(batch);
        }
        let block = self.rebuilt(address, |block| Batch::parse(block, pool, address).is_ok()).await?;
        Batch::parse(&block, pool, address).ok()
    }

    /// Moves those of these blocks that still are where they were.
    async fn shift(self: &Rc<Self>, blocks: &[(Key, Address, u32)]) -> Result<(), VolumeError> {
        let (mut held, mut moved) = (Vec::new(), Vec::new());
        for &(key, address, sum) in blocks {
            let lock = lock_of(key);
            // Whoever holds it is about to write it.
            if self.locks.last_over(&(lock..lock + 1)).is_some() {
                continue;
            }
            let guard = self.locks.enter(lock..lock + 1, Hold::Exclusive);
            if !matches!(self.locate(key).await?.0, Located::At(at, _) if at == address) {
                continue;
            }
            let block = self.block(address, sum, Some(key)).await;
            held.push(guard);
            moved.push((key, block));
        }
        if moved.is_empty() {
            return Ok(());
        }
        let ticket = Ticket::new(&self.set.io, moved.len());
        let item = |(key, block): (Key, Result<Rc<[u8]>, VolumeError>)| {
            let (kind, source) = match block {
                Ok(block) => (EntryKind::Data, Source::Bytes(block)),
                // Beyond repair: it is moved as what it is, and keeps nobody from going on.
                Err(_) => (EntryKind::Lost, Source::None),
            };
            let node = self.node(key.0);
            let ticket = Rc::clone(&ticket);
            Item { kind, volume: key.0, node, block: key.1, count: 1, source, fua: false, ticket }
        };
        let items = moved.into_iter().map(item).collect();
        self.append(true, items);
        ticket.ended().await
    }

    /// The node under which a volume is written.
    pub(crate) fn node(&self, volume: u32) -> u32 {
        self.volumes.borrow().iter().find(|record| record.id == volume).map_or(0, |record| record.node)
    }

    /// Ends the run in order.
    pub(crate) async fn stop(self: &Rc<Self>) -> Result<(), VolumeError> {
        if self.stopping.replace(true) {
            return Ok(());
        }
        let stopped = if self.read_only {
            Ok(())
        } else {
            match self.flush().await {
                Ok(()) => self.checkpoint(Why::Stop).await,
                failed => failed,
            }
        };
        self.set.ended.set(true);
        stopped
    }
}

/// The place of a block among locks.
pub(crate) fn lock_of(key: Key) -> u64 {
    u64::from(key.0) << 44 | key.1
}

const _: () = assert!(BLOCK == 1 << 12);
