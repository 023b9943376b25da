//! Bad blocks of members, in md's logs beside the superblocks: what a recovery could not rebuild. A log is written before the
//! superblock that relies on it; the superblock's feature bit says that there is something in it, as in md (`super_1_sync` and
//! `super_1_load` in the kernel's `md.c`).

use core::ops::Range;

use brindle_format::md::badblocks::{BadRange, Entries};
use brindle_format::md::{Features, Superblock};
use brindle_io::{Buf, MemberId, OpClass, OpError};

use super::{Kept, Superblocks};
use crate::assembly::bad_log_place;
use crate::ledger::Refusals;

/// The log of one device.
#[derive(Default)]
pub(super) struct BadLog {
    /// What stands on the device; `None` if it can't be changed.
    entries: Option<Entries>,
    /// What is to stand there next: each before the one after it.
    next: Vec<Entries>,
}

impl BadLog {
    /// As it was read from a device; nothing is read where its superblock says that it is empty.
    pub(super) fn of(superblock: &Superblock, read: Option<&[u8]>) -> Self {
        let shift = superblock.bad_block_log.map_or(0, |log| log.shift);
        let entries = read.map_or(Some(Entries::default()), |log| Entries::parse(log, shift));
        Self { entries, next: Vec::new() }
    }

    /// All that is to be written has been.
    pub(super) fn is_settled(&self) -> bool {
        self.next.is_empty()
    }

    /// There is something in it.
    pub(super) fn is_used(&self) -> bool {
        self.entries.as_ref().is_none_or(|entries| !entries.is_empty())
    }
}

impl Kept {
    /// The logs to be written for the log to name these ranges of the data area; `None` if it can't.
    fn bad_log_change(&self, places: &[Range<u64>]) -> Option<Vec<Entries>> {
        let start = self.superblock.data_offset;
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

    /// The feature bit follows the log.
    pub(super) fn tell_of_bad_log(&mut self) {
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
            .find(|d| d.alive && d.id == id)
            .is_some_and(|device| device.bad_log_change(places).is_some())
    }

    /// It is to do so with the next update.
    pub(super) fn log_bad(&self, id: MemberId, places: &[Range<u64>]) -> bool {
        let mut devices = self.devices.borrow_mut();
        let Some(device) = devices.iter_mut().find(|d| d.alive && d.id == id) else { return false };
        let Some(next) = device.bad_log_change(places) else { return false };
        device.bad_log.next = next;
        true
    }

    /// Writes the logs that are to change, to stable storage.
    pub(super) async fn put_bad_logs(&self) -> Refusals {
        let mut refused = Refusals::new();
        loop {
            let mut sent: Vec<(MemberId, Entries, Buf)> = Vec::new();
            let mut group = self.io.group_of(OpClass::Metadata);
            for device in self.devices.borrow().iter().filter(|device| device.alive) {
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
