//! Doing on a volume what commands come to.

use brindle_io::{OpError, PAGE, Slice};
use brindle_volume::{Allocation, Volume, VolumeError, Wanted, ZeroOptions, first_difference};

use super::action::Action;
use super::copy::{CopyJob, Result as CopyResult};
use super::sense::{Sense, Status};
use crate::pieces::{Charge, Course, Ended, Unfinished, discard, write_zeroes};

/// Bytes read at a time where they are not sent: to compare, to copy, to fill.
const PIECE: u64 = 256 << 10;
/// Bytes of a piece where three are needed at once.
const TRIPLE: u64 = 64 << 10;

/// Three blocks of any size. Bytes.
const PART: u64 = 3 * PAGE as u64;

/// The result of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Good,
    /// The memory's first bytes, which were asked for.
    Data,
    Bytes(Vec<u8>),
}

/// The reason why an action was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undone {
    Ended(Status),
    /// The read has to be repeated with other memory.
    Again,
}

impl From<Ended> for Undone {
    fn from(Ended: Ended) -> Self {
        Self::Ended(Status::Aborted)
    }
}

/// A change that was not done to its end.
impl From<Unfinished> for Undone {
    fn from(why: Unfinished) -> Self {
        match why {
            Unfinished::Ended => Ended.into(),
            Unfinished::Volume(error) => unwritten(error),
        }
    }
}

impl From<Sense> for Undone {
    fn from(sense: Sense) -> Self {
        Self::Ended(Status::Check(sense))
    }
}

/// Bytes of memory that an action needs: for what comes or goes, and behind it for its own use.
pub(crate) fn memory(action: &Action) -> usize {
    let own = own_memory(action);
    let sent = match action {
        Action::Read { len, .. } => *len,
        other => other.data_out(),
    };
    if own == 0 { sent as usize } else { aligned(sent as usize) + own as usize }
}

fn own_memory(action: &Action) -> u64 {
    match action {
        Action::Write { len, verify: true, .. } | Action::Verify { len, .. } => PIECE.min(*len).max(PART),
        // It may end within a block.
        Action::Write { len, .. } if len % PAGE as u64 != 0 => PART,
        Action::OrWrite { len, .. } => 3 * TRIPLE.min(*len),
        Action::CompareAndWrite { len, .. } => *len,
        Action::WriteSame { len, sent, .. } if *sent > 0 => PIECE.min(*len),
        Action::Copy(job) if !job.segments.is_empty() => PIECE,
        _ => 0,
    }
}

fn aligned(len: usize) -> usize {
    len.next_multiple_of(PAGE)
}

/// The pieces of a range.
fn pieces(offset: u64, len: u64, most: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..len.div_ceil(most.max(1))).map(move |n| (offset + n * most, most.min(len - n * most)))
}

/// The charge for an action before it begins; the rest of its bytes are charged as it takes its course.
pub(crate) fn charge(action: &Action) -> Charge {
    Charge::request(match action {
        Action::Read { len, .. } | Action::Write { len, .. } => *len,
        // Read and written.
        Action::CompareAndWrite { len, .. } => 2 * len,
        _ => 0,
    })
}

