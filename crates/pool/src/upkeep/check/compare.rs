//! Compares what was read of segments with their summaries, and parity with data; where these don't agree, with the map.
//!
//! A stripe that is whole, whose parity is that of its data and whose data are what its summary says, is what was written last. A member
//! that lost a write would give something older, and parity would not agree with that. So nothing has to be looked up of it. Of all other
//! stripes the map says what counts.

use core::cmp::Reverse;

use brindle_format::pool::place::{Address, Shape};
use brindle_format::pool::{Batch, Entry, EntryKind, Leaf, LeafKind, Pointer, SegmentClass, checksum};
use smallvec::SmallVec;

use super::stretch::{Look, Stretch};
use super::told::{SlotContent, Told};
use super::{Check, Parts};
use crate::core::Core;
use crate::read::Absent;
use crate::store::leaf::Located;
use crate::store::map::{Key, Known, Page};
use crate::store::space::Slot;
use crate::store::stripe::{is_parity_of, settle};
use crate::upkeep::tree::page_of;

/// Blocks of a segment that are gone over, stretch by stretch.
struct Segment {
    number: u32,
    shape: Shape,
    /// It holds pages: all batches of these have the number 0.
    is_of_pages: bool,
    /// Batches that may stand in the present stripe, the youngest first: several only where it is not sure which.
    batches: Vec<Told>,
    /// The end of the batch that is being gone over.
    batch_ends: u32,
    /// Stripes that have been gone over.
    stripes: u32,
    parts: Parts,
}

impl Segment {
    fn new(number: u32, shape: Shape, is_of_pages: bool) -> Self {
        let (batches, parts) = (Vec::new(), Parts::default());
        Self { number, shape, is_of_pages, batches, batch_ends: 0, stripes: 0, parts }
    }

    /// Batches begin with a stripe that may be what was written last, but for some that were written in an earlier use of the segment.
    fn may_begin(&mut self, found: impl Iterator<Item = Told>) {
        let fits = |batch: &Told| (batch.sequence == 0) == self.is_of_pages;
        let found: Vec<Told> = found.filter(fits).collect();
        self.batch_ends = found.iter().map(Told::end).fold(self.batch_ends, u32::max);
        self.batches.extend(found);
        self.batches.sort_by_key(|batch| (!batch.is_trusted, Reverse(batch.sequence)));
    }

    /// A batch is what was written last: no other stands where it does.
    fn trusts(&mut self, at: usize) {
        self.batches.swap(0, at);
        self.batches.truncate(1);
        for batch in &mut self.batches {
            batch.is_trusted = true;
            self.batch_ends = batch.end();
        }
    }
}

/// The comparison of all segments.
pub(super) struct Comparison<'a> {
    core: &'a Core,
    segment: Option<Segment>,
}

/// A block that is live, by the map.
#[derive(Clone, Copy)]
struct Live {
    slot: u8,
    address: Address,
    sum: u32,
    /// Its place in a volume, or its level and key as a page of the map.
    of: Named,
}

#[derive(Clone, Copy)]
enum Named {
    Block(Key),
    Page(u8, Key),
}

/// A stripe as its members gave it, and as it should be.
struct Closer {
    /// By slots.
    given: Vec<Result<Vec<u8>, Absent>>,
    /// All of its blocks as they should be; none if they can't be rebuilt.
    right: Option<Vec<Vec<u8>>>,
    /// The batch by which that is known: its number among those that may stand there.
    batch: Option<usize>,
    live: Vec<Live>,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(core: &'a Core) -> Self {
        Self { core, segment: None }
    }

    /// Compares a stretch.
    pub(super) async fn go_over(&mut self, stretch: &Stretch, check: &mut Check<'_>) {
        let (number, shape) = (stretch.segment, stretch.shape);
        if self.segment.as_ref().is_some_and(|now| now.number != number || now.shape != shape) {
            self.end(check);
        }
        let class = self.core.space.borrow().get(number).map(|segment| segment.record.class);
        let is_of_pages = class == Some(SegmentClass::Pages);
        let segment = self.segment.take();
        let mut segment = segment.unwrap_or_else(|| Segment::new(number, shape, is_of_pages));
        let look = stretch.look();
        for stripe in stretch.first..stretch.first + stretch.stripes {
            segment.stripes += 1;
            self.ask_summary(&mut segment, stretch, &look, stripe);
            if is_as_told(&segment, stretch, &look, stripe) {
                segment.parts.proved.mark(stripe);
                segment.trusts(0);
                let counts =
                    if check.heals { shape.data().into() } else { self.live(&segment, stripe).await.len() };
                check.is_right(counts as u64);
                check.walks = check.walks || names_lost(&segment, stretch, &look, stripe);
            } else {
                self.look_closer(&mut segment, stretch, &look, stripe, check).await;
            }
        }
        self.segment = Some(segment);
    }

