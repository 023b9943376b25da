//! Devices named on the command line, and arrays in the place of devices. A device that can't be read, or an array
//! that can't be assembled, counts as a missing member: the others may do without it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brindle_array::{Array, LeftOut as Why};
use brindle_format::md::Uuid;
use brindle_host::ArrayDescription;
use brindle_io::device::{DeviceAccess, DeviceError, DeviceErrorKind, Identity, OpenDevice};
use brindle_io::{MemberId, MemberInfo};
use brindle_md::assembly::{Candidate, Claim, ForeignArray};
use brindle_volume::nest;

use super::assembled::Assembled;
use super::joined::parts;
use super::{Cut, Opened, World, assumed, beginning, emulate, place};
use crate::base::deadline::within;
use crate::base::failure::Failure;
use crate::base::{look, report};

/// Requests to an array that is a member, carried out at the same time.
pub(super) const NESTED_SLOTS: usize = 64;

/// Advice where too few members are left.
const GOOD_COPY: &str = "give a good copy of what is left out, or more of the other members";

/// A device, or an array in its place, that was named on the command line.
pub(crate) struct Named {
    pub(crate) label: String,
    pub(crate) id: MemberId,
    pub(crate) info: MemberInfo,
    pub(crate) candidate: Candidate,
    /// A file that is known to read as zeroes.
    pub(crate) is_zero: bool,
}

impl Named {
    /// The array that its superblock says it belongs to.
    pub(crate) fn array(&self) -> Option<Uuid> {
        self.candidate.superblock().ok().map(|(superblock, _)| superblock.set_uuid)
    }
}

/// A device and what stands on it.
pub(crate) struct Seen {
    pub(crate) device: OpenDevice,
    pub(crate) candidate: Candidate,
    is_zero: bool,
}

/// An array that is a member.
pub(crate) struct Nested {
    /// The name that was given: `a+b+c`.
    pub(crate) label: String,
    pub(crate) array: Array,
    pub(super) assembled: Assembled,
    pub(crate) members: Vec<Named>,
}

impl Nested {
    /// The nested array for the host that serves the array above it.
    pub(crate) fn given(&self) -> brindle_host::Nested {
        let (label, array) = (self.label.clone(), self.array.clone());
        brindle_host::Nested { label, array, description: self.description() }
    }

    /// The nested array as its members describe it.
    pub(crate) fn description(&self) -> ArrayDescription {
        self.assembled.description()
    }
}

/// The devices named for one array.
#[derive(Default)]
pub(crate) struct Set {
    /// The devices that could be opened, in the order of their names.
    pub(crate) members: Vec<Named>,
    /// Arrays that are members, in the order of their names.
    pub(crate) nested: Vec<Nested>,
    /// Arrays that are no working part of the one above them: nothing is written to them.
    pub(crate) unused: Vec<Nested>,
    /// The named devices that are left out.
    pub(crate) left_out: Vec<LeftOut>,
    /// The file that has the array's write-intent bitmap, if one was given.
    pub(crate) bitmap: Option<PathBuf>,
}

/// Something that was named and is done without.
#[derive(Clone, Debug)]
pub(crate) struct LeftOut {
    /// The name that was given.
    pub(crate) label: String,
    /// The reason.
    pub(crate) why: String,
    /// The array and event count that its damaged superblock claims.
    pub(super) claim: Option<Claim>,
    /// The array that it was to be a part of, if that is known.
    pub(super) of: Option<Uuid>,
    /// Bytes that it has, if it has no superblock at all.
    pub(super) bare: Option<u64>,
}

impl LeftOut {
    /// An array that is no working part of the one above it.
    pub(super) fn of(label: &str, why: Why, array: Uuid) -> Self {
        Self {
            label: label.to_owned(),
            why: format!("{label}: is {} in the array above it", report::left_out(why)),
            claim: None,
            of: Some(array),
            bare: None,
        }
    }

    /// Whether the device says that it belongs to this array, or is in the way of one of its devices.
    pub(crate) fn is_of(&self, array: Uuid) -> bool {
        self.of == Some(array) || self.claim.is_some_and(|claim| claim.array == array)
    }

