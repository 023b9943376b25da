//! Members that leave a running pool by order, come back, or are replaced.
//!
//! One that comes back has all that was stable when its own youngest uberblock was written. What it lacks lies in segments with its bit: those
//! that were written since, before they avoided it, and those of pages. They get its bit of `missing`, in a table that is on record before the
//! member is in use, and are resilvered. One that takes another's place lacks all, but what was copied to it while the other was in use.

use core::cmp::Ordering;
use std::rc::Rc;

use brindle_format::pool::{
    BLOCK, DATA_START, LABEL, Label, MAX_GENERATION, MemberRecord, MemberState, Run, second_label, units_of,
};
use brindle_io::{MemberId, OpClass};
use brindle_members::events::Cause;
use brindle_members::members::Device;
use brindle_members::set::Owner as _;
use brindle_volume::VolumeError;
use thiserror::Error;
use uuid::Uuid;

use crate::core::Core;
use crate::events::PoolEvent;
use crate::opening::create::PoolCreateError;
use crate::opening::look::{LABEL_PATIENCE, Looked, PoolOpenError, look};
use crate::record::join::{ChangeOfLabel, Joining};
use crate::role::Role;
use crate::upkeep::checkpoint::Why;

/// Bytes at either end of a device that are cleared before it is a member: labels of pools, ZFS's too, superblocks and tables of partitions stand there,
const ENDS: u64 = 512 << 10;
/// and bytes that are cleared at a time.
const CLEARED: usize = 64 << 10;

/// Why a member was not taken out, taken back or replaced.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MemberError {
    /// It is in use.
    #[error(
        "member {0} is in use: only one that is offline or has failed comes back; `brindle pool replace` gives its role to another device"
    )]
    InUse(String),
    /// It is not in use.
    #[error("member {0} is not in use: bring it back by `brindle pool online`, or replace it")]
    NotInUse(String),
    /// The pool can't do without it.
    #[error(
        "the pool can't do without member {0} now: wait until others that are out or resilvered are whole, then try again"
    )]
    Needed(String),
    /// Another change of it is under way.
    #[error(
        "member {0} is being taken out, brought back or replaced: wait until that is done, then try again"
    )]
    Changing(String),
    /// The pool is growing.
    #[error("the pool is just getting another device: wait until that is done, then try again")]
    Growing,
    /// The device is on its way into the pool, or in it.
    #[error("{0}: it is a member by now, or about to be: `brindle pool status` shows it")]
    Coming(String),
    /// Requests to the device that were given up may still land, upon later ones.
    #[error(
        "{0}: requests that were given up are still under way on it: wait until they end, then try again"
    )]
    Unsettled(String),
    /// The device is none of this pool's.
    #[error("{device}: it is no member of {pool}: replace the member by it, if its content may be lost")]
    Stranger {
        /// The name of the device.
        device: String,
        /// The pool.
        pool: String,
    },
    /// The device is another member than was named.
    #[error("{device}: it is member {is} of the pool, not {named}: name that one")]
    Another {
        /// The name of the device.
        device: String,
        /// The member that it is,
        is: String,
        /// and the one that was named.
        named: String,
    },
    /// It was written to by another server since.
    #[error(
        "{device}: it was written to elsewhere while it was away: replace member {member} by it, if that may be lost"
    )]
    WrittenElsewhere {
        /// The name of the device.
        device: String,
        /// The member.
        member: String,
    },
    /// It is too small.
    #[error("{device}: it has {have} bytes, and a member here needs {need}: choose a larger one")]
    TooSmall {
        /// The name of the device.
        device: String,
        /// Bytes that it has,
        have: u64,
        /// and needs.
        need: u64,
    },
    /// The config was changed as often as it can be.
    #[error(
        "the config of the pool has generation {0}, the last that there can be, and can't be changed any more: copy its volumes into a new pool"
    )]
    Generation(u64),
    /// It has no role.
    #[error(
        "member {0} has no role: it is a spare, or has left the pool; `brindle pool status` shows those that have one"
    )]
    NoRole(u16),
    /// There is no such vdev.
    #[error("the pool has no vdev {0}: `brindle pool status -v` names them")]
    NoVdev(String),
    /// The vdev has as many members as it can have.
    #[error("vdev {vdev} can have {most} members, and has them: add another vdev")]
    Widest {
        /// The vdev,
        vdev: usize,
        /// and how many.
        most: u16,
    },
    /// It is no copy of others.
    #[error(
        "member {0} is no copy of others, and its vdev can't do without it for good: replace it by another device"
    )]
    NoCopy(String),
    /// No other member has all that it has.
    #[error(
        "member {0} has what no other member of its vdev has: attach a device, and wait until that has all"
    )]
    LastCopy(String),
    /// A device is a member already.
    #[error("{device}: it is member {is} of the pool: name another device")]
    IsMember {
        /// The device,
        device: String,
        /// and the member that it is.
        is: String,
    },
    /// A device is a spare already.
    #[error(
        "{device}: it is spare {spare} of the pool, and takes a role by itself: name another device, or detach it first"
    )]
    IsSpare {
        /// The device,
        device: String,
        /// and the number of the spare.
        spare: u16,
    },
    /// A device was named twice.
    #[error("{0}: it was named twice: name each device once")]
    Twice(String),
    /// There can be no such vdev.
    #[error(transparent)]
    Vdev(#[from] PoolCreateError),
    /// The device can't be read.
    #[error(transparent)]
    Open(#[from] PoolOpenError),
    /// It could not be recorded.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

/// A device that takes a member's place.
#[derive(Clone, Debug)]
pub struct Replacement {
    /// Its name.
    pub name: String,
    /// The device.
    pub id: MemberId,
    /// Its identity as a member.
    pub uuid: Uuid,
}

/// A device that was out of use may be asked again, and comes into use in one way alone. Once this is dropped it is left alone as before, unless it
/// is a member's by then.
pub(crate) struct TakenBack<'a>(&'a Core, MemberId);

impl<'a> TakenBack<'a> {
    fn new(core: &'a Core, name: &str, id: MemberId) -> Result<Self, MemberError> {
        if core.coming.borrow().contains(&id) {
            return Err(MemberError::Coming(name.to_owned()));
        }
        if !core.set.io.take_back(id) {
            return Err(MemberError::Unsettled(name.to_owned()));
        }
        core.coming.borrow_mut().push(id);
        Ok(Self(core, id))
    }
}

impl Drop for TakenBack<'_> {
    fn drop(&mut self) {
        let Self(core, id) = self;
        core.coming.borrow_mut().retain(|other| other != id);
        if core.member_with(*id).is_none() {
            core.set.io.forsake(*id);
        }
    }
}

