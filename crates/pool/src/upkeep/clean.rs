//! Cleaning: what is left of segments that hold little is moved together, so that whole ones become free.

use std::rc::Rc;

use brindle_format::pool::place::{Address, Shape};
use brindle_format::pool::{Batch, EntryKind};
use brindle_io::sync::join_all;
use brindle_volume::VolumeError;

use crate::core::Core;
use crate::log::queue::{Item, Source, Ticket};
use crate::read::{Pin, Unreadable};
use crate::store::leaf::Located;
use crate::store::map::{Dead, Key};
use crate::store::owed::Coming;
use crate::store::space::{Stream, Victims, Wanted};

/// Segments that are gone through side by side.
const ROUND: usize = 8;
/// Batches of blocks that are moved side by side.
const MOVES: usize = 4;
/// Checkpoints in a row without any gain after which there is nothing to be had: of those that moved nothing, and of all. One may gain
/// less than a segment where units are small.
const FRUITLESS: usize = 3;
const PATIENT: usize = 24;
/// Full batches of moves beside which one that is not full is left for the next round.
const FULL: usize = 3;
/// Stripes whose summaries are read side by side where batches have one.
const LOOKED_AT: u32 = 32;

impl Core {
    /// Begins what is due: a checkpoint, cleaning. It counts segments only now and then.
    pub(crate) fn look_after(&self) {
        let segments = self.space.borrow().segments.len();
        if self.cleaner.landed(segments) || self.space.borrow().is_scarce() || self.is_due() {
            self.look_around();
        }
    }

    /// A checkpoint is due, as far as what is counted anyway tells.
    fn is_due(&self) -> bool {
        self.is_overdue() || self.needs_checkpoint()
    }

    /// A checkpoint is due, and a record of the table of segments does not do instead.
    fn is_overdue(&self) -> bool {
        self.map.borrow().changes() >= self.config.changes
            || self.log.since() >= self.config.batches
            || !self.has_memory_to_spare()
            || self.checkpoints.is_reshaped()
            || self.page_debt(Coming::default()) * 4 >= self.room_for_changes() * 3
    }

    /// Begins what is due.
    pub(crate) fn look_around(&self) {
        if self.read_only || self.run.is_opening() || self.run.is_stopping() || self.record.is_broken() {
            return;
        }
        self.cleaner.looked();
        self.begin_cleaning();
        let (waiting, not_full) = self.space.borrow().waiting();
        // A checkpoint is for segments that a record of the table does not gain.
        let many = |waiting: usize| waiting * 3 >= not_full.max(8) * 2;
        let overdue = self.is_overdue();
        let due = overdue || {
            let reuses = self.begin_reuse(many(waiting) || self.space.borrow().is_scarce());
            self.needs_checkpoint() || many(waiting.saturating_sub(reuses))
        };
        if due && let Some(core) = self.kept().filter(|core| core.checkpoints.begins_due()) {
            drop(self.set.io.spawn(async move {
                let _due = core.some_checkpoint().await;
                core.checkpoints.ends_due();
            }));
        }
        self.begin_reaping();
    }

    fn begin_cleaning(&self) {
        if (self.needs_cleaning() || self.cleaner.is_thin())
            && let Some(core) = self.kept().filter(|core| core.cleaner.begins())
        {
            drop(self.set.io.spawn(async move {
                core.clean().await;
                core.cleaner.ends();
                core.room.notify();
            }));
        }
    }

    /// Counts segments.
    pub(crate) fn needs_cleaning(&self) -> bool {
        let reserve = self.space.borrow().reserve(&self.cleaner.tried.borrow());
        self.cleaner.counted(reserve)
    }

    /// Waits until cleaning has earned what users are about to write, while there is less than there should be: so none of them has to
    /// wait for long. What is asked for grows as what is left shrinks. Also while cleaning only looks for what it is to move: else users
    /// take all that is left meanwhile, and each few segments cost a checkpoint.
    pub(crate) async fn pay(&self, blocks: i64) {
        self.room.until(|| self.cleaner.may_spend().then_some(())).await;
        self.cleaner.spend(blocks);
    }

