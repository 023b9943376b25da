//! Checkpoints: what is in memory of the map becomes leaves on the members, and a new uberblock names them.
//!
//! A checkpoint takes the changes that are in the map and puts them into leaves. It writes those and the branches above them (`tree`),
//! the list of dead pages, and the table of segments, volumes and nodes. They go to segments that are neither of the log nor named by the
//! last checkpoint. All of it is flushed before the uberblock that names it is written, and what only the last
//! checkpoint named is free once that stands everywhere.

mod table;

use std::collections::VecDeque;
use std::rc::Rc;

use brindle_format::pool::place::Address;
use brindle_format::pool::{
    BLOCK, BRANCH_REFS, Batch, Entry, EntryKind, LINEAGE, NODES, Node, Nodes, POINTERS, Pointer, Pointers,
    PoolError, Root, SEGMENTS, VOLUMES, VolumeRecord, Volumes, checksum,
};
use brindle_io::OpError;
use brindle_volume::VolumeError;

use crate::core::Core;
use crate::log::batch::add_parity;
use crate::store::map::Moved;
use crate::store::space::{Grant, Space};
use crate::upkeep::checkpoints::Turn;
pub(crate) use table::AsOf;
use table::Rewrite;

/// Attempts to write one where members refuse blocks.
const ATTEMPTS: usize = 8;
/// Places of pages that are counted without a break.
pub(super) const COUNTED: usize = 16 << 10;

/// The reason of a checkpoint, which it may record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Nothing.
    Due,
    /// A new opening, by this number.
    Opening(u64),
    /// The end of this run.
    Stop,
    /// The same, and this host gives the pool away.
    Export,
}

impl Why {
    /// Nothing is written behind it.
    fn ends(self) -> bool {
        matches!(self, Self::Stop | Self::Export)
    }
}

/// Pages on their way to the places that were taken for them.
pub(crate) struct Pages<'a> {
    core: &'a Core,
    grants: VecDeque<Grant>,
    /// Pages of the batch that is being filled.
    filling: Vec<(Entry, Vec<u8>)>,
    /// Where the pages went.
    placed: Vec<Address>,
    /// An uberblock that names them may stand somewhere.
    is_named: bool,
    /// A member refused a block of this.
    refused: Option<Grant>,
}

impl<'a> Pages<'a> {
    pub(crate) fn new(core: &'a Core, grants: &[Grant]) -> Self {
        let grants = grants.to_vec().into();
        Self { core, grants, filling: Vec::new(), placed: Vec::new(), is_named: false, refused: None }
    }

    /// After an error nothing names what was written, and its places can be written again: else a member that is silent for long would cost
    /// all room for pages. But for those of a segment up to the block that a member refused.
    pub(crate) fn give_back(&self, space: &mut Space, grants: &[Grant]) {
        let is_well = |grant: &&Grant| {
            self.refused
                .is_none_or(|refused| grant.segment != refused.segment || grant.stripe > refused.stripe)
        };
        if self.refused.is_some() {
            // Room for pages goes with places that members refuse.
            self.core.room_unsure.set(true);
        }
        if !self.is_named {
            space.give_back(&grants.iter().filter(is_well).copied().collect::<Vec<_>>());
        }
    }

