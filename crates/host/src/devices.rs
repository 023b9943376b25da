//! Adds devices to a served array, and removes them.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use brindle_array::{Array, DeviceDetail, DeviceState, Joined, Removal};
use brindle_io::MemberId;
use brindle_io::device::Identity;
use brindle_volume::VolumeError;

use crate::answers::Served;
use crate::error::HostError;
use crate::exported::Exported;
use crate::policy::former;
use crate::policy::readd::{Again, forget_old, is_out, take_each_again};
use crate::service::Service;
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

impl Service {
    /// Opens devices and takes them into an array. Those that it has, and does not use, are re-added as they are.
    ///
    /// # Errors
    /// The first that is refused, and which had come before.
    pub async fn add(
        self: &Rc<Self>,
        array: &Rc<Exported>,
        names: Vec<PathBuf>,
        coming: Coming,
    ) -> Result<Served, HostError> {
        if coming.re_add && former::are_meant(&names) {
            return Ok(self.add_missing(array).await);
        }
        if !coming.re_add {
            let new = names.into_iter().map(Source::Named).collect();
            return self.take_in(array, new, coming, Vec::new(), Then::Nothing).await;
        }
        let away = array.array().detached().await;
        let (mut known, mut new) = (Vec::new(), Vec::new());
        for name in names {
            match self.own_device(array, &name, &away).await {
                Some(own) => known.push(own),
                None => new.push(Source::Named(name)),
            }
        }
        self.take_in(array, new, coming, known, Then::Nothing).await
    }

    /// The device of an array that a name leads to, also if the array knows the device by another name. A device that is away does not
    /// count if its name leads to another device now: the disk was pulled, and came back as that.
    async fn own_device(&self, array: &Exported, name: &Path, away: &[MemberId]) -> Option<Again> {
        let label = name.display().to_string();
        let own = array.device(&label);
        let now = self.devices.identity(name.to_owned()).await;
        let held = self.devices.known().into_iter().find(|(identity, _)| Some(*identity) == now);
        let held = held.map(|(_, path)| path.display().to_string());
        if let Some((id, label)) = held.and_then(|label| Some((array.device(&label)?, label))) {
            return Some((id, label));
        }
        let is_another = now.is_some() && own.is_some_and(|id| away.contains(&id));
        own.filter(|_| !is_another).map(|id| (id, label))
    }

    /// Takes devices into an array that somebody has opened: a descriptor of each, and the name by which the host is to know it.
    ///
    /// # Errors
    /// The first that is refused, and which had come before.
    pub async fn add_given(
        self: &Rc<Self>,
        array: &Rc<Exported>,
        given: Vec<(PathBuf, OwnedFd)>,
        coming: Coming,
    ) -> Result<Served, HostError> {
        let sources = given.into_iter().map(|(name, fd)| Source::Given(name, fd)).collect();
        self.take_in(array, sources, coming, Vec::new(), Then::Nothing).await
    }

    /// Takes members again that arrays were started without: those that can't be are only reported.
    pub async fn take_again(self: Rc<Self>) {
        for exported in self.arrays() {
            let array = exported.array();
            let out = |device: &DeviceDetail| device.state != DeviceState::Failed && is_out(device);
            let devices = array.detail().devices.into_iter().filter(out);
            let devices: Vec<Again> = devices.map(|device| (device.id, device.label)).collect();
            for why in take_each_again(array, &devices).await.into_iter().filter_map(Result::err) {
                tracing::warn!("{}: {why}", exported.name());
            }
        }
        self.publish();
    }

    /// Has a spare, or a device that becomes one, replace a member that still works.
    ///
    /// # Errors
    /// The member, or the device, is refused.
    pub async fn replace(
        self: &Rc<Self>,
        array: &Rc<Exported>,
        member: &str,
        with: PathBuf,
        force: bool,
    ) -> Result<Served, HostError> {
        let engine = array.array();
        let detail = engine.detail();
        let in_sync = |id: &MemberId| {
            detail.devices.iter().any(|device| device.id == *id && device.state == DeviceState::InSync)
        };
        let Some(old) = array.device(member).filter(in_sync) else {
            return Err(HostError::NoneInSync {
                member: member.to_owned(),
                array: array.name().to_owned(),
                known: array.members(),
            });
        };
        let refused = |why: VolumeError| HostError::NotReplaced(not_replaced(engine, old, &why));
        // Before a device becomes a spare for it in vain.
        engine.may_be_replaced(old).map_err(refused)?;
        let Some(spare) = array.device(&with.display().to_string()) else {
            let coming = Coming { force, re_add: false };
            return self.take_in(array, vec![with.into()], coming, Vec::new(), Then::Replaces(old)).await;
        };
        let begun = engine.replace(old, spare).await;
        self.publish();
        begun.map_err(refused)?;
        Ok(self.status_of(array).into())
    }

