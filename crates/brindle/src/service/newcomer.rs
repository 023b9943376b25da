//! Devices that are to come to an array: how, what they are held against, and what becomes of them.

use std::path::{Path, PathBuf};

use brindle_array::{Joined, NotTaken};
use brindle_io::device::{DeviceAccess, Identity, OpenDevice};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::look;
use crate::world::{self, Seen, see};

/// A device that was looked at, and may come to an array.
pub(crate) struct Newcomer {
    pub(super) seen: Seen,
    /// Its file when all links are followed.
    pub(super) file: Option<PathBuf>,
}

impl Newcomer {
    /// As it was named.
    pub(crate) fn label(&self) -> &str {
        &self.seen.candidate.label
    }

    /// Its file when all links are followed.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.file.clone()
    }

    /// What tells it from others.
    pub(crate) fn identity(&self) -> Identity {
        self.seen.device.identity()
    }

    /// The event count of its superblock.
    pub(crate) fn events(&self) -> u64 {
        self.seen.candidate.superblock().map_or(0, |(superblock, _)| superblock.events)
    }
}

/// Opens a device and looks at what stands on it, so that it may come to an array, unless it is one of those that are `known`. Waits
/// for it.
pub(crate) fn newcomer(name: &Path, known: &[(Identity, PathBuf)]) -> Result<Newcomer, Failure> {
    let seen = see(name, DeviceAccess::Write, known)?;
    Ok(Newcomer { seen, file: std::fs::canonicalize(name).ok() })
}

/// How devices are to come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Coming {
    /// What stands on them may be lost.
    pub(crate) force: bool,
    /// As the members that they were, or not at all.
    pub(crate) re_add: bool,
}

/// What a newcomer is held against.
pub(crate) struct Terms {
    /// Devices that this process has, and what each is.
    pub(crate) known: Vec<(Identity, String)>,
    pub(crate) coming: Coming,
}

/// What has become of a device that came, for programs.
pub(crate) fn joined(label: &str, joined: &Joined) -> Value {
    let (role, why) = match joined {
        Joined::Member { role } => (Some(role), None),
        Joined::Spare { why } => (None, why.as_ref()),
    };
    let (reason, why) = (why.map(NotTaken::word), why.map(ToString::to_string));
    json!({"path": label, "role": role, "reason": reason, "why": why})
}

impl Terms {
    /// Opens devices and looks at what stands on them. Waits for them.
    ///
    /// # Errors
    /// The first that can't be had, by name: it is not there, is in use, or holds what would be lost.
    pub(crate) fn look_at(&self, names: &[PathBuf]) -> Result<Vec<Newcomer>, Failure> {
        let mut opened = Vec::with_capacity(names.len());
        let mut newcomers = Vec::with_capacity(names.len());
        for name in names {
            self.refuse_known(name)?;
            let newcomer = newcomer(name, &opened)?;
            self.refuse_occupied(&newcomer.seen)?;
            opened.push((newcomer.seen.device.identity(), name.clone()));
            newcomers.push(newcomer);
        }
        Ok(newcomers)
    }

    fn refuse_known(&self, name: &Path) -> Result<(), Failure> {
        let Ok(device) = OpenDevice::open(world::file_of(name), DeviceAccess::Examine) else { return Ok(()) };
        match self.known.iter().find(|(identity, _)| *identity == device.identity()) {
            Some((_, what)) => Err(Failure::Refused(format!("{}: it is {what}", name.display()))),
            None => Ok(()),
        }
    }

    /// What stands on a device of this array is the array's, or was; other arrays are the engine's to refuse.
    fn refuse_occupied(&self, seen: &Seen) -> Result<(), Failure> {
        // What is no former member is not written to if it is to be taken as one.
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
