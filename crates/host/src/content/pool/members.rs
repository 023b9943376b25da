//! Members of a pool that leave it by order, come back, or are replaced.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use brindle_io::sync::{Either, race};
use brindle_io::{Duration, MemberId};
use brindle_md::assembly::Candidate;
use brindle_members::members::RoleState;
use brindle_pool::{MemberError, PoolMember, Replacement};

use super::ServedPool;
use crate::content::{Content, Host};
use crate::control::Author;
use crate::error::HostError;
use crate::world::{Coming, Newcomer, Terms};

/// Bytes of memory for a look at superblocks.
const LOOK: usize = 1 << 20;

/// Time in which a device is opened, looked at or closed. Other changes of the pool wait meanwhile.
const DEVICE_PATIENCE: Duration = Duration::from_secs(20);

/// A member that a device is to take the place of, until it has.
pub(super) struct Replacing {
    member: u16,
    /// The device,
    device: MemberId,
    /// and its name.
    label: String,
}

impl ServedPool {
    /// The number of the member that was named so, or is called `VDEV.ROLE`, or has that number.
    pub(super) fn member(&self, name: &str) -> Option<u16> {
        let members = self.members.borrow();
        let named = |at: &usize| members[*at].as_deref() == Some(name);
        let status = self.pool().status();
        let called = || status.members.iter().position(|m| m.role.to_string() == name);
        let file = || {
            let same = |member: &Option<String>| {
                let member = member.as_ref()?;
                let path = self.placed.folder.as_ref().map(|folder| folder.join(member))?;
                Some(path == Path::new(name))
            };
            members.iter().position(|member| same(member) == Some(true))
        };
        let number = || name.parse().ok().filter(|number| *number < members.len());
        // A successor has a number of its own until it takes the role of the other.
        let succeeding = || {
            let replacing = self.replacing.borrow();
            let device = replacing.iter().find(|one| one.label == name)?.device;
            status.members.iter().position(|member| member.device == Some(device))
        };
        let found =
            (0..members.len()).find(named).or_else(called).or_else(file).or_else(number).or_else(succeeding);
        // Numbers of those that left for good mean nobody.
        let is_here = |at: &usize| !status.members.get(*at).is_some_and(|member| member.is_gone);
        found.filter(is_here).map(|at| at as u16)
    }

    pub(super) fn known_member(&self, name: &str) -> Result<u16, HostError> {
        self.member(name).ok_or_else(|| self.no_member(name))
    }

    fn no_member(&self, name: &str) -> HostError {
        HostError::NoMember {
            member: name.to_owned(),
            array: self.name().to_owned(),
            known: self.members.borrow().iter().flatten().cloned().collect(),
        }
    }

    /// The name of a member's device now.
    pub(super) fn name_of(&self, member: u16) -> Option<String> {
        self.members.borrow().get(usize::from(member)).cloned().flatten()
    }

    /// Names of devices that are to take members' places, by the numbers of these: by an order of now, or by one of before the pool was opened.
    pub(super) fn successors(&self) -> Vec<(u16, String)> {
        let replacing = self.replacing.borrow();
        let now: Vec<(u16, String)> = replacing.iter().map(|one| (one.member, one.label.clone())).collect();
        let members = self.pool().status().members;
        let of = |(number, member): (u16, &PoolMember)| {
            let replaced = member.succeeds.filter(|_| member.device.is_some())?;
            let is_of_now = now.iter().any(|(of, _)| *of == replaced);
            (!is_of_now).then(|| (replaced, self.name_of(number).unwrap_or_else(|| number.to_string())))
        };
        let before: Vec<(u16, String)> = (0..).zip(&members).filter_map(of).collect();
        now.into_iter().chain(before).collect()
    }

    /// Takes a member out until it is brought back.
    pub(super) async fn offline(&self, member: &str) -> Result<(), HostError> {
        let number = self.known_member(member)?;
        self.refuse_spare(number)?;
        self.refuse_replaced(number)?;
        Ok(self.pool().offline(number).await?)
    }

