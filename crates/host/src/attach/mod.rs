//! Volumes as devices of the kernel: /dev/nbdN, on sockets that the server makes itself.
//!
//! The kernel is asked over generic netlink ([`netlink`]) and keeps one end of each pair of sockets. The other is a client of the NBD
//! server that has chosen its export already. Each device carries an identifier, so that a server that starts anew finds it: requests
//! wait in the kernel until it has new connections, up to a time.

mod message;
mod netlink;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use brindle_export::nbd::proto::Terms;
use rustix::fs::{Mode, OFlags};

pub(crate) use message::Wanted;
pub(crate) use netlink::{Driver, pairs};

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

/// Whether somebody has a block device for himself: a mount, a swap space, another device on it.
pub fn is_in_use(device: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::open(device, flags, Mode::empty()).err() == Some(rustix::io::Errno::BUSY)
}

/// Numbers of the devices that carry an identifier.
pub(crate) fn devices_of(block: &Path, identifier: &str) -> Vec<u32> {
    let entries = std::fs::read_dir(block).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let own = |name: &String| {
        let file: PathBuf = block.join(name).join("backend");
        std::fs::read_to_string(file).is_ok_and(|text| text.trim_end() == identifier)
    };
    names.filter(own).filter_map(|name| name.strip_prefix("nbd")?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_found_by_what_they_carry() {
        let block = std::env::temp_dir().join(format!("brindle-attach-{}", std::process::id()));
        for (name, text) in
            [("nbd0", "brindle:1:2\n"), ("nbd12", "brindle:1:3\n"), ("nbdx", "brindle:1:2\n"), ("sda", "")]
        {
            std::fs::create_dir_all(block.join(name)).unwrap();
            std::fs::write(block.join(name).join("backend"), text).unwrap();
        }
        assert_eq!(devices_of(&block, "brindle:1:2"), [0]);
        assert_eq!(devices_of(&block, "brindle:1:3"), [12]);
        assert_eq!(devices_of(&block, "brindle:9"), [0; 0]);
        std::fs::remove_dir_all(&block).unwrap();
    }
}
