//! The map's part of a checkpoint: changes go into leaves; leaves that changed are written, and all branches above them.
//!
//! None of it goes through all of the map: what is to be written is known by its keys. Before anything is written each page has its final
//! size, so that all places are known at once.

use std::collections::BTreeMap;

use brindle_format::pool::place::Address;
use brindle_format::pool::{
    BLOCK, BRANCH_REFS, Branch, DeadPages, Entry, EntryKind, Leaf, LeafForms, Pointer, Root, Subtree,
};
use brindle_io::sync::join_all;
use brindle_volume::VolumeError;

use super::checkpoint::{COUNTED, Pages, Why, of};
use crate::core::Core;
use crate::read::{Pin, Unreadable};
use crate::store::leaf::Located;
use crate::store::map::{ENDLESS, GiveStep, Join, Key, Known, LAST, Moved, Page};

/// Pages that are gone over without a break.
const AT_ONCE: usize = 256;
/// Pages that are read side by side.
const READ: usize = 32;
/// Branches that are looked at for memory without a break.
const SHRINK: usize = 256;
/// Segments of few pages that one checkpoint empties.
const SPARSE: usize = 4;
/// Pages of these that it moves whatever memory there is.
const FEW_GATHERED: u64 = 64;
const MANY_SPARSE: usize = 16;
/// Pages that one checkpoint writes elsewhere for that; those of an opening and of the end of a run, for which somebody waits; and how many of
/// the largest segments' pages where they have to be.
const GATHERED: u64 = 1024;
const GATHERED_ASIDE: u64 = 128;
const GATHERED_SEGMENTS: u64 = 4;

/// Bytes of memory of a map for each leaf that takes the place of a lost page: half of it at most is taken by these.
const RENEWED: usize = 2 * BLOCK;

/// The number by which the summary of a batch of pages names the level of one of the map: that of its leaves.
const LEAVES: u32 = 1;

impl Core {
    /// Puts frozen changes into leaves.
    pub(super) async fn drain(&self) -> Result<(), VolumeError> {
        loop {
            let zeroes = self.map.borrow().frozen_zeroes();
            let Some((key, end)) = zeroes else { break };
            self.drain_zeroes(key, end).await?;
            self.map.borrow_mut().thaw_zeroes(key);
        }
        let mut ahead = 0;
        loop {
            let next = self.map.borrow().frozen_block();
            let Some(key) = next else {
                self.map.borrow_mut().thawed();
                return Ok(());
            };
            if ahead == 0 {
                // Blocks that no leaf had make leaves without any being read.
                let most = self.memory_of_pages();
                let _enough = self.map.borrow_mut().tree.shrink(most, READ, None);
                self.load_frozen().await?;
                ahead = READ;
                self.set.io.yield_now().await;
            }
            let at = self.map.borrow_mut().leaf_for(key);
            match at {
                Ok(at) => {
                    let node = self.volumes.node(key.0);
                    let gone = self.map.borrow_mut().merge(at, node);
                    self.uncount(gone);
                    ahead -= 1;
                }
                Err(page) => self.load_to_change(page).await?,
            }
        }
    }

    /// Reads the leaves of the next frozen blocks side by side, and before them the branches above, level by level.
    async fn load_frozen(&self) -> Result<(), VolumeError> {
        let levels = self.map.borrow().tree.height();
        for _ in 0..=levels {
            let some = self.map.borrow().frozen_pages(READ);
            match self.load_all(&some).await {
                // A page that is lost is told when it is asked for.
                Ok(()) | Err(VolumeError::TooManyLost) => {}
                failed => return failed,
            }
            if some.iter().all(|page| page.level == 0) {
                break;
            }
        }
        Ok(())
    }

