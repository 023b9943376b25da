//! Devices that were members of an array and are not in use now: all that can be found are taken again by one word.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use brindle_array::{Array, DeviceDetail, DeviceState, Joined, Removal};
use brindle_format::md::Uuid;
use brindle_io::device::{DeviceAccess, Identity, OpenDevice};
use serde_json::{Value, json};

use super::again::{Again, take_each_again};
use super::newcomer::{Newcomer, joined, newcomer};
use super::{Service, with_service};
use crate::control::{Answer, Reply};
use crate::exported::Exported;
use crate::failure::Failure;
use crate::look;
use crate::world::World;

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

/// Devices that an array has and does not use, as far as they are there; and the names of the others.
pub(crate) async fn those_there(array: &Array) -> (Vec<Again>, Vec<PathBuf>) {
    let away = array.detached().await;
    let out = array.detail().devices.into_iter().filter(is_out);
    let (elsewhere, there): (Vec<_>, Vec<_>) = out.partition(|device| away.contains(&device.id));
    let there = there.into_iter().map(|device| (device.id, device.label));
    (there.collect(), elsewhere.into_iter().map(|device| PathBuf::from(device.label)).collect())
}

/// A newcomer: what tells it from others, and its file when all links are followed.
type Came = Option<(Identity, Option<PathBuf>)>;

/// All that are to come back: newcomers are devices of this world from now on. Beside each stands what came with it.
pub(crate) fn taken(
    world: &World,
    there: Vec<Again>,
    found: Vec<Newcomer>,
    told: &mut Told,
) -> (Vec<Came>, Vec<Again>) {
    let (mut came, mut devices): (Vec<Came>, _) = (vec![None; there.len()], there);
    for newcomer in found {
        let (label, identity, file) = (newcomer.label().to_owned(), newcomer.identity(), newcomer.file());
        match world.take(Path::new(&label), newcomer.seen) {
            Ok(named) => {
                came.push(Some((identity, file)));
                devices.push((named.id, named.label));
            }
            Err(why) => {
                told.refused(&label, &why);
                told.strangers.push(identity);
            }
        }
    }
    (came, devices)
}

impl Service {
    /// Takes all former members of an array again that can be found: those that it has and does not use, those that it had or was to
    /// have, and whatever else this machine has of disks and partitions.
    pub(super) async fn add_missing(self: Rc<Self>, array: &Exported, reply: Reply) {
        let mut told = Told::default();
        let (there, mut names) = those_there(&array.hosted.array).await;
        names.extend(array.former_names());
        let search = move |names: Vec<PathBuf>| names.into_iter().chain(block_devices()).collect();
        self.add_found(array, there, names, &[], search, &mut told).await;
        self.publish();
        let mut report = self.report_of(array);
        report["added"] = told.joined.iter().map(|joined| joined["path"].clone()).collect();
        report["joined"] = Value::Array(told.joined);
        report["refused"] = Value::Array(told.refused);
        reply.send(Answer::Ok(report));
    }

    /// Takes the former members of an array among what names lead to, and those of its own that are `there`; `names_of` makes those
    /// names of some, in a thread of its own. Some devices are left as they are.
    pub(super) async fn add_found(
        &self,
        array: &Exported,
        there: Vec<Again>,
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
        self.take_back(array, there, found, told).await;
    }

    /// Takes devices that are back as the members that they were. What the array still has by the names of newcomers is gone for
    /// good then.
    async fn take_back(&self, array: &Exported, there: Vec<Again>, found: Vec<Newcomer>, told: &mut Told) {
        let engine = &array.hosted.array;
        let (came, devices) = taken(&self.host.world, there, found, told);
        let done = take_each_again(engine, &devices).await;
        let mut gone = Vec::new();
        for (((id, label), came), done) in devices.into_iter().zip(came).zip(done) {
            match (done, came) {
                (Ok(role), came) => {
                    told.joined(&label, role);
                    let Some((_, file)) = came else { continue };
                    array.came(&label, file);
                    let old = |old: &DeviceDetail| old.label == label && is_out(old);
                    for old in engine.detail().devices.into_iter().filter(old) {
                        gone.extend(engine.remove(Removal::Device(old.id)).await.unwrap_or_default());
                    }
                }
                (Err(why), came) => {
                    told.refused(&label, &Failure::Add(why));
                    let Some((identity, _)) = came else { continue };
                    told.strangers.push(identity);
                    gone.push(id);
                }
            }
        }
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
