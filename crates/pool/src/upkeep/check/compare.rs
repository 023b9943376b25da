//! Compares what was read of segments with the map, and parity with data.

use std::collections::{BTreeMap, BTreeSet};

use brindle_format::pool::place::{Address, Shape};
use brindle_format::pool::{Batch, EntryKind, VolumeRecord, checksum};

use super::stretch::{Look, Stretch};
use super::{Check, Marks};
use crate::core::Core;
use crate::read::{agrees, choose};
use crate::store::leaf::Located;
use crate::store::map::{Key, Known};
use crate::upkeep::tree::page_of;

/// Blocks of one segment that are gone over, stretch by stretch.
struct Segment {
    number: u32,
    shape: Shape,
    /// Blocks of volumes that may stand here, as summaries say, by their addresses; and pages of the map, by level and key.
    told: BTreeSet<(Address, Key)>,
    pages: BTreeMap<Address, (u8, Key)>,
    /// The end of the batch that is being gone over.
    batch_ends: u32,
    /// Places and stripes that have been compared.
    places: Marks,
    stripes: Marks,
}

impl Segment {
    fn new(number: u32, shape: Shape) -> Self {
        let (places, stripes) = <(Marks, Marks)>::default();
        let (told, pages) = (BTreeSet::new(), BTreeMap::new());
        Self { number, shape, told, pages, batch_ends: 0, places, stripes }
    }
}

/// The comparison of all segments.
pub(super) struct Comparison<'a> {
    core: &'a Core,
    /// Volumes that are there.
    volumes: BTreeSet<u32>,
    segment: Option<Segment>,
}

/// A block that is live: its place in a volume, if it is of one, and its sum.
type Live = (Option<Key>, Address, u32);

impl<'a> Comparison<'a> {
    pub(super) fn new(core: &'a Core, volumes: &[VolumeRecord]) -> Self {
        let there = volumes.iter().filter(|volume| !volume.destroyed);
        Self { core, volumes: there.map(|volume| volume.id).collect(), segment: None }
    }

    /// Compares what is live of a stretch.
    pub(super) async fn go_over(&mut self, stretch: &Stretch, check: &mut Check<'_>) {
        let (number, shape) = (stretch.segment, stretch.shape);
        if self.segment.as_ref().is_some_and(|now| now.number != number || now.shape != shape) {
            self.end(check);
        }
        let mut segment = self.segment.take().unwrap_or_else(|| Segment::new(number, shape));
        let look = stretch.look();
        for stripe in stretch.first..stretch.first + stretch.stripes {
            self.ask_summary(&mut segment, stretch, &look, stripe);
            for (key, address, sum) in self.live(&mut segment, stripe).await {
                segment.places.mark(address.place());
                segment.stripes.mark(stripe);
                let Some((_, slot)) = shape.slot(address.place()) else { continue };
                let mut found = stretch.block(&look, stripe, slot).map(|block| checksum(block) == sum);
                if let Ok(false) = found {
                    // It may have been written just now.
                    found = self.core.raw(address, true).await.map(|block| checksum(&block) == sum);
                }
                let right = |block: &[u8]| checksum(block) == sum;
                let is_lost = async || {
                    choose(&stretch.copied(&look, stripe), shape, usize::from(slot), right).is_none()
                        && self.core.is_beyond_repair(address, sum).await
                };
                check.judge((key, address), found, is_lost).await;
            }
            if segment.stripes.has(stripe) && shape.parity > 0 {
                let blocks: Option<Vec<&[u8]>> =
                    (0..shape.stripe).map(|slot| stretch.block(&look, stripe, slot).ok()).collect();
                let agrees = match blocks.map(|blocks| agrees(&blocks, usize::from(shape.data()))) {
                    Some(false) => self.core.stripe_agrees(number, stripe).await,
                    agrees => agrees,
                };
                check.compared(agrees);
            }
        }
        self.segment = Some(segment);
    }

    /// Nothing more of the segment before comes.
    pub(super) fn end(&mut self, check: &mut Check<'_>) {
        let Some(Segment { number, places, stripes, .. }) = self.segment.take() else { return };
        let lives = self.core.space.borrow().get(number).map_or(0, |segment| segment.lives());
        let all = places.count() >= lives;
        check.covered.segments.insert(number, all);
        if !all {
            check.covered.places.insert(number, (places, stripes));
        }
    }

    /// Notes what the summary in the first slot of a stripe tells, if one stands there or comes out of the others.
    fn ask_summary(&self, segment: &mut Segment, stretch: &Stretch, look: &Look<'_>, stripe: u32) {
        let (core, shape) = (self.core, segment.shape);
        let address = Address::new(segment.number, shape.place(stripe, 0));
        let pool = core.label.get().pool;
        let stands =
            stretch.block(look, stripe, 0).ok().and_then(|block| Batch::parse(block, pool, address).ok());
        let batches = match stands {
            Some(batch) => vec![batch],
            None if stripe < segment.batch_ends => return,
            None => core.summaries_in(&stretch.copied(look, stripe), shape, address),
        };
        for batch in batches {
            segment.batch_ends = segment.batch_ends.max(stripe + u32::from(batch.stripes));
            let mut next = 1;
            for entry in &batch.entries {
                let at = Address::new(segment.number, shape.data_place(stripe, next));
                next += u32::from(entry.kind.has_block());
                if let Some((level, key, at)) = page_of(entry, at) {
                    segment.pages.insert(at, (level, key));
                }
                if entry.kind == EntryKind::Data && self.volumes.contains(&entry.volume) {
                    segment.told.insert((at, (entry.volume, entry.block)));
                }
            }
        }
    }

    /// Live blocks of a stripe, by the map.
    async fn live(&self, segment: &mut Segment, stripe: u32) -> Vec<Live> {
        let mut live = Vec::new();
        for slot in 0..segment.shape.data() {
            let address = Address::new(segment.number, segment.shape.place(stripe, slot));
            if let Some((level, key)) = segment.pages.remove(&address) {
                // One of an earlier use may be none of the map any more.
                if let Some(sum) = self.core.page_sum(level, key, address).await {
                    live.push((None, address, sum));
                    continue;
                }
            }
            let told = segment.told.range((address, (0, 0))..=(address, (u32::MAX, u64::MAX)));
            let told: Vec<(Address, Key)> = told.copied().collect();
            for &(_, key) in &told {
                // A leaf that can't be read is told when the map is gone through.
                if let Ok((Located::At(at, sum), _)) = self.core.locate(key).await
                    && at == address
                {
                    live.push((Some(key), address, sum));
                    break;
                }
            }
            for told in &told {
                segment.told.remove(told);
            }
        }
        live
    }
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
