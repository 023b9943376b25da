//! Devices that come to a served array, and go.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use brindle_array::{Array, DeviceDetail, DeviceState, Joined, Removal};
use brindle_io::MemberId;
use brindle_io::device::Identity;
use brindle_volume::VolumeError;
use serde_json::{Value, json};

use super::again::{Again, take_each_again};
use super::newcomer::{Coming, Newcomer, Terms, joined};
use super::{Service, former, with_service};
use crate::chance::random_uuid;
use crate::control::{Answer, Reply};
use crate::exported::Exported;
use crate::failure::Failure;
use crate::world::World;

/// Stands for all devices that have failed.
pub(crate) const FAILED: &str = "failed";
/// Stands for all devices that are not in use, and do not exist any more.
pub(crate) const DETACHED: &str = "detached";

/// What a device is to do once it has come.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// What the array makes of it.
    Nothing,
    /// Replace this member.
    Replaces(MemberId),
}

/// Which devices are meant: all that have failed, all that are gone, or the one that `find` knows by that name.
pub(crate) fn removal(name: &str, find: impl Fn(&str) -> Option<MemberId>) -> Option<Removal> {
    match name {
        FAILED => Some(Removal::Failed),
        DETACHED => Some(Removal::Detached),
        name => find(name).map(Removal::Device),
    }
}

impl World {
    /// Takes a device into an array, and gives its number and what it is.
    ///
    /// # Errors
    /// The device, if it was opened for that, and why it is none.
    pub(crate) async fn add_to(
        &self,
        array: &Array,
        newcomer: Newcomer,
        force: bool,
    ) -> Result<(MemberId, Joined), (Option<MemberId>, Failure)> {
        let uuid = random_uuid().map_err(|why| (None, why))?;
        let path = PathBuf::from(&newcomer.seen.candidate.label);
        let named = self.take(&path, newcomer.seen).map_err(|why| (None, why))?;
        let added = array.add(named.id, &named.label, uuid, force).await;
        added.map(|joined| (named.id, joined)).map_err(|why| (Some(named.id), Failure::Add(why)))
    }
}

/// Why a member can't be replaced.
pub(crate) fn not_replaced(array: &Array, member: MemberId, why: &VolumeError) -> String {
    let detail = array.detail();
    let label = detail.devices.into_iter().find(|device| device.id == member).map(|device| device.label);
    let level = array.geometry().level();
    let why = match why {
        VolumeError::Unsupported if !level.is_redundant() => {
            format!("{} has no redundancy, and nothing is replaced without", level.name())
        }
        VolumeError::Unsupported if detail.version.is_some_and(|version| !version.is_v1()) => {
            "its metadata (0.90) can't say so".to_owned()
        }
        VolumeError::Unsupported => "another device replaces it already".to_owned(),
        VolumeError::OutOfRange => "a spare is needed for that".to_owned(),
        why => why.to_string(),
    };
    format!("{} can't be replaced: {why}", label.unwrap_or_default())
}

impl Service {
    /// Opens devices in a thread of their own, and takes them into an array. Those that it has, and does not use, are taken
    /// again as they are.
    pub(crate) fn add(
        self: &Rc<Self>,
        names: Vec<PathBuf>,
        coming: Coming,
        array: Option<&str>,
        reply: Reply,
    ) {
        let array = match self.one(array) {
            Ok(array) => array,
            Err(answer) => return reply.send(answer),
        };
        if coming.re_add && former::are_meant(&names) {
            let service = Rc::clone(self);
            drop(self.io.spawn(async move { service.add_missing(&array, reply).await }));
            return;
        }
        let (mut known, mut new) = (Vec::new(), Vec::new());
        for name in names {
            let label = name.display().to_string();
            match array.device(&label).filter(|_| coming.re_add) {
                Some(id) => known.push((id, label)),
                None => new.push(name),
            }
        }
        self.look_and_take_in(&array, new, coming, known, Then::Nothing, reply);
    }

    /// Takes members again that arrays were started without: what tells of those that can't be is only told.
    pub(crate) async fn take_again(self: Rc<Self>) {
        for exported in self.arrays() {
            let array = &exported.hosted.array;
            let out = |device: &DeviceDetail| device.state != DeviceState::Failed && former::is_out(device);
            let devices = array.detail().devices.into_iter().filter(out);
            let devices: Vec<Again> = devices.map(|device| (device.id, device.label)).collect();
            for why in take_each_again(array, &devices).await.into_iter().filter_map(Result::err) {
                tracing::warn!("{}: {why}", exported.name());
            }
        }
        self.publish();
    }

    /// Has a spare, or a device that becomes one, replace a member that still works.
    pub(crate) fn replace(
        self: &Rc<Self>,
        member: &str,
        with: PathBuf,
        force: bool,
        array: Option<&str>,
        reply: Reply,
    ) {
        let array = match self.one(array) {
            Ok(array) => array,
            Err(answer) => return reply.send(answer),
        };
        let detail = array.hosted.array.detail();
        let in_sync = |id: &MemberId| {
            detail.devices.iter().any(|device| device.id == *id && device.state == DeviceState::InSync)
        };
        let Some(old) = array.device(member).filter(in_sync) else {
            let members = array.members().join(", ");
            let why = format!("{member} is no member in sync of {}: it has {members}", array.name());
            return reply.send(Answer::Error(why));
        };
        // Before a device becomes a spare for it in vain.
        if let Err(why) = array.hosted.array.may_be_replaced(old) {
            return reply.send(Answer::Error(not_replaced(&array.hosted.array, old, &why)));
        }
        let Some(spare) = array.device(&with.display().to_string()) else {
            let coming = Coming { force, re_add: false };
            return self.look_and_take_in(&array, vec![with], coming, Vec::new(), Then::Replaces(old), reply);
        };
        let service = Rc::clone(self);
        self.io.spawn(async move {
            let begun = array.hosted.array.replace(old, spare).await;
            service.publish();
            reply.send(match begun {
                Ok(()) => Answer::Ok(service.report_of(&array)),
                Err(why) => Answer::Error(not_replaced(&array.hosted.array, old, &why)),
            });
        });
    }

