//! Reads: a block is believed only if it sums to what the map says, and rebuilt from its stripe where it does not.

use std::cell::RefCell;
use std::rc::Rc;

use brindle_format::pool::place::{Address, Shape};
use brindle_format::pool::{BLOCK, Leaf, Pointer, checksum};
use brindle_io::{OpError, Slice};
use brindle_members::door::Done;
use brindle_volume::VolumeError;

use crate::core::Core;
use crate::happened::Happened;
use crate::map::{Found, Key, Located};
use crate::space::Space;
use crate::stripe::{solve, suspects};

/// Blocks that are read at a time.
const WINDOW: usize = 64;
/// Places that were found wrong which are remembered.
const PLACES: usize = 1024;

/// A segment that somebody reads: it is not written anew meanwhile.
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
        loop {
            let found = self.map.borrow_mut().find(key);
            match found {
                Found::Here(located) => {
                    let pin = located.segment().map(|segment| Pin::new(&self.space, segment));
                    return Ok((located, pin));
                }
                Found::InLeaf(at, pointer) => self.load(at, pointer).await?,
            }
        }
    }

    /// Reads a leaf into memory.
    pub(crate) async fn load(&self, at: Key, pointer: Pointer) -> Result<(), VolumeError> {
        let _pin = Pin::new(&self.space, pointer.address.segment());
        let bytes = self.block(pointer.address, pointer.checksum, None).await?;
        let leaf = Leaf::parse(&bytes, at.0).map_err(|_| VolumeError::TooManyLost)?;
        self.map.borrow_mut().loaded(at, pointer, leaf.0);
        Ok(())
    }

    /// Fills a list of slices from a byte of a volume on.
    pub(crate) async fn read(&self, volume: u32, offset: u64, into: &[Slice]) -> Result<(), VolumeError> {
        let end = offset + brindle_volume::bytes(into);
        let (mut slice, mut within) = (0, 0);
        let mut at = offset;
        while at < end {
            let first = at / BLOCK as u64;
            let stop = end.min((first + WINDOW as u64) * BLOCK as u64);
            let blocks = (stop.div_ceil(BLOCK as u64) - first) as usize;
            let bytes = self.window(volume, first, blocks).await?;
            // Out of private memory, where it was verified.
            let mut from = &bytes[(at - first * BLOCK as u64) as usize..][..(stop - at) as usize];
            while !from.is_empty() {
                let room = into[slice].len() - within;
                let count = room.min(from.len());
                if into[slice].is_lent() {
                    return Err(VolumeError::Again);
                }
                into[slice].put(within, &from[..count]);
                from = &from[count..];
                within += count;
                if within == into[slice].len() {
                    (slice, within) = (slice + 1, 0);
                }
            }
            at = stop;
        }
        Ok(())
    }

    /// Some blocks of a volume, one after the other.
    pub(crate) async fn window(
        &self,
        volume: u32,
        first: u64,
        blocks: usize,
    ) -> Result<Vec<u8>, VolumeError> {
        let mut places = Vec::with_capacity(blocks);
        for n in 0..blocks as u64 {
            places.push(self.locate((volume, first + n)).await?);
        }
        let buf = self.reads.alloc(blocks * BLOCK).await;
        let mut asked = vec![false; blocks];
        let mut reading = self.set.door(None).ask();
        for (n, (located, _)) in places.iter().enumerate() {
            let Located::At(address, _) = *located else { continue };
            let spot = self.space.borrow().spot(address);
            let Some((role, offset)) = spot else { continue };
            if self.set.members.is_slow(role) {
                continue;
            }
            if let Some(device) = self.set.members.readable(role, u64::MAX) {
                reading.read(device, offset, &buf.slice(n * BLOCK..(n + 1) * BLOCK));
                asked[n] = true;
            }
        }
        let done = if reading.is_empty() { Done::default() } else { reading.submit().await };
        let mut out = vec![0; blocks * BLOCK];
        let well = done.is_ok();
        if well {
            let bytes = buf.bytes();
            for (n, _) in asked.iter().enumerate().filter(|(_, asked)| **asked) {
                out[n * BLOCK..][..BLOCK].copy_from_slice(&bytes[n * BLOCK..][..BLOCK]);
            }
        } else {
            self.judge_reads(&done).await;
        }
        drop(buf);
        for (n, (located, _)) in places.iter().enumerate() {
            let block = &mut out[n * BLOCK..][..BLOCK];
            match *located {
                Located::Zeroes => block.fill(0),
                Located::Lost => return Err(VolumeError::TooManyLost),
                Located::At(_, sum) if well && asked[n] && checksum(block) == sum => {}
                Located::At(address, sum) => {
                    let key = (volume, first + n as u64);
                    block.copy_from_slice(&self.block(address, sum, Some(key)).await?);
                }
            }
        }
        Ok(out)
    }

    /// Members that did not give what they were asked for are judged; a bad place is no reason to do without one.
    async fn judge_reads(&self, done: &Done) {
        for refused in done.refused().iter().filter(|refused| refused.is_of(&self.set.members)) {
            if !matches!(refused.error, OpError::Medium(_)) {
                let _judged = self.set.fail_member(refused.role, refused, false).await;
            }
        }
    }

    /// One block that sums to this; of a volume, for whoever repairs it. Its segment has to be pinned.
    pub(crate) async fn block(
        &self,
        address: Address,
        sum: u32,
        key: Option<Key>,
    ) -> Result<Rc<[u8]>, VolumeError> {
        let spot = self.space.borrow().spot(address);
        let Some((role, offset)) = spot else { return Err(VolumeError::TooManyLost) };
        if let Some(block) = self.raw(address).await
            && checksum(&block) == sum
        {
            return Ok(block);
        }
        let is_here = self.set.members.writable(role).is_some() && !self.set.members.is_slow(role);
        match self.rebuilt(address, |block| checksum(block) == sum).await {
            Some(block) => {
                if is_here {
                    self.found_wrong(role, offset);
                    self.mend(address, &block, key).await;
                }
                Ok(block)
            }
            None => {
                self.found_wrong(role, offset);
                self.harm(|damage| damage.lost += 1);
                self.happened(Happened::Lost, Some(role), None);
                Err(VolumeError::TooManyLost)
            }
        }
    }

    /// What stands at an address, if its member gives it.
    pub(crate) async fn raw(&self, address: Address) -> Option<Rc<[u8]>> {
        let (role, offset) = self.space.borrow().spot(address)?;
        if self.set.members.is_slow(role) {
            return None;
        }
        let device = self.set.members.readable(role, u64::MAX)?;
        let buf = self.reads.alloc(BLOCK).await;
        let mut reading = self.set.door(None).ask();
        reading.read(device, offset, &buf.all());
        let done = reading.submit().await;
        if !done.is_ok() {
            self.judge_reads(&done).await;
            return None;
        }
        let bytes: Rc<[u8]> = Rc::from(&*buf.bytes());
        Some(bytes)
    }

    /// All blocks of a stripe, by slots.
    pub(crate) async fn stripe(&self, segment: u32, shape: Shape, stripe: u32) -> Vec<Option<Vec<u8>>> {
        let mut blocks = Vec::new();
        for slot in 0..shape.stripe {
            let address = Address::new(segment, shape.place(stripe, slot));
            blocks.push(self.raw(address).await.map(|block| block.to_vec()));
        }
        blocks
    }

    /// A block that is right, out of the others of its stripe; of these, no more are taken for wrong than there have to be.
    pub(crate) async fn rebuilt(&self, address: Address, right: impl Fn(&[u8]) -> bool) -> Option<Rc<[u8]>> {
        let shape = self.space.borrow().get(address.segment())?.record.shape();
        let (stripe, slot) = shape.slot(address.place())?;
        let blocks = self.stripe(address.segment(), shape, stripe).await;
        choose(&blocks, shape, usize::from(slot), right).map(Rc::from)
    }

    /// Writes a block anew where it was found wrong, if the map still says that it is there.
    async fn mend(&self, address: Address, block: &Rc<[u8]>, key: Option<Key>) {
        if self.read_only {
            return;
        }
        if let Some(key) = key {
            let found = self.map.borrow_mut().find(key);
            if !matches!(found, Found::Here(Located::At(at, _)) if at == address) {
                return;
            }
        }
        let spot = self.space.borrow().spot(address);
        let Some((role, offset)) = spot else { return };
        let Some(device) = self.set.members.writable(role) else { return };
        let buf = self.reads.alloc(BLOCK).await;
        buf.bytes_mut().copy_from_slice(block);
        let mut writing = self.set.door(None).ask();
        writing.write(device, offset, &buf.all(), false);
        if self.landed(&writing.submit().await).await.is_ok() {
            self.harm(|damage| damage.mended += 1);
            self.happened(Happened::Mended, Some(role), None);
        }
    }

    fn found_wrong(&self, role: u16, offset: u64) {
        self.harm(|damage| damage.found += 1);
        let mut places = self.places.borrow_mut();
        if places.len() < PLACES && !places.contains(&(role, offset)) {
            places.push((role, offset));
        }
    }
}

/// The block of a slot that is right, taken for missing with as few others as possible.
pub(crate) fn choose(
    blocks: &[Option<Vec<u8>>],
    shape: Shape,
    slot: usize,
    right: impl Fn(&[u8]) -> bool,
) -> Option<Vec<u8>> {
    let missing = (0..blocks.len()).filter(|&n| n != slot && blocks[n].is_none()).count();
    let spare = usize::from(shape.parity).checked_sub(missing + 1)?;
    let there: Vec<usize> = (0..blocks.len()).filter(|&n| n != slot && blocks[n].is_some()).collect();
    suspects(&there, Some(slot), spare + 1).into_iter().find_map(|set| {
        let mut given = blocks.to_vec();
        set.iter().for_each(|&n| given[n] = None);
        if !solve(&mut given, usize::from(shape.data())) {
            return None;
        }
        given[slot].take().filter(|block| right(block))
    })
}
