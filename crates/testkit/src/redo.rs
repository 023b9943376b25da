//! A log of rows on the members of an array: it has what rows are about to hold before a member is written, so that a crash
//! leaves no row whose parity is false. It uses the second moment of a [`RowLog`].
//!
//! Each member has the whole log before its data, in two halves. What must hold, for a crash at any moment:
//!
//! 1. An entry stands on all members in use before one of them is sent what it says. A member that refuses it is failed.
//! 2. A run writes one half, and has an epoch of its own, one more than any that was found. The half is that of the epoch, so
//!    that the entries of the last run are whole until a later one has entries.
//! 3. A run begins when the entries of the newest epoch have been carried out, in their order, and made stable.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::rc::Rc;

use brindle_array::Device;
use brindle_array::observer::Content;
use brindle_array::row_log::{Change, Computed, LogHost, MakeRowLog, OnRecord, RowLog};
use brindle_io::{Buf, Io, MemberId, OpClass, OpError, Pool};
use brindle_volume::VolumeError;

/// Bytes of one half.
const HALF: u64 = 1 << 20;
/// Bytes of a member before its data.
pub const LOG_BYTES: u64 = 2 * HALF;
/// The alignment of entries, and the size of an entry's head.
const HEAD: usize = 4096;
const MAGIC: u64 = 0x6272_696e_7265_646f;
/// Words of a head before those of changes.
const FIXED: usize = 6;
/// Words of a change: role, offset, length, and whether bytes follow.
const EACH: usize = 4;

/// The log of a run.
pub struct Redo {
    pool: Pool,
    epoch: u64,
    /// Bytes of the half that have been given to entries.
    used: Cell<u64>,
    /// The log writes nothing: the fault that a test wants.
    idle: bool,
}

impl Redo {
    /// The log of an array's run, whose epoch [`replay`] gave. An `idle` one breaks the first rule.
    pub fn of(epoch: u64, idle: bool) -> MakeRowLog {
        MakeRowLog::new(move |io, _| {
            Rc::new(Self { pool: io.pool(8 << 20), epoch, used: Cell::new(0), idle }) as Rc<dyn RowLog>
        })
    }

    /// Memory with an entry, and its byte in the log; `None` where there is no room for it.
    fn entry(&self, rows: &Computed) -> Option<(Buf, u64)> {
        let data: u64 =
            rows.changes.iter().filter(|change| has_bytes(&change.content)).map(|of| of.len).sum();
        let len = HEAD + (data as usize).next_multiple_of(HEAD);
        let at = (self.epoch % 2) * HALF + self.used.get();
        let end = self.used.get() + len as u64;
        if end > HALF || FIXED + EACH * rows.changes.len() > HEAD / 8 {
            return None;
        }
        let buf = self.pool.try_alloc(len)?;
        self.used.set(end);
        let mut words = vec![MAGIC, self.epoch, at, 0, len as u64, rows.changes.len() as u64];
        let mut bytes = vec![0; HEAD];
        for change in &rows.changes {
            let has = u64::from(has_bytes(&change.content));
            words.extend([u64::from(change.role), change.offset, change.len, has]);
            if let Content::Bytes(slices) = &change.content {
                slices.iter().for_each(|slice| bytes.extend_from_slice(&slice.bytes()));
            }
        }
        bytes.resize(len, 0);
        for (place, word) in bytes.chunks_mut(8).zip(&words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let sum = checksum(&bytes);
        bytes[24..32].copy_from_slice(&sum.to_le_bytes());
        buf.bytes_mut()[..len].copy_from_slice(&bytes);
        Some((buf, at))
    }
}

impl RowLog for Redo {
    fn computed<'a>(&self, rows: &Computed, host: &'a dyn LogHost) -> Option<OnRecord<'a>> {
        if self.idle {
            return None;
        }
        let full = VolumeError::Member { role: None, error: OpError::NoSpace };
        let entry = self.entry(rows);
        Some(Box::pin(async move {
            let (buf, at) = entry.ok_or(full)?;
            let mut group = host.io().group_of(OpClass::Metadata);
            let members = host.members();
            for device in (0..members.len()).filter_map(|role| members.writable(role)) {
                group.write(device.id, at, &buf.all(), true);
            }
            let outcome = group.submit().await;
            let refused = outcome.failures().iter();
            let refused: Vec<(MemberId, OpError)> =
                refused.filter_map(|failure| Some((failure.kind.member()?, failure.error))).collect();
            host.refused(&refused).await
        }))
    }

    fn ends(&self, _: &Change) {}
}

