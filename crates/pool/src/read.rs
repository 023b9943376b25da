//! Reads. A block must have the checksum in the map; otherwise it is rebuilt from its stripe.

mod fetch;
mod window;

use std::cell::RefCell;
use std::rc::Rc;

use brindle_format::pool::place::{Address, Shape};
use brindle_format::pool::{BLOCK, checksum};
use brindle_io::OpError;
use brindle_io::sync::{Notify, join_all};
use brindle_members::door::Done;
use brindle_volume::VolumeError;

use crate::core::Core;
use crate::damage::WrongBlock;
use crate::store::leaf::Located;
use crate::store::map::{ENDLESS, Found, Key, Page};
use crate::store::space::{Slot, Space};
use crate::store::stripe::{is_parity_of, solve, suspects};

use fetch::Wanted;
pub(crate) use window::cut;

/// Pages of the map that are read ahead where a volume is read in order.
const AHEAD: usize = 4;
/// Branches that are looked at for memory when a page is read.
const LOOKS: usize = 64;

/// Why a member does not give a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Absent {
    /// It says that it can't be read.
    Gone,
    /// No member in use has it.
    Away,
    /// It has not answered, and may have it.
    Silent(VolumeError),
}

/// Why there is no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// All members of its stripe have answered, and nothing gives it that can be believed.
    Lost,
    /// One of them has not answered.
    Silent(VolumeError),
}

impl From<Unreadable> for VolumeError {
    fn from(why: Unreadable) -> Self {
        match why {
            Unreadable::Lost => Self::TooManyLost,
            Unreadable::Silent(error) => error,
        }
    }
}

/// A stripe as its members gave it.
pub(crate) struct Stripe {
    /// By slots.
    pub(crate) blocks: Vec<Option<Vec<u8>>>,
    pub(crate) silent: Option<VolumeError>,
}

/// A page of the map that a task reads: others wait for it.
struct Loading<'a> {
    core: &'a Core,
    at: Key,
    ended: Rc<Notify>,
}

impl<'a> Loading<'a> {
    fn new(core: &'a Core, at: Key) -> Self {
        let ended = Rc::new(Notify::new(&core.set.io));
        core.loading.borrow_mut().insert(at, Rc::clone(&ended));
        Self { core, at, ended }
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        let mut loading = self.core.loading.borrow_mut();
        if loading.get(&self.at).is_some_and(|now| Rc::ptr_eq(now, &self.ended)) {
            loading.remove(&self.at);
        }
        drop(loading);
        self.ended.notify();
    }
}

/// A segment that a task reads: it is not rewritten meanwhile.
pub(crate) struct Pin<'a>(&'a RefCell<Space>, u32);

impl<'a> Pin<'a> {
    pub(crate) fn new(space: &'a RefCell<Space>, segment: u32) -> Self {
        space.borrow_mut().pin(segment);
        Self(space, segment)
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.0.borrow_mut().unpin(self.1);
    }
}

impl Core {
    /// Where a block is, by the map; and its segment stays what it is while the pin lives.
    pub(crate) async fn locate(&self, key: Key) -> Result<(Located, Option<Pin<'_>>), VolumeError> {
        let mut missed = false;
        loop {
            let found = self.map.borrow_mut().find(key);
            match found {
                Found::Here(located) => {
                    self.map.borrow_mut().was_asked(missed);
                    let pin = located.segment().map(|segment| Pin::new(&self.space, segment));
                    return Ok((located, pin));
                }
                Found::Unread(page) => {
                    missed = true;
                    self.load(page).await?;
                    self.read_ahead(page);
                }
            }
        }
    }

    /// Has leaves read that come next, if somebody reads a volume in order.
    fn read_ahead(&self, page: Page) {
        let most = AHEAD.min(self.map_memory.get() / BLOCK / 16);
        if page.level > 0 || most == 0 {
            return;
        }
        let ahead = self.map.borrow().tree.ahead_of(page.at, most);
        if let Some(core) = self.kept().filter(|_| !ahead.is_empty()) {
            drop(self.set.io.spawn(async move {
                for page in ahead {
                    if core.run.is_stopping() || core.load(page).await.is_err() {
                        break;
                    }
                }
            }));
        }
    }

