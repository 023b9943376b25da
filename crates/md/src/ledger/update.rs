//! Writes superblocks: outdated devices first, in batches where a cut could tear them. The rules stand at the head of
//! the module.

use core::mem;

use brindle_format::SECTOR;
use brindle_format::md::{DeviceRole, Features, SUPERBLOCK_BYTES, Timestamp, Version};
use brindle_io::sync::join_all;
use brindle_io::{MemberId, OpClass, OpError, Outcome};

use super::{DeviceRecord, Superblocks};
use crate::assembly::Recorded;
use brindle_array::ledger::{Bears, Ledger, Refusals, State};

/// Entries of the table of roles that stand in the first sector of a 1.x superblock.
pub(super) const IN_FIRST_SECTOR: usize = 128;

/// A superblock about to be written.
struct Update {
    /// Index of the device.
    device: usize,
    role: Option<u16>,
    /// More than one of its sectors changes.
    spans: bool,
    /// The device gets a role that it did not have.
    enters: bool,
}

impl Superblocks {
    /// Writes `state` to every living device, with the next event count, to stable storage. Of roles beyond the
    /// first sector of a superblock one changes at a time: [`Ledger::is_settled`] tells whether more is to be written.
    pub(super) async fn update(&self, state: State, bears: Bears<'_>) -> Refusals {
        debug_assert!(self.outdated().is_empty(), "outdated are brought up in a step of their own");
        let failed = self.put_bad_logs().await;
        if !failed.is_empty() {
            return failed;
        }
        if let Some(count) = self.absent_file.take() {
            self.note_stale_file(count);
        }
        self.events.set(self.events.get() + 1);
        let before = self.recorded.borrow().roles.clone();
        let roles = self.next_roles();
        // In 0.90 flags stand beyond the first sector: one change at a time.
        let flags_too = self.beyond_first_sector() > 0 || roles == before;
        *self.recorded.borrow_mut() =
            Recorded { roles, resync_offset: state.in_doubt(), updated: self.time(), ..Recorded::default() };
        for device in self.devices.borrow_mut().iter_mut().filter(|device| device.is_alive()) {
            device.superblock.recovery_offset = device.recovery_offset;
            device.report_moves();
            device.record_bad_log();
            device.superblock.bitmap_offset = device.bitmap_offset;
            device.fresh |= self.may_be_torn_for_good(device, &before);
            if flags_too || device.fresh {
                device.superblock.flags = device.flags;
            }
            let (replaces, guided) = (device.replaces(), device.guided);
            let features = device.superblock.features.with(Features::REPLACEMENT, replaces);
            device.superblock.features = features.with(Features::RECOVERY_BITMAP, guided);
        }
        let mut failed = self.lay_out().await;
        let is_put = |device: &DeviceRecord| device.is_alive() && !device.fresh && self.is_listed(device);
        failed.extend(self.put(is_put, bears).await);
        if failed.is_empty() && self.is_settled() {
            self.bitmaps().for_each(|bitmap| bitmap.settled());
        }
        failed
    }

    /// Whether a cut could leave a mix of the device's old and new superblock that can't be resolved. It is a spare
    /// that missed updates in which several roles changed, or its flags too. `before`: the roles as the update before
    /// this one recorded them.
    fn may_be_torn_for_good(&self, device: &DeviceRecord, before: &[DeviceRole]) -> bool {
        if device.role().is_some() || device.fresh {
            return false;
        }
        let beyond = self.beyond_first_sector();
        let (own, recorded) = (&device.superblock.roles, &self.recorded.borrow().roles);
        let role = |roles: &[DeviceRole], number: usize| roles.get(number).copied().unwrap_or(self.unused());
        let differ = |other: &[DeviceRole]| {
            let all = beyond..own.len().max(other.len());
            all.filter(|&number| role(own, number) != role(other, number)).count()
        };
        let number = device.superblock.device_number as usize;
        if number >= beyond && role(own, number) != role(recorded, number) {
            // A record of a device itself never changes so.
            return true;
        }
        if device.count.is_some() && differ(before) == 0 {
            // Two entries may change with an update, where a device takes the number of its role.
            return false;
        }
        let changes = differ(recorded);
        let changes = changes + usize::from(beyond == 0 && device.superblock.flags != device.flags);
        // The first sector of a torn superblock says nothing reliable about them.
        changes > usize::from(device.count.is_some())
    }

