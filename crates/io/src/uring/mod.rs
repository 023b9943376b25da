//! Real members and sockets, through io_uring (Linux 5.19 or newer; 6.1 for deferred task work), or where that is not available by
//! threads (see `crate::threads`). All but the sending and the taking of answers is the same for both.
//!
//! One ring per executor, used by its thread only. A park is at most one `io_uring_enter`: it sends what was submitted,
//! waits, and runs the kernel's deferred work. Members are registered files, arenas are registered buffers where the
//! limit on locked memory allows it. What may hold the thread that sends it is left to workers of the kernel, see
//! `OpenDevice::may_wait`.

mod arenas;
mod closer;
mod engine;
mod errno;
mod handed;
mod holes;
mod listen;
mod members;
mod prepare;
mod probe;
mod ring;
mod size;
mod sockets;
mod wake;

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::ptr::NonNull;
use std::rc::Rc;

use crate::device::OpenDevice;
use crate::op::{Completion, Mapped, MemberId, MemberInfo, OpError, OpKey, OpKind, OpView, Probe, SocketId};
use crate::reactor::{HandedDevice, HandedEnd, HandedMember, HandedSocket, Reactor, Unpark};
use crate::threads::Threads;
use crate::time::{Clock, Duration, Instant};
use arenas::Arenas;
pub use arenas::say_if_locked_memory_lacks;
use engine::Engine;
pub use handed::{
    HandedListener, ListenerPlace, adopt, close_unclaimed, is_unclaimed, keep_listeners, keeps_listeners,
    let_listeners_go, listeners, place_of, take_inherited, track_listeners,
};
use holes::{Answer, Holes};
pub use listen::{ListenError, OWNER_ONLY, SocketFile, SocketRights, is_abandoned, listen_tcp, listen_unix};
use members::Members;
use prepare::Running;
pub use ring::UringError;
use ring::{Ring, Token, Wait};
use sockets::Sockets;
use wake::Wake;

/// Time that the end of a ring waits for its own operations.
const END_TIMEOUT: Duration = Duration::from_millis(500);

/// The io_uring reactor. A handle: cloning gives the same ring, so that members and listeners can be added while
/// [`crate::Io`] owns it.
#[derive(Clone)]
pub struct Uring(Rc<RefCell<UringState>>);

struct UringState {
    engine: Engine,
    clock: Clock,
    members: Members,
    sockets: Sockets,
    arenas: Arenas,
    wake: Wake,
    holes: Holes,
    /// Indexed by operation key: what the kernel was last asked under that key.
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
    /// [`UringError::Missing`] if the kernel has no io_uring or is too old, [`UringError::Forbidden`],
    /// [`UringError::Limit`] for lack of descriptors or memory, [`UringError::Failed`] with any other error.
    pub fn new() -> Result<Self, UringError> {
        let ring = Ring::new()?;
        let wake = Wake::new()?;
        Ok(Self::over(Engine::Ring(ring), wake))
    }

    /// A reactor without io_uring: each member has threads that ask it, and epoll watches the sockets. Each operation
    /// costs two more thread switches.
    ///
    /// # Errors
    /// [`UringError::Limit`] for lack of descriptors or memory, [`UringError::Failed`] with any other error.
    pub fn on_threads() -> Result<Self, UringError> {
        let wake = Wake::new()?;
        let threads = Threads::new(wake.event())?;
        Ok(Self::over(Engine::Threads(threads), wake))
    }

    fn over(engine: Engine, wake: Wake) -> Self {
        Self(Rc::new(RefCell::new(UringState {
            clock: Clock::start(),
            holes: Holes::new(wake.unpark()),
            members: Members::new(&engine),
            sockets: Sockets::default(),
            arenas: Arenas::new(&engine),
            wake,
            engine,
            running: Vec::new(),
            in_kernel: 0,
            ready: Vec::new(),
            reaped: Vec::with_capacity(ring::COMPLETIONS as usize),
            attached: false,
        })))
    }

    /// Makes an open device a member. It stays open, and locked, until [`Uring::close_member`] or the end of the ring.
    pub fn add_member(&self, device: OpenDevice) -> MemberId {
        let state = &mut *self.0.borrow_mut();
        state.members.add(&state.engine, device)
    }