    /// Reads a page of the map into memory, or waits for a task that does: the caller looks again. The more ask for a page of a member that is
    /// busy, the busier they would make it.
    pub(crate) async fn load(&self, page: Page) -> Result<(), VolumeError> {
        // It may have been read or written elsewhere since it was asked for: its place may be of anything by now.
        if !self.map.borrow().tree.is_unread(page) {
            return Ok(());
        }
        let (at, pointer) = (page.at, page.pointer);
        let spot = self.space.borrow().spot(pointer.address);
        let is_slow = spot.is_some_and(|(role, _)| self.set.members.is_slow(role));
        let other = self.loading.borrow().get(&at).filter(|_| !is_slow).cloned();
        if let Some(other) = other {
            let is_over = || !self.loading.borrow().get(&at).is_some_and(|now| Rc::ptr_eq(now, &other));
            other.until(|| is_over().then_some(())).await;
            return Ok(());
        }
        let _loading = Loading::new(self, at);
        let _pin = Pin::new(&self.space, pointer.address.segment());
        let bytes = match self.block(pointer.address, pointer.checksum, None).await {
            Err(Unreadable::Lost) => return self.is_lost_below(page),
            read => read?,
        };
        // Else a volume that is only read would have all of its map in memory.
        let most = self.memory_of_pages().saturating_sub(page.bytes());
        {
            let tree = &mut self.map.borrow_mut().tree;
            // No branch twice: what was read just before stays, since whoever needs two pages would have one at a time for ever.
            let looks = LOOKS.min(tree.may_be_open());
            let _enough = tree.shrink(most, looks, Some(page.at));
        }
        let loaded = self.map.borrow_mut().loaded(page, &bytes);
        loaded.or_else(|_| self.is_lost_below(page))
    }

    /// The places of all blocks of a page of the map are not known any more, if the map still says that it is there.
    fn is_lost_below(&self, page: Page) -> Result<(), VolumeError> {
        if !self.map.borrow().tree.is_unread(page) {
            return Ok(());
        }
        let end = self.map.borrow().tree.behind(page.at);
        for id in self.volumes.records().iter().map(|record| record.id) {
            let from = if id == page.at.0 { page.at.1 } else { 0 };
            let to = if id == end.0 { end.1 } else { ENDLESS };
            if (page.at.0..=end.0).contains(&id) && from < to && (page.level > 0 || id == page.at.0) {
                self.lost(id, from..to);
            }
        }
        Err(VolumeError::TooManyLost)
    }

    /// Members that did not give what they were asked for are judged; a bad place is no reason to do without one.
    pub(crate) async fn judge_reads(&self, done: &Done) {
        for refused in done.refused().iter().filter(|refused| refused.is_of(&self.set.members)) {
            if !matches!(refused.error, OpError::Medium(_)) {
                let _judged = self.set.fail_member(refused.role, refused, false).await;
            }
        }
    }

    /// Blocks of volumes that sum to these, read side by side. Their segments have to be pinned.
    pub(crate) async fn blocks(&self, blocks: &[(Key, Address, u32)]) -> Vec<Result<Rc<[u8]>, Unreadable>> {
        let buf = self.batches.alloc(blocks.len().max(1) * BLOCK).await;
        let into = |n: usize| buf.slice(n * BLOCK..(n + 1) * BLOCK);
        let wanted = blocks.iter().enumerate().map(|(n, &(key, address, sum))| {
            let (key, into) = (Some(key), into(n));
            Wanted { key, address, sum, into }
        });
        let wanted: Vec<Wanted> = wanted.collect();
        let Ok(others) = self.fetch(&wanted).await else {
            drop((wanted, buf));
            // Memory that a device keeps is of no use: each gets other memory.
            let one = |&(key, address, sum): &(Key, Address, u32)| self.block(address, sum, Some(key));
            return join_all(blocks.iter().map(one)).await;
        };
        let mut found: Vec<Option<Result<Rc<[u8]>, Unreadable>>> = vec![None; blocks.len()];
        for (n, block) in others {
            found[n] = Some(block);
        }
        let there = |block: &Wanted| Ok(Rc::from(&*block.into.bytes()));
        found.into_iter().zip(&wanted).map(|(found, block)| found.unwrap_or_else(|| there(block))).collect()
    }

