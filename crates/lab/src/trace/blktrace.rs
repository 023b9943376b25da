//! Records of blktrace, as the kernel's `struct blk_io_trace` has them (`include/uapi/linux/blktrace_api.h`): 48 bytes in the
//! byte order of the machine, then what the record carries along.

use std::io::{BufRead, ErrorKind};

use super::error::{TraceError, TraceErrorKind};
use super::{Act, TraceEntry, request};
use crate::job::Direction;

const MAGIC: u32 = 0x6561_7400;
const VERSION: u8 = 7;
const LEN: usize = 48;

/// The action, in the lower half of `action`.
const QUEUE: u32 = 1;
/// The record carries a control group's number in addition.
const CGROUP: u32 = 1 << 8;
/// The category of a record, in the upper half of its action.
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;

pub(super) fn is_one(start: &[u8]) -> bool {
    start.first_chunk().is_some_and(|first: &[u8; 4]| little(*first).is_some())
}

/// Whether a record is little-endian, by its first four bytes.
fn little(first: [u8; 4]) -> Option<bool> {
    if u32::from_le_bytes(first) & !0xff == MAGIC {
        return Some(true);
    }
    (u32::from_be_bytes(first) & !0xff == MAGIC).then_some(false)
}

/// The entries of blktrace records.
pub(super) struct Records<R> {
    file: String,
    from: R,
    number: u64,
}

impl<R: BufRead> Records<R> {
    pub(super) fn new(file: &str, from: R) -> Self {
        Self { file: file.to_owned(), from, number: 0 }
    }

    /// Fills the buffer as far as there are bytes.
    fn fill(&mut self, mut bytes: &mut [u8]) -> Result<usize, TraceErrorKind> {
        let whole = bytes.len();
        while !bytes.is_empty() {
            match self.from.read(bytes) {
                Ok(0) => break,
                Ok(count) => bytes = &mut bytes[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(TraceErrorKind::Unreadable(error.to_string())),
            }
        }
        Ok(whole - bytes.len())
    }

    /// The next record's entry, if it has one; none at the end.
    fn record(&mut self) -> Result<Option<Option<TraceEntry>>, TraceErrorKind> {
        let mut bytes = [0; LEN];
        match self.fill(&mut bytes)? {
            0 => return Ok(None),
            LEN => {}
            less => return Err(TraceErrorKind::CutOff(less)),
        }
        let record = Record::parse(&bytes)?;
        let mut rest = [0; 256];
        let mut left = record.more;
        while left > 0 {
            let part = left.min(rest.len());
            let got = self.fill(&mut rest[..part])?;
            if got < part {
                return Err(TraceErrorKind::CutOff(LEN + record.more - left + got));
            }
            left -= part;
        }
        Ok(Some(record.entry()?))
    }
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<TraceEntry, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.number += 1;
            match self.record() {
                Ok(None) => return None,
                Ok(Some(None)) => {}
                Ok(Some(Some(entry))) => return Some(Ok(entry)),
                Err(kind) => {
                    return Some(Err(TraceError { file: self.file.clone(), place: self.number, kind }));
                }
            }
        }
    }
}

/// The fields of a record that are used.
struct Record {
    at: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    /// Bytes after the record.
    more: usize,
}

impl Record {
    fn parse(bytes: &[u8; LEN]) -> Result<Self, TraceErrorKind> {
        let part = |at: usize| core::array::from_fn(|byte| bytes[at + byte]);
        let first = part(0);
        let little = little(first).ok_or_else(|| TraceErrorKind::Magic(u32::from_le_bytes(first)))?;
        let short = |at: usize| {
            let part = |at: usize| core::array::from_fn(|byte| bytes[at + byte]);
            if little { u16::from_le_bytes(part(at)) } else { u16::from_be_bytes(part(at)) }
        };
        let word = |at: usize| {
            if little { u32::from_le_bytes(part(at)) } else { u32::from_be_bytes(part(at)) }
        };
        // In either order the half that comes first is the one at the lower place.
        let long = |at: usize| {
            let (low, high) = if little { (at, at + 4) } else { (at + 4, at) };
            u64::from(word(high)) << 32 | u64::from(word(low))
        };
        let version = (word(0) & 0xff) as u8;
        if version != VERSION {
            return Err(TraceErrorKind::RecordVersion(version));
        }
        Ok(Self {
            at: long(8),
            sector: long(16),
            bytes: word(24),
            action: word(28),
            more: usize::from(short(46)),
        })
    }

    fn entry(&self) -> Result<Option<TraceEntry>, TraceErrorKind> {
        let queued = self.action & 0xffff & !CGROUP == QUEUE && self.action & NOTIFY == 0;
        if !queued {
            return Ok(None);
        }
        let direction = match self.action {
            action if action & DISCARD != 0 => Direction::Trim,
            action if action & WRITE != 0 => Direction::Write,
            _ => Direction::Read,
        };
        if self.bytes == 0 && self.action & FLUSH != 0 {
            return Ok(Some(TraceEntry { at: self.at, act: Act::Flush }));
        }
        let act = request(direction, self.sector.checked_mul(512), Some(self.bytes.into()))?;
        Ok(act.map(|act| TraceEntry { at: self.at, act }))
    }
}
