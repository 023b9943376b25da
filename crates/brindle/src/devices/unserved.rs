//! Arrays and pools that can't be served: a daemon goes on without them, and any other command ends.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use brindle_io::device::DeviceErrorKind;

use crate::base::deadline::within;
use crate::base::failure::Failure;
use crate::base::text::shell;

/// Time that the search for users of a device may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most users of a device that are named.
const MOST_USERS: usize = 3;

/// The handling of an array or a pool that can't be served.
pub(crate) struct Unserved {
    goes_on: bool,
    /// UUIDs and reasons.
    left: RefCell<Vec<(String, String)>>,
}

impl Unserved {
    /// One that can't be served ends the command.
    pub(crate) fn ends() -> Self {
        Self { goes_on: false, left: RefCell::default() }
    }

    /// The others are served.
    pub(crate) fn is_left() -> Self {
        Self { goes_on: true, ..Self::ends() }
    }

    /// Goes on without it, and reports the reason.
    ///
    /// # Errors
    /// The failure, if it ends the command.
    pub(crate) fn leave(&self, name: &str, uuid: &str, failure: Failure) -> Result<(), Failure> {
        if !self.goes_on {
            return Err(failure);
        }
        let why = with_user(&failure);
        eprintln!("brindle: {} is not served: {why}", name.escape_debug());
        self.left.borrow_mut().push((uuid.to_owned(), why));
        Ok(())
    }

    /// The reason why what has this UUID is not served.
    pub(crate) fn why(&self, uuid: &str) -> Option<String> {
        self.left.borrow().iter().find(|(left, _)| left == uuid).map(|(_, why)| why.clone())
    }
}

/// A failure in words, with the users of the device that is in use.
pub(crate) fn with_user(failure: &Failure) -> String {
    let Some(device) = taken(failure) else { return failure.to_string() };
    let users = users_of(device);
    if !users.is_empty() {
        return format!("{failure} (it is used by {})", users.join(", "));
    }
    // A service may not look into other processes as its unit confines it.
    let is_blind = std::fs::read_dir("/proc/1/fd").is_err();
    let device = shell(&device.display().to_string());
    let advice =
        if is_blind { format!(" (`fuser -v {device}` as root names the process)") } else { String::new() };
    format!("{failure}{advice}")
}

/// The device that another program has in use.
fn taken(failure: &Failure) -> Option<&Path> {
    match failure {
        Failure::Open(why) if matches!(why.kind, DeviceErrorKind::InUse | DeviceErrorKind::Busy) => {
            Some(Path::new(&why.path))
        }
        Failure::Without { source, .. } | Failure::Cut { source, .. } | Failure::OneOf { source, .. } => {
            taken(source)
        }
        _ => None,
    }
}

/// Mounts, devices and processes that use a file or a block device, for people.
fn users_of(device: &Path) -> Vec<String> {
    let device = device.to_owned();
    within(PATIENCE, move || {
        let mut all = of_the_kernel(&device);
        all.extend(processes(&device));
        all.truncate(MOST_USERS);
        all
    })
    .ok()
    .flatten()
    .unwrap_or_default()
}

/// `/dev/md0`, and places where it is mounted.
pub(crate) fn of_the_kernel(device: &Path) -> Vec<String> {
    let Some(number) = std::fs::metadata(device).ok().filter(|meta| meta.file_type().is_block_device())
    else {
        return Vec::new();
    };
    let (major, minor) = (rustix::fs::major(number.rdev()), rustix::fs::minor(number.rdev()));
    let sys = std::path::PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let holders = std::fs::read_dir(sys.join("holders")).into_iter().flatten().flatten();
    let mut all: Vec<String> =
        holders.map(|one| format!("/dev/{}", one.file_name().to_string_lossy().escape_debug())).collect();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let number = format!("{major}:{minor}");
    let is_it = |line: &&str| line.split(' ').nth(2) == Some(&number);
    let places = mounts.lines().filter(is_it).filter_map(|line| line.split(' ').nth(4));
    all.extend(places.map(|place| format!("the mount {}", place.escape_debug())));
    all
}

/// Processes that have it open, but for this one.
fn processes(device: &Path) -> Vec<String> {
    let Ok(own) = std::fs::metadata(device) else { return Vec::new() };
    let is_it = |open: &std::fs::Metadata| {
        let is_same = (open.dev(), open.ino()) == (own.dev(), own.ino());
        is_same
            || own.file_type().is_block_device()
                && open.file_type().is_block_device()
                && open.rdev() == own.rdev()
    };
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let open = std::fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
        let has = |fd: std::fs::DirEntry| std::fs::metadata(fd.path()).is_ok_and(|open| is_it(&open));
        if pid != std::process::id() && open.into_iter().any(has) {
            found.insert(pid);
        }
    }
    let named = |pid: u32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("process {pid} ({})", name.trim_end().escape_debug())
    };
    found.into_iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_left_is_known_by_its_uuid_and_ends_other_commands() {
        let failure = || Failure::Refused("it is torn".to_owned());
        let daemon = Unserved::is_left();
        daemon.leave("a", "1:2", failure()).unwrap();
        assert_eq!((daemon.why("1:2").as_deref(), daemon.why("3:4")), (Some("it is torn"), None));
        assert!(Unserved::ends().leave("a", "1:2", failure()).is_err());
    }
}
