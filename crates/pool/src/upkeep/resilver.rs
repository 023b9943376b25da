//! Resilvering: what members lack of segments is made of the others, and written in its place. Addresses of blocks stay what they are.
//!
//! Segments are gone over in the order of their units, in stretches as the check reads them, and only those with something live. Each stripe
//! is held against the checksums of its batch's summary, dead blocks too. Several members get what they lack in one pass.
//!
//! Rules, for a crash at any moment. A member's bit of `missing` is cleared once all that it lacked of the segment has been written and the
//! member was flushed, and not before: from then on it is read. The next table that is recorded says so; until then an opening resilvers that
//! segment again. Only closed segments are gone over, of which all batches and pages have landed. One that became free meanwhile, and maybe was used
//! again, is left alone. A member that went and came back meanwhile is believed in nothing that was written before.

use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_format::pool::BLOCK;
use brindle_format::pool::place::{Address, Shape};
use brindle_io::{Duration, Instant, OpClass};
use brindle_members::members::Device;
use brindle_members::process::{Process, Speeds};
use brindle_members::scratch::Scratch;
use brindle_members::windows::Windows;
use brindle_volume::VolumeError;

use super::check::stretch::{Stretch, Written};
use super::check::told::Told;
use crate::core::Core;
use crate::opening::look::LABEL_PATIENCE;
use crate::read::{Absent, agrees};
use crate::store::space::Slot;
use crate::store::stripe::{settle, solve};

/// Bytes of members that are written before they are flushed, and segments count as whole.
const FLUSH: u64 = 64 << 20;
/// Bytes of memory for what is written at a time: blocks of a stretch, of as many members as there may be parity.
const MEMORY: usize = 2 << 20;
/// Passes that gain nothing after which what is left is moved.
const FRUITLESS: usize = 8;
/// The time after which a checkpoint records what members have got.
const RECORDED: Duration = Duration::from_secs(30);
/// The time after which a pass is tried again that members kept from going on.
const PAUSE: Duration = Duration::from_secs(1);

/// How a segment does that is gone over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// All up to now was made and written.
    Well,
    /// Something can't be made of what the others have, or was not taken.
    GivenUp,
    /// It is not what it was, or can't be gone over now: a later pass sees to it, if it has to be.
    Changed,
}

/// A device that is to take the place of a member, and its own number until then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Successor {
    pub(crate) member: u16,
    pub(crate) number: u16,
    pub(crate) device: Device,
}

/// The devices that get something.
#[derive(Clone, Copy)]
pub(super) enum Target {
    /// Members in use, each what it lacks.
    Members,
    /// A device that is none yet, all that the member has.
    Successor(Successor),
}

/// A segment that is gone over.
struct Going {
    segment: u32,
    /// How often it had become free when it was begun.
    reuses: u32,
    /// Roles of members that lack it, a bit each.
    lack: u64,
    /// The stripe that comes next, and how many there are.
    next: u32,
    stripes: u32,
    told: Option<Told>,
    course: Course,
}

/// A pass over segments that members lack.
struct Pass<'a> {
    core: &'a Rc<Core>,
    memory: Scratch,
    /// How many devices had come into each role when it began.
    joined: Vec<u32>,
    /// How often each of its segments had become free then. All that was written to these has landed; one that is used again is written to.
    begun: BTreeMap<u32, u32>,
    going: Option<Going>,
    /// Segments that were written and wait for a flush: how often each had become free, and the roles that have it then.
    written: Vec<(u32, u32, u64)>,
    bytes: u64,
    /// When what was written was recorded last.
    recorded: Instant,
    target: Target,
}

impl Core {
    /// Has members resilvered that lack something.
    pub(crate) fn begin_resilver(&self) {
        let may = !self.read_only && !self.run.is_opening() && !self.run.is_stopping();
        let lacks = may && !self.record.is_broken() && !self.space.borrow().lacking().is_empty();
        if lacks && let Some(core) = self.kept().filter(|core| core.resilvering.begins()) {
            drop(self.set.io.spawn(async move {
                core.resilver().await;
                core.resilvering.ends();
                core.room.notify();
                core.see_to_parity();
            }));
        }
    }

