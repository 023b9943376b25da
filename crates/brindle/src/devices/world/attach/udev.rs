//! The names that udev gives to devices: it is told of a device anew, since the kernel told of it before it had its identifier, and
//! its answer is waited for. Without that a command that follows would not find the name.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use brindle_host::Naming;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{self, AddressFamily, RecvFlags, SocketFlags, SocketType, sockopt};

/// The folder of the names.
const NAMES: &str = "/dev/brindle";
/// Where udev takes orders, while it runs.
const CONTROL: &str = "/run/udev/control";
/// The group that hears of events that udev has carried out.
const CARRIED_OUT: u32 = 2;
/// Time that udev has for all devices that it is told of at once.
const PATIENCE: Duration = Duration::from_secs(5);
/// From then on names that are there do, though nothing was heard: udev is not heard from another network namespace.
const UNHEARD: Duration = Duration::from_secs(1);
/// Pause between two looks.
const REST: Duration = Duration::from_millis(50);
/// The longest event.
const EVENT: usize = 16 << 10;

/// The name of a device with that identifier, whose second word is it.
pub(super) fn naming(index: u32, identifier: &str) -> Naming {
    let link = link(identifier);
    let shown = link.display().to_string();
    match leads_to(&link, index) {
        true => Naming::Named(shown),
        false if runs() => Naming::Unnamed(shown),
        false => Naming::NoUdev,
    }
}

fn link(identifier: &str) -> PathBuf {
    Path::new(NAMES).join(identifier.split_once(' ').map_or("", |(_, name)| name))
}

fn leads_to(link: &Path, index: u32) -> bool {
    std::fs::canonicalize(link).is_ok_and(|device| device == Path::new(&format!("/dev/nbd{index}")))
}

fn runs() -> bool {
    Path::new(CONTROL).exists()
}

/// Has udev look at a device again, and does not wait.
pub(super) fn announce(block: &Path, index: u32) {
    tell(block, index, "");
}

/// Has udev look at devices again, each with its identifier, and waits until it has.
pub(super) fn name(block: &Path, devices: &[(u32, String)]) {
    settle(block, devices, &|index, identifier| leads_to(&link(identifier), index));
}

/// Has udev look at a device that has ended, and waits until it has: its name is gone then.
pub(super) fn unname(block: &Path, index: u32, identifier: &str) {
    settle(block, &[(index, identifier.to_owned())], &|index, identifier| {
        !leads_to(&link(identifier), index)
    });
}

/// Waits until udev has carried out a change of each device. If it is not heard, `is_so` has to be true of all of them.
fn settle(block: &Path, devices: &[(u32, String)], is_so: &dyn Fn(u32, &str) -> bool) {
    // The socket listens before the first event comes.
    let udev = runs().then(listen);
    let mut awaited = Vec::new();
    for (index, _) in devices {
        let word = word();
        if tell(block, *index, &word) {
            awaited.push(word);
        }
    }
    let Some(heard) = udev else { return };
    let begun = Instant::now();
    while !awaited.is_empty() && begun.elapsed() < PATIENCE {
        match &heard {
            Some(socket) => {
                let event = hear(socket);
                awaited.retain(|word| !is_of(&event, word));
            }
            None => std::thread::sleep(REST),
        }
        let unheard = heard.is_none() || begun.elapsed() >= UNHEARD;
        if unheard && devices.iter().all(|(index, identifier)| is_so(*index, identifier)) {
            return;
        }
    }
}

/// Writes a change of a device, which its event carries as `SYNTH_UUID` if there is a word.
fn tell(block: &Path, index: u32, word: &str) -> bool {
    let file = block.join(format!("nbd{index}")).join("uevent");
    std::fs::write(file, format!("change {word}").trim_end()).is_ok()
}

/// A word that no other event carries: the kernel takes UUIDs alone.
fn word() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{:08x}-0000-4000-8000-{count:012x}", std::process::id())
}

/// A socket that hears of events that udev has carried out; none if there are no such sockets here.
fn listen() -> Option<OwnedFd> {
    let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
    let socket = net::socket_with(family, kind, SocketFlags::CLOEXEC, Some(netlink::KOBJECT_UEVENT)).ok()?;
    net::bind(&socket, &SocketAddrNetlink::new(0, CARRIED_OUT)).ok()?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(REST)).ok()?;
    Some(socket)
}

/// The next event; nothing if there is none for a while.
fn hear(socket: &OwnedFd) -> Vec<u8> {
    let mut bytes = vec![0; EVENT];
    let length = net::recv(socket, &mut bytes[..], RecvFlags::empty()).map_or(0, |(length, _)| length);
    bytes.truncate(length);
    bytes
}

/// Whether an event carries a word: its properties are parted by zeroes.
fn is_of(event: &[u8], word: &str) -> bool {
    let property = format!("SYNTH_UUID={word}");
    event.split(|byte| *byte == 0).any(|own| own == property.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_known_by_their_words() {
        let (one, other) = (word(), word());
        assert_eq!(one.len(), 36);
        let event = format!("libudev\0\u{1}\u{2}ACTION=change\0SYNTH_UUID={one}\0DEVNAME=/dev/nbd0\0");
        assert!(is_of(event.as_bytes(), &one) && !is_of(event.as_bytes(), &other));
        assert!(!is_of(format!("SYNTH_UUID={one}0\0").as_bytes(), &one));
    }

    #[test]
    fn a_name_is_the_second_word_of_an_identifier() {
        assert_eq!(link("brindle:1:2/one tank/one"), Path::new("/dev/brindle/tank/one"));
    }

    #[test]
    fn devices_that_cannot_be_told_of_are_not_waited_for() {
        let begun = Instant::now();
        name(Path::new("/nowhere"), &[(0, "brindle:1 a".to_owned())]);
        assert!(begun.elapsed() < UNHEARD);
    }
}
