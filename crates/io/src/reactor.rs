//! The seam between the engine's world and a device's: three reactors stand behind it.

use core::ptr::NonNull;
use std::sync::Arc;

use crate::op::{Completion, MemberId, MemberInfo, OpKey, OpView, SocketId};
use crate::time::Instant;

/// Wakes a reactor that is parked, from any thread.
pub type Unpark = Arc<dyn Fn() + Send + Sync>;

/// Does operations and tells the time. Everything above it is the same code in all three worlds.
///
/// A reactor must complete every operation exactly once, and must not touch an operation's segments after it has
/// handed back the completion.
pub trait Reactor {
    /// A stretch of memory from which segments will be cut, so that a reactor can register it with the kernel.
    /// It outlives the reactor's use of it. Arenas are numbered from 0 in the order of the calls.
    fn register_arena(&mut self, memory: NonNull<[u8]>);

    /// Takes an operation. Never blocks; the operation may be sent as late as the next [`Reactor::park`].
    fn submit(&mut self, key: OpKey, op: OpView<'_>);

    /// Sends what was submitted and appends completions to `done`. Waits for at least one completion, an unpark or
    /// the moment `until`, whichever is first; `None` waits without end, a moment that has passed does not wait.
    fn park(&mut self, done: &mut Vec<Completion>, until: Option<Instant>);

    /// The moment. Cheap; may be cached between parks in virtual time only.
    fn now(&self) -> Instant;

    /// What is known of a member; `None` if there is none of that number.
    fn member_info(&self, member: MemberId) -> Option<MemberInfo>;

    /// Closes a socket for both directions; operations on it complete, with an error or as the end of the stream.
    fn close_socket(&mut self, socket: SocketId);

    /// A function that ends a park from another thread.
    fn unpark(&self) -> Unpark;
}