    /// Gives members what they lack, until they have it. The caller has the turn.
    pub(super) async fn resilver(self: &Rc<Self>) {
        let is_over = || self.run.is_stopping() || self.record.is_broken();
        let (mut before, mut idle) = (Vec::new(), 0);
        while !is_over() {
            let lacking = self.space.borrow().lacking();
            if lacking.is_empty() {
                break;
            }
            idle = if lacking == before { idle + 1 } else { 0 };
            if idle > FRUITLESS {
                lacking.iter().for_each(|&segment| self.space.borrow_mut().gives_up(segment));
                break;
            }
            let passed = self.resilver_pass(&lacking, Target::Members).await;
            before = lacking;
            if is_over() {
                return;
            }
            // Else the next opening would do it once more.
            let recorded = self.some_checkpoint().await;
            if (passed.is_err() || recorded.is_err() || idle > 0) && !is_over() {
                self.set.io.sleep(PAUSE).await;
            }
        }
    }

    /// Goes over segments once.
    ///
    /// # Errors
    /// Devices could not be flushed, a successor refused something, or the pool stops.
    pub(super) async fn resilver_pass(
        self: &Rc<Self>,
        lacking: &[u32],
        target: Target,
    ) -> Result<(), VolumeError> {
        let mut pass = Pass::new(self, target, lacking);
        // Batches and pages that were begun in them before they were closed come to their end first.
        self.all_landed().await;
        let written = Written::of(self, lacking.iter().copied());
        let process = Process::new(&self.set.io, (), 0, written.bytes(), Speeds::default());
        self.resilvering.rebuilds(process.clone());
        let passed = pass.run(&process, written).await;
        self.resilvering.looks();
        passed
    }
}

impl<'a> Pass<'a> {
    fn new(core: &'a Rc<Core>, target: Target, closed: &[u32]) -> Self {
        let members = core.set.members.len();
        let joined = (0..members).map(|role| core.set.members.joined(role)).collect();
        let space = core.space.borrow();
        let begun =
            closed.iter().filter_map(|&segment| Some((segment, space.get(segment)?.reuses))).collect();
        let memory = Scratch::new(&core.set.io, MEMORY, members);
        let (written, recorded) = (Vec::new(), core.set.io.now());
        Self { core, memory, joined, begun, going: None, written, bytes: 0, recorded, target }
    }

    async fn run(&mut self, process: &Process<()>, written: Written) -> Result<(), VolumeError> {
        let gone = self.go_through(process, written).await;
        match &gone {
            Ok(()) => self.end(),
            // Segments that were written before count all the same.
            Err(_) => self.going = None,
        }
        let settled = self.settle().await;
        gone.and(settled)
    }

    async fn go_through(&mut self, process: &Process<()>, written: Written) -> Result<(), VolumeError> {
        let mut windows = Windows::new(&self.core.set.io, process.clone(), 0, written);
        if self.core.run.is_stopping() {
            process.stop();
        }
        while let Some((end, stretch)) = windows.advance().await.map_err(|_| VolumeError::Stopping)? {
            if self.core.record.is_broken() {
                return Err(VolumeError::TooManyLost);
            }
            if let Some(stretch) = stretch {
                self.go_over(stretch).await?;
            }
            process.reached(end, 0);
            if self.bytes >= FLUSH {
                self.settle().await?;
                // So that a crash costs no more, and another member can be lost.
                let now = self.core.set.io.now();
                if now.since(self.recorded) >= RECORDED {
                    self.core.some_checkpoint().await?;
                    self.recorded = now;
                }
            }
        }
        Ok(())
    }

    /// Makes what members lack of a stretch, and writes it.
    ///
    /// # Errors
    /// A successor refuses it.
    async fn go_over(&mut self, stretch: Stretch) -> Result<(), VolumeError> {
        if self.going.as_ref().is_none_or(|going| going.segment != stretch.segment) {
            self.end();
            self.going = self.begin(stretch.segment);
        }
        let Some(mut going) = self.going.take() else { return Ok(()) };
        // It may have got a copy more since it was read: slots are others then.
        let has_shape = self.shape(going.segment) == Some(stretch.shape);
        let is_same =
            has_shape && self.reuses(going.segment) == Some(going.reuses) && stretch.first == going.next;
        if !is_same {
            going.course = Course::Changed;
        }
        if going.course == Course::Well {
            let made = self.make(&stretch, &mut going);
            if !self.write(made).await? {
                going.course = Course::GivenUp;
            }
        }
        going.next = stretch.first + stretch.stripes;
        self.going = Some(going);
        Ok(())
    }