    /// Cleans until there is room enough, and all has as much parity as it can have, or until nothing gives room.
    async fn clean(self: &Rc<Self>) {
        let mut left = Vec::new();
        self.clean_on(&mut left).await;
        // Segments in which something is left can be chosen again.
        let mut tried = self.cleaner.tried.borrow_mut();
        for (_, address) in left {
            tried.remove(&address.segment());
        }
    }

    /// The same; what was found and not moved is `left`.
    async fn clean_on(self: &Rc<Self>, left: &mut Vec<(Key, Address)>) {
        let gained = || self.space.borrow().gained;
        let (mut best, mut fruitless, mut idle, mut rounds, mut looked) = (gained(), 0, 0, 0, false);
        loop {
            if self.run.is_stopping() || self.record.is_broken() || self.refusals.is_held(self.set.io.now()) {
                return;
            }
            let thin = !self.needs_cleaning();
            if thin && !self.cleaner.is_thin() {
                return;
            }
            if thin && rounds == 0 {
                // Blocks that recovery may need stay where they are.
                let _failed = self.some_checkpoint().await;
            }
            rounds += usize::from(thin);
            let moved = match self.round(thin, left).await {
                // Blocks of batches that are younger than the last checkpoint stay where they are until the next.
                Ok(0) if thin && !looked && self.space.borrow().has_weak() => {
                    looked = true;
                    let _failed = self.some_checkpoint().await;
                    continue;
                }
                Ok(moved) if thin && (moved == 0 || rounds > self.space.borrow().segments.len()) => {
                    self.cleaner.set_thin(false);
                    if rounds > 1 {
                        // Until a checkpoint, recovery may still read the old places.
                        let _failed = self.some_checkpoint().await;
                    }
                    continue;
                }
                // As long as there are segments to go through, checkpoints come when they are due.
                Ok(moved) if moved > 0 && !self.space.borrow().is_scarce() => {
                    looked = false;
                    continue;
                }
                Ok(moved) => self.some_room().await.map(|()| moved),
                Err(error) => Err(error),
            };
            // Those that can't be read are tried again behind each checkpoint, and give nothing.
            let may_give = |dead: &Dead| !self.cleaner.is_stuck(dead.0.pointer.address);
            let has_dead = self.cleaner.is_reaping() && self.map.borrow().dead.iter().rev().any(may_give);
            let Some(moved) = moved.ok().filter(|_| has_dead || idle < FRUITLESS && fruitless < PATIENT)
            else {
                return;
            };
            // As many as before is no gain. Segments that users took meanwhile count as a gain.
            (fruitless, idle) = if gained() > best { (0, 0) } else { (fruitless + 1, idle + 1) };
            idle = if moved > 0 { 0 } else { idle };
            best = best.max(gained());
        }
    }

