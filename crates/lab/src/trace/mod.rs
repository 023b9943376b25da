//! Traces of requests that others recorded, read one after the other. Pure: the caller brings the bytes.
//!
//! A trace is never held as a whole: it is read once to see what it asks for ([`survey`]), and again as it is replayed.

mod blkparse;
mod blktrace;
mod columns;
mod error;
mod iolog;
mod lines;
mod pacing;
mod set;

use std::io::BufRead;

pub use columns::{Columns, Unit, columns, msr};
pub use error::{TraceError, TraceErrorKind};
pub use pacing::{Pacing, paced};
pub use set::{Set, SetMember, set};

use crate::job::Direction;
use crate::load::Request;
use lines::Lines;

/// A request, and when it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// Nanoseconds from any moment.
    pub at: u64,
    /// The operation.
    pub act: Act,
}

/// An operation of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A read, write or trim; of at least one byte.
    Request(Request),
    /// A flush.
    Flush,
}

/// How a trace is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// fio's `write_iolog`, versions 2 and 3.
    Iolog,
    /// Records of the kernel's blktrace, as it or `blkparse -d` writes them.
    Blktrace,
    /// Lines of blkparse, in its usual format.
    Blkparse,
    /// Columns.
    Csv(Columns),
}

/// Largest request that a trace may hold. Bytes.
pub const LARGEST: u64 = 32 << 20;

/// The summary of a trace's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Reads, writes and trims.
    pub requests: [u64; 3],
    /// Their bytes.
    pub bytes: [u64; 3],
    /// Flushes.
    pub flushes: u64,
    /// The largest read or write. Bytes.
    pub largest: u64,
    /// One byte beyond the last that is asked for.
    pub end: u64,
    /// Nanoseconds from the first to the last.
    pub span: u64,
    /// The part of that time in pauses longer than a second.
    pub idle: u64,
}

impl Survey {
    /// Whether anything is changed.
    pub const fn changes(&self) -> bool {
        self.requests[1] + self.requests[2] > 0
    }
}

/// The format of a trace by its first bytes, if they tell.
pub fn recognised(start: &[u8]) -> Option<Format> {
    if iolog::is_one(start) {
        return Some(Format::Iolog);
    }
    if blktrace::is_one(start) {
        return Some(Format::Blktrace);
    }
    let line = core::str::from_utf8(start.split(|byte| *byte == b'\n').next()?).ok()?;
    if blkparse::is_one(line) {
        return Some(Format::Blkparse);
    }
    columns::is_msr(line).then(|| Format::Csv(msr()))
}

/// The requests of a trace, one after the other. The first error is the last.
pub fn entries(
    file: &str,
    format: Format,
    from: impl BufRead + 'static,
) -> Box<dyn Iterator<Item = Result<TraceEntry, TraceError>>> {
    let mut broken = false;
    let until_wrong = move |entry: &Result<TraceEntry, TraceError>| {
        let before = broken;
        broken = entry.is_err();
        !before
    };
    match format {
        Format::Iolog => Box::new(iolog::Iolog::new(Lines::new(file, from)).take_while(until_wrong)),
        Format::Blktrace => Box::new(blktrace::Records::new(file, from).take_while(until_wrong)),
        Format::Blkparse => Box::new(blkparse::Events::new(Lines::new(file, from)).take_while(until_wrong)),
        Format::Csv(columns) => {
            Box::new(columns::Rows::new(Lines::new(file, from), columns).take_while(until_wrong))
        }
    }
}

/// Reads all of a trace to see what it asks for.
///
/// # Errors
/// The first thing that is wrong with it, or that there is no request in it.
pub fn survey(
    file: &str,
    entries: impl Iterator<Item = Result<TraceEntry, TraceError>>,
) -> Result<Survey, TraceError> {
    const PAUSE: u64 = 1_000_000_000;
    let mut all = Survey::default();
    let mut last = None;
    for entry in entries {
        let entry = entry?;
        // Traces of several processors are not quite in order.
        let gap = last.map_or(0, |last: u64| entry.at.saturating_sub(last));
        last = Some(last.map_or(entry.at, |last: u64| last.max(entry.at)));
        all.span = all.span.saturating_add(gap);
        if gap > PAUSE {
            all.idle = all.idle.saturating_add(gap);
        }
        match entry.act {
            Act::Flush => all.flushes += 1,
            Act::Request(request) => {
                let of = request.direction.index();
                all.requests[of] += 1;
                all.bytes[of] = all.bytes[of].saturating_add(request.len);
                if request.direction != Direction::Trim {
                    all.largest = all.largest.max(request.len);
                }
                all.end = all.end.max(request.offset + request.len);
            }
        }
    }
    if all.requests == [0; 3] {
        return Err(TraceError { file: file.to_owned(), place: 0, kind: TraceErrorKind::Empty });
    }
    Ok(all)
}

/// A request, where its numbers can be those of one; requests of no bytes are none.
fn request(
    direction: Direction,
    offset: Option<u64>,
    len: Option<u64>,
) -> Result<Option<Act>, TraceErrorKind> {
    let wrong = || TraceErrorKind::Range { offset, len };
    let (offset, len) = (offset.ok_or_else(wrong)?, len.ok_or_else(wrong)?);
    // Members end before the numbers of bytes that a kernel counts do. A trim has no data, and may be larger.
    let most = if direction == Direction::Trim { i64::MAX.unsigned_abs() } else { LARGEST };
    if len > most || offset.checked_add(len).is_none_or(|end| end > i64::MAX.unsigned_abs()) {
        return Err(wrong());
    }
    Ok((len > 0).then_some(Act::Request(Request { direction, offset, len })))
}