    /// A device that has no superblock that can be used.
    fn unfit(named: Named) -> Self {
        let label = named.label;
        let why = match named.candidate.superblock() {
            Err(Some(why)) => format!("{label}: {why}"),
            _ => format!("{label}: it has no md superblock"),
        };
        let claim = named.candidate.found.first().and_then(|found| found.claim);
        let bare = named.candidate.found.is_empty().then_some(named.info.size);
        Self { label, why, claim, of: None, bare }
    }

    /// A device that could not be opened: it may be missing.
    fn because_of(label: &str, failure: &Failure) -> Self {
        let claim = if let Failure::Damaged { claim, .. } = failure { *claim } else { None };
        Self { label: label.to_owned(), why: failure.to_string(), claim, of: None, bare: None }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; going on without it", self.why)
    }
}

impl Set {
    /// The members of each array that there are superblocks of, in the order in which the first of each was named.
    /// Devices without a UUID go with the first array. A device that was left out and does not say
    /// to which array it belongs may be missing from any.
    pub(crate) fn by_array(self) -> Vec<Self> {
        let mut uuids: Vec<Uuid> = Vec::new();
        for uuid in self.members.iter().filter_map(Named::array) {
            if !uuids.contains(&uuid) {
                uuids.push(uuid);
            }
        }
        if uuids.len() < 2 {
            return vec![self];
        }
        let place = |of: Option<Uuid>| of.and_then(|of| uuids.iter().position(|uuid| *uuid == of));
        let mut sets: Vec<Self> = uuids.iter().map(|_| Self::default()).collect();
        let mut nested = self.nested;
        for named in self.members {
            let set = &mut sets[place(named.array()).unwrap_or(0)];
            if let Some(at) = nested.iter().position(|nested| nested.label == named.label) {
                set.nested.push(nested.remove(at));
            }
            set.members.push(named);
        }
        for left_out in self.left_out {
            match place(left_out.of.or(left_out.claim.map(|claim| claim.array))) {
                Some(at) => sets[at].left_out.push(left_out),
                None => sets.iter_mut().for_each(|set| set.left_out.push(left_out.clone())),
            }
        }
        sets
    }

    /// How messages name the array.
    pub(crate) fn array(&self) -> Option<ForeignArray> {
        let (superblock, _) = self.members.iter().find_map(|named| named.candidate.superblock().ok())?;
        Some(ForeignArray {
            uuid: superblock.set_uuid,
            name: superblock.name.clone(),
            members: self.members.iter().map(|named| named.label.clone()).collect(),
        })
    }

    fn take_or_leave_out(&mut self, name: &Path, opened: Result<Named, Failure>) -> Result<(), Failure> {
        let opened = self.or_leave_out(&name.display().to_string(), opened)?;
        self.members.extend(opened);
        Ok(())
    }

