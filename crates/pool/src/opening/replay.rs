//! Recovery: batches of the log that no checkpoint has are put into the map again.
//!
//! Segments of the log are read from their first stripe on, as far as batches can be. A batch counts if it is of the
//! opening that wrote the last uberblock, is younger than its checkpoint, and each of its blocks matches the checksum
//! in its summary. As many blocks as there is parity may be rebuilt for that; the summary itself may be among these, also where a
//! sound one stands: that of a batch before it, if a member lost the write.
//! Those that count are applied in the order of their numbers. One that is not whole was never acknowledged, unless a
//! later record says that it was on stable storage.

use core::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use brindle_format::pool::place::{Address, Shape};
use brindle_format::pool::{BLOCK, Batch, EntryKind, SegmentState, checksum};
use brindle_io::sync::join_all;

use crate::core::Core;
use crate::log::batch::apply;
use crate::read::candidates;
use crate::store::leaf::Located;
use crate::store::map::ENDLESS;
use crate::store::space::{BATCH_BLOCKS, Grant, IN_FLIGHT, Slot};
use crate::store::stripe::settle;

/// Segments that are read at a time.
const SIDE_BY_SIDE: usize = 8;
/// Batches that are put into the map before others have a turn.
const IN_A_TURN: usize = 64;
/// Bytes of each member that are read at a time.
const STEP: usize = 256 << 10;

/// A slot that is wrong on its member, and what it should be.
pub(crate) type WrongSlot = (Slot, Vec<u8>);

/// A batch that counts.
struct Whole {
    batch: Batch,
    grant: Grant,
    /// Blocks that members don't give as they should be;
    rebuilt: u64,
    /// and what is to be there, of those that can be written anew: of a member that is missing all blocks would take memory.
    wrong: Vec<WrongSlot>,
}

/// The content of a segment of the log.
#[derive(Default)]
struct Scanned {
    whole: Vec<Whole>,
    /// The greatest number, and what was stable, of all summaries of this opening.
    last: u64,
    durable: u64,
}

/// The findings of recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Batches that were applied.
    pub batches: u64,
    /// Blocks of these that were rebuilt.
    pub rebuilt: u64,
    /// Batches that were on stable storage and are gone.
    pub lost: u64,
    /// The first of these.
    pub first_lost: u64,
}

/// Blocks of a segment, in the order of its spots, as far as they have been read and are needed.
struct Places<'a> {
    core: &'a Core,
    segment: u32,
    shape: Shape,
    first: u32,
    blocks: VecDeque<Option<Vec<u8>>>,
}

impl<'a> Places<'a> {
    /// None of a segment has been read.
    fn new(core: &'a Core, segment: u32, shape: Shape) -> Self {
        Self { core, segment, shape, first: 0, blocks: VecDeque::new() }
    }

    /// The blocks of a stripe, by slots.
    async fn stripe(&mut self, stripe: u32) -> Vec<Option<Vec<u8>>> {
        let wide = u32::from(self.shape.stripe);
        let end = (stripe + 1) * wide;
        while self.first + (self.blocks.len() as u32) < end {
            self.more().await;
        }
        let shape = self.shape;
        let at = |slot: u8| self.blocks[(shape.spot_number(stripe, slot) - self.first) as usize].clone();
        (0..shape.stripe).map(at).collect()
    }

    /// Nothing before this stripe is wanted any more.
    fn forget(&mut self, stripe: u32) {
        let to = stripe * u32::from(self.shape.stripe);
        while self.first < to && self.blocks.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// Reads some more rows, each member's in one piece.
    async fn more(&mut self) {
        let width = usize::from(self.shape.width());
        let next = self.first + self.blocks.len() as u32;
        let row = next / width as u32;
        let rows = (self.shape.rows - row).min((STEP / BLOCK) as u32) as usize;
        let core = self.core;
        let column = |n: usize| core.column(self.segment, row * width as u32 + n as u32, rows);
        let columns = join_all((0..width).map(column)).await;
        for r in 0..rows {
            for column in &columns {
                self.blocks.push_back(column[r].clone());
            }
        }
    }
}

impl Core {
    /// Blocks of one member from a spot of a segment on, row by row.
    async fn column(&self, segment: u32, number: u32, rows: usize) -> Vec<Option<Vec<u8>>> {
        let spot = self.space.borrow().source_of_number(segment, number);
        let Some((role, offset)) = spot else { return vec![None; rows] };
        let device = self.set.members.readable(role, u64::MAX);
        let Some(device) = device else { return vec![None; rows] };
        let buf = self.reads.alloc(rows * BLOCK).await;
        let mut reading = self.set.door(None).ask();
        reading.read(device, offset, &buf.all());
        if reading.submit().await.is_ok() {
            let bytes = buf.bytes();
            return bytes.chunks(BLOCK).map(|block| Some(block.to_vec())).collect();
        }
        drop(buf);
        // Some of it may be read.
        let mut blocks = Vec::new();
        for row in 0..rows as u64 {
            let buf = self.reads.alloc(BLOCK).await;
            let mut reading = self.set.door(None).ask();
            reading.read(device, offset + row * BLOCK as u64, &buf.all());
            let well = reading.submit().await.is_ok();
            blocks.push(well.then(|| buf.bytes().to_vec()));
        }
        blocks
    }

