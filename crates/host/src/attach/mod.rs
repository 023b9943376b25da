//! Volumes as devices of the kernel: /dev/nbdN, on sockets that the server makes itself.
//!
//! The kernel is asked over generic netlink ([`netlink`]) and keeps one end of each pair of sockets. The other is a client of the NBD
//! server that has chosen its export already. Each device carries an identifier, so that a server that starts anew finds it: requests
//! wait in the kernel until it has new connections, up to a time.

mod message;
mod netlink;
mod reclaim;
mod udev;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use brindle_export::nbd::proto::Terms;
use rustix::fs::{Mode, OFlags};

pub(crate) use message::Wanted;
pub(crate) use netlink::{Driver, pairs};
pub(crate) use reclaim::serve_own_host;
pub(crate) use udev::{Naming, announce, name, unname};

/// The most connections of a device.
pub const MOST_CONNECTIONS: u8 = 8;

/// A device of the kernel that has a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The export.
    pub export: String,
    /// Its number: /dev/nbdN.
    pub index: u32,
}

impl Attached {
    /// Its name.
    pub fn device(&self) -> String {
        format!("/dev/nbd{}", self.index)
    }
}

/// A device that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attaching {
    pub(crate) index: Option<u32>,
    pub(crate) connections: u8,
    /// Seconds.
    pub(crate) dead_timeout: u64,
}

/// Seconds for which requests of a device wait when its server is gone, if nobody said otherwise.
pub const DEAD_TIMEOUT: u64 = 300;

/// The question for a device of an export.
pub(crate) fn wanted(terms: &Terms, how: Attaching, identifier: String, theirs: &[OwnedFd]) -> Wanted {
    Wanted {
        index: how.index,
        size: terms.limits.size,
        block: u64::from(terms.limits.block.clamp(512, 4096)),
        flags: terms.transmission_flags(),
        dead_timeout: how.dead_timeout,
        identifier,
        sockets: netlink::numbers(theirs),
    }
}

/// The identifier that a device carries: by its first word a server finds it again, by its second udev names it below /dev/brindle.
///
/// Names come from disks: all but letters, digits and `+-_.` is replaced, so that no name leads out of that folder.
pub(crate) fn identifier(key: &str, export: &str) -> String {
    let safe = |part: &str| -> String {
        let harmless = |c: char| c.is_ascii_alphanumeric() || "+-_.".contains(c);
        let part: String = part.chars().map(|c| if harmless(c) { c } else { '_' }).collect();
        if part.is_empty() || part.starts_with('.') { format!("_{part}") } else { part }
    };
    let name = match export.split_once('/') {
        Some((pool, volume)) => format!("{}/{}", safe(pool), safe(volume)),
        None => safe(export),
    };
    format!("{key} {name}")
}

/// Whether somebody has a block device for himself: a mount, a swap space, another device on it.
pub fn is_in_use(device: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::open(device, flags, Mode::empty()).err() == Some(rustix::io::Errno::BUSY)
}

/// Where a block device, or a partition of it, is mounted.
fn mounts_of(device: &Path) -> Vec<String> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts_in(&text, &device.to_string_lossy(), |source| std::fs::canonicalize(source).ok())
}

fn mounts_in(text: &str, device: &str, real: impl Fn(&str) -> Option<PathBuf>) -> Vec<String> {
    let is_part = |rest: &str| {
        rest.strip_prefix('p').is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let is_it = |source: &str| {
        let file = real(source).map(|file| file.to_string_lossy().into_owned());
        let file = file.unwrap_or_else(|| source.to_owned());
        file.strip_prefix(device).is_some_and(|rest| rest.is_empty() || is_part(rest))
    };
    let place = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let source = after.split(' ').nth(1).filter(|source| source.starts_with('/'))?;
        is_it(source).then(|| before.split(' ').nth(4).unwrap_or_default().to_owned())
    };
    text.lines().filter_map(place).collect()
}

/// A device that somebody has, with the places where it is mounted.
pub fn in_use(device: &str) -> String {
    let mounts = mounts_of(Path::new(device));
    let mounted =
        if mounts.is_empty() { String::new() } else { format!(" (mounted at {})", mounts.join(", ")) };
    format!("{device} is in use{mounted}: unmount it first, and end what has it open")
}

/// Devices whose identifier begins with a word: their numbers, and the whole identifiers.
pub(crate) fn devices_of(block: &Path, key: &str) -> Vec<(u32, String)> {
    let entries = std::fs::read_dir(block).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let own = |name: String| {
        let file: PathBuf = block.join(&name).join("backend");
        let text = std::fs::read_to_string(file).ok()?.trim_end_matches('\n').to_owned();
        let index = name.strip_prefix("nbd")?.parse().ok()?;
        (text.split(' ').next() == Some(key)).then_some((index, text))
    };
    names.filter_map(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_found_by_what_they_carry() {
        let block = std::env::temp_dir().join(format!("brindle-attach-{}", std::process::id()));
        for (name, text) in
            [("nbd0", "brindle:1:2 a\n"), ("nbd12", "brindle:1:3\n"), ("nbdx", "brindle:1:2\n"), ("sda", "")]
        {
            std::fs::create_dir_all(block.join(name)).unwrap();
            std::fs::write(block.join(name).join("backend"), text).unwrap();
        }
        assert_eq!(devices_of(&block, "brindle:1:2"), [(0, "brindle:1:2 a".to_owned())]);
        assert_eq!(devices_of(&block, "brindle:1:3"), [(12, "brindle:1:3".to_owned())]);
        assert_eq!(devices_of(&block, "brindle:1"), []);
        std::fs::remove_dir_all(&block).unwrap();
    }

    #[test]
    fn mounts_of_a_device_and_its_partitions_are_found() {
        let text = "36 28 43:0 / /srv rw,relatime shared:1 - ext4 /dev/brindle/data rw\n\
                    37 28 43:1 / /boot rw - ext4 /dev/nbd0p1 rw\n\
                    38 28 43:32 / /other rw - ext4 /dev/nbd01 rw\n\
                    39 28 0:5 / /tmp rw - tmpfs /dev/nbd0 rw\nodd line\n - \n";
        let real = |source: &str| (source == "/dev/brindle/data").then(|| PathBuf::from("/dev/nbd0"));
        assert_eq!(mounts_in(text, "/dev/nbd0", real), ["/srv", "/boot", "/tmp"]);
        assert!(mounts_in(text, "/dev/nbd7", real).is_empty());
    }

    #[test]
    fn no_name_leads_out_of_its_folder() {
        for (export, name) in [
            ("data", "data"),
            ("tank/vm 1", "tank/vm_1"),
            ("../../sda", "_../_.._sda"),
            ("tank/../x", "tank/_.._x"),
            ("a\nb\" $(x)", "a_b____x_"),
            ("", "_"),
        ] {
            assert_eq!(identifier("brindle:1", export), format!("brindle:1 {name}"));
        }
    }
}
