//! Listening sockets: making them, and clearing away what a dead server left.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{AtFlags, CWD, Gid, Mode, Uid};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use rustix::process::{Pid, PidfdFlags};

use super::handed::{self, ListenerPlace, identity};

/// Connections that wait to be accepted; more are kept waiting by the kernel.
const BACKLOG: i32 = 1024;

/// Owner of the file of a Unix socket, and who may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketRights {
    /// Mode of the socket's file, as for chmod, whatever the umask. Users who may write to it can connect.
    pub mode: u32,
    /// The socket's owner, if that is not the process's user.
    pub owner: Option<u32>,
    /// The socket's group, if that is not the process's.
    pub group: Option<u32>,
}

/// A socket to which only its owner, and root, may connect.
pub const OWNER_ONLY: SocketRights = SocketRights { mode: 0o600, owner: None, group: None };

/// Reasons why a listener can't be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Another program listens there.
    #[error("socket path in use: a server listens on {}; stop it, or choose another path", .0.display())]
    InUse(PathBuf),
    /// A file of another kind has the name.
    #[error("socket path in use: {} is not a socket; remove it, or choose another path", .0.display())]
    NotASocket(PathBuf),
    /// The socket file can't be made.
    #[error("can't listen on {}: {source}; its directory must exist and be writable, and the path be short", path.display())]
    Path {
        /// The text that was given.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The socket file can't be given to another owner.
    #[error("{} can't be given to that owner or group: {source}; only root may give a file to another user, and its owner to a group that he is in", path.display())]
    Owner {
        /// The text that was given.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Another program has that port, at this address or at all addresses.
    #[error(
        "address in use: another socket is bound to {0}, or to this port at all addresses; close it, or choose another port"
    )]
    AddressInUse(SocketAddr),
    /// The address can't be bound.
    #[error("can't listen on {address}: {source}; it must be an address of this machine")]
    Address {
        /// The text that was given.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
}

