//! Tells the service manager when the exports answer: a datagram to the socket that `NOTIFY_SOCKET` names, as
//! sd_notify(3) has it. It keeps listening sockets, too, while the server is started anew.

use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use brindle_host::mailbox;
use brindle_io::sync::race;
use brindle_io::uring::{HandedListener, ListenerPlace};
use brindle_io::{Io, Task};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix};
use serde::{Deserialize, Serialize};

/// Names the socket; unset or empty where no manager waits.
const SOCKET: &str = "NOTIFY_SOCKET";

/// Time that a manager that does not read may hold the server up.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time within which devices that the settings ask for are made, as a rule.
const DEVICES: brindle_io::Duration = brindle_io::Duration::from_millis(20_000);

/// The longest wait of which a service manager need not hear: the unit gives a start twice as long.
const USUAL_START: Duration = Duration::from_secs(60);

/// Names the microseconds within which a manager wants to hear that the server works, and the process that is meant.
const WATCHDOG: [&str; 2] = ["WATCHDOG_USEC", WATCHED_PROCESS];

/// Names the process of which a manager wants to hear.
pub(super) const WATCHED_PROCESS: &str = "WATCHDOG_PID";

/// A service manager, and what it wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Manager {
    /// The name of its socket.
    socket: String,
    /// The microseconds within which it wants to hear that the server works.
    watchdog: Option<u64>,
}

/// The manager of the daemon from which this process has taken over.
static TAKEN_OVER: OnceLock<Manager> = OnceLock::new();

/// The sockets are in its store, as far as can be told.
static STORES: AtomicBool = AtomicBool::new(false);

/// The manager of this process.
pub(super) fn manager() -> Option<&'static Manager> {
    static MANAGER: OnceLock<Option<Manager>> = OnceLock::new();
    let of_environment = || {
        let socket = std::env::var(SOCKET).ok().filter(|name| !name.is_empty())?;
        let [micros, pid] = WATCHDOG.map(|name| std::env::var(name).ok());
        let is_meant = pid.is_none_or(|pid| pid.parse() == Ok(std::process::id()));
        let watchdog = micros.filter(|_| is_meant).and_then(|micros| micros.parse().ok());
        Some(Manager { socket, watchdog: watchdog.filter(|micros| *micros > 0) })
    };
    TAKEN_OVER.get().or_else(|| MANAGER.get_or_init(of_environment).as_ref())
}

/// Goes on with the manager of a daemon from which this process takes over.
pub(super) fn take_over(manager: Manager) {
    let own = std::env::var(SOCKET).ok().filter(|name| !name.is_empty());
    if own.is_none_or(|own| own == manager.socket) {
        // A process takes over once.
        let _ = TAKEN_OVER.set(manager);
    }
}

/// The variables by which a program that is run in this process finds its manager.
pub(super) fn environment() -> Vec<(&'static str, String)> {
    let Some(Manager { socket, watchdog }) = manager() else { return Vec::new() };
    let mut variables = vec![(SOCKET, socket.clone())];
    if let Some(micros) = watchdog {
        variables.push((WATCHDOG[0], micros.to_string()));
        variables.push((WATCHDOG[1], std::process::id().to_string()));
    }
    variables
}

/// How often a manager is told that the server works: twice as often as it wants; never if none wants it.
pub(super) fn watchdog() -> Option<Duration> {
    manager()?.watchdog.map(|micros| Duration::from_micros(micros / 2))
}

/// Tells a manager that the server works. It is told by turns of the reactor, so that one that stands still is found; and it never
/// waits for the manager.
pub(super) fn works() {
    let Some(Manager { socket, .. }) = manager() else { return };
    let send = || {
        let (address, datagram) = (address(OsStr::new(socket))?, UnixDatagram::unbound()?);
        datagram.set_nonblocking(true)?;
        datagram.send_to_addr(b"WATCHDOG=1", &address).map(drop)
    };
    if let Err(error) = send() {
        tracing::debug!("{SOCKET}: can't be told that the server works: {error}");
    }
}

/// Tells a manager that the server ends.
pub(super) fn stopping() {
    if let Some(manager) = manager() {
        let _ = manager.tell(b"STOPPING=1");
    }
}

/// Tells the service manager that the server is ready. If that fails, a warning is logged: the arrays are served all
/// the same.
pub(super) fn ready() {
    let Some(manager) = manager() else { return };
    if let Err(error) = manager.tell(b"READY=1") {
        tracing::warn!("{SOCKET}={}: can't be told that the exports answer: {error}", manager.socket);
    }
    if TAKEN_OVER.get().is_some() {
        main_process(std::process::id().cast_signed());
    }
}

