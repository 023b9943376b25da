//! The server: volumes that can be mounted, and the mounts that there are.

use core::ops::Range;
use std::rc::Rc;

use brindle_io::{Duration, Io, Pool, SocketId};
use brindle_volume::Volume;

use super::connection::{HEADERS, INBOX, Mount};
use super::folder::Folder;
use super::proto::{LARGEST, SMALLEST};
use crate::access::Client;
use crate::gate::Gate;
use crate::session::{ConnectionStats, Export, ExportStats, Exports, Sessions, Wire};

/// Mounts at a time.
const MOUNTS: usize = 16;
/// Time that programs may take to learn of the answers to their last calls when a server stops.
const GRACE: Duration = Duration::from_millis(1_000);
/// The least and most that files say of the bytes in which they are best read and written.
const BEST: (u32, u32) = (4096, 1 << 20);

/// Why a volume is not mounted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MountError {
    /// There is no such export, or clients of this machine may not use it.
    #[error(
        "{0} is offered to no client of this machine: `brindle export {0}` offers it, and an access list may keep clients of this machine (`local`) out"
    )]
    NotOffered(String),
    /// It may not be written to.
    #[error("{0} is read-only: mount it without --write")]
    ReadOnly(String),
    /// There are too many mounts, or the server stops.
    #[error("{0} has no place for one more mount: a server has 16 of them at a time, and none when it stops")]
    NoPlace(String),
}

/// How a volume is to be mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounting {
    /// User and group of the files.
    pub owner: (u32, u32),
    /// Its files can be written to.
    pub writable: bool,
    /// Partitions that have files of their own, by number: bytes of the volume.
    pub partitions: Vec<(u32, Range<u64>)>,
}

/// A server of mounts on an executor. A handle: cloning gives the same server.
pub struct Server<V> {
    shared: Rc<MountServer<V>>,
}

impl<V> Clone for Server<V> {
    fn clone(&self) -> Self {
        Self { shared: Rc::clone(&self.shared) }
    }
}

struct MountServer<V> {
    io: Io,
    sessions: Rc<Sessions>,
    exports: Exports<Export<V>>,
    /// Buffers for messages, and for the headers of answers.
    buffers: Pool,
}

/// The descriptor of a mount.
struct Port {
    io: Io,
    port: SocketId,
}

impl Wire for Port {
    fn close(&self) {
        self.io.close(self.port);
    }
}

impl<V: Volume + 'static> Server<V> {
    /// A server without exports, whose requests have their memory from the budget of another server's.
    pub fn beside(io: &Io, sessions: &Sessions) -> Self {
        let buffers = io.pool(MOUNTS * (INBOX.next_power_of_two() + HEADERS.next_power_of_two()));
        let sessions = Sessions::beside(sessions, MOUNTS);
        Self {
            shared: Rc::new(MountServer { io: io.clone(), sessions, exports: Exports::default(), buffers }),
        }
    }

    /// Offers a volume behind a gate, under a name that no other has.
    pub fn add_guarded(&self, name: &str, description: &str, volume: Rc<V>, gate: Rc<Gate>) {
        self.shared.exports.offer(name, description, volume, gate);
    }

    /// Offers an export no longer, and ends its mounts: their files answer no more. When it returns the volume has been let go.
    pub async fn remove_export(&self, name: &str) {
        self.shared.exports.remove(name, &self.shared.sessions).await;
    }

    /// Ends the mounts of an export, and offers it on.
    pub async fn dismiss(&self, name: &str) {
        self.shared.exports.dismiss(name, &self.shared.sessions).await;
    }

    /// Ends the mounts of an export for which `which`, by number and client, at once; tells how many.
    pub fn disconnect(&self, export: &str, which: impl Fn(u64, &Client) -> bool) -> usize {
        self.shared.sessions.disconnect(export, which)
    }

    /// Ends all mounts.
    pub async fn stop(&self) {
        self.shared.exports.stop(&self.shared.sessions).await;
    }

    /// Every export.
    pub fn export_stats(&self) -> Vec<ExportStats> {
        self.shared.exports.stats()
    }

    /// Every mount, oldest first.
    pub fn connection_stats(&self) -> Vec<ConnectionStats> {
        self.shared.sessions.stats()
    }

    /// Serves a mount of an export by an open /dev/fuse, which is a port. The future that it gives ends with the mount.
    ///
    /// # Errors
    /// It is not served, and the port is closed.
    pub async fn mount(
        &self,
        export: &str,
        port: SocketId,
        how: Mounting,
    ) -> Result<impl Future<Output = ()> + 'static + use<V>, MountError> {
        let shared = &self.shared;
        let open = Opened { io: shared.io.clone(), port: Some(port) };
        let name = || export.to_owned();
        let found = shared.exports.named(export).ok_or_else(|| MountError::NotOffered(name()))?;
        let limits = found.terms(&Client::default()).ok_or_else(|| MountError::NotOffered(name()))?;
        if how.writable && limits.read_only {
            return Err(MountError::ReadOnly(name()));
        }
        let wire = Port { io: shared.io.clone(), port };
        let seat = shared.sessions.enter(Client::default(), wire).await;
        let seat = seat.ok_or_else(|| MountError::NoPlace(name()))?;
        open.given_away();
        seat.account().settle(export);
        found.enters();
        let export = Rc::clone(&found);
        let buffers = shared.buffers.clone();
        // Requests of parts of blocks take more, and with less than half of the memory for each none waits for ever.
        let half = shared.sessions.config().largest_request() / 2;
        let largest = (half as u32).clamp(SMALLEST, LARGEST);
        let block = limits.preferred.clamp(BEST.0, BEST.1);
        let folder = Folder::new(&found.name, limits.size, how.partitions, (how.owner, how.writable, block));
        Ok(shared.io.spawn(async move {
            let inbox = buffers.alloc(INBOX).await;
            let headers = buffers.alloc(HEADERS).await;
            let mount = Mount::new(&seat, Rc::clone(&export), port, (folder, limits), (largest, GRACE));
            mount.run(inbox, headers).await;
            tracing::debug!(export = export.name, "a mount has ended");
            export.leaves();
            drop(seat);
        }))
    }
}

/// A port that nobody serves yet, and that is closed if nobody comes to.
struct Opened {
    io: Io,
    port: Option<SocketId>,
}

impl Opened {
    fn given_away(mut self) {
        self.port = None;
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.port.into_iter().for_each(|port| self.io.close(port));
    }
}
