//! Members in RAM, and null members that keep nothing: for tests, and to measure the engine itself.
//!
//! Operations on members are done as they are submitted; time is real. Sockets are pipes within the process.

mod device;
mod pipe;

use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant as Clock;

use crate::op::{Completion, MemberId, MemberInfo, OpError, OpKey, OpKind, OpView, SocketId};
use crate::reactor::{Reactor, Unpark};
use crate::time::Instant;
use device::Device;
pub(crate) use pipe::Pipes;

/// The memory reactor. A handle: cloning gives the same members, so that a test keeps one while [`crate::Io`] owns another.
#[derive(Clone)]
pub struct Memory(Rc<RefCell<State>>);

struct State {
    began: Clock,
    devices: Vec<Device>,
    pipes: Pipes,
    done: Vec<Completion>,
    strikes: Vec<Strike>,
    signal: Arc<Signal>,
    attached: bool,
}

/// A fault to come.
struct Strike {
    operations: u64,
    member: MemberId,
    refuse: bool,
}

impl State {
    /// An operation is about to be done: whom it is time for, is struck.
    #[cold]
    fn strike(&mut self) {
        let devices = &mut self.devices;
        self.strikes.retain_mut(|strike| {
            if strike.operations > 0 {
                strike.operations -= 1;
                return true;
            }
            let device = &mut devices[strike.member.0 as usize];
            if strike.refuse {
                device.refuses_writes = true;
            } else {
                device.gone = true;
            }
            false
        });
    }
}

#[derive(Default)]
struct Signal {
    raised: Mutex<bool>,
    changed: Condvar,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// A reactor without members.
    pub fn new() -> Self {
        Self(Rc::new(RefCell::new(State {
            began: Clock::now(),
            devices: Vec::new(),
            pipes: Pipes::default(),
            done: Vec::with_capacity(256),
            strikes: Vec::new(),
            signal: Arc::default(),
            attached: false,
        })))
    }

    fn add(&self, device: Device) -> MemberId {
        let devices = &mut self.0.borrow_mut().devices;
        devices.push(device);
        MemberId((devices.len() - 1) as u32)
    }

    /// A member of `bytes` bytes of zeroed RAM with 512-byte blocks.
    pub fn add_ram(&self, bytes: u64) -> MemberId {
        self.add(Device::ram(bytes))
    }

    /// A member that takes everything and gives whatever the buffer held.
    pub fn add_null(&self, bytes: u64) -> MemberId {
        self.add(Device::null(bytes))
    }

    /// Sets what the member tells of itself; the size stays.
    pub fn set_info(&self, member: MemberId, change: impl FnOnce(&mut MemberInfo)) {
        let info = &mut self.0.borrow_mut().devices[member.0 as usize].info;
        let size = info.size;
        change(info);
        info.size = size;
    }

    /// Copies a RAM member's bytes at `offset` to `into`, beside the engine's back.
    ///
    /// # Panics
    /// If the range is not within a RAM member.
    pub fn peek(&self, member: MemberId, offset: u64, into: &mut [u8]) {
        let state = self.0.borrow();
        let at = offset as usize;
        into.copy_from_slice(&state.devices[member.0 as usize].bytes[at..at + into.len()]);
    }

    /// Changes a RAM member's bytes beside the engine's back: rot.
    ///
    /// # Panics
    /// If the range is not within a RAM member.
    pub fn poke(&self, member: MemberId, offset: u64, from: &[u8]) {
        let mut state = self.0.borrow_mut();
        let at = offset as usize;
        state.devices[member.0 as usize].bytes[at..at + from.len()].copy_from_slice(from);
    }

    /// From now on every operation on the member fails with [`OpError::Gone`].
    pub fn kill(&self, member: MemberId) {
        self.0.borrow_mut().devices[member.0 as usize].gone = true;
    }

    /// Reads that touch `len` bytes at `offset` fail with [`OpError::Medium`] until the range has been written to.
    pub fn spoil(&self, member: MemberId, offset: u64, len: u64) {
        self.0.borrow_mut().devices[member.0 as usize].spoilt.push(offset..offset + len);
    }

