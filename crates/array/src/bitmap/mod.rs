//! The write-intent bitmap of an array, as the engine sees it: a log of ranges whose bits are cleared in time. Its format, and
//! where it stands, is the ledger's.
//!
//! This file has the trait. `record` puts a bitmap that is added, moved or removed on record, `change` does so for users,
//! `clear` clears bits, and `error` has the reasons for which an array keeps the bitmap that it has.

mod change;
pub(crate) mod clear;
pub(crate) mod error;
mod record;

use core::future::Future;
use core::ops::Range;
use core::pin::Pin;

use brindle_io::{MemberId, OpError};

use crate::row_log::RowLog;

/// Devices that did not take what was to be put on record, and why.
pub type Refusals = Vec<(MemberId, OpError)>;

/// Pages of a bitmap on their way. They come to their end, also when this is dropped.
pub type Flight = Pin<Box<dyn Future<Output = Refusals>>>;

/// A file that holds an array's write-intent bitmap, from its first byte on. No superblock names it: it is given with the members,
/// as mdadm has it (`--assemble --bitmap=FILE`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BitmapFile {
    /// The name in messages.
    pub label: String,
    /// The reactor's number, if it is open.
    pub id: Option<MemberId>,
}

impl BitmapFile {
    /// A file that is open.
    pub fn open(label: impl Into<String>, id: MemberId) -> Self {
        Self { label: label.into(), id: Some(id) }
    }

    /// Whether the file is this device.
    pub fn is(&self, id: MemberId) -> bool {
        self.id == Some(id)
    }
}

/// A log of the ranges in which members may differ after a crash: a bit for each chunk. As a [`RowLog`] it needs the first moment
/// only, and only of [bytes](crate::row_log::Change::Bytes) that change.
pub trait IntentBitmap: RowLog {
    /// Writes all dirty pages to stable storage on all members in use. One flight serves all callers that wait for it. Returns the
    /// members that refused a page; unless they are out of use, they still lack it.
    fn fly(&self) -> Flight;

    /// All of it stands on all members, and who was lost meanwhile is on record as lost.
    fn is_whole(&self) -> bool;

    /// Ends a bitmap that no superblock names any more. When this returns, none of its writes is under way except
    /// those that were given up.
    fn retire(&self) -> Pin<Box<dyn Future<Output = ()> + '_>>;

    /// The chunks whose bit is set and in which no write has been under way since the last round: another round begins.
    fn next_round(&self) -> Vec<u64>;

    /// No write is under way in the chunk, nor has one begun since the round did.
    fn is_idle(&self, chunk: u64) -> bool;

    /// The range of a chunk, in the units in which a resync counts.
    fn covers(&self, chunk: u64) -> Range<u64>;

    /// Bits are about to be cleared: who comes back with a lower event count than the present one needs more than what bits
    /// tell. To be written before the first is.
    fn will_clear(&self);

    /// Clears the bit of a chunk: to be written.
    fn clear(&self, chunk: u64);

    /// Whether the bit of the chunk is set in which a range begins, as a resync counts, and up to where at least within the
    /// range that is so. Ranges without a bit are not marked.
    fn marked_run(&self, range: &Range<u64>) -> (bool, u64);

    /// Whether the bit of some chunk is set that a range of the array's bytes is in.
    fn is_marked(&self, range: &Range<u64>) -> bool;

    /// Ranges without a bit, as a resync counts: their redundancy is in sync, whatever happened.
    fn undoubted(&self) -> Vec<Range<u64>>;

    /// The file that has it, if no member does.
    fn file(&self) -> Option<&BitmapFile>;

    /// Whether a device is the bitmap's file.
    fn is_file(&self, device: MemberId) -> bool {
        self.file().is_some_and(|file| file.is(device))
    }

    /// Its file is out of use: it is kept in memory, no more.
    fn has_failed(&self) -> bool;

    /// The last error that the bitmap file answered with.
    fn refusal(&self) -> OpError;

    /// Seconds between two rounds that clear bits.
    fn daemon_sleep(&self) -> u32;

    /// Limit of write-behind: writes that may be under way to write-mostly members after their clients got an answer;
    /// 0: none.
    fn write_behind(&self) -> u32;

    /// Says how many from now on: to be written.
    fn set_write_behind(&self, count: u32);

    /// Bytes to a bit, bits, and how many of them are set.
    fn tell(&self) -> (u64, u64, u64);

    /// Pages written in this run, each to all members.
    fn written(&self) -> u64;
}