    /// Says why a member can't be asked this, if it can't.
    pub(crate) fn admit(&self, kind: OpKind, len: u64) -> Result<(), OpError> {
        let state = &mut *self.0.borrow_mut();
        state.members.begin(kind, len)?;
        if let Some(member) = kind.member() {
            state.members.end(&state.engine, member);
        }
        Ok(())
    }

    /// Closes a member once what it was asked has completed; whatever it is asked from now on fails with
    /// [`crate::OpError::Gone`].
    pub fn close_member(&self, member: MemberId) {
        let state = &mut *self.0.borrow_mut();
        state.members.close(&state.engine, member);
    }

    /// Listens on a Unix socket to which only the owner may connect. A socket file that nobody listens on any more is
    /// replaced; the file is removed when the listener is closed.
    ///
    /// # Errors
    /// [`ListenError::InUse`], [`ListenError::NotASocket`]; [`ListenError::Path`] with what else the kernel says.
    pub fn listen_unix(&self, path: impl AsRef<Path>) -> Result<SocketId, ListenError> {
        self.listen_unix_as(path, OWNER_ONLY)
    }

    /// [`Uring::listen_unix`] for a socket whose file has these rights: users who may write to it can connect.
    ///
    /// # Errors
    /// As [`Uring::listen_unix`].
    pub fn listen_unix_as(
        &self,
        path: impl AsRef<Path>,
        rights: SocketRights,
    ) -> Result<SocketId, ListenError> {
        let (listener, file) = listen_unix(path.as_ref(), rights)?;
        Ok(self.0.borrow_mut().sockets.add_listener(listener.into(), Some(file)))
    }

    /// Listens on a TCP address; port 0 lets the kernel choose, see [`Uring::local_addr`]. An IPv6 address does not
    /// include the IPv4 ones. Connections are closed if the other end does not answer for two minutes.
    ///
    /// # Errors
    /// [`ListenError::AddressInUse`]; [`ListenError::Address`] with what else the kernel says.
    pub fn listen_tcp(&self, address: SocketAddr) -> Result<SocketId, ListenError> {
        let fd = listen::listen_tcp(address)?;
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

    /// Takes a descriptor from which whole messages are read and to which whole messages are written, as /dev/fuse is: a receive gives
    /// one message, cut to its memory, and a send is one.
    ///
    /// # Errors
    /// The descriptor can't be made one that does not wait.
    pub fn add_port(&self, port: impl Into<OwnedFd>) -> io::Result<SocketId> {
        let port = port.into();
        // Else a worker of the kernel would wait for each message.
        rustix::io::ioctl_fionbio(&port, true)?;
        Ok(self.0.borrow_mut().sockets.add_port(port))
    }
}

// SAFETY: a key enters `running` with its submission and one entry is sent for it; its completion is handed back when
// the kernel's is taken from the ring, after which the kernel has no hold of the segments. Entries are sent again only
// for keys whose completion was taken and not handed back.
unsafe impl Reactor for Uring {
    fn attach(&mut self) {
        let state = &mut *self.0.borrow_mut();
        state.reap_orphans();
        assert!(!state.attached, "the ring has an executor: shut that down first");
        assert!(state.in_kernel == 0, "operations of the last executor are not answered yet");
        state.arenas.clear(&state.engine);
        state.attached = true;
    }

    fn detach(&mut self) {
        let state = &mut *self.0.borrow_mut();
        // Kernels before 6.13 would wait here for what is in flight. What they keep of the arenas is their pages only.
        if state.in_kernel == 0 {
            state.arenas.clear(&state.engine);
        }
        state.attached = false;
    }

    fn register_arena(&mut self, arena: u32, memory: NonNull<[u8]>) {
        let state = &mut *self.0.borrow_mut();
        state.arenas.register(&state.engine, arena, memory);
    }

