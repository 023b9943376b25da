//! Compares all that a pool holds with its checksums, and parity with data; a scrub writes anew what is wrong.
//!
//! Segments are read as they lie on their members, each stored byte once: checksums and parity are those of the same bytes. Summaries tell
//! what stands there. The map is asked where something does not agree, or where no parity proves that a summary is the last one. It is gone
//! through as a whole only if something is left: blocks that no summary told are read one by one then, and lost ones are counted.
//!
//! A scrub goes over all that is stored when it begins: all of that has landed before a repair reads the first segment, and a segment
//! that became free since is passed over. No more than a few segments are pinned at a time, since those don't become free.

mod compare;
mod mend;
pub(super) mod stretch;
pub(super) mod told;
mod walk;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use brindle_format::pool::place::{Address, Shape};
use brindle_format::pool::{ScrubState, checksum};
use brindle_io::Duration;
use brindle_io::sync::join_all;
use brindle_members::process::ProcessError;
use brindle_members::windows::Windows;
use brindle_volume::VolumeError;

use crate::core::Core;
use crate::damage::Blocks;
use crate::events::PoolEvent;
use crate::read::{Absent, Unreadable, is_whole};
use crate::store::map::{Key, Page};
use crate::store::space::Slot;
use crate::upkeep::scrubs::{Checked, Scrub, ScrubError, ScrubKind, Scrubbed};
use compare::Comparison;
use stretch::Written;

/// Time between two records of how far a scrub is.
const RECORDED: Duration = Duration::from_secs(30);
/// The most places in a report,
const PLACES: usize = 16;
/// and ranges of volumes.
const RANGES: usize = 1024;

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

/// Parts of a segment that were compared.
#[derive(Default)]
struct Parts {
    /// Stripes of which nothing is left to be looked at.
    proved: Marks,
    /// Places of other stripes,
    places: Marks,
    /// and those of these stripes whose parity was compared.
    stripes: Marks,
}

/// Blocks of segments that were compared as these lay on their members.
#[derive(Default)]
struct Covered {
    /// Whether all that is live was.
    segments: BTreeMap<u32, bool>,
    /// Of segments of which not all was.
    parts: BTreeMap<u32, Parts>,
    /// Stripes that each segment had, of those that were read: others were written since, and count as covered.
    before: Option<BTreeMap<u32, u32>>,
}

impl Covered {
    fn has(&self, slot: Option<(Slot, Shape)>, address: Address) -> bool {
        let segment = address.segment();
        let Some((at, _)) = slot else { return false };
        let is_new = |before: &BTreeMap<u32, u32>| before.get(&segment).is_none_or(|&end| at.stripe >= end);
        let one = |parts: &Parts| parts.places.has(address.place()) || parts.proved.has(at.stripe);
        self.segments.get(&segment) == Some(&true)
            || self.before.as_ref().is_some_and(is_new)
            || self.parts.get(&segment).is_some_and(one)
    }

    fn has_stripe(&self, segment: u32, stripe: u32) -> bool {
        let has = |parts: &Parts| parts.stripes.has(stripe) || parts.proved.has(stripe);
        self.parts.get(&segment).is_some_and(has)
    }
}

/// Where a scrub begins, or goes on.
#[derive(Clone, Default)]
struct Start {
    /// Segments below this were gone over,
    segment: u32,
    /// since this moment,
    began: u64,
    /// with these findings.
    found: Checked,
    /// Uberblocks tell of it.
    is_told: bool,
}

/// A check under way.
struct Check<'a> {
    core: &'a Core,
    scrub: &'a Scrub,
    /// It writes anew what is wrong.
    heals: bool,
    checked: Checked,
    /// Blocks of volumes that are lost.
    lost: Blocks,
    covered: Covered,
    /// The map is to be gone through: summaries did not tell all.
    walks: bool,
    /// Pages are to be written elsewhere.
    rewrites_pages: bool,
    /// Pages of the map that are lost, by their places: what is below them has been counted.
    lost_pages: BTreeSet<Address>,
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

impl Core {
    /// Goes over all that is stored, beside clients, in a task of its own.
    ///
    /// # Errors
    /// [`ProcessError::Busy`]; [`ProcessError::Volume`] of a pool that stops, is broken or is not written to.
    pub(crate) fn begin_scrub(self: &Rc<Self>, kind: ScrubKind) -> Result<Scrub, ScrubError> {
        self.begin_scrub_at(kind, Start { is_told: true, ..Start::default() })
    }

    /// Has the scrub go on that was under way or paused when the pool was closed, or its server was killed.
    ///
    /// # Errors
    /// As of [`Core::begin_scrub`].
    pub(crate) fn resume_scrub(self: &Rc<Self>) -> Result<Option<Scrub>, ScrubError> {
        let record = self.scrubs.on_record();
        if !record.is_open() {
            return Ok(None);
        }
        let kind = if record.heals { ScrubKind::Repair } else { ScrubKind::Check };
        let start = Start {
            segment: record.segment,
            began: record.began,
            found: Checked::known(&record),
            is_told: true,
        };
        let scrub = self.begin_scrub_at(kind, start)?;
        if record.state == ScrubState::Paused {
            scrub.pause();
        }
        Ok(Some(scrub))
    }