    fn is_laid_out(&self, device: &DeviceRecord) -> bool {
        device.is_alive() && device.fresh && self.is_listed(device)
    }

    /// Entries of the table from this one on are beyond the first sector.
    fn beyond_first_sector(&self) -> usize {
        match self.identity.version {
            Version::V0_90(_) => 0,
            _ => IN_FIRST_SECTOR,
        }
    }

    /// Wipes the first sector of devices that are to be laid out. Nothing on them counts any more, so that the other
    /// sectors may be written in any order.
    async fn wipe_first_sectors(&self) -> Refusals {
        let mut group = self.io.group_of(OpClass::Metadata);
        for device in self.devices.borrow().iter().filter(|device| self.is_laid_out(device)) {
            let Some(buf) = &device.buf else { continue };
            let block = self.io.member_info(device.id).map_or(SECTOR, |info| info.logical_block.into());
            buf.bytes_mut().fill(0);
            group.write(device.id, device.super_offset, &buf.slice(0..block as usize), true);
        }
        if group.is_empty() {
            return Refusals::new();
        }
        refusals(&group.submit_by(self.latest(self.patience.answer)).await)
    }

    /// Prepares devices that have just come: all of their superblocks but the first sector, without which there is none, so
    /// that the update makes it whole at once.
    async fn lay_out(&self) -> Refusals {
        if !self.devices.borrow().iter().any(|device| self.is_laid_out(device)) {
            return Refusals::new();
        }
        let mut failed = self.wipe_first_sectors().await;
        let zeroes = self.io.pool(SUPERBLOCK_BYTES).try_alloc(SUPERBLOCK_BYTES);
        zeroes.iter().for_each(|zeroes| zeroes.bytes_mut().fill(0));
        let (mut group, mut sent) = (self.io.group_of(OpClass::Metadata), Vec::new());
        for (at, device) in
            self.devices.borrow_mut().iter_mut().enumerate().filter(|(_, d)| self.is_laid_out(d))
        {
            if failed.iter().any(|(id, _)| *id == device.id) {
                continue;
            }
            self.bring_up_to_date(device);
            let Some(buf) = &device.buf else { continue };
            let mut bytes = buf.bytes_mut();
            if device.superblock.encode(&mut bytes).is_err() {
                failed.push((device.id, OpError::Unsupported));
                continue;
            }
            bytes[..SECTOR as usize].fill(0);
            device.image.copy_from_slice(&bytes);
            drop(bytes);
            let place = device.super_offset;
            group.write(device.id, place, &buf.all(), true);
            let old = device.old.iter().filter(|&&offset| offset != place);
            for (&offset, zeroes) in old.zip(zeroes.iter().cycle()) {
                group.write(device.id, offset, &zeroes.all(), true);
            }
            sent.push(at);
        }
        if sent.is_empty() {
            return failed;
        }
        failed.extend(refusals(&group.submit_by(self.latest(self.patience.answer)).await));
        for at in sent {
            if let Some(device) = self.devices.borrow_mut().get_mut(at) {
                device.fresh = failed.iter().any(|(id, _)| *id == device.id);
            }
        }
        failed
    }

    /// Gives outdated devices the present state, with the present event count. As [`Superblocks::update`] otherwise.
    pub(super) async fn update_outdated(&self, bears: Bears<'_>) -> Refusals {
        let count = self.events.get();
        self.put(|device| device.is_stale(count), bears).await
    }

    /// The roles that the next update records.
    fn next_roles(&self) -> Vec<DeviceRole> {
        let in_first = self.beyond_first_sector();
        let mut next = self.recorded.borrow().roles.clone();
        next.resize(self.roles.borrow().len(), self.unused());
        let misnumbered = self.misnumbered();
        let mut changed_beyond = false;
        for (number, (role, wanted)) in next.iter_mut().zip(self.roles.borrow().iter()).enumerate() {
            let is_next = misnumbered.iter().any(|&(at, _)| at == number);
            if role == wanted || is_next || (number >= in_first && changed_beyond) {
                continue;
            }
            changed_beyond |= number >= in_first;
            *role = *wanted;
        }
        if let Some(&(number, role)) = misnumbered.first().filter(|_| !changed_beyond) {
            self.exchange(number, role, &mut next);
        }
        next
    }

