//! Writes anew what a scrub has found wrong.
//!
//! Nothing is written over anything newer. The segment is pinned since before it was read, so that it is what it was; a block of a volume
//! is held, and the map asked once more.

use brindle_format::pool::BLOCK;
use brindle_format::pool::place::{Address, Shape};
use brindle_io::Duration;
use brindle_io::sync::{Either, join_all, race};
use brindle_members::lock::Hold;

use super::Check;
use crate::core::Core;
use crate::damage::WrongBlock;
use crate::read::Absent;
use crate::store::leaf::Located;
use crate::store::map::{Key, Known, Page, lock_of};
use crate::store::space::Slot;

/// Time in which changes of a block end that is to be written anew.
const TURN: Duration = Duration::from_secs(2);

/// The end of a block that was to be written anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rewritten {
    /// It stands there.
    Stands,
    /// The block is somewhere else by now, or nowhere.
    Elsewhere,
    /// The member did not take it, or does not give it.
    Refused,
}

impl Check<'_> {
    /// Writes a slot anew, if this heals, and reports it. Its segment has to be pinned. `right` is what should stand there, if that is
    /// known; `key` says which block of a volume it is.
    pub(super) async fn mend(&mut self, at: Slot, right: Option<&[u8]>, key: Option<(Key, Address)>) {
        let spot = self.core.space.borrow().spot_of_slot(at);
        let Some((role, offset)) = spot else { return };
        let outcome = match right {
            Some(block) if self.heals => match self.core.rewrite(at, block, key).await {
                Rewritten::Stands => WrongBlock::Mended,
                Rewritten::Elsewhere => return,
                Rewritten::Refused => WrongBlock::Stays,
            },
            Some(_) => WrongBlock::Stays,
            None => WrongBlock::Lost,
        };
        self.checked.healed += u64::from(outcome == WrongBlock::Mended);
        self.checked.unhealed += u64::from(self.heals && outcome == WrongBlock::Stays);
        self.core.found_wrong(role, offset, outcome);
    }

    /// A page of the map can't be rebuilt. One that is in memory is written elsewhere by the next checkpoint; what another named is lost.
    pub(super) async fn page_is_lost(&mut self, page: Page) {
        let known = self.core.map.borrow().tree.known(page.level, page.at);
        match known {
            Known::There { pointer, in_memory: true, .. } if pointer == page.pointer => {
                if self.heals {
                    self.core.map.borrow_mut().touch(page.level, page.at);
                    self.rewrites_pages = true;
                }
            }
            _ => {
                self.walks = true;
                let _told = self.core.load(page).await;
            }
        }
    }
}

impl Core {
    /// A slot is on a member that is missing, or lacks it.
    pub(super) fn is_away(&self, at: Slot) -> bool {
        let source = self.space.borrow().source_of_slot(at);
        source.is_none_or(|(role, _)| self.set.members.readable(role, u64::MAX).is_none())
    }

    /// The blocks of a stripe, or why they are not there.
    pub(super) async fn slots_of(
        &self,
        segment: u32,
        shape: Shape,
        stripe: u32,
    ) -> Vec<Result<Vec<u8>, Absent>> {
        let slots = (0..shape.stripe).map(|slot| self.raw_slot(Slot { segment, stripe, slot }, true));
        join_all(slots).await.into_iter().map(|block| block.map(|block| block.to_vec())).collect()
    }

    /// Writes what should stand in a slot, and reads it back.
    async fn rewrite(&self, at: Slot, block: &[u8], key: Option<(Key, Address)>) -> Rewritten {
        let _held = match key.map(|(key, _)| lock_of(key)) {
            Some(lock) => {
                let turn = self.locks.acquire(lock..lock + 1, Hold::Exclusive);
                // A change of the block may wait for room that the segments make which this keeps.
                match race(turn, self.set.io.sleep(TURN)).await {
                    Either::First(held) => Some(held),
                    Either::Second(()) => return Rewritten::Refused,
                }
            }
            None => None,
        };
        if let Some((key, address)) = key {
            match self.locate(key).await {
                Ok((Located::At(now, _), _)) if now == address => {}
                Ok(_) => return Rewritten::Elsewhere,
                Err(_) => return Rewritten::Refused,
            }
        }
        let spot = self.space.borrow().source_of_slot(at);
        let device = spot.and_then(|(role, offset)| Some((self.set.members.writable(role)?, offset)));
        let Some((device, offset)) = device.filter(|_| !self.read_only) else { return Rewritten::Refused };
        {
            let buf = self.reads.alloc(BLOCK).await;
            buf.bytes_mut().copy_from_slice(block);
            let mut writing = self.set.door(None).ask();
            writing.write(device, offset, &buf.all(), false);
            if self.landed(&writing.submit().await).await.is_err() {
                return Rewritten::Refused;
            }
        }
        match self.raw_slot(at, true).await {
            Ok(stands) if *stands == *block => Rewritten::Stands,
            _ => Rewritten::Refused,
        }
    }
}