    /// A range of a volume is zeroes: pages that hold nothing else are given back unread.
    async fn drain_zeroes(&self, key: Key, end: u64) -> Result<(), VolumeError> {
        let (mut from, mut gone_over) = (key.1, 0);
        // Leaves have no blocks of volumes that are made meanwhile.
        let next = self.volumes.next_behind(key.0).map_or(LAST, |next| (next, 0));
        let stop = if end < ENDLESS { (key.0, end) } else { next };
        while from < end {
            let step = self.map.borrow().step_of((key.0, from), stop);
            match step {
                GiveStep::Nothing => return Ok(()),
                GiveStep::Unread(page) => self.load_to_change(page).await?,
                GiveStep::Fold { level, at } => {
                    let _closed = self.map.borrow_mut().fold(level, at);
                }
                GiveStep::GiveUp { at, next } => {
                    let gone = self.map.borrow_mut().give_up(at);
                    self.uncount(gone);
                    from = next;
                }
                GiveStep::Cut { at, next } => {
                    let gone = self.map.borrow_mut().cut(at, key.1, end);
                    self.uncount(gone);
                    from = next;
                }
            }
            gone_over += 1;
            if gone_over % (AT_ONCE / 16) == 0 {
                self.set.io.yield_now().await;
            }
        }
        Ok(())
    }

    fn uncount(&self, gone: Vec<Located>) {
        let (map, mut space) = (self.map.borrow(), self.space.borrow_mut());
        for located in gone {
            if let Located::At(address, _) = located
                && !map.is_of_before(address)
            {
                space.died(address);
            }
        }
    }

    /// Reads pages side by side.
    pub(crate) async fn load_all(&self, pages: &[Page]) -> Result<(), VolumeError> {
        join_all(pages.iter().map(|&page| self.load(page))).await.into_iter().collect()
    }

    /// Reads a page that changes are to go into. One that is lost gets others in its place: changes would be lost with it otherwise, and
    /// no later checkpoint nor opening would come to its end.
    async fn load_to_change(&self, page: Page) -> Result<(), VolumeError> {
        let loaded = self.load(page).await;
        if loaded == Err(VolumeError::TooManyLost) && self.renews_lost(page).await {
            return Ok(());
        }
        loaded
    }

    /// Has leaves whose blocks are lost take the place of a page that is lost; false if there is no room for these.
    async fn renews_lost(&self, page: Page) -> bool {
        let (address, sum) = (page.pointer.address, page.pointer.checksum);
        let _pin = Pin::new(&self.space, address.segment());
        // One that is there, and can't be the page that is named, would be gone through as a dead one: blocks that it names may be of others.
        if !matches!(self.block(address, sum, None).await, Err(Unreadable::Lost)) {
            return false;
        }
        let owed = self.pages_owed(self.log.coming());
        let room = self.space.borrow().room_for_pages().saturating_sub(owed);
        // They are in memory until they are written, and the branches above them have to be written, too.
        let in_memory = (self.map_memory.get() / RENEWED) as u64;
        let most = (room / 4 * 3).min(in_memory).max(1);
        let renewed = self.map.borrow_mut().renew_lost(page, &self.volumes.records(), most);
        if renewed.is_some() {
            // The list of dead pages has become longer than its debt was.
            self.room_unsure.set(true);
        }
        renewed.is_some()
    }

    /// Reads a page that a checkpoint may do without; false if it is lost.
    async fn is_to_be_had(&self, page: Page) -> Result<bool, VolumeError> {
        match self.load(page).await {
            Err(VolumeError::TooManyLost) => Ok(false),
            loaded => loaded.map(|()| true),
        }
    }

    /// Gives all pages that are to be written their final size: small neighbours become one, branches that name too many are parted.
    pub(super) async fn fit_pages(&self) -> Result<(), VolumeError> {
        let mut from = (0, 0);
        loop {
            let some = self.map.borrow().dirty_leaves(from, AT_ONCE);
            let Some(&last) = some.last() else { break };
            for some in some.chunks(READ) {
                self.join_leaves(some).await?;
            }
            from = (last.0, last.1 + 1);
            self.set.io.yield_now().await;
        }
        let mut level = 1;
        while level <= self.map.borrow().tree.height() {
            self.fit_branches(level).await?;
            level += 1;
        }
        Ok(())
    }

