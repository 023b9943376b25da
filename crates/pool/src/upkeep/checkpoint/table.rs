//! Writes of the table of segments: by a checkpoint, or alone. Only pages that change are written, and those of pointers above them.
//!
//! All others stay where they are. An uberblock names the shapes of the segments that they stand in, and it has room for so many. So where
//! they lie about in more, those are written elsewhere that are in segments with fewest of them. Some of those go with each checkpoint, too, that
//! keep segments from becoming free which hold few pages: never all at once.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

use brindle_format::pool::{Pointer, Pointers, ROOTED, Root, Rooted, SEGMENTS, SegmentRecord, Segments};
use brindle_volume::VolumeError;

use super::{Pages, of, pages_of};
use crate::core::Core;
use crate::store::space::{Grant, Space};
use crate::store::table::{Renewed, Table};

/// Pages that a checkpoint writes elsewhere of those that are in segments which hold few pages.
const FEW: usize = 8;
/// Pages that are compared without a break, if there are more.
const LOOKED_AT: usize = 256;

/// The state that a table is written in.
#[derive(Clone, Copy)]
pub(crate) struct AsOf {
    /// Batches up to this one are in the map.
    pub(crate) sequence: u64,
    /// Segments that were used again stay known.
    pub(crate) reused: bool,
    /// It is of a checkpoint: pages stay that say the very same. Else recovery finds out what has been written to the log.
    pub(crate) exactly: bool,
}

/// Pages of the table that are written anew, and what they are to say.
pub(crate) struct Rewrite {
    as_of: AsOf,
    renewed: Renewed,
    records: Vec<(usize, Vec<SegmentRecord>)>,
    /// Pages that might have changed.
    touched: Vec<usize>,
    /// Room for them, and for pages of others before them: so many pages in all.
    pub(crate) grants: Vec<Grant>,
    pages: usize,
}

/// Pages of the table at their new places.
pub(crate) struct NewTable {
    written: Vec<BTreeMap<usize, Pointer>>,
    pub(crate) root: Root,
    /// Shapes of the segments that hold all of its pages.
    pub(crate) rooted: Vec<Rooted>,
}

/// Pages that have to change, as far as that is known before any is written.
pub(crate) struct Due(Renewed);

impl Due {
    /// Their number.
    pub(crate) fn count(&self) -> u32 {
        self.0.count() as u32
    }
}

impl Core {
    /// Of pages of which records may have changed, those are looked at no more that say what they should, and will: after an opening these are nearly
    /// all. Others have turns in between.
    pub(crate) async fn settle_touched(&self, sequence: u64) {
        let touched: Vec<usize> = self.space.borrow().touched.pages().collect();
        for some in touched.chunks(LOOKED_AT).filter(|_| touched.len() > LOOKED_AT) {
            {
                let (table, mut space) = (self.checkpoints.table.borrow(), self.space.borrow_mut());
                for &page in some {
                    let is_settled = !space.is_unsettled(page, sequence)
                        && table.says(page, space.records_of(page, sequence, true));
                    if is_settled {
                        space.touched.forget(page);
                    }
                }
            }
            self.set.io.yield_now().await;
        }
    }

    /// Pages of the table that have to be written, since they say something else by now, or are to be elsewhere: also to empty `sparse` segments.
    pub(crate) fn table_due(&self, as_of: AsOf, sparse: &[u32]) -> Due {
        let (table, space) = (self.checkpoints.table.borrow(), self.space.borrow());
        let mut renewed = table.renewed();
        changed(&table, &space, as_of, &mut renewed);
        // Where pages are written next, records change.
        space.open_pages().for_each(|segment| renewed.add(0, segment as usize / SEGMENTS));
        table.follow(&mut renewed);
        let whole = table.kept(&renewed).into_keys().filter(|&segment| goes_whole(&space, segment, sparse));
        let whole: Vec<_> = whole.flat_map(|segment| table.kept_in(segment, &renewed)).collect();
        let rest = sparse.iter().filter(|segment| !goes_whole(&space, **segment, sparse));
        let few: Vec<_> = rest.flat_map(|&segment| table.kept_in(segment, &renewed)).take(FEW).collect();
        whole.into_iter().chain(few).for_each(|(level, page)| renewed.add(level, page));
        table.follow(&mut renewed);
        // Half of what an uberblock can name is left to the pages of this write, or more if they may take more; and most where there are
        // few segments.
        let left = ROOTED.saturating_sub(space.segments_for(renewed.count() as u64) as usize);
        let most = (4 + space.segments.len() / 128).min(ROOTED / 2).min(left);
        let is_open = |segment: u32| space.open_pages().any(|open| open == segment);
        renew_of_fewest(&table, &mut renewed, most, is_open);
        Due(renewed)
    }

