//! Devices that were members of an array and are not in use now: all that can be found are taken again by one word.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use brindle_array::{Array, DeviceDetail, DeviceState, Joined, Removal};
use brindle_format::md::Uuid;
use brindle_io::MemberId;
use brindle_io::device::{DeviceAccess, Identity, OpenDevice};
use serde_json::{Value, json};

use super::newcomer::{Coming, Newcomer, joined, newcomer};
use super::{Service, with_service};
use crate::control::{Answer, Reply};
use crate::exported::Exported;
use crate::failure::Failure;
use crate::look;

/// Stands for all former members that can be found, as with mdadm's `--re-add`.
pub(crate) const MISSING: &str = "missing";

/// Whether these names stand for all former members.
pub(crate) fn are_meant(names: &[PathBuf]) -> bool {
    matches!(names, [name] if name.as_os_str() == MISSING)
}

/// Whether a device of an array was a member of it and is not in use.
pub(crate) fn is_out(device: &DeviceDetail) -> bool {
    use brindle_array::assembly::LeftOut::{Faulty, Stale};
    let out = matches!(device.state, DeviceState::Failed | DeviceState::LeftOut(Stale { .. } | Faulty));
    out && device.role.is_some()
}

/// What has become of former members.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Those that are members again.
    pub(crate) joined: Vec<Value>,
    /// Those that can't be, and why.
    pub(crate) refused: Vec<Value>,
    /// Which of these the array itself refused.
    pub(crate) strangers: Vec<Identity>,
}

impl Told {
    pub(crate) fn joined(&mut self, label: &str, role: u16) {
        self.joined.push(joined(label, &Joined::Member { role }));
    }

    pub(crate) fn refused(&mut self, label: &str, why: &Failure) {
        self.refused.push(json!({"path": label, "why": why.to_string()}));
    }
}

/// Where former members are looked for, and which are meant.
pub(crate) struct Search {
    pub(crate) names: Vec<PathBuf>,
    /// The array of which they were members.
    pub(crate) array: Uuid,
    /// Devices that are in use here already.
    pub(crate) known: Vec<Identity>,
}

impl Search {
    /// Opens what is found, those first that were members last. What is not there, can't be opened or belongs elsewhere is none;
    /// one that somebody else uses is refused. Waits for devices.
    pub(crate) fn find(mut self, told: &mut Told) -> Vec<Newcomer> {
        let mut found = Vec::new();
        for name in core::mem::take(&mut self.names) {
            let Some(identity) = self.is_former(&name) else { continue };
            self.known.push(identity);
            match newcomer(&name, &[]) {
                Ok(newcomer) => found.push(newcomer),
                Err(why) => told.refused(&name.display().to_string(), &why),
            }
        }
        found.sort_by_key(|newcomer| core::cmp::Reverse(newcomer.events()));
        found
    }

    /// What tells a device from others that was a member of the array and that nobody here uses.
    fn is_former(&self, name: &Path) -> Option<Identity> {
        let device = OpenDevice::open(crate::world::file_of(name), DeviceAccess::Examine).ok()?;
        if self.known.contains(&device.identity()) {
            return None;
        }
        let label = name.display().to_string();
        let candidate = look::candidate(&label, device.info(), look::reader(&device)).ok()?;
        let (superblock, _) = candidate.superblock().ok()?;
        (superblock.set_uuid == self.array).then(|| device.identity())
    }
}

/// The disks and partitions of this machine: where mdadm looks for members, too, unless it is told otherwise (`DEVICE` in
/// mdadm.conf(5)).
pub(crate) fn block_devices() -> Vec<PathBuf> {
    partitions(&std::fs::read_to_string("/proc/partitions").unwrap_or_default())
}

/// The devices that /proc/partitions names: `major minor blocks name` in each line below the heading, with `!` for `/` in names.
fn partitions(text: &str) -> Vec<PathBuf> {
    let name = |line: &str| {
        let mut words = line.split_whitespace();
        words.next()?.parse::<u32>().ok()?;
        Some(Path::new("/dev").join(words.nth(2)?.replace('!', "/")))
    };
    text.lines().filter_map(name).collect()
}

