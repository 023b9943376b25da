//! Members that are out of use and come back. One is taken again if nothing on it is old.
//!
//! Blocks that were written while it was away lie in segments without its bit, and do not concern it. Of those with its bit it has all that
//! was written before its youngest uberblock, since that was made stable first. The others are segments that were open when it left, and
//! those of pages, which have no number: each batch in them is held against what the others give, and written anew where it is wrong.
//!
//! All of that is found out without the member: nothing of it is believed before. Its bit of `out` is cleared by the opening's own
//! uberblock, which stands before anything but that is written.

use brindle_format::pool::place::Address;
use brindle_format::pool::{BLOCK, DATA_START, SegmentClass};
use brindle_io::{OpClass, OpError};

use crate::core::Core;
use crate::opening::look::{LABEL_PATIENCE as PATIENCE, Returning};
use crate::opening::replay::{Places, verify};
use crate::role::Role;
use crate::store::space::{Grant, Slot};

impl Core {
    /// Whether a member has all that it is to have, once it was given what it lacked.
    pub(crate) async fn is_brought_up(&self, one: Returning) -> bool {
        let mut wrote = false;
        for segment in self.in_doubt(one) {
            match self.bring_up(one, segment).await {
                Ok(more) => wrote |= more,
                Err(_) => return false,
            }
        }
        let mut flush = self.set.io.group_of(OpClass::Metadata);
        flush.flush(one.id);
        !wrote
            || matches!(
                flush.submit_by(self.set.io.now().after(PATIENCE)).await.ok(),
                Ok(()) | Err(OpError::Unsupported)
            )
    }

    /// Segments with a member's bit that may have been written after its youngest uberblock.
    fn in_doubt(&self, one: Returning) -> Vec<u32> {
        let label = self.label.get();
        let Role { vdev, index } = Role::of(&label, one.member);
        let Ok(of) = u16::try_from(vdev) else { return Vec::new() };
        let space = self.space.borrow();
        let may_be_old = |&n: &u32| {
            space.get(n).is_some_and(|segment| {
                let record = &segment.record;
                let is_young = record.class == SegmentClass::Pages || record.sequence > one.sequence;
                record.members >> index & 1 == 1 && record.live > 0 && is_young
            })
        };
        label.runs_of(of).flat_map(|run| run.first_segment..run.end()).filter(may_be_old).collect()
    }

    /// Writes blocks of a segment anew that are wrong on the member; true if there were any.
    async fn bring_up(&self, one: Returning, segment: u32) -> Result<bool, OpError> {
        let found = self.space.borrow().get(segment).map(|s| (s.record.shape(), s.record.stripes));
        let Some((shape, stripes)) = found else { return Ok(false) };
        let mut places = Places::new(self, segment, shape, &[]);
        let (mut stripe, mut wrote) = (0, false);
        while stripe < stripes.min(shape.stripes()) {
            places.forget(stripe);
            let blocks = places.stripe(stripe).await;
            let address = Address::new(segment, shape.place(stripe, 0));
            let mut next = stripe + 1;
            for batch in self.summaries_in(&blocks, shape, address) {
                let grant = Grant { segment, shape, stripe, stripes: u32::from(batch.stripes) };
                let fits = stripe + grant.stripes <= shape.stripes() && batch.blocks() <= grant.blocks();
                if fits && let Some(others) = verify(&mut places, &batch, grant).await {
                    wrote |= self.set_right_on(one, &others).await?;
                    next = stripe + grant.stripes;
                    break;
                }
            }
            stripe = next;
        }
        Ok(wrote)
    }

    /// Of these blocks, writes those that a member is to have and does not.
    async fn set_right_on(&self, one: Returning, blocks: &[(Slot, Vec<u8>)]) -> Result<bool, OpError> {
        let spot = |slot: Slot| self.space.borrow().source_of_slot(slot);
        let own = blocks.iter().filter_map(|(slot, block)| {
            let (role, offset) = spot(*slot)?;
            (role == one.member).then_some((DATA_START + offset, block.as_slice()))
        });
        let own: Vec<(u64, &[u8])> = own.collect();
        if own.is_empty() {
            return Ok(false);
        }
        let wrong = self.wrong_on(one, &own).await?;
        if wrong.is_empty() {
            return Ok(false);
        }
        let io = &self.set.io;
        let buf = self.reads.alloc(wrong.len() * BLOCK).await;
        let mut writing = io.group_of(OpClass::Metadata);
        {
            let mut bytes = buf.bytes_mut();
            wrong
                .iter()
                .zip(bytes.chunks_exact_mut(BLOCK))
                .for_each(|((_, block), to)| to.copy_from_slice(block));
        }
        for (n, (offset, _)) in wrong.iter().enumerate() {
            writing.write(one.id, *offset, &buf.slice(n * BLOCK..(n + 1) * BLOCK), false);
        }
        writing.submit_by(io.now().after(PATIENCE)).await.ok()?;
        Ok(true)
    }

    /// Those of these blocks that a member does not give as they are.
    async fn wrong_on<'a>(
        &self,
        one: Returning,
        own: &[(u64, &'a [u8])],
    ) -> Result<Vec<(u64, &'a [u8])>, OpError> {
        let io = &self.set.io;
        let buf = self.reads.alloc(own.len() * BLOCK).await;
        let mut reading = io.group_of(OpClass::Metadata);
        for (n, (offset, _)) in own.iter().enumerate() {
            reading.read(one.id, *offset, &buf.slice(n * BLOCK..(n + 1) * BLOCK));
        }
        match reading.submit_by(io.now().after(PATIENCE)).await.ok() {
            Ok(()) => {
                let bytes = buf.bytes();
                let held = own.iter().zip(bytes.chunks_exact(BLOCK));
                Ok(held.filter(|((_, block), held)| block != held).map(|(own, _)| *own).collect())
            }
            // Places that can't be read may be written.
            Err(OpError::Medium(_)) => Ok(own.to_vec()),
            Err(error) => Err(error),
        }
    }
}
