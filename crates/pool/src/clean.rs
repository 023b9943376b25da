//! Cleaning: what is left of segments that hold little is moved together, so that whole ones become free.

use std::rc::Rc;

use brindle_format::pool::place::Address;
use brindle_format::pool::{BLOCK, Batch, EntryKind};
use brindle_members::lock::Hold;
use brindle_volume::VolumeError;

use crate::checkpoint::Why;
use crate::core::Core;
use crate::map::{Key, Located};
use crate::queue::{Item, Source, Ticket};
use crate::read::{Pin, Unreadable};
use crate::space::BATCH_BLOCKS;

/// Segments that are cleaned between two checkpoints.
const ROUND: usize = 8;
/// Rounds in a row without any gain after which there is nothing to be had: of those that moved nothing, and of all. A round may gain
/// less than a segment where units are small.
const FRUITLESS: usize = 3;
const PATIENT: usize = 24;

impl Core {
    /// Begins what is due: a checkpoint, cleaning.
    pub(crate) fn look_after(&self) {
        if self.read_only || self.opening.get() || self.stopping.get() || self.broken.get() {
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
                core.room.notify();
            }));
        }
    }

    /// Waits for a checkpoint that may give the log more segments. Users leave it to cleaning while that goes on: the caller for the
    /// next one as soon as the last has ended leaves no turn to it.
    pub(crate) async fn make_room(self: &Rc<Self>, cold: bool) -> Result<(), VolumeError> {
        self.look_after();
        if cold || !self.cleaning.get() {
            return self.some_checkpoint().await;
        }
        let ended = self.ended.get();
        let over = || (self.ended.get() > ended || !self.cleaning.get()).then_some(());
        self.room.until(over).await;
        Ok(())
    }

    /// Cleans until there is room enough. Where nothing gives some, that is counted: users wait no longer for it.
    async fn clean(self: &Rc<Self>) {
        let (mut best, mut fruitless, mut idle) = (self.space.borrow().free_share(), 0, 0);
        while !self.stopping.get() && !self.broken.get() && self.space.borrow().needs_cleaning() {
            let moved = self.round().await;
            let Some(moved) = moved.ok().filter(|_| idle < FRUITLESS && fruitless < PATIENT) else {
                self.in_vain.set(self.in_vain.get() + 1);
                return;
            };
            let share = self.space.borrow().free_share();
            // A share that goes up and down is no gain.
            (fruitless, idle) = if share > best { (0, 0) } else { (fruitless + 1, idle + 1) };
            idle = if moved > 0 { 0 } else { idle };
            best = best.max(share);
        }
    }

    /// Empties some segments, and has them be free; gives how many blocks that took.
    async fn round(self: &Rc<Self>) -> Result<usize, VolumeError> {
        // Blocks that were overwritten count as dead once a checkpoint has gone through the leaves.
        self.some_checkpoint().await?;
        let (mut pins, mut tried, mut live) = (Vec::new(), Vec::new(), Vec::new());
        // Nothing is free before the round has ended: what is moved has to fit into what the log has now.
        let mut room = self.space.borrow().room_of_log() * 3 / 4;
        for _ in 0..ROUND {
            let victim = self.space.borrow().victim(self.record.borrow().sequence, &tried);
            let Some((victim, blocks)) = victim else { break };
            match room.checked_sub(u64::from(blocks)) {
                Some(left) => room = left,
                None if tried.is_empty() => room = 0,
                None => break,
            }
            tried.push(victim);
            pins.push(Pin::new(&self.space, victim));
            // One that a silent member keeps from being emptied is tried again in the next round.
            let _stays = self.gather(victim, &mut live).await;
        }
        // Blocks of one volume come together again, in batches that are full.
        live.sort_unstable_by_key(|(key, ..)| *key);
        for some in live.chunks(BATCH_BLOCKS as usize - 1) {
            match self.shift(some).await {
                Ok(()) | Err(VolumeError::Member { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        drop(pins);
        self.some_checkpoint().await?;
        Ok(live.len())
    }

    /// Finds what may be live of a segment.
    async fn gather(&self, segment: u32, live: &mut Vec<(Key, Address, u32)>) -> Result<(), VolumeError> {
        let Some((shape, stripes)) =
            self.space.borrow().get(segment).map(|s| (s.record.shape(), s.record.stripes))
        else {
            return Ok(());
        };
        let mut stripe = 0;
        while stripe < stripes {
            let Some(batch) = self.summary(Address::new(segment, shape.place(stripe, 0))).await? else {
                stripe += 1;
                continue;
            };
            let mut next = 1;
            for entry in &batch.entries {
                let address = Address::new(segment, shape.data_place(stripe, next));
                next += u32::from(entry.kind.has_block());
                let key = (entry.volume, entry.block);
                if entry.kind == EntryKind::Data
                    && matches!(self.locate(key).await?.0, Located::At(at, _) if at == address)
                {
                    live.push((key, address, entry.checksum));
                }
            }
            stripe += u32::from(batch.stripes);
        }
        Ok(())
    }

    /// The summary that stands at an address, rebuilt if need be; none if none stands there.
    pub(crate) async fn summary(&self, address: Address) -> Result<Option<Batch>, VolumeError> {
        let pool = self.label.pool;
        let parse = |block: &[u8]| Batch::parse(block, pool, address).ok();
        if let Ok(block) = self.raw(address, false).await
            && let Some(batch) = parse(&block)
        {
            return Ok(Some(batch));
        }
        match self.rebuilt(address, |block| parse(block).is_some()).await {
            Ok(block) => Ok(parse(&block)),
            Err(Unreadable::Lost) => Ok(None),
            Err(Unreadable::Silent(error)) => Err(error),
        }
    }

    /// Moves those of these blocks that still are where they were. Those that a silent member may have stay, and are an error.
    async fn shift(self: &Rc<Self>, blocks: &[(Key, Address, u32)]) -> Result<(), VolumeError> {
        let (mut held, mut moved) = (Vec::new(), Vec::new());
        let mut stays = Ok(());
        for &(key, address, sum) in blocks {
            let lock = lock_of(key);
            // The holder is about to write it.
            if self.locks.last_over(&(lock..lock + 1)).is_some() {
                continue;
            }
            let guard = self.locks.enter(lock..lock + 1, Hold::Exclusive);
            if !matches!(self.locate(key).await?.0, Located::At(at, _) if at == address) {
                continue;
            }
            let source = match self.block(address, sum, Some(key)).await {
                Ok(block) => (EntryKind::Data, Source::Bytes(block)),
                // Beyond repair: it is moved as what it is, and keeps nobody from going on.
                Err(Unreadable::Lost) => (EntryKind::Lost, Source::None),
                Err(Unreadable::Silent(error)) => {
                    stays = Err(error);
                    continue;
                }
            };
            held.push(guard);
            moved.push((key, source));
        }
        if moved.is_empty() {
            return stays;
        }
        let ticket = Ticket::new(&self.set.io, moved.len());
        let item = |(key, (kind, source)): (Key, (EntryKind, Source))| {
            let node = self.node(key.0);
            let ticket = Rc::clone(&ticket);
            Item { kind, volume: key.0, node, block: key.1, count: 1, source, fua: false, ticket }
        };
        let items = moved.into_iter().map(item).collect();
        self.append(true, items);
        ticket.ended().await.and(stays)
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