/// Takes devices of an array again that it has and does not use, as far as they are there; gives the names of the others.
pub(crate) async fn add_those_there(array: &Array, told: &mut Told) -> Vec<PathBuf> {
    let away = array.detached().await;
    let mut elsewhere = Vec::new();
    for device in array.detail().devices.into_iter().filter(is_out) {
        if away.contains(&device.id) {
            elsewhere.push(PathBuf::from(device.label));
            continue;
        }
        match array.add_again(device.id, &device.label).await {
            Ok(role) => told.joined(&device.label, role),
            Err(why) => told.refused(&device.label, &Failure::Add(why)),
        }
    }
    elsewhere
}

impl Service {
    /// Takes all former members of an array again that can be found: those that it has and does not use, those that it had or was to
    /// have, and whatever else this machine has of disks and partitions.
    pub(super) async fn add_missing(self: Rc<Self>, array: &Exported, reply: Reply) {
        let mut told = Told::default();
        let mut names = add_those_there(&array.hosted.array, &mut told).await;
        names.extend(array.former_names());
        let search = move |names: Vec<PathBuf>| names.into_iter().chain(block_devices()).collect();
        self.add_found(array, names, &[], search, &mut told).await;
        self.publish();
        let mut report = self.report_of(array);
        report["added"] = told.joined.iter().map(|joined| joined["path"].clone()).collect();
        report["joined"] = Value::Array(told.joined);
        report["refused"] = Value::Array(told.refused);
        reply.send(Answer::Ok(report));
    }

    /// Takes the former members of an array among what names lead to; `names_of` makes those names of
    /// some, in a thread of its own. Some devices are left as they are.
    pub(super) async fn add_found(
        &self,
        array: &Exported,
        some: Vec<PathBuf>,
        but: &[Identity],
        names_of: impl FnOnce(Vec<PathBuf>) -> Vec<PathBuf> + Send + 'static,
        told: &mut Told,
    ) {
        let known = self.host.world.known().into_iter().map(|(identity, _)| identity);
        let known = known.chain(but.iter().copied()).collect();
        let mut search = Search { names: Vec::new(), array: array.hosted.array.detail().uuid, known };
        let look = move || {
            search.names = names_of(some);
            let mut told = Told::default();
            (search.find(&mut told), told)
        };
        let Some((found, seen)) = self.aside(look).await else { return };
        told.refused.extend(seen.refused);
        for newcomer in found {
            self.take_back(array, newcomer, told).await;
        }
    }

    /// Takes a device that is back as the member that it was. What the array still has by its name is gone for good then.
    async fn take_back(&self, array: &Exported, newcomer: Newcomer, told: &mut Told) {
        let (label, file, engine) = (newcomer.label().to_owned(), newcomer.file(), &array.hosted.array);
        let olds = engine.detail().devices.into_iter().filter(|old| old.label == label && is_out(old));
        let olds: Vec<MemberId> = olds.map(|old| old.id).collect();
        let (coming, identity) = (Coming { force: false, re_add: true }, newcomer.identity());
        let gone = match self.host.world.add_to(engine, newcomer, coming).await {
            Ok((_, now)) => {
                array.came(&label, file);
                told.joined.push(joined(&label, &now));
                let mut gone = Vec::new();
                for old in olds {
                    gone.extend(engine.remove(Removal::Device(old)).await.unwrap_or_default());
                }
                gone
            }
            Err((left, why)) => {
                told.refused(&label, &why);
                told.strangers.push(identity);
                left.into_iter().collect()
            }
        };
        let (devices, locks) = (self.host.world.close_devices(&gone), Arc::clone(&self.host.world.locks));
        self.aside(move || locks.unlock_those(&devices)).await;
    }

    /// Does something in a thread of its own that may take long. Gives nothing if there is no thread to be had.
    async fn aside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let slot = Arc::new(Mutex::new(None));
        let (done, remote) = (Arc::clone(&slot), self.io.remote());
        let thread = move || {
            let result = work();
            *done.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
            remote.run(|_| with_service(|service| service.changed.notify()));
        };
        thread::Builder::new().name("look".into()).spawn(thread).ok()?;
        let look = || slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        Some(self.changed.until(look).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_and_partitions_are_those_that_the_kernel_names() {
        let text = "major minor  #blocks  name\n\n   8        0  976762584 sda\n   8        1     524288 sda1\n 104 0 71652960 cciss!c0d0\n";
        let found = partitions(text);
        assert_eq!(found, ["/dev/sda", "/dev/sda1", "/dev/cciss/c0d0"].map(PathBuf::from));
        assert_eq!(partitions("major minor #blocks name\n1 2\nx y z w\n"), Vec::<PathBuf>::new());
    }
}
