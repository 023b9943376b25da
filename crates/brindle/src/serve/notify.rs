//! Tells the service manager when the exports answer: a datagram to the socket that `NOTIFY_SOCKET` names, as
//! sd_notify(3) has it.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Names the socket; unset or empty where no manager waits.
const SOCKET: &str = "NOTIFY_SOCKET";

/// Time that a manager that does not read may hold the server up.
const PATIENCE: Duration = Duration::from_secs(2);

/// Names the microseconds within which a manager wants to hear that the server works, and the process that is meant.
const WATCHDOG: [&str; 2] = ["WATCHDOG_USEC", "WATCHDOG_PID"];

/// How often a manager is told that the server works: twice as often as it wants; never if none wants it.
pub(super) fn watchdog() -> Option<Duration> {
    let [micros, pid] = WATCHDOG.map(|name| std::env::var(name).ok());
    let is_meant = pid.is_none_or(|pid| pid.parse() == Ok(std::process::id()));
    let micros: u64 = micros.filter(|_| is_meant)?.parse().ok()?;
    (micros > 0).then(|| Duration::from_micros(micros / 2))
}

/// Tells a manager that the server works. It is told by turns of the reactor, so that one that stands still is found; and it never
/// waits for the manager.
pub(super) fn works() {
    let Some(socket) = std::env::var_os(SOCKET).filter(|name| !name.is_empty()) else { return };
    let send = || {
        let (address, datagram) = (address(&socket)?, UnixDatagram::unbound()?);
        datagram.set_nonblocking(true)?;
        datagram.send_to_addr(b"WATCHDOG=1", &address).map(drop)
    };
    if let Err(error) = send() {
        tracing::debug!("{SOCKET}: can't be told that the server works: {error}");
    }
}

/// Tells a manager that the server ends.
pub(super) fn stopping() {
    let Some(socket) = std::env::var_os(SOCKET).filter(|name| !name.is_empty()) else { return };
    let _ = tell(&socket, b"STOPPING=1");
}

/// Tells the service manager that the server is ready. If that fails, a warning is logged: the arrays are served all
/// the same.
pub(super) fn ready() {
    let Some(socket) = std::env::var_os(SOCKET).filter(|name| !name.is_empty()) else { return };
    if let Err(error) = tell(&socket, b"READY=1") {
        tracing::warn!("{SOCKET}={}: can't be told that the exports answer: {error}", socket.display());
    }
}

fn tell(socket: &OsStr, words: &[u8]) -> io::Result<()> {
    let (address, datagram) = (address(socket)?, UnixDatagram::unbound()?);
    datagram.set_write_timeout(Some(PATIENCE))?;
    datagram.send_to_addr(words, &address).map(drop)
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
