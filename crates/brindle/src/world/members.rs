//! What is named on the command line: devices, and arrays in the place of devices. What can't be read, or is no array, is
//! a member that is missing: the others may do without it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brindle_array::assembly::{Assembly, AssemblyError, Candidate, Claim, LeftOut as Why};
use brindle_array::{Array, nest};
use brindle_io::device::{Access, Device, Identity, OpenError, OpenErrorKind};
use brindle_io::{MemberId, MemberInfo};

use super::{Opened, World};
use crate::failure::Failure;
use crate::within::within;
use crate::{look, report};

/// Requests to an array that is a member, carried out at the same time.
const NESTED_SLOTS: usize = 64;

/// What helps where too few members are left.
const GOOD_COPY: &str = "give a good copy of what is left out, or more of the other members";

/// Joins the members of an array that is itself a member: `m0+m1+m2`.
const JOIN: char = '+';

/// A device, or an array in its place, that was named on the command line.
pub(crate) struct Named {
    pub(crate) label: String,
    pub(crate) id: MemberId,
    pub(crate) info: MemberInfo,
    pub(crate) candidate: Candidate,
    /// A file that is known to read as zeroes.
    pub(crate) is_zero: bool,
}

/// A device and what stands on it.
struct Seen {
    device: Device,
    candidate: Candidate,
    is_zero: bool,
}

/// An array that is a member.
pub(crate) struct Nested {
    /// As it was named: `a+b+c`.
    pub(crate) label: String,
    pub(crate) array: Array,
    pub(crate) assembly: Assembly,
}

/// Something that was named and is done without.
#[derive(Clone, Debug)]
pub(crate) struct LeftOut {
    /// As it was named.
    pub(crate) label: String,
    /// Why.
    pub(crate) why: String,
    /// What its damaged superblock says of itself.
    pub(super) claim: Option<Claim>,
}

impl LeftOut {
    /// An array that is no working part of the one above it.
    pub(super) fn of(label: &str, why: Why) -> Self {
        Self {
            label: label.to_owned(),
            why: format!("{label}: is {} in the array above it", report::left_out(why)),
            claim: None,
        }
    }

    /// What could not be opened, and may be missing.
    fn because_of(label: &str, failure: &Failure) -> Self {
        let claim = if let Failure::Damaged { claim, .. } = failure { *claim } else { None };
        Self { label: label.to_owned(), why: failure.to_string(), claim }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; going on without it", self.why)
    }
}

impl World {
    /// Opens everything that is named, in order; each device must be another. What can't be read, or has a damaged
    /// superblock, is left out.
    pub(crate) fn open_all(&mut self, names: &[PathBuf]) -> Result<Vec<Named>, Failure> {
        self.open_named(names, Self::open_member)
    }

    /// As [`World::open_all`], whatever stands there, for a use that can do without none of them.
    pub(crate) fn open_each(&mut self, names: &[PathBuf]) -> Result<Vec<Named>, Failure> {
        let members = self.open_named(names, Self::open_device)?;
        match self.left_out.first() {
            None => Ok(members),
            Some(left_out) => Err(Failure::Refused(left_out.why.clone())),
        }
    }

    fn open_named(
        &mut self,
        names: &[PathBuf],
        open: fn(&mut Self, &Path) -> Result<Named, Failure>,
    ) -> Result<Vec<Named>, Failure> {
        self.arrays = 1 + names.iter().filter(|name| parts(name).is_some()).count() as u64;
        let mut members = Vec::with_capacity(names.len());
        for name in names {
            let label = name.display().to_string();
            let opened = match parts(name) {
                Some(parts) => self.open_array(&label, &parts),
                None => open(self, name),
            };
            members.extend(self.or_leave_out(&label, opened)?);
        }
        Ok(members)
    }

    /// What was opened, if it is not to be left out.
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

    /// Names what was left out as a cause of what went wrong without it.
    pub(super) fn blame_left_out(&self, failure: Failure) -> Failure {
        if self.left_out.is_empty() {
            return failure;
        }
        let whys: Vec<&str> = self.left_out.iter().map(|left_out| left_out.why.as_str()).collect();
        let left_out = whys.join("; ");
        match failure {
            // Nothing is left to speak of.
            Failure::Assembly(AssemblyError::Empty) => Failure::Refused(format!("{left_out}; {GOOD_COPY}")),
            Failure::Assembly(AssemblyError::TooFewMembers { .. } | AssemblyError::NoMember { .. }) => {
                Failure::Without { source: Box::new(failure), left_out: format!("{left_out}; {GOOD_COPY}") }
            }
            // It names what was left out.
            Failure::Newer { .. } => failure,
            failure => Failure::Without { source: Box::new(failure), left_out },
        }
    }

    /// What was left out with a damaged superblock that says it is newer than all that `assembly` has: the others may
    /// lack what was written to it last.
    pub(super) fn refuse_older(&self, assembly: &Assembly) -> Result<(), Failure> {
        let newer = |claim: Claim| {
            // One change apart is what a crash leaves.
            claim.array == assembly.uuid && claim.events > assembly.events.saturating_add(1)
        };
        let newest =
            self.left_out.iter().find_map(|left_out| Some((left_out, left_out.claim.filter(|c| newer(*c))?)));
        let Some((left_out, claim)) = newest else { return Ok(()) };
        Err(Failure::Newer { why: left_out.why.clone(), says: claim.events, others: assembly.events })
    }

