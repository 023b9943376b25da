//! Vdevs that come to a running pool, members that a vdev gets, and copies that leave it.
//!
//! A new device has no past in the pool: its labels are cleared, and its config is the one that is about to count. A vdev's segments stand in the
//! table before a config has the vdev. A vdev of rows that gets a member is written wider from then on: what stands is moved when room is needed.
//! A single device that gets one becomes a mirror, and one more copy is resilvered.

use std::rc::Rc;

use brindle_format::pool::place::{MAX_PARITY, MAX_WIDTH};
use brindle_format::pool::{
    BLOCK, DATA_START, Label, MAX_MEMBERS, MAX_VDEVS, MemberRecord, MemberState, Run, Vdev, VdevKind,
};
use brindle_io::MemberId;
use brindle_members::events::Cause;
use brindle_members::members::Device;
use brindle_members::set::Owner as _;

use super::create::{MOST_SEGMENTS, PoolCreateError, VdevSpec, plan_vdev, too_fine};
use super::returned::{Change, MemberError, Replacement, TakenBack};
use crate::core::Core;
use crate::record::join::{ChangeOfLabel, Joining};
use crate::role::Role;
use crate::upkeep::checkpoint::Why;

/// The number by which changes of the pool as a whole are told from those of members.
const WHOLE: u16 = u16::MAX;

/// A device of a member to come.
pub(crate) struct Comer {
    pub(crate) device: Replacement,
    pub(crate) member: u16,
    pub(crate) size: u64,
}

impl Comer {
    fn joining(&self) -> Joining {
        let device = Device { id: self.device.id, data_offset: DATA_START };
        Joining { member: self.member, device, places: [0, 0] }
    }
}

/// Numbers for so many members: those that others have left, then new ones.
fn numbers(label: &Label, count: usize) -> Vec<u16> {
    let is_left = |record: &MemberRecord| record.state == MemberState::Gone && record.role.is_none();
    let left = (0..).zip(&label.members).filter(|(_, record)| is_left(record)).map(|(member, _)| member);
    left.chain(label.members.len() as u16..).take(count).collect()
}

/// The number of a member to come.
///
/// # Errors
/// There are as many as there can be.
pub(crate) fn number_for(label: &Label) -> Result<u16, PoolCreateError> {
    let number = numbers(label, 1).first().copied().filter(|&number| usize::from(number) < MAX_MEMBERS);
    number.ok_or(PoolCreateError::TooMany { what: "devices", count: MAX_MEMBERS + 1, most: MAX_MEMBERS })
}

/// A record in its place, or behind all others.
pub(crate) fn put(label: &mut Label, member: u16, record: MemberRecord) {
    match label.members.get_mut(usize::from(member)) {
        Some(place) => *place = record,
        None => label.members.push(record),
    }
}

impl Core {
    /// Adds a vdev.
    ///
    /// # Errors
    /// [`MemberError`]; the pool is as before.
    pub(crate) async fn add(
        self: &Rc<Self>,
        kind: VdevKind,
        parity: u8,
        devices: Vec<Replacement>,
    ) -> Result<(), MemberError> {
        self.check_changes()?;
        let _change = self.grows()?;
        let sizes = devices.iter().map(|device| self.size_of(device.id)).collect();
        let (at, vdev) = self.plan_add(&VdevSpec { kind, parity, sizes })?;
        self.refuse_members(&devices)?;
        let label = self.label.get();
        let run = Run { first_segment: label.segments(), units: vdev.units, first_unit: 0, vdev: at as u16 };
        let numbers = numbers(&label, devices.len()).into_iter();
        let comer =
            |(member, device): (u16, Replacement)| Comer { member, size: self.size_of(device.id), device };
        let comers: Vec<Comer> = numbers.zip(devices).map(comer).collect();
        let _asked = self.prepare_comers(&comers).await?;
        self.announce(run, vdev).await?;
        let records = (0..).zip(&comers).map(|(role, comer)| {
            let (id, size, role) = (comer.device.uuid, comer.size, Some((at as u16, role)));
            (comer.member, MemberRecord { id, size, role, units: vdev.units, state: MemberState::InUse })
        });
        let records: Vec<_> = records.collect();
        let change: ChangeOfLabel = Box::new(move |label| {
            records.into_iter().for_each(|(member, record)| put(label, member, record));
            label.vdevs.push(vdev);
            label.runs.push(run);
        });
        self.join(comers.iter().map(Comer::joining).collect(), Some(change)).await?;
        self.has_grown().await;
        Ok(())
    }

