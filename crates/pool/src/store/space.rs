//! Segments: free ones, ones of the log, open and closed ones, and how much of each is in use.
//!
//! A segment that is free becomes one of the log by a checkpoint, which recovery reads, and is closed when it is full. It is free
//! again by the checkpoint after which nothing names it, once that stands on all members and no task reads it any more. The same
//! checkpoint gives it to the log, which is written once that stands. So does a record of the table of segments alone: see `upkeep::reuse`.

mod counts;
mod grant;
mod growth;
mod lacking;
mod pages;
mod records;
mod reuse;
mod room;
mod slots;
mod sold;
mod sorts;
mod totals;
mod victims;
mod wear;

pub(crate) use grant::{Grant, group};
pub(crate) use reuse::Gains;
pub(crate) use room::segments_at_most;
pub(crate) use slots::Slot;
pub(crate) use sold::sold;
pub(crate) use victims::{Victims, Wanted};

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use brindle_format::pool::place::{Address, Shape};
use brindle_format::pool::{Label, Run, SEGMENTS, SegmentClass, SegmentRecord, SegmentState, Vdev, unit_of};
use smallvec::SmallVec;

use crate::role::{members_of, vacant_of};
use crate::store::table::Touched;
use grant::chunk_of;
use growth::blank;
use records::reshape;
use sorts::Sort;

/// The most stripes that batches under way at a time can lie apart: recovery looks no further behind the last batch.
pub(crate) const IN_FLIGHT: usize = 8;
/// The most data blocks of a batch, its summary among them.
pub(crate) const BATCH_BLOCKS: u32 = 169;
/// Segments of the log of a vdev that only cleaning may take, and of these those that only what gives room back may take.
const FOR_CLEANING: usize = 3;
const FOR_ZEROES: usize = 1;
/// Unused segments of the log that a vdev has at least while their shape changes.
const FEW_LOG: usize = FOR_CLEANING + 6;
/// The most unused segments of the log of a vdev.
const MOST_LOG: usize = 256;
/// The most segments of a vdev that one checkpoint frees.
const TURNED_OVER: usize = 1 << 14;
/// The fewest units of a vdev.
pub(crate) const FEWEST_UNITS: u32 = 64;

/// How many of the last segments of the log a batch may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// None: it is of users.
    User,
    /// Those of cleaning.
    Cleaning,
    /// All of them: it gives room back.
    GivesBack,
}

impl Urgency {
    fn leaves(self) -> usize {
        match self {
            Self::User => FOR_CLEANING,
            Self::Cleaning => FOR_ZEROES,
            Self::GivesBack => 0,
        }
    }
}

/// The use of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stream {
    /// Blocks of users in whole rows.
    Rows,
    /// A few blocks of users, in narrow stripes.
    Short,
    /// Blocks that cleaning moves.
    Cold,
    /// Zeroes, and the ends of volumes: nothing of such a segment is live, so that the next checkpoint gives all of it back.
    Zeroes,
}