    /// Nothing more of the segment before comes.
    pub(super) fn end(&mut self, check: &mut Check<'_>) {
        let Some(Segment { number, stripes, parts, .. }) = self.segment.take() else { return };
        let lives = || self.core.space.borrow().get(number).map_or(0, |segment| segment.lives());
        let proofs = parts.proved.count();
        let all = proofs == stripes || proofs == 0 && parts.places.count() >= lives();
        check.covered.segments.insert(number, all);
        if !all {
            check.walks = true;
            check.covered.parts.insert(number, parts);
        }
    }

    /// Notes what the summary in the first slot of a stripe tells, if one stands there or comes out of the others.
    fn ask_summary(&self, segment: &mut Segment, stretch: &Stretch, look: &Look<'_>, stripe: u32) {
        let (core, shape) = (self.core, segment.shape);
        segment.batches.retain(|batch| batch.end() > stripe);
        let address = Address::new(segment.number, shape.place(stripe, 0));
        let pool = core.label.get().pool;
        let block = stretch.block(look, stripe, 0).ok();
        let stands = block.and_then(|block| Batch::parse(block, pool, address).ok());
        match stands {
            Some(batch) => segment.may_begin(Told::new(batch, stripe, block).into_iter()),
            None if stripe < segment.batch_ends => {}
            None => {
                let all = core.summaries_in(&stretch.copied(look, stripe), shape, address).into_iter();
                segment.may_begin(all.filter_map(|batch| Told::new(batch, stripe, None)));
            }
        }
    }

    /// Looks at a stripe that is not as it should be, or of which parity does not prove that it is.
    async fn look_closer(
        &self,
        segment: &mut Segment,
        stretch: &Stretch,
        look: &Look<'_>,
        stripe: u32,
        check: &mut Check<'_>,
    ) {
        let (core, shape, number) = (self.core, segment.shape, segment.number);
        let is_away = |slot: u8| core.is_away(Slot { segment: number, stripe, slot });
        let mut given: Vec<Result<Vec<u8>, Absent>> =
            (0..shape.stripe).map(|slot| stretch.block(look, stripe, slot).map(<[u8]>::to_vec)).collect();
        if is_odd(segment, &given, stripe, is_away) {
            // Once more: it may be that a member was late, or that somebody mended it meanwhile.
            given = core.slots_of(segment.number, shape, stripe).await;
            let there = blocks_of(&given);
            if segment.batches.iter().all(|batch| batch.first == stripe) {
                let address = Address::new(segment.number, shape.place(stripe, 0));
                let all = core.summaries_in(&there, shape, address);
                if !all.is_empty() {
                    segment.batches.clear();
                    segment.may_begin(all.into_iter().filter_map(|batch| Told::new(batch, stripe, None)));
                }
            }
        }
        let live = self.live(segment, stripe).await;
        for one in &live {
            segment.parts.places.mark(one.address.place());
        }
        let told = self.solved(segment, stripe, &given, &live).await;
        if let Some((at, _)) = &told {
            segment.trusts(*at);
            segment.parts.proved.mark(stripe);
        }
        // A member that left meanwhile may have given something older than it was to have.
        for (_, block) in (0..).zip(&mut given).filter(|(slot, _)| is_away(*slot)) {
            *block = Err(Absent::Away);
            check.checked.unverified += 1;
        }
        let batch = told.as_ref().map(|_| 0);
        let right = told.map(|(_, right)| right).or_else(|| as_it_stands(shape, &given, &live));
        let closer = Closer { given, right, batch, live };
        if self.counts(segment, stripe, &closer).await && !core.space.borrow().is_going(number) {
            segment.parts.stripes.mark(stripe);
            self.judge(segment, stripe, &closer, check).await;
        }
    }