    /// Has some leaves become one with neighbours; those that have to be read for that are read side by side.
    async fn join_leaves(&self, some: &[Key]) -> Result<(), VolumeError> {
        let (mut left, mut unread) = (Vec::new(), Vec::new());
        for &at in some {
            let joined = self.map.borrow_mut().join_leaf(at);
            if let Join::Unread(page) = joined {
                left.push(at);
                unread.push(page);
            }
        }
        // A page that is not read by this is asked for once more.
        let _loaded = self.load_all(&unread).await;
        for at in left {
            loop {
                let joined = self.map.borrow_mut().join_leaf(at);
                let Join::Unread(page) = joined else { break };
                if !self.is_to_be_had(page).await? {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn fit_branches(&self, level: usize) -> Result<(), VolumeError> {
        let mut from = (0, 0);
        loop {
            let some = self.map.borrow().tree.dirty_of(level, from, AT_ONCE / 16);
            let Some(&last) = some.last() else { return Ok(()) };
            for at in some {
                loop {
                    let joined = self.map.borrow_mut().fit_branch(level, at);
                    match joined {
                        Join::Unread(page) if self.is_to_be_had(page).await? => {}
                        Join::TooHigh => return Err(VolumeError::NoSpace),
                        Join::Unread(_) | Join::Joined(_) | Join::Stays => break,
                    }
                }
            }
            from = (last.0, last.1 + 1);
            self.set.io.yield_now().await;
        }
    }

    /// Pages of segments that hold few are written elsewhere, so that those become free; gives those segments. Summaries tell which pages
    /// these are. A segment that one checkpoint does not come to the end of is among the first of the next.
    pub(super) async fn gather_pages(&self, why: Why) -> Result<Vec<u32>, VolumeError> {
        // No more than there is room for beside what has to be written.
        let room = self.space.borrow().room_for_pages();
        let is_short = self.space.borrow().is_short_of_pages();
        let owed = || self.pages_owed(self.log.coming());
        // Where pages take more than is kept for them, more segments of theirs are emptied.
        let most = if is_short { MANY_SPARSE } else { SPARSE };
        let (mut others, room) = (self.pages_not_to_move().await, room.saturating_sub(owed()));
        let lives = |segment: u32| self.space.borrow().get(segment).map_or(0, |own| own.record.live);
        // Pages below dead ones are not found: their segments would be chosen again and again, instead of others.
        self.cleaner.immovable.borrow_mut().retain(|&segment, live| lives(segment) == *live);
        others.extend(self.cleaner.immovable.borrow().iter());
        let sparse = self.space.borrow().sparse_pages(most, room, &others);
        let (sparse, emptied) = self.table_sparse(&sparse);
        let table = self.pages_of_table();
        let most = self.gathered_at_most(why, is_short, &sparse);
        // A page that is moved has to be in memory, until it is written.
        let (most_dirty, mut left) = (self.map_memory.get() / 4 * 3, most);
        for &segment in &sparse[..emptied] {
            let of = |counts: &BTreeMap<u32, u32>| counts.get(&segment).copied().unwrap_or(0);
            if left == 0 {
                break;
            }
            if lives(segment) <= of(&others) + of(&table) {
                continue;
            }
            let mut moved = of(&table) > 0;
            let mut pages = self.pages_in(segment).await;
            // Leaves first: branches above them are written with them.
            pages.sort_unstable();
            for some in pages.chunks(READ) {
                self.load_to_move(some).await;
                for &(level, at, address) in some {
                    let above = self.map.borrow().tree.height() as u64 + 1;
                    let is_full = most - left >= FEW_GATHERED && self.map.borrow().dirty_bytes() > most_dirty;
                    if is_full || left == 0 || owed() + above > self.space.borrow().room_for_pages() {
                        return Ok(sparse);
                    }
                    if self.move_page(level, at, address).await? {
                        (moved, left) = (true, left - 1);
                    }
                }
                self.set.io.yield_now().await;
            }
            if !moved {
                self.cleaner.immovable.borrow_mut().insert(segment, lives(segment));
            }
        }
        Ok(sparse)
    }

    /// Pages that one checkpoint writes elsewhere to empty `sparse` segments. Where room is short, or some have little parity, these are as
    /// many as whole segments hold: else as many could lie about anew. An opening, and the end of a run, hardly wait for what can be done
    /// at any time.
    fn gathered_at_most(&self, why: Why, is_short: bool, sparse: &[u32]) -> u64 {
        let space = self.space.borrow();
        let is_aside = why != Why::Due || self.run.is_opening();
        let is_urgent = is_short || !is_aside && sparse.iter().any(|&segment| space.is_thin(segment));
        match (is_urgent, is_aside) {
            (true, _) => GATHERED.max(GATHERED_SEGMENTS * space.most_pages()),
            (false, true) => GATHERED_ASIDE,
            (false, false) => GATHERED,
        }
    }

    /// Pages of the table of segments in each segment.
    fn pages_of_table(&self) -> BTreeMap<u32, u32> {
        let table = self.checkpoints.table.borrow();
        let kept = table.kept(&table.renewed());
        kept.into_iter().map(|(segment, pages)| (segment, pages as u32)).collect()
    }

    /// Pages of each segment that are of lists, dead, or written elsewhere anyway.
    async fn pages_not_to_move(&self) -> BTreeMap<u32, u32> {
        let dead: Vec<Address> = self.map.borrow().dead.iter().map(|dead| dead.0.pointer.address).collect();
        let mut counts = BTreeMap::new();
        for some in [self.old_pages(), dead].iter().flat_map(|places| places.chunks(COUNTED)) {
            for address in some {
                *counts.entry(address.segment()).or_insert(0) += 1;
            }
            if some.len() == COUNTED {
                self.set.io.yield_now().await;
            }
        }
        counts
    }

    /// Has a page of the map written elsewhere, if it stands at an address still; whether it does.
    async fn move_page(&self, level: u8, at: Key, address: Address) -> Result<bool, VolumeError> {
        while let Some(page) = self.unread_to_move(level, at, address) {
            if !self.is_to_be_had(page).await? {
                return Ok(false);
            }
        }
        let known = self.map.borrow().tree.known(level, at);
        match known {
            Known::There { pointer, in_memory: true, dirty: false } if pointer.address == address => {
                self.map.borrow_mut().touch(level, at);
                Ok(true)
            }
            Known::There { .. } | Known::Unread(_) | Known::Gone => Ok(false),
        }
    }

    /// The page that has to be read first, before one is written elsewhere that stands at an address.
    fn unread_to_move(&self, level: u8, at: Key, address: Address) -> Option<Page> {
        let known = self.map.borrow().tree.known(level, at);
        match known {
            Known::Unread(page) => Some(page),
            Known::There { pointer, in_memory: false, dirty: false } if pointer.address == address => {
                Some(Page { level, at, pointer })
            }
            Known::There { .. } | Known::Gone => None,
        }
    }

    /// Reads side by side, level by level, what has to be read before these pages are written elsewhere. A page that is not read by this is
    /// asked for once more.
    async fn load_to_move(&self, pages: &[(u8, Key, Address)]) {
        let (levels, mut before) = (self.map.borrow().tree.height(), Vec::new());
        for _ in 0..=levels {
            let unread =
                pages.iter().filter_map(|&(level, at, address)| self.unread_to_move(level, at, address));
            let mut unread: Vec<Page> = unread.collect();
            // Many are below one branch.
            unread.dedup();
            if unread.is_empty() || unread == before {
                return;
            }
            let _loaded = self.load_all(&unread).await;
            before = unread;
        }
    }

    /// Pages of the map that may stand in a segment, as its summaries tell. Those are read side by side as long as each batch is as large as the
    /// one before.
    async fn pages_in(&self, segment: u32) -> Vec<(u8, Key, Address)> {
        let (_pin, mut pages) = (Pin::new(&self.space, segment), Vec::new());
        let found = self.space.borrow().get(segment).map(|own| (own.record.shape(), own.record.stripes));
        let Some((shape, stripes)) = found else { return pages };
        let (mut stripe, mut step, mut ahead) = (0, 1, 1);
        while stripe < stripes {
            let some: Vec<u32> = (stripe..stripes).step_by(step as usize).take(ahead).collect();
            let found = join_all(some.iter().map(|&at| self.summary(segment, shape, at))).await;
            ahead = READ.min(2 * ahead);
            for (at, found) in some.into_iter().zip(found) {
                if at != stripe {
                    // A batch of another size was before it.
                    ahead = 1;
                    break;
                }
                let batches = match found {
                    Some(batch) => vec![batch],
                    None => self.summaries(segment, shape, at, false).await.unwrap_or_default(),
                };
                for batch in &batches {
                    let places = (1..).map(|n| Address::new(segment, shape.data_place(at, n)));
                    pages.extend(
                        batch.entries.iter().zip(places).filter_map(|(entry, at)| page_of(entry, at)),
                    );
                }
                step = batches.first().map_or(1, |batch| u32::from(batch.stripes).max(1));
                stripe = at + step;
            }
        }
        pages
    }

    /// Pages of the list of dead ones.
    pub(super) fn dead_pages(&self) -> Result<Vec<Vec<u8>>, VolumeError> {
        let map = self.map.borrow();
        let refs: Vec<Subtree> = map.dead.iter().map(|dead| dead.0).collect();
        let pages = refs.chunks(BRANCH_REFS).enumerate();
        pages.map(|(n, refs)| DeadPages(refs.to_vec()).encode(n as u64)).collect::<Result<_, _>>().map_err(of)
    }

    /// Bytes of memory for pages that may go.
    pub(crate) fn memory_of_pages(&self) -> usize {
        self.map.borrow().for_pages(self.map_memory.get())
    }

    /// Pages that were written may go, as far as there is no memory for it.
    pub(crate) async fn shrink_map(&self) {
        // Twice, since those that were asked for lately go the second time.
        let rounds = self.map.borrow().tree.may_be_open() / SHRINK * 2 + 3;
        for _ in 0..rounds {
            let most = self.memory_of_pages();
            if self.map.borrow_mut().tree.shrink(most, SHRINK, None) {
                return;
            }
            self.set.io.yield_now().await;
        }
    }

    /// Pages of the map stand where they were written.
    pub(super) async fn map_stands(&self, moved: &[Moved], replaced: usize) {
        for some in moved.chunks(4 * AT_ONCE) {
            self.map.borrow_mut().stand(some);
            self.set.io.yield_now().await;
        }
        self.map.borrow_mut().tree.replaced.drain(..replaced);
    }
}

impl Pages<'_> {
    /// Writes all pages of the map that are to be written, leaves first; gives its top, and where these are now.
    pub(super) async fn write_map(&mut self) -> Result<(Option<Subtree>, Vec<Moved>), VolumeError> {
        let core = self.core();
        let forms = core.label.get().features.leaves();
        let (mut all, mut below): (Vec<Moved>, Vec<Moved>) = (Vec::new(), Vec::new());
        let height = core.map.borrow().tree.height();
        for level in 0..=height {
            let (mut own, mut from) = (Vec::new(), (0, 0));
            loop {
                let some = core.map.borrow().tree.dirty_of(level, from, AT_ONCE);
                let Some(&last) = some.last() else { break };
                for at in some {
                    let bytes = core.page_bytes(level, at, &below, forms)?;
                    let pointer = self.put_page(level, at, bytes).await?;
                    own.push(Moved { level, at, pointer });
                }
                from = (last.0, last.1 + 1);
            }
            all.append(&mut below);
            below = own;
        }
        let map = core.map.borrow();
        let top = map.tree.top().and_then(|(at, stood)| {
            let now = below.first().map(|own| own.pointer);
            Some(map.tree.subtree_of(height, at, now.or(stood)?))
        });
        all.append(&mut below);
        Ok((top, all))
    }

    async fn put_page(&mut self, level: usize, at: Key, bytes: Vec<u8>) -> Result<Pointer, VolumeError> {
        self.put(at.0, LEAVES + level as u32, at.1, bytes).await
    }

    /// Writes the list of dead pages.
    pub(super) async fn write_dead(&mut self) -> Result<Root, VolumeError> {
        let pages = self.core().dead_pages()?;
        self.list(0, pages).await
    }
}

impl Core {
    /// The bytes of a page of the map that is to be written; pages below it that were written just now are `moved`.
    fn page_bytes(
        &self,
        level: usize,
        at: Key,
        moved: &[Moved],
        forms: LeafForms,
    ) -> Result<Vec<u8>, VolumeError> {
        let map = self.map.borrow();
        if level > 0 {
            return Branch(map.tree.refs(level, at, moved)).encode(level as u8).map_err(of);
        }
        Leaf(map.tree.entries(at)).encode(at.0, forms).map_err(of)
    }
}

/// The level and the key of a page of the map, as the summary of its batch tells, and where it stands.
pub(super) fn page_of(entry: &Entry, at: Address) -> Option<(u8, Key, Address)> {
    let level = entry.node.checked_sub(LEAVES).and_then(|level| u8::try_from(level).ok())?;
    (entry.kind == EntryKind::Page).then_some((level, (entry.volume, entry.block), at))
}
