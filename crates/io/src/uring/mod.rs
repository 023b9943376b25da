//! Real members and sockets, through io_uring. Linux 5.19 or newer; 6.1 for deferred task work.
//!
//! One ring per executor, used by its thread only. A park is at most one `io_uring_enter`: it sends what was submitted,
//! waits, and runs the kernel's deferred work. Members are registered files, arenas are registered buffers where the
//! limit on locked memory allows it.

mod arenas;
mod errno;
mod listen;
mod members;
mod prepare;
mod ring;
mod sockets;
mod wake;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::ptr::NonNull;
use std::rc::Rc;
use std::time::Instant as Clock;

use crate::device::Device;
use crate::op::{Completion, MemberId, MemberInfo, OpKey, OpKind, OpView, SocketId};
use crate::reactor::{Reactor, Unpark};
use crate::time::Instant;
use arenas::Arenas;
pub use listen::{ListenError, SocketFile, listen_unix};
use members::Members;
use prepare::Running;
pub use ring::UringError;
use ring::{Ring, Token, Wait};
use sockets::Sockets;
use wake::Wake;

/// The io_uring reactor. A handle: cloning gives the same ring, so that members and listeners can be added while
/// [`crate::Io`] owns it.
#[derive(Clone)]
pub struct Uring(Rc<RefCell<State>>);

struct State {
    ring: Ring,
    began: Clock,
    members: Members,
    sockets: Sockets,
    arenas: Arenas,
    wake: Wake,
    /// By operation key: what the kernel was last asked under that key.
    running: Vec<Running>,
    /// Operations that the kernel has.
    in_kernel: usize,
    /// Answers that needed no kernel.
    ready: Vec<Completion>,
    reaped: Vec<(Token, i32)>,
    attached: bool,
}

impl Uring {
    /// A ring without members.
    ///
    /// # Errors
    /// [`UringError`] if the kernel has no io_uring, forbids it, or is too old.
    pub fn new() -> Result<Self, UringError> {
        let ring = Ring::new()?;
        Ok(Self(Rc::new(RefCell::new(State {
            began: Clock::now(),
            members: Members::new(&ring),
            sockets: Sockets::default(),
            arenas: Arenas::new(&ring),
            wake: Wake::new()?,
            ring,
            running: Vec::new(),
            in_kernel: 0,
            ready: Vec::new(),
            reaped: Vec::with_capacity(ring::COMPLETIONS as usize),
            attached: false,
        }))))
    }

    /// Makes an open device a member. It stays open, and locked, until [`Uring::close_member`] or the end of the ring.
    pub fn add_member(&self, device: Device) -> MemberId {
        let state = &mut *self.0.borrow_mut();
        state.members.add(&state.ring, device)
    }

    /// Closes a member once what it was asked has completed; whatever it is asked from now on fails with
    /// [`crate::OpError::Gone`].
    pub fn close_member(&self, member: MemberId) {
        let state = &mut *self.0.borrow_mut();
        state.members.close(&state.ring, member);
    }

    /// Listens on a Unix socket. A socket file that nobody listens on any more is replaced; the file is removed when
    /// the listener is closed.
    ///
    /// # Errors
    /// [`ListenError`]; among them that the path is in use, by a listener or by any other file.
    pub fn listen_unix(&self, path: impl AsRef<Path>) -> Result<SocketId, ListenError> {
        let (listener, file) = listen_unix(path.as_ref())?;
        Ok(self.0.borrow_mut().sockets.add_listener(listener.into(), Some(file)))
    }

    /// Listens on a TCP address; port 0 lets the kernel choose, see [`Uring::local_addr`].
    ///
    /// # Errors
    /// [`ListenError`]
    pub fn listen_tcp(&self, address: SocketAddr) -> Result<SocketId, ListenError> {
        let fd = listen::tcp(address)?;
        Ok(self.0.borrow_mut().sockets.add_listener(fd, None))
    }

    /// The TCP address that a socket is bound to; `None` for Unix and closed sockets.
    pub fn local_addr(&self, socket: SocketId) -> Option<SocketAddr> {
        self.0.borrow().sockets.local_addr(socket)
    }

    /// Takes a connected stream socket.
    pub fn add_stream(&self, stream: impl Into<OwnedFd>) -> SocketId {
        self.0.borrow_mut().sockets.add_stream(stream.into())
    }
}

// SAFETY: a key enters `running` with its submission and one entry is sent for it; its completion is handed back when
// the kernel's is taken from the ring, after which the kernel has no hold of the segments. Entries are sent again only
// for keys whose completion was taken and not handed back.
unsafe impl Reactor for Uring {
    fn attach(&mut self) {
        let state = &mut *self.0.borrow_mut();
        assert!(!state.attached, "the ring has an executor: shut that down first");
        state.attached = true;
    }

    fn detach(&mut self) {
        let state = &mut *self.0.borrow_mut();
        state.arenas.clear(&state.ring);
        state.attached = false;
    }