    /// One block that sums to this; `key` is its place in a volume, by which it is repaired or found lost. Its segment has to be pinned.
    pub(crate) async fn block(
        &self,
        address: Address,
        sum: u32,
        key: Option<Key>,
    ) -> Result<Rc<[u8]>, Unreadable> {
        let spot = self.space.borrow().spot(address);
        let Some((role, offset)) = spot else { return Err(Unreadable::Lost) };
        let raw = self.raw(address, false).await;
        if let Ok(block) = &raw
            && checksum(block) == sum
        {
            return Ok(Rc::clone(block));
        }
        // A member that is silent may have what it should have, and one that lacks it gets it with all else.
        let is_asked = !matches!(raw, Err(Absent::Silent(_) | Absent::Away));
        let is_wrong = is_asked && self.set.members.writable(role).is_some();
        match self.rebuilt(address, |block| checksum(block) == sum).await {
            Ok(block) => {
                if is_wrong {
                    let mended = self.mend(address, &block, key).await;
                    let outcome = if mended { WrongBlock::Mended } else { WrongBlock::Stays };
                    self.found_wrong(role, offset, outcome);
                }
                Ok(block)
            }
            Err(Unreadable::Lost) => {
                // Else it is elsewhere by now.
                if let Some(key) = key.filter(|&key| self.is_at(key, address)) {
                    let _error = self.is_lost(key);
                }
                if !matches!(raw, Err(Absent::Away)) && self.set.members.readable(role, u64::MAX).is_some() {
                    self.found_wrong(role, offset, WrongBlock::Lost);
                }
                Err(Unreadable::Lost)
            }
            Err(silent) => Err(silent),
        }
    }

    /// The block that stands at an address, if its member gives it. One that is slow is asked only if `patiently`.
    pub(crate) async fn raw(&self, address: Address, patiently: bool) -> Result<Rc<[u8]>, Absent> {
        let spot = self.space.borrow().source(address);
        self.raw_at(spot, patiently).await
    }

    /// The same of a slot of a stripe.
    pub(crate) async fn raw_slot(&self, slot: Slot, patiently: bool) -> Result<Rc<[u8]>, Absent> {
        let spot = self.space.borrow().source_of_slot(slot);
        self.raw_at(spot, patiently).await
    }

    async fn raw_at(&self, spot: Option<(u16, u64)>, patiently: bool) -> Result<Rc<[u8]>, Absent> {
        let Some((role, offset)) = spot else { return Err(Absent::Away) };
        let Some(device) = self.set.members.readable(role, u64::MAX) else { return Err(Absent::Away) };
        if self.set.members.is_slow(role) && !patiently {
            return Err(Absent::Silent(VolumeError::of_member(role, OpError::TimedOut)));
        }
        let buf = self.reads.alloc(BLOCK).await;
        let mut reading = self.set.door(None).ask();
        reading.read(device, offset, &buf.all());
        let done = reading.submit().await;
        if done.is_ok() {
            let bytes: Rc<[u8]> = Rc::from(&*buf.bytes());
            return Ok(bytes);
        }
        self.judge_reads(&done).await;
        let silent = done.refused().iter().find(|refused| !matches!(refused.error, OpError::Medium(_)));
        match silent {
            // It is out of use, and that is on record.
            Some(_) if self.set.members.readable(role, u64::MAX).is_none() => Err(Absent::Away),
            Some(refused) => Err(Absent::Silent(VolumeError::of_member(role, refused.error))),
            None => Err(Absent::Gone),
        }
    }

    /// All blocks of a stripe, by slots, and what a member said that did not answer.
    pub(crate) async fn stripe(
        &self,
        address: Address,
        shape: Shape,
        stripe: u32,
        patiently: bool,
    ) -> Stripe {
        let (segment, mut blocks, mut silent) = (address.segment(), Vec::new(), None);
        let at = |slot| self.raw_slot(Slot { segment, stripe, slot }, patiently);
        for raw in join_all((0..shape.stripe).map(at)).await {
            if let Err(Absent::Silent(error)) = raw {
                silent = Some(error);
            }
            blocks.push(raw.ok().map(|block| block.to_vec()));
        }
        Stripe { blocks, silent }
    }

