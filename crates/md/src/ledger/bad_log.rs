//! Bad blocks of members, in md's logs beside the superblocks: what a recovery could not rebuild. A log is written before the
//! superblock that relies on it; the superblock's feature bit says that there is something in it, as in md (`super_1_sync` and
//! `super_1_load` in the kernel's `md.c`).

use core::ops::Range;

use brindle_format::md::badblocks::{BadRange, Entries};
use brindle_format::md::defaults::with_room_for_bitmap;
use brindle_format::md::{BadBlockLog, Features, SUPERBLOCK_BYTES, Superblock};
use brindle_io::{Buf, MemberId, OpClass, OpError};

use super::{DeviceRecord, Superblocks};
use crate::assembly::bad_log_place;
use brindle_array::ledger::Refusals;

/// The log of one device.
#[derive(Default)]
pub(super) struct BadLog {
    /// The entries on the device; `None` if the log can't be changed.
    entries: Option<Entries>,
    /// The entries to be written next, in this order.
    next: Vec<Entries>,
    /// The next update says that it stands elsewhere, and where data end.
    moves: Option<Moves>,
}

/// Where a log is to stand, if there is one, and how large the data area is to be.
struct Moves {
    log: Option<BadBlockLog>,
    data_size: u64,
}

impl BadLog {
    /// The log as it was read from a device. It is not read if the superblock says that it is empty.
    pub(super) fn of(superblock: &Superblock, read: Option<&[u8]>) -> Self {
        let shift = superblock.bad_block_log.map_or(0, |log| log.shift);
        let entries = read.map_or(Some(Entries::default()), |log| Entries::parse(log, shift));
        Self { entries, next: Vec::new(), moves: None }
    }

    /// All that is to be written has been.
    pub(super) fn is_settled(&self) -> bool {
        self.next.is_empty() && self.moves.is_none()
    }

    /// Whether the log has entries.
    pub(super) fn is_used(&self) -> bool {
        self.entries.as_ref().is_none_or(|entries| !entries.is_empty())
    }
}

impl DeviceRecord {
    /// The logs to be written for the log to name these ranges of the data area; `None` if it can't. While data are moved that area begins
    /// where it will after that.
    fn bad_log_change(&self, places: &[Range<u64>]) -> Option<Vec<Entries>> {
        let start = self.superblock.new_data_offset();
        let range =
            |place: &Range<u64>| BadRange { offset: start + place.start, len: place.end - place.start };
        let bad: Vec<BadRange> = places.iter().map(range).collect();
        let Some((_, len)) = bad_log_place(&self.superblock) else {
            return bad.is_empty().then(Vec::new);
        };
        let mut before = self.bad_log.entries.clone()?;
        let steps = before.change(&bad, len)?.into_iter();
        Some(steps.filter(|step| *step != core::mem::replace(&mut before, step.clone())).collect())
    }

    /// The device's superblock as it would be once the log in a bitmap's way had moved; `None` if that can't be.
    pub(crate) fn with_room(&self, device_bytes: u64) -> Option<Superblock> {
        let mut new = with_room_for_bitmap(&self.superblock, device_bytes)?;
        let entries = self.bad_log.entries.as_ref()?;
        if let (Some(old), Some(log)) = (self.superblock.bad_block_log, &mut new.bad_block_log) {
            // The old one counts until a superblock names the new one: of what it holds nothing must be overwritten.
            let kept = if log.offset > old.offset { entries.bytes() } else { old.size };
            if log.offset.abs_diff(old.offset) < kept {
                let behind = u64::try_from(old.offset).ok()?.checked_add(old.size)?;
                let place = behind.checked_next_multiple_of(SUPERBLOCK_BYTES as u64)?;
                let end = new.super_offset.checked_add(place)?.checked_add(log.size)?;
                log.offset = i64::try_from(place).ok().filter(|_| end <= new.data_offset)?;
            }
        }
        Some(new)
    }

    /// Moves the log in a bitmap's way with the next update, to where this superblock has it.
    pub(crate) fn make_room(&mut self, new: &Superblock) {
        self.bad_log.moves = Some(Moves { log: new.bad_block_log, data_size: new.data_size });
    }