    /// The opened device, unless it is to be left out.
    fn or_leave_out(
        &mut self,
        label: &str,
        opened: Result<Named, Failure>,
    ) -> Result<Option<Named>, Failure> {
        match opened {
            Ok(named) => Ok(Some(named)),
            Err(failure) if is_missing_member(&failure) => {
                self.left_out.push(LeftOut::because_of(label, &failure));
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Devices without a superblock that can be used are done without, if any other has one.
    fn leave_out_unfit(&mut self) {
        if !self.members.iter().any(|named| named.candidate.superblock().is_ok()) {
            return;
        }
        let nested: Vec<String> = self.nested.iter().map(|nested| nested.label.clone()).collect();
        let stays = |named: &Named| !look::is_unfit(&named.candidate) || nested.contains(&named.label);
        let (fit, unfit) = core::mem::take(&mut self.members).into_iter().partition(stays);
        self.members = fit;
        self.left_out.extend(unfit.into_iter().map(LeftOut::unfit));
    }

    /// Adds the devices that were left out to the message of a failure, as a possible cause.
    pub(super) fn blame_left_out(&self, failure: Failure) -> Failure {
        if self.left_out.is_empty() {
            return failure;
        }
        let whys: Vec<&str> = self.left_out.iter().map(|left_out| left_out.why.as_str()).collect();
        let left_out = whys.join("; ");
        match failure {
            failure if failure.no_member_left() => Failure::Refused(format!("{left_out}; {GOOD_COPY}")),
            failure if failure.too_few() => {
                Failure::Without { source: Box::new(failure), left_out: format!("{left_out}; {GOOD_COPY}") }
            }
            // This message names the devices that were left out already.
            Failure::Newer { .. } => failure,
            failure => Failure::Without { source: Box::new(failure), left_out },
        }
    }
}

/// Reports on standard error, once, which devices are left out.
pub(crate) fn warn_of_left_out<'a>(sets: impl IntoIterator<Item = &'a Set>) {
    let mut reported: Vec<&str> = Vec::new();
    for left_out in sets.into_iter().flat_map(|set| &set.left_out) {
        if !reported.contains(&left_out.label.as_str()) {
            reported.push(&left_out.label);
            eprintln!("brindle: {left_out}");
        }
    }
}

impl World {
    /// Opens everything that is named, in order; each device must be another. A device that can't be read, or has a
    /// damaged superblock, is left out.
    pub(crate) fn open_all(&mut self, names: &[PathBuf]) -> Result<Set, Failure> {
        self.open_named(names, Self::open_member)
    }

    /// As [`World::open_all`], to be looked at. If any device has a superblock that can be used, devices without one, and devices that are too
    /// short, are left out, too.
    pub(crate) fn open_fit(&mut self, names: &[PathBuf]) -> Result<Set, Failure> {
        let mut set = self.open_named(names, Self::open_to_look)?;
        set.leave_out_unfit();
        Ok(set)
    }

    /// [`World::open_all`] for a use that needs every device, whatever is on them.
    pub(crate) fn open_each(&mut self, names: &[PathBuf]) -> Result<Set, Failure> {
        let set = self.open_named(names, Self::open_device)?;
        match set.left_out.first() {
            None => Ok(set),
            Some(left_out) => Err(Failure::Refused(left_out.why.clone())),
        }
    }

    fn open_named(
        &mut self,
        names: &[PathBuf],
        open: fn(&mut Self, &Path) -> Result<Named, Failure>,
    ) -> Result<Set, Failure> {
        if let Some(given) = assumed::given() {
            let mut set = self.open_those(&assumed::names(given), Self::open_device)?;
            assumed::put_on(given, &mut set)?;
            return Ok(set);
        }
        self.open_those(names, open)
    }

    fn open_those(
        &mut self,
        names: &[PathBuf],
        open: fn(&mut Self, &Path) -> Result<Named, Failure>,
    ) -> Result<Set, Failure> {
        self.shares.0 = 1 + names.iter().filter(|name| parts(name).is_some()).count() as u64;
        let mut set = Set::default();
        for name in names {
            let opened = match parts(name) {
                Some(parts) => self.open_array(&mut set, &name.display().to_string(), &parts),
                None => open(self, name),
            };
            match opened {
                // A disk whose partitions are members stands for those.
                Err(Failure::Partitioned { inside, .. }) => {
                    for name in &inside {
                        match open(self, name) {
                            // Of two superblocks of one place one is left over: that breaks no other array.
                            Err(twice @ Failure::Usage(_)) => {
                                set.left_out.push(LeftOut::because_of(&name.display().to_string(), &twice));
                            }
                            opened => set.take_or_leave_out(name, opened)?,
                        }
                    }
                }
                opened => set.take_or_leave_out(name, opened)?,
            }
        }
        self.let_go_of_others(&mut set, names);
        Ok(set)
    }

    /// The device that has this number.
    pub(super) fn device(&self, id: MemberId) -> Option<Opened> {
        self.devices.borrow().iter().find(|opened| opened.id == id).cloned()
    }

    /// Identity and name of each device that is open, or that was closed with operations in flight: writes among these may still land.
    pub(crate) fn known(&self) -> Vec<(Identity, PathBuf)> {
        let devices = self.devices.borrow();
        let open = devices.iter().filter(|opened| !opened.closed || self.io.orphans(opened.id) > 0);
        open.map(|opened| (opened.identity, opened.path.clone())).collect()
    }

    /// Opens a device that is to be a member of an array: one whose superblock is damaged is none.
    fn open_member(&mut self, path: &Path) -> Result<Named, Failure> {
        let seen = self.look_at(path)?;
        refuse_damaged(&seen.candidate)?;
        self.take(path, seen)
    }

    fn open_to_look(&mut self, path: &Path) -> Result<Named, Failure> {
        match self.open_member(path) {
            Err(Failure::Open(why)) if why.kind == DeviceErrorKind::Empty => {
                Err(Failure::Unfit { path: path.display().to_string(), why: why.kind.to_string() })
            }
            opened => opened,
        }
    }

    fn open_device(&mut self, path: &Path) -> Result<Named, Failure> {
        let seen = self.look_at(path)?;
        self.take(path, seen)
    }

    /// Opens a device and reads its superblocks, in a thread of its own: a device that hangs holds the caller it.
    fn look_at(&self, path: &Path) -> Result<Seen, Failure> {
        emulate::check(path)?;
        let known = self.known();
        let (access, name, label) = (self.options.access, path.to_owned(), path.display().to_string());
        let path = name.clone();
        let cut = self.options.cut;
        let (seen, reported) = self.ask(&label, move || {
            let seen = see(&path, access, &known)?;
            if cut == Cut::Refused { Ok((seen, None)) } else { seen.stretched() }
        })?;
        if let Some(reported) = reported.filter(|_| cut == Cut::Read) {
            eprintln!("brindle: {reported}");
        }
        self.search(&name, seen)
    }

    /// Asks a device something in a thread of its own, and waits as long as for any member.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        label: &str,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let patience = Duration::from_millis(self.options.tuning.patience.answer());
        let is_silent = self.silent.borrow().iter().any(|silent| silent == label);
        let answer = if is_silent {
            None
        } else {
            within(patience, work).map_err(|source| Failure::system(label, source))?
        };
        answer.unwrap_or_else(|| {
            let why = io::Error::new(io::ErrorKind::TimedOut, "it does not answer (--member-timeout)");
            Err(Failure::probe(label, why))
        })
    }

    /// The device is one of this world's from now on.
    pub(crate) fn take(&self, path: &Path, seen: Seen) -> Result<Named, Failure> {
        let Seen { device, candidate, is_zero } = seen;
        let (label, info) = (candidate.label.clone(), device.info());
        let id = self.add(path, device)?;
        let info = self.io.member_info(id).unwrap_or(info);
        Ok(Named { label, id, info, candidate, is_zero })
    }

    pub(crate) fn add(&self, path: &Path, device: OpenDevice) -> Result<MemberId, Failure> {
        let identity = device.identity();
        let locked = self.locks.add(&device);
        locked.map_err(|source| Failure::system(path.display().to_string(), source))?;
        let buffered = emulate::buffered(path, &device)?;
        let id = self.uring.add_member(device);
        if let Some(file) = buffered {
            emulate::begin(&self.io, &self.emulated, path, id, file)?;
        }
        self.devices.borrow_mut().push(Opened { identity, path: path.to_owned(), id, closed: false });
        Ok(id)
    }

    /// Opens an array and serves it as a member.
    fn open_array(&mut self, set: &mut Set, label: &str, parts: &[PathBuf]) -> Result<Named, Failure> {
        let mut members = Vec::with_capacity(parts.len());
        let before = set.left_out.len();
        for part in parts {
            let opened = self.open_member(part);
            let part = part.display().to_string();
            members.extend(set.or_leave_out(&part, opened)?);
        }
        match self.serve_array(set, label, members) {
            Ok(named) => {
                set.left_out[before..].iter_mut().for_each(|left_out| left_out.of = named.array());
                Ok(named)
            }
            Err(failure) => {
                let whys = set.left_out.drain(before..).map(|left_out| left_out.why);
                let whys: Vec<String> = std::iter::once(failure.to_string()).chain(whys).collect();
                Err(Failure::Nested { label: label.to_owned(), why: whys.join("; ") })
            }
        }
    }

    fn serve_array(&mut self, set: &mut Set, label: &str, members: Vec<Named>) -> Result<Named, Failure> {
        let assembled = self.form(&members, &set.left_out, self.options.force)?;
        let array = self.start(&assembled, &members)?;
        let id = nest::serve(&self.io, array.clone(), NESTED_SLOTS);
        let candidate = self.look(id, label)?;
        refuse_damaged(&candidate)?;
        set.nested.push(Nested { label: label.to_owned(), array, assembled, members });
        Ok(Named { info: candidate.member, label: label.to_owned(), id, candidate, is_zero: false })
    }
}

/// Opens a device that is none of those which are `known`, and reads its superblocks. Waits for the device.
pub(crate) fn see(path: &Path, access: DeviceAccess, known: &[(Identity, PathBuf)]) -> Result<Seen, Failure> {
    see_device(path, open_other(path, access, known)?)
}

/// Reads the superblocks of an open device, which may be a part of what its own path names. Waits for it.
pub(super) fn see_device(path: &Path, device: OpenDevice) -> Result<Seen, Failure> {
    let label = path.display().to_string();
    let candidate = look::candidate(&label, device.info(), look::reader(&device))?;
    beginning::tell_of_beginning(path, &candidate);
    if device.access() != DeviceAccess::Write && look::is_unfit(&candidate) {
        let inside = place::members_inside(path, &device)?;
        if !inside.is_empty() {
            return Err(Failure::Partitioned { path: label, inside });
        }
    }
    let is_zero = device.is_hole(0, device.info().size).unwrap_or(false);
    Ok(Seen { device, candidate, is_zero })
}

/// Opens a device that is not among the `known` ones. Waits for the device.
pub(super) fn open_other(
    path: &Path,
    access: DeviceAccess,
    known: &[(Identity, PathBuf)],
) -> Result<OpenDevice, Failure> {
    // A second lock on a device would be refused as another Brindle's.
    if access != DeviceAccess::Examine
        && let Ok(device) = place::open(path, DeviceAccess::Examine)
    {
        refuse_twice(&device, known)?;
    }
    let device = place::open(path, access)?;
    refuse_twice(&device, known)?;
    Ok(device)
}

/// Refuses a device that is one of those which are `known`.
pub(super) fn refuse_twice(device: &OpenDevice, known: &[(Identity, PathBuf)]) -> Result<(), Failure> {
    let path = device.path();
    match known.iter().find(|(identity, _)| *identity == device.identity()) {
        None => Ok(()),
        Some((_, first)) => Err(Failure::Usage(format!(
            "{} and {} are the same device: name each member once",
            first.display(),
            path.display()
        ))),
    }
}

fn refuse_damaged(candidate: &Candidate) -> Result<(), Failure> {
    let Some((why, claim)) = candidate.damage() else { return Ok(()) };
    Err(Failure::Damaged { path: candidate.label.clone(), why: why.clone(), claim })
}

/// Whether an array can be asked to do without what failed like this. A wrong name, a lock, a missing permission are for
/// the user to put right.
fn is_missing_member(failure: &Failure) -> bool {
    match failure {
        Failure::Probe { .. } | Failure::Damaged { .. } | Failure::Nested { .. } | Failure::Unfit { .. } => {
            true
        }
        Failure::Open(DeviceError { kind: DeviceErrorKind::Failed(_), source: Some(source), .. }) => {
            is_broken(source)
        }
        _ => false,
    }
}

/// Whether the kernel's error means that the device is there in name only.
fn is_broken(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let broken = [Errno::IO, Errno::NXIO, Errno::NODEV, Errno::NOMEDIUM, Errno::TIMEDOUT];
    Errno::from_io_error(error).is_some_and(|errno| broken.contains(&errno))
}
