//! Reads of what segments hold, in long stretches: some stripes at a time, with all that lies between live blocks.

use core::future::Future;
use std::rc::Rc;

use brindle_format::pool::BLOCK;
use brindle_format::pool::place::Shape;
use brindle_io::sync::join_all;
use brindle_io::{Buf, Bytes};
use brindle_members::scratch::Scratch;
use brindle_members::windows::{IN_FLIGHT, Windowed};

use crate::core::Core;
use crate::read::Absent;
use crate::store::space::Slot;

/// Blocks of each member that are read at a time.
const ROWS: usize = 128;
/// Stretches for which there is memory at least.
const STRETCHES: usize = 4;
/// Stretches that are read at a time, if they are short. With those that are compared at most eight segments are pinned.
const MOST: usize = 6;
/// Blocks that are read again one by one at a time.
const ONE_BY_ONE: usize = 32;

/// Stripes of a segment that were written.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The bytes of all runs before it.
    start: u64,
    segment: u32,
    stripes: u32,
    /// Blocks of a stripe, and stripes of a stretch.
    wide: u32,
    step: u32,
    /// How often the segment had become free: another number says that it holds something else by now.
    reuses: u32,
}

impl Run {
    fn stripe_bytes(&self) -> u64 {
        u64::from(self.wide) * BLOCK as u64
    }

    fn end(&self) -> u64 {
        self.start + u64::from(self.stripes) * self.stripe_bytes()
    }
}

/// All that was written to segments in which something is live, one behind the other.
pub(in crate::upkeep) struct Written {
    core: Rc<Core>,
    memory: Rc<Scratch>,
    runs: Vec<Run>,
    /// Stretches that are read at a time: where units are small so many that members have as much to do.
    in_flight: usize,
}

/// A segment that is not used again as long as this lives.
struct KeptSegment(Rc<Core>, u32);

impl KeptSegment {
    fn new(core: &Rc<Core>, segment: u32) -> Self {
        core.space.borrow_mut().pin(segment);
        Self(Rc::clone(core), segment)
    }
}

impl Drop for KeptSegment {
    fn drop(&mut self) {
        self.0.space.borrow_mut().unpin(self.1);
    }
}

/// Memory that a stretch was read into.
enum Memory {
    /// In one piece each member's.
    Read(Buf),
    /// Block by block, since something of it was refused.
    Gathered(Vec<u8>),
}

/// A look at the blocks of a stretch.
pub(in crate::upkeep) enum Look<'a> {
    Read(Bytes<'a>),
    Gathered(&'a [u8]),
}

impl Look<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes,
            Self::Gathered(bytes) => bytes,
        }
    }
}

/// Stripes that have been read.
pub(in crate::upkeep) struct Stretch {
    _kept: KeptSegment,
    pub(in crate::upkeep) segment: u32,
    pub(in crate::upkeep) shape: Shape,
    pub(in crate::upkeep) first: u32,
    pub(in crate::upkeep) stripes: u32,
    memory: Memory,
    /// Why blocks are not there, by stripes and slots.
    absent: Vec<Option<Absent>>,
}

impl Stretch {
    /// A look at all of it.
    pub(in crate::upkeep) fn look(&self) -> Look<'_> {
        match &self.memory {
            Memory::Read(buf) => Look::Read(buf.bytes()),
            Memory::Gathered(bytes) => Look::Gathered(bytes),
        }
    }

    /// A block.
    ///
    /// # Errors
    /// The reason why it is not there.
    pub(in crate::upkeep) fn block<'a>(
        &self,
        look: &'a Look<'_>,
        stripe: u32,
        slot: u8,
    ) -> Result<&'a [u8], Absent> {
        let at = ((stripe - self.first) * u32::from(self.shape.stripe)) as usize + usize::from(slot);
        self.absent[at].map_or_else(|| Ok(&look.bytes()[at * BLOCK..(at + 1) * BLOCK]), Err)
    }

    /// The blocks of a stripe, by slots.
    pub(in crate::upkeep) fn copied(&self, look: &Look<'_>, stripe: u32) -> Vec<Option<Vec<u8>>> {
        let block = |slot| self.block(look, stripe, slot).ok().map(<[u8]>::to_vec);
        (0..self.shape.stripe).map(block).collect()
    }
}

impl Written {
    /// All that is written at this moment.
    pub(in crate::upkeep) fn of_all(core: &Rc<Core>) -> Self {
        let count = core.space.borrow().segments.len() as u32;
        Self::of(core, 0..count)
    }

    /// All that is written of these segments at this moment, in their order.
    pub(in crate::upkeep) fn of(core: &Rc<Core>, segments: impl IntoIterator<Item = u32>) -> Self {
        let most = core.config.memory / BLOCK;
        let (mut runs, mut start) = (Vec::new(), 0);
        let space = core.space.borrow();
        for segment in segments {
            let Some(one) = space.get(segment) else { continue };
            let (shape, record) = (one.record.shape(), &one.record);
            let stripes = record.stripes.min(shape.stripes());
            if record.live == 0 || stripes == 0 {
                continue;
            }
            let (width, wide) = (usize::from(shape.width()), usize::from(shape.stripe));
            let blocks = (ROWS * width).min(most / STRETCHES);
            let (wide, step) = (wide as u32, (blocks / wide).max(1) as u32);
            let run = Run { start, segment, stripes, wide, step, reuses: one.reuses };
            start = run.end();
            runs.push(run);
        }
        let largest =
            runs.iter().map(|run| (run.step.min(run.stripes) * run.wide) as usize).max().unwrap_or(1);
        let bytes = core.config.memory.max(STRETCHES * largest.next_power_of_two() * BLOCK);
        let longest = runs.iter().map(|run| run.step.min(run.stripes)).max().unwrap_or(1) as usize;
        // One more is being compared, and there is memory for that many of the largest at least.
        let room = bytes / (largest.next_power_of_two() * BLOCK) - 1;
        let in_flight = (IN_FLIGHT * ROWS / longest).min(MOST.min(room)).max(IN_FLIGHT);
        drop(space);
        let memory = Rc::new(Scratch::new(&core.set.io, bytes, core.set.members.len()));
        Self { core: Rc::clone(core), memory, runs, in_flight }
    }