    /// The number and the shape of a vdev that can be added.
    ///
    /// # Errors
    /// [`MemberError`].
    pub(crate) fn plan_add(&self, spec: &VdevSpec) -> Result<(usize, Vdev), MemberError> {
        let label = self.label.get();
        let at = label.vdevs.len();
        let too_many = |what, count, most| PoolCreateError::TooMany { what, count, most };
        if at >= MAX_VDEVS {
            return Err(too_many("vdevs", at + 1, MAX_VDEVS).into());
        }
        let last = numbers(&label, spec.sizes.len()).last().map_or(0, |&number| usize::from(number) + 1);
        if last > MAX_MEMBERS {
            return Err(too_many("devices", last, MAX_MEMBERS).into());
        }
        let vdev = plan_vdev(at, spec, None, 16)?;
        let have = u64::from(label.segments()) + u64::from(vdev.units);
        if have > MOST_SEGMENTS.into() {
            return Err(PoolCreateError::Segments { have }.into());
        }
        let vdevs: Vec<Vdev> = label.vdevs.iter().copied().chain([vdev]).collect();
        match too_fine(&vdevs, have as u32) {
            Some((need, most)) => Err(PoolCreateError::TooFine { units: have as u32, need, most }.into()),
            None => Ok((at, vdev)),
        }
    }

    /// Has the table say of segments to come that they are free.
    async fn announce(self: &Rc<Self>, run: Run, vdev: Vdev) -> Result<(), MemberError> {
        let turn = self.checkpoints.turn().await;
        let segments = self.space.borrow_mut().announce(&run, &vdev);
        self.checkpoints.table.borrow_mut().grows(segments);
        Ok(self.checkpoint_in(&turn, Why::Due).await?)
    }

    /// Gives a vdev one member more: a vdev of rows is wider from then on, one of copies has one copy more.
    ///
    /// # Errors
    /// [`MemberError`]; the vdev is as before.
    pub(crate) async fn attach(self: &Rc<Self>, vdev: usize, device: Replacement) -> Result<(), MemberError> {
        let _change = self.grows()?;
        let size = self.size_of(device.id);
        let (number, role) = self.check_attach(vdev, &device.name, size)?;
        self.refuse_members(core::slice::from_ref(&device))?;
        let comer = Comer { member: number, size, device };
        let _asked = self.prepare_comers(core::slice::from_ref(&comer)).await?;
        // The new member lacks all that one had which left this role for good. That is on record before it is in use.
        self.space.borrow_mut().lacks_since(vdev, role, None);
        self.checkpoint(Why::Due).await?;
        let (units, id, at) = (self.needed(vdev).0, comer.device.uuid, vdev as u16);
        let change: ChangeOfLabel = Box::new(move |label| {
            let (role, state) = (Some((at, role)), MemberState::InUse);
            put(label, number, MemberRecord { id, size, role, units, state });
            let members = label.members.iter().filter(|member| member.role.is_some_and(|(of, _)| of == at));
            let count = members.count() as u16;
            let Some(vdev) = label.vdevs.get_mut(usize::from(at)) else { return };
            vdev.members = count;
            if vdev.kind != VdevKind::Raidz {
                (vdev.kind, vdev.parity) = (VdevKind::Mirror, count.saturating_sub(1) as u8);
            }
        });
        self.join(vec![comer.joining()], Some(change)).await?;
        self.has_copies_of_all();
        self.has_grown().await;
        Ok(())
    }

    /// The number and the role that a vdev's next member gets, if a device of so many bytes can be one.
    ///
    /// # Errors
    /// [`MemberError`].
    pub(crate) fn check_attach(&self, at: usize, name: &str, have: u64) -> Result<(u16, u16), MemberError> {
        self.check_changes()?;
        let label = self.label.get();
        let vdev = label.vdevs.get(at).copied().ok_or_else(|| MemberError::NoVdev(at.to_string()))?;
        self.check_size(at, name, have)?;
        let vacant = label.vacant_of(at as u16).next();
        if let Some(member) = vacant {
            return Ok((member, Role::of(&label, member).index));
        }
        let members = vdev.members + 1;
        let most = most_members(&vdev);
        if members > most {
            return Err(MemberError::Widest { vdev: at, most });
        }
        Ok((number_for(&label)?, vdev.members))
    }

