//! Devices that a pool gets more of: vdevs, members of vdevs, copies, spares; and copies and spares that leave it.

use std::path::PathBuf;
use std::rc::Rc;

use brindle_format::pool::VdevKind;
use brindle_pool::{Replacement, VdevSpec};

use super::ServedPool;
use super::members::close;
use crate::content::{Content, Host};
use crate::control::NewVdev;
use crate::error::HostError;
use crate::status::PoolFacts;
use crate::world::{Coming, Newcomer};

/// Copies that a mirror can have: a vdev bears the loss of no more than three members.
const MOST_COPIES: usize = brindle_format::pool::place::MAX_PARITY as usize + 1;

impl ServedPool {
    /// Adds a vdev of new devices, or spares.
    pub(super) async fn add(
        &self,
        host: &Rc<dyn Host>,
        kind: NewVdev,
        devices: Vec<PathBuf>,
        force: bool,
    ) -> Result<(), HostError> {
        let spec = |sizes: Vec<u64>| VdevSpec { kind: kind.kind(), parity: kind.parity(sizes.len()), sizes };
        refuse_count(kind, &devices)?;
        // Before a device is opened, and whatever its size is.
        if kind != NewVdev::Spare {
            self.pool().check_add(&spec(vec![1 << 40; devices.len()]))?;
            self.refuse_weaker(kind, devices.len(), force)?;
        }
        let comers = self.open_all(host, devices, force).await?;
        let added = async {
            let sizes: Vec<u64> = comers.iter().map(|(comer, _)| size_of(host, comer)).collect();
            if kind == NewVdev::Spare {
                return self.add_spares(&comers, &sizes).await;
            }
            self.pool().check_add(&spec(sizes))?;
            let devices: Vec<Replacement> = comers.iter().map(|(_, device)| device.clone()).collect();
            Ok(self.pool().add(kind.kind(), kind.parity(devices.len()), devices).await?)
        };
        let added = added.await;
        self.take_in(host, comers).await;
        added
    }

    async fn add_spares(&self, comers: &[(Newcomer, Replacement)], sizes: &[u64]) -> Result<(), HostError> {
        for ((comer, _), &size) in comers.iter().zip(sizes) {
            self.pool().check_spare(&comer.label, size)?;
        }
        for (_, device) in comers {
            self.pool().add_spare(device.clone()).await?;
        }
        Ok(())
    }

    /// Gives a vdev one member more.
    pub(super) async fn attach(
        &self,
        host: &Rc<dyn Host>,
        to: &str,
        device: PathBuf,
        force: bool,
    ) -> Result<(), HostError> {
        let vdev = self.vdev(to)?;
        self.refuse_fifth_copy(vdev)?;
        self.pool().check_attach(vdev, &device.display().to_string(), u64::MAX >> 8)?;
        let comers = self.open_all(host, vec![device], force).await?;
        let mut attached = Ok(());
        for (comer, device) in &comers {
            let size = size_of(host, comer);
            attached = match self.pool().check_attach(vdev, &comer.label, size) {
                Ok(()) => self.pool().attach(vdev, device.clone()).await,
                refused => refused,
            };
        }
        self.take_in(host, comers).await;
        Ok(attached?)
    }

    /// Takes a copy, or a spare, out of the pool for good.
    pub(super) async fn detach(&self, host: &Rc<dyn Host>, member: &str) -> Result<(), HostError> {
        let number = self.known_member(member)?;
        self.refuse_replaced(number)?;
        self.pool().detach(number).await?;
        let name = self.members.borrow_mut().get_mut(usize::from(number)).and_then(Option::take);
        self.close_unused(host, &[name.as_deref().map(std::path::Path::new)]).await;
        Ok(())
    }

    /// The vdev of that name, as `raidz1-0`, or of that member.
    fn vdev(&self, name: &str) -> Result<usize, HostError> {
        let label = self.pool().label();
        let is_named = |vdev: &usize| format!("{}-{vdev}", PoolFacts::kind_of(&label, *vdev)) == name;
        if let Some(vdev) = (0..label.vdevs.len()).find(is_named) {
            return Ok(vdev);
        }
        let number = self.member(name).ok_or_else(|| self.no_vdev(name))?;
        self.refuse_spare(number)?;
        Ok(self.pool().status().members.get(usize::from(number)).map_or(usize::MAX, |one| one.role.vdev))
    }

    fn no_vdev(&self, name: &str) -> HostError {
        let label = self.pool().label();
        let of = |vdev: usize| format!("{}-{vdev}", PoolFacts::kind_of(&label, vdev));
        let vdevs = (0..label.vdevs.len()).map(of).filter(|name| !name.starts_with("plain"));
        let known = vdevs.chain(self.members.borrow().iter().flatten().cloned()).collect();
        HostError::NoMember { member: name.to_owned(), array: self.name().to_owned(), known }
    }

    /// A config has no word for a mirror that bears the loss of more than three.
    fn refuse_fifth_copy(&self, vdev: usize) -> Result<(), HostError> {
        let label = self.pool().label();
        let Some(of) = label.vdevs.get(vdev) else { return Ok(()) };
        let copies = usize::from(of.members).saturating_sub(label.vacant_of(vdev as u16).count());
        if of.kind == VdevKind::Raidz || copies < MOST_COPIES {
            return Ok(());
        }
        let why =
            format!("it has {copies} copies, as many as a mirror can have: detach one, or add another vdev");
        Err(HostError::Refused { name: format!("mirror-{vdev}"), why })
    }