    fn register_arena(&mut self, memory: NonNull<[u8]>) {
        let state = &mut *self.0.borrow_mut();
        state.arenas.register(&state.ring, memory);
    }

    #[inline]
    unsafe fn submit(&mut self, key: OpKey, op: OpView<'_>) {
        let state = &mut *self.0.borrow_mut();
        state.submit(key, op);
    }

    fn park(&mut self, done: &mut Vec<Completion>, until: Option<Instant>) {
        self.0.borrow_mut().park(done, until);
    }

    fn now(&self) -> Instant {
        self.0.borrow().now()
    }

    fn member_info(&self, member: MemberId) -> Option<MemberInfo> {
        self.0.borrow().members.info(member)
    }

    fn close_socket(&mut self, socket: SocketId) {
        let state = &mut *self.0.borrow_mut();
        state.sockets.close(&mut state.ring, socket);
    }

    fn cancel_all(&mut self) {
        let state = &mut *self.0.borrow_mut();
        state.sockets.cancel_all(&mut state.ring);
    }

    fn unpark(&self) -> Unpark {
        self.0.borrow().wake.unpark()
    }
}

impl State {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.began.elapsed().as_nanos() as u64)
    }

    fn submit(&mut self, key: OpKey, op: OpView<'_>) {
        let at = key.0 as usize;
        if at >= self.running.len() {
            self.running.resize_with(at + 1, Running::default);
        }
        let asked = match op.kind {
            OpKind::Accept { socket } | OpKind::Recv { socket } | OpKind::Send { socket } => {
                self.sockets.begin(socket)
            }
            kind => self.members.begin(kind, op.len),
        };
        match asked {
            Ok(()) => {
                let fixed = self.arenas.index(op.arena, op.segments);
                self.running[at].begin(op, fixed);
                self.in_kernel += 1;
                self.send(key);
            }
            Err(error) => self.ready.push(Completion { key, result: Err(error) }),
        }
    }

    /// Hands the kernel what runs under `key`.
    fn send(&mut self, key: OpKey) {
        let running = &mut self.running[key.0 as usize];
        let entry = running.entry(&self.members, &self.sockets, &self.ring);
        // SAFETY: the caller of `submit` keeps segments and memory in place until the completion; message headers
        // stay in `running`; files stay open while `begin` counts the operation.
        unsafe { self.ring.push(entry, Token::Op(key)) };
    }

    fn park(&mut self, done: &mut Vec<Completion>, until: Option<Instant>) {
        self.wake.arm(&mut self.ring);
        done.append(&mut self.ready);
        let wait = match until {
            _ if !done.is_empty() => Wait::Not,
            None => Wait::Endless,
            Some(until) => match until.since(self.now()) {
                span if span.is_zero() => Wait::Not,
                span => Wait::For(span),
            },
        };
        self.ring.enter(wait);
        self.reap(done);
    }

    /// Takes the kernel's answers from the ring.
    fn reap(&mut self, done: &mut Vec<Completion>) {
        let mut reaped = core::mem::take(&mut self.reaped);
        self.ring.reap(&mut reaped);
        for (token, result) in reaped.drain(..) {
            match token {
                Token::Op(key) => done.extend(self.answer(key, result)),
                Token::Wake => self.wake.woken(),
                Token::Cancel(socket) => self.sockets.cancelled(&mut self.ring, socket),
            }
        }
        self.reaped = reaped;
    }

    /// The completion that the kernel's answer amounts to; `None` if the operation was sent once more.
    fn answer(&mut self, key: OpKey, result: i32) -> Option<Completion> {
        let running = &mut self.running[key.0 as usize];
        let kind = running.kind();
        let member = kind.member();
        let stopped = member.is_none() && self.sockets.is_stopped(kind);
        let result = match u32::try_from(result) {
            Ok(value) => Ok(value),
            Err(_) if !stopped && running.again(-result) => {
                self.send(key);
                return None;
            }
            Err(_) => Err(errno::error(kind, -result)),
        };
        self.in_kernel -= 1;
        let result = match member {
            Some(member) => {
                self.members.end(&self.ring, member);
                result.map(|moved| errno::moved(kind, moved))
            }
            None => self.sockets.end(kind, result),
        };
        Some(Completion { key, result })
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // An executor has waited for its operations already. What is left is the ring's own.
        self.sockets.close_all(&mut self.ring);
        self.wake.stop();
        let mut dropped = Vec::new();
        while self.in_kernel > 0 || self.wake.is_armed() || self.sockets.is_cancelling() {
            self.ring.enter(Wait::Endless);
            self.reap(&mut dropped);
            dropped.clear();
        }
        // The kernel ends a closed ring at its leisure, seconds later at times, and members would stay locked until then.
        self.members.close_all(&self.ring);
    }
}

impl core::fmt::Debug for Uring {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Uring").field("in_kernel", &self.0.borrow().in_kernel).finish_non_exhaustive()
    }
}
