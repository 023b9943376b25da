//! Adds devices to a served array, and removes them.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use brindle_array::{Array, DeviceState, Joined, Removal};
use brindle_io::MemberId;
use brindle_volume::VolumeError;

use super::ServedArray;
use super::policy::former;
use super::policy::readd::{Again, forget_old};
use crate::answers::{Effects, RequestOutcome};
use crate::content::Host;
use crate::error::HostError;
use crate::status::JoinedStatus;
use crate::world::{Coming, Newcomer, Source, Terms};

/// Stands for all devices that have failed.
pub const FAILED: &str = "failed";
/// Stands for all devices that are not in use, and do not exist any more.
pub const DETACHED: &str = "detached";

/// The part of a device once it was added.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// The array decides.
    Nothing,
    /// Replace this member.
    Replaces(MemberId),
}

/// The devices that are meant: all that have failed, all that are gone, or the one that `find` knows by that name.
pub fn removal(name: &str, find: impl Fn(&str) -> Option<MemberId>) -> Option<Removal> {
    match name {
        FAILED => Some(Removal::Failed),
        DETACHED => Some(Removal::Detached),
        name => find(name).map(Removal::Device),
    }
}

/// Why a member can't be replaced.
pub fn not_replaced(array: &Array, member: MemberId, why: &VolumeError) -> String {
    let detail = array.detail();
    let label = detail.devices.into_iter().find(|device| device.id == member).map(|device| device.label);
    let level = array.geometry().level();
    let why = match why {
        VolumeError::Unsupported if !level.is_redundant() => {
            format!("{} has no redundancy, and nothing is replaced without", level.name())
        }
        VolumeError::Unsupported if !detail.says_replacements && !detail.format.is_empty() => {
            "its metadata (0.90) can't say so".to_owned()
        }
        VolumeError::Unsupported => "another device replaces it already".to_owned(),
        VolumeError::OutOfRange => "a spare is needed for that".to_owned(),
        why => why.to_string(),
    };
    format!("{} can't be replaced: {why}", label.unwrap_or_default())
}

impl ServedArray {
    /// Opens devices and takes them into an array. Those that it has, and does not use, are re-added as they are.
    ///
    /// # Errors
    /// The first that is refused, and which had come before.
    pub async fn add(
        self: &Rc<Self>,
        host: &dyn Host,
        names: Vec<PathBuf>,
        coming: Coming,
    ) -> Result<Effects, HostError> {
        if coming.re_add && former::are_meant(&names) {
            return Ok(self.add_missing(host).await);
        }
        if !coming.re_add {
            let new = names.into_iter().map(Source::Named).collect();
            return self.take(host, new, coming, Vec::new(), Then::Nothing).await;
        }
        let away = self.array().detached().await;
        let (mut known, mut new) = (Vec::new(), Vec::new());
        for name in names {
            match self.own_device(host, &name, &away).await {
                Some(own) => known.push(own),
                None => new.push(Source::Named(name)),
            }
        }
        self.take(host, new, coming, known, Then::Nothing).await
    }

    /// The device of an array that a name leads to, also if the array knows the device by another name. A device that is away does not
    /// count if its name leads to another device now: the disk was pulled, and came back as that.
    async fn own_device(&self, host: &dyn Host, name: &Path, away: &[MemberId]) -> Option<Again> {
        let label = name.display().to_string();
        let own = self.device(&label);
        let now = host.devices().identity(name.to_owned()).await;
        let held = host.devices().known().into_iter().find(|(identity, _)| Some(*identity) == now);
        let held = held.map(|(_, path)| path.display().to_string());
        if let Some((id, label)) = held.and_then(|label| Some((self.device(&label)?, label))) {
            return Some((id, label));
        }
        let is_another = now.is_some() && own.is_some_and(|id| away.contains(&id));
        own.filter(|_| !is_another).map(|id| (id, label))
    }

    /// Takes devices into an array that the caller has opened: a descriptor of each, and the name by which the host is to know it.
    ///
    /// # Errors
    /// The first that is refused, and which had come before.
    pub async fn add_given(
        self: &Rc<Self>,
        host: &dyn Host,
        given: Vec<(PathBuf, OwnedFd)>,
        coming: Coming,
    ) -> Result<Effects, HostError> {
        let sources = given.into_iter().map(|(name, fd)| Source::Given(name, fd)).collect();
        self.take(host, sources, coming, Vec::new(), Then::Nothing).await
    }

