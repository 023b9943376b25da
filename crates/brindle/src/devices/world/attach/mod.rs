//! Volumes as devices of the kernel of this machine: /dev/nbdN, on sockets that this process makes.
//!
//! The kernel is asked over generic netlink ([`netlink`]) and keeps one end of each pair of sockets. Whatever asks it waits for the
//! answer, in a thread of its own.

mod message;
mod netlink;
mod reclaim;
mod udev;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brindle_host::{Attacher, Naming, Pending, Refused, Serving, WantedDevice, mailbox};
use brindle_io::Io;
use brindle_io::uring::Uring;
use rustix::fs::{Mode, OFlags};

use message::Wanted;
use netlink::Driver;

/// Where the kernel tells of its block devices.
const BLOCK: &str = "/sys/block";

/// The kernel, as a host has its devices made.
pub(crate) struct Kernel {
    pub(crate) io: Io,
    pub(crate) uring: Uring,
}

impl Kernel {
    /// Makes connections and has the server's end of each served; gives the kernel's.
    fn connections(&self, count: u8, serve: &Serving) -> Result<Vec<OwnedFd>, String> {
        let (own, theirs) = netlink::pairs(count)?;
        own.into_iter().for_each(|socket| serve(self.uring.add_stream(socket)));
        Ok(theirs)
    }

    /// Asks the driver for something about a device, in a thread of its own.
    fn ask<T: Send + 'static>(
        &self,
        index: Option<u32>,
        wanted: WantedDevice,
        serve: &Serving,
        ask: impl FnOnce(&Driver, &Wanted) -> Result<T, String> + Send + 'static,
    ) -> Pending<Result<T, Refused>> {
        let theirs = match self.connections(wanted.connections, serve) {
            Ok(theirs) => theirs,
            Err(why) => return Box::pin(async { Err(Refused::new(why)) }),
        };
        let wanted = Wanted { index, device: wanted, sockets: netlink::numbers(&theirs) };
        let asked = mailbox::on_thread(&self.io, "attach", move || {
            // The kernel has taken its own handles when it answers.
            let _theirs = theirs;
            ask(&Driver::find()?, &wanted)
        });
        Box::pin(async { asked.await.map_err(Refused::new) })
    }
}

impl Attacher for Kernel {
    fn prepare(&self) -> Result<(), Refused> {
        reclaim::serve_own_host().map_err(Refused::new)
    }

    fn make(
        &self,
        index: Option<u32>,
        wanted: WantedDevice,
        serve: Serving,
    ) -> Pending<Result<u32, Refused>> {
        self.ask(index, wanted, &serve, Driver::connect)
    }

    fn connect_again(
        &self,
        index: u32,
        wanted: WantedDevice,
        serve: Serving,
    ) -> Pending<Result<(), Refused>> {
        self.ask(Some(index), wanted, &serve, move |driver, wanted| driver.reconfigure(index, wanted))
    }

    fn resize(&self, index: u32, size: u64, identifier: String) -> Pending<Result<(), Refused>> {
        let told = mailbox::on_thread(&self.io, "attach", move || {
            let told = Driver::find().and_then(|driver| driver.resize(index, size, &identifier));
            udev::announce(Path::new(BLOCK), index);
            told
        });
        Box::pin(async move { told.await.map_err(Refused::new) })
    }

    fn end(&self, index: u32) -> Pending<Result<(), Refused>> {
        let waits = Arc::new(());
        let caller = Arc::downgrade(&waits);
        let ended = mailbox::on_thread(&self.io, "detach", move || {
            let device = format!("/dev/nbd{index}");
            if is_in_use(Path::new(&device)) {
                return Err(in_use(&device));
            }
            // The caller has said already that it is left as it is.
            if caller.strong_count() == 0 {
                return Ok(());
            }
            Driver::find()?.disconnect(index)?;
            udev::announce(Path::new(BLOCK), index);
            Ok(())
        });
        Box::pin(async move {
            let _waits = waits;
            ended.await.map_err(Refused::new)
        })
    }

    fn is_there(&self, index: u32) -> Pending<bool> {
        Box::pin(mailbox::on_thread(&self.io, "attach", move || is_there(Path::new(BLOCK), index)))
    }

    fn devices_of(&self, key: String) -> Pending<Vec<(u32, String)>> {
        Box::pin(mailbox::on_thread(&self.io, "attach", move || devices_of(Path::new(BLOCK), &key)))
    }

    fn name(&self, devices: Vec<(u32, String)>) -> Pending<Vec<Naming>> {
        Box::pin(mailbox::on_thread(&self.io, "udev", move || {
            udev::name(Path::new(BLOCK), &devices);
            devices.iter().map(|(index, identifier)| udev::naming(*index, identifier)).collect()
        }))
    }

    fn unname(&self, index: u32, identifier: String) -> Pending<()> {
        Box::pin(mailbox::on_thread(&self.io, "udev", move || {
            udev::unname(Path::new(BLOCK), index, &identifier);
        }))
    }
}

/// Whether a block device is in exclusive use: a mount, a swap space, another device on it.
pub(crate) fn is_in_use(device: &Path) -> bool {
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

/// The refusal to end a device that is in use, with the places where it is mounted.
pub(crate) fn in_use(device: &str) -> String {
    let mounts = mounts_of(Path::new(device));
    let mounted =
        if mounts.is_empty() { String::new() } else { format!(" (mounted at {})", mounts.join(", ")) };
    format!("{device} is in use{mounted}: unmount it first, and end what has it open")
}

/// Devices whose identifier begins with a word: their numbers, and the whole identifiers.
fn devices_of(block: &Path, key: &str) -> Vec<(u32, String)> {
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

/// Whether the driver has a device of this number: the process that made it is shown as long as it is there.
fn is_there(block: &Path, index: u32) -> bool {
    block.join(format!("nbd{index}")).join("pid").exists()
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
        assert!(!is_there(&block, 12));
        std::fs::write(block.join("nbd12").join("pid"), "1\n").unwrap();
        assert!(is_there(&block, 12) && !is_there(&block, 1));
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
}
