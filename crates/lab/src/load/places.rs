//! Requests one after the other: direction, place and size.

use super::draw::Draw;
use super::random::{Chance, mix};
use crate::job::{Blocks, DIRECTIONS, Direction, Each, Job, JobExtent, Kinds};

/// A request. Bytes of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The operation.
    pub direction: Direction,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// The part of a target that a job works on. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First byte.
    pub begin: u64,
    /// Bytes.
    pub len: u64,
    /// Bytes that a pass transfers.
    pub pass: u64,
}

/// Why a job can't run on a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// The job begins at or beyond the end, or its part holds no request.
    #[error("its part of the target holds no request of {0} bytes: look at size, offset and bs")]
    Empty(u64),
    /// Requests are not multiples of the target's block size.
    #[error("requests of {0} bytes are no multiple of the target's blocks of {1} bytes")]
    Unaligned(u64, u64),
    /// The part goes beyond the end.
    #[error("size={0} from byte {1} on goes beyond the end of the target, which has {2} bytes")]
    Beyond(u64, u64, u64),
    /// A map of this many blocks would not fit in memory.
    #[error("blocks of several sizes over {0} bytes need a map of more than 1 GiB: give norandommap")]
    Map(u64),
}

/// Most blocks of a map.
const LARGEST_MAP: u64 = 1 << 33;

impl Range {
    /// Where copy number `copy` of a job works on a target of `target` bytes whose blocks are `block` bytes.
    ///
    /// # Errors
    /// [`RangeError`].
    pub fn of(job: &Job, copy: u64, target: u64, block: u64) -> Result<Self, RangeError> {
        let whole = job.filesize.map_or(target, |size| size.min(target));
        let least = DIRECTIONS.map(|of| job.blocks[of.index()].least()).into_iter().min().unwrap_or(block);
        sizes_fit(job, block)?;
        let step = job.offset_increment.of(whole).saturating_mul(copy);
        let asked = job.offset.of(whole).saturating_add(step);
        let begin = match job.offset {
            JobExtent::Percent(_) => asked / least * least,
            JobExtent::Bytes(_) => asked,
        };
        if !begin.is_multiple_of(block) {
            return Err(RangeError::Unaligned(begin, block));
        }
        let rest = whole.saturating_sub(begin);
        let len = match job.size {
            None | Some(JobExtent::Percent(100)) => rest,
            Some(size @ JobExtent::Percent(_)) => size.of(whole).min(rest),
            // A file of another size than is there is as large as it is, as with fio.
            Some(JobExtent::Bytes(size)) if size > rest && job.filesize.is_none() => {
                return Err(RangeError::Beyond(size, begin, whole));
            }
            Some(JobExtent::Bytes(size)) => size.min(rest),
        };
        let len = len / block * block;
        if len < job.largest() {
            return Err(RangeError::Empty(job.largest()));
        }
        let pass = job.io_size.map_or(len, |size| size.of(len));
        let range = Self { begin, len, pass };
        check_map(job, range).map(|()| range)
    }
}

fn sizes_fit(job: &Job, block: u64) -> Result<(), RangeError> {
    let sizes = job.blocks.iter().flat_map(|blocks| match blocks {
        Blocks::One(size) | Blocks::Range(size, _) => vec![*size],
        Blocks::Split(sizes) => sizes.iter().map(|(size, _)| *size).collect(),
    });
    let step = (!job.access.random).then_some(job.access.step.unsigned_abs());
    let units = sizes.chain(job.align.into_iter().flatten()).chain(step);
    let wrong = { units }.find(|size| !size.is_multiple_of(block));
    wrong.map_or(Ok(()), |size| Err(RangeError::Unaligned(size, block)))
}

/// The blocks in which random requests are drawn.
struct Blocking {
    /// Bytes of a unit; requests begin at multiples of it.
    unit: u64,
    /// Bytes of the smallest request.
    least: u64,
    /// All requests are of one block.
    one_size: bool,
}

impl Blocking {
    fn of(job: &Job) -> Self {
        let used = || DIRECTIONS.into_iter().filter(|of| job.access.has(*of)).map(|of| of.index());
        let least = used().map(|of| job.blocks[of].least()).min().unwrap_or(1);
        let most = used().map(|of| job.blocks[of].most()).max().unwrap_or(1);
        let unit = match &job.align {
            Some(align) => used().map(|of| align[of]).min().unwrap_or(least),
            None => least,
        };
        Self { unit, least, one_size: least == most && job.access.step <= 1 }
    }
}

/// Refuses a job whose map would not fit in memory.
fn check_map(job: &Job, range: Range) -> Result<(), RangeError> {
    let Blocking { unit, one_size, .. } = Blocking::of(job);
    let has_map = job.access.random && !job.repeats() && !one_size;
    if has_map && range.len / unit > LARGEST_MAP { Err(RangeError::Map(range.len)) } else { Ok(()) }
}