    /// Empties some segments; gives how many blocks that took, `left` of the round before among them. Of those that are thin, if there is
    /// room enough.
    async fn round(
        self: &Rc<Self>,
        thin: bool,
        left: &mut Vec<(Key, Address)>,
    ) -> Result<usize, VolumeError> {
        let sequence = self.record.last.borrow().sequence;
        let found = self.victims(if thin { Wanted::Thin } else { Wanted::Cheap }, sequence).await;
        let mut victims: Vec<(u32, Pin<'_>, u32)> = Vec::new();
        // Nothing is free before a checkpoint: what is moved has to fit into what the log has now.
        let mut room = (self.space.borrow().room_of_log() / 2).saturating_sub(left.len() as u64);
        for (victim, blocks) in found {
            match room.checked_sub(u64::from(blocks)) {
                Some(rest) => room = rest,
                None if victims.is_empty() => room = 0,
                None => break,
            }
            self.cleaner.tried.borrow_mut().insert(victim);
            victims.push((victim, Pin::new(&self.space, victim), blocks));
        }
        if victims.is_empty() && left.is_empty() {
            let pages = self.space.borrow().thin_pages();
            if thin && pages > 0 {
                self.some_checkpoint().await?;
                return Ok(pages.saturating_sub(self.space.borrow().thin_pages()));
            }
            return Ok(0);
        }
        // Users leave room for them from now on, else none of them would be emptied.
        let found: u64 = victims.iter().map(|(.., blocks)| u64::from(*blocks)).sum();
        self.cleaner.moves(left.len() as u64 + found);
        // One that a silent member keeps from being emptied is tried again after the next checkpoint.
        let gathered = join_all(victims.iter().map(|(victim, ..)| self.gather(*victim))).await;
        let all = victims.iter().map(|(victim, ..)| self.space.borrow().blocks_of(*victim)).sum();
        // The map is asked again for each block that is moved. A round that still held segments it has emptied would wait for their room itself.
        drop(victims);
        let mut live = core::mem::take(left);
        live.extend(gathered.into_iter().flatten());
        // A rest that fills no batch waits for the next round: else each would end with a batch that is mostly filling.
        let batch = self.space.borrow().full_batch() - 1;
        if !thin && live.len() >= FULL * batch {
            let first = self.space.borrow().open_rest(Stream::Cold).min(live.len());
            left.extend(live.drain(first + (live.len() - first) / batch * batch..));
        }
        // Blocks of one volume come together again, in batches that are full.
        live.sort_unstable();
        live.dedup();
        let count = live.len();
        self.cleaner.moves(count as u64);
        let moved = self.move_all(&live, all).await;
        self.cleaner.moved_all();
        self.room.notify();
        // A segment in which nothing was found stays as it is until leaves that were given back are gone through.
        moved.map(|()| count)
    }

    /// Segments that are to be gone through next, the best first, with their live blocks.
    async fn victims(&self, wanted: Wanted, sequence: u64) -> Vec<(u32, u32)> {
        let mut victims = Victims::new(wanted, sequence, ROUND);
        while self.space.borrow().look_for(&mut victims, &self.cleaner.tried.borrow()) {
            self.set.io.yield_now().await;
        }
        self.space.borrow().still(&victims)
    }

    /// Moves the live blocks of segments that have `all`.
    async fn move_all(self: &Rc<Self>, live: &[(Key, Address)], all: u32) -> Result<(), VolumeError> {
        let batch = self.space.borrow().full_batch() - 1;
        // Segments that are open are filled first, so that those behind them begin with full batches.
        let (first, others) = live.split_at(self.space.borrow().open_rest(Stream::Cold).min(live.len()));
        let batches: Vec<_> = first.chunks(batch).chain(others.chunks(batch)).collect();
        for some in batches.chunks(MOVES).take_while(|_| !self.run.is_stopping()) {
            let moves = some.iter().map(|some| self.shift_of(some, live.len(), all));
            for shifted in join_all(moves).await {
                match shifted {
                    Ok(()) | Err(VolumeError::Member { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            self.needs_cleaning();
        }
        Ok(())
    }

    /// Moves some of the live blocks of segments that have `all`.
    async fn shift_of(
        self: &Rc<Self>,
        some: &[(Key, Address)],
        live: usize,
        all: u32,
    ) -> Result<(), VolumeError> {
        let shifted = self.shift(some).await;
        self.cleaner.earn(some.len(), live as u32, all);
        self.room.notify();
        shifted
    }

    /// Finds what may be live of a segment.
    async fn gather(&self, segment: u32) -> Vec<(Key, Address)> {
        let live = self.gather_by(segment, false).await;
        let counted = self.space.borrow().get(segment).map_or(0, |segment| segment.lives() as usize);
        // A member that lost a summary gives the one before it: what is named by neither is looked for in all that may stand there.
        if live.len() < counted { self.gather_by(segment, true).await } else { live }
    }

    async fn gather_by(&self, segment: u32, thoroughly: bool) -> Vec<(Key, Address)> {
        let mut live = Vec::new();
        let Some((shape, stripes)) =
            self.space.borrow().get(segment).map(|s| (s.record.shape(), s.record.stripes))
        else {
            return live;
        };
        let (mut stripe, mut ahead) = (0, 1);
        while stripe < stripes {
            // Behind a small batch there are others: so many stripes are looked at side by side.
            let end = stripes.min(stripe + ahead);
            let look = async |at| if thoroughly { None } else { self.summary(segment, shape, at).await };
            for (at, found) in (stripe..end).zip(join_all((stripe..end).map(look)).await) {
                // A block of the batch before stands there.
                if at < stripe {
                    continue;
                }
                let batches = match found {
                    Some(batch) => vec![batch],
                    None => match self.summaries(segment, shape, at, thoroughly).await {
                        Ok(batches) => batches,
                        Err(_) => return live,
                    },
                };
                for batch in &batches {
                    self.live_of(batch, segment, shape, at, &mut live).await;
                }
                let next = match &*batches {
                    [batch] if !thoroughly => u32::from(batch.stripes),
                    _ => 1,
                };
                (stripe, ahead) = (at + next, (LOOKED_AT / next).max(1));
            }
        }
        live
    }

    /// Blocks of a batch that still are where it wrote them.
    async fn live_of(
        &self,
        batch: &Batch,
        segment: u32,
        shape: Shape,
        stripe: u32,
        live: &mut Vec<(Key, Address)>,
    ) {
        let mut next = 1;
        for entry in &batch.entries {
            let address = Address::new(segment, shape.data_place(stripe, next));
            next += u32::from(entry.kind.has_block());
            let key = (entry.volume, entry.block);
            if entry.kind == EntryKind::Data
                && matches!(self.locate(key).await, Ok((Located::At(at, _), _)) if at == address)
            {
                live.push((key, address));
            }
        }
    }

    /// The summary in the first slot of a stripe, if one stands there.
    pub(super) async fn summary(&self, segment: u32, shape: Shape, stripe: u32) -> Option<Batch> {
        let address = Address::new(segment, shape.place(stripe, 0));
        let block = self.raw(address, false).await.ok()?;
        Batch::parse(&block, self.label.get().pool, address).ok()
    }

    /// All summaries that may stand in the first slot of a stripe, by the other blocks.
    pub(super) async fn summaries(
        &self,
        segment: u32,
        shape: Shape,
        stripe: u32,
        thoroughly: bool,
    ) -> Result<Vec<Batch>, VolumeError> {
        let address = Address::new(segment, shape.place(stripe, 0));
        let mut silent = None;
        // Members that are slow are asked where the others don't suffice.
        for patiently in [false, true] {
            let read = self.stripe(address, shape, stripe, patiently).await;
            let found = self.summaries_in(&read.blocks, shape, address);
            silent = read.silent;
            if silent.is_none() || !found.is_empty() && !thoroughly {
                return Ok(found);
            }
        }
        silent.map_or(Ok(Vec::new()), Err)
    }

    /// Moves blocks that still are where they were. Blocks that a silent member may have stay, and are an error.
    async fn shift(self: &Rc<Self>, blocks: &[(Key, Address)]) -> Result<(), VolumeError> {
        let (gathering, mut moving, mut there) = (self.log.gathers(), self.log.mover(), Vec::new());
        for &(key, address) in blocks {
            // A batch under way may be about to change it.
            if !moving.add(key) {
                continue;
            }
            // Its sum is the map's to say: a summary may be of an earlier use, in which the same block stood there.
            if let Located::At(at, sum) = self.locate(key).await?.0
                && at == address
            {
                there.push((key, address, sum));
            }
        }
        let (mut moved, mut stays) = (Vec::new(), Ok(()));
        for ((key, ..), block) in there.iter().zip(self.blocks(&there).await) {
            match block {
                Ok(block) => moved.push((*key, (EntryKind::Data, Source::Bytes(block)))),
                // Beyond repair: it is moved as a lost block, and keeps no other from being moved.
                Err(Unreadable::Lost) => moved.push((*key, (EntryKind::Lost, Source::None))),
                Err(Unreadable::Silent(error)) => stays = Err(error),
            }
        }
        if moved.is_empty() {
            return stays;
        }
        let ticket = Ticket::new(&self.set.io, moved.len());
        let item = |(key, (kind, source)): (Key, (EntryKind, Source))| {
            let node = self.volumes.node(key.0);
            let ticket = Rc::clone(&ticket);
            Item { kind, volume: key.0, node, block: key.1, count: 1, source, fua: false, ticket }
        };
        self.append(true, moved.into_iter().map(item));
        drop(gathering);
        ticket.ended().await.and(stays)
    }
}
