//! Compares all that a pool holds with its checksums, and parity with data.
//!
//! Segments are read as they lie on their members, each stored byte once: checksums and parity are those of the same bytes. Summaries tell
//! which blocks of volumes may stand there, and the map which of them do, with their checksums. Then the map is gone through: blocks that
//! no summary told are read one by one, and lost ones are counted.

mod compare;
mod stretch;

use std::collections::{BTreeMap, BTreeSet};

use brindle_format::pool::place::Address;
use brindle_format::pool::{BLOCK, checksum};
use brindle_io::sync::join_all;
use brindle_members::process::{Process, ProcessError, Speeds};
use brindle_members::windows::Windows;
use brindle_volume::VolumeError;

use crate::core::Core;
use crate::damage::{Blocks, DamagedRange};
use crate::read::{Absent, Pin, Unreadable, is_whole};
use crate::store::leaf::Located;
use crate::store::map::{ENDLESS, Key, Next, Page};
use crate::store::space::Slot;
use compare::Comparison;
use stretch::Written;

/// Blocks that are read at a time, of those that are read one by one.
const SIDE_BY_SIDE: usize = 32;
/// Pages of the map that are read ahead.
const AHEAD: usize = 31;
/// Blocks that were compared with their segments and are passed over before others have a turn.
const IN_A_TURN: u64 = 4096;
/// The most places in a report,
const PLACES: usize = 16;
/// and ranges of volumes.
const RANGES: usize = 1024;

/// The outcome of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Blocks that were held against their checksums, pages among them.
    pub blocks: u64,
    /// Of these, those that are not what they should be.
    pub wrong: u64,
    /// Blocks that their member can't read.
    pub unreadable: u64,
    /// Blocks of volumes that are lost: of those that are wrong, unreadable or missing, those that can't be rebuilt; and what pages of the
    /// map named that are lost.
    pub lost: u64,
    /// Where these are, the first 1024 ranges,
    pub damaged: Vec<DamagedRange>,
    /// and lost blocks for which there was no room there.
    pub damaged_beyond: u64,
    /// Blocks on members that are missing, or did not answer.
    pub missing: u64,
    /// Stripes whose parity was compared.
    pub stripes: u64,
    /// Of these, those whose parity is not that of their data.
    pub mismatches: u64,
    /// Stripes that could not be compared.
    pub uncompared: u64,
    /// Where blocks are wrong: member of the pool, and byte of its data area; the first few.
    pub places: Vec<(u16, u64)>,
}

/// Places of a segment, or its stripes: a bit each.
#[derive(Default)]
struct Marks(Vec<u64>);

impl Marks {
    fn mark(&mut self, at: u32) {
        let word = at as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (at % 64);
    }

    fn has(&self, at: u32) -> bool {
        self.0.get(at as usize / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    fn all(&self) -> impl Iterator<Item = u32> {
        (0..self.0.len() as u32 * 64).filter(|&at| self.has(at))
    }
}

/// Blocks of segments that were compared as these lay on their members.
#[derive(Default)]
struct Covered {
    /// Whether all that is live was.
    segments: BTreeMap<u32, bool>,
    /// Of segments of which not all was, the places that were, and the stripes.
    places: BTreeMap<u32, (Marks, Marks)>,
}

impl Covered {
    fn has(&self, address: Address) -> bool {
        let segment = address.segment();
        let one = || self.places.get(&segment).is_some_and(|(places, _)| places.has(address.place()));
        self.segments.get(&segment).is_some_and(|all| *all || one())
    }

    fn has_stripe(&self, segment: u32, stripe: u32) -> bool {
        self.places.get(&segment).is_some_and(|(_, stripes)| stripes.has(stripe))
    }
}

/// A check under way.
struct Check<'a> {
    core: &'a Core,
    checked: Checked,
    /// Blocks of volumes that are lost.
    lost: Blocks,
    covered: Covered,
    /// Stripes of blocks that are read one by one.
    stripes: BTreeMap<u32, Marks>,
}

/// A block that is read by itself.
#[derive(Clone, Copy)]
enum Single {
    /// One of a volume,
    Block(Key),
    /// or a page of the map.
    Page(Page),
}

impl Single {
    /// Its place in a volume.
    fn key(self) -> Option<Key> {
        match self {
            Self::Block(key) => Some(key),
            Self::Page(_) => None,
        }
    }
}

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
    /// Reads all that counts, and tells what of it is wrong; nothing is written. `reported` is called with the bytes gone over.
    pub(crate) async fn check(&self, mut reported: impl FnMut(u64)) -> Result<Checked, VolumeError> {
        let (checked, lost, covered) = (Checked::default(), Blocks::new(RANGES), Covered::default());
        let mut check = Check { core: self, checked, lost, covered, stripes: BTreeMap::new() };
        // Segments of blocks that are moved meanwhile are not rewritten before they have been gone over.
        let mut pins: BTreeMap<u32, Pin<'_>> = BTreeMap::new();
        check.segments(&mut reported).await?;
        check.pages().await;
        check.volumes(&mut pins).await?;
        check.stripes().await;
        drop(pins);
        let Check { mut checked, lost, .. } = check;
        (checked.damaged, checked.damaged_beyond) = (self.damaged(&lost), lost.beyond());
        Ok(checked)
    }

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