    /// Looks at devices and takes them into an array; those of its own that are `known` by name come back with them.
    fn look_and_take_in(
        self: &Rc<Self>,
        array: &Exported,
        names: Vec<PathBuf>,
        coming: Coming,
        known: Vec<Again>,
        then: Then,
        reply: Reply,
    ) {
        let name = array.name().to_owned();
        let terms = Terms { known: self.known(), coming };
        let remote = self.io.remote();
        let work = move || {
            let newcomers = terms.look_at(&names);
            remote.run(move |io| {
                with_service(|service| {
                    let service = Rc::clone(service);
                    io.spawn(
                        async move { service.take_in(&name, newcomers, coming, known, then, reply).await },
                    );
                });
            });
        };
        // Without a thread there is no answer in time, and that is said.
        let _ = thread::Builder::new().name("look".into()).spawn(work);
    }

    /// What this process has open, and in what.
    pub(super) fn known(&self) -> Vec<(Identity, String)> {
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
        self.host.world.known().into_iter().map(|(identity, path)| (identity, what(&path))).collect()
    }

    async fn take_in(
        self: Rc<Self>,
        name: &str,
        newcomers: Result<Vec<Newcomer>, Failure>,
        coming: Coming,
        known: Vec<Again>,
        then: Then,
        reply: Reply,
    ) {
        let newcomers = match newcomers {
            Ok(newcomers) => newcomers,
            Err(why) => return reply.send(Answer::Error(why.to_string())),
        };
        let Some(array) = self.arrays().into_iter().find(|array| array.name() == name) else {
            return reply.send(Answer::Error(format!("{name} has been stopped")));
        };
        if coming.re_add {
            return self.take_again_those_named(&array, known, newcomers, reply).await;
        }
        let (mut told, mut added) = (Vec::new(), Vec::new());
        for newcomer in newcomers {
            let (label, file) = (newcomer.label().to_owned(), newcomer.file.clone());
            match self.host.world.add_to(&array.hosted.array, newcomer, coming.force).await {
                Ok((id, now)) => {
                    array.came(&label, file);
                    told.push(joined(&label, &now));
                    added.push(label);
                    if let Then::Replaces(old) = then
                        && let Err(why) = array.hosted.array.replace(old, id).await
                    {
                        return reply.send(Answer::Error(not_replaced(&array.hosted.array, old, &why)));
                    }
                }
                Err((left, why)) => {
                    let before = if added.is_empty() {
                        String::new()
                    } else {
                        format!("; {} has been added", added.join(", "))
                    };
                    return self.free(left.as_slice(), reply, Answer::Error(format!("{why}{before}")));
                }
            }
        }
        self.publish();
        let mut report = self.report_of(&array);
        report["added"] = json!(added);
        report["joined"] = Value::Array(told);
        reply.send(Answer::Ok(report));
    }

    /// Devices of an array that are not in use are none of it any more, and free.
    pub(crate) async fn remove(self: Rc<Self>, names: Vec<String>, array: Option<String>, reply: Reply) {
        let array = match self.one(array.as_deref()) {
            Ok(array) => array,
            Err(answer) => return reply.send(answer),
        };
        let (mut gone, mut labels, mut refused) = (Vec::new(), Vec::new(), None);
        for name in &names {
            match self.remove_from(&array, name).await {
                Ok(removed) => removed.into_iter().for_each(|(id, label)| {
                    gone.push(id);
                    labels.push(label);
                }),
                Err(why) => {
                    refused = Some(why);
                    break;
                }
            }
        }
        self.publish();
        let answer = match refused {
            Some(why) if labels.is_empty() => Answer::Error(why),
            Some(why) => Answer::Error(format!("{why}; {} is removed", labels.join(", "))),
            None => {
                let mut report = self.report_of(&array);
                report["removed"] = json!(labels);
                Answer::Ok(report)
            }
        };
        self.free(&gone, reply, answer);
    }

    async fn remove_from(&self, array: &Exported, name: &str) -> Result<Vec<(MemberId, String)>, String> {
        let which = removal(name, |name| array.device(name)).ok_or_else(|| {
            format!("{name} is no device of {}: it has {}", array.name(), array.devices().join(", "))
        })?;
        let array = &array.hosted.array;
        let known = array.detail().devices;
        let removed = array.remove(which).await.map_err(|why| why.to_string())?;
        let label =
            |id: MemberId| known.iter().find(|device| device.id == id).map(|device| device.label.clone());
        Ok(removed.into_iter().map(|id| (id, label(id).unwrap_or_default())).collect())
    }

    /// Closes devices, and tells whoever asked once nobody is kept from them any more.
    pub(super) fn free(&self, ids: &[MemberId], reply: Reply, answer: Answer) {
        self.free_after(ids, || {}, reply, answer);
    }

    /// The same once something else is done that may take its time.
    pub(super) fn free_after(
        &self,
        ids: &[MemberId],
        work: impl FnOnce() + Send + 'static,
        reply: Reply,
        answer: Answer,
    ) {
        let (devices, locks) = (self.host.world.close_devices(ids), Arc::clone(&self.host.world.locks));
        // Without a thread they are unlocked when the server ends, and it says that it is late.
        let _ = thread::Builder::new().name("unlock".into()).spawn(move || {
            work();
            locks.unlock_those(&devices);
            reply.send(answer);
        });
    }
}
