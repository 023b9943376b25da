//! Batches of the log: changes are gathered into them, they are written, and then the map says what they hold.
//!
//! A batch is one or more whole stripes with a summary in its first data block. Batches are written side by side. Each has a number
//! of its own, and recovery applies whole batches in the order of their numbers, whichever others are missing. So no batch waits for
//! another. Changes of one block never are under way together: a request holds the locks of its blocks.

use std::rc::{Rc, Weak};

use brindle_format::pool::{BLOCK, Batch, Entry, EntryKind, checksum};
use brindle_io::{Buf, Io, OpClass, OpError, Slice};
use brindle_members::door::{Done, Refused};
use brindle_members::set::Owner as _;
use brindle_volume::VolumeError;
use smallvec::SmallVec;

use crate::core::Core;
use crate::log::arrange::arrange;
use crate::log::crew::{Load, Waiting, Work};
use crate::log::queue::{Item, Lane, Source};
use crate::store::leaf::Located;
use crate::store::map::{Before, ENDLESS};
use crate::store::space::{BATCH_BLOCKS, Grant};
use crate::store::stripe::parity_of;

/// How often a batch is written elsewhere before there is no room for it.
const ELSEWHERE: usize = 8;
/// How often a batch is written elsewhere where members have no room.
const FULL: usize = 2;

/// Blocks of a stripe for which no memory is taken.
const WIDE: usize = 16;

/// Carries work out as long as there is some. The task does not keep the pool.
async fn carries(io: Io, waiting: Rc<Waiting>, core: Weak<Core>) {
    while let Some(work) = waiting.next(&io).await {
        let Some(core) = core.upgrade() else { return };
        match work {
            Work::Change(order) => core.carry_out_change(order).await,
            Work::Pump(lane) => core.pump(lane).await,
            Work::Batch(load) => {
                core.carry_out(load).await;
                core.audit();
                core.look_after();
            }
        }
    }
}

/// Takes items away that have no place in a batch of so many blocks.
fn beyond(grant: Grant, items: &mut Vec<Item>) -> Vec<Item> {
    let mut left = grant.blocks() - 1;
    let fits = |item: &Item| {
        let takes = u32::from(item.kind.has_block());
        let fits = takes <= left;
        left -= takes.min(left);
        fits
    };
    let count = items.iter().map(fits).take_while(|fits| *fits).count();
    items.split_off(count)
}

impl Core {
    /// Has work carried out by a task that has none, or by a new one.
    pub(crate) fn carry(&self, work: Work) {
        if !self.crew.takes(work) {
            let io = self.set.io.clone();
            // The task is kept for the work of others than the one who has begun it.
            let carries = carries(io, Rc::clone(&self.crew.waiting), self.me.clone());
            drop(self.set.io.spawn_as(OpClass::Client, carries));
        }
    }

    /// Has items written. Their tickets tell when they stand in the map.
    pub(crate) fn append(&self, cold: bool, items: impl IntoIterator<Item = Item>) {
        for item in items {
            let gives_back = matches!(item.kind, EntryKind::Zeroes | EntryKind::Destroyed);
            let lane = match gives_back {
                _ if cold => Lane::Cold,
                true => Lane::Zeroes,
                false => Lane::Users,
            };
            self.log.add(lane, item);
            self.begin_pumping(lane);
        }
    }

    /// Items of a batch that found no place in it are the next ones of their lane.
    fn put_back(&self, lane: Lane, items: Vec<Item>) {
        if items.is_empty() {
            return;
        }
        self.log.put_back(lane, items);
        self.begin_pumping(lane);
    }

    fn begin_pumping(&self, lane: Lane) {
        if self.log.begins_pumping(lane) {
            self.carry(Work::Pump(lane));
        }
    }