fn has_bytes(content: &Content) -> bool {
    matches!(content, Content::Bytes(_))
}

/// The checksum of an entry, without the bytes of the checksum.
fn checksum(entry: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(&entry[..24]);
    hasher.write(&entry[32..]);
    hasher.finish()
}

/// The words of the head of the whole entry that begins at `at` of a log; `None` if there is none.
fn head(log: &[u8], at: usize) -> Option<Vec<u64>> {
    let words = head_words(&log[at..]);
    let entry = log.get(at..at.checked_add(usize::try_from(words[4]).ok()?)?)?;
    let is_one = words[0] == MAGIC && words[2] == at as u64 && entry.len() >= HEAD;
    (is_one && checksum(entry) == words[3]).then_some(words)
}

/// Carries out what the log says, where a run may have been cut short. Gives the epoch of the next run.
///
/// # Errors
/// [`VolumeError::Member`] if a device that is there can't be read or written.
pub async fn replay(io: &Io, devices: &[Option<Device>]) -> Result<u64, VolumeError> {
    let pool = io.pool(LOG_BYTES as usize + (8 << 20));
    // By epoch and byte of the log: members that have an entry have the same.
    let mut entries: BTreeMap<(u64, usize), Vec<u8>> = BTreeMap::new();
    for device in devices.iter().flatten() {
        let buf = pool.alloc(LOG_BYTES as usize).await;
        let mut group = io.group_of(OpClass::Metadata);
        group.read(device.id, 0, &buf.all());
        group.submit().await.ok().map_err(|error| VolumeError::Member { role: None, error })?;
        let log = buf.bytes().to_vec();
        for at in (0..log.len()).step_by(HEAD) {
            if let Some(words) = head(&log, at) {
                entries.entry((words[1], at)).or_insert_with(|| log[at..at + words[4] as usize].to_vec());
            }
        }
    }
    let newest = entries.keys().next_back().map_or(0, |(epoch, _)| *epoch);
    for (_, entry) in entries.range((newest, 0)..) {
        carry_out(io, &pool, devices, entry).await?;
    }
    let mut group = io.group_of(OpClass::Metadata);
    for device in devices.iter().flatten() {
        group.flush(device.id);
    }
    group.submit().await.ok().map_err(|error| VolumeError::Member { role: None, error })?;
    Ok(newest + 1)
}

/// Writes what an entry says of the members that are there.
async fn carry_out(
    io: &Io,
    pool: &Pool,
    devices: &[Option<Device>],
    entry: &[u8],
) -> Result<(), VolumeError> {
    let words = head_words(entry);
    let mut from = HEAD;
    for change in words[FIXED..].chunks_exact(EACH).take(words[5] as usize) {
        let (role, offset, len, has) = (change[0], change[1], change[2] as usize, change[3] == 1);
        let buf = pool.alloc(len).await;
        buf.bytes_mut()[..len].fill(0);
        if has {
            buf.bytes_mut()[..len].copy_from_slice(&entry[from..from + len]);
            from += len;
        }
        let Some(device) = devices.get(role as usize).copied().flatten() else { continue };
        let mut group = io.group_of(OpClass::Metadata);
        group.write(device.id, device.data_offset + offset, &buf.slice(0..len), false);
        group.submit().await.ok().map_err(|error| VolumeError::Member { role: None, error })?;
    }
    Ok(())
}

fn head_words(entry: &[u8]) -> Vec<u64> {
    entry[..HEAD].chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes)).collect()
}