/// Carries out an action; `memory` begins with the data from the initiator, or will hold the data for it. A long one takes its `course`;
/// one that compares and writes does so if that is still `wanted` then.
pub(crate) async fn perform<V: Volume>(
    volume: &V,
    action: &Action,
    memory: Option<&Slice>,
    course: &impl Course,
    wanted: &Wanted,
) -> Result<Done, Undone> {
    let none = || Undone::from(Sense::FAILED);
    match *action {
        Action::Read { offset, len } => {
            if len == 0 {
                return Ok(Done::Good);
            }
            match volume.read(offset, memory.ok_or_else(none)?.slice(0..len as usize)).await {
                Err(VolumeError::Again) => Err(Undone::Again),
                read => read.map_err(|error| unread(error).into()).map(|()| Done::Data),
            }
        }
        Action::Write { offset, len, fua, verify } => {
            if len == 0 {
                return Ok(Done::Good);
            }
            let memory = memory.ok_or_else(none)?;
            let whole = len - len % u64::from(volume.limits().block);
            if whole < len {
                write_part(volume, offset + whole, (whole..len, fua), memory, aligned(len as usize)).await?;
            }
            volume.write(offset, memory.slice(0..whole as usize), fua).await.map_err(unwritten)?;
            if verify { compare(volume, (offset, whole), len, memory, course).await } else { Ok(Done::Good) }
        }
        Action::Verify { offset, len, sent } if len > 0 => {
            compare(volume, (offset, len), sent, memory.ok_or_else(none)?, course).await
        }
        Action::OrWrite { offset, len, fua } if len > 0 => {
            or_write(volume, (offset, len), fua, memory.ok_or_else(none)?, course).await
        }
        Action::CompareAndWrite { offset, len, fua } if len > 0 => {
            let (memory, len) = (memory.ok_or_else(none)?, len as usize);
            let scratch = aligned(2 * len);
            let (expected, new) = (memory.slice(0..len), memory.slice(len..2 * len));
            let scratch = memory.slice(scratch..scratch + len);
            match volume.compare_and_write(offset, &expected, &new, &scratch, fua, wanted).await {
                Ok(None) => Ok(Done::Good),
                Ok(Some(at)) => Err(Sense::MISCOMPARE.with(at).into()),
                // Nothing was written.
                Err(VolumeError::Again) => Err(Undone::Again),
                Err(error) => Err(changing(error)),
            }
        }
        Action::WriteSame { offset, len, sent, unmap, fua } => {
            let options = ZeroOptions { fua, keep_allocated: !unmap, fast_only: false };
            write_same(volume, (offset, len), sent, options, memory, course).await
        }
        Action::Discard(ref ranges) => {
            for (number, range) in ranges.iter().enumerate() {
                // Each hole is a request, and the first one is the command's own.
                if number > 0 {
                    course.next(Charge::request(0)).await?;
                }
                discard(volume, *range, course).await?;
            }
            Ok(Done::Good)
        }
        Action::Flush => volume.flush().await.map_err(unwritten).map(|()| Done::Good),
        Action::Allocation { offset, most } => allocation(volume, offset, most).await,
        _ => Ok(Done::Good),
    }
}

/// Reads a range and compares it with what was sent: nothing, as many bytes, or a block over and over.
async fn compare<V: Volume>(
    volume: &V,
    (offset, len): (u64, u64),
    sent: u64,
    memory: &Slice,
    course: &impl Course,
) -> Result<Done, Undone> {
    let own = if sent == 0 { 0 } else { aligned(sent as usize) };
    for (at, piece) in pieces(offset, len, PIECE) {
        course.next(Charge::bytes(piece)).await?;
        let (piece, done) = (piece as usize, at - offset);
        let found = memory.slice(own..own + piece);
        volume.read(at, found.clone()).await.map_err(reading)?;
        let differs = if sent == 0 {
            None
        } else if sent >= len {
            first_difference(&memory.slice(done as usize..done as usize + piece), &found)
        } else {
            let (block, found) = (memory.slice(0..sent as usize), found.bytes());
            let block = block.bytes();
            found.iter().zip(block.iter().cycle()).position(|(a, b)| a != b)
        };
        if let Some(differs) = differs {
            return Err(Sense::MISCOMPARE.with(done + differs as u64).into());
        }
    }
    Ok(Done::Good)
}

/// Writes the beginning of a block: the initiator has sent no more of it.
async fn write_part<V: Volume>(
    volume: &V,
    offset: u64,
    (sent, fua): (core::ops::Range<u64>, bool),
    memory: &Slice,
    own: usize,
) -> Result<(), Undone> {
    let block = volume.limits().block as usize;
    let part = |n: usize| memory.slice(own + n * block..own + (n + 1) * block);
    let (old, new, scratch) = (part(0), part(1), part(2));
    loop {
        volume.read(offset, old.clone()).await.map_err(reading)?;
        let mut bytes = old.bytes().to_vec();
        let sent = memory.slice(sent.start as usize..sent.end as usize);
        bytes[..sent.len()].copy_from_slice(&sent.bytes());
        new.put(0, &bytes);
        let wanted = Wanted::default();
        let written = volume.compare_and_write(offset, &old, &new, &scratch, fua, &wanted).await;
        if written.map_err(changing)?.is_none() {
            return Ok(());
        }
    }
}