/// Tells the service manager that the server is ready, once the devices that settings ask for are made or [`DEVICES`] is over: systemd
/// mounts them then.
pub(super) async fn ready_behind(made: Task<()>, io: Io) {
    race(made, io.sleep(DEVICES)).await;
    mailbox::on_thread(&io, "ready", ready).await;
}

/// Tells the service manager that the server waits for so long before it starts.
pub(crate) fn starts_within(wait: Duration) {
    if let Some(manager) = manager().filter(|_| wait > USUAL_START) {
        let micros = (wait + 2 * USUAL_START).as_micros();
        let _ = manager.tell(format!("EXTEND_TIMEOUT_USEC={micros}").as_bytes());
    }
}

/// Tells a manager that this process is the server from now on. It hears that from the present one, or from any that it trusts.
pub(super) fn main_process(pid: i32) {
    if let Some(manager) = manager() {
        let _ = manager.tell(format!("MAINPID={pid}").as_bytes());
    }
}

/// Has a manager keep the listening sockets while the server is started anew, and drop those of these places.
pub(super) fn store(listeners: &[HandedListener], closed: &[ListenerPlace]) {
    let Some(manager) = manager() else { return };
    for place in closed {
        let _ = manager.tell(format!("FDSTOREREMOVE=1\nFDNAME={}", fd_name(place)).as_bytes());
    }
    let send = |one: &HandedListener| {
        let words = format!("FDSTORE=1\nFDNAME={}", fd_name(&one.place));
        manager.send(words.as_bytes(), &[one.socket.as_fd()])
    };
    // Before the manager has all: it may have this process end as soon as it has the last.
    STORES.store(!listeners.is_empty(), Ordering::Release);
    if let Err(error) = listeners.iter().try_for_each(send) {
        STORES.store(false, Ordering::Release);
        tracing::debug!("{SOCKET}: listening sockets can't be stored: {error}");
    }
}

/// Whether a manager keeps the listening sockets.
pub(super) fn stores() -> bool {
    STORES.load(Ordering::Acquire)
}

/// The name of a stored socket: colons and signs of control are not allowed, and 255 letters at most.
fn fd_name(place: &ListenerPlace) -> String {
    let name = match place {
        ListenerPlace::Unix(path) => format!("unix={}", path.display()),
        ListenerPlace::Tcp(address) => format!("tcp={address}"),
    };
    let harmless = |sign: char| if sign.is_ascii_graphic() && sign != ':' { sign } else { '_' };
    name.chars().map(harmless).take(255).collect()
}

impl Manager {
    fn tell(&self, words: &[u8]) -> io::Result<()> {
        self.send(words, &[])
    }

    fn send(&self, words: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        let (address, datagram) = (address(OsStr::new(&self.socket))?, UnixDatagram::unbound()?);
        datagram.set_write_timeout(Some(PATIENCE))?;
        if fds.is_empty() {
            return datagram.send_to_addr(words, &address).map(drop);
        }
        let address = match (address.as_pathname(), address.as_abstract_name()) {
            (Some(path), _) => SocketAddrUnix::new(path)?,
            (None, name) => SocketAddrUnix::new_abstract_name(name.unwrap_or_default())?,
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let iov = [IoSlice::new(words)];
        rustix::net::sendmsg_addr(&datagram, &address, &iov, &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

/// A name that begins with `@` is abstract: it stands in no file system.
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(socket),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it begins neither with / nor with @")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_sockets_have_names_that_a_manager_takes() {
        assert_eq!(fd_name(&ListenerPlace::Unix("/run/b/a b:c".into())), "unix=/run/b/a_b_c");
        assert_eq!(fd_name(&ListenerPlace::Tcp("[::1]:7".parse().unwrap())), "tcp=[__1]_7");
        assert_eq!(fd_name(&ListenerPlace::Unix("/".repeat(900).into())).len(), 255);
    }

    #[test]
    fn sockets_are_paths_or_abstract() {
        let named = |name: &str| address(OsStr::new(name));
        assert_eq!(named("/run/n").unwrap().as_pathname(), Some("/run/n".as_ref()));
        assert_eq!(named("@n").unwrap().as_abstract_name(), Some(&b"n"[..]));
        let long = format!("/{}", "x".repeat(200));
        for wrong in ["n", "vsock:2:1", &long] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }
}
