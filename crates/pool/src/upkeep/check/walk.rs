//! Goes through the map, for all that summaries did not tell.

use std::collections::{BTreeMap, BTreeSet};

use brindle_format::pool::place::Address;
use brindle_format::pool::{BLOCK, VolumeRecord};
use brindle_io::sync::join_all;
use brindle_members::process::ProcessError;
use brindle_volume::VolumeError;

use super::{Check, Single};
use crate::core::Core;
use crate::read::Pin;
use crate::store::leaf::Located;
use crate::store::map::{ENDLESS, Key, Next, Page};
use crate::upkeep::scrubs::ScrubError;

/// Blocks that are read at a time, of those that are read one by one,
const SIDE_BY_SIDE: usize = 32;
/// and segments that they are in, at most.
const SEGMENTS: usize = 4;
/// Pages of the map that are read ahead.
const AHEAD: usize = 31;
/// Blocks that were compared with their segments and are passed over before others have a turn.
const IN_A_TURN: u64 = 4096;

/// The next block of a volume that something is said of.
enum Named {
    Block(u64),
    /// The page of the map with these is lost, and `count` blocks with it, be they of this volume or of others.
    Lost {
        from: u64,
        to: u64,
        page: Address,
        count: u64,
    },
    Nothing,
}

impl Core {
    /// The next block of a volume from one on that there is something of.
    async fn next_of(&self, volume: u32, from: Option<u64>) -> Result<Named, VolumeError> {
        let Some(from) = from else { return Ok(Named::Nothing) };
        loop {
            let next = self.map.borrow().next_of(volume, from);
            match next {
                Next::Block(block) => return Ok(Named::Block(block)),
                Next::Unread(page) => match self.load_ahead(page).await {
                    Err(VolumeError::TooManyLost) => {
                        let map = self.map.borrow();
                        let end = map.tree.behind(page.at);
                        let count = map.tree.blocks_of(page);
                        let begin = if page.at.0 == volume { page.at.1.max(from) } else { from };
                        let to = if end.0 == volume { end.1 } else { ENDLESS };
                        return Ok(Named::Lost { from: begin, to, page: page.pointer.address, count });
                    }
                    loaded => loaded?,
                },
                Next::Nothing => return Ok(Named::Nothing),
            }
        }
    }

    /// Reads a page of the map, and with it those behind it that are to be read next.
    async fn load_ahead(&self, page: Page) -> Result<(), VolumeError> {
        let behind =
            self.map.borrow().tree.unread_behind(page.at, AHEAD.min(self.map_memory.get() / BLOCK / 4));
        // Of these it is told when they are asked for. What is asked for now comes last, so that none of them takes its room.
        let _ahead = join_all(behind.into_iter().map(|page| self.load(page))).await;
        self.load(page).await
    }
}

impl<'a> Check<'a> {
    /// Goes through all of the map.
    pub(super) async fn walk(&mut self) -> Result<(), ScrubError> {
        self.pages().await?;
        self.volumes().await
    }

    /// Others have a turn; a scrub that was paused stands still here.
    async fn turn(&self) -> Result<(), ScrubError> {
        self.core.set.io.yield_now().await;
        while self.scrub.is_paused() && !self.scrub.is_stopped() {
            self.scrub.wait().await;
        }
        if self.scrub.is_stopped() { Err(ProcessError::Interrupted) } else { Ok(()) }
    }

    /// Walks the pages of the map, and compares those that no summary told.
    async fn pages(&mut self) -> Result<(), ScrubError> {
        let core = self.core;
        let height = core.map.borrow().tree.height() as u8;
        for level in 1..=height {
            let mut from = Some((0, 0));
            while let Some(key) = from {
                let (open, next) = core.map.borrow().tree.open_pages(level, key, SIDE_BY_SIDE);
                let (open, left) = in_few_segments(open);
                self.compare_pages(&open).await;
                from = left.or(next);
                self.turn().await?;
            }
        }
        let mut from = Some((0, 0));
        while let Some(key) = from {
            let (mut pages, closed, next) = core.map.borrow().tree.walk(key, SIDE_BY_SIDE);
            pages.extend(closed);
            let (pages, left) = in_few_segments(pages);
            self.compare_pages(&pages).await;
            from = left.or(next);
            if let Some(page) = closed.filter(|_| left.is_none()) {
                // Blocks below one that can't be read are told when volumes are gone through.
                if core.load_ahead(page).await.is_ok() {
                    from = Some(page.at);
                }
            }
            self.turn().await?;
        }
        Ok(())
    }