    fn begin_scrub_at(self: &Rc<Self>, kind: ScrubKind, start: Start) -> Result<Scrub, ScrubError> {
        let refused = match () {
            () if self.run.is_stopping() => Some(VolumeError::Stopping),
            () if self.record.is_broken() => Some(VolumeError::TooManyLost),
            () if self.read_only && kind == ScrubKind::Repair => Some(VolumeError::ReadOnly),
            () => None,
        };
        if let Some(error) = refused {
            return Err(error.into());
        }
        let from = if start.segment == 0 { 0 } else { Written::of_all(self).start_of(start.segment) };
        let scrub = self.scrubs.begins(&self.set.io, kind, from)?;
        let began = if start.began > 0 { start.began } else { (self.config.clock)() };
        self.scrubs.opens(kind, began, start.segment, &start.found);
        let (core, own) = (Rc::clone(self), scrub.clone());
        drop(self.set.io.spawn(async move {
            core.happened_to_all(PoolEvent::ScrubStarted);
            let how = if start.segment > 0 { "goes on" } else { "has begun" };
            core.went_so(&format!("{kind} of all that is stored {how}"));
            core.put_scrub_on_record().await;
            {
                let _running = core.scrubs.runs();
                let (found, result) = core.go_over(&own, start, |_| {}).await;
                let (ended, error) = ((core.config.clock)(), result.err());
                let scrubbed = Scrubbed { kind, began, ended, found, error };
                // One that the end of the run ends goes on with the next.
                if !(error.is_some() && core.run.is_stopping()) {
                    core.went_so(&scrubbed.to_string());
                    core.scrubs.ended(scrubbed);
                }
            }
            core.put_scrub_on_record().await;
            core.happened_to_all(PoolEvent::ScrubEnded);
            core.room.notify();
        }));
        Ok(scrub)
    }

    /// Reads all that counts, and tells what of it is wrong; nothing is written. `reported` is called with the bytes of volumes gone over.
    pub(crate) async fn check(
        self: &Rc<Self>,
        mut reported: impl FnMut(u64),
    ) -> Result<Checked, VolumeError> {
        let error = |error: ScrubError| match error {
            ProcessError::Volume(error) => error,
            ProcessError::Busy(_) => VolumeError::Again,
            ProcessError::Interrupted => VolumeError::Stopping,
        };
        let scrub = self.scrubs.begins(&self.set.io, ScrubKind::Check, 0).map_err(error)?;
        let _running = self.scrubs.runs();
        let total: u64 = self.volumes.records().iter().map(|volume| volume.size).sum();
        let of_volumes = |end: u64| {
            let bytes = scrub.progress().total.max(1);
            reported((u128::from(total) * u128::from(end) / u128::from(bytes)) as u64);
        };
        let (checked, result) = self.go_over(&scrub, Start::default(), of_volumes).await;
        result.map(|()| checked).map_err(error)
    }

    /// Goes over all that is stored at this moment; `reported` is called with the bytes of members. Gives what was found, also by one that did
    /// not come to its end.
    async fn go_over(
        self: &Rc<Self>,
        scrub: &Scrub,
        start: Start,
        mut reported: impl FnMut(u64),
    ) -> (Checked, Result<(), ScrubError>) {
        let heals = scrub.kind() == ScrubKind::Repair;
        // Blocks that are lost stand in leaves then, which are gone over.
        let in_leaves = heals && self.some_checkpoint().await.is_ok();
        self.damage.borrow_mut().scrub_begins();
        let from = (start.segment, start.is_told);
        let mut check = Check {
            core: self,
            scrub,
            heals,
            checked: start.found,
            lost: Blocks::new(RANGES),
            covered: Covered::default(),
            walks: !in_leaves,
            rewrites_pages: false,
            lost_pages: BTreeSet::new(),
            stripes: BTreeMap::new(),
        };
        let mut result = check.segments(from, &mut reported).await;
        if result.is_ok() && check.walks {
            result = check.walk().await;
        }
        let Check { mut checked, lost, rewrites_pages, .. } = check;
        if rewrites_pages {
            let _written = self.some_checkpoint().await;
        }
        if checked.healed > 0 {
            let _stable = self.flush().await;
        }
        self.damage.borrow_mut().scrub_ends(result.is_ok() && checked.is_complete());
        (checked.damaged, checked.damaged_beyond) = (self.damaged(&lost), lost.beyond());
        (checked, result)
    }