    pub(super) fn core(&self) -> &'a Core {
        self.core
    }

    /// Writes a page; the rest tells the summary of its batch which one it is.
    pub(super) async fn put(
        &mut self,
        volume: u32,
        node: u32,
        block: u64,
        bytes: Vec<u8>,
    ) -> Result<Pointer, VolumeError> {
        let grant = *self.grants.front().ok_or(VolumeError::NoSpace)?;
        let sum = checksum(&bytes);
        let address = grant.address(self.filling.len() as u32 + 1);
        let kind = EntryKind::Page;
        self.filling.push((Entry { kind, volume, node, block, count: 1, checksum: sum }, bytes));
        self.placed.push(address);
        if self.filling.len() as u32 + 1 == grant.blocks() {
            self.finish().await?;
        }
        Ok(Pointer { address, checksum: sum })
    }

    /// Writes the batch that is being filled.
    async fn finish(&mut self) -> Result<(), VolumeError> {
        let Some(grant) = self.grants.pop_front() else { return Ok(()) };
        let filling = core::mem::take(&mut self.filling);
        let written = self.core.write_pages(grant, &filling).await;
        if matches!(written, Err(VolumeError::Member { error: OpError::Medium(_), .. })) {
            self.refused = Some(grant);
        }
        written
    }

    /// A list of pages, and pointers to them, up to one.
    pub(super) async fn list(&mut self, kind: u32, pages: Vec<Vec<u8>>) -> Result<Root, VolumeError> {
        let mut level = Vec::new();
        for (number, bytes) in (0..).zip(pages) {
            level.push(self.put(kind, 0, number, bytes).await?);
        }
        self.list_of(kind, level).await
    }

    /// The same of pages that are there.
    async fn list_of(&mut self, kind: u32, mut level: Vec<Pointer>) -> Result<Root, VolumeError> {
        let count = level.len() as u32;
        while level.len() > 1 {
            let mut above = Vec::new();
            for (number, pointers) in (0..).zip(level.chunks(POINTERS)) {
                let bytes = Pointers(pointers.to_vec()).encode(number).map_err(of)?;
                above.push(self.put(kind, 0, number, bytes).await?);
            }
            level = above;
        }
        Ok(Root { top: level.first().copied(), pages: count, levels: Root::levels_of(count) })
    }
}

/// The lists of a checkpoint, beside the map and the table of segments.
struct Lists {
    volumes: Vec<VolumeRecord>,
    nodes: Vec<Node>,
    /// Pages.
    history: Vec<Vec<u8>>,
}

impl Lists {
    fn pages(&self) -> u32 {
        pages_of(self.volumes.len(), VOLUMES)
            + pages_of(self.nodes.len(), NODES)
            + pages_of(self.history.len(), 1)
    }
}

/// Pages of a list of so many records, pointers to them included.
pub(crate) fn pages_of(records: usize, fit: usize) -> u32 {
    let (mut all, mut level) = (0, records.div_ceil(fit));
    while level > 0 {
        all += level;
        level = if level > 1 { level.div_ceil(POINTERS) } else { 0 };
    }
    all as u32
}

pub(super) fn of(_: PoolError) -> VolumeError {
    VolumeError::NoSpace
}

impl Core {
    /// Brings the members up to date with what is in memory. The caller while one is under way waits for the next.
    pub(crate) async fn checkpoint(self: &Rc<Self>, why: Why) -> Result<(), VolumeError> {
        let turn = self.checkpoints.turn().await;
        self.checkpoint_in(&turn, why).await
    }

    /// The same, but one that began after this was asked will do.
    pub(crate) async fn some_checkpoint(self: &Rc<Self>) -> Result<(), VolumeError> {
        let begun = self.checkpoints.begun();
        let turn = self.checkpoints.turn().await;
        if self.checkpoints.begun() > begun && self.checkpoints.last_result().is_ok() {
            return Ok(());
        }
        self.checkpoint_in(&turn, Why::Due).await
    }

    pub(crate) async fn checkpoint_in(self: &Rc<Self>, turn: &Turn<'_>, why: Why) -> Result<(), VolumeError> {
        if self.read_only {
            return Err(VolumeError::ReadOnly);
        }
        // Others that waited for the turn meanwhile would write to a pool that has stopped.
        if self.run.is_stopping() && !why.ends() {
            return Err(VolumeError::Stopping);
        }
        turn.begins();
        let mut result = Err(VolumeError::NoSpace);
        for _ in 0..ATTEMPTS {
            result = self.attempt(why).await;
            if !matches!(
                result,
                Err(VolumeError::Member { error: OpError::Medium(_) | OpError::NoSpace, .. })
            ) {
                break;
            }
        }
        self.cleaner.tried.borrow_mut().clear();
        turn.ends(result);
        self.room.notify();
        self.begin_reaping();
        result
    }

