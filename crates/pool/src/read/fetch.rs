//! Reads of many blocks. Neighbours on a member are one operation, all operations are in flight side by side, and blocks that no member
//! gives are made of what was read beside them: only the rest of their stripes is read in addition.

use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_format::pool::place::Address;
use brindle_format::pool::{BLOCK, checksum};
use brindle_io::sync::join_all;
use brindle_io::{Buf, OpError, Slice};
use brindle_members::door::Done;
use brindle_members::members::Device;
use brindle_volume::VolumeError;

use super::Unreadable;
use crate::core::Core;
use crate::damage::WrongBlock;
use crate::store::map::Key;
use crate::store::space::Slot;
use crate::store::stripe::recovered;

/// Blocks of memory that what is missing of stripes is read into, in one piece.
const PIECE: usize = 64;
/// Blocks that are rebuilt one by one at a time.
const ONE_BY_ONE: usize = 32;

/// A block that is to be read into some memory. Its segment has to be pinned.
pub(crate) struct Wanted {
    /// Its place in a volume, by which it is repaired or found lost.
    pub(crate) key: Option<Key>,
    pub(crate) address: Address,
    pub(crate) sum: u32,
    pub(crate) into: Slice,
}

/// A block that is not in the memory that was given for it: by its number among those that were wanted.
pub(crate) type Elsewhere = (usize, Result<Rc<[u8]>, Unreadable>);

/// How far a block that is wanted has come.
#[derive(Clone, Debug)]
enum Fetched {
    /// No member is asked for it.
    Unasked,
    /// Its member is asked.
    Asked,
    /// It is in its memory, and right.
    There,
    /// Its member gave something else.
    Wrong,
    /// Its member did not answer.
    Unanswered,
    /// Its member can't read it, or a neighbour of it.
    Unread,
    /// It was made of others of its stripe.
    Rebuilt(Rc<[u8]>),
}

/// A block of a member that is read.
struct Ask {
    role: u16,
    offset: u64,
    device: Device,
    /// The wanted block that it is, or what is missing of a stripe: these are counted on.
    at: usize,
}

/// Memory for what is missing of stripes.
#[derive(Default)]
struct Room {
    pieces: Vec<Buf>,
    used: usize,
}

impl Room {
    /// Memory of one block more. Only the first piece is waited for: the task holds no memory of reads then.
    async fn more(&mut self, core: &Core) -> Option<Slice> {
        let at = self.used % PIECE;
        if at == 0 && self.used / PIECE == self.pieces.len() {
            let piece = match core.reads.try_alloc(PIECE * BLOCK) {
                None if self.pieces.is_empty() => core.reads.alloc(PIECE * BLOCK).await,
                piece => piece?,
            };
            self.pieces.push(piece);
        }
        self.used += 1;
        Some(self.pieces.last()?.slice(at * BLOCK..(at + 1) * BLOCK))
    }
}

/// A slot of a stripe from which blocks are rebuilt.
#[derive(Clone, Copy)]
enum Part {
    /// Not needed, or not to be had.
    Left,
    /// It is, or is to be, one of the wanted blocks.
    Wanted(usize),
    /// It is read in addition.
    More(usize),
}

/// A stripe of which blocks are rebuilt.
struct Lacking {
    data: usize,
    /// Wanted blocks, with their slots.
    lost: Vec<(usize, usize)>,
    /// By slots.
    parts: Vec<Part>,
}

/// Blocks that are missing of stripes, and read in addition.
#[derive(Default)]
struct More {
    stripes: Vec<Lacking>,
    room: Room,
    into: Vec<Slice>,
}

impl Core {
    /// Reads blocks into their memory, which is not of reads. Gives those that are not there, since they were rebuilt or can't be read.
    ///
    /// # Errors
    /// A device still has the memory, for an operation that was given up: [`VolumeError::Again`] if others are asked with other memory,
    /// else the error of that member.
    pub(crate) async fn fetch(&self, wanted: &[Wanted]) -> Result<Vec<Elsewhere>, VolumeError> {
        let mut states = vec![Fetched::Asked; wanted.len()];
        let mut asks = Vec::with_capacity(wanted.len());
        for (at, block) in wanted.iter().enumerate() {
            let spot = self.space.borrow().source(block.address);
            match self.source(spot) {
                Some((role, offset, device)) => asks.push(Ask { role, offset, device, at }),
                None => states[at] = Fetched::Unasked,
            }
        }
        let whole = asks.len() == wanted.len();
        // Members that are known to be gone or slow cost no round of their own.
        let more = if whole { More::default() } else { self.missing(wanted, &states, &mut asks).await };
        self.ask(wanted, &mut states, &mut asks, &more).await?;
        if whole && states.iter().all(|state| matches!(state, Fetched::There)) {
            return Ok(Vec::new());
        }
        rebuild(wanted, &mut states, &more);
        drop(more);
        if states.iter().any(|state| matches!(state, Fetched::Wrong | Fetched::Unanswered)) {
            let before = states.clone();
            let mut asks = Vec::new();
            let more = self.missing(wanted, &states, &mut asks).await;
            self.ask(wanted, &mut states, &mut asks, &more).await?;
            rebuild(wanted, &mut states, &more);
            drop(more);
            self.heal(wanted, &before, &states).await;
        }
        Ok(self.others(wanted, states).await)
    }