    /// Bytes in all.
    pub(in crate::upkeep) fn bytes(&self) -> u64 {
        self.runs.last().map_or(0, Run::end)
    }

    /// Segments of these, and how many stripes of each.
    pub(super) fn segments(&self) -> impl Iterator<Item = (u32, u32)> {
        self.runs.iter().map(|run| (run.segment, run.stripes))
    }

    /// The byte at which the first segment begins that has this number or a greater one.
    pub(super) fn start_of(&self, segment: u32) -> u64 {
        self.runs.iter().find(|run| run.segment >= segment).map_or(self.bytes(), |run| run.start)
    }

    fn run_at(&self, at: u64) -> Option<&Run> {
        self.runs.get(self.runs.partition_point(|run| run.end() <= at))
    }
}

impl Windowed for Written {
    type Outcome = Option<Stretch>;

    fn requests(&self) -> u64 {
        self.core.requests.get()
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn place(&self, at: u64, total: u64) -> (u64, u64) {
        let Some(run) = self.run_at(at) else { return (total, 0) };
        let stretch = u64::from(run.step) * run.stripe_bytes();
        (at, stretch.min(run.end() - at))
    }

    fn carry_out(&self, at: u64, len: u64) -> impl Future<Output = Self::Outcome> + 'static {
        let (core, memory, run) = (Rc::clone(&self.core), Rc::clone(&self.memory), self.run_at(at).copied());
        async move {
            let run = run?;
            let first = ((at - run.start) / run.stripe_bytes()) as u32;
            let stripes = (len / run.stripe_bytes()) as u32;
            let kept = KeptSegment::new(&core, run.segment);
            // It became free, and is used otherwise by now: no block of before is there any more, and others may be on their way.
            let still = core.space.borrow().get(run.segment).map(|now| (now.record.shape(), now.reuses));
            let (shape, _) = still.filter(|(_, reuses)| *reuses == run.reuses)?;
            if u32::from(shape.stripe) != run.wide || first + stripes > shape.stripes() {
                return None;
            }
            // Devices that were given up may keep some of it.
            memory.renew_if_pinned();
            let buf = memory.alloc((stripes * run.wide) as usize * BLOCK).await;
            let slots: Vec<Slot> = (first..first + stripes)
                .flat_map(|stripe| {
                    (0..shape.stripe).map(move |slot| Slot { segment: run.segment, stripe, slot })
                })
                .collect();
            let (memory, absent) = core.read_slots(&slots, buf).await;
            Some(Stretch { _kept: kept, segment: run.segment, shape, first, stripes, memory, absent })
        }
    }
}

impl Core {
    /// Reads slots into a buffer, those of neighbours at once.
    async fn read_slots(&self, slots: &[Slot], buf: Buf) -> (Memory, Vec<Option<Absent>>) {
        let mut absent = vec![None; slots.len()];
        let mut asks = Vec::with_capacity(slots.len());
        for (n, &slot) in slots.iter().enumerate() {
            let spot = self.space.borrow().source_of_slot(slot);
            let device = spot.and_then(|(role, _)| self.set.members.readable(role, u64::MAX));
            match spot.zip(device) {
                Some(((role, offset), device)) => asks.push((role, offset, device, n)),
                None => absent[n] = Some(Absent::Away),
            }
        }
        if asks.is_empty() {
            return (Memory::Gathered(Vec::new()), absent);
        }
        asks.sort_unstable_by_key(|&(role, offset, ..)| (role, offset));
        let mut reading = self.set.door(None).ask();
        for &(_, offset, device, n) in &asks {
            reading.read(device, offset, &buf.slice(n * BLOCK..(n + 1) * BLOCK));
        }
        let done = reading.submit().await;
        if done.is_ok() {
            return (Memory::Read(buf), absent);
        }
        self.judge_reads(&done).await;
        // Neighbours are one operation: some of them may be well. Memory that a device keeps can't be looked at.
        let of_it = |role: u16| done.refused().iter().any(|refused| refused.role == role);
        let kept = buf.is_pinned() || done.refused().is_empty();
        let mut bytes = if kept { vec![0; slots.len() * BLOCK] } else { buf.bytes().to_vec() };
        drop(buf);
        let again: Vec<usize> =
            asks.iter().filter(|&&(role, ..)| kept || of_it(role)).map(|&(.., n)| n).collect();
        for some in again.chunks(ONE_BY_ONE) {
            let blocks = join_all(some.iter().map(|&n| self.raw_slot(slots[n], true))).await;
            for (&n, block) in some.iter().zip(blocks) {
                match block {
                    Ok(block) => bytes[n * BLOCK..(n + 1) * BLOCK].copy_from_slice(&block),
                    Err(why) => absent[n] = Some(why),
                }
            }
        }
        (Memory::Gathered(bytes), absent)
    }
}