    /// From now on every write to the member fails with [`OpError::Medium`]; reads go on.
    pub fn refuse_writes(&self, member: MemberId) {
        self.0.borrow_mut().devices[member.0 as usize].refuses_writes = true;
    }

    /// [`Memory::kill`] (or, with `refuse`, [`Memory::refuse_writes`]) strikes the member when `operations` more have
    /// been submitted to all members: just before the next one.
    pub fn strike_after(&self, operations: u64, member: MemberId, refuse: bool) {
        self.0.borrow_mut().strikes.push(Strike { operations, member, refuse });
    }

    /// Operations that the member has been given, reads and writes.
    pub fn op_counts(&self, member: MemberId) -> (u64, u64) {
        let state = self.0.borrow();
        let device = &state.devices[member.0 as usize];
        (device.reads, device.writes)
    }

    /// A listening socket within the process.
    pub fn listen(&self) -> SocketId {
        self.0.borrow_mut().pipes.listen()
    }

    /// The client's end of a new connection to `listener`.
    pub fn connect(&self, listener: SocketId) -> SocketId {
        let state = &mut *self.0.borrow_mut();
        state.pipes.connect(listener, &mut state.done)
    }
}

// SAFETY: an operation on a member is done, and its completion noted once, within `submit`; a pipe takes the segments
// it keeps out of its state when it notes their operation's completion.
unsafe impl Reactor for Memory {
    fn attach(&mut self) {
        let attached = &mut self.0.borrow_mut().attached;
        assert!(!*attached, "the reactor has an executor: shut that down first");
        *attached = true;
    }

    fn detach(&mut self) {
        self.0.borrow_mut().attached = false;
    }

    fn register_arena(&mut self, _: NonNull<[u8]>) {}

    #[inline]
    unsafe fn submit(&mut self, key: OpKey, op: OpView<'_>) {
        let state = &mut *self.0.borrow_mut();
        match op.kind {
            OpKind::Accept { .. } | OpKind::Recv { .. } | OpKind::Send { .. } => {
                state.pipes.submit(key, op, &mut state.done);
            }
            _ => {
                if !state.strikes.is_empty() {
                    state.strike();
                }
                let at = op.kind.member().map_or(usize::MAX, |member| member.0 as usize);
                let result = state.devices.get_mut(at).map_or(Err(OpError::Gone), |device| device.run(op));
                state.done.push(Completion { key, result });
            }
        }
    }

    fn park(&mut self, done: &mut Vec<Completion>, until: Option<Instant>) {
        let (signal, now) = {
            let state = &mut *self.0.borrow_mut();
            if !state.done.is_empty() {
                done.append(&mut state.done);
                return;
            }
            (Arc::clone(&state.signal), self_now(state))
        };
        if until.is_some_and(|until| until <= now) {
            return;
        }
        signal.wait(until.map(|until| until.since(now)));
    }

    fn now(&self) -> Instant {
        self_now(&self.0.borrow())
    }

    fn member_info(&self, member: MemberId) -> Option<MemberInfo> {
        self.0.borrow().devices.get(member.0 as usize).map(|device| device.info)
    }

    fn close_socket(&mut self, socket: SocketId) {
        let state = &mut *self.0.borrow_mut();
        state.pipes.close(socket, &mut state.done);
    }

    fn cancel_all(&mut self) {
        let state = &mut *self.0.borrow_mut();
        state.pipes.cancel_all(&mut state.done);
    }

    fn unpark(&self) -> Unpark {
        let signal = Arc::clone(&self.0.borrow().signal);
        Arc::new(move || signal.raise())
    }
}

fn self_now(state: &State) -> Instant {
    Instant::from_nanos(state.began.elapsed().as_nanos() as u64)
}

impl Signal {
    fn raise(&self) {
        *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    fn wait(&self, most: Option<std::time::Duration>) {
        let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
        if !*raised {
            raised = match most {
                Some(most) => {
                    self.changed.wait_timeout(raised, most).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(raised).unwrap_or_else(PoisonError::into_inner),
            };
        }
        *raised = false;
    }
}
