//! Members of a pool that leave it by order, come back, or are replaced.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use brindle_io::MemberId;
use brindle_md::assembly::Candidate;
use brindle_members::members::RoleState;
use brindle_pool::{MemberError, Replacement};

use super::ServedPool;
use crate::content::{Content, Host};
use crate::error::HostError;
use crate::world::{Coming, Newcomer, Terms};

/// Bytes of memory for a look at superblocks.
const LOOK: usize = 1 << 20;

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
        let found = (0..members.len()).find(named).or_else(called).or_else(file).or_else(number);
        found.map(|at| at as u16)
    }

    pub(super) fn known_member(&self, name: &str) -> Result<u16, HostError> {
        self.member(name).ok_or_else(|| HostError::NoMember {
            member: name.to_owned(),
            array: self.name().to_owned(),
            known: self.members.borrow().iter().flatten().cloned().collect(),
        })
    }

    /// Takes a member out until it is brought back.
    pub(super) async fn offline(&self, member: &str) -> Result<(), HostError> {
        Ok(self.pool().offline(self.known_member(member)?).await?)
    }

    /// Takes a member into use again: by the device that is named, else by its own. That is opened anew, since a device that went away and came
    /// back is another to the kernel.
    pub(super) async fn online(
        &self,
        host: &dyn Host,
        member: &str,
        device: Option<PathBuf>,
    ) -> Result<(), HostError> {
        let number = self.member(member);
        if let Some(number) = number {
            self.refuse_in_use(number)?;
        }
        let own = number.and_then(|number| self.members.borrow()[usize::from(number)].clone());
        let path = device.or(own.map(PathBuf::from)).unwrap_or_else(|| member.into());
        self.close_unused(host, number, &path).await;
        let newcomer = self.open(host, path, Coming { force: false, re_add: true }).await?;
        match self.pool().online(number, &newcomer.label, newcomer.id).await {
            Ok(number) => self.has(number, newcomer),
            Err(why) => {
                host.devices().close(&[newcomer.id]).await;
                return Err(why.into());
            }
        }
        Ok(())
    }

    /// Gives a member's role to a new device. One that is in use is copied before, in a task of its own.
    pub(super) async fn replace(
        self: &Rc<Self>,
        within: &Rc<dyn Host>,
        member: &str,
        with: PathBuf,
        force: bool,
    ) -> Result<(), HostError> {
        let (host, number) = (&**within, self.known_member(member)?);
        // Before the device is opened, and whatever its size is.
        self.pool().check_replace(number, &with.display().to_string(), u64::MAX >> 8)?;
        let newcomer = self.open(host, with, Coming { force, re_add: false }).await?;
        let with = match self.successor(host, number, &newcomer, force).await {
            Ok(with) => with,
            Err(why) => {
                host.devices().close(&[newcomer.id]).await;
                return Err(why);
            }
        };
        if self.refuse_in_use(number).is_ok() {
            return self.replace_by(host, number, newcomer, with).await;
        }
        let (this, within) = (Rc::clone(self), Rc::clone(within));
        drop(host.io().spawn(async move {
            // The pool has told it as an event.
            let _told = this.replace_by(&*within, number, newcomer, with).await;
            within.publish();
        }));
        Ok(())
    }

    async fn replace_by(
        &self,
        host: &dyn Host,
        number: u16,
        newcomer: Newcomer,
        with: Replacement,
    ) -> Result<(), HostError> {
        let (label, id) = (newcomer.label.clone(), newcomer.id);
        // The device counts as taken from now on.
        self.devices.borrow_mut().push((label, id));
        if let Err(why) = self.pool().replace(number, with).await {
            self.devices.borrow_mut().retain(|(_, own)| *own != id);
            host.devices().close(&[id]).await;
            return Err(why.into());
        }
        self.close_unused(host, Some(number), Path::new("")).await;
        if let Some(name) = self.members.borrow_mut().get_mut(usize::from(number)) {
            *name = Some(newcomer.label);
        }
        Ok(())
    }

    /// The device as the pool is told of it. It has been looked at by itself, and carries nothing that may not be lost.
    async fn successor(
        &self,
        host: &dyn Host,
        number: u16,
        newcomer: &Newcomer,
        force: bool,
    ) -> Result<Replacement, HostError> {
        let Newcomer { label, id, .. } = newcomer;
        // Devices let members of arrays pass, which arrays judge themselves.
        let found = Candidate::read(host.io(), &host.io().pool(LOOK), *id, label.as_str()).await;
        if !force && found.is_ok_and(|candidate| candidate.superblock().is_ok()) {
            let why = "it is a member of an array; --force overwrites it".to_owned();
            return Err(HostError::Refused { name: label.clone(), why });
        }
        let have = host.io().member_info(*id).map_or(0, |info| info.size);
        self.pool().check_replace(number, label, have)?;
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

    async fn open(&self, host: &dyn Host, path: PathBuf, coming: Coming) -> Result<Newcomer, HostError> {
        let terms = Terms { known: host.known(), coming };
        let mut opened = host.devices().open(vec![path.into()], terms).await?;
        let newcomer = opened.pop().ok_or_else(|| HostError::Stopped(self.name().to_owned()))?;
        if !host.has(self) {
            host.devices().close(&[newcomer.id]).await;
            return Err(HostError::Stopped(self.name().to_owned()));
        }
        Ok(newcomer)
    }

    /// Closes devices that the pool does not use: that of a member which is out, and one that was opened under a name.
    async fn close_unused(&self, host: &dyn Host, number: Option<u16>, path: &Path) {
        let used: Vec<MemberId> = self.used().collect();
        let name = number.and_then(|number| self.members.borrow()[usize::from(number)].clone());
        let is_unused = |(label, id): &(String, MemberId)| {
            !used.contains(id) && (Some(label) == name.as_ref() || Path::new(label) == path)
        };
        let gone: Vec<MemberId> =
            self.devices.borrow().iter().filter(|device| is_unused(device)).map(|(_, id)| *id).collect();
        if !gone.is_empty() {
            self.devices.borrow_mut().retain(|(_, id)| !gone.contains(id));
            host.devices().close(&gone).await;
        }
    }

    /// Devices of members in use.
    fn used(&self) -> impl Iterator<Item = MemberId> + use<> {
        let in_use = |member: brindle_pool::PoolMember| {
            member.device.filter(|_| matches!(member.state, RoleState::InSync | RoleState::Recovering(_)))
        };
        self.pool().status().members.into_iter().filter_map(in_use)
    }

    /// A member has that device from now on.
    fn has(&self, number: u16, newcomer: Newcomer) {
        let Newcomer { label, id, .. } = newcomer;
        if let Some(name) = self.members.borrow_mut().get_mut(usize::from(number)) {
            *name = Some(label.clone());
        }
        self.devices.borrow_mut().push((label, id));
    }
}