    /// Takes a member into use again: by the device that is named, else by its own. That is opened anew, since a device that went away and came
    /// back is another to the kernel.
    pub(super) async fn online(
        &self,
        host: &Rc<dyn Host>,
        member: &str,
        device: Option<PathBuf>,
    ) -> Result<(), HostError> {
        let number = self.member(member);
        if let Some(number) = number {
            self.refuse_spare(number)?;
            self.refuse_replaced(number)?;
            self.refuse_in_use(number)?;
        }
        let path = match (device, number) {
            (Some(device), _) => device,
            (None, Some(number)) => self.name_of(number).ok_or_else(|| self.no_device(number))?.into(),
            (None, None) if Path::new(member).is_absolute() => member.into(),
            (None, None) => return Err(self.no_member(member)),
        };
        let own = number.and_then(|number| self.name_of(number));
        self.close_unused(host, &[own.as_deref().map(Path::new), Some(&path)]).await;
        let newcomer = self.open(host, path, Coming { force: false, re_add: true }).await?;
        match self.pool().online(number, &newcomer.label, newcomer.id).await {
            Ok(number) => {
                self.devices.borrow_mut().push((newcomer.label.clone(), newcomer.id));
                let _before = self.has(number, &newcomer);
                Ok(())
            }
            Err(why) => {
                close(host, vec![newcomer.id]).await;
                Err(why.into())
            }
        }
    }

    /// Gives a member's role to a new device. One that is in use is copied before, in a task of its own, which takes `by` with it: it is in
    /// history when it has come to its end.
    pub(super) async fn replace(
        self: &Rc<Self>,
        host: &Rc<dyn Host>,
        (member, with, force): (&str, PathBuf, bool),
        by: &mut Option<Author>,
    ) -> Result<(), HostError> {
        let number = self.known_member(member)?;
        self.refuse_spare(number)?;
        self.refuse_replaced(number)?;
        // Before the device is opened, and whatever its size is.
        self.pool().check_replace(number, &with.display().to_string(), u64::MAX >> 8)?;
        let newcomer = self.open(host, with, Coming { force, re_add: false }).await?;
        let with = match self.successor(host, number, &newcomer, force).await {
            Ok(with) => with,
            Err(why) => {
                close(host, vec![newcomer.id]).await;
                return Err(why);
            }
        };
        // The device counts as taken from now on.
        let (label, device) = (newcomer.label.clone(), newcomer.id);
        self.devices.borrow_mut().push((label.clone(), device));
        self.replacing.borrow_mut().push(Replacing { member: number, device, label });
        if self.refuse_in_use(number).is_ok() {
            return self.replace_by(host, number, newcomer, with).await;
        }
        let (this, within, by) = (Rc::clone(self), Rc::clone(host), by.take());
        drop(host.io().spawn(async move {
            let label = newcomer.label.clone();
            match this.replace_by(&within, number, newcomer, with).await {
                Ok(()) => drop(by.map(|by| this.note(&by))),
                Err(why) if this.stop.has_begun() => {
                    tracing::info!("{}: {label} has not replaced a member: {why}", this.name());
                }
                Err(why) => tracing::error!("{}: {label} has not replaced a member: {why}", this.name()),
            }
            within.publish();
        }));
        Ok(())
    }

    async fn replace_by(
        &self,
        host: &Rc<dyn Host>,
        number: u16,
        newcomer: Newcomer,
        with: Replacement,
    ) -> Result<(), HostError> {
        let id = newcomer.id;
        let replaced = self.pool().replace(number, with).await;
        self.replacing.borrow_mut().retain(|one| one.device != id);
        match replaced {
            Ok(()) => {
                // Before anything is waited for: an event that follows is told with the new name.
                let before = self.has(number, &newcomer);
                self.close_unused(host, &[before.as_deref().map(Path::new)]).await;
                Ok(())
            }
            Err(why) => {
                self.devices.borrow_mut().retain(|(_, own)| *own != id);
                close(host, vec![id]).await;
                Err(why.into())
            }
        }
    }