    fn begin(&self, segment: u32) -> Option<Going> {
        let space = self.core.space.borrow();
        let of = space.get(segment)?;
        let lack = match self.target {
            Target::Members => space.lacked(segment),
            Target::Successor(Successor { member, .. }) => 1 << self.core.role_of(member).index,
        };
        let stripes = of.record.stripes.min(of.record.shape().stripes());
        let reuses = *self.begun.get(&segment)?;
        let course = if of.reuses == reuses { Course::Well } else { Course::Changed };
        Some(Going { segment, reuses, lack, next: 0, stripes, told: None, course })
    }

    fn shape(&self, segment: u32) -> Option<Shape> {
        self.core.space.borrow().get(segment).map(|segment| segment.record.shape())
    }

    fn reuses(&self, segment: u32) -> Option<u32> {
        let space = self.core.space.borrow();
        space.get(segment).map(|segment| segment.reuses).filter(|_| !space.is_going(segment))
    }

    /// Nothing more of the segment before comes.
    fn end(&mut self) {
        let Some(going) = self.going.take() else { return };
        match going.course {
            Course::Well if going.next == going.stripes => {
                self.written.push((going.segment, going.reuses, going.lack));
            }
            // Once the successor is the member it is resilvered, or moved.
            Course::GivenUp if matches!(self.target, Target::Successor(_)) => {}
            Course::GivenUp if self.reuses(going.segment) == Some(going.reuses) => {
                self.core.space.borrow_mut().gives_up(going.segment);
            }
            Course::Well | Course::GivenUp | Course::Changed => {}
        }
    }

    /// Blocks that members lack of a stretch: the member, the byte of its data area, and the block.
    fn make(&self, stretch: &Stretch, going: &mut Going) -> Vec<(u16, u64, Vec<u8>)> {
        let (look, shape, segment) = (stretch.look(), stretch.shape, stretch.segment);
        let mut made = Vec::new();
        for stripe in stretch.first..stretch.first + stretch.stripes {
            let lacks = |slot: u8| {
                let spot = shape.spot(shape.spot_number(stripe, slot));
                going.lack >> spot.member & 1 == 1
            };
            let lost: Vec<u8> = (0..shape.stripe).filter(|&slot| lacks(slot)).collect();
            // Summaries stand where batches begin.
            if lost.is_empty() && going.told.as_ref().is_some_and(|told| stripe < told.end()) {
                continue;
            }
            let blocks = stretch.copied(&look, stripe);
            match self.right(going, shape, stripe, &blocks) {
                Some(mut right) => {
                    let space = self.core.space.borrow();
                    for slot in lost {
                        let spot = space.spot_of_slot(Slot { segment, stripe, slot });
                        let block = core::mem::take(&mut right[usize::from(slot)]);
                        made.extend(spot.map(|(member, offset)| (member, offset, block)));
                    }
                }
                None if lost.is_empty() => {}
                // The member may have what can't be made of others, and it is about to go.
                None if self.is_copied(&lost, &blocks) => {
                    let space = self.core.space.borrow();
                    let stands = |slot: u8| {
                        let (member, offset) = space.spot_of_slot(Slot { segment, stripe, slot })?;
                        Some((member, offset, blocks[usize::from(slot)].clone()?))
                    };
                    made.extend(lost.into_iter().filter_map(stands));
                }
                None => {
                    // One that is silent may answer in the next pass.
                    let is_silent =
                        |slot| matches!(stretch.block(&look, stripe, slot), Err(Absent::Silent(_)));
                    let waits = (0..shape.stripe).any(is_silent);
                    going.course = if waits { Course::Changed } else { Course::GivenUp };
                    return Vec::new();
                }
            }
        }
        made
    }

    /// Slots are copied as they stand: a successor is to get them, and the member gives all of them.
    fn is_copied(&self, lost: &[u8], blocks: &[Option<Vec<u8>>]) -> bool {
        matches!(self.target, Target::Successor(_))
            && lost.iter().all(|&slot| blocks[usize::from(slot)].is_some())
    }

    /// All of a stripe as its batch says; where no summary does, as its parity says.
    fn right(
        &self,
        going: &mut Going,
        shape: Shape,
        stripe: u32,
        blocks: &[Option<Vec<u8>>],
    ) -> Option<Vec<Vec<u8>>> {
        let sums = |told: &Told| -> Vec<u32> {
            (0..shape.data()).map(|slot| told.sum(shape, stripe, slot)).collect()
        };
        if let Some(told) = going.told.as_ref().filter(|told| stripe < told.end())
            && let Some(right) = settle(blocks, shape, &sums(told))
        {
            return Some(right);
        }
        let address = Address::new(going.segment, shape.place(stripe, 0));
        for batch in self.core.summaries_in(blocks, shape, address) {
            let told = Told::new(batch, stripe, None).filter(|told| told.end() <= shape.stripes());
            let Some(told) = told else { continue };
            if let Some(right) = settle(blocks, shape, &sums(&told)) {
                going.told = Some(told);
                return Some(right);
            }
        }
        let mut given = blocks.to_vec();
        let data = usize::from(shape.data());
        if !solve(&mut given, data) {
            return None;
        }
        let all: Vec<Vec<u8>> = given.into_iter().flatten().collect();
        let is_whole = agrees(&all.iter().map(Vec::as_slice).collect::<Vec<_>>(), data);
        is_whole.then_some(all)
    }