/// The requests of one pass, one after the other.
#[derive(Clone, Debug)]
pub struct Load {
    job: Job,
    range: Range,
    chance: Chance,
    draw: Draw,
    /// Bytes of a block of the map: what random requests begin at multiples of.
    unit: u64,
    /// Where the next request of a direction begins, within the range.
    next: Each<u64>,
    /// Requests that still go on from the last drawn place.
    go_on: u64,
    /// A block that was trimmed and is to be written.
    to_write: Option<Request>,
    /// Bytes of the pass so far.
    done: u64,
    /// Bytes of the smallest request: what is less is left at the end.
    least: u64,
    /// The seed of the next pass.
    seed: u64,
}

impl Load {
    /// The requests of pass `pass` of a job on a range.
    ///
    /// # Errors
    /// [`RangeError::Map`].
    pub fn new(job: &Job, range: Range, seed: u64, pass: u64) -> Result<Self, RangeError> {
        let Blocking { unit, least, one_size } = Blocking::of(job);
        check_map(job, range)?;
        let seed = mix(seed ^ mix(pass));
        let blocks = (range.len / unit).max(1);
        // A range that is drawn from sequentially needs no map.
        let drawn = if job.access.random { blocks } else { 1 };
        let draw = Draw::new(job, drawn, unit, one_size, seed);
        let next = [if job.access.step < 0 { last(range.len, least) } else { 0 }; 3];
        let chance = Chance::new(seed);
        Ok(Self {
            job: job.clone(),
            range,
            chance,
            draw,
            unit,
            next,
            go_on: 0,
            to_write: None,
            done: 0,
            least,
            seed,
        })
    }

    /// The next request; `None` at the end of the pass.
    pub fn next_request(&mut self) -> Option<Request> {
        if let Some(request) = self.to_write.take() {
            return Some(request);
        }
        if self.done + self.least > self.range.pass {
            return None;
        }
        let direction = match self.job.access.kinds {
            Kinds::One(direction) => direction,
            Kinds::TrimThenWrite => Direction::Trim,
            Kinds::Mixed if self.chance.below(100) < self.job.reads => Direction::Read,
            Kinds::Mixed => Direction::Write,
        };
        let len = self.size(direction);
        let (at, len) = if self.job.access.random {
            self.random(direction, len)?
        } else {
            self.sequential(direction, len)
        };
        self.done += len;
        let request = Request { direction, offset: self.range.begin + at, len };
        if self.job.access.kinds == Kinds::TrimThenWrite {
            self.to_write = Some(Request { direction: Direction::Write, ..request });
        }
        Some(request)
    }

    /// Bytes of the next request of a direction.
    fn size(&mut self, of: Direction) -> u64 {
        match &self.job.blocks[of.index()] {
            Blocks::One(size) => *size,
            Blocks::Range(least, most) => least * (1 + self.chance.below(most / least)),
            Blocks::Split(sizes) => sizes[self.chance.weighted(sizes.iter().map(|(_, weight)| *weight))].0,
        }
    }

    /// One after the other, from the beginning again at the end.
    fn sequential(&mut self, of: Direction, len: u64) -> (u64, u64) {
        let len = len.min(self.range.len);
        let next = &mut self.next[of.index()];
        let mut at = *next;
        if at + len > self.range.len {
            // The last one may be shorter, but not so short that the target would not take it.
            let rest = self.range.len.saturating_sub(at);
            let shorter = rest > 0 && rest.is_multiple_of(self.unit);
            if shorter {
                *next = 0;
                return (at, rest);
            }
            at = 0;
        }
        let step = self.job.access.step;
        *next = if step < 0 {
            at.checked_sub(step.unsigned_abs()).unwrap_or(last(self.range.len, len))
        } else {
            at + len + step.unsigned_abs()
        };
        (at, len)
    }

    fn random(&mut self, of: Direction, len: u64) -> Option<(u64, u64)> {
        let next = self.next[of.index()];
        if self.go_on > 0 && next + len <= self.range.len {
            self.go_on -= 1;
            self.next[of.index()] = next + len;
            return Some((next, len));
        }
        let blocks = (self.range.len / self.unit).max(1);
        // The part not covered yet need not be a multiple of the unit.
        let most = len.div_ceil(self.unit);
        let (first, count) = match self.draw.next(&mut self.chance, of, blocks, most) {
            Some(drawn) => drawn,
            // A pass may be longer than its range: once more, in another order.
            None => {
                self.seed = mix(self.seed);
                let one_size = Blocking::of(&self.job).one_size;
                self.draw = Draw::new(&self.job, blocks, self.unit, one_size, self.seed);
                self.draw.next(&mut self.chance, of, blocks, most)?
            }
        };
        let mut at = first * self.unit;
        let len = len.min(count * self.unit);
        if at + len > self.range.len {
            at = (self.range.len - len) / self.unit * self.unit;
        }
        self.go_on = self.job.access.step.unsigned_abs().saturating_sub(1);
        self.next[of.index()] = at + len;
        Some((at, len))
    }
}

/// The last place of a range where `len` bytes fit.
fn last(range: u64, len: u64) -> u64 {
    range.saturating_sub(len) / len.max(1) * len
}