    /// A stripe as one of the batches says that may stand there, of which it is known that it is no older one: members that lost writes go
    /// on giving what was there before, with its summary.
    async fn solved(
        &self,
        segment: &mut Segment,
        stripe: u32,
        given: &[Result<Vec<u8>, Absent>],
        live: &[Live],
    ) -> Option<(usize, Vec<Vec<u8>>)> {
        let (shape, blocks) = (segment.shape, blocks_of(given));
        for at in 0..segment.batches.len() {
            let batch = &segment.batches[at];
            // A summary of an earlier use tells other sums of the blocks that took the place of its own.
            if live.iter().any(|live| batch.sum(shape, stripe, live.slot) != live.sum) {
                continue;
            }
            let expected: Vec<u32> = (0..shape.data()).map(|slot| batch.sum(shape, stripe, slot)).collect();
            let Some(right) = settle(&blocks, shape, &expected) else { continue };
            let agreeing = blocks.iter().zip(&right).filter(|(block, right)| block.as_ref() == Some(*right));
            // Two members at least agree, one of which has the summary, or more than are needed to tell the rest.
            let has_entry = |slot| matches!(batch.content(shape, stripe, slot), SlotContent::Entry(_));
            let is_sure = batch.is_trusted
                || agreeing.count() > usize::from(shape.data())
                || batch.first == stripe && (1..shape.data()).any(has_entry);
            if is_sure || self.is_live(segment, at).await {
                return Some((at, right));
            }
        }
        None
    }

    /// Counts what is wrong of a stripe, and has it written anew.
    async fn judge(&self, segment: &Segment, stripe: u32, closer: &Closer, check: &mut Check<'_>) {
        let (core, shape) = (self.core, segment.shape);
        for slot in 0..shape.data() {
            let right = closer.right.as_ref().map(|right| &right[usize::from(slot)]);
            let given = &closer.given[usize::from(slot)];
            let live = closer.live.iter().find(|live| live.slot == slot);
            let found = match (live, right) {
                (Some(live), _) => given.as_ref().map(|block| checksum(block) == live.sum),
                (None, Some(right)) => given.as_ref().map(|block| block == right),
                (None, None) => continue,
            };
            let found = found.map_err(|why| *why);
            let address = Address::new(segment.number, shape.place(stripe, slot));
            match live {
                Some(Live { of: Named::Block(key), sum, .. }) => {
                    let is_lost = async || right.is_none() && core.is_beyond_repair(address, *sum).await;
                    check.judge((Some(*key), address), found, is_lost).await;
                }
                Some(Live { of: Named::Page(level, key), sum, .. }) => {
                    let is_lost = right.is_none() && !matches!(found, Ok(true));
                    if is_lost && core.is_beyond_repair(address, *sum).await {
                        let pointer = Pointer { address, checksum: *sum };
                        check.page_is_lost(Page { level: *level, at: *key, pointer }).await;
                    }
                    check.judge((None, address), found, async || false).await;
                }
                // Nothing names it, or it is a page that only its summary tells.
                None if matches!(found, Ok(true)) => check.checked.blocks += u64::from(check.heals),
                None if core.is_away(Slot { segment: segment.number, stripe, slot }) => {}
                None => check.judge((None, address), found, async || false).await,
            }
        }
        let all: Option<Vec<&[u8]>> = closer.given.iter().map(|block| block.as_deref().ok()).collect();
        let agrees = |blocks: Vec<&[u8]>| {
            let (data, parity) = blocks.split_at(usize::from(shape.data()));
            is_parity_of(data, parity)
        };
        if shape.parity > 0 {
            check.compared(all.map(agrees));
        }
        self.mend(segment, stripe, closer, check).await;
    }