    /// The open devices, and the use of each.
    pub(crate) fn known(&self) -> Vec<(Identity, String)> {
        let arrays = self.arrays();
        let what = |path: &Path| {
            let label = path.display().to_string();
            if let Some(array) = arrays.iter().find(|array| array.has_bitmap_in(&label)) {
                return format!("the file of the bitmap of '{}' already, {label}", array.name());
            }
            let array = arrays.iter().find(|array| array.knows(&label));
            array.map_or_else(
                || "in use by this server already".to_owned(),
                |array| format!("a device of '{}' already, {label}: remove it first", array.name()),
            )
        };
        self.devices.known().into_iter().map(|(identity, path)| (identity, what(&path))).collect()
    }

    /// Looks at devices and takes them into an array; those of its own that are `known` by name come back with them.
    async fn take_in(
        &self,
        array: &Rc<Exported>,
        sources: Vec<Source>,
        coming: Coming,
        known: Vec<Again>,
        then: Then,
    ) -> Result<Served, HostError> {
        let terms = Terms { known: self.known(), coming };
        let newcomers = self.devices.open(sources, terms).await?;
        if self.array(array.name()).is_none() {
            let ids: Vec<MemberId> = newcomers.iter().map(|newcomer| newcomer.id).collect();
            self.devices.close(&ids).await;
            return Err(HostError::Stopped(array.name().to_owned()));
        }
        if coming.re_add {
            return self.take_again_those_named(array, known, newcomers).await;
        }
        let away = array.array().detached().await;
        let (mut reported, mut gone, mut newcomers) = (Vec::new(), Vec::new(), newcomers.into_iter());
        while let Some(newcomer) = newcomers.next() {
            match self.add_to(array.array(), &newcomer, coming.force).await {
                Ok(now) => reported.push(JoinedStatus::of(&newcomer.label, &now)),
                Err(why) => {
                    let left: Vec<MemberId> =
                        [newcomer].into_iter().chain(newcomers).map(|newcomer| newcomer.id).collect();
                    gone.extend(left);
                    self.devices.close(&gone).await;
                    return Err(HostError::NotAdded {
                        why: why.to_string(),
                        added: JoinedStatus::paths(&reported),
                    });
                }
            }
            array.came(&newcomer.label, newcomer.file);
            let role = reported.last().and_then(|joined: &JoinedStatus| joined.role);
            gone.extend(forget_old(array.array(), &newcomer.label, role, &away).await);
            if let Then::Replaces(old) = then
                && let Err(why) = array.array().replace(old, newcomer.id).await
            {
                self.devices.close(&gone).await;
                return Err(HostError::NotReplaced(not_replaced(array.array(), old, &why)));
            }
        }
        self.publish();
        self.devices.close(&gone).await;
        let status = self.status_of(array);
        Ok(Served { added: Some(JoinedStatus::paths(&reported)), joined: Some(reported), ..status.into() })
    }

    /// Takes an open device into an array.
    async fn add_to(&self, array: &Array, newcomer: &Newcomer, force: bool) -> Result<Joined, HostError> {
        let uuid = self.devices.new_uuid()?;
        Ok(array.add(newcomer.id, &newcomer.label, uuid, force).await?)
    }

    /// Devices of an array that are not in use are none of it any more, and free.
    ///
    /// # Errors
    /// The first that is refused, and which had gone before.
    pub async fn remove(&self, array: &Rc<Exported>, names: &[String]) -> Result<Served, HostError> {
        let (mut gone, mut removed, mut refused) = (Vec::new(), Vec::new(), None);
        for name in names {
            match self.remove_from(array, name).await {
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
        self.publish();
        let status = self.status_of(array);
        self.devices.close(&gone).await;
        match refused {
            Some(why) => Err(HostError::NotRemoved { why: Box::new(why), removed }),
            None => Ok(Served { removed: Some(removed), ..status.into() }),
        }
    }

    async fn remove_from(&self, array: &Exported, name: &str) -> Result<Vec<(MemberId, String)>, HostError> {
        let which = removal(name, |name| array.device(name)).ok_or_else(|| HostError::NoDevice {
            device: name.to_owned(),
            array: array.name().to_owned(),
            known: array.devices(),
        })?;
        let array = array.array();
        let known = array.detail().devices;
        let removed = array.remove(which).await?;
        let label =
            |id: MemberId| known.iter().find(|device| device.id == id).map(|device| device.label.clone());
        Ok(removed.into_iter().map(|id| (id, label(id).unwrap_or_default())).collect())
    }
}
