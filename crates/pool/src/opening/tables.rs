//! Reads what an uberblock names: the table of segments, lists of volumes, nodes and dead pages, the top of the map.
//!
//! An image may be made with evil intent: what it claims is held against what there is before it takes memory.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use brindle_format::pool::place::Address;
use brindle_format::pool::{
    DeadPages, HistoryPage, Nodes, POINTERS, Pointer, Pointers, PoolError, Root, SEGMENTS, SegmentClass,
    SegmentRecord, SegmentState, Segments, SubtreeState, Uberblock, Volumes,
};
use brindle_io::sync::join_all;

use crate::core::Core;
use crate::opening::create::{MOST_SEGMENTS, too_fine};
use crate::opening::dead::refuse_twice;
use crate::opening::look::{Chosen, PoolOpenError, Returning};
use crate::read::Unreadable;
use crate::role::{Role, all_of};
use crate::store::map::{Dead, ENDLESS, Map, Page, Tree};
use crate::store::space::Space;
use crate::store::table::Table;

/// Pages of a list that are read side by side.
const READ: usize = 32;
/// Segments that are taken up without a break.
const AT_ONCE: usize = 1 << 14;

/// More segments than the head's table can have are refused before anything of it is read. Where there is no table yet, since all are free, they
/// take memory at once: so more are refused than a pool is made with, and than a table could be named of.
pub(super) fn refuse_unlisted(chosen: &Chosen) -> Result<(), PoolError> {
    let (all, pages) = (chosen.label.segments(), chosen.head.segments.pages);
    let is_listed = match pages {
        0 => all <= MOST_SEGMENTS && too_fine(&chosen.label.vdevs, all).is_none(),
        _ => u64::from(all) <= u64::from(pages) * SEGMENTS as u64,
    };
    match is_listed {
        true => Ok(()),
        false => Err(PoolError::Impossible { what: "uberblock", field: "segments", value: all.into() }),
    }
}

impl Core {
    /// Reads what the uberblock names, and of the map its top alone. The table of segments comes first: only the segments that it lies in itself
    /// does the uberblock tell, and pages of the map may stand in any.
    pub(super) async fn load_tables(&self, returned: &[Returning]) -> Result<(), PoolOpenError> {
        let head: Uberblock = self.record.last.borrow().clone();
        self.set_rooted(&head, returned)?;
        let mut lists = Vec::new();
        let (records, levels, is_full) =
            self.levels(head.segments, SEGMENTS, |bytes, n| Ok(Segments::parse(bytes, n)?.0)).await?;
        let all = u64::from(self.label.get().segments());
        // It may have more: of a vdev that was about to come, and of which no config tells.
        if head.segments.pages > 0 && (records.len() as u64) < all {
            return Err(PoolError::Impossible { what: "uberblock", field: "segments", value: all }.into());
        }
        self.check_segments(&records)?;
        self.set.io.yield_now().await;
        let mut space = Space::of(&self.label.get(), (all as usize).max(records.len()), &self.present());
        for some in records.chunks(AT_ONCE) {
            space.found_next(some);
            self.set.io.yield_now().await;
        }
        let table = match head.segments.pages {
            0 => {
                for first in (0..all as usize).step_by(AT_ONCE) {
                    space.blank_next(AT_ONCE.min(all as usize - first));
                    self.set.io.yield_now().await;
                }
                Table::none(all as usize)
            }
            _ => Table::found(records, levels, is_full),
        };
        self.space.replace(space);
        self.lack(returned);
        self.set.io.yield_now().await;
        let dead = self.list(head.dead, &mut lists, |bytes, n| Ok(DeadPages::parse(bytes, n)?.0)).await?;
        let volumes = self.list(head.volumes, &mut lists, |bytes, n| Ok(Volumes::parse(bytes, n)?.0)).await?;
        let nodes = self.list(head.nodes, &mut lists, |bytes, n| Ok(Nodes::parse(bytes, n)?.0)).await?;
        self.load_history(head.history, &mut lists).await?;
        refuse_twice(&dead, head.map)?;
        let outlived = dead.iter().any(|dead| dead.state == SubtreeState::Outlived);
        let forms = self.label.get().features.leaves();
        let mut map = Map::found(forms, dead.into_iter().map(Dead).collect());
        // Such pages are of a checkpoint behind the one that took up what these segments held before.
        if !outlived {
            map.reuse(self.space.borrow().reused_again());
        }
        if let Some(top) = head.map {
            // All below it is read when it is asked for.
            let bytes = self.page(top.pointer).await?;
            let page = Page { level: top.level, at: top.key(), pointer: top.pointer };
            map.tree = Tree::found(top);
            map.loaded(page, &bytes)?;
        }
        let going: Vec<u32> =
            volumes.iter().filter(|volume| volume.destroyed).map(|volume| volume.id).collect();
        self.volumes.found(volumes, nodes);
        for id in going {
            let _none = map.clear(id, 0, ENDLESS);
        }
        self.map.replace(map);
        self.checkpoints.lists.replace(lists);
        self.checkpoints.table.replace(table);
        self.estimate();
        Ok(())
    }