    /// A block that is right, out of the others of its stripe; of these, no more are taken for wrong than there have to be.
    pub(crate) async fn rebuilt(
        &self,
        address: Address,
        right: impl Fn(&[u8]) -> bool,
    ) -> Result<Rc<[u8]>, Unreadable> {
        let shape = self.space.borrow().get(address.segment()).map(|segment| segment.record.shape());
        let shape = shape.ok_or(Unreadable::Lost)?;
        let (stripe, slot) = shape.slot(address.place()).ok_or(Unreadable::Lost)?;
        let mut refused = None;
        // Members that are slow are asked where the others don't suffice.
        for patiently in [false, true] {
            let Stripe { mut blocks, silent } = self.stripe(address, shape, stripe, patiently).await;
            if blocks[usize::from(slot)].as_ref().is_some_and(|block| right(block)) {
                return blocks[usize::from(slot)].take().map(Rc::from).ok_or(Unreadable::Lost);
            }
            if let Some(block) = choose(&blocks, shape, usize::from(slot), &right) {
                return Ok(Rc::from(block));
            }
            refused = silent;
            if refused.is_none() {
                break;
            }
        }
        Err(refused.map_or(Unreadable::Lost, Unreadable::Silent))
    }

    /// The map says that a block is there.
    fn is_at(&self, key: Key, address: Address) -> bool {
        let found = self.map.borrow_mut().find(key);
        matches!(found, Found::Here(Located::At(at, _)) if at == address)
    }

    /// Notes that a block is lost; the error for requests that ask for it.
    fn is_lost(&self, (volume, block): Key) -> VolumeError {
        self.lost(volume, block..block + 1);
        VolumeError::TooManyLost
    }

    /// Writes a block anew where it was found wrong, if the map still says that it is there; whether it stands there.
    async fn mend(&self, address: Address, block: &Rc<[u8]>, key: Option<Key>) -> bool {
        if self.read_only || key.is_some_and(|key| !self.is_at(key, address)) {
            return false;
        }
        let spot = self.space.borrow().spot(address);
        let Some((role, offset)) = spot else { return false };
        let Some(device) = self.set.members.writable(role) else { return false };
        let buf = self.reads.alloc(BLOCK).await;
        buf.bytes_mut().copy_from_slice(block);
        let mut writing = self.set.door(None).ask();
        writing.write(device, offset, &buf.all(), false);
        self.landed(&writing.submit().await).await.is_ok()
    }

    /// A member gave something else than it should, or nothing.
    pub(crate) fn found_wrong(&self, role: u16, offset: u64, outcome: WrongBlock) {
        let new = self.damage.borrow_mut().wrong(role, offset, outcome);
        if new {
            let _borne = self.set.members.errors(role).note(self.set.io.now(), offset, u32::MAX);
            self.tell_damage();
        }
    }
}

/// The block of a slot that is right, taken for missing with as few others as possible. Of several, the one with which the whole
/// stripe agrees; none if two of these differ, since nothing tells which it is.
pub(crate) fn choose(
    blocks: &[Option<Vec<u8>>],
    shape: Shape,
    slot: usize,
    right: impl Fn(&[u8]) -> bool,
) -> Option<Vec<u8>> {
    let data = usize::from(shape.data());
    let missing = (0..blocks.len()).filter(|&n| n != slot && blocks[n].is_none()).count();
    let spare = usize::from(shape.parity).checked_sub(missing + 1)?;
    let there: Vec<usize> = (0..blocks.len()).filter(|&n| n != slot && blocks[n].is_some()).collect();
    let mut choices: [Option<Vec<u8>>; 2] = [None, None];
    for set in suspects(&there, Some(slot), spare + 1) {
        let mut given = blocks.to_vec();
        set.iter().for_each(|&n| given[n] = None);
        if !solve(&mut given, data) || !given[slot].as_ref().is_some_and(|block| right(block)) {
            continue;
        }
        let agrees = is_whole(&given, data);
        let found = given[slot].take()?;
        match &mut choices[usize::from(!agrees)] {
            Some(other) if *other != found => return None,
            Some(_) => {}
            choice => *choice = Some(found),
        }
    }
    let [whole, other] = choices;
    whole.or(other)
}