    async fn attempt(self: &Rc<Self>, why: Why) -> Result<(), VolumeError> {
        self.checkpoints.drains();
        self.count_reaped();
        // Changes that an earlier attempt has left over go first.
        self.drain().await?;
        self.take_up_history();
        self.freezable().await;
        let sequence = self.log.settled();
        let batches = self.log.since();
        let reshaped = self.checkpoints.parts_changes();
        let again = self.space.borrow_mut().withdraw_log();
        self.map.borrow_mut().freeze();
        self.space.borrow_mut().age();
        let written = self.write_frozen(why, sequence).await;
        if written.is_err() && reshaped {
            self.checkpoints.reshape();
        }
        written?;
        if again {
            self.checkpoints.reshape();
        }
        self.checkpoints.stands();
        self.log.passed(sequence, batches);
        let outlived = self.map.borrow().has_outlived();
        self.space.borrow_mut().forget_reuse(outlived);
        let _gained = self.space.borrow_mut().published();
        self.shrink_map().await;
        self.audit();
        Ok(())
    }

    /// Puts frozen changes into leaves, and writes all that has changed.
    async fn write_frozen(self: &Rc<Self>, why: Why, sequence: u64) -> Result<(), VolumeError> {
        self.drain().await?;
        let sparse = self.gather_pages(why).await?;
        self.fit_pages().await?;
        self.write_all(why, sequence, &sparse).await
    }

    /// Pages of the lists of a checkpoint, with so many more dead pages than there are, or are about to be.
    pub(crate) fn list_pages(&self, more: usize) -> u32 {
        let dead = self.map.borrow().dead.len() + self.cleaner.unfolding();
        self.list_pages_of(dead + more, &self.space.borrow())
    }

    /// The same of so many dead pages.
    pub(crate) fn list_pages_of(&self, dead: usize, space: &Space) -> u32 {
        let ([volumes, nodes], history) = (self.volumes.lists(), (self.history.pages(), 1));
        let lists = [(dead, BRANCH_REFS), (space.segments.len(), SEGMENTS), volumes, nodes, history];
        lists.into_iter().map(|(records, fit)| pages_of(records, fit)).sum()
    }

    /// Writes pages and the uberblock that names them.
    async fn write_all(self: &Rc<Self>, why: Why, sequence: u64, sparse: &[u32]) -> Result<(), VolumeError> {
        self.settle_touched(sequence).await;
        let old = self.old_pages();
        self.count_pages(&old, false).await;
        let written = self.write_beside(why, sequence, sparse).await;
        if written.is_err() {
            // They stand for what they did.
            self.count_pages(&old, true).await;
        }
        written
    }

    /// Pages of the map and of lists are named, or are not any more: others have turns in between.
    async fn count_pages(&self, places: &[Address], more: bool) {
        for some in places.chunks(COUNTED) {
            {
                let mut space = self.space.borrow_mut();
                some.iter().for_each(|&address| space.count(address, more));
            }
            if some.len() == COUNTED {
                self.set.io.yield_now().await;
            }
        }
    }

    /// Writes pages and the uberblock that names them; those of before count no more.
    async fn write_beside(
        self: &Rc<Self>,
        why: Why,
        sequence: u64,
        sparse: &[u32],
    ) -> Result<(), VolumeError> {
        let lists = Lists {
            volumes: self.volumes.records(),
            nodes: self.volumes.nodes(),
            history: self.history.encoded().map_err(of)?,
        };
        let (dead, full, replaced) = {
            let map = self.map.borrow();
            (map.dead.len(), map.tree.dirty_pages(), map.tree.replaced.len())
        };
        let fixed = full as u32 + pages_of(dead, BRANCH_REFS) + lists.pages();
        let as_of = AsOf { sequence, reused: self.map.borrow().has_outlived(), exactly: true };
        let due = self.table_due(as_of, sparse);
        let (grants, debt) = self.take_room(fixed + due.count())?;
        // Counted before the table of segments is written, which is among them.
        let rewrite = match self.table_room(as_of, due, fixed as usize, grants) {
            Ok(rewrite) => rewrite,
            Err((error, grants)) => {
                self.map.borrow_mut().owe(debt);
                self.space.borrow_mut().give_back(&grants);
                return Err(error);
            }
        };
        let mut pages = Pages::new(self, &rewrite.grants);
        match pages.write(why, sequence, &rewrite, &lists).await {
            Ok(moved) => {
                self.map_stands(&moved, replaced).await;
                Ok(())
            }
            Err(error) => {
                self.map.borrow_mut().owe(debt);
                self.table_failed(&rewrite);
                pages.give_back(&mut self.space.borrow_mut(), &rewrite.grants);
                Err(error)
            }
        }
    }