    /// Writes blocks of a stripe anew that are not what they should be, if the check does that.
    async fn mend(&self, segment: &Segment, stripe: u32, closer: &Closer, check: &mut Check<'_>) {
        let shape = segment.shape;
        for (slot, given) in (0..shape.stripe).zip(&closer.given) {
            let right = closer.right.as_ref().map(|right| &right[usize::from(slot)]);
            let live = closer.live.iter().find(|live| live.slot == slot);
            let is_wrong = match (given, right, live) {
                (Ok(block), Some(right), _) => block != right,
                (Ok(block), None, Some(live)) => checksum(block) != live.sum,
                (Ok(_), None, None) | (Err(Absent::Silent(_) | Absent::Away), ..) => false,
                (Err(Absent::Gone), right, live) => right.is_some() || live.is_some(),
            };
            let at = Slot { segment: segment.number, stripe, slot };
            if is_wrong && !self.core.is_away(at) {
                let key = live.and_then(|live| match live.of {
                    Named::Block(key) => Some((key, live.address)),
                    Named::Page(..) => None,
                });
                check.mend(at, right.map(Vec::as_slice), key).await;
            }
        }
    }

    /// Live blocks of a stripe, by the map.
    async fn live(&self, segment: &Segment, stripe: u32) -> Vec<Live> {
        let (shape, mut live) = (segment.shape, Vec::new());
        for slot in 0..shape.data() {
            let address = Address::new(segment.number, shape.place(stripe, slot));
            for batch in &segment.batches {
                let SlotContent::Entry(entry) = batch.content(shape, stripe, slot) else { continue };
                if let Some((sum, of)) = self.named(entry, address).await {
                    live.push(Live { slot, address, sum, of });
                    break;
                }
            }
        }
        live
    }

    /// Whether something of a batch is live: then members have taken all of it.
    async fn is_live(&self, segment: &mut Segment, at: usize) -> bool {
        if let Some(lives) = segment.batches[at].lives {
            return lives;
        }
        let (shape, batch) = (segment.shape, &segment.batches[at]);
        let mut lives = false;
        'all: for stripe in batch.first..batch.end().min(shape.stripes()) {
            for slot in 0..shape.data() {
                let address = Address::new(segment.number, shape.place(stripe, slot));
                let SlotContent::Entry(entry) = batch.content(shape, stripe, slot) else { continue };
                // The same block may have stood there in an earlier use.
                if self.named(entry, address).await.is_some_and(|(sum, _)| sum == entry.checksum) {
                    lives = true;
                    break 'all;
                }
            }
        }
        segment.batches[at].lives = Some(lives);
        lives
    }

    /// The block of an entry as the map has it, if it stands at an address.
    async fn named(&self, entry: &Entry, address: Address) -> Option<(u32, Named)> {
        let (core, key) = (self.core, (entry.volume, entry.block));
        if let Some((level, key, _)) = page_of(entry, address) {
            // One of an earlier use may be none of the map any more.
            return core.page_sum(level, key, address).await.map(|sum| (sum, Named::Page(level, key)));
        }
        if entry.kind != EntryKind::Data || !core.volumes.is_there(entry.volume) {
            return None;
        }
        // A leaf that can't be read is told when the map is gone through.
        match core.locate(key).await {
            Ok((Located::At(at, sum), _)) if at == address => Some((sum, Named::Block(key))),
            _ => None,
        }
    }

    /// A stripe in which nothing is live counts if it is of a batch that is: what is right of it is needed to rebuild others, or tells what they are.
    async fn counts(&self, segment: &mut Segment, stripe: u32, closer: &Closer) -> bool {
        if !closer.live.is_empty() {
            return true;
        }
        let (Some(at), Some(right)) = (closer.batch, &closer.right) else { return false };
        let is_wrong = |(slot, right): (u8, &Vec<u8>)| {
            closer.given[usize::from(slot)].as_ref().ok() != Some(right)
                && !self.core.is_away(Slot { segment: segment.number, stripe, slot })
        };
        (0..).zip(right).any(is_wrong)
            && (has_other_pages(segment.shape, stripe, &segment.batches[at])
                || self.is_live(segment, at).await)
    }
}

/// The blocks that are there.
fn blocks_of(given: &[Result<Vec<u8>, Absent>]) -> Vec<Option<Vec<u8>>> {
    given.iter().map(|block| block.as_ref().ok().cloned()).collect()
}

/// The sum of what is live in a slot.
fn sum_of(live: &[Live], slot: u8) -> Option<u32> {
    live.iter().find(|live| live.slot == slot).map(|live| live.sum)
}