    /// Writes blocks to members that lack them, those of neighbours as one; whether all were taken.
    ///
    /// # Errors
    /// A successor refuses one.
    async fn write(&mut self, mut made: Vec<(u16, u64, Vec<u8>)>) -> Result<bool, VolumeError> {
        made.sort_unstable_by_key(|(member, offset, _)| (*member, *offset));
        for some in made.chunks(MEMORY / 2 / BLOCK) {
            self.memory.renew_if_pinned();
            let buf = self.memory.alloc(some.len() * BLOCK).await;
            let bytes = some.iter().zip(0..);
            bytes.for_each(|((.., block), n)| {
                buf.bytes_mut()[n * BLOCK..(n + 1) * BLOCK].copy_from_slice(block);
            });
            self.bytes += (some.len() * BLOCK) as u64;
            if let Target::Successor(Successor { member, device, .. }) = self.target {
                let mut group = self.core.set.io.group_of(OpClass::Repair);
                for (n, &(_, offset, _)) in some.iter().enumerate() {
                    let from = buf.slice(n * BLOCK..(n + 1) * BLOCK);
                    group.write(device.id, device.data_offset + offset, &from, false);
                }
                let written = group.submit_by(self.core.set.io.now().after(LABEL_PATIENCE)).await.ok();
                written.map_err(|error| VolumeError::of_member(member, error))?;
                continue;
            }
            let mut writing = self.core.set.door(None).ask();
            for (n, &(member, offset, _)) in some.iter().enumerate() {
                let Some(device) = self.core.set.members.writable(member) else { continue };
                writing.write(device, offset, &buf.slice(n * BLOCK..(n + 1) * BLOCK), false);
            }
            let done = writing.submit().await;
            if self.core.landed(&done).await.is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes what was written stable: members have these segments from then on.
    async fn settle(&mut self) -> Result<(), VolumeError> {
        self.bytes = 0;
        let written = core::mem::take(&mut self.written);
        if written.is_empty() {
            return Ok(());
        }
        if let Target::Successor(successor) = self.target {
            self.flush(successor).await?;
            // It may have left meanwhile, and another come.
            if !self.core.is_successor(successor.number, successor.member) {
                return Err(VolumeError::Again);
            }
            let index = self.core.role_of(successor.member).index;
            let mut space = self.core.space.borrow_mut();
            written.into_iter().for_each(|(segment, reuses, _)| space.has_copy(segment, index, reuses));
            return Ok(());
        }
        self.core.set.flush_members().await?;
        for (segment, reuses, lack) in written {
            if self.reuses(segment) != Some(reuses) {
                continue;
            }
            let stays = |role: &u32| {
                let member = self.core.space.borrow().member_of(segment, *role);
                member.is_some_and(|member| self.stays(member))
            };
            let roles = (0..u64::BITS).filter(|role| lack >> role & 1 == 1).filter(stays);
            let have = roles.fold(0, |mask, role| mask | 1 << role);
            self.core.space.borrow_mut().has(segment, have);
        }
        Ok(())
    }

    /// Makes what a device that is no member was given stable.
    ///
    /// # Errors
    /// It refuses.
    async fn flush(&self, Successor { member, device, .. }: Successor) -> Result<(), VolumeError> {
        let mut group = self.core.set.io.group_of(OpClass::Repair);
        group.flush(device.id);
        let flushed = group.submit_by(self.core.set.io.now().after(LABEL_PATIENCE)).await.ok();
        flushed.map_err(|error| VolumeError::of_member(member, error))
    }

    /// A member is the one that it was when the pass began, and in use all the time.
    fn stays(&self, member: u16) -> bool {
        let members = &self.core.set.members;
        let joined = self.joined.get(usize::from(member)).copied();
        members.writable(member).is_some() && joined == Some(members.joined(member))
    }
}
