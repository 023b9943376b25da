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

/// How long a manager that does not read may hold the server up.
const PATIENCE: Duration = Duration::from_secs(2);

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
