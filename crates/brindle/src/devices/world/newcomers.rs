//! Devices that are to come to an array: looked for, opened, and held against those that are in use. All of it waits for devices.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use brindle_array::{Array, Joined};
use brindle_format::md::Uuid;
use brindle_host::status::{JoinedStatus, RefusedStatus};
use brindle_host::{Coming, Source};
use brindle_io::MemberId;
use brindle_io::device::{DeviceAccess, Identity, OpenDevice};

use super::members::{refuse_twice, see_device};
use super::{Seen, World, see};
use crate::base::failure::Failure;
use crate::base::look;
use crate::base::random::random_uuid;

/// A device that was looked at, and may come to an array.
pub(crate) struct Newcomer {
    seen: Seen,
    /// The device's file when all links are followed.
    file: Option<PathBuf>,
}

impl Newcomer {
    /// The name that was given.
    pub(crate) fn label(&self) -> &str {
        &self.seen.candidate.label
    }

    /// The device's file when all links are followed.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.file.clone()
    }

    /// The identity, which differs from that of any other device.
    pub(crate) fn identity(&self) -> Identity {
        self.seen.device.identity()
    }

    /// The event count of its superblock.
    pub(crate) fn events(&self) -> u64 {
        self.seen.candidate.superblock().map_or(0, |(superblock, _)| superblock.events)
    }
}

/// Opens a device and examines it, so that it can be added to an array; refuses one of the `known` devices. Blocks
/// meanwhile.
pub(crate) fn newcomer(name: &Path, known: &[(Identity, PathBuf)]) -> Result<Newcomer, Failure> {
    let seen = see(name, DeviceAccess::Write, known)?;
    Ok(Newcomer { seen, file: std::fs::canonicalize(name).ok() })
}

/// [`newcomer`] for a device that is open already. It has no name that could lead elsewhere.
fn given(name: &Path, fd: OwnedFd, known: &[(Identity, PathBuf)]) -> Result<Newcomer, Failure> {
    // A second lock on a device would be refused as another Brindle's.
    refuse_twice(&examined(name, &fd)?, known)?;
    let device = OpenDevice::given(fd, name, DeviceAccess::Write)?;
    Ok(Newcomer { seen: see_device(name, device)?, file: None })
}

/// A device as its descriptor shows it, without a lock.
fn examined(name: &Path, fd: &OwnedFd) -> Result<OpenDevice, Failure> {
    let again = fd.try_clone().map_err(|source| Failure::system(name.display().to_string(), source))?;
    Ok(OpenDevice::given(again, name, DeviceAccess::Examine)?)
}

/// The identity of the device that a name leads to. Waits for it.
pub(crate) fn identity_of(name: &Path) -> Option<Identity> {
    OpenDevice::open(super::file_of(name), DeviceAccess::Examine).ok().map(|device| device.identity())
}

/// Rules by which a newcomer is judged.
pub(crate) struct Terms {
    /// Devices that this process has, and what each is.
    pub(crate) known: Vec<(Identity, String)>,
    pub(crate) coming: Coming,
}

impl Terms {
    /// Opens devices and looks at what stands on them. Waits for them.
    ///
    /// # Errors
    /// The first that can't be used, by name: it is not there, is in use, or holds what would be lost.
    pub(crate) fn look_at(&self, sources: Vec<Source>) -> Result<Vec<Newcomer>, Failure> {
        let mut opened = Vec::with_capacity(sources.len());
        let mut newcomers = Vec::with_capacity(sources.len());
        for source in sources {
            self.refuse_known(&source)?;
            let name = source.name().to_owned();
            let newcomer = match source {
                Source::Named(name) => newcomer(&name, &opened)?,
                Source::Given(name, fd) => given(&name, fd, &opened)?,
            };
            self.refuse_occupied(&newcomer.seen)?;
            opened.push((newcomer.seen.device.identity(), name));
            newcomers.push(newcomer);
        }
        Ok(newcomers)
    }

    fn refuse_known(&self, source: &Source) -> Result<(), Failure> {
        let name = source.name();
        let device = match source {
            Source::Named(name) => OpenDevice::open(super::file_of(name), DeviceAccess::Examine).ok(),
            Source::Given(name, fd) => Some(examined(name, fd)?),
        };
        let Some(device) = device else { return Ok(()) };
        match self.known.iter().find(|(identity, _)| *identity == device.identity()) {
            Some((_, what)) => Err(Failure::Refused(format!("{}: it is {what}", name.display()))),
            None => Ok(()),
        }
    }

    /// Content of a device of this array is the array's, or was; other arrays are the engine's to refuse.
    fn refuse_occupied(&self, seen: &Seen) -> Result<(), Failure> {
        // A device that is not a former member is not written to if it is to be taken as one.
        if self.coming.force || self.coming.re_add || seen.candidate.superblock().is_ok() {
            return Ok(());
        }
        let found = look::look(seen.device.info().size, look::reader(&seen.device))?.found;
        if found.is_empty() {
            return Ok(());
        }
        let what = found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Err(Failure::Occupied { path: seen.candidate.label.clone(), what })
    }
}

/// Former members that were looked for.
#[derive(Debug, Default)]
pub(crate) struct FormerMembers {
    /// Devices that are members again.
    pub(crate) joined: Vec<JoinedStatus>,
    /// Devices that can't be, and why.
    pub(crate) refused: Vec<RefusedStatus>,
}

impl FormerMembers {
    pub(crate) fn joined(&mut self, label: &str, role: u16) {
        self.joined.push(JoinedStatus::of(label, &Joined::Member { role }));
    }

    pub(crate) fn refused(&mut self, label: &str, why: &Failure) {
        self.refused.push(RefusedStatus { path: label.to_owned(), why: why.to_string() });
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
    /// Opens the devices that are found, latest members first. Devices that are missing, can't be opened or belong
    /// elsewhere are left out; one that another program uses is refused. Waits for devices.
    pub(crate) fn find(mut self) -> (Vec<Newcomer>, Vec<(String, Failure)>) {
        let (mut found, mut refused) = (Vec::new(), Vec::new());
        for name in core::mem::take(&mut self.names) {
            let Some(identity) = self.is_former(&name) else { continue };
            self.known.push(identity);
            match newcomer(&name, &[]) {
                Ok(newcomer) => found.push(newcomer),
                Err(why) => refused.push((name.display().to_string(), why)),
            }
        }
        found.sort_by_key(|newcomer| core::cmp::Reverse(newcomer.events()));
        (found, refused)
    }

    /// The identity of a device that was a member of the array, unless this process uses it.
    fn is_former(&self, name: &Path) -> Option<Identity> {
        let device = OpenDevice::open(super::file_of(name), DeviceAccess::Examine).ok()?;
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

impl World {
    /// The device is one of this world's from now on.
    pub(crate) fn take_newcomer(&self, newcomer: Newcomer) -> Result<brindle_host::Newcomer, Failure> {
        let (file, identity) = (newcomer.file(), newcomer.identity());
        let path = PathBuf::from(newcomer.label());
        let named = self.take(&path, newcomer.seen)?;
        Ok(brindle_host::Newcomer { label: named.label, file, id: named.id, identity })
    }

    /// Takes a device into an array that is not served, and gives its number and its part there.
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
        let newcomer = self.take_newcomer(newcomer).map_err(|why| (None, why))?;
        let added = array.add(newcomer.id, &newcomer.label, uuid, force).await;
        added.map(|joined| (newcomer.id, joined)).map_err(|why| (Some(newcomer.id), Failure::Add(why)))
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
