//! Listening sockets: making them, and clearing away what a dead server left.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Why there is no listener.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Somebody listens there.
    #[error("socket path in use: a server listens on {}; stop it, or choose another path", .0.display())]
    InUse(PathBuf),
    /// A file of another kind has the name.
    #[error("socket path in use: {} is not a socket; remove it, or choose another path", .0.display())]
    NotASocket(PathBuf),
    /// The socket file can't be made.
    #[error("can't listen on {}: {source}; its directory must exist and be writable, and the path be short", path.display())]
    Path {
        /// As it was given.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody listens on that port.
    #[error("address in use: a server listens on {0}; stop it, or choose another port")]
    AddressInUse(SocketAddr),
    /// The address can't be bound.
    #[error("can't listen on {address}: {source}; it must be an address of this machine")]
    Address {
        /// As it was given.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// The name of a Unix listener in the file system; removed when dropped, if it still is this listener's.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            // If it can't be removed, the next server finds that nobody listens.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Listens on a Unix socket without a ring. A socket file that nobody listens on any more is replaced.
///
/// # Errors
/// [`ListenError`]; among them that the path is in use, by a listener or by any other file.
pub fn listen_unix(path: &Path) -> Result<(UnixListener, SocketFile), ListenError> {
    let failed = |source| ListenError::Path { path: path.to_path_buf(), source };
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            clear(path)?;
            UnixListener::bind(path).map_err(failed)?
        }
        other => other.map_err(failed)?,
    };
    // Another server may start beside us: the name is removed only as long as it is ours.
    let file = SocketFile { path: path.to_path_buf(), identity: identity(path) };
    Ok((listener, file))
}

/// Removes the socket file of a server that is gone.
fn clear(path: &Path) -> Result<(), ListenError> {
    let failed = |source| ListenError::Path { path: path.to_path_buf(), source };
    let kind = std::fs::symlink_metadata(path).map_err(failed)?.file_type();
    if !kind.is_socket() {
        return Err(ListenError::NotASocket(path.to_path_buf()));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(failed)
        }
        // Somebody, perhaps with a full backlog, or who does not let us in.
        _ => Err(ListenError::InUse(path.to_path_buf())),
    }
}

pub(super) fn tcp(address: SocketAddr) -> Result<OwnedFd, ListenError> {
    match TcpListener::bind(address) {
        Ok(listener) => Ok(listener.into()),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(ListenError::AddressInUse(address)),
        Err(source) => Err(ListenError::Address { address, source }),
    }
}
