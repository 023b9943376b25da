//! Compares all that a pool holds with its checksums, and parity with data.

use std::collections::BTreeMap;

use brindle_format::pool::place::Address;
use brindle_format::pool::{BLOCK, checksum};
use brindle_io::sync::join_all;
use brindle_volume::VolumeError;

use crate::core::Core;
use crate::damage::{Blocks, DamagedRange};
use crate::read::{Absent, Pin, Unreadable, is_whole};
use crate::store::leaf::Located;
use crate::store::map::{Key, Next};

/// Blocks that are read at a time.
const SIDE_BY_SIDE: usize = 32;
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

/// Stripes of each segment that hold something that counts, a bit each.
#[derive(Default)]
struct Marks(Vec<Vec<u64>>);

impl Marks {
    fn mark(&mut self, segment: u32, stripe: u32) {
        let at = segment as usize;
        if self.0.len() <= at {
            self.0.resize_with(at + 1, Vec::new);
        }
        let (word, bits) = (stripe as usize / 64, &mut self.0[at]);
        if bits.len() <= word {
            bits.resize(word + 1, 0);
        }
        bits[word] |= 1 << (stripe % 64);
    }

    fn all(&self) -> impl Iterator<Item = (u32, u32)> {
        let of = |(segment, bits): (usize, &Vec<u64>)| {
            let set = |n: &u32| bits[*n as usize / 64] >> (n % 64) & 1 == 1;
            let stripes: Vec<u32> = (0..bits.len() as u32 * 64).filter(set).collect();
            stripes.into_iter().map(move |stripe| (segment as u32, stripe))
        };
        self.0.iter().enumerate().flat_map(of)
    }
}

/// The next block of a volume that something is said of.
enum Named {
    Block(u64),
    /// The leaf with these is lost, and `count` blocks with it.
    Lost {
        from: u64,
        to: u64,
        count: u64,
    },
    Nothing,
}

impl Core {
    /// Reads all that counts, and tells what of it is wrong; nothing is written. `reported` is called with the bytes gone over.
    pub(crate) async fn check(&self, mut reported: impl FnMut(u64)) -> Result<Checked, VolumeError> {
        let (mut checked, mut marks, mut lost) = (Checked::default(), Marks::default(), Blocks::new(RANGES));
        let pages: Vec<(Address, u32)> = {
            let map = self.map.borrow();
            let leaves = map.leaves.values().filter_map(|slot| slot.pointer);
            leaves.map(|pointer| (pointer.address, pointer.checksum)).collect()
        };
        // A segment that was gone over is not rewritten before its parity has been compared, too.
        let mut pins: BTreeMap<u32, Pin<'_>> = BTreeMap::new();
        for (address, _) in &pages {
            let segment = address.segment();
            pins.entry(segment).or_insert_with(|| Pin::new(&self.space, segment));
        }
        for some in pages.chunks(SIDE_BY_SIDE) {
            let some: Vec<_> = some.iter().map(|&(address, sum)| (None, address, sum)).collect();
            self.check_blocks(&some, &mut checked, &mut marks, &mut lost).await;
        }
        let volumes = self.volumes.records();
        let mut gone = 0;
        for volume in volumes.iter().filter(|volume| !volume.destroyed) {
            // The map is walked: a volume of which little is written has little to be compared.
            let mut from = Some(0);
            while from.is_some() {
                let mut blocks = Vec::new();
                while blocks.len() < SIDE_BY_SIDE {
                    let block = match self.next_of(volume.id, from).await? {
                        Named::Block(block) => block,
                        Named::Lost { from: at, to, count } => {
                            checked.lost += count;
                            lost.add(volume.id, at..to);
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
                    let (located, pin) = self.locate((volume.id, block)).await?;
                    match located {
                        Located::At(address, sum) => {
                            if let Some(pin) = pin {
                                pins.entry(address.segment()).or_insert(pin);
                            }
                            blocks.push((Some((volume.id, block)), address, sum));
                        }
                        Located::Lost => {
                            checked.lost += 1;
                            lost.add(volume.id, block..block + 1);
                        }
                        Located::Zeroes => {}
                    }
                }
                self.check_blocks(&blocks, &mut checked, &mut marks, &mut lost).await;
                reported(gone + from.map_or(volume.size, |from| from * BLOCK as u64));
            }
            gone += volume.size;
        }
        for (segment, stripe) in marks.all() {
            self.check_stripe(segment, stripe, &mut checked).await;
        }
        drop(pins);
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
                Next::InLeaf(at, pointer) => match self.load(at, pointer).await {
                    Err(VolumeError::TooManyLost) => {
                        let map = self.map.borrow();
                        let count = map.leaves.get(&at).map_or(0, |slot| u64::from(slot.count));
                        return Ok(Named::Lost { from: at.1.max(from), to: map.end_of(at), count });
                    }
                    loaded => loaded?,
                },
                Next::Nothing => return Ok(Named::Nothing),
            }
        }
    }

    /// Whether a block that its member does not give is lost.
    async fn is_beyond_repair(&self, address: Address, sum: u32) -> bool {
        matches!(self.rebuilt(address, |block| checksum(block) == sum).await, Err(Unreadable::Lost))
    }

    /// Holds blocks of volumes, or pages, against their checksums.
    async fn check_blocks(
        &self,
        blocks: &[(Option<Key>, Address, u32)],
        checked: &mut Checked,
        marks: &mut Marks,
        lost: &mut Blocks,
    ) {
        let found = join_all(blocks.iter().map(|&(_, address, _)| self.raw(address, true))).await;
        for (&(key, address, sum), found) in blocks.iter().zip(found) {
            let is_right = found.as_ref().is_ok_and(|block| checksum(block) == sum);
            if let Some((volume, block)) = key.filter(|_| !is_right)
                && self.is_beyond_repair(address, sum).await
            {
                checked.lost += 1;
                lost.add(volume, block..block + 1);
            }
            let (spot, slot) = {
                let space = self.space.borrow();
                let slot = space.get(address.segment()).and_then(|s| s.record.shape().slot(address.place()));
                (space.spot(address), slot)
            };
            if let Some((stripe, _)) = slot {
                marks.mark(address.segment(), stripe);
            }
            let is_missing = spot.is_none_or(|(role, _)| self.set.members.readable(role, u64::MAX).is_none());
            match found {
                Ok(block) if checksum(&block) == sum => checked.blocks += 1,
                Ok(_) => {
                    checked.blocks += 1;
                    checked.wrong += 1;
                    checked.places.extend(spot.filter(|_| checked.places.len() < PLACES));
                }
                Err(Absent::Gone) if !is_missing => checked.unreadable += 1,
                Err(_) => checked.missing += 1,
            }
        }
    }

    async fn check_stripe(&self, segment: u32, stripe: u32, checked: &mut Checked) {
        let shape = self.space.borrow().get(segment).map(|segment| segment.record.shape());
        let Some(shape) = shape.filter(|shape| shape.parity > 0) else { return };
        let address = |slot| Address::new(segment, shape.place(stripe, slot));
        let blocks = join_all((0..shape.stripe).map(|slot| self.raw(address(slot), true))).await;
        let blocks: Vec<Option<Vec<u8>>> =
            blocks.into_iter().map(|block| block.ok().map(|block| block.to_vec())).collect();
        if blocks.iter().any(Option::is_none) {
            checked.uncompared += 1;
            return;
        }
        checked.stripes += 1;
        checked.mismatches += u64::from(!is_whole(&blocks, usize::from(shape.data())));
    }
}
