//! Several executors in one world and one thread: the first drives the others whenever it waits.
//!
//! They are polled in an order from the seed until none has work, then time moves. What they send each other comes some polls late,
//! since one that has work may be passed over. They have sockets, and ports of drives that the first one hands to them.

use core::ptr::NonNull;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Sim;
use super::others::{KEY_BITS, Port};
use super::world::SimWorld;
use crate::exec::Io;
use crate::op::{Completion, MemberId, MemberInfo, OpError, OpKey, OpView, SocketId};
use crate::reactor::{HandedDevice, HandedEnd, HandedMember, HandedSocket, Reactor, Unpark};
use crate::time::Instant;

impl Sim {
    /// One more executor of this world, which the first one drives while that waits. It has sockets, and ports of drives.
    pub fn add_executor(&self) -> Io {
        let number = {
            let ports = &mut self.0.borrow_mut().others.ports;
            ports.push(Port::default());
            ports.len()
        };
        let io = Io::new(Box::new(SimPort { world: Rc::clone(&self.0), number, open: Vec::new() }));
        self.0.borrow_mut().others.executors.push(io.clone());
        io
    }

    /// Ends the executors beside the first, which has been shut down.
    pub fn end_others(&self) {
        let executors = core::mem::take(&mut self.0.borrow_mut().others.executors);
        executors.iter().for_each(Io::shutdown);
    }

    /// The turn of the first executor in a world with others.
    #[cold]
    pub(super) fn park_with_others(&self, done: &mut Vec<Completion>, until: Option<u64>) {
        loop {
            self.run_others();
            let world = &mut *self.0.borrow_mut();
            world.sort_completions();
            if world.ended && world.watcher.is_none() {
                // The first one ends. It may wait for answers of others that have ended with the world.
                done.append(&mut world.completed);
                world.now = world.now.max(until.unwrap_or_default());
                return;
            }
            if world.has_come(done, until) || world.others.is_called() || !world.advance_for_all(until) {
                return;
            }
        }
    }

    /// Drives the other executors until none has work, or the first one is wanted.
    fn run_others(&self) {
        loop {
            let next = {
                let world = &mut *self.0.borrow_mut();
                world.sort_completions();
                if world.others.executors.is_empty() || world.ended || world.bug.is_some() {
                    return;
                }
                world.others.driven = true;
                world.others.next(world.now)
            };
            next.iter().for_each(Io::step);
            let world = &mut *self.0.borrow_mut();
            world.others.driven = false;
            // The rest has its turn after the first one's.
            let called = world.others.called.load(Ordering::Relaxed) && world.others.random.below(2) == 0;
            if next.is_empty() || called {
                return;
            }
        }
    }
}

/// The reactor of an executor beside the first.
struct SimPort {
    world: Rc<RefCell<SimWorld>>,
    /// From 1.
    number: usize,
    /// Drives that it has ports of.
    open: Vec<MemberId>,
}

// SAFETY: as of the first executor's. Operations of a port that has ended are without memory from then on.
unsafe impl Reactor for SimPort {
    fn attach(&mut self) {}

    fn detach(&mut self) {
        self.world.borrow_mut().detach_port(self.number);
    }

    fn register_arena(&mut self, _: u32, _: NonNull<[u8]>) {}
    fn unregister_arena(&mut self, _: u32) {}

    fn share(&mut self, memory: NonNull<[u8]>) {
        self.world.borrow_mut().shared.add(memory);
    }

    fn unshare(&mut self, memory: NonNull<[u8]>) {
        self.world.borrow_mut().shared.remove(memory);
    }

    unsafe fn submit(&mut self, key: OpKey, op: OpView<'_>) {
        let world = &mut *self.world.borrow_mut();
        assert!(key.0 < 1 << KEY_BITS, "more operations than a port has keys for");
        let key = OpKey(key.0 | (self.number as u32) << KEY_BITS);
        if op.kind.member().is_some_and(|member| !self.open.contains(&member)) {
            return world.completed.push(Completion { key, result: Err(OpError::Gone) });
        }
        world.submit::<true>(key, op);
    }

    fn park(&mut self, done: &mut Vec<Completion>, until: Option<Instant>) {
        let world = &mut *self.world.borrow_mut();
        world.sort_completions();
        let until = until.map(Instant::as_nanos);
        let port = &mut world.others.ports[self.number - 1];
        done.append(&mut port.completed);
        // One that did not want to wait is asked once more: its next timer is not known yet.
        port.until = until;
        // One that ends by itself waits by itself.
        while !world.others.driven && done.is_empty() && until.is_some() && world.advance(until) {
            world.sort_completions();
            done.append(&mut world.others.ports[self.number - 1].completed);
        }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.world.borrow().now)
    }

    fn member_info(&self, member: MemberId) -> Option<MemberInfo> {
        self.world.borrow().drives.get(member.place()).map(|drive| drive.info)
    }

    fn open_port(&mut self, handed: &HandedMember) -> Option<MemberId> {
        let HandedDevice::Number(member) = handed.0 else { return None };
        self.open.push(member);
        Some(member)
    }

    fn close_port(&mut self, port: MemberId) {
        self.open.retain(|&open| open != port);
    }

    fn close_socket(&mut self, socket: SocketId) {
        self.world.borrow_mut().close_socket(socket);
    }

    fn untaken(&self, socket: SocketId) -> Option<u64> {
        self.world.borrow().pipes.untaken(socket)
    }

    fn release_socket(&mut self, socket: SocketId) -> Option<HandedSocket> {
        Some(HandedSocket(HandedEnd::Number(socket)))
    }

    fn adopt_socket(&mut self, handed: HandedSocket) -> Option<SocketId> {
        number(&handed)
    }

    fn cancel_all(&mut self) {
        self.world.borrow_mut().cancel_all();
    }

    /// It is driven whenever it has work.
    fn unpark(&self) -> Unpark {
        Arc::new(|| {})
    }
}

/// The socket that is handed over, if it is one of this kind of world.
pub(super) fn number(handed: &HandedSocket) -> Option<SocketId> {
    match handed.0 {
        HandedEnd::Number(socket) => Some(socket),
        HandedEnd::Descriptor(_) => None,
    }
}