    /// Pointers to the pages of history. Places of those above them are noted.
    async fn history_pages(
        &self,
        root: Root,
        places: &mut Vec<Address>,
    ) -> Result<Vec<Pointer>, PoolOpenError> {
        let mut pointers: Vec<Pointer> = root.top.into_iter().collect();
        for _ in 0..root.levels {
            places.extend(pointers.iter().map(|pointer| pointer.address));
            let mut below = Vec::new();
            for (n, page) in (0..).zip(self.pages(&pointers).await?) {
                below.extend(Pointers::parse(&page, n)?.0);
            }
            pointers = below;
        }
        if pointers.len() == root.pages as usize { Ok(pointers) } else { Err(PoolOpenError::Damaged) }
    }

    /// Reads the history. Nothing relies on it: pages that are lost or damaged are left out, and that goes down in it.
    async fn load_history(&self, root: Root, places: &mut Vec<Address>) -> Result<(), PoolOpenError> {
        let pointers = match self.history_pages(root, places).await {
            // Pages below one that is lost count as live from now on: they are few.
            Err(PoolOpenError::Damaged | PoolOpenError::Format(_)) => {
                self.went_so("the history was lost");
                return Ok(());
            }
            pointers => pointers?,
        };
        places.extend(pointers.iter().map(|pointer| pointer.address));
        let read = join_all(pointers.iter().map(|&pointer| self.page(pointer))).await;
        let mut pages = Vec::new();
        for (n, page) in (0..).zip(read) {
            match page {
                Ok(page) => pages.extend(HistoryPage::parse(&page, n)),
                Err(PoolOpenError::Damaged) => {}
                Err(why) => return Err(why),
            }
        }
        let lost = root.pages as usize - pages.len();
        self.history.found(pages);
        if lost > 0 {
            self.went_so(&format!("pages of the history were lost: {lost}"));
        }
        Ok(())
    }

    /// Members that have returned may lack something of segments that were written since: that is on record as soon as they are in use.
    fn lack(&self, returned: &[Returning]) {
        for one in returned {
            let Role { vdev, index } = self.role_of(one.member);
            self.space.borrow_mut().lacks_since(vdev, index, Some(one.sequence));
        }
    }

    /// Segments lie on members of their vdev, in units of its size.
    fn check_segments(&self, records: &[SegmentRecord]) -> Result<(), PoolError> {
        let label = self.label.get();
        for run in &label.runs {
            let vdev = &label.vdevs[usize::from(run.vdev)];
            let all = all_of(vdev);
            for record in records.iter().skip(run.first_segment as usize).take(run.units as usize) {
                if record.members & !all != 0 || record.unit != vdev.unit {
                    let value = record.members;
                    return Err(PoolError::Impossible { what: "segment", field: "members", value });
                }
            }
        }
        Ok(())
    }

