//! An NBD server and one client in one process, for the targets of both phases.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_export::Security;
use brindle_export::nbd::{Config, Server};
use brindle_io::memory::Memory;
use brindle_io::{Buf, Duration, Io, SocketId};
use brindle_testkit::ram::RamVolume;

/// Bytes of the export: no power of two, no multiple of a page.
pub(crate) const SIZE: u64 = 48 * 4096 + 512;

/// Bytes of requests' buffers, and so of the largest read or write.
pub(crate) const MEMORY: usize = 64 << 10;

/// Turns of the executor after which a server that says nothing has nothing to say.
const SILENCE: usize = 64;

/// A server that never waits for a clock.
pub(crate) struct World {
    pub(crate) io: Io,
    pub(crate) volume: Rc<RamVolume>,
    memory: Memory,
    server: Server<RamVolume>,
    listener: SocketId,
    client_buf: Buf,
}

/// The bytes that the server has sent so far.
#[derive(Clone, Default)]
pub(crate) struct Heard {
    pub(crate) bytes: Rc<RefCell<Vec<u8>>>,
    pub(crate) closed: Rc<Cell<bool>>,
}

impl World {
    pub(crate) fn new(requests: usize) -> Self {
        Self::secured(requests, None)
    }

    /// A server with TLS, offered or demanded.
    pub(crate) fn secured(requests: usize, security: Option<Security>) -> Self {
        let hour = Duration::from_secs(3600);
        let config = Config {
            memory: MEMORY,
            connections: 1,
            requests,
            handshake: hour,
            stall: hour,
            deadline: hour,
            grace: hour,
        };
        let memory = Memory::new();
        let io = Io::new(Box::new(memory.clone()));
        let volume = RamVolume::new(&io, SIZE);
        let server = Server::new(&io, config);
        server.add_export("disk", "a disk in RAM", Rc::clone(&volume)).expect("a fresh name");
        let listener = memory.listen();
        server.serve_securely(listener, security);
        let client_buf = io.pool(32 << 10).try_alloc(16 << 10).expect("the first buffer");
        Self { io, volume, memory, server, listener, client_buf }
    }

    /// A client's socket, and a task that hears all that is said to it.
    pub(crate) fn connect(&self) -> (SocketId, Heard) {
        let socket = self.memory.connect(self.listener);
        let heard = Heard::default();
        let (io, ears) = (self.io.clone(), heard.clone());
        let buf = io.pool(64 << 10).try_alloc(64 << 10).expect("the first buffer");
        self.io.spawn(async move {
            while let Ok(count @ 1..) = io.recv(socket, &buf.all()).await {
                ears.bytes.borrow_mut().extend_from_slice(&buf.bytes()[..count]);
            }
            ears.closed.set(true);
        });
        (socket, heard)
    }

    /// Sends in pieces of so many bytes, letting the server work between them; `false` if it has hung up.
    pub(crate) async fn send(&self, socket: SocketId, bytes: &[u8], piece: usize) -> bool {
        // Long payloads byte by byte would take all the time there is.
        let piece = piece.max(bytes.len() / 128).clamp(1, self.client_buf.len());
        for part in bytes.chunks(piece) {
            self.client_buf.bytes_mut()[..part.len()].copy_from_slice(part);
            if self.io.send(socket, &[self.client_buf.slice(0..part.len())]).await.is_err() {
                return false;
            }
            self.io.yield_now().await;
        }
        true
    }

    /// Waits until the server has been silent for long.
    pub(crate) async fn listen(&self, heard: &Heard) {
        let mut silent = 0;
        let mut had = heard.bytes.borrow().len();
        while silent < SILENCE && !heard.closed.get() {
            self.io.yield_now().await;
            let has = heard.bytes.borrow().len();
            silent = if has == had { silent + 1 } else { 0 };
            had = has;
        }
    }

    /// The client leaves, the server stops, and nothing of either is left.
    pub(crate) fn end(&self, socket: SocketId) {
        self.io.block_on(async {
            self.io.close(socket);
            self.server.stop().await;
            for _ in 0..4 {
                self.io.yield_now().await;
            }
        });
        assert_eq!(self.io.tasks_alive(), 0, "tasks are left");
        assert_eq!(self.server.memory_in_use(), 0, "buffers are left");
        assert_eq!(self.volume.busy.get(), 0, "requests are left");
        assert_eq!(Rc::strong_count(&self.volume), 1, "the volume is still held");
        self.io.shutdown();
    }
}

/// The bytes up to the first that can't be had; `None` there.
pub(crate) fn take<'a>(from: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, rest) = from.split_at_checked(len)?;
    *from = rest;
    Some(taken)
}