    /// Has a spare, or a device that becomes one, replace a member that still works.
    ///
    /// # Errors
    /// The member, or the device, is refused.
    pub async fn replace(
        self: &Rc<Self>,
        host: &dyn Host,
        member: &str,
        with: PathBuf,
        force: bool,
    ) -> Result<Effects, HostError> {
        let engine = self.array();
        let detail = engine.detail();
        let in_sync = |id: &MemberId| {
            detail.devices.iter().any(|device| device.id == *id && device.state == DeviceState::InSync)
        };
        let Some(old) = self.device(member).filter(in_sync) else {
            return Err(HostError::NoneInSync {
                member: member.to_owned(),
                array: self.name().to_owned(),
                known: self.members(),
            });
        };
        let refused = |why: VolumeError| HostError::NotReplaced(not_replaced(engine, old, &why));
        // Before a device becomes a spare for it in vain.
        engine.may_be_replaced(old).map_err(refused)?;
        let Some(spare) = self.device(&with.display().to_string()) else {
            let coming = Coming { force, re_add: false };
            return self.take(host, vec![with.into()], coming, Vec::new(), Then::Replaces(old)).await;
        };
        let begun = engine.replace(old, spare).await;
        host.publish();
        begun.map_err(refused)?;
        Ok(Effects::default())
    }

    /// Looks at devices and takes them into an array; those of its own that are `known` by name come back with them.
    async fn take(
        self: &Rc<Self>,
        host: &dyn Host,
        sources: Vec<Source>,
        coming: Coming,
        known: Vec<Again>,
        then: Then,
    ) -> Result<Effects, HostError> {
        let terms = Terms { known: host.known(), coming };
        let newcomers = host.devices().open(sources, terms).await?;
        if !host.has(&**self) {
            let ids: Vec<MemberId> = newcomers.iter().map(|newcomer| newcomer.id).collect();
            host.devices().close(&ids).await;
            return Err(HostError::Stopped(self.name().to_owned()));
        }
        if coming.re_add {
            return self.take_again_those_named(host, known, newcomers).await;
        }
        let away = self.array().detached().await;
        let (mut reported, mut gone, mut newcomers) = (Vec::new(), Vec::new(), newcomers.into_iter());
        while let Some(newcomer) = newcomers.next() {
            match self.add_to(host, &newcomer, coming.force).await {
                Ok(now) => reported.push(JoinedStatus::of(&newcomer.label, &now)),
                Err(why) => {
                    let left: Vec<MemberId> =
                        [newcomer].into_iter().chain(newcomers).map(|newcomer| newcomer.id).collect();
                    gone.extend(left);
                    host.devices().close(&gone).await;
                    return Err(HostError::NotAdded {
                        why: why.to_string(),
                        added: JoinedStatus::paths(&reported),
                    });
                }
            }
            self.came(&newcomer.label, newcomer.file);
            let role = reported.last().and_then(|joined: &JoinedStatus| joined.role);
            gone.extend(forget_old(self.array(), &newcomer.label, role, &away).await);
            if let Then::Replaces(old) = then
                && let Err(why) = self.array().replace(old, newcomer.id).await
            {
                host.devices().close(&gone).await;
                return Err(HostError::NotReplaced(not_replaced(self.array(), old, &why)));
            }
        }
        host.publish();
        host.devices().close(&gone).await;
        Ok(Effects { joined: Some(reported), ..Effects::default() })
    }

    /// Takes an open device into the array.
    async fn add_to(&self, host: &dyn Host, newcomer: &Newcomer, force: bool) -> Result<Joined, HostError> {
        let uuid = host.devices().new_uuid()?;
        Ok(self.array().add(newcomer.id, &newcomer.label, uuid, force).await?)
    }

    /// Devices of an array that are not in use are none of it any more, and free.
    ///
    /// # Errors
    /// The first that is refused, and which had gone before.
    pub async fn remove(&self, host: &dyn Host, names: &[String]) -> Result<RequestOutcome, HostError> {
        let (mut gone, mut removed, mut refused) = (Vec::new(), Vec::new(), None);
        for name in names {
            match self.remove_from(name).await {
                Ok(those) => those.into_iter().for_each(|(id, label)| {
                    gone.push(id);
                    removed.push(label);
                }),
                Err(why) => {
                    refused = Some(why);
                    break;
                }
            }
        }
        host.publish();
        let done = host.done(self, Effects { removed: Some(removed.clone()), ..Effects::default() });
        host.devices().close(&gone).await;
        match refused {
            Some(why) => Err(HostError::NotRemoved { why: Box::new(why), removed }),
            None => Ok(done),
        }
    }

    async fn remove_from(&self, name: &str) -> Result<Vec<(MemberId, String)>, HostError> {
        let which = removal(name, |name| self.device(name)).ok_or_else(|| HostError::NoDevice {
            device: name.to_owned(),
            array: self.name().to_owned(),
            known: self.device_names(),
        })?;
        let array = self.array();
        let known = array.detail().devices;
        let removed = array.remove(which).await?;
        let label =
            |id: MemberId| known.iter().find(|device| device.id == id).map(|device| device.label.clone());
        Ok(removed.into_iter().map(|id| (id, label(id).unwrap_or_default())).collect())
    }
}