impl Stream {
    fn class(self) -> SegmentClass {
        match self {
            Self::Rows => SegmentClass::Rows,
            Self::Short | Self::Zeroes => SegmentClass::Short,
            Self::Cold => SegmentClass::Cold,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Free,
    /// Of the log, unused.
    Log,
    Open,
    Closed,
    /// It is free when the checkpoint that says so stands everywhere.
    Freeing,
    /// Of no vdev.
    Gap,
}

pub(crate) struct Segment {
    pub(crate) record: SegmentRecord,
    usage: Use,
    /// Readers that found it by the map.
    pins: u32,
    /// How often it has held something since the pool was opened, and became free.
    pub(crate) reuses: u32,
    /// Of its live blocks, the ones that are named by changes which no checkpoint has taken yet.
    young: u32,
    /// Of its live blocks, the ones that the next checkpoint finds dead, as far as that is known.
    dying: u32,
    /// Something of what a member lacks could not be made of the others.
    gave_up: bool,
    /// Members that have what the table on record says they lack: until that says otherwise no other can be done without instead.
    owed: u64,
    /// Among which it is kept.
    sort: Sort,
}

impl Segment {
    fn of(record: SegmentRecord, usage: Use) -> Self {
        Self {
            record,
            usage,
            pins: 0,
            reuses: 0,
            young: 0,
            dying: 0,
            gave_up: false,
            owed: 0,
            sort: Sort::Other,
        }
    }
}

#[derive(Clone, Copy)]
struct Open {
    segment: u32,
    next: u32,
}

/// The segments of one vdev.
struct Unit {
    vdev: Vdev,
    /// Its members, in the order of their roles.
    members: Vec<u16>,
    /// Roles that no member has, a bit each.
    vacant: u64,
    /// Its segments.
    runs: Vec<Run>,
    /// Segments may have a turn.
    turns: bool,
    free: BTreeSet<u32>,
    /// Closed segments of which nothing is live, as far as is known, and those of pages.
    waiting: BTreeSet<u32>,
    of_pages: BTreeSet<u32>,
    /// The segment behind that which was taken last.
    turn: u32,
    /// Segments that pages have taken.
    paged: u64,
    /// Segments that short batches have begun since the log got more.
    shorts: usize,
    rows: VecDeque<u32>,
    short: VecDeque<u32>,
    open: [Option<Open>; 4],
    pages: Option<Open>,
    /// Members that are in use, a bit each.
    present: u64,
    /// Members that are out of use, of which blocks are moved, a bit each.
    raised: u64,
    freeing: Vec<u32>,
    adding: Vec<u32>,
}

impl Unit {
    /// That of a vdev, without its segments.
    fn of(label: &Label, at: usize, present: u64) -> Self {
        Self {
            vdev: label.vdevs[at],
            members: members_of(label, at),
            vacant: vacant_of(label, at),
            runs: label.runs_of(at as u16).copied().collect(),
            turns: label.features.leaves().runs,
            free: BTreeSet::new(),
            waiting: BTreeSet::new(),
            of_pages: BTreeSet::new(),
            turn: 0,
            paged: 0,
            shorts: 0,
            rows: VecDeque::new(),
            short: VecDeque::new(),
            open: [None; 4],
            pages: None,
            present,
            raised: 0,
            freeing: Vec::new(),
            adding: Vec::new(),
        }
    }

    fn shape(&self, narrow: bool, parity: u8) -> Shape {
        let (width, rows) = (self.present.count_ones() as u8, 1 << (self.vdev.unit - 12));
        let stripe = if narrow { width.min(parity + 2) } else { width };
        let chunk = if stripe == width { chunk_of(rows) } else { 0 };
        Shape { members: self.present, rows, stripe, parity, chunk, turn: 0 }
    }

    fn log(&self) -> usize {
        self.rows.len() + self.short.len()
    }

    /// The numbers of its segments.
    fn range(&self) -> impl Iterator<Item = u32> + use<> {
        self.runs.clone().into_iter().flat_map(|run| run.first_segment..run.end())
    }

    fn whole(&self) -> bool {
        (self.present | self.vacant).count_ones() == u32::from(self.vdev.members)
    }

    /// Members that may be lost while all are there.
    fn parity(&self) -> u8 {
        self.vdev.parity.saturating_sub(self.vacant.count_ones() as u8)
    }
}

/// The record of a number that no run of segments has.
pub(crate) const GAP: SegmentRecord = SegmentRecord {
    state: SegmentState::Free,
    class: SegmentClass::None,
    stripe: 1,
    parity: 0,
    unit: 16,
    chunk: 0,
    turn: 0,
    members: 1,
    missing: 0,
    copied: 0,
    live: 0,
    stripes: 0,
    sequence: 0,
    reused: false,
};

/// All segments of a pool.
pub(crate) struct Space {
    pub(crate) segments: Vec<Segment>,
    /// Those that the table of segments lies in, as long as that has not been read: nothing else is known then.
    rooted: BTreeMap<u32, Segment>,
    /// Pages of their table with records that may have changed since.
    pub(crate) touched: Touched,
    /// Runs of segments of all vdevs, in the order of their numbers.
    runs: Vec<Run>,
    units: Vec<Unit>,
    turn: usize,
    /// Segments that became free since the pool was opened.
    pub(crate) freed: u64,
    /// The same, without segments of pages, and less segments that cleaning took: both take as many again.
    pub(crate) gained: i64,
    /// Pages that a checkpoint may have to write, for which room is kept.
    pub(crate) pages: u64,
    /// Of these, pages without which there is no next checkpoint: not even cleaning gets of their room.
    pub(crate) least: u64,
    /// Bytes of volumes.
    pub(crate) sold: u64,
    /// Changes of the map after which a checkpoint is due, if segments become free by checkpoints alone.
    pub(crate) changes: Option<u64>,
}

impl Space {
    /// A pool whose table of segments has not been read: none of them takes memory, and those alone are known that the table lies in.
    pub(crate) fn unread(label: &Label, rooted: BTreeMap<u32, SegmentRecord>) -> Self {
        let rooted = rooted.into_iter().map(|(n, record)| (n, Segment::of(record, Use::Closed)));
        let space = Self::of(label, 0, &vec![0; label.vdevs.len()]);
        Self { rooted: rooted.collect(), ..space }
    }

    /// All vdevs of a pool, and which members of each are in use: so many segments are to come.
    pub(crate) fn of(label: &Label, count: usize, present: &[u64]) -> Self {
        let units = (0..label.vdevs.len()).zip(present).map(|(at, &present)| Unit::of(label, at, present));
        let units: Vec<Unit> = units.collect();
        Self {
            touched: Touched::all(count),
            segments: Vec::with_capacity(count),
            rooted: BTreeMap::new(),
            runs: label.runs.clone(),
            units,
            turn: 0,
            freed: 0,
            gained: 0,
            pages: 0,
            least: 0,
            sold: u64::MAX,
            changes: None,
        }
    }

    /// The next segments come, which have these records.
    pub(crate) fn found_next(&mut self, records: &[SegmentRecord]) {
        for record in records {
            let n = self.segments.len() as u32;
            let (at, is_free) = (self.vdev_of(n), record.state == SegmentState::Free);
            let usage = match at {
                None => Use::Gap,
                Some(_) if is_free => Use::Free,
                Some(_) => Use::Closed,
            };
            self.segments.push(Segment::of(*record, usage));
            if let Some(at) = at.filter(|_| is_free) {
                self.units[at].free.insert(n);
            }
            self.sort(n);
        }
    }

    /// The same of segments that hold nothing: so many.
    pub(crate) fn blank_next(&mut self, count: usize) {
        let blank_at = |n| self.vdev_of(n).map_or(GAP, |at| blank(&self.units[at].vdev));
        let records: Vec<SegmentRecord> = (self.segments.len() as u32..).take(count).map(blank_at).collect();
        self.found_next(&records);
    }

    /// The vdev of a segment, by its number, and its unit on each member.
    pub(crate) fn unit_of(&self, segment: u32) -> Option<(usize, u32)> {
        unit_of(&self.runs, segment).map(|(vdev, unit)| (vdev.into(), unit))
    }

    /// The vdev of a segment, by its number.
    pub(crate) fn vdev_of(&self, segment: u32) -> Option<usize> {
        Some(self.unit_of(segment)?.0)
    }

    pub(crate) fn get(&self, segment: u32) -> Option<&Segment> {
        // Once the table has been read it is among all others.
        self.segments.get(segment as usize).or_else(|| self.rooted.get(&segment))
    }

    /// Blocks are named, or are not any more.
    pub(crate) fn count(&mut self, address: Address, more: bool) {
        self.count_some(address.segment(), 1, more);
    }

    /// So many blocks of a segment are named, or are not any more.
    pub(crate) fn count_some(&mut self, n: u32, blocks: u32, more: bool) {
        if let Some(segment) = self.segments.get_mut(n as usize) {
            let live = &mut segment.record.live;
            *live = if more { live.saturating_add(blocks) } else { live.saturating_sub(blocks) };
            self.touched.mark(n);
            self.sort(n);
        }
    }

    /// Pages are named instead of others.
    pub(crate) fn exchange(&mut self, others: &[Address], pages: &[Address]) {
        pages.iter().for_each(|&address| self.count(address, true));
        others.iter().for_each(|&address| self.count(address, false));
    }

    /// The same by a change that the next checkpoint is to take: recovery finds it in the log, and counts it again.
    pub(crate) fn count_young(&mut self, address: Address, more: bool) {
        self.count(address, more);
        if let Some(segment) = self.segments.get_mut(address.segment() as usize) {
            let young = &mut segment.young;
            *young = if more { young.saturating_add(1) } else { young.saturating_sub(1) };
        }
    }

    /// A block is elsewhere, and the next checkpoint finds that out.
    pub(crate) fn dies(&mut self, address: Address) {
        if let Some(segment) = self.segments.get_mut(address.segment() as usize) {
            segment.dying += 1;
            self.sort(address.segment());
        }
    }

    /// A checkpoint, or the task that goes through leaves, found a block dead.
    pub(crate) fn died(&mut self, address: Address) {
        self.count(address, false);
        if let Some(segment) = self.segments.get_mut(address.segment() as usize) {
            segment.dying = segment.dying.saturating_sub(1);
            self.sort(address.segment());
        }
    }

    /// A checkpoint takes all changes.
    pub(crate) fn age(&mut self) {
        for page in self.touched.pages() {
            let some = self.segments.chunks_mut(SEGMENTS).nth(page).into_iter().flatten();
            some.for_each(|segment| segment.young = 0);
        }
    }

    /// A task reads a segment.
    pub(crate) fn pin(&mut self, segment: u32) {
        if let Some(segment) = self.segments.get_mut(segment as usize) {
            segment.pins += 1;
        }
    }

    pub(crate) fn unpin(&mut self, segment: u32) {
        if let Some(segment) = self.segments.get_mut(segment as usize) {
            segment.pins = segment.pins.saturating_sub(1);
        }
    }

    /// A batch was written: recovery has to know its number before the segment is anybody else's.
    pub(crate) fn written(&mut self, segment: u32, sequence: u64) {
        let record = &mut self.segments[segment as usize].record;
        record.sequence = record.sequence.max(sequence);
        self.touched.mark(segment);
    }

    /// Recovery has found a batch.
    pub(crate) fn found(&mut self, grant: Grant, sequence: u64) {
        if let Some(segment) = self.segments.get_mut(grant.segment as usize) {
            let record = &mut segment.record;
            record.sequence = record.sequence.max(sequence);
            record.stripes = record.stripes.max(grant.stripe + grant.stripes);
            self.touched.mark(grant.segment);
        }
    }

    /// Stripes for that many data blocks of a stream, or some of them; none where the log has no more room for it.
    /// The last segments of the log are kept for batches that may take them.
    pub(crate) fn take(&mut self, stream: Stream, blocks: u32, urgency: Urgency) -> Option<Grant> {
        let count = self.units.len();
        let mut order: SmallVec<[usize; 8]> = (0..count).map(|n| (self.turn + n) % count).collect();
        self.turn = (self.turn + 1) % count;
        // Whole vdevs come first, but those whose log is about to end come last: else small ones would be full before the others.
        order.sort_by_key(|&at| (self.is_low(at), !self.units[at].whole()));
        order.into_iter().find_map(|at| self.take_of(at, stream, blocks, urgency))
    }

    fn take_of(&mut self, at: usize, stream: Stream, blocks: u32, urgency: Urgency) -> Option<Grant> {
        let place = stream as usize;
        if let Some(open) = self.units[at].open[place] {
            if let Some(grant) = self.grant(open, blocks) {
                self.units[at].open[place] = Some(Open { next: grant.stripe + grant.stripes, ..open });
                return Some(grant);
            }
            self.units[at].open[place] = None;
            self.becomes(open.segment, Use::Closed);
        }
        let unit = &mut self.units[at];
        if unit.log() <= urgency.leaves() {
            return None;
        }
        let segment = match stream {
            Stream::Short | Stream::Zeroes => unit.short.pop_front().or_else(|| unit.rows.pop_front()),
            Stream::Rows | Stream::Cold => unit.rows.pop_front().or_else(|| unit.short.pop_front()),
        }?;
        let state = &mut self.segments[segment as usize];
        state.usage = Use::Open;
        state.record.class = stream.class();
        self.touched.mark(segment);
        self.gained -= i64::from(stream == Stream::Cold);
        unit.shorts += usize::from(matches!(stream, Stream::Short | Stream::Zeroes));
        let open = Open { segment, next: 0 };
        let grant = self.grant(open, blocks)?;
        self.units[at].open[place] = Some(Open { next: grant.stripes, ..open });
        Some(grant)
    }

    /// Data blocks of a whole row of the vdev that is next.
    pub(crate) fn row(&self) -> u32 {
        let unit = &self.units[self.turn];
        u32::from(unit.shape(false, self.parity_now(self.turn)).data())
    }

    /// Other members are in use than before. Segments that are open are written to no more where `close`.
    pub(crate) fn set_present(&mut self, vdev: usize, present: u64, close: bool) {
        self.units[vdev].present = present;
        if close {
            self.close_open(vdev);
        }
    }

    /// Segments of a vdev that are open are written to no more.
    pub(crate) fn close_open(&mut self, vdev: usize) {
        let unit = &mut self.units[vdev];
        let opened = unit.open.iter_mut().chain([&mut unit.pages]).filter_map(Option::take);
        for open in opened.collect::<Vec<_>>() {
            self.becomes(open.segment, Use::Closed);
        }
    }

    /// Segments that are empty become free, or the log's: room for so many pages is yet to be taken. Batches up to `sequence` are in the map.
    pub(crate) fn turn_over(&mut self, sequence: u64, pages: u64) {
        for at in 0..self.units.len() {
            self.close_empty(at, sequence);
            let is_empty = |n: &u32| {
                let record = &self.segments[*n as usize].record;
                record.live == 0 && record.sequence <= sequence
            };
            // All others are the next one's.
            let empty: Vec<u32> =
                self.units[at].waiting.iter().copied().filter(is_empty).take(TURNED_OVER).collect();
            let mut ready = Vec::new();
            for n in empty {
                self.becomes(n, Use::Freeing);
                let segment = &self.segments[n as usize];
                // A check of all pages reads also those that are just being replaced.
                let is_data = segment.record.class != SegmentClass::Pages;
                if is_data && segment.pins == 0 { ready.push(n) } else { self.units[at].freeing.push(n) }
            }
            self.add_log(at, ready, pages);
        }
        self.audit();
    }

    /// Free segments that pages do not need become the log's, with the shape that their members give them. First come segments
    /// that are `ready` to be free: nothing is written to them before the checkpoint stands, and no task reads them. Room for so many
    /// pages stays beside.
    fn add_log(&mut self, at: usize, ready: Vec<u32>, pages: u64) {
        let (parity, count) = (self.parity_now(at), self.for_log(at, ready.len(), pages));
        let mut ready = VecDeque::from(ready);
        let unit = &mut self.units[at];
        let (mut rows, mut short) = (unit.rows.len(), unit.short.len());
        // As many as were asked for last time, or a few: half of such a segment is parity, and nothing lies in order there.
        let shorts = core::mem::take(&mut unit.shorts) + 1;
        for _ in 0..count {
            let Some(n) = ready.pop_front().or_else(|| unit.take_free()) else { break };
            // Where narrow stripes are no others batches of few blocks take rows.
            let narrow = short < shorts.max((rows / 8).min(room::FEW_SHORT))
                && unit.shape(true, parity).stripe != unit.shape(false, parity).stripe;
            *(if narrow { &mut short } else { &mut rows }) += 1;
            let shape = unit.shape(narrow, parity);
            let segment = &mut self.segments[n as usize];
            let held = segment.usage == Use::Freeing && segment.record.stripes > 0;
            segment.reuses += u32::from(held);
            self.freed += u64::from(held);
            self.gained += i64::from(held);
            segment.usage = Use::Log;
            (segment.dying, segment.gave_up, segment.owed) = (0, false, 0);
            segment.record.class = if narrow { SegmentClass::Short } else { SegmentClass::Rows };
            segment.record.live = 0;
            // Each member has as much parity as any other, though a segment may have few chunks. Copies take no turns.
            let has_turn = unit.turns && shape.chunk > 0 && shape.data() > 1;
            let turn = if has_turn { (n % u32::from(shape.stripe)) as u8 } else { 0 };
            reshape(&mut segment.record, Shape { turn, ..shape });
            self.touched.mark(n);
            unit.adding.push(n);
        }
        unit.freeing.extend(ready);
    }

    /// The checkpoint stands on all members; gives how many segments the log got by it.
    pub(crate) fn published(&mut self) -> usize {
        let mut gained = 0;
        for unit in &mut self.units {
            gained += unit.adding.len();
            for n in core::mem::take(&mut unit.adding) {
                let narrow = self.segments[n as usize].record.class == SegmentClass::Short;
                if narrow { unit.short.push_back(n) } else { unit.rows.push_back(n) }
            }
            // Those that lie on all members that are there come first.
            let segments = &self.segments;
            for queue in [&mut unit.rows, &mut unit.short] {
                queue.make_contiguous().sort_by_key(|&n| segments[n as usize].record.members != unit.present);
            }
            for n in core::mem::take(&mut unit.freeing) {
                let segment = &mut self.segments[n as usize];
                if segment.pins > 0 {
                    unit.freeing.push(n);
                    continue;
                }
                // Those that were withdrawn from the log have held nothing.
                let held = segment.record.stripes > 0;
                segment.reuses += u32::from(held);
                self.freed += u64::from(held);
                self.gained += i64::from(held && segment.record.class != SegmentClass::Pages);
                segment.usage = Use::Free;
                (segment.record.live, segment.dying, segment.gave_up) = (0, 0, false);
                unit.free.insert(n);
            }
        }
        gained
    }
}