    fn unregister_arena(&mut self, arena: u32) {
        let state = &mut *self.0.borrow_mut();
        state.arenas.unregister(&state.engine, arena);
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

    fn is_in_memory(&self, member: MemberId) -> bool {
        self.0.borrow().members.is_in_memory(member)
    }

    fn close_socket(&mut self, socket: SocketId) {
        let state = &mut *self.0.borrow_mut();
        state.sockets.close(&mut state.engine, socket);
    }

    fn untaken(&self, socket: SocketId) -> Option<u64> {
        self.0.borrow().sockets.untaken(socket)
    }

    fn peer(&self, socket: SocketId) -> Option<core::net::IpAddr> {
        self.0.borrow().sockets.peer(socket)
    }

    fn local(&self, socket: SocketId) -> Option<SocketAddr> {
        self.local_addr(socket)
    }

    fn hand_member(&self, member: MemberId) -> Option<HandedMember> {
        let port = self.0.borrow().members.port(member)?;
        Some(HandedMember(HandedDevice::Open(port)))
    }

    fn open_port(&mut self, handed: &HandedMember) -> Option<MemberId> {
        let HandedDevice::Open(device) = &handed.0 else { return None };
        let state = &mut *self.0.borrow_mut();
        Some(state.members.open_port(&state.engine, device.port()?))
    }

    fn close_port(&mut self, port: MemberId) {
        self.close_member(port);
    }

    fn release_socket(&mut self, socket: SocketId) -> Option<HandedSocket> {
        let state = &mut *self.0.borrow_mut();
        let released = state.sockets.release(socket)?;
        state.engine.forget(socket);
        Some(HandedSocket(HandedEnd::Descriptor(released)))
    }

    fn adopt_socket(&mut self, handed: HandedSocket) -> Option<SocketId> {
        let HandedEnd::Descriptor(descriptor) = handed.0 else { return None };
        Some(self.0.borrow_mut().sockets.adopt(descriptor))
    }

    fn cancel_all(&mut self) {
        let state = &mut *self.0.borrow_mut();
        state.sockets.cancel_all(&mut state.engine);
    }

    fn give_up(&mut self, key: OpKey) {
        self.0.borrow_mut().give_up(key);
    }

    fn unpark(&self) -> Unpark {
        self.0.borrow().wake.unpark()
    }
}

impl UringState {
    fn now(&self) -> Instant {
        self.clock.now()
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
            Ok(()) if let OpKind::Map { member, offset, len } = op.kind => {
                let from = self.members.file(member).start + offset;
                if self.holes.ask(key, member, self.members.device(member), from..from + len) {
                    self.in_kernel += 1;
                } else {
                    self.members.end(&self.engine, member);
                    self.ready.push(Completion { key, result: Ok(Mapped::stored(len).to_bits()) });
                }
            }
            Ok(()) => {
                let fixed = self.arenas.index(op.arena);
                self.running[at].begin(op, fixed, &self.members);
                self.in_kernel += 1;
                self.send(key);
            }
            Err(error) => self.ready.push(Completion { key, result: Err(error) }),
        }
    }

    /// Submits the operation `key` to the kernel.
    fn send(&mut self, key: OpKey) {
        let running = &mut self.running[key.0 as usize];
        match &mut self.engine {
            Engine::Ring(ring) => {
                let entry = running.entry(&self.members, &self.sockets, ring);
                // SAFETY: the caller of `submit` keeps segments and memory in place until the completion; message headers
                // stay in `running`; files stay open while `begin` counts the operation.
                unsafe { ring.push(entry, Token::Op(key)) };
                if matches!(running.kind(), OpKind::Send { .. }) {
                    ring.note_reply();
                }
            }
            Engine::Threads(threads) => {
                if let Some((socket, transfer)) = running.transfer(key, &self.sockets) {
                    threads.transfer(socket, self.sockets.raw_fd(socket), transfer);
                } else if let Some(job) = running.job(key, &self.members) {
                    threads.ask(job);
                }
            }
        }
    }

    /// Takes answers to what the last executor left in flight.
    #[cold]
    fn reap_orphans(&mut self) {
        if self.in_kernel > 0 && !self.attached {
            let mut nobodys = Vec::new();
            self.engine.enter(Wait::Not);
            self.reap(&mut nobodys);
            self.take_holes(&mut nobodys);
        }
    }

    /// Calls an operation off. What a device already does goes on; what waits for a worker of the kernel never begins, and
    /// a file system that can be interrupted is.
    fn give_up(&mut self, key: OpKey) {
        if self.holes.has(key) {
            return;
        }
        self.running[key.0 as usize].give_up();
        let kind = self.running[key.0 as usize].kind();
        self.engine.give_up(key, kind);
    }