    /// Puts batches of the log into the map. Gives the blocks of these that are wrong on their members, and what they should be.
    pub(crate) async fn replay(&self) -> (Recovered, Vec<WrongSlot>) {
        // Nothing was written after its end.
        if self.record.last.borrow().stopped {
            return Default::default();
        }
        let logs: Vec<u32> = {
            let space = self.space.borrow();
            let is_log = |segment: &crate::store::space::Segment| segment.record.state == SegmentState::Log;
            (0..).zip(&space.segments).filter(|(_, segment)| is_log(segment)).map(|(n, _)| n).collect()
        };
        let checkpoint = self.record.last.borrow().sequence;
        let mut whole: BTreeMap<u64, Whole> = BTreeMap::new();
        let (mut last, mut durable) = (checkpoint, checkpoint);
        for some in logs.chunks(SIDE_BY_SIDE) {
            for scanned in join_all(some.iter().map(|&n| self.scan(n))).await {
                last = last.max(scanned.last);
                durable = durable.max(scanned.durable);
                for one in scanned.whole {
                    // One that was refused somewhere may have gone elsewhere without the last of its entries.
                    let known = whole.get(&one.batch.sequence).map(|known| known.batch.entries.len());
                    if known.is_none_or(|known| known < one.batch.entries.len()) {
                        whole.insert(one.batch.sequence, one);
                    }
                }
            }
        }
        let mut recovered = Recovered { batches: whole.len() as u64, ..Recovered::default() };
        (recovered.lost, recovered.first_lost) = lost(&whole, checkpoint, durable);
        for (n, one) in whole.values().enumerate() {
            if n % IN_A_TURN == IN_A_TURN - 1 {
                self.set.io.yield_now().await;
            }
            let (mut map, mut space) = (self.map.borrow_mut(), self.space.borrow_mut());
            apply(&mut map, &mut space, one.grant, &one.batch.entries);
            space.found(one.grant, one.batch.sequence);
            for entry in one.batch.entries.iter().filter(|entry| entry.kind == EntryKind::Destroyed) {
                self.volumes.remove(entry.volume);
            }
        }
        self.forget_others(whole.values().flat_map(|one| &one.batch.entries).map(|entry| entry.volume));
        self.log.recovered(last);
        recovered.rebuilt = whole.values().map(|one| one.rebuilt).sum();
        (recovered, whole.into_values().flat_map(|one| one.wrong).collect())
    }

    /// A batch that counts, with blocks that are wrong on members.
    fn counts(&self, batch: Batch, grant: Grant, mut wrong: Vec<WrongSlot>) -> Whole {
        let space = self.space.borrow();
        // A member that lacks a segment is resilvered.
        wrong.retain(|(slot, _)| space.source_of_slot(*slot).is_some());
        let rebuilt = wrong.len() as u64;
        wrong.retain(|(slot, _)| {
            let spot = space.spot_of_slot(*slot);
            spot.is_some_and(|(role, _)| self.set.members.writable(role).is_some())
        });
        Whole { batch, grant, rebuilt, wrong }
    }

    /// Blocks that were written to volumes that are gone are of no volume.
    fn forget_others(&self, volumes: impl Iterator<Item = u32>) {
        let gone: BTreeSet<u32> = volumes.filter(|&volume| !self.volumes.is_known(volume)).collect();
        for volume in gone {
            for old in self.map.borrow_mut().clear(volume, 0, ENDLESS) {
                if let Located::At(address, _) = old {
                    self.space.borrow_mut().count_young(address, false);
                }
            }
        }
    }

    /// Writes blocks of the log anew that are wrong on their members.
    pub(crate) async fn set_right(&self, wrong: &[WrongSlot]) {
        for (slot, block) in wrong {
            let spot = self.space.borrow().spot_of_slot(*slot);
            let Some((role, offset)) = spot else { continue };
            let Some(device) = self.set.members.writable(role) else { continue };
            let buf = self.reads.alloc(BLOCK).await;
            buf.bytes_mut().copy_from_slice(block);
            let mut writing = self.set.door(None).ask();
            writing.write(device, offset, &buf.all(), false);
            // A bad place stays what it is: others of the stripe make up for it.
            let done = writing.submit().await;
            let _stays = self.landed(&done).await;
        }
    }