    /// Writes the recorded state to the devices that `which` names.
    async fn put(&self, which: impl Fn(&DeviceRecord) -> bool, bears: Bears<'_>) -> Refusals {
        debug_assert!(self.sound(), "{}", self.identity.uuid);
        let mut failed = self.shorter(&which).await;
        let mut out: Vec<MemberId> = failed.iter().map(|(id, _)| *id).collect();
        if let Some(bitmap) = self.named_bitmap() {
            // First the bitmap: one that is behind the superblocks is stale, and a device that gets a role must have
            // it by then.
            failed.extend(bitmap.record(self.events.get(), &out).await);
            out = failed.iter().map(|(id, _)| *id).collect();
        }
        let updates = self.encode(|device| which(device) && !out.contains(&device.id), &mut failed);
        let (enter, updates): (Vec<Update>, Vec<Update>) = updates.into_iter().partition(|u| u.enters);
        // A device that gets a role first writes its own superblock, which says that it holds nothing of the role
        // yet. From the others' superblocks alone a reader could take it for a member in sync (`super_1_validate`
        // from Linux 6.8 on).
        failed.extend(self.put_batch(&enter).await);
        for batch in batches(updates, bears) {
            failed.extend(self.put_batch(&batch).await);
        }
        debug_assert!(self.sound(), "{}", self.identity.uuid);
        failed
    }

    /// Devices that are shorter than they were when they were opened. A superblock at its end would make such a file as
    /// long again, with a hole where its data were.
    async fn shorter(&self, which: impl Fn(&DeviceRecord) -> bool) -> Refusals {
        let ids: Vec<MemberId> =
            self.devices.borrow().iter().filter(|device| which(device)).map(|device| device.id).collect();
        let until = self.latest(self.patience.answer);
        let probes = join_all(ids.iter().map(|&id| self.io.probe(id, until))).await;
        let known = |id| self.io.member_info(id).map_or(0, |info| info.size);
        let shorter =
            ids.into_iter().zip(probes).filter(|&(id, probe)| probe.is_ok_and(|p| p.size < known(id)));
        shorter.map(|(id, _)| (id, OpError::Truncated)).collect()
    }

    fn encode(&self, which: impl Fn(&DeviceRecord) -> bool, failed: &mut Refusals) -> Vec<Update> {
        let mut updates = Vec::new();
        for (at, device) in self.devices.borrow_mut().iter_mut().enumerate().filter(|(_, d)| which(d)) {
            let had_none = device.superblock.role().active().is_none() || device.returns;
            self.bring_up_to_date(device);
            let enters = had_none && device.superblock.role().active().is_some();
            let Some(buf) = &device.buf else { continue };
            let mut bytes = buf.bytes_mut();
            // Nothing but a programmer's mistake makes this fail: open has encoded each superblock before.
            if device.superblock.encode(&mut bytes).is_err() {
                failed.push((device.id, OpError::Unsupported));
                continue;
            }
            let sectors = bytes.chunks(SECTOR as usize).zip(device.image.chunks(SECTOR as usize));
            // It is unknown which sectors of a torn superblock change.
            let spans = device.count.is_none() || sectors.filter(|(new, old)| new != old).count() > 1;
            updates.push(Update { device: at, role: device.role(), spans, enters });
        }
        updates
    }

    fn bring_up_to_date(&self, device: &mut DeviceRecord) {
        let recorded = self.recorded.borrow();
        let sb = &mut device.superblock;
        sb.events = self.events.get();
        sb.updated = recorded.updated;
        sb.resync_offset = recorded.resync_offset;
        sb.roles.clone_from(&recorded.roles);
    }