    /// Whether a block that its member does not give is lost.
    async fn is_beyond_repair(&self, address: Address, sum: u32) -> bool {
        matches!(self.rebuilt(address, |block| checksum(block) == sum).await, Err(Unreadable::Lost))
    }
}

impl<'a> Check<'a> {
    /// Goes over all segments that hold something. Beside clients it has less than half of the time, as an array's check.
    async fn segments(&mut self, reported: &mut impl FnMut(u64)) -> Result<(), VolumeError> {
        let core = self.core;
        let Some(kept) = core.kept() else { return Err(VolumeError::Stopping) };
        let volumes = core.volumes.records();
        let written = Written::of(&kept);
        let (bytes, total) = (written.bytes(), volumes.iter().map(|volume| volume.size).sum::<u64>());
        let process = Process::new(&core.set.io, (), 0, bytes, Speeds::default());
        let mut windows = Windows::new(&core.set.io, process, 0, written);
        let mut comparison = Comparison::new(core, &volumes);
        let error = |error: ProcessError<()>| match error {
            ProcessError::Volume(error) => error,
            ProcessError::Busy(()) | ProcessError::Interrupted => VolumeError::Stopping,
        };
        while let Some((end, stretch)) = windows.advance().await.map_err(error)? {
            if let Some(stretch) = stretch {
                comparison.go_over(&stretch, self).await;
            }
            reported((u128::from(total) * u128::from(end) / u128::from(bytes.max(1))) as u64);
        }
        comparison.end(self);
        Ok(())
    }

    /// Walks the pages of the map, and compares those that no summary told.
    async fn pages(&mut self) {
        let core = self.core;
        let height = core.map.borrow().tree.height() as u8;
        for level in 1..=height {
            let mut from = Some((0, 0));
            while let Some(key) = from {
                let (open, next) = core.map.borrow().tree.open_pages(level, key, SIDE_BY_SIDE);
                self.compare_pages(&open).await;
                core.set.io.yield_now().await;
                from = next;
            }
        }
        let mut from = Some((0, 0));
        while let Some(key) = from {
            let (mut pages, closed, next) = core.map.borrow().tree.walk(key, SIDE_BY_SIDE);
            pages.extend(closed);
            self.compare_pages(&pages).await;
            from = next;
            if let Some(page) = closed {
                // Blocks below one that can't be read are told when volumes are gone through.
                if core.load_ahead(page).await.is_ok() {
                    from = Some(page.at);
                }
            }
            core.set.io.yield_now().await;
        }
    }

    /// Compares a few pages that the map names, and their stripes. Segments of pages that are written elsewhere meanwhile are not rewritten
    /// before that: so nothing may be waited for between the look at the map and this.
    async fn compare_pages(&mut self, pages: &[Page]) {
        let core = self.core;
        let left = pages.iter().filter(|page| !self.covered.has(page.pointer.address));
        let left: Vec<_> =
            left.map(|&page| (Single::Page(page), page.pointer.address, page.pointer.checksum)).collect();
        let pins = left.iter().map(|(_, address, _)| Pin::new(&core.space, address.segment()));
        let _pins: Vec<Pin<'_>> = pins.collect();
        self.one_by_one(&left).await;
        self.stripes().await;
    }