    async fn scan(&self, segment: u32) -> Scanned {
        let shape = self.space.borrow().get(segment).map(|segment| segment.record.shape());
        let Some(shape) = shape else { return Scanned::default() };
        let (opening, checkpoint) = {
            let record = self.record.last.borrow();
            (record.opening, record.sequence)
        };
        let mut places = Places::new(self, segment, shape);
        let mut scanned = Scanned::default();
        // Batches are written side by side: behind one that is missing there may be others.
        let apart = IN_FLIGHT as u32 * BATCH_BLOCKS.div_ceil(u32::from(shape.data())) + 1;
        let (mut stripe, mut gap, mut old) = (0, 0, 0);
        while stripe < shape.stripes() && gap <= apart {
            places.forget(stripe);
            let blocks = places.stripe(stripe).await;
            let address = Address::new(segment, shape.place(stripe, 0));
            let mut counts = None;
            for batch in self.summaries_in(&blocks, shape, address) {
                if batch.opening != opening {
                    continue;
                }
                scanned.last = scanned.last.max(batch.sequence);
                scanned.durable = scanned.durable.max(batch.durable);
                let stripes = u32::from(batch.stripes);
                let grant = Grant { segment, shape, stripe, stripes };
                let fits = stripe + stripes <= shape.stripes() && batch.blocks() <= grant.blocks();
                if fits && let Some(wrong) = verify(&mut places, &batch, grant).await {
                    counts = Some(self.counts(batch, grant, wrong));
                    break;
                }
            }
            match counts {
                Some(whole) if whole.batch.sequence > checkpoint => {
                    (stripe, gap) = (stripe + whole.grant.stripes, 0);
                    scanned.whole.push(whole);
                }
                // One of an earlier use, which a member shows that lost writes, may lie over younger ones.
                Some(whole) => (stripe, gap, old) = (stripe + 1, 0, stripe + whole.grant.stripes),
                None => (stripe, gap) = (stripe + 1, if stripe < old { 0 } else { gap + 1 }),
            }
        }
        scanned
    }

    /// The summaries that may stand in the first slot of a stripe, the youngest first.
    pub(crate) fn summaries_in(
        &self,
        blocks: &[Option<Vec<u8>>],
        shape: Shape,
        address: Address,
    ) -> Vec<Batch> {
        let pool = self.label.get().pool;
        let mut all = candidates(blocks, shape, 0, |block| Batch::parse(block, pool, address).ok());
        all.sort_by_key(|batch| Reverse(batch.sequence));
        all
    }
}

/// Batches behind a checkpoint that were on stable storage and are not there: how many, and the first. Summaries say what was stable, and may
/// say anything: nothing is gone through number by number.
fn lost<T>(whole: &BTreeMap<u64, T>, checkpoint: u64, durable: u64) -> (u64, u64) {
    let there = whole.range(..=durable).count() as u64;
    let lost = (durable - checkpoint).saturating_sub(there);
    let in_line = (checkpoint + 1..).zip(whole.keys()).take_while(|(number, key)| number == *key).count();
    (lost, if lost > 0 { checkpoint + 1 + in_line as u64 } else { 0 })
}

/// Holds all blocks of a batch against its summary; gives those that are wrong on their members, or nothing if it is not whole.
async fn verify(places: &mut Places<'_>, batch: &Batch, grant: Grant) -> Option<Vec<WrongSlot>> {
    let shape = grant.shape;
    let mut sums = batch.entries.iter().filter(|entry| entry.kind.has_block()).map(|entry| entry.checksum);
    let mut wrong = Vec::new();
    let summary = batch.encode().ok()?;
    let zero = checksum(&[0; BLOCK]);
    for stripe in grant.stripe..grant.stripe + grant.stripes {
        let expected: Vec<u32> = (0..shape.data())
            .map(|slot| match (stripe == grant.stripe, slot) {
                (true, 0) => checksum(&summary),
                _ => sums.next().unwrap_or(zero),
            })
            .collect();
        let blocks = places.stripe(stripe).await;
        let right = settle(&blocks, shape, &expected)?;
        for (slot, block) in (0..).zip(right) {
            if blocks[usize::from(slot)].as_ref() != Some(&block) {
                wrong.push((Slot { segment: grant.segment, stripe, slot }, block));
            }
        }
    }
    Some(wrong)
}