    /// The device as the pool is told of it. It has been looked at by itself, and carries nothing that may not be lost.
    async fn successor(
        &self,
        host: &Rc<dyn Host>,
        number: u16,
        newcomer: &Newcomer,
        force: bool,
    ) -> Result<Replacement, HostError> {
        let with = self.refuse_member_of_array(host, newcomer, force).await?;
        let have = host.io().member_info(newcomer.id).map_or(0, |info| info.size);
        self.pool().check_replace(number, &newcomer.label, have)?;
        Ok(with)
    }

    /// A device as the pool is told of it, if it is no member of an array that may not be lost.
    pub(super) async fn refuse_member_of_array(
        &self,
        host: &Rc<dyn Host>,
        newcomer: &Newcomer,
        force: bool,
    ) -> Result<Replacement, HostError> {
        let Newcomer { label, id, .. } = newcomer;
        // Devices let members of arrays pass, which arrays judge themselves.
        let (io, device, name) = (host.io().clone(), *id, label.clone());
        let look = host.io().spawn(async move { Candidate::read(&io, &io.pool(LOOK), device, name).await });
        let found = match race(look, host.io().sleep(DEVICE_PATIENCE)).await {
            Either::First(found) => found,
            Either::Second(()) => return Err(silent(label)),
        };
        if !force && found.is_ok_and(|candidate| candidate.superblock().is_ok()) {
            let why = "it is a member of an array; --force overwrites it".to_owned();
            return Err(HostError::Refused { name: label.clone(), why });
        }
        Ok(Replacement { name: label.clone(), id: *id, uuid: host.devices().new_uuid()? })
    }

    fn refuse_in_use(&self, number: u16) -> Result<(), HostError> {
        let status = self.pool().status();
        match status.members.get(usize::from(number)) {
            Some(member) if member.state == RoleState::InSync => {
                Err(MemberError::InUse(member.role.to_string()).into())
            }
            _ => Ok(()),
        }
    }

    /// A spare has no role that it could leave, or another take.
    pub(super) fn refuse_spare(&self, number: u16) -> Result<(), HostError> {
        if !self.pool().status().members.get(usize::from(number)).is_some_and(|member| member.is_spare) {
            return Ok(());
        }
        let name = self.name_of(number).unwrap_or_else(|| number.to_string());
        let why = format!(
            "it is a spare, and has no role: `brindle pool detach {} {number}` takes it out of the pool",
            self.name()
        );
        Err(HostError::Refused { name, why })
    }

    /// A member is left alone while a device is to take its place.
    pub(super) fn refuse_replaced(&self, number: u16) -> Result<(), HostError> {
        let successors = self.successors();
        let Some((_, by)) = successors.iter().find(|(member, _)| *member == number) else { return Ok(()) };
        let why = format!(
            "it is being replaced by {by}: `brindle wait` waits for the end of that, and then try again; `brindle pool detach {} {by}` ends it",
            self.name()
        );
        Err(HostError::Refused { name: format!("member {}", self.role_of(number)), why })
    }

    fn no_device(&self, number: u16) -> HostError {
        let role = self.role_of(number);
        let why = format!(
            "it has no device here: name that, as in `brindle pool online {} {role} DEVICE`",
            self.name()
        );
        HostError::Refused { name: format!("member {role}"), why }
    }

    /// `VDEV.ROLE`; the number of a spare.
    pub(super) fn role_of(&self, number: u16) -> String {
        let members = self.pool().status().members;
        let role = members.get(usize::from(number)).filter(|member| !member.is_spare);
        role.map_or_else(|| number.to_string(), |member| member.role.to_string())
    }