/// The name of a Unix listener in the file system; removed when dropped, if it still is this listener's and no other server is
/// to go on with it ([`super::keep_listeners`]).
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if handed::keeps_listeners() {
            return;
        }
        handed::forget(&ListenerPlace::Unix(handed::canonical(&self.path)));
        if self.identity.is_some() && identity(&self.path) == self.identity {
            // If it can't be removed, the next server finds that no program listens on it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Listens on a Unix socket without a ring. A socket file that nobody listens on any more is replaced; the listener of an
/// earlier server is taken over, if it was handed on ([`super::take_inherited`]).
///
/// # Errors
/// [`ListenError::InUse`], [`ListenError::NotASocket`]; [`ListenError::Path`] with what else the kernel says.
pub fn listen_unix(path: &Path, rights: SocketRights) -> Result<(UnixListener, SocketFile), ListenError> {
    let failed = |source: Errno| ListenError::Path { path: path.to_path_buf(), source: source.into() };
    let address = SocketAddrUnix::new(path).map_err(failed)?;
    let place = ListenerPlace::Unix(handed::canonical(path));
    if let Some(socket) = handed::claim(&place) {
        let file = SocketFile { path: path.to_path_buf(), identity: identity(path) };
        give(path, rights)?;
        // It has the credentials of its first process, which may be gone: to listen again gives it those of this one.
        rustix::net::listen(&socket, BACKLOG).map_err(failed)?;
        handed::note(&socket, place);
        return Ok((socket.into(), file));
    }
    let socket = open(AddressFamily::UNIX).map_err(failed)?;
    // The file is made with the socket's mode less the umask, so at no time may more connect than are meant to.
    rustix::fs::fchmod(&socket, Mode::from_raw_mode(rights.mode)).map_err(failed)?;
    match rustix::net::bind(&socket, &address) {
        Err(Errno::ADDRINUSE) => {
            clear(path)?;
            rustix::net::bind(&socket, &address).map_err(failed)?;
        }
        other => other.map_err(failed)?,
    }
    // Another server may start beside us: the name is removed only as long as it is ours.
    let file = SocketFile { path: path.to_path_buf(), identity: identity(path) };
    // No client can connect before the socket listens.
    give(path, rights)?;
    rustix::net::listen(&socket, BACKLOG).map_err(failed)?;
    handed::note(&socket, place);
    Ok((socket.into(), file))
}

/// Gives a socket's file its owner and its mode.
fn give(path: &Path, rights: SocketRights) -> Result<(), ListenError> {
    let (owner, group) = (rights.owner.map(Uid::from_raw), rights.group.map(Gid::from_raw));
    if owner.is_some() || group.is_some() {
        let given = rustix::fs::chownat(CWD, path, owner, group, AtFlags::SYMLINK_NOFOLLOW);
        given.map_err(|source| ListenError::Owner { path: path.to_path_buf(), source: source.into() })?;
    }
    let changed = rustix::fs::chmod(path, Mode::from_raw_mode(rights.mode));
    changed.map_err(|source| ListenError::Path { path: path.to_path_buf(), source: source.into() })
}

fn open(family: AddressFamily) -> rustix::io::Result<OwnedFd> {
    rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

/// Whether a socket file was left by a server that is gone. The kernel closes the sockets of a ring some time after
/// its process has ended: until then clients can connect, and get no answer.
pub fn is_abandoned(path: &Path) -> bool {
    match connect(path) {
        Ok(socket) => sockopt::socket_peercred(&socket).is_ok_and(|listener| has_ended(listener.pid)),
        Err(errno) => errno == Errno::CONNREFUSED,
    }
}

/// Does not wait for room in the backlog: a stopped process makes none.
fn connect(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// True for a process of which its parent has not yet taken note, too.
fn has_ended(pid: Pid) -> bool {
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => {
            let mut ended = [PollFd::new(&process, PollFlags::IN)];
            rustix::event::poll(&mut ended, Some(&Timespec::default())).is_ok_and(|count| count > 0)
        }
        Err(errno) => errno == Errno::SRCH,
    }
}

/// Removes the socket file of a server that is gone.
fn clear(path: &Path) -> Result<(), ListenError> {
    let failed = |source| ListenError::Path { path: path.to_path_buf(), source };
    let kind = std::fs::symlink_metadata(path).map_err(failed)?.file_type();
    if !kind.is_socket() {
        return Err(ListenError::NotASocket(path.to_path_buf()));
    }
    if is_abandoned(path) {
        return std::fs::remove_file(path).map_err(failed);
    }
    // Another program, perhaps with a full backlog, or one that refuses this user.
    Err(ListenError::InUse(path.to_path_buf()))
}

/// Listens on an address without a ring. An IPv6 address is that alone: for both families give both `0.0.0.0` and `[::]`. The
/// listener of an earlier server is taken over, if it was handed on.
///
/// # Errors
/// [`ListenError::AddressInUse`]; [`ListenError::Address`] with what else the kernel says.
pub fn listen_tcp(address: SocketAddr) -> Result<OwnedFd, ListenError> {
    bind_tcp(address).map_err(|error| match error {
        Errno::ADDRINUSE => ListenError::AddressInUse(address),
        other => ListenError::Address { address, source: other.into() },
    })
}

fn bind_tcp(address: SocketAddr) -> rustix::io::Result<OwnedFd> {
    let socket = match handed::claim(&ListenerPlace::Tcp(address)) {
        Some(socket) => socket,
        None => new_tcp(address)?,
    };
    rustix::net::listen(&socket, BACKLOG)?;
    if let Some(place) = handed::place_of(&socket) {
        handed::note(&socket, place);
    }
    Ok(socket)
}

fn new_tcp(address: SocketAddr) -> rustix::io::Result<OwnedFd> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = open(family)?;
    // A server that starts anew does not wait until the connections of the last one are forgotten.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::net::UnixStream;
    use std::process::Command;

    use super::*;

    #[test]
    fn the_mode_of_a_socket_file_is_what_was_asked_for() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        for mode in [0o600, 0o660, 0o666] {
            let path = dir.path().join(format!("{mode:o}"));
            let rights = SocketRights { mode, ..OWNER_ONLY };
            let (listener, file) = listen_unix(&path, rights).expect("a fresh path");
            let meta = std::fs::symlink_metadata(&path).expect("a file");
            assert_eq!(meta.permissions().mode() & 0o7777, mode);
            UnixStream::connect(&path).expect("somebody listens");
            listener.accept().expect("somebody has connected");
            drop(file);
            assert!(!path.exists());
        }
    }

    #[test]
    fn a_socket_file_is_given_away_by_root_alone() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("socket");
        let rights = SocketRights { mode: 0o660, owner: Some(65534), group: Some(65534) };
        match listen_unix(&path, rights) {
            Ok(_held) if rustix::process::geteuid().is_root() => {
                let meta = std::fs::symlink_metadata(&path).expect("a file");
                assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7777), (65534, 65534, 0o660));
            }
            Err(ListenError::Owner { .. }) if !rustix::process::geteuid().is_root() => {
                assert!(!path.exists(), "nothing is left");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_socket_is_abandoned_when_its_process_has_ended_though_it_listens() {
        let mut child = Command::new("sleep").arg("1000").spawn().expect("a process");
        let pid = Pid::from_child(&child);
        assert!(!has_ended(pid));
        child.kill().expect("it is ours");
        // It has ended before its parent takes note.
        while !has_ended(pid) {
            std::thread::yield_now();
        }
        child.wait().expect("it is ours");
        assert!(has_ended(pid));

        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().join("socket");
        let (listener, file) = listen_unix(&path, OWNER_ONLY).expect("a fresh path");
        assert!(!is_abandoned(&path));
        assert!(matches!(listen_unix(&path, OWNER_ONLY), Err(ListenError::InUse(_))));
        drop(listener);
        assert!(is_abandoned(&path));
        drop((listen_unix(&path, OWNER_ONLY).expect("nobody listens"), file));
        assert!(!is_abandoned(&path), "nothing is there");
    }

    #[test]
    fn both_families_have_a_port_of_their_own() {
        let listener =
            |address: &str| listen_tcp(address.parse().expect("an address")).map(TcpListener::from);
        let four = listener("0.0.0.0:0").expect("a free port");
        let port = four.local_addr().expect("bound").port();
        let both = format!("[::]:{port}");
        if let Err(ListenError::Address { source, .. }) = listener(&both) {
            // Nothing to show where the kernel knows one family only.
            assert_eq!(source.raw_os_error(), Some(Errno::AFNOSUPPORT.raw_os_error()), "{source}");
            return;
        }
        let six = listener(&both).expect("another family's port");
        TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
        four.accept().expect("it came to the one that has the family");
        for taken in [format!("0.0.0.0:{port}"), format!("127.0.0.1:{port}"), both] {
            let error = listener(&taken).expect_err("it is taken");
            assert!(matches!(error, ListenError::AddressInUse(at) if at.to_string() == taken));
            let reported = format!("address in use: another socket is bound to {taken}, ");
            assert!(error.to_string().starts_with(&reported), "{error}");
        }
        drop((four, six));
    }
}
