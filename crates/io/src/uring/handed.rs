//! Listening sockets that outlive their process: the next server gets duplicates of them, by a message, across an
//! exec, or from a service manager that stores them.
//!
//! A listener is its open file description, which all duplicates share. As long as one is open, clients connect, and
//! wait in its backlog. So a server that hands its listeners on closes its own descriptors only: to shut one down would
//! end it for all.

use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::OFlags;
use rustix::io::FdFlags;
use rustix::net::{AddressFamily, SocketAddrUnix, sockopt};

/// Where a listening socket is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerPlace {
    /// A file, from the root and with all links of its folder followed.
    Unix(PathBuf),
    /// An address.
    Tcp(SocketAddr),
}

/// A listening socket that goes from one process to the next.
#[derive(Debug)]
pub struct HandedListener {
    /// The socket.
    pub socket: OwnedFd,
    /// Its place.
    pub place: ListenerPlace,
}

/// The listeners of this process, in the order in which they were made, and those that it inherited.
struct Handed {
    tracked: bool,
    kept: bool,
    own: Vec<HandedListener>,
    unclaimed: Vec<HandedListener>,
}

static HANDED: Mutex<Handed> =
    Mutex::new(Handed { tracked: false, kept: false, own: Vec::new(), unclaimed: Vec::new() });

fn handed() -> MutexGuard<'static, Handed> {
    HANDED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has duplicates of listeners that are made from now on be kept, so that they can be handed on.
pub fn track_listeners() {
    handed().tracked = true;
}

/// Whether closing a listener leaves it and its file to the next server, from now on.
pub fn keep_listeners(kept: bool) {
    handed().kept = kept;
}

/// Whether closing a listener leaves it to the next server.
pub fn keeps_listeners() -> bool {
    handed().kept
}

/// Duplicates of the listeners of this process: those that it made since [`track_listeners`], and those that it took
/// over.
///
/// # Errors
/// There are too many open files.
pub fn listeners() -> io::Result<Vec<HandedListener>> {
    let duplicate = |one: &HandedListener| {
        Ok(HandedListener { socket: one.socket.try_clone()?, place: one.place.clone() })
    };
    handed().own.iter().map(duplicate).collect()
}

/// Takes listeners of an earlier server: whoever listens at the place of one from now on gets that one.
pub fn take_inherited(listeners: impl IntoIterator<Item = HandedListener>) {
    handed().unclaimed.extend(listeners);
}

/// Whether a listener of an earlier server is at this path, and this process has not begun to listen on it.
pub fn is_unclaimed(path: &Path) -> bool {
    let place = ListenerPlace::Unix(canonical(path));
    handed().unclaimed.iter().any(|one| one.place == place)
}

/// Closes those listeners of an earlier server for which nobody has asked, and removes their files. Gives their places.
pub fn close_unclaimed() -> Vec<ListenerPlace> {
    close(core::mem::take(&mut handed().unclaimed))
}

/// Closes the duplicates of this process's listeners, and removes their files: nobody takes them over. Those that a reactor
/// has open listen until it is gone.
pub fn let_listeners_go() {
    let (own, unclaimed) = {
        let mut handed = handed();
        handed.kept = false;
        (core::mem::take(&mut handed.own), core::mem::take(&mut handed.unclaimed))
    };
    close(own);
    close(unclaimed);
}

fn close(listeners: Vec<HandedListener>) -> Vec<ListenerPlace> {
    let remove = |one: HandedListener| {
        if let ListenerPlace::Unix(path) = &one.place
            && is_socket(path)
        {
            // If it can't be removed, the next server finds that nobody listens.
            let _ = std::fs::remove_file(path);
        }
        one.place
    };
    listeners.into_iter().map(remove).collect()
}

/// Takes descriptors that whoever started this process left open for it, by their numbers. Others, and those that this
/// process has opened itself, are passed over.
pub fn adopt(numbers: impl IntoIterator<Item = RawFd>) -> Vec<OwnedFd> {
    // One at a time: a descriptor is taken once.
    let _one = handed();
    numbers.into_iter().filter(|number| *number > 2).filter_map(adopt_one).collect()
}

fn adopt_one(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: it is looked at only, which fails if the number is that of no open descriptor.
    let flags = rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(number) }).ok()?;
    if flags.contains(FdFlags::CLOEXEC) {
        return None;
    }
    // SAFETY: the descriptor is open, and nothing in this process has it: all that this program opens is closed on exec,
    // and standard input and output are left out. From the next line on it would not be taken a second time.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC).ok()?;
    Some(fd)
}

/// The place of a socket; `None` for what does not listen.
pub fn place_of(socket: impl AsFd) -> Option<ListenerPlace> {
    if !sockopt::socket_acceptconn(&socket).ok()? {
        return None;
    }
    let address = rustix::net::getsockname(&socket).ok()?;
    if address.address_family() == AddressFamily::UNIX {
        let address = SocketAddrUnix::try_from(address).ok()?;
        let path = address.path()?;
        return Some(ListenerPlace::Unix(canonical(Path::new(OsStr::from_bytes(path.to_bytes())))));
    }
    SocketAddr::try_from(address).ok().map(ListenerPlace::Tcp)
}

/// The file of a socket from the root: links in the way to its folder are followed, and it itself may be gone.
pub(super) fn canonical(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
    }
}

/// Keeps a duplicate of a listener, if that is wanted. One that can't be duplicated is not handed on.
pub(super) fn note(socket: impl AsFd, place: ListenerPlace) {
    let mut handed = handed();
    if handed.tracked
        && let Ok(socket) = socket.as_fd().try_clone_to_owned()
    {
        handed.own.push(HandedListener { socket, place });
    }
}

/// Forgets a listener that is closed for good.
pub(super) fn forget(place: &ListenerPlace) {
    handed().own.retain(|one| one.place != *place);
}

/// The listener of an earlier server at this place, to go on with. Port 0 means the first that there is on the address.
pub(super) fn claim(place: &ListenerPlace) -> Option<OwnedFd> {
    let mut handed = handed();
    let is_it = |one: &HandedListener| match (&one.place, place) {
        (ListenerPlace::Tcp(bound), ListenerPlace::Tcp(wanted)) if wanted.port() == 0 => {
            bound.ip() == wanted.ip()
        }
        (bound, wanted) => bound == wanted,
    };
    let at = handed.unclaimed.iter().position(is_it)?;
    let one = handed.unclaimed.remove(at);
    drop(handed);
    if let ListenerPlace::Unix(path) = &one.place
        && !is_socket(path)
    {
        // Nobody could connect any more.
        return None;
    }
    // As a socket that was just made: the ring would take one that does not wait at its word.
    let flags = rustix::fs::fcntl_getfl(&one.socket).ok()?;
    rustix::fs::fcntl_setfl(&one.socket, flags - OFlags::NONBLOCK).ok()?;
    Some(one.socket)
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket())
}

/// The file that has a name now.
pub(super) fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}
