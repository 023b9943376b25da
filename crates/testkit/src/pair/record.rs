//! The record of a pair: a sector at the start of each device.

use brindle_io::{Duration, Io, MemberId, OpClass, Pool};

use super::DATA_OFFSET;

const MAGIC: [u8; 8] = *b"pair\0\0\0\x01";

/// The record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) count: u64,
    /// A bit for each role whose member is out.
    pub(super) out: u8,
    /// Writes may be under way.
    pub(super) dirty: bool,
}

impl Record {
    pub(super) fn bytes(self) -> [u8; 18] {
        let mut bytes = [0; 18];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.count.to_le_bytes());
        (bytes[16], bytes[17]) = (self.out, u8::from(self.dirty));
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let count = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
        let record = Self { count, out: bytes[16], dirty: bytes[17] == 1 };
        (bytes[..18] == record.bytes()).then_some(record)
    }
}

/// The records of two devices; none where there is none, unless the pair is `new`.
pub(super) async fn found(io: &Io, pool: &Pool, ids: [MemberId; 2], new: bool) -> [Option<Record>; 2] {
    let mut found = [None; 2];
    for (found, &id) in found.iter_mut().zip(&ids) {
        let buf = pool.alloc(DATA_OFFSET as usize).await;
        let mut group = io.group_of(OpClass::Metadata);
        group.read(id, 0, &buf.all());
        let read = group.submit_by(io.now().after(Duration::from_secs(5))).await.is_ok();
        let new = new.then_some(Record { count: 0, out: 0, dirty: false });
        *found = if read { Record::parse(&buf.bytes()).or(new) } else { None };
    }
    found
}

/// The record that decides, and which devices are in by it; none if no device that is there may be taken.
pub(super) fn newest(found: [Option<Record>; 2]) -> Option<(Record, [bool; 2])> {
    let record = found.into_iter().flatten().max_by_key(|record| record.count)?;
    let is_in = [0, 1].map(|role| found[role].is_some() && record.out & 1 << role == 0);
    let may_be = is_in.contains(&true) && (record.out != 0 || !found.contains(&None));
    may_be.then_some((record, is_in))
}