/// All that a slot may hold and `parse` takes, each once: the block there, and those that come out of the others, of which as many may be
/// wrong as there is parity for.
///
/// A block with a checksum of its own says that it is whole, not that it is the last one that was written there: a member that loses a
/// write goes on giving the one before. Where the stripe agrees, no write of it was lost.
pub(crate) fn candidates<T: PartialEq>(
    blocks: &[Option<Vec<u8>>],
    shape: Shape,
    slot: usize,
    parse: impl Fn(&[u8]) -> Option<T>,
) -> Vec<T> {
    let data = usize::from(shape.data());
    let mut all: Vec<T> = blocks[slot].as_deref().and_then(&parse).into_iter().collect();
    let there: Vec<usize> = (0..blocks.len()).filter(|&n| n != slot && blocks[n].is_some()).collect();
    let missing = blocks.len() - 1 - there.len();
    let Some(spare) = usize::from(shape.parity).checked_sub(missing) else { return all };
    if spare == 0 || blocks[slot].is_some() && missing == 0 && is_whole(blocks, data) {
        return all;
    }
    for set in suspects(&there, Some(slot), spare) {
        let mut given = blocks.to_vec();
        set.iter().for_each(|&n| given[n] = None);
        let found = if solve(&mut given, data) { given[slot].as_deref().and_then(&parse) } else { None };
        all.extend(found.filter(|found| !all.contains(found)));
    }
    all
}

/// Whether the parity of a stripe is that of its data.
pub(crate) fn is_whole(blocks: &[Option<Vec<u8>>], data: usize) -> bool {
    let blocks: Vec<&[u8]> = blocks.iter().flatten().map(Vec::as_slice).collect();
    agrees(&blocks, data)
}

/// The same of all blocks of a stripe.
pub(crate) fn agrees(blocks: &[&[u8]], data: usize) -> bool {
    let (slots, parity) = blocks.split_at(data.min(blocks.len()));
    is_parity_of(slots, parity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::stripe::new_parity;

    const SHAPE: Shape = Shape { members: 0b1_1111, rows: 16, stripe: 5, parity: 2, chunk: 0, turn: 0 };

    fn stripe() -> Vec<Option<Vec<u8>>> {
        let data: Vec<Vec<u8>> = (1..4u8).map(|n| vec![n; BLOCK]).collect();
        let slots: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let parity = new_parity(&slots, 2);
        data.into_iter().chain(parity).map(Some).collect()
    }

    #[test]
    fn the_choice_with_which_the_whole_stripe_agrees_is_taken() {
        let mut blocks = stripe();
        blocks[1] = Some(vec![9; BLOCK]);
        assert_eq!(choose(&blocks, SHAPE, 1, |block| block[0] == 2), Some(vec![2; BLOCK]));
        // One more that is wrong: no choice of one agrees with all.
        blocks[3] = Some(vec![7; BLOCK]);
        assert_eq!(choose(&blocks, SHAPE, 1, |block| block[0] == 2), Some(vec![2; BLOCK]));
    }

    #[test]
    fn choices_that_differ_and_fit_alike_are_no_answer() {
        let mut blocks = stripe();
        blocks[0] = Some(vec![9; BLOCK]);
        blocks[3] = Some(vec![7; BLOCK]);
        // Whatever is rebuilt passes for right: sets of two suspects agree all, each with another block.
        assert_eq!(choose(&blocks, SHAPE, 0, |_| true), None);
        assert_eq!(choose(&blocks, SHAPE, 0, |block| block[0] == 1), Some(vec![1; BLOCK]));
    }

    /// A member that lost a write gives the block before it, which is sound: both may stand there, by two copies of three even so.
    #[test]
    fn what_a_lost_write_left_is_one_of_the_candidates_and_not_the_only_one() {
        let block = |byte: u8| Some(vec![byte; BLOCK]);
        let parse = |block: &[u8]| (block[0] > 0).then_some(block[0]);
        let mirror = Shape { members: 0b111, rows: 16, stripe: 3, parity: 2, chunk: 0, turn: 0 };
        for (copies, all) in [([1, 2, 2], vec![1, 2]), ([1, 1, 2], vec![1, 2]), ([2, 2, 2], vec![2])] {
            let mut found = candidates(&copies.map(block), mirror, 0, parse);
            found.sort_unstable();
            assert_eq!(found, all, "{copies:?}");
        }
        let mut blocks: Vec<_> = [3, 4, 5].map(block).to_vec();
        let parity = new_parity(&[&[3; BLOCK][..], &[4; BLOCK], &[5; BLOCK]], 2);
        blocks.extend(parity.into_iter().map(Some));
        assert_eq!(candidates(&blocks, SHAPE, 0, parse), [3]);
        blocks[0] = block(1);
        let found = candidates(&blocks, SHAPE, 0, parse);
        assert!(found.contains(&1) && found.contains(&3), "{found:?}");
    }
}