    /// `sparse` segments, those first of which this checkpoint can write all pages of the table elsewhere: so many. All others but one
    /// have more than it moves, and are passed over: to write their leaves elsewhere would not empty them.
    pub(in crate::upkeep) fn table_sparse(&self, sparse: &[u32]) -> (Vec<u32>, usize) {
        let (table, space) = (self.checkpoints.table.borrow(), self.space.borrow());
        let kept = table.kept(&table.renewed());
        let whole = |segment: u32| goes_whole(&space, segment, sparse);
        in_turn(sparse, |segment| kept.get(&segment).copied().unwrap_or(0), whole)
    }

    /// Places for pages that are due and for `fixed` others before them, of which room for some is there; and what the pages are to say. Counts
    /// all of that; segments that become empty are turned over if it is of a checkpoint.
    pub(crate) fn table_room(
        &self,
        as_of: AsOf,
        due: Due,
        fixed: usize,
        mut grants: Vec<Grant>,
    ) -> Result<Rewrite, (VolumeError, Vec<Grant>)> {
        let (table, mut space) = (self.checkpoints.table.borrow(), self.space.borrow_mut());
        let Due(mut renewed) = due;
        let mut has = pages_in(&grants);
        // At worst the write grows to the whole table: the log leaves room for what is not taken yet.
        let all = pages_of(space.segments.len(), SEGMENTS) as usize;
        let growth = all.saturating_sub(renewed.count()) as u64;
        // All places count from here on: a segment that pages have filled is not empty.
        count(&mut space, &grants, 0..has, true);
        let mut begun = false;
        let needs = loop {
            space.exchange(renewed.take_replaced(), &[]);
            if as_of.exactly && !core::mem::replace(&mut begun, true) {
                space.turn_over(as_of.sequence, growth);
            }
            let needs = fixed + renewed.count();
            while has < needs {
                let Some(taken) = space.take_pages((needs - has) as u32) else {
                    count(&mut space, &grants, 0..has, false);
                    space.exchange(&[], renewed.replaced());
                    return Err((VolumeError::NoSpace, grants));
                };
                count(&mut space, &taken, 0..pages_in(&taken), true);
                has += pages_in(&taken);
                grants.extend(taken);
            }
            let before = renewed.count();
            changed(&table, &space, as_of, &mut renewed);
            // Places that are taken change the records of their own segments.
            grants.iter().for_each(|grant| renewed.add(0, grant.segment as usize / SEGMENTS));
            table.follow(&mut renewed);
            if renewed.count() > before {
                continue;
            }
            // All that hold pages of the table have to be named: those that stay, and those of this write.
            let takes = most_segments(&grants, renewed.count());
            let most = ROOTED.saturating_sub(takes);
            if table.kept(&renewed).len() <= most {
                break needs;
            }
            renew_of_fewest(&table, &mut renewed, most, |_| false);
        };
        count(&mut space, &grants, needs..has, false);
        let of_page = |page| (page, space.records_of(page, as_of.sequence, as_of.reused).collect());
        let records = renewed.of_level(0).map(of_page).collect();
        audit(&table, &space, as_of, &renewed);
        let touched = space.touched.take();
        Ok(Rewrite { as_of, renewed, records, touched, grants, pages: needs })
    }

    /// Nothing names pages that were to be written.
    pub(crate) fn table_failed(&self, rewrite: &Rewrite) {
        let mut space = self.space.borrow_mut();
        count(&mut space, &rewrite.grants, 0..rewrite.pages, false);
        space.exchange(&[], rewrite.renewed.replaced());
        rewrite.touched.iter().for_each(|&page| space.touched.put(page));
    }

    /// An uberblock names them.
    pub(crate) fn table_stands(&self, rewrite: &Rewrite, new: NewTable) {
        let mut space = self.space.borrow_mut();
        for (page, records) in &rewrite.records {
            space.recorded(page * SEGMENTS, records);
        }
        for &page in &rewrite.touched {
            // Of a checkpoint, pages that were not written say what stands; of a record they may say less. Some change by themselves.
            let may_differ = !rewrite.as_of.exactly && !rewrite.renewed.has(page);
            if may_differ || space.is_unsettled(page, rewrite.as_of.sequence) {
                space.touched.put(page);
            }
        }
        self.checkpoints.table.borrow_mut().stands(new.written, &rewrite.records);
    }
}