    /// The device to be asked for a block that stands there; one that is slow is not.
    fn source(&self, spot: Option<(u16, u64)>) -> Option<(u16, u64, Device)> {
        let (role, offset) = spot.filter(|(role, _)| !self.set.members.is_slow(*role))?;
        Some((role, offset, self.set.members.readable(role, u64::MAX)?))
    }

    /// Sends reads, those of neighbours as one, and holds what is wanted against its checksums.
    async fn ask(
        &self,
        wanted: &[Wanted],
        states: &mut [Fetched],
        asks: &mut [Ask],
        more: &More,
    ) -> Result<(), VolumeError> {
        if asks.is_empty() {
            return Ok(());
        }
        asks.sort_unstable_by_key(|ask| (ask.role, ask.offset));
        let mut reading = self.set.door(None).ask();
        for ask in asks.iter() {
            let into =
                wanted.get(ask.at).map_or_else(|| &more.into[ask.at - wanted.len()], |block| &block.into);
            reading.read(ask.device, ask.offset, into);
        }
        let done = reading.submit().await;
        if !done.is_ok() {
            self.judge_reads(&done).await;
            note_failures(&done, asks, states);
            let memory: Vec<Slice> = wanted.iter().map(|block| block.into.clone()).collect();
            if let Some(error) = self.set.error_if_pinned(memory, &done) {
                return Err(error);
            }
        }
        for (block, state) in wanted.iter().zip(states) {
            if matches!(state, Fetched::Asked) {
                // Others may fill parts of the same memory.
                let right = block.into.try_bytes_mut().map(|bytes| checksum(&bytes) == block.sum);
                *state = match right {
                    Some(true) => Fetched::There,
                    Some(false) => Fetched::Wrong,
                    None => Fetched::Unread,
                };
            }
        }
        Ok(())
    }

    /// Finds what is missing of the stripes of blocks that are not there, and asks for it. Stripes that don't have enough are left out.
    async fn missing(&self, wanted: &[Wanted], states: &[Fetched], asks: &mut Vec<Ask>) -> More {
        let mut more = More::default();
        let (mut slots, mut stripes) = (BTreeMap::new(), BTreeMap::new());
        {
            let space = self.space.borrow();
            for (n, block) in wanted.iter().enumerate() {
                let Some((at, shape)) = space.slot_of(block.address) else { continue };
                match &states[n] {
                    Fetched::There | Fetched::Asked | Fetched::Rebuilt(_) => drop(slots.insert(at, n)),
                    // One of several neighbours: which it is shows when each is read by itself.
                    Fetched::Unread => {}
                    Fetched::Unasked | Fetched::Wrong | Fetched::Unanswered => {
                        let of = stripes.entry(Slot { slot: 0, ..at });
                        of.or_insert_with(|| (shape, Vec::new())).1.push((n, usize::from(at.slot)));
                    }
                }
            }
        }
        for (stripe, (shape, lost)) in stripes {
            let (data, mut parts) = (usize::from(shape.data()), vec![Part::Left; usize::from(shape.stripe)]);
            let mut needs = data;
            for (slot, part) in (0..shape.stripe).zip(&mut parts) {
                if let Some(&n) = slots.get(&Slot { slot, ..stripe }) {
                    *part = Part::Wanted(n);
                    needs = needs.saturating_sub(1);
                }
            }
            let is_lost = |slot: u8| lost.iter().any(|&(_, lost)| lost == usize::from(slot));
            let free = (0..shape.stripe)
                .filter(|&slot| matches!(parts[usize::from(slot)], Part::Left) && !is_lost(slot));
            let sources: Vec<(u8, (u16, u64, Device))> = free
                .filter_map(|slot| {
                    let spot = self.space.borrow().source_of_slot(Slot { slot, ..stripe });
                    Some((slot, self.source(spot)?))
                })
                .take(needs)
                .collect();
            if sources.len() < needs {
                continue;
            }
            let (begun, asked) = (more.into.len(), asks.len());
            for (slot, (role, offset, device)) in sources {
                let Some(into) = more.room.more(self).await else { break };
                let at = wanted.len() + more.into.len();
                parts[usize::from(slot)] = Part::More(more.into.len());
                more.into.push(into);
                asks.push(Ask { role, offset, device, at });
            }
            if more.into.len() - begun == needs {
                more.stripes.push(Lacking { data, lost, parts });
            } else {
                asks.truncate(asked);
                break;
            }
        }
        more
    }