    fn park(&mut self, done: &mut Vec<Completion>, until: Option<Instant>) {
        self.wake.arm(&mut self.engine);
        done.append(&mut self.ready);
        self.take_holes(done);
        let wait = match until {
            _ if !done.is_empty() => Wait::Not,
            None => Wait::Endless,
            Some(until) => match until.since(self.now()) {
                span if span.is_zero() => Wait::Not,
                span => Wait::For(span),
            },
        };
        self.engine.enter(wait);
        self.reap(done);
        self.take_holes(done);
    }

    /// Takes the answers of those who were asked for holes.
    fn take_holes(&mut self, done: &mut Vec<Completion>) {
        if self.holes.is_idle() {
            return;
        }
        let answers = self.holes.take();
        if !answers.is_empty() {
            // Holes are asked for seldom, and where a file has ended there is none.
            self.members.look_again();
        }
        for Answer { key, member, result } in answers {
            self.in_kernel -= 1;
            // A range beyond the end of a file that was made shorter is no hole of the member's.
            let shorter = self.members.is_shorter(member);
            self.members.end(&self.engine, member);
            let result = if shorter { Err(OpError::Truncated) } else { result.map(Mapped::to_bits) };
            done.push(Completion { key, result });
        }
    }

    /// Takes the kernel's answers from the ring.
    fn reap(&mut self, done: &mut Vec<Completion>) {
        let mut reaped = core::mem::take(&mut self.reaped);
        self.engine.reap(&mut reaped);
        self.members.turn(self.clock.now());
        for (token, result) in reaped.drain(..) {
            match token {
                Token::Op(key) => done.extend(self.answer(key, result)),
                Token::Wake => self.wake.woken(),
                Token::GiveUp => {}
                Token::Cancel(socket) => self.sockets.cancelled(&mut self.engine, socket),
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
            Err(_) if !stopped && running.again(-result) => {
                self.send(key);
                return None;
            }
            value => value.map_err(|_| -result),
        };
        if let OpKind::Probe { member } = kind {
            return self.looked(key, member, result);
        }
        if let Some(member) = member
            && running.is_doubtful(result)
        {
            return self.doubted(key, member, result);
        }
        let result = result.map_err(|errno| errno::error(kind, errno));
        self.in_kernel -= 1;
        let result = match member {
            Some(member) => {
                let block = self.members.block(member);
                let moved = result.and_then(|moved| running.moved(moved, block));
                let shorter = self.members.is_shorter(member);
                self.members.end(&self.engine, member);
                if shorter { Err(OpError::Truncated) } else { moved }
            }
            None => self.sockets.end(kind, result),
        };
        Some(Completion { key, result })
    }
}

impl UringState {
    /// The kernel has answered a look at a member; `None` if there is more to ask.
    fn looked(&mut self, key: OpKey, member: MemberId, result: Result<u32, i32>) -> Option<Completion> {
        let Some(result) = self.running[key.0 as usize].looked(self.members.device(member), result) else {
            self.send(key);
            return None;
        };
        self.in_kernel -= 1;
        self.members.end(&self.engine, member);
        Some(Completion { key, result: result.map(Probe::to_bits) })
    }
}

impl Drop for UringState {
    fn drop(&mut self) {
        // An executor has waited for its operations on members already: what these still have, hangs. What is left is
        // the ring's own, which nothing can hold up; a bound, all the same, so that no ring keeps a process from ending.
        self.sockets.close_all(&mut self.engine);
        self.wake.stop();
        let (end, mut dropped) = (self.now().after(END_TIMEOUT), Vec::new());
        while self.wake.is_armed() || self.sockets.is_busy() {
            let left = end.since(self.now());
            if left.is_zero() {
                break;
            }
            self.engine.enter(Wait::For(left));
            self.reap(&mut dropped);
            dropped.clear();
        }
        if self.in_kernel > 0 || self.wake.is_armed() {
            // The kernel may still write here.
            core::mem::forget(core::mem::take(&mut self.running));
            self.wake.leak_count();
        }
        // The kernel ends a closed ring at its leisure, seconds later at times, and members would stay locked until then.
        self.members.close_all(&self.engine);
    }
}

impl core::fmt::Debug for Uring {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Uring").field("in_kernel", &self.0.borrow().in_kernel).finish_non_exhaustive()
    }
}