/// A member is taken out, brought back or replaced, as long as this lives.
pub(crate) struct Change<'a>(&'a Core, u16);

impl Drop for Change<'_> {
    fn drop(&mut self) {
        self.0.changing.borrow_mut().retain(|member| *member != self.1);
    }
}

impl Core {
    /// Changes of one member don't overlap: of that which one says it lacks another would know nothing.
    pub(super) fn change(&self, member: u16) -> Result<Change<'_>, MemberError> {
        let mut changing = self.changing.borrow_mut();
        if changing.contains(&member) {
            let is_known = self.record_of(member).is_some();
            return Err(match is_known {
                true => MemberError::Changing(self.name_of(member)),
                false => MemberError::Growing,
            });
        }
        changing.push(member);
        Ok(Change(self, member))
    }

    pub(super) fn name_of(&self, member: u16) -> String {
        self.role_of(member).to_string()
    }

    /// A device that is to be a member, and is none by now.
    pub(super) fn newcomer(&self, name: &str, id: MemberId) -> Result<TakenBack<'_>, MemberError> {
        match self.member_with(id) {
            Some(_) => Err(MemberError::Coming(name.to_owned())),
            None => TakenBack::new(self, name, id),
        }
    }

    /// The member in use that a device is.
    pub(super) fn member_with(&self, id: MemberId) -> Option<u16> {
        let has_it = |&member: &u16| self.set.members.writable(member).is_some_and(|device| device.id == id);
        (0..self.set.members.len()).find(has_it)
    }

    pub(super) fn is_used(&self, member: u16) -> bool {
        self.set.members.writable(member).is_some()
    }

    fn record_of(&self, member: u16) -> Option<MemberRecord> {
        self.label.get().members.get(usize::from(member)).copied()
    }

    pub(crate) fn check_changes(&self) -> Result<(), MemberError> {
        match self.label.get().generation {
            _ if self.read_only => Err(VolumeError::ReadOnly.into()),
            generation @ MAX_GENERATION.. => Err(MemberError::Generation(generation)),
            _ => Ok(()),
        }
    }

    /// Whether a member can be taken out.
    ///
    /// # Errors
    /// [`MemberError`].
    pub(crate) fn check_offline(&self, member: u16) -> Result<(), MemberError> {
        self.check_changes()?;
        self.check_role(member)?;
        if !self.is_used(member) {
            return Err(MemberError::NotInUse(self.name_of(member)));
        }
        if !self.can_lose(&[member]) {
            return Err(MemberError::Needed(self.name_of(member)));
        }
        Ok(())
    }

    /// A spare has no role, nor has a member that left.
    fn check_role(&self, member: u16) -> Result<(), MemberError> {
        match self
            .record_of(member)
            .filter(|record| record.state != MemberState::Gone)
            .and_then(|record| record.role)
        {
            Some(_) => Ok(()),
            None => Err(MemberError::NoRole(member)),
        }
    }

    /// Takes a member out until it is brought back: the config says so. First it is out of use, on record: a cut before the config says it leaves one
    /// that comes back by itself.
    ///
    /// # Errors
    /// [`MemberError`]; it is in use as before, or out of use as one that failed.
    pub(crate) async fn offline(self: &Rc<Self>, member: u16) -> Result<(), MemberError> {
        let _change = self.change(member)?;
        self.check_offline(member)?;
        // All that stands by then it has when it comes back.
        self.checkpoint(Why::Due).await?;
        self.check_offline(member)?;
        self.begin_failing(member, Cause::COMMAND)?.await?;
        self.set_state(member, MemberState::Offline).await?;
        self.plan_raise();
        Ok(())
    }

    pub(super) async fn set_state(&self, member: u16, state: MemberState) -> Result<(), VolumeError> {
        let change = move |label: &mut Label| {
            if let Some(record) = label.members.get_mut(usize::from(member)) {
                record.state = state;
            }
        };
        self.change_config(change).await
    }

    /// Takes a member into use again that is out of it, by a device of its own; the one that the device says, if none is named.
    ///
    /// # Errors
    /// [`MemberError`]; it is out of use as before.
    pub(crate) async fn online(
        self: &Rc<Self>,
        member: Option<u16>,
        name: &str,
        id: MemberId,
    ) -> Result<u16, MemberError> {
        self.check_changes()?;
        self.set.recorded().await?;
        let _asked = TakenBack::new(self, name, id)?;
        let looked = look(&self.set.io, name, id).await?;
        let member = member.unwrap_or(looked.label.member);
        let _change = self.change(member)?;
        let since = self.check_returning(member, &looked)?;
        let Role { vdev, index } = self.role_of(member);
        self.space.borrow_mut().lacks_since(vdev, index, since);
        self.checkpoint(Why::Due).await?;
        let state = self.record_of(member).map(|record| record.state);
        let change = (state == Some(MemberState::Offline)).then(|| -> ChangeOfLabel {
            Box::new(move |label: &mut Label| {
                if let Some(record) = label.members.get_mut(usize::from(member)) {
                    record.state = MemberState::InUse;
                }
            })
        });
        let size = self.record_of(member).map_or(0, |record| record.size);
        let places = [LABEL, second_label(size)].map(|at| free_place(&looked, at));
        let device = Device { id, data_offset: DATA_START };
        self.join(vec![Joining { member, device, places }], change).await?;
        self.has_joined(member, PoolEvent::MemberReturned);
        Ok(member)
    }

    /// The batch up to which a member has all, if it may come back by this device; nothing if it has nothing.
    fn check_returning(&self, member: u16, looked: &Looked) -> Result<Option<u64>, MemberError> {
        let (device, label) = (looked.name.clone(), self.label.get());
        let is = looked.label.member;
        let own = |label: &Label| label.members.get(usize::from(is)).map(|record| record.id);
        let is_gone = self
            .record_of(is)
            .is_none_or(|record| record.role.is_none() || record.state == MemberState::Gone);
        if looked.label.pool != label.pool || own(&looked.label) != own(&label) || is_gone {
            return Err(MemberError::Stranger { device, pool: label.name.clone() });
        }
        if is != member {
            let (is, named) = (self.name_of(is), self.name_of(member));
            return Err(MemberError::Another { device, is, named });
        }
        if self.is_used(member) {
            return Err(MemberError::InUse(self.name_of(member)));
        }
        let (head, need) = (self.record.last.borrow(), label.members[usize::from(member)].size);
        if looked.size < need {
            return Err(MemberError::TooSmall { device, have: looked.size, need });
        }
        match &looked.head {
            None => Ok(None),
            Some(own) if head.is_out(member) && head.descends_from(own) => Ok(Some(own.sequence)),
            Some(_) => Err(MemberError::WrittenElsewhere { device, member: self.name_of(member) }),
        }
    }

    /// Units of a member of a vdev, and the bytes that a device needs to be one: its units, and what labels leave.
    pub(super) fn needed(&self, vdev: usize) -> (u32, u64) {
        let label = self.label.get();
        let Some(unit) = label.vdevs.get(vdev).map(|vdev| 1 << vdev.unit) else { return (0, 0) };
        let end = |run: &Run| run.first_unit + run.units;
        let units = label.runs_of(vdev as u16).map(end).max().unwrap_or(0);
        // The room at the end grows with the size.
        let (mut low, mut high) = (0u64, u64::from(units + 2) * unit * 2 + (4 << 20));
        while low + (BLOCK as u64) < high {
            let middle = ((low + high) / 2) & !(BLOCK as u64 - 1);
            match units_of(middle, unit).cmp(&units) {
                Ordering::Less => low = middle,
                Ordering::Equal | Ordering::Greater => high = middle,
            }
        }
        (units, high)
    }

    /// Whether a device of so many bytes can take the place of a member.
    ///
    /// # Errors
    /// [`MemberError`].
    pub(crate) fn check_replace(&self, member: u16, device: &str, have: u64) -> Result<(), MemberError> {
        self.check_changes()?;
        self.check_role(member)?;
        // Between the two the pool does without either.
        if self.is_used(member) && !self.can_lose(&[member]) {
            return Err(MemberError::Needed(self.name_of(member)));
        }
        self.check_size(self.role_of(member).vdev, device, have)
    }

    /// Whether a device of so many bytes can be a member of a vdev.
    ///
    /// # Errors
    /// [`MemberError::TooSmall`].
    pub(crate) fn check_size(&self, vdev: usize, device: &str, have: u64) -> Result<(), MemberError> {
        let (units, need) = self.needed(vdev);
        let unit = self.label.get().vdevs.get(vdev).map_or(1, |vdev| 1 << vdev.unit);
        match units_of(have & !(BLOCK as u64 - 1), unit) < units {
            true => Err(MemberError::TooSmall { device: device.to_owned(), have, need }),
            false => Ok(()),
        }
    }

    /// Gives the role of a member to another device, whatever that holds. A member that is in use is copied before, and is out of use then.
    ///
    /// # Errors
    /// [`MemberError`]; the member has its role as before, in use or not.
    pub(crate) async fn replace(self: &Rc<Self>, member: u16, with: Replacement) -> Result<(), MemberError> {
        let Replacement { name, id, uuid } = with;
        let have = self.set.io.member_info(id).map_or(0, |info| info.size);
        self.check_replace(member, &name, have)?;
        if let Some(spare) = self.spares.of(id) {
            return Err(MemberError::IsSpare { device: name, spare });
        }
        if let Some(other) = self.member_with(id) {
            let (is, named) = (self.name_of(other), self.name_of(member));
            return Err(MemberError::Another { device: name, is, named });
        }
        let _change = self.change(member)?;
        let with = Replacement { name, id, uuid };
        if self.is_used(member) {
            self.replace_by_copy(member, with).await
        } else {
            self.succeed(member, with, None).await
        }
    }

    /// Takes away all that a device has where labels, superblocks and tables of partitions stand: of another pool, of an array, of this pool's
    /// past. Nobody takes it for a part of these any more, and uberblocks have their room.
    pub(super) async fn clear_labels(&self, member: u16, id: MemberId, size: u64) -> Result<(), VolumeError> {
        let io = &self.set.io;
        let buf = self.set.scratch.alloc(CLEARED).await;
        buf.bytes_mut().fill(0);
        for (mut at, end) in [(0, ENDS.min(size)), (size.saturating_sub(ENDS), size)] {
            let mut group = io.group_of(OpClass::Metadata);
            while at < end {
                let len = (end - at).min(CLEARED as u64);
                group.write(id, at, &buf.slice(0..len as usize), true);
                at += len;
            }
            let written = group.submit_by(io.now().after(LABEL_PATIENCE)).await.ok();
            written.map_err(|error| VolumeError::of_member(member, error))?;
        }
        Ok(())
    }

    pub(super) fn has_joined(&self, member: u16, how: PoolEvent) {
        self.happened(how, Some(member), None);
        self.space.borrow_mut().tries_again();
        self.has_copies_of_all();
        self.plan_raise();
        self.see_to_parity();
        self.begin_resilver();
    }
}

/// Of a label of a device, the place that does not hold what its own youngest uberblock names.
fn free_place(looked: &Looked, at: u64) -> usize {
    let named = looked.head.as_ref().map(|own| own.config);
    let rests =
        looked.configs.iter().any(|found| found.at == at && found.place == 0 && Some(found.name) == named);
    usize::from(rests)
}