    /// Opens a device. One that answers too late is closed then.
    pub(super) async fn open(
        &self,
        host: &Rc<dyn Host>,
        path: PathBuf,
        coming: Coming,
    ) -> Result<Newcomer, HostError> {
        // The pool may have it open for nothing: a member that was lost, and whose place another has.
        self.close_unused(host, &[Some(&path)]).await;
        let terms = Terms { known: host.known(), coming };
        let label = path.display().to_string();
        let opening = host.devices().open(vec![path.into()], terms);
        let (is_late, within) = (Rc::new(Cell::new(false)), Rc::clone(host));
        let late = Rc::clone(&is_late);
        let opened = host.io().spawn(async move {
            let opened = opening.await;
            if let (true, Ok(newcomers)) = (late.get(), &opened) {
                close(&within, newcomers.iter().map(|one| one.id).collect()).await;
            }
            opened
        });
        let mut opened = match race(opened, host.io().sleep(DEVICE_PATIENCE)).await {
            Either::First(opened) => opened?,
            Either::Second(()) => {
                is_late.set(true);
                return Err(silent(&label));
            }
        };
        let newcomer = opened.pop().ok_or_else(|| HostError::Stopped(self.name().to_owned()))?;
        if !host.has(self) {
            close(host, vec![newcomer.id]).await;
            return Err(HostError::Stopped(self.name().to_owned()));
        }
        Ok(newcomer)
    }

    /// Closes devices that the pool does not use, of these names: that of a member which is out, and one that was opened under a name.
    pub(super) async fn close_unused(&self, host: &Rc<dyn Host>, names: &[Option<&Path>]) {
        let used: Vec<MemberId> = self.used();
        let is_unused = |(label, id): &(String, MemberId)| {
            let file = self.placed.folder.as_ref().map(|folder| folder.join(label));
            let is_it = |name: &Option<&Path>| {
                *name == Some(Path::new(label)) || name.is_some() && *name == file.as_deref()
            };
            !used.contains(id) && names.iter().any(is_it)
        };
        let gone: Vec<MemberId> =
            self.devices.borrow().iter().filter(|device| is_unused(device)).map(|(_, id)| *id).collect();
        if !gone.is_empty() {
            self.devices.borrow_mut().retain(|(_, id)| !gone.contains(id));
            close(host, gone).await;
        }
    }

    /// Devices of members in use, and those that are to be.
    fn used(&self) -> Vec<MemberId> {
        let in_use = |member: PoolMember| {
            let is_used = matches!(member.state, RoleState::InSync | RoleState::Recovering(_));
            member.device.filter(|_| is_used || member.is_spare)
        };
        let members = self.pool().status().members.into_iter().filter_map(in_use);
        members.chain(self.replacing.borrow().iter().map(|one| one.device)).collect()
    }

    /// A member has that device from now on, which is done without no more. Gives the name of the one before.
    pub(super) fn has(&self, number: u16, newcomer: &Newcomer) -> Option<String> {
        let Newcomer { label, file, .. } = newcomer;
        let is_it = |path: &str| {
            let path = self.placed.folder.as_ref().map_or_else(|| path.into(), |folder| folder.join(path));
            path == Path::new(label) || Some(&path) == file.as_ref()
        };
        self.left_out.borrow_mut().retain(|one| one.path != *label && !is_it(&one.path));
        self.members.borrow_mut().get_mut(usize::from(number))?.replace(label.clone())
    }
}

/// Closes devices, and waits for that as long as a device may take.
pub(super) async fn close(host: &Rc<dyn Host>, devices: Vec<MemberId>) {
    let closed = host.io().spawn(host.devices().close(&devices));
    let _late = race(closed, host.io().sleep(DEVICE_PATIENCE)).await;
}

fn silent(device: &str) -> HostError {
    HostError::Refused {
        name: device.to_owned(),
        why: "it does not answer: nothing was changed; look at its cables, or choose another".to_owned(),
    }
}