    /// Writes blocks anew that their members gave wrong, and reports them.
    async fn heal(&self, wanted: &[Wanted], before: &[Fetched], states: &[Fetched]) {
        let wrong = wanted.iter().zip(before.iter().zip(states)).filter_map(|(block, states)| match states {
            (Fetched::Wrong, Fetched::Rebuilt(right)) => Some((block, right)),
            _ => None,
        });
        join_all(wrong.map(async |(block, right)| {
            let spot = self.space.borrow().spot(block.address);
            if let Some((role, offset)) = spot.filter(|(role, _)| self.set.members.writable(*role).is_some())
            {
                let mended = self.mend(block.address, right, block.key).await;
                let outcome = if mended { WrongBlock::Mended } else { WrongBlock::Stays };
                self.found_wrong(role, offset, outcome);
            }
        }))
        .await;
    }

    /// Blocks that are not in their memory: those that were rebuilt, and all others one by one, out of all that their stripes have.
    async fn others(&self, wanted: &[Wanted], states: Vec<Fetched>) -> Vec<Elsewhere> {
        let (mut elsewhere, mut left) = (Vec::new(), Vec::new());
        for (n, state) in states.into_iter().enumerate() {
            match state {
                Fetched::There => {}
                Fetched::Rebuilt(block) => elsewhere.push((n, Ok(block))),
                _ => left.push(n),
            }
        }
        for some in left.chunks(ONE_BY_ONE) {
            let one = async |&n: &usize| {
                let block = &wanted[n];
                (n, self.block(block.address, block.sum, block.key).await)
            };
            elsewhere.extend(join_all(some.iter().map(one)).await);
        }
        elsewhere
    }
}

/// Marks the blocks whose members did not give them. Neighbours were one operation.
fn note_failures(done: &Done, asks: &[Ask], states: &mut [Fetched]) {
    for refused in done.refused() {
        let state =
            if matches!(refused.error, OpError::Medium(_)) { Fetched::Unread } else { Fetched::Unanswered };
        let first = asks.iter().position(|ask| (ask.role, ask.offset) == (refused.role, refused.offset));
        let mut next = refused.offset;
        for ask in asks[first.unwrap_or(0)..].iter().filter(|ask| ask.role == refused.role) {
            if first.is_some() && core::mem::replace(&mut next, ask.offset + BLOCK as u64) != ask.offset {
                break;
            }
            if let Some(of) = states.get_mut(ask.at) {
                *of = state.clone();
            }
        }
    }
}

/// Makes lost blocks of what was read of their stripes. Those whose checksum is not right stay lost.
fn rebuild(wanted: &[Wanted], states: &mut [Fetched], more: &More) {
    for stripe in &more.stripes {
        let found = {
            let bytes = |part: &Part| match *part {
                Part::Wanted(n) if matches!(states[n], Fetched::There) => Some(&wanted[n].into),
                Part::More(n) => Some(&more.into[n]),
                Part::Wanted(_) | Part::Left => None,
            };
            // Looks are given only while nothing fills the memory; one look keeps others from being changed.
            let seen = |into: &&Slice| into.try_bytes_mut().is_some();
            let parts: Vec<Option<&Slice>> =
                stripe.parts.iter().map(|part| bytes(part).filter(seen)).collect();
            let held: Vec<Option<_>> = parts.into_iter().map(|into| into.map(Slice::bytes)).collect();
            let blocks: Vec<Option<&[u8]>> = stripe
                .parts
                .iter()
                .zip(&held)
                .map(|(part, held)| match part {
                    Part::Wanted(n) if let Fetched::Rebuilt(block) = &states[*n] => Some(&**block),
                    _ => held.as_deref(),
                })
                .collect();
            let lost: Vec<usize> = (0..stripe.data).filter(|&slot| blocks[slot].is_none()).collect();
            let there = blocks[stripe.data..].iter().flatten().count();
            let found = if lost.len() > there { Vec::new() } else { recovered(&blocks, stripe.data, &lost) };
            lost.into_iter().zip(found).collect::<BTreeMap<usize, Vec<u8>>>()
        };
        for (n, slot) in &stripe.lost {
            if let Some(block) = found.get(slot).filter(|block| checksum(block) == wanted[*n].sum) {
                states[*n] = Fetched::Rebuilt(Rc::from(&**block));
            }
        }
    }
}
