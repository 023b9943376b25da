//! The seam between the engine's world and a device's: four reactors stand behind it.

use core::ptr::NonNull;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::device::OpenDevice;
use crate::op::{Completion, MemberId, MemberInfo, OpKey, OpView, SocketId};
use crate::time::Instant;

/// Wakes a reactor that is parked, from any thread.
pub type Unpark = Arc<dyn Fn() + Send + Sync>;

/// A connection on its way from one reactor to another. Dropping it closes it.
#[derive(Debug)]
pub struct HandedSocket(pub(crate) HandedEnd);

/// A connection as reactors of a kind hand it over.
#[derive(Debug)]
pub(crate) enum HandedEnd {
    /// Its descriptor.
    Descriptor(OwnedFd),
    /// Its number in a world that both share.
    Number(SocketId),
}

/// A member that another reactor may ask too, by a way of its own: its *port*. Keeps the device open for as long as it lives.
#[derive(Debug)]
pub struct HandedMember(pub(crate) HandedDevice);

/// A member as reactors of a kind hand it over.
#[derive(Debug)]
pub(crate) enum HandedDevice {
    /// Its open device.
    Open(OpenDevice),
    /// Its number in a world that both share.
    Number(MemberId),
    /// A member that keeps nothing.
    Null(MemberInfo),
}

/// Does operations and tells the time. Everything above it is the same code in all four worlds.
///
/// # Safety
/// Buffers are given back, and may be looked at, when their operation's completion has come. So an implementation
/// completes every operation at most once, and touches an operation's segments (or lets a device touch them) only
/// between its [`Reactor::submit`] and the return of the [`Reactor::park`] that hands back its completion.
pub unsafe trait Reactor {
    /// An executor takes the reactor: completions belong to its operations until [`Reactor::detach`].
    ///
    /// # Panics
    /// If another executor has it.
    fn attach(&mut self);

    /// The executor ends, and its arenas are freed after this returns. Operations that it left in flight keep their memory
    /// for ever; their completions are for nobody.
    fn detach(&mut self);

    /// A stretch of memory from which segments will be cut, so that a reactor can register it with the kernel. It lasts
    /// until [`Reactor::unregister_arena`] or [`Reactor::detach`], whichever is first. `arena` is the lowest number, or
    /// nearly so, that no other arena has.
    fn register_arena(&mut self, arena: u32, memory: NonNull<[u8]>);

    /// No operation uses the arena, and none will: its memory is given back. After [`Reactor::detach`] it means nothing.
    fn unregister_arena(&mut self, arena: u32);

    /// Others change the bytes of this memory at any time, also while operations use it. An implementation that copies bytes
    /// itself does so from and to such memory by atomic accesses, and makes no reference to it.
    fn share(&mut self, _memory: NonNull<[u8]>) {}

    /// Shared memory ends: no operation uses it, and none will. After [`Reactor::detach`] it means nothing.
    fn unshare(&mut self, _memory: NonNull<[u8]>) {}

    /// Takes an operation. Never blocks; the operation may be sent as late as the next [`Reactor::park`].
    ///
    /// # Safety
    /// Until the completion of `key` the segments' array and memory stay valid; nobody else writes to the memory, and
    /// nobody reads it if the operation fills it, but for memory that is [shared](Reactor::share). `key` is not that of another operation in flight.
    unsafe fn submit(&mut self, key: OpKey, op: OpView<'_>);

    /// Sends what was submitted and appends completions to `done`. Waits for at least one completion, an unpark or
    /// the moment `until`, whichever is first; `None` waits without end, a moment that has passed does not wait.
    fn park(&mut self, done: &mut Vec<Completion>, until: Option<Instant>);

    /// The moment. Cheap; may be cached between parks in virtual time only.
    fn now(&self) -> Instant;

    /// The size and block sizes of a member; `None` if there is none of that number.
    fn member_info(&self, member: MemberId) -> Option<MemberInfo>;

    /// Whether a member's bytes are in memory, so that reads are copies which processors make: there small operations, into memory
    /// that stays in their caches, cost less than large ones. Not so where a device fills the memory by itself.
    fn is_in_memory(&self, _member: MemberId) -> bool {
        false
    }

    /// Closes a socket for both directions; operations on it complete, with an error or as the end of the stream.
    fn close_socket(&mut self, socket: SocketId);

    /// Bytes that were sent on a connection and that its other end has not taken, or the memory that they take up: 0 once it has all.
    /// Comes down as the other end takes something, if in steps (see [`crate::Io::untaken`]). `None` where nothing tells.
    fn untaken(&self, _socket: SocketId) -> Option<u64> {
        None
    }

    /// The address of the other end of a connection over a network. `None` of any other, or where nothing tells.
    fn peer(&self, _socket: SocketId) -> Option<core::net::IpAddr> {
        None
    }

    /// The address of this end of a connection over a network, or of a listener. `None` of any other, or where nothing tells.
    fn local(&self, _socket: SocketId) -> Option<core::net::SocketAddr> {
        None
    }

    /// Lets go of a connection for another reactor. `None` if operations are under way on it, or it can't be handed over.
    fn release_socket(&mut self, _socket: SocketId) -> Option<HandedSocket> {
        None
    }

    /// Takes a connection of which another reactor has let go; `None` if it can't.
    fn adopt_socket(&mut self, _handed: HandedSocket) -> Option<SocketId> {
        None
    }

    /// A member for other reactors, which ask its device by ports of their own. `None` if there is none of that number, or it can't be
    /// asked so.
    fn hand_member(&self, _member: MemberId) -> Option<HandedMember> {
        None
    }

    /// Opens a port of a member of another reactor; gives its number here. `None` if it can't.
    fn open_port(&mut self, _handed: &HandedMember) -> Option<MemberId> {
        None
    }

    /// Closes a port once what it was asked has completed; whatever it is asked from now on fails with [`crate::OpError::Gone`]. Its
    /// number may be that of another port later.
    fn close_port(&mut self, _port: MemberId) {}

    /// Calls off every operation on sockets. They, and in their own time all others, complete in the parks that follow.
    fn cancel_all(&mut self);

    /// Nobody waits for an operation in flight any more. It may be called off, if that can be done without waiting, and
    /// is not to be tried again; it completes once, as any other.
    fn give_up(&mut self, _key: OpKey) {}

    /// A function that ends a park from another thread.
    fn unpark(&self) -> Unpark;
}