/// Sets the bits that were sent. Whoever else writes meanwhile comes before or after each piece.
async fn or_write<V: Volume>(
    volume: &V,
    (offset, len): (u64, u64),
    fua: bool,
    memory: &Slice,
    course: &impl Course,
) -> Result<Done, Undone> {
    let (own, wanted) = (aligned(len as usize), Wanted::default());
    for (at, piece) in pieces(offset, len, TRIPLE) {
        // Read and written.
        course.next(Charge::bytes(2 * piece)).await?;
        let (piece, done) = (piece as usize, (at - offset) as usize);
        let part = |n: usize| memory.slice(own + n * piece..own + (n + 1) * piece);
        let (old, new, scratch) = (part(0), part(1), part(2));
        loop {
            volume.read(at, old.clone()).await.map_err(reading)?;
            // All of it is one buffer, which is either looked at or changed.
            let sent = memory.slice(done..done + piece);
            let both: Vec<u8> = old.bytes().iter().zip(sent.bytes().iter()).map(|(a, b)| a | b).collect();
            new.put(0, &both);
            let written = volume.compare_and_write(at, &old, &new, &scratch, fua, &wanted).await;
            if written.map_err(changing)?.is_none() {
                break;
            }
        }
    }
    Ok(Done::Good)
}

async fn write_same<V: Volume>(
    volume: &V,
    (offset, len): (u64, u64),
    sent: u64,
    zeroes: ZeroOptions,
    memory: Option<&Slice>,
    course: &impl Course,
) -> Result<Done, Undone> {
    let sent = sent as usize;
    let all_zero = memory.is_none_or(|memory| memory.slice(0..sent).bytes().iter().all(|&byte| byte == 0));
    if sent == 0 || all_zero {
        write_zeroes(volume, (offset, len), zeroes, course).await?;
        return Ok(Done::Good);
    }
    let Some(memory) = memory else { return Err(Sense::FAILED.into()) };
    let own = aligned(sent);
    let block = memory.slice(0..sent).bytes().to_vec();
    let pattern = memory.slice(own..own + PIECE.min(len) as usize);
    pattern.bytes_mut().chunks_exact_mut(sent).for_each(|to| to.copy_from_slice(&block));
    for (at, piece) in pieces(offset, len, PIECE) {
        course.next(Charge::bytes(piece)).await?;
        volume.write(at, memory.slice(own..own + piece as usize), zeroes.fua).await.map_err(unwritten)?;
    }
    Ok(Done::Good)
}