    /// A pool bears no more than the vdev does that bears least. A device that stands for itself is asked for by that name.
    fn refuse_weaker(&self, kind: NewVdev, count: usize, force: bool) -> Result<(), HostError> {
        let label = self.pool().label();
        let least = label.vdevs.iter().map(|vdev| vdev.parity).min().unwrap_or(0);
        let parity = kind.parity(count);
        if force || kind == NewVdev::Plain || parity >= least {
            return Ok(());
        }
        let why = format!(
            "it bears the loss of {parity} members, and each vdev of the pool that of {least}: volumes are striped over all of them, and it \
             would take all with it; choose one that bears as much, or --force"
        );
        Err(HostError::Refused { name: format!("a vdev of kind {}", kind.name()), why })
    }

    /// Opens new devices, which carry nothing that may not be lost. After an error none of them is open.
    async fn open_all(
        &self,
        host: &Rc<dyn Host>,
        paths: Vec<PathBuf>,
        force: bool,
    ) -> Result<Vec<(Newcomer, Replacement)>, HostError> {
        let mut comers: Vec<(Newcomer, Replacement)> = Vec::new();
        refuse_twice(&paths)?;
        for path in paths {
            let opened = match self.open(host, path, Coming { force, re_add: false }).await {
                Ok(comer) => match self.refuse_member_of_array(host, &comer, force).await {
                    Ok(device) => Ok((comer, device)),
                    Err(why) => {
                        close(host, vec![comer.id]).await;
                        Err(why)
                    }
                },
                Err(why) => Err(why),
            };
            match opened {
                Ok(comer) => comers.push(comer),
                Err(why) => {
                    close(host, comers.iter().map(|(comer, _)| comer.id).collect()).await;
                    return Err(why);
                }
            }
        }
        Ok(comers)
    }

    /// Devices that are members now have their names; all others are closed.
    async fn take_in(&self, host: &Rc<dyn Host>, comers: Vec<(Newcomer, Replacement)>) {
        let status = self.pool().status();
        self.members.borrow_mut().resize(status.members.len(), None);
        let mut unused = Vec::new();
        for (comer, _) in comers {
            match status.members.iter().position(|member| member.device == Some(comer.id)) {
                Some(number) => {
                    self.devices.borrow_mut().push((comer.label.clone(), comer.id));
                    let _before = self.has(number as u16, &comer);
                }
                None => unused.push(comer.id),
            }
        }
        if !unused.is_empty() {
            close(host, unused).await;
        }
    }

    /// Members have the names of the devices that they have now: a spare may have taken a role.
    pub(super) fn name_members(&self) {
        let status = self.pool().status();
        let (devices, mut members) = (self.devices.borrow(), self.members.borrow_mut());
        members.resize(status.members.len(), None);
        for (name, member) in members.iter_mut().zip(&status.members) {
            match member.device {
                Some(id) => {
                    if let Some((label, _)) = devices.iter().find(|(_, own)| *own == id) {
                        let before = name.replace(label.clone()).filter(|before| before != label);
                        if let Some(before) = before.filter(|_| !member.is_spare) {
                            tracing::warn!("{}: {label} has the place of {before} now", self.name());
                        }
                    }
                }
                None if member.is_gone => *name = None,
                None => {}
            }
        }
    }
}

fn refuse_twice(paths: &[PathBuf]) -> Result<(), HostError> {
    let mut again =
        paths.iter().enumerate().filter(|(n, path)| paths.iter().take(*n).any(|other| other == *path));
    let Some((_, path)) = again.next() else { return Ok(()) };
    let why = "it is named twice: name each device once".to_owned();
    Err(HostError::Refused { name: path.display().to_string(), why })
}

fn refuse_count(kind: NewVdev, devices: &[PathBuf]) -> Result<(), HostError> {
    let why = match (kind, devices.len()) {
        (_, 0) => "it has no devices: name them behind it".to_owned(),
        (NewVdev::Mirror, count) if count > MOST_COPIES => {
            format!(
                "it has {count} devices, and a mirror can have {MOST_COPIES}: name fewer, or give several mirrors"
            )
        }
        _ => return Ok(()),
    };
    Err(HostError::Refused { name: format!("a vdev of kind {}", kind.name()), why })
}

fn size_of(host: &Rc<dyn Host>, comer: &Newcomer) -> u64 {
    host.io().member_info(comer.id).map_or(0, |info| info.size)
}

impl NewVdev {
    fn kind(self) -> VdevKind {
        match self {
            Self::Raidz1 | Self::Raidz2 | Self::Raidz3 => VdevKind::Raidz,
            Self::Mirror => VdevKind::Mirror,
            Self::Plain | Self::Spare => VdevKind::Plain,
        }
    }

    /// Members that it may lose, of so many.
    fn parity(self, count: usize) -> u8 {
        match self {
            Self::Raidz1 => 1,
            Self::Raidz2 => 2,
            Self::Raidz3 => 3,
            // One copy alone is none.
            Self::Mirror => count.saturating_sub(1).clamp(1, MOST_COPIES - 1) as u8,
            Self::Plain | Self::Spare => 0,
        }
    }
}