/// A stripe is all there, is what one summary says, and parity agrees.
fn is_as_told(segment: &Segment, stretch: &Stretch, look: &Look<'_>, stripe: u32) -> bool {
    let shape = segment.shape;
    let [batch] = &segment.batches[..] else { return false };
    let blocks: Option<SmallVec<[&[u8]; 16]>> =
        (0..shape.stripe).map(|slot| stretch.block(look, stripe, slot).ok()).collect();
    let Some(blocks) = blocks.filter(|_| shape.parity > 0) else { return false };
    let (data, parity) = blocks.split_at(usize::from(shape.data()));
    let is_right = |(slot, block): (u8, &&[u8])| checksum(block) == batch.sum(shape, stripe, slot);
    (0..).zip(data).all(is_right) && is_parity_of(data, parity)
}

/// A leaf of the stripe says that blocks are lost.
fn names_lost(segment: &Segment, stretch: &Stretch, look: &Look<'_>, stripe: u32) -> bool {
    let [batch] = &segment.batches[..] else { return false };
    (0..segment.shape.data()).any(|slot| {
        let SlotContent::Entry(entry) = batch.content(segment.shape, stripe, slot) else { return false };
        let is_leaf = page_of(entry, Address::NONE).is_some_and(|(level, ..)| level == 0);
        let block = stretch.block(look, stripe, slot).ok().filter(|_| is_leaf);
        let leaf = block.and_then(|block| Leaf::parse(block, entry.volume).ok());
        leaf.is_some_and(|leaf| leaf.0.iter().any(|entry| entry.kind == LeafKind::Lost))
    })
}

/// Something of a stripe is not what the one summary says, or can't be read though its member is there.
fn is_odd(
    segment: &Segment,
    given: &[Result<Vec<u8>, Absent>],
    stripe: u32,
    is_away: impl Fn(u8) -> bool,
) -> bool {
    let shape = segment.shape;
    let [batch] = &segment.batches[..] else { return true };
    let (data, parity) = given.split_at(usize::from(shape.data()));
    let is_wrong = |(slot, block): (u8, &Result<Vec<u8>, Absent>)| match block {
        Ok(block) => checksum(block) != batch.sum(shape, stripe, slot),
        Err(_) => !is_away(slot),
    };
    if (0..).zip(data).any(is_wrong) || (shape.data()..).zip(parity).any(|(n, b)| b.is_err() && !is_away(n)) {
        return true;
    }
    let all: Option<Vec<&[u8]>> = given.iter().map(|block| block.as_deref().ok()).collect();
    all.is_some_and(|all| {
        let (data, parity) = all.split_at(usize::from(shape.data()));
        !is_parity_of(data, parity)
    })
}

/// A stripe as it stands, but for what is live.
fn as_it_stands(shape: Shape, given: &[Result<Vec<u8>, Absent>], live: &[Live]) -> Option<Vec<Vec<u8>>> {
    let blocks = blocks_of(given);
    let stands = |slot: u8| blocks[usize::from(slot)].as_ref().map(|block| checksum(block));
    let expected: Option<Vec<u32>> =
        (0..shape.data()).map(|slot| sum_of(live, slot).or_else(|| stands(slot))).collect();
    settle(&blocks, shape, &expected?)
}

/// A stripe has pages that are none of the map, which nothing but their summary tells.
fn has_other_pages(shape: Shape, stripe: u32, batch: &Told) -> bool {
    (0..shape.data()).any(|slot| match batch.content(shape, stripe, slot) {
        SlotContent::Entry(entry) => entry.kind == EntryKind::Page && page_of(entry, Address::NONE).is_none(),
        SlotContent::Summary | SlotContent::Filling => false,
    })
}

impl Core {
    /// The sum of a page of the map that stands at an address, if one does.
    async fn page_sum(&self, level: u8, key: Key, address: Address) -> Option<u32> {
        loop {
            let known = self.map.borrow().tree.known(level, key);
            match known {
                // Blocks below a page that can't be read are told when the map is gone through.
                Known::Unread(page) => self.load(page).await.ok()?,
                Known::There { pointer, .. } if pointer.address == address => return Some(pointer.checksum),
                Known::There { .. } | Known::Gone => return None,
            }
        }
    }
}