    /// Compares a few pages that the map names, and their stripes. Segments of pages that are written elsewhere meanwhile are not rewritten
    /// before that: so nothing may be waited for between the look at the map and this.
    async fn compare_pages(&mut self, pages: &[Page]) {
        let core = self.core;
        let left = pages.iter().filter(|page| !self.is_covered(page.pointer.address));
        let left: Vec<_> =
            left.map(|&page| (Single::Page(page), page.pointer.address, page.pointer.checksum)).collect();
        let pins = left.iter().map(|(_, address, _)| Pin::new(&core.space, address.segment()));
        let _pins: Vec<Pin<'_>> = pins.collect();
        self.one_by_one(&left).await;
        self.stripes().await;
    }

    fn is_covered(&self, address: Address) -> bool {
        let slot = self.core.space.borrow().slot_of(address);
        self.covered.has(slot, address)
    }

    /// Walks the map: a volume of which little is written has little to be compared.
    async fn volumes(&mut self) -> Result<(), ScrubError> {
        for volume in self.core.volumes.records().iter().filter(|volume| !volume.destroyed) {
            let mut from = Some(0);
            while from.is_some() {
                // Segments of blocks that are moved meanwhile are not rewritten before these have been compared.
                let (blocks, pins) = self.next_blocks(volume, &mut from).await?;
                self.one_by_one(&blocks).await;
                self.stripes().await;
                drop(pins);
                self.turn().await?;
            }
        }
        Ok(())
    }

    /// The next blocks of a volume that are still to be compared, in a few segments, which are pinned.
    async fn next_blocks(
        &mut self,
        volume: &VolumeRecord,
        from: &mut Option<u64>,
    ) -> Result<(Vec<(Single, Address, u32)>, BTreeMap<u32, Pin<'a>>), ScrubError> {
        let (core, mut blocks, mut pins) = (self.core, Vec::new(), BTreeMap::new());
        let mut passed = 0;
        while blocks.len() < SIDE_BY_SIDE && passed < IN_A_TURN {
            let block = match core.next_of(volume.id, *from).await? {
                Named::Block(block) => block,
                Named::Lost { from: at, to, page, count } => {
                    // Each volume that a branch has blocks of comes upon it.
                    let count = if self.lost_pages.insert(page) { count } else { 0 };
                    self.is_lost(volume.id, at..to, count);
                    *from = Some(to).filter(|&to| to < volume.size.div_ceil(BLOCK as u64));
                    if from.is_none() {
                        break;
                    }
                    continue;
                }
                Named::Nothing => {
                    *from = None;
                    break;
                }
            };
            let (located, pin) = core.locate((volume.id, block)).await?;
            match located {
                Located::At(address, _) if self.is_covered(address) => {}
                Located::At(address, sum) => {
                    if pins.len() == SEGMENTS && !pins.contains_key(&address.segment()) {
                        break;
                    }
                    if let Some(pin) = pin {
                        pins.entry(address.segment()).or_insert(pin);
                    }
                    blocks.push((Single::Block((volume.id, block)), address, sum));
                }
                Located::Lost => self.is_lost(volume.id, block..block + 1, 1),
                Located::Zeroes => {}
            }
            *from = Some(block + 1);
            passed += 1;
        }
        Ok((blocks, pins))
    }
}

/// The first of these pages, as many as are in a few segments; and the key of the first that is left.
fn in_few_segments(mut pages: Vec<Page>) -> (Vec<Page>, Option<Key>) {
    let mut segments = BTreeSet::new();
    let fits = |page: &&Page| {
        let segment = page.pointer.address.segment();
        segments.contains(&segment) || segments.len() < SEGMENTS && segments.insert(segment)
    };
    let few = pages.iter().take_while(fits).count();
    let left = pages.get(few).map(|page| page.at);
    pages.truncate(few);
    (pages, left)
}