    /// The time of an update, as far as the version can hold it: in seconds, since md shows nonsense where 1.x has
    /// microseconds too. All superblocks of one count have the same, outdated devices too: what differs was not written together
    /// (`assembly/diverged.rs`).
    fn time(&self) -> Timestamp {
        let most = match self.identity.version {
            Version::V0_90(_) => u32::MAX.into(),
            _ => (1 << 40) - 1,
        };
        Timestamp { seconds: (self.wall_clock)().min(most), micros: 0 }
    }

    /// Writes encoded superblocks at the same time, but for those of devices that have failed since.
    async fn put_batch(&self, batch: &[Update]) -> Refusals {
        let mut group = self.io.group_of(OpClass::Metadata);
        let mut sent = Vec::new();
        for update in batch {
            let devices = self.devices.borrow();
            let Some(device) = devices.get(update.device).filter(|device| device.is_alive()) else {
                continue;
            };
            let Some(buf) = &device.buf else { continue };
            group.write(device.id, device.super_offset, &buf.all(), true);
            sent.push(update.device);
        }
        if sent.is_empty() {
            return Refusals::new();
        }
        let failed = refusals(&group.submit_by(self.latest(self.patience.answer)).await);
        let mut devices = self.devices.borrow_mut();
        for at in sent {
            let Some(device) = devices.get_mut(at) else { continue };
            let refused = failed.iter().any(|(id, _)| *id == device.id);
            if let Some(buf) = device.buf.as_ref().filter(|_| !refused) {
                device.image.copy_from_slice(&buf.bytes());
                device.superblock.written(&device.image);
                device.count = Some(self.events.get());
                device.returns = false;
            }
        }
        failed
    }

    /// The rules at the head of the module, as far as they can be checked here.
    fn sound(&self) -> bool {
        let events = self.events.get();
        let roles = &self.recorded.borrow().roles;
        let member = |device: &&DeviceRecord| device.is_alive() && device.role().is_some();
        self.devices.borrow().iter().filter(member).all(|device| {
            let near = device.count.is_none_or(|count| count <= events && count.saturating_add(1) >= events);
            let near = near || device.returns;
            let number = device.superblock.device_number as usize;
            // It may be about to get its role.
            let enters = self.roles.borrow().get(number) != roles.get(number);
            near && (enters || matches!(roles.get(number), Some(DeviceRole::Active(_))))
        })
    }
}

/// The devices that refused a write, each with its error.
fn refusals(outcome: &Outcome) -> Refusals {
    outcome.failures().iter().filter_map(|failure| Some((failure.kind.member()?, failure.error))).collect()
}

/// Superblocks that may be in flight at the same time: all of those that a cut leaves old or new, and of the others as
/// many as the array could do without.
fn batches(updates: Vec<Update>, bears: Bears<'_>) -> Vec<Vec<Update>> {
    let (spanning, whole): (Vec<Update>, Vec<Update>) = updates.into_iter().partition(|update| update.spans);
    let mut batches = vec![whole];
    let mut batch: Vec<Update> = Vec::new();
    for update in spanning {
        let roles: Vec<u16> = batch.iter().chain([&update]).filter_map(|update| update.role).collect();
        if !batch.is_empty() && !bears(&roles) {
            batches.push(mem::take(&mut batch));
        }
        batch.push(update);
    }
    batches.push(batch);
    batches.retain(|batch| !batch.is_empty());
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superblocks_of_several_sectors_are_in_flight_on_no_more_members_than_can_be_lost() {
        let update =
            |device: usize, spans| Update { device, role: Some(device as u16), spans, enters: false };
        let sizes = |spans: &[bool], most: usize| {
            let updates = spans.iter().enumerate().map(|(device, &spans)| update(device, spans)).collect();
            batches(updates, &|roles| roles.len() <= most).iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&[false; 5], 0), [5], "old or new: no order is needed");
        assert_eq!(sizes(&[true; 5], 2), [2, 2, 1]);
        assert_eq!(sizes(&[true; 3], 0), [1, 1, 1], "one at a time where none can be lost");
        assert_eq!(sizes(&[true, false, true, false], 1), [2, 1, 1]);
        assert!(sizes(&[], 1).is_empty());
    }
}