    /// Has an uberblock say how far the scrub is, or that there is none any more.
    pub(crate) async fn put_scrub_on_record(&self) {
        if !self.read_only && !self.run.is_stopping() {
            let _broken = self.record(|_| {}).await;
        }
    }

    /// Waits until all has landed, or was given up, that was on its way when this was asked.
    pub(super) async fn all_landed(&self) {
        let begun = self.log.begun();
        // Pages that a checkpoint or a record of the table writes.
        drop(self.checkpoints.turn().await);
        self.log.landed.until(|| (self.log.settled() >= begun).then_some(())).await;
    }

    /// Whether a block that its member does not give is lost.
    async fn is_beyond_repair(&self, address: Address, sum: u32) -> bool {
        matches!(self.rebuilt(address, |block| checksum(block) == sum).await, Err(Unreadable::Lost))
    }
}

impl Check<'_> {
    /// Goes over all segments that hold something. Beside clients it has less than half of the time, as an array's check.
    async fn segments(
        &mut self,
        (from, is_told): (u32, bool),
        reported: &mut impl FnMut(u64),
    ) -> Result<(), ScrubError> {
        let core = self.core;
        let Some(kept) = core.kept() else { return Err(VolumeError::Stopping.into()) };
        let written = Written::of_all(&kept);
        self.scrub.set_total(written.bytes());
        if self.heals {
            self.covered.before = Some(written.segments().collect());
            // Of what is on its way nothing is live, so that a check passes it over.
            core.all_landed().await;
        }
        // Those that it has gone over before are done.
        let done =
            written.segments().map(|(segment, _)| (segment, true)).filter(|(segment, _)| *segment < from);
        self.covered.segments.extend(done);
        let begin = written.start_of(from);
        let (mut recorded, mut at) = (core.set.io.now(), from);
        let mut windows = Windows::new(&core.set.io, self.scrub.clone(), begin, written);
        let mut comparison = Comparison::new(core);
        while let Some((end, stretch)) = windows.advance().await? {
            if let Some(stretch) = stretch {
                // One that goes on begins with the segment that it was at: its findings count once that is done.
                if is_told && stretch.segment > at {
                    core.scrubs.reached(self.scrub.kind(), stretch.segment, &self.checked);
                }
                at = stretch.segment.max(at);
                comparison.go_over(&stretch, self).await;
            }
            if is_told {
                let now = core.set.io.now();
                if now.since(recorded) >= RECORDED {
                    recorded = now;
                    core.put_scrub_on_record().await;
                }
            }
            self.scrub.reached(end, 8 * self.checked.mismatches);
            reported(end);
        }
        comparison.end(self);
        Ok(())
    }

    /// A stripe is what it should be, and so many blocks of it count.
    fn is_right(&mut self, blocks: u64) {
        self.checked.blocks += blocks;
        if blocks > 0 {
            self.compared(Some(true));
        }
    }

    /// A block of a volume is lost.
    fn is_lost(&mut self, volume: u32, blocks: core::ops::Range<u64>, count: u64) {
        self.checked.lost += count;
        self.lost.add(volume, blocks.clone());
        self.core.lost(volume, blocks);
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
            self.is_lost(volume, block..block + 1, 1);
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
            let is_right = matches!(found, Ok(true));
            // A member that is silent or away may be back by now with what it is to get.
            let is_wrong = matches!(found, Ok(false) | Err(Absent::Gone));
            if let (Single::Page(page), false) = (single, is_right)
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
            if let Some((slot, _)) = slot.filter(|(slot, _)| is_wrong && !core.is_away(*slot)) {
                let block = core.rebuilt(address, |block| checksum(block) == sum).await;
                match block {
                    Ok(block) => self.mend(slot, Some(&block), single.key().map(|key| (key, address))).await,
                    Err(Unreadable::Lost) => self.mend(slot, None, None).await,
                    Err(Unreadable::Silent(_)) => {}
                }
            }
        }
    }

    /// Compares the parity of stripes of blocks that were read one by one: each once.
    async fn stripes(&mut self) {
        for (segment, stripes) in core::mem::take(&mut self.stripes) {
            for stripe in stripes.all() {
                let whole = self.core.stripe_agrees(segment, stripe).await;
                self.compared(whole);
                // It is not known what else should stand there: parity made of that might be the end of what can be rebuilt.
                self.checked.unhealed += u64::from(self.heals && whole == Some(false));
                self.covered.parts.entry(segment).or_default().stripes.mark(stripe);
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
        let blocks = self.slots_of(segment, shape, stripe).await;
        // A member that comes back meanwhile is believed to have what it missed of a segment in which nothing stands any more.
        if self.space.borrow().is_going(segment) {
            return None;
        }
        let blocks: Vec<Option<Vec<u8>>> = blocks.into_iter().map(Result::ok).collect();
        let is_there = blocks.iter().all(Option::is_some);
        is_there.then(|| is_whole(&blocks, usize::from(shape.data())))
    }
}