    /// Walks the map: a volume of which little is written has little to be compared.
    async fn volumes(&mut self, pins: &mut BTreeMap<u32, Pin<'a>>) -> Result<(), VolumeError> {
        let (core, mut passed, mut counted) = (self.core, 0u64, BTreeSet::new());
        for volume in core.volumes.records().iter().filter(|volume| !volume.destroyed) {
            let mut from = Some(0);
            while from.is_some() {
                let mut blocks = Vec::new();
                while blocks.len() < SIDE_BY_SIDE {
                    let block = match core.next_of(volume.id, from).await? {
                        Named::Block(block) => block,
                        Named::Lost { from: at, to, page, count } => {
                            // Each volume that a branch has blocks of comes upon it.
                            self.checked.lost += if counted.insert(page) { count } else { 0 };
                            self.lost.add(volume.id, at..to);
                            from = Some(to).filter(|&to| to < volume.size.div_ceil(BLOCK as u64));
                            if from.is_none() {
                                break;
                            }
                            continue;
                        }
                        Named::Nothing => {
                            from = None;
                            break;
                        }
                    };
                    from = Some(block + 1);
                    passed += 1;
                    if passed.is_multiple_of(IN_A_TURN) {
                        core.set.io.yield_now().await;
                    }
                    let (located, pin) = core.locate((volume.id, block)).await?;
                    match located {
                        Located::At(address, _) if self.covered.has(address) => {}
                        Located::At(address, sum) => {
                            if let Some(pin) = pin {
                                pins.entry(address.segment()).or_insert(pin);
                            }
                            blocks.push((Single::Block((volume.id, block)), address, sum));
                        }
                        Located::Lost => {
                            self.checked.lost += 1;
                            self.lost.add(volume.id, block..block + 1);
                        }
                        Located::Zeroes => {}
                    }
                }
                self.one_by_one(&blocks).await;
            }
        }
        Ok(())
    }

    /// A block is compared.
    async fn judge(
        &mut self,
        (key, address): (Option<Key>, Address),
        found: Result<bool, Absent>,
        is_lost: impl AsyncFnOnce() -> bool,
    ) {
        let core = self.core;
        if let Some((volume, block)) = key.filter(|_| !matches!(found, Ok(true)))
            && is_lost().await
        {
            self.checked.lost += 1;
            self.lost.add(volume, block..block + 1);
        }
        let spot = core.space.borrow().spot(address);
        let source = core.space.borrow().source(address);
        let is_missing = source.is_none_or(|(role, _)| core.set.members.readable(role, u64::MAX).is_none());
        match found {
            Ok(is_right) => {
                self.checked.blocks += 1;
                self.checked.wrong += u64::from(!is_right);
                let room = !is_right && self.checked.places.len() < PLACES;
                self.checked.places.extend(spot.filter(|_| room));
            }
            Err(Absent::Gone) if !is_missing => self.checked.unreadable += 1,
            Err(_) => self.checked.missing += 1,
        }
    }

    /// Holds blocks of volumes, or pages, against their checksums.
    async fn one_by_one(&mut self, blocks: &[(Single, Address, u32)]) {
        let core = self.core;
        let found = join_all(blocks.iter().map(|&(_, address, _)| core.raw(address, true))).await;
        for (&(single, address, sum), found) in blocks.iter().zip(found) {
            let found = found.map(|block| checksum(&block) == sum);
            if let (Single::Page(page), false) = (single, matches!(found, Ok(true)))
                && !core.map.borrow().tree.may_name(page)
            {
                continue;
            }
            self.judge((single.key(), address), found, async || core.is_beyond_repair(address, sum).await)
                .await;
            let slot = core.space.borrow().slot_of(address);
            if let Some((slot, shape)) = slot
                && shape.parity > 0
                && !self.covered.has_stripe(slot.segment, slot.stripe)
            {
                self.stripes.entry(slot.segment).or_default().mark(slot.stripe);
            }
        }
    }

    /// Compares the parity of stripes of blocks that were read one by one: each once.
    async fn stripes(&mut self) {
        for (segment, stripes) in core::mem::take(&mut self.stripes) {
            for stripe in stripes.all() {
                let whole = self.core.stripe_agrees(segment, stripe).await;
                self.compared(whole);
                self.covered.places.entry(segment).or_default().1.mark(stripe);
            }
        }
    }

    /// A stripe is compared, or can't be.
    fn compared(&mut self, agrees: Option<bool>) {
        match agrees {
            Some(agrees) => {
                self.checked.stripes += 1;
                self.checked.mismatches += u64::from(!agrees);
            }
            None => self.checked.uncompared += 1,
        }
    }
}

impl Core {
    /// Whether a stripe's parity is that of its data, as its members have it; nothing if one of them does not give its block.
    async fn stripe_agrees(&self, segment: u32, stripe: u32) -> Option<bool> {
        let shape = self.space.borrow().get(segment).map(|segment| segment.record.shape())?;
        let slots = (0..shape.stripe).map(|slot| self.raw_slot(Slot { segment, stripe, slot }, true));
        let blocks = join_all(slots).await;
        let blocks: Vec<Option<Vec<u8>>> =
            blocks.into_iter().map(|block| block.ok().map(|block| block.to_vec())).collect();
        let is_there = blocks.iter().all(Option::is_some);
        is_there.then(|| is_whole(&blocks, usize::from(shape.data())))
    }
}