    /// Pages that nothing names once the checkpoint stands, but for those of the table.
    pub(super) fn old_pages(&self) -> Vec<Address> {
        let (map, lists) = (self.map.borrow(), self.checkpoints.lists.borrow());
        map.tree.replaced.iter().copied().chain(lists.iter().copied()).collect()
    }

    /// Writes a batch of pages.
    async fn write_pages(&self, grant: Grant, pages: &[(Entry, Vec<u8>)]) -> Result<(), VolumeError> {
        let shape = grant.shape;
        let buf = self.set.scratch.alloc((grant.stripes * u32::from(shape.stripe)) as usize * BLOCK).await;
        {
            let mut bytes = buf.bytes_mut();
            bytes.fill(0);
            let place = |n: u32| grant.in_memory(n) as usize * BLOCK;
            let batch = Batch {
                pool: self.label.get().pool,
                opening: self.record.last.borrow().opening,
                // Recovery does not look at pages.
                sequence: 0,
                durable: 0,
                address: grant.address(0),
                stripes: grant.stripes as u16,
                entries: pages.iter().map(|(entry, _)| *entry).collect(),
            };
            bytes[place(0)..][..BLOCK].copy_from_slice(&batch.encode().map_err(of)?);
            for (n, (_, page)) in (1..).zip(pages) {
                bytes[place(n)..][..BLOCK].copy_from_slice(page);
            }
            add_parity(&mut bytes, grant);
        }
        self.tally(|written| {
            written.pages += u64::from(grant.blocks()) * BLOCK as u64;
            written.parity += u64::from(grant.stripes) * u64::from(shape.parity) * BLOCK as u64;
        });
        let mut writing = self.set.door(None).ask();
        {
            let space = self.space.borrow();
            self.put_group(&space, grant, &buf, |device, offset, slice| {
                writing.write(device, offset, slice, false);
            });
        }
        let done = writing.submit().await;
        self.landed(&done).await
    }
}

impl Pages<'_> {
    /// Writes all of a checkpoint; gives where pages of the map are now.
    async fn write(
        &mut self,
        why: Why,
        sequence: u64,
        rewrite: &Rewrite,
        lists_of: &Lists,
    ) -> Result<Vec<Moved>, VolumeError> {
        let core = self.core;
        let (map, moved) = self.write_map().await?;
        let map_end = self.placed.len();
        let dead = self.write_dead().await?;
        let mut lists = self.placed.split_off(map_end);
        let table = self.table(rewrite).await?;
        self.placed.truncate(map_end);
        let pages = lists_of.volumes.chunks(VOLUMES).enumerate();
        let pages = pages.map(|(n, v)| Volumes(v.to_vec()).encode(n as u64)).collect::<Result<Vec<_>, _>>();
        let volumes = self.list(0, pages.map_err(of)?).await?;
        let pages = lists_of.nodes.chunks(NODES).enumerate();
        let pages = pages.map(|(n, v)| Nodes(v.to_vec()).encode(n as u64)).collect::<Result<Vec<_>, _>>();
        let nodes = self.list(0, pages.map_err(of)?).await?;
        let history = self.list(0, lists_of.history.clone()).await?;
        self.finish().await?;
        core.set.flush_members().await?;
        lists.append(&mut self.placed.split_off(map_end));
        self.is_named = true;
        let (host, segments, rooted) = (core.config.host, table.root, table.rooted.clone());
        core.record(move |record| {
            if let Why::Opening(opening) = why {
                record.lineage.insert(0, record.opening);
                record.lineage.truncate(LINEAGE);
                record.opening = opening;
                (record.host, record.exported) = (host, false);
            }
            record.stopped = why.ends();
            record.exported |= why == Why::Export;
            record.checkpoint += 1;
            (record.sequence, record.rooted) = (sequence, rooted);
            (record.map, record.dead, record.segments) = (map, dead, segments);
            (record.volumes, record.nodes, record.history) = (volumes, nodes, history);
        })
        .await?;
        core.checkpoints.lists.replace(lists);
        core.table_stands(rewrite, table);
        Ok(moved)
    }
}