/// All pages of the table that a segment holds are written elsewhere, however many.
fn goes_whole(space: &Space, segment: u32, sparse: &[u32]) -> bool {
    // An attempt that failed may have taken what they stand in for empty.
    space.is_going(segment)
        || sparse.contains(&segment) && (space.is_short_of_pages() || space.is_thin(segment))
}

/// `sparse` segments that a checkpoint empties of pages of the table, and how many these are; behind them the first one of the others, of
/// which it moves some.
fn in_turn(
    sparse: &[u32],
    pages: impl Fn(u32) -> usize,
    goes_whole: impl Fn(u32) -> bool,
) -> (Vec<u32>, usize) {
    let mut left = FEW;
    let (mut order, others): (Vec<u32>, Vec<u32>) = sparse.iter().partition(|&&segment| {
        let takes = if goes_whole(segment) { 0 } else { pages(segment) };
        let fits = takes <= left;
        left -= if fits { takes } else { 0 };
        fits
    });
    let whole = order.len();
    order.extend(others.first());
    (order, whole)
}

/// Segments that have fewest of the pages that stay, so that no more than `most` others have any; but for those that are `spared`.
fn of_fewest(kept: &BTreeMap<u32, usize>, most: usize, spared: impl Fn(u32) -> bool) -> Vec<u32> {
    let mut fewest: Vec<(usize, u32)> = kept
        .iter()
        .map(|(&segment, &pages)| (pages, segment))
        .filter(|(_, segment)| !spared(*segment))
        .collect();
    fewest.sort_unstable();
    fewest.into_iter().take(kept.len().saturating_sub(most)).map(|(_, segment)| segment).collect()
}

/// Pages of these are written elsewhere, and what changes with them.
fn renew_of_fewest(table: &Table, renewed: &mut Renewed, most: usize, spared: impl Fn(u32) -> bool) {
    for segment in of_fewest(&table.kept(renewed), most, spared) {
        let pages: Vec<_> = table.kept_in(segment, renewed).collect();
        pages.into_iter().for_each(|(level, page)| renewed.add(level, page));
    }
    table.follow(renewed);
}

/// Pages that fill these.
fn pages_in(grants: &[Grant]) -> usize {
    grants.iter().map(Grant::room).sum()
}

/// Pages of a range among those that fill these are named, or are not any more.
fn count(space: &mut Space, grants: &[Grant], range: Range<usize>, more: bool) {
    let mut from = 0;
    for grant in grants {
        let own = from.max(range.start)..(from + grant.room()).min(range.end);
        from += grant.room();
        if !own.is_empty() {
            space.count_some(grant.segment, own.len() as u32, more);
        }
    }
}

/// The most segments that so many of the pages in a row can be in that fill these: whatever is written before pages of the table.
fn most_segments(grants: &[Grant], count: usize) -> usize {
    let (mut begins, mut at) = (Vec::new(), 0);
    for (n, grant) in grants.iter().enumerate() {
        if n > 0 && grant.segment != grants[n - 1].segment {
            begins.push(at);
        }
        at += grant.room();
    }
    // Such a row begins with the last place of a segment.
    let from = |(n, &begin): (usize, &usize)| {
        let met = begins[n..].partition_point(|&next| next < begin - 1 + count);
        met + 1
    };
    begins.iter().enumerate().map(from).max().unwrap_or(1)
}

/// Adds pages that say something else by now.
fn changed(table: &Table, space: &Space, as_of: AsOf, renewed: &mut Renewed) {
    for page in space.touched.pages().collect::<Vec<_>>() {
        if !renewed.has(page) && differs(table, space, as_of, page) {
            renewed.add(0, page);
        }
    }
}

fn differs(table: &Table, space: &Space, as_of: AsOf, page: usize) -> bool {
    let records: Vec<SegmentRecord> = space.records_of(page, as_of.sequence, as_of.reused).collect();
    table.differs(page, &records, as_of.exactly)
}

/// Holds that pages which were not touched say what they should.
fn audit(table: &Table, space: &Space, as_of: AsOf, renewed: &Renewed) {
    if cfg!(debug_assertions) {
        let pages = 0..space.segments.len().div_ceil(SEGMENTS);
        let wrong = pages.clone().find(|&page| !renewed.has(page) && differs(table, space, as_of, page));
        assert_eq!(wrong, None, "a page of the table that changed is written anew, of {pages:?}");
    }
}