    /// The superblock follows what has been copied.
    pub(super) fn report_moves(&mut self) {
        if let Some(Moves { log, data_size }) = self.bad_log.moves.take() {
            (self.superblock.bad_block_log, self.superblock.data_size) = (log, data_size);
        }
    }

    /// Where the log is to stand that moves.
    fn new_log_place(&self) -> Option<(u64, usize)> {
        let log = self.bad_log.moves.as_ref()?.log?;
        let mut moved = self.superblock.clone();
        moved.bad_block_log = Some(log);
        bad_log_place(&moved)
    }

    /// The feature bit follows the log.
    pub(super) fn record_bad_log(&mut self) {
        let used = self.bad_log.is_used();
        self.superblock.features = self.superblock.features.with(Features::BAD_BLOCKS, used);
    }
}

impl Superblocks {
    /// Whether a device's log could name these ranges of its data area, and no others.
    pub(super) fn can_log(&self, id: MemberId, places: &[Range<u64>]) -> bool {
        let devices = self.devices.borrow();
        devices
            .iter()
            .find(|d| d.is_alive() && d.id == id)
            .is_some_and(|device| device.bad_log_change(places).is_some())
    }

    /// Adds bad places to the log; the next update writes them.
    pub(super) fn log_bad(&self, id: MemberId, places: &[Range<u64>]) -> bool {
        let mut devices = self.devices.borrow_mut();
        let Some(device) = devices.iter_mut().find(|d| d.is_alive() && d.id == id) else { return false };
        let Some(next) = device.bad_log_change(places) else { return false };
        device.bad_log.next = next;
        true
    }

    /// Writes changed logs, and moved logs in their new places, to stable storage.
    pub(super) async fn put_bad_logs(&self) -> Refusals {
        let refused = self.change_bad_logs().await;
        if refused.is_empty() { self.copy_bad_logs().await } else { refused }
    }

    /// The one at the old place counts until the update says otherwise.
    async fn copy_bad_logs(&self) -> Refusals {
        let mut refused = Refusals::new();
        let mut group = self.io.group_of(OpClass::Metadata);
        for device in self.devices.borrow().iter().filter(|device| device.is_alive()) {
            let (Some((offset, len)), Some(entries)) = (device.new_log_place(), &device.bad_log.entries)
            else {
                continue;
            };
            match self.io.pool(len).try_alloc(len) {
                Some(buf) => {
                    entries.encode(&mut buf.bytes_mut());
                    group.write(device.id, offset, &buf.all(), true);
                }
                None => refused.push((device.id, OpError::TimedOut)),
            }
        }
        if !group.is_empty() {
            let outcome = group.submit_by(self.latest(self.patience.answer)).await;
            refused.extend(outcome.failures().iter().filter_map(|f| Some((f.kind.member()?, f.error))));
        }
        refused
    }

    async fn change_bad_logs(&self) -> Refusals {
        let mut refused = Refusals::new();
        loop {
            let mut sent: Vec<(MemberId, Entries, Buf)> = Vec::new();
            let mut group = self.io.group_of(OpClass::Metadata);
            for device in self.devices.borrow().iter().filter(|device| device.is_alive()) {
                let (Some(entries), Some((offset, len))) =
                    (device.bad_log.next.first(), bad_log_place(&device.superblock))
                else {
                    continue;
                };
                if refused.iter().any(|(id, _)| *id == device.id) {
                    continue;
                }
                let Some(buf) = self.io.pool(len).try_alloc(len) else {
                    refused.push((device.id, OpError::TimedOut));
                    continue;
                };
                entries.encode(&mut buf.bytes_mut());
                group.write(device.id, offset, &buf.all(), true);
                sent.push((device.id, entries.clone(), buf));
            }
            if sent.is_empty() {
                return refused;
            }
            let outcome = group.submit_by(self.latest(self.patience.answer)).await;
            let failed = outcome.failures().iter().filter_map(|f| Some((f.kind.member()?, f.error)));
            refused.extend(failed);
            let mut devices = self.devices.borrow_mut();
            for (id, entries, _) in sent {
                let taken = refused.iter().all(|(refused, _)| *refused != id);
                if let Some(device) = devices.iter_mut().find(|device| device.id == id && taken) {
                    device.bad_log.next.retain(|next| *next != entries);
                    device.bad_log.entries = Some(entries);
                }
            }
        }
    }
}