    /// Where the table of segments stands, only the uberblock tells. One with more pages than that holds is refused before any of it is read.
    fn set_rooted(&self, head: &Uberblock, returned: &[Returning]) -> Result<(), PoolOpenError> {
        let (label, mut records) = (self.label.get(), BTreeMap::new());
        for rooted in &head.rooted {
            let wrong =
                PoolError::Impossible { what: "uberblock", field: "rooted", value: rooted.segment.into() };
            let (at, _) = label.unit_of(rooted.segment).ok_or_else(|| wrong.clone())?;
            let lack = returned
                .iter()
                .map(|one| self.role_of(one.member))
                .filter(|role| role.vdev == usize::from(at));
            let lack = lack.fold(0, |mask, role| mask | 1 << role.index);
            let vdev = label.vdevs[usize::from(at)];
            let mask = all_of(&vdev);
            let record = SegmentRecord {
                state: SegmentState::Closed,
                class: SegmentClass::Pages,
                stripe: rooted.stripe,
                parity: rooted.parity,
                unit: rooted.unit,
                chunk: rooted.chunk,
                turn: 0,
                members: rooted.members,
                missing: rooted.missing | lack & rooted.members,
                copied: 0,
                live: 0,
                stripes: 0,
                sequence: 0,
                reused: false,
            };
            record.shape().check()?;
            if rooted.unit != vdev.unit
                || rooted.members & !mask != 0
                || rooted.missing & !rooted.members != 0
            {
                return Err(wrong.into());
            }
            records.insert(rooted.segment, record);
        }
        let blocks = |record: &SegmentRecord| {
            let shape = record.shape();
            u64::from(shape.data()) * u64::from(shape.stripes())
        };
        let value = u64::from(head.segments.pages);
        if value > records.values().map(blocks).sum() {
            return Err(PoolError::Impossible { what: "uberblock", field: "segments", value }.into());
        }
        self.space.replace(Space::unread(&label, records));
        Ok(())
    }

    /// The records of a list of pages; notes where its pages are.
    async fn list<T>(
        &self,
        root: Root,
        places: &mut Vec<Address>,
        parse: impl Fn(&[u8], u64) -> Result<Vec<T>, PoolError>,
    ) -> Result<Vec<T>, PoolOpenError> {
        let (records, levels, _) = self.levels(root, 0, parse).await?;
        places.extend(levels.iter().flatten().map(|pointer| pointer.address));
        Ok(records)
    }

    /// The same with pointers to its pages level by level, those of records first; and whether all pages but the last of each level are full,
    /// those of records with so many.
    async fn levels<T>(
        &self,
        root: Root,
        fit: usize,
        parse: impl Fn(&[u8], u64) -> Result<Vec<T>, PoolError>,
    ) -> Result<(Vec<T>, Vec<Vec<Pointer>>, bool), PoolOpenError> {
        let mut levels: VecDeque<Vec<Pointer>> = VecDeque::from([root.top.into_iter().collect()]);
        let mut is_full = true;
        for _ in 0..root.levels {
            let (mut next, mut n) = (Vec::new(), 0usize);
            for some in levels[0].chunks(READ) {
                for page in self.pages(some).await? {
                    is_full &= next.len() == n * POINTERS;
                    next.extend(Pointers::parse(&page, n as u64)?.0);
                    if next.len() > root.pages as usize {
                        return Err(PoolOpenError::Damaged);
                    }
                    n += 1;
                }
            }
            levels.push_front(next);
        }
        if levels[0].len() != root.pages as usize {
            return Err(PoolOpenError::Damaged);
        }
        let (mut records, mut n) = (Vec::new(), 0usize);
        for some in levels[0].chunks(READ) {
            for page in self.pages(some).await? {
                is_full &= records.len() == n * fit;
                records.extend(parse(&page, n as u64)?);
                n += 1;
            }
        }
        Ok((records, levels.into(), is_full))
    }

    /// Pages that are read side by side, in the order of their pointers.
    async fn pages(&self, some: &[Pointer]) -> Result<Vec<Rc<[u8]>>, PoolOpenError> {
        join_all(some.iter().map(|&pointer| self.page(pointer))).await.into_iter().collect()
    }

    async fn page(&self, pointer: Pointer) -> Result<Rc<[u8]>, PoolOpenError> {
        let read = self.block(pointer.address, pointer.checksum, None).await;
        read.map_err(|why| match why {
            Unreadable::Lost => PoolOpenError::Damaged,
            Unreadable::Silent(error) => error.into(),
        })
    }
}