    /// Takes a copy out of a vdev of copies for good, or a spare out of the pool.
    ///
    /// # Errors
    /// [`MemberError`]; the vdev is as before.
    pub(crate) async fn detach(self: &Rc<Self>, member: u16) -> Result<(), MemberError> {
        let _change = self.change(member)?;
        self.check_detach(member)?;
        if self.is_spare(member) {
            return self.remove_spare(member).await;
        }
        if self.is_used(member) {
            self.checkpoint(Why::Due).await?;
            self.check_detach(member)?;
            self.begin_failing(member, Cause::COMMAND)?.await?;
        }
        self.set_state(member, MemberState::Gone).await?;
        self.space.borrow_mut().grown(&self.label.get());
        self.has_copies_of_all();
        // Segments of the log had their shape before. A pool that breaks or stops meanwhile says so itself.
        let _recorded = self.checkpoint(Why::Due).await;
        self.has_copies_of_all();
        self.plan_raise();
        self.see_to_parity();
        Ok(())
    }

    /// Whether a member can leave its vdev for good.
    ///
    /// # Errors
    /// [`MemberError`].
    pub(crate) fn check_detach(&self, member: u16) -> Result<(), MemberError> {
        self.check_changes()?;
        if self.is_spare(member) {
            return Ok(());
        }
        let (label, Role { vdev, .. }) = (self.label.get(), self.role_of(member));
        let of = label.vdevs.get(vdev).ok_or_else(|| MemberError::NoVdev(self.name_of(member)))?;
        if of.kind != VdevKind::Mirror {
            return Err(MemberError::NoCopy(self.name_of(member)));
        }
        let copies = usize::from(of.members) - label.vacant_of(vdev as u16).count();
        // One that is out may still have what no other has, and come back with it.
        if copies < 2 || !self.can_lose(&[member]) {
            return Err(MemberError::LastCopy(self.name_of(member)));
        }
        Ok(())
    }

    /// The pool grows, and does so in one way at a time.
    pub(crate) fn grows(&self) -> Result<Change<'_>, MemberError> {
        self.change(WHOLE)
    }

    pub(crate) fn size_of(&self, id: MemberId) -> u64 {
        self.set.io.member_info(id).map_or(0, |info| info.size) & !(BLOCK as u64 - 1)
    }

    /// No device is a member in use, nor given twice.
    pub(crate) fn refuse_members(&self, devices: &[Replacement]) -> Result<(), MemberError> {
        for (n, device) in devices.iter().enumerate() {
            if let Some(other) = self.member_with(device.id) {
                return Err(MemberError::IsMember { device: device.name.clone(), is: self.name_of(other) });
            }
            if let Some(spare) = self.spares.of(device.id) {
                return Err(MemberError::IsSpare { device: device.name.clone(), spare });
            }
            if devices.iter().take(n).any(|other| other.id == device.id) {
                return Err(MemberError::Twice(device.name.clone()));
            }
        }
        Ok(())
    }

    /// Takes away what devices carry, and gives uberblocks their room.
    pub(crate) async fn prepare_comers<'a>(
        &'a self,
        comers: &[Comer],
    ) -> Result<Vec<TakenBack<'a>>, MemberError> {
        self.set.recorded().await?;
        let asked = |comer: &Comer| self.newcomer(&comer.device.name, comer.device.id);
        let asked = comers.iter().map(asked).collect::<Result<_, _>>()?;
        for comer in comers {
            self.clear_labels(comer.member, comer.device.id, comer.size).await?;
        }
        Ok(asked)
    }

    /// Segments of vdevs of copies that were written without a member which is there lack its copy, and those of members that have left have none.
    pub(crate) fn has_copies_of_all(&self) {
        let label = self.label.get();
        self.space.borrow_mut().sheds_copies();
        for member in (0..self.set.members.len()).filter(|&member| self.is_used(member)) {
            let Role { vdev, index } = Role::of(&label, member);
            if vdev < label.vdevs.len() {
                self.space.borrow_mut().lacks_copies(vdev, index);
            }
        }
    }

    /// The log gets segments of what has come; what lacks a copy is resilvered.
    async fn has_grown(self: &Rc<Self>) {
        self.estimate();
        self.room.notify();
        // A pool that breaks or stops meanwhile says so itself.
        let _recorded = self.checkpoint(Why::Due).await;
        // Segments of the log that were written meanwhile had their shape before.
        self.has_copies_of_all();
        self.plan_raise();
        self.see_to_parity();
        self.begin_resilver();
    }
}

/// The most members that a vdev can have: all places of a segment have an address, and all copies but one count as parity.
fn most_members(vdev: &Vdev) -> u16 {
    if vdev.kind != VdevKind::Raidz {
        return u16::from(MAX_PARITY) + 1;
    }
    let by_place = (1u64 << 20) / (1u64 << vdev.unit >> 12).max(1);
    by_place.min(MAX_WIDTH.into()) as u16
}