    /// Has items written that wait in a lane.
    pub(crate) async fn pump(self: &Rc<Self>, lane: Lane) {
        loop {
            // Items that are about to come go into the same batch.
            self.set.io.yield_now().await;
            self.log.landed.until(|| self.log.may_begin().then_some(())).await;
            let full = self.space.borrow().full_batch() - 1;
            let enough = || self.log.has_enough(lane, full).then_some(());
            self.log.landed.until(enough).await;
            let taken = self.log.take(lane);
            if taken.is_empty() {
                self.log.items.give(taken);
                if self.log.is_empty(lane) {
                    break;
                }
                // All that is left waits for what cleaning moves.
                self.log.landed.until(|| self.log.has_free(lane).then_some(())).await;
                continue;
            }
            if let Err((items, error)) = self.launch(lane, taken).await {
                items.into_iter().for_each(|item| item.ticket.end(Err(error)));
            }
        }
        self.log.ends_pumping(lane);
    }

    /// Finds stripes for a batch of items, and begins to write it; what does not fit goes back.
    async fn launch(
        self: &Rc<Self>,
        lane: Lane,
        mut items: Vec<Item>,
    ) -> Result<(), (Vec<Item>, VolumeError)> {
        // A batch that has no number leaves nothing behind.
        if let Some(role) = self.refusals.holds(self.set.io.now()) {
            return Err((items, VolumeError::of_member(role, OpError::NoSpace)));
        }
        if lane == Lane::Users {
            self.pay(items.len() as i64).await;
        }
        let coming = self.coming_of(&items);
        let grant = match self.room_for(lane, &items, BATCH_BLOCKS, coming).await {
            Ok(grant) => grant,
            Err(error) => return Err((items, error)),
        };
        self.put_back(lane, beyond(grant, &mut items));
        arrange(grant, &mut items);
        let flight = self.log.begins(lane, &items, coming.of_fewer(items.len()));
        self.space.borrow_mut().written(grant.segment, flight.sequence);
        let fua = items.iter().any(|item| item.fua);
        let load = Load { flight, items, grant, fua };
        self.carry(Work::Batch(load));
        Ok(())
    }