    /// Opens a device that is to be a member of an array: one whose superblock is damaged is none.
    fn open_member(&mut self, path: &Path) -> Result<Named, Failure> {
        let seen = self.look_at(path)?;
        refuse_damaged(&seen.candidate)?;
        self.take(path, seen)
    }

    fn open_device(&mut self, path: &Path) -> Result<Named, Failure> {
        let seen = self.look_at(path)?;
        self.take(path, seen)
    }

    /// Opens a device and reads its superblocks, in a thread of its own: a device that hangs holds whoever asks it.
    fn look_at(&self, path: &Path) -> Result<Seen, Failure> {
        let known = |opened: &Opened| (opened.identity, opened.path.clone());
        let known: Vec<_> = self.devices.iter().map(known).collect();
        let (access, path, label) = (self.opening.access, path.to_owned(), path.display().to_string());
        let patience = Duration::from_millis(self.opening.tuning.patience.member_timeout.0);
        let seen = within(patience, move || {
            refuse_twice(&path, &known)?;
            let device = Device::open(&path, access)?;
            let label = path.display().to_string();
            let candidate = look::candidate(&label, device.info(), look::reader(&device))?;
            let is_zero = device.is_hole(0, device.info().size).unwrap_or(false);
            Ok(Seen { device, candidate, is_zero })
        });
        seen.map_err(|source| Failure::system(&*label, source))?.unwrap_or_else(|| {
            let why = io::Error::new(io::ErrorKind::TimedOut, "it does not answer (--member-timeout)");
            Err(Failure::probe(&label, why))
        })
    }

    fn take(&mut self, path: &Path, seen: Seen) -> Result<Named, Failure> {
        let Seen { device, candidate, is_zero } = seen;
        let (label, info) = (candidate.label.clone(), device.info());
        let identity = device.identity();
        self.locks.add(&device).map_err(|source| Failure::system(&*label, source))?;
        let id = self.uring.add_member(device);
        self.devices.push(Opened { identity, path: path.to_owned(), id });
        Ok(Named { label, id, info, candidate, is_zero })
    }

    /// Opens an array and serves it as a member.
    fn open_array(&mut self, label: &str, parts: &[PathBuf]) -> Result<Named, Failure> {
        let mut members = Vec::with_capacity(parts.len());
        let before = self.left_out.len();
        for part in parts {
            let opened = self.open_member(part);
            let part = part.display().to_string();
            members.extend(self.or_leave_out(&part, opened)?);
        }
        let opened = self.serve_array(label, &members);
        opened.map_err(|failure| {
            let whys = self.left_out.drain(before..).map(|left_out| left_out.why);
            let whys: Vec<String> = std::iter::once(failure.to_string()).chain(whys).collect();
            Failure::Nested { label: label.to_owned(), why: whys.join("; ") }
        })
    }

    fn serve_array(&mut self, label: &str, members: &[Named]) -> Result<Named, Failure> {
        let assembly = self.form(members, self.opening.force)?;
        let array = self.start(assembly.clone(), members)?;
        let id = nest::serve(&self.io, array.clone(), NESTED_SLOTS);
        let candidate = self.look(id, label)?;
        refuse_damaged(&candidate)?;
        self.nested.push(Nested { label: label.to_owned(), array, assembly });
        Ok(Named { info: candidate.member, label: label.to_owned(), id, candidate, is_zero: false })
    }
}

/// Told before a second lock on the device would be refused as another Brindle's.
fn refuse_twice(path: &Path, known: &[(Identity, PathBuf)]) -> Result<(), Failure> {
    let Ok(device) = Device::open(path, Access::Examine) else { return Ok(()) };
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
        Failure::Probe { .. } | Failure::Damaged { .. } | Failure::Nested { .. } => true,
        Failure::Open(OpenError { kind: OpenErrorKind::Failed(_), source: Some(source), .. }) => {
            is_broken(source)
        }
        _ => false,
    }
}

/// What the kernel says of a device that is there in name only.
fn is_broken(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let broken = [Errno::IO, Errno::NXIO, Errno::NODEV, Errno::NOMEDIUM, Errno::TIMEDOUT];
    Errno::from_io_error(error).is_some_and(|errno| broken.contains(&errno))
}

/// The members of an array that is itself named as a member. A file whose name has the sign in it is a file.
fn parts(name: &Path) -> Option<Vec<PathBuf>> {
    let text = name.to_str()?;
    (text.contains(JOIN) && !name.exists()).then(|| text.split(JOIN).map(PathBuf::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_names_are_an_array_unless_a_file_is_called_so() {
        assert_eq!(parts(Path::new("a+b")), Some(vec!["a".into(), "b".into()]));
        assert_eq!(parts(Path::new("/dev/sda")), None);
        let file = std::env::temp_dir().join(format!("brindle+{}", std::process::id()));
        std::fs::write(&file, b"").unwrap();
        assert_eq!(parts(&file), None);
        std::fs::remove_file(&file).unwrap();
    }
}