impl Pages<'_> {
    /// Writes the pages of the table that are due.
    pub(super) async fn table(&mut self, rewrite: &Rewrite) -> Result<NewTable, VolumeError> {
        let core = self.core;
        let levels = core.checkpoints.table.borrow().levels();
        let mut written: Vec<BTreeMap<usize, Pointer>> = vec![BTreeMap::new(); levels];
        for (page, records) in &rewrite.records {
            let number = *page as u64;
            let bytes = Segments(records.clone()).encode(number).map_err(of)?;
            let pointer = self.put(0, 0, number, bytes).await?;
            written[0].insert(*page, pointer);
        }
        for level in 1..levels {
            for page in rewrite.renewed.of_level(level) {
                let pointers = core.checkpoints.table.borrow().pointers(level, page, &written[level - 1]);
                let bytes = Pointers(pointers).encode(page as u64).map_err(of)?;
                let pointer = self.put(0, 0, page as u64, bytes).await?;
                written[level].insert(page, pointer);
            }
        }
        let (table, space) = (core.checkpoints.table.borrow(), core.space.borrow());
        let root = table.root(&written);
        let mut segments: BTreeSet<u32> =
            written.iter().flatten().map(|(_, pointer)| pointer.address.segment()).collect();
        segments.extend(table.kept(&rewrite.renewed).into_keys());
        let rooted = segments.into_iter().filter_map(|segment| rooted(&space, segment)).collect();
        Ok(NewTable { written, root, rooted })
    }

    /// Writes the table of segments alone, and an uberblock that names it and is otherwise the last one.
    pub(crate) async fn write_table(&mut self, rewrite: &Rewrite) -> Result<(), VolumeError> {
        let new = self.table(rewrite).await?;
        self.finish().await?;
        self.core.set.flush_members().await?;
        self.is_named = true;
        let (root, rooted) = (new.root, new.rooted.clone());
        self.core.record(move |record| (record.segments, record.rooted) = (root, rooted)).await?;
        self.core.table_stands(rewrite, new);
        Ok(())
    }
}

/// The shape of a segment: nothing else tells it of one that holds pages of their own table.
fn rooted(space: &Space, segment: u32) -> Option<Rooted> {
    let SegmentRecord { stripe, parity, unit, chunk, turn, members, missing, .. } =
        space.get(segment)?.record;
    debug_assert_eq!(turn, 0, "an uberblock has no place for the turn of a segment of pages");
    Some(Rooted { segment, stripe, parity, unit, chunk, members, missing })
}

#[cfg(test)]
mod tests {
    use brindle_format::pool::place::{Address, Shape};

    use super::*;

    #[test]
    fn pages_of_the_segments_with_fewest_go_until_all_others_can_be_named() {
        let kept = BTreeMap::from([(1, 9), (2, 2), (3, 1), (4, 4)]);
        assert_eq!(of_fewest(&kept, 4, |_| false), []);
        assert_eq!(of_fewest(&kept, 2, |_| false), [3, 2]);
        assert_eq!(of_fewest(&kept, 3, |segment| segment == 3), [2]);
        assert_eq!(of_fewest(&kept, 0, |_| false), [3, 2, 4, 1]);
    }

    #[test]
    fn segments_with_more_pages_of_the_table_than_a_checkpoint_moves_are_passed_over_but_for_one() {
        let pages = |segment: u32| [0, 30, 5, 4, 20, 3][segment as usize];
        // The fourth has no room beside the second.
        assert_eq!(in_turn(&[0, 1, 2, 3, 4, 5], pages, |_| false), (vec![0, 2, 5, 1], 3));
        assert_eq!(in_turn(&[4, 2], pages, |_| false), (vec![2, 4], 1));
        assert_eq!(in_turn(&[1, 2, 3, 4], pages, |_| true), (vec![1, 2, 3, 4], 4));
    }

    #[test]
    fn pages_of_a_write_are_in_no_more_segments_than_are_counted() {
        // One data block of a stripe: as many stripes as pages, and one for the summary.
        let shape = Shape { members: 3, rows: 16, stripe: 2, parity: 1, chunk: 0, turn: 0 };
        let grant = |(segment, pages): (u32, u32)| Grant { segment, shape, stripe: 0, stripes: pages + 1 };
        let grants: Vec<Grant> = [(5, 3), (5, 1), (6, 2), (9, 2), (7, 10)].into_iter().map(grant).collect();
        let places: Vec<Address> = grants.iter().flat_map(Grant::pages).collect();
        for count in 1..=places.len() {
            let of = |some: &[Address]| some.iter().map(|at| at.segment()).collect::<BTreeSet<_>>().len();
            let most = places.windows(count).map(of).max();
            assert_eq!(Some(most_segments(&grants, count)), most, "of {count} pages");
        }
        assert_eq!(most_segments(&[], 0), 1);
        assert_eq!(most_segments(&grants, 0), 1);
        assert_eq!((pages_in(&grants), pages_in(&[])), (places.len(), 0));
    }
}