    /// Writes a batch, elsewhere if its place is refused, and ends its items.
    pub(crate) async fn carry_out(self: &Rc<Self>, mut load: Load) {
        let mut result = Err(VolumeError::NoSpace);
        for attempt in 1..=ELSEWHERE {
            match self.write_batch(&load).await {
                Ok(()) => {
                    result = Ok(());
                    break;
                }
                // A few other places may have their room already; of all of them a file system that is full would leave the log nothing.
                Err(error @ VolumeError::Member { error: OpError::NoSpace, .. }) if attempt > FULL => {
                    result = Err(error);
                    break;
                }
                Err(error @ VolumeError::Member { error: OpError::Medium(_) | OpError::NoSpace, .. }) => {
                    result = Err(error);
                    // The members stay; what fits goes elsewhere under the same number, less of it each time: some of the
                    // stripes that lie side by side are well.
                    let (most, coming) = (BATCH_BLOCKS >> attempt, self.coming_of(&load.items));
                    let waits = load.flight.goes_elsewhere();
                    let found = self.room_for(load.flight.lane, &load.items, most, coming).await;
                    drop(waits);
                    match found {
                        Ok(grant) => {
                            load.grant = grant;
                            let rest = beyond(grant, &mut load.items);
                            load.flight.leaves(&rest);
                            self.put_back(load.flight.lane, rest);
                            arrange(grant, &mut load.items);
                        }
                        Err(error) => {
                            result = Err(error);
                            break;
                        }
                    }
                    self.space.borrow_mut().written(load.grant.segment, load.flight.sequence);
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        load.flight.settles(&load.items, result.is_ok());
        load.items.drain(..).for_each(|item| item.ticket.end(result));
        self.log.items.give(load.items);
        drop(load.flight);
        let many = self.map.borrow_mut().take_many();
        if let Some(page) = many {
            let _known = self.load(page).await;
        }
    }

    /// Writes a batch, and puts it into the map.
    async fn write_batch(&self, load: &Load) -> Result<(), VolumeError> {
        let (grant, shape) = (load.grant, load.grant.shape);
        let buf = self.batches.alloc((grant.stripes * u32::from(shape.stripe)) as usize * BLOCK).await;
        let entries = self.fill(load, &buf)?;
        let mut writing = self.set.door(None).ask();
        {
            let space = self.space.borrow();
            self.put_group(&space, grant, &buf, |device, offset, slice| {
                writing.write(device, offset, slice, load.fua);
            });
        }
        let done = writing.submit().await;
        self.landed(&done).await?;
        self.apply(load, &entries);
        self.log.entries.give(entries);
        Ok(())
    }

    /// Sends the blocks of stripes, which are in memory slot by slot, to their members: the blocks of each member in a row.
    pub(crate) fn put_group(
        &self,
        space: &crate::store::space::Space,
        grant: Grant,
        buf: &Buf,
        mut put: impl FnMut(brindle_members::members::Device, u64, &Slice),
    ) {
        let (shape, segment) = (grant.shape, grant.segment);
        let wide = u32::from(shape.stripe);
        let (first, count, width) = (grant.stripe * wide, grant.stripes * wide, u32::from(shape.width()));
        for column in 0..width {
            let begin = first + (column + width - first % width) % width;
            for number in (begin..first + count).step_by(width as usize) {
                let Some((role, offset)) = space.spot_by(segment, shape, number) else { continue };
                if let Some(device) = self.set.members.writable(role)
                    && let Some((stripe, slot)) = shape.slot_of_spot(number)
                {
                    let at = ((stripe - grant.stripe) * wide + u32::from(slot)) as usize * BLOCK;
                    put(device, offset, &buf.slice(at..at + BLOCK));
                }
            }
        }
    }

    /// Members that failed a batch are out of use, on record, before it is acknowledged.
    ///
    /// # Errors
    /// A member refused it that stays in use: what was to stand there goes elsewhere.
    pub(crate) async fn landed(&self, done: &Done) -> Result<(), VolumeError> {
        if done.is_ok() {
            self.note_taken();
        }
        let all = done.refused();
        // Refusals by which a member fails.
        let mut fails: Vec<&Refused> = all.iter().filter(|refused| !self.may_stay(refused)).collect();
        let gone = fails.len();
        let mut stays = None;
        for (n, refused) in all.iter().enumerate().filter(|(_, refused)| self.may_stay(refused)) {
            // However many parts a write has, it is one.
            if all[..n].iter().any(|other| other.role == refused.role) {
                continue;
            }
            if self.stays(refused, &fails) {
                stays.get_or_insert(VolumeError::of_member(refused.role, refused.error));
            } else {
                fails.push(refused);
            }
        }
        if let Some(error) = stays {
            return Err(error);
        }
        // At once: others may refuse something while this is recorded.
        for refused in &fails[gone..] {
            drop(self.begin_failing(refused.role, (*refused).into())?);
        }
        self.set.settle_writes(done, false).await
    }

    /// A member in use refused a write in a way that may be no reason to do without it.
    fn may_stay(&self, refused: &Refused) -> bool {
        let members = &self.set.members;
        let is_in = refused.is_of(members) && members.writable(refused.role).is_some();
        is_in && matches!(refused.error, OpError::Medium(_) | OpError::NoSpace)
    }

    /// Whether a member that refused a write stays in use: as one does that has a bad place, but not one that refuses all, if the pool can do
    /// without it beside others that fail.
    fn stays(&self, refused: &Refused, fails: &[&Refused]) -> bool {
        let role = refused.role;
        let roles: Vec<u16> = fails.iter().map(|refused| refused.role).chain([role]).collect();
        if refused.error == OpError::NoSpace {
            let waits = self.config.waits_for_space || !self.can_lose(&roles);
            if waits {
                self.note_full(role, refused.into());
            }
            return waits;
        }
        !self.refusals.count(role) || !self.can_lose(&roles)
    }

    /// Puts blocks, their summary and parity into memory, stripe by stripe in the order of slots.
    fn fill(&self, load: &Load, buf: &Buf) -> Result<Vec<Entry>, VolumeError> {
        let (grant, shape) = (load.grant, load.grant.shape);
        let mut bytes = buf.bytes_mut();
        let place = |n: u32| grant.in_memory(n) as usize * BLOCK;
        let mut entries = self.log.entries.take();
        let mut next = 1;
        for item in &load.items {
            let mut sum = 0;
            if item.kind.has_block() {
                let block = &mut bytes[place(next)..][..BLOCK];
                next += 1;
                match &item.source {
                    Source::Slices(slices) => {
                        let mut at = 0;
                        for slice in slices {
                            slice.copy_to(&mut block[at..at + slice.len()]);
                            at += slice.len();
                        }
                    }
                    Source::Bytes(from) => block.copy_from_slice(from),
                    Source::None => block.fill(0),
                }
                sum = checksum(block);
            }
            let Item { kind, volume, node, block, count, .. } = *item;
            entries.push(Entry { kind, volume, node, block, count, checksum: sum });
        }
        let batch = Batch {
            pool: self.label.get().pool,
            opening: self.record.last.borrow().opening,
            sequence: load.flight.sequence,
            durable: self.log.durable(),
            address: grant.address(0),
            stripes: grant.stripes as u16,
            entries,
        };
        batch.encode_into(&mut bytes[place(0)..][..BLOCK]).map_err(|_| VolumeError::NoSpace)?;
        (next..grant.blocks()).for_each(|n| bytes[place(n)..][..BLOCK].fill(0));
        add_parity(&mut bytes, grant);
        self.tally(|written| {
            let data = u64::from(next - 1);
            let blocks = u64::from(grant.blocks());
            *(match load.flight.lane {
                Lane::Cold => &mut written.moved,
                Lane::Users | Lane::Zeroes => &mut written.client,
            }) += data * BLOCK as u64;
            written.summaries += (blocks - data) * BLOCK as u64;
            written.parity += u64::from(grant.stripes) * u64::from(shape.parity) * BLOCK as u64;
        });
        Ok(batch.entries)
    }

    /// The map says from now on what a batch wrote.
    fn apply(&self, load: &Load, entries: &[Entry]) {
        let (mut map, mut space) = (self.map.borrow_mut(), self.space.borrow_mut());
        apply(&mut map, &mut space, load.grant, entries);
        self.damage.borrow_mut().written(entries);
    }

    /// Makes all stable that was acknowledged.
    pub(crate) async fn flush(&self) -> Result<(), VolumeError> {
        let standing = self.log.standing();
        self.set.flush_members().await?;
        self.log.flushed(standing);
        Ok(())
    }
}

/// Parity of stripes that are in memory in the order of slots.
pub(crate) fn add_parity(bytes: &mut [u8], grant: Grant) {
    let (wide, data) = (usize::from(grant.shape.stripe), usize::from(grant.shape.data()));
    for stripe in bytes.chunks_exact_mut(wide * BLOCK) {
        let (blocks, parity) = stripe.split_at_mut(data * BLOCK);
        let blocks: SmallVec<[&[u8]; WIDE]> = blocks.chunks_exact(BLOCK).collect();
        let mut parity: SmallVec<[&mut [u8]; 3]> = parity.chunks_exact_mut(BLOCK).collect();
        parity_of(&blocks, &mut parity);
    }
}

/// Puts the entries of a batch into the map; counts what is named, and what is not any more.
pub(crate) fn apply(
    map: &mut crate::store::map::Map,
    space: &mut crate::store::space::Space,
    grant: Grant,
    entries: &[Entry],
) {
    let uncount = |space: &mut crate::store::space::Space, old: Before| match old {
        Before::Change(Located::At(address, _)) => space.count_young(address, false),
        Before::Below(Located::At(address, _)) => space.dies(address),
        _ => {}
    };
    let mut next = 1;
    for entry in entries {
        let key = (entry.volume, entry.block);
        match entry.kind {
            EntryKind::Data => {
                let address = grant.address(next);
                space.count_young(address, true);
                uncount(space, map.set(key, Located::At(address, entry.checksum)));
            }
            EntryKind::Zeroes => {
                for old in map.clear(key.0, key.1, key.1 + u64::from(entry.count)) {
                    uncount(space, Before::Change(old));
                }
            }
            EntryKind::Destroyed => {
                for old in map.clear(key.0, 0, ENDLESS) {
                    uncount(space, Before::Change(old));
                }
            }
            EntryKind::Lost => uncount(space, map.set(key, Located::Lost)),
            EntryKind::Page => {}
        }
        next += u32::from(entry.kind.has_block());
    }
}