/// GET LBA STATUS.
async fn allocation<V: Volume>(volume: &V, offset: u64, most: usize) -> Result<Done, Undone> {
    let limits = volume.limits();
    let block = u64::from(limits.block);
    // Descriptors that fit, a page of them at most.
    let room = (most.saturating_sub(8) / 16).clamp(1, 256);
    let len = (limits.size - offset).min(1 << 30);
    let mut found: Vec<Allocation> = Vec::new();
    volume.allocation(offset, len, &mut found).await.map_err(|error| Undone::from(unread(error)))?;
    let mut stretches: Vec<(u64, u64, bool)> = Vec::new();
    let mut at = offset;
    for one in found {
        let full = stretches.len() == room;
        match stretches.last_mut() {
            Some(last) if last.2 == one.hole => last.1 += one.len,
            _ if full => break,
            _ => stretches.push((at, one.len, one.hole)),
        }
        at += one.len;
    }
    let mut bytes = vec![0; 8];
    for (at, len, hole) in stretches {
        bytes.extend((at / block).to_be_bytes());
        bytes.extend(u32::try_from(len / block).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend([u8::from(hole), 0, 0, 0]);
    }
    let reported = bytes.len() as u32 - 4;
    bytes[..4].copy_from_slice(&reported.to_be_bytes());
    bytes.truncate(most);
    Ok(Done::Bytes(bytes))
}

/// Copies segment by segment; `volume` gives the one of a number, if it may be read or written to, with the bytes of
/// its logical blocks. Each segment takes the `course` of the unit that is written to.
pub(crate) async fn copy<V: Volume, C: Course>(
    job: &CopyJob,
    volume: impl Fn(usize, bool) -> Option<(std::rc::Rc<V>, u64)>,
    memory: Option<&Slice>,
    course: impl Fn(usize) -> Option<C>,
) -> (CopyResult, Result<Done, Undone>) {
    let mut result = CopyResult { list: job.list, failed: true, segments: 0, bytes: 0 };
    for segment in &job.segments {
        let (Some((source, block)), Some((target, other)), Some(course)) =
            (volume(segment.source, false), volume(segment.target, true), course(segment.target))
        else {
            return (result, Err(Sense::COPY_UNREACHABLE.into()));
        };
        let byte = |lba: u64, block: u64| lba.checked_mul(block);
        let (Some(from), Some(to), Some(memory)) =
            (byte(segment.from, block), byte(segment.to, other), memory)
        else {
            return (result, Err(Sense::COPY_RANGE.into()));
        };
        let len = segment.blocks * block;
        let fits = |size: u64, at: u64| at.checked_add(len).is_some_and(|end| end <= size);
        if !fits(source.limits().size, from) || !fits(target.limits().size, to) || len % other != 0 {
            return (result, Err(Sense::COPY_RANGE.into()));
        }
        // Backwards where a copy forwards would overwrite what it has still to read.
        let backwards = std::rc::Rc::ptr_eq(&source, &target) && from < to && to < from + len;
        let mut steps: Vec<(u64, u64)> = pieces(0, len, PIECE).collect();
        if backwards {
            steps.reverse();
        }
        for (number, (at, piece)) in steps.into_iter().enumerate() {
            if let Err(ended) = course.next(Charge { requests: u64::from(number == 0), bytes: piece }).await {
                return (result, Err(ended.into()));
            }
            let part = memory.slice(0..piece as usize);
            let read = source.read(from + at, part.clone()).await;
            let copied = if read.is_ok() { target.write(to + at, part, false).await } else { read };
            if copied.is_err() {
                return (result, Err(Sense::COPY_FAILED.into()));
            }
            result.bytes += piece;
        }
        result.segments += 1;
    }
    result.failed = false;
    (result, Ok(Done::Good))
}

/// A read that is not the initiator's own: if it wants other memory the whole command is tried again.
fn reading(error: VolumeError) -> Undone {
    if error == VolumeError::Again { Undone::Ended(Status::Busy) } else { unread(error).into() }
}

/// The error of a command that both reads and writes.
fn changing(error: VolumeError) -> Undone {
    if error == VolumeError::Again { Undone::Ended(Status::Busy) } else { unwritten(error) }
}

fn unread(error: VolumeError) -> Sense {
    match error {
        VolumeError::OutOfRange | VolumeError::Unaligned => Sense::OUT_OF_RANGE,
        VolumeError::Stopping => Sense::NOT_READY,
        VolumeError::Member { .. } => Sense::UNREAD,
        _ => Sense::FAILED,
    }
}

fn unwritten(error: VolumeError) -> Undone {
    let sense = match error {
        VolumeError::OutOfRange | VolumeError::Unaligned => Sense::OUT_OF_RANGE,
        VolumeError::Stopping => Sense::NOT_READY,
        VolumeError::ReadOnly => Sense::WRITE_PROTECTED,
        VolumeError::NoSpace | VolumeError::Member { error: OpError::NoSpace, .. } => Sense::NO_SPACE,
        VolumeError::Member { .. } => Sense::UNWRITTEN,
        _ => Sense::FAILED,
    };
    sense.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_without_room_says_so_whether_a_member_or_a_pool_lacks_it() {
        for error in [VolumeError::NoSpace, VolumeError::of_some_member(OpError::NoSpace)] {
            let sense = Sense { key: 7, code: (0x27, 7), ..Sense::NO_SPACE };
            assert_eq!(unwritten(error), sense.into(), "SPACE ALLOCATION FAILED WRITE PROTECT");
            assert_eq!(changing(error), sense.into());
        }
        assert_eq!(unwritten(VolumeError::TooManyLost), Sense::FAILED.into());
    }
}
