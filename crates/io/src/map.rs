//! Where members have holes, and where they are being changed.

use core::future::Future;
use core::ops::Range;
use core::pin::Pin;
use core::task::{Context, Poll};

use crate::exec::Io;
use crate::group::Pending;
use crate::op::{Mapped, MemberId, OpClass, OpError};

impl Io {
    /// Asks what a member has of `len` bytes from `offset` on, at once: a hole, or something stored, and how far that
    /// goes. Of files what their file system says, small holes left out; of all other devices that all is stored. A
    /// file system that does not answer blocks no other operation, and is not held against the member: a caller that
    /// can't wait drops the future.
    ///
    /// A hole reads as zeroes for as long as nothing is written to it; of writes under way this says nothing (see
    /// [`Io::changing`]).
    ///
    /// # Errors
    /// [`OpError::OutOfRange`]; [`OpError::Gone`] if there is no such member, or it is forsaken; [`OpError::Truncated`];
    /// [`OpError::Medium`] with what its file system says.
    pub fn map(&self, member: MemberId, offset: u64, len: u64) -> Mapping {
        let mut group = self.group_of(OpClass::Metadata);
        group.map(member, offset, len);
        Mapping(group.submit())
    }

    /// The ranges of a member that are being written, discarded or zeroed, those that were given up and may still be among
    /// them. Looks at all operations in flight.
    pub fn changing(&self, member: MemberId) -> Vec<Range<u64>> {
        self.0.core.table.borrow().changing(member)
    }
}

/// A question of [`Io::map`] that was sent.
#[must_use = "the answer is known only to whom awaits it"]
pub struct Mapping(Pending);

impl Future for Mapping {
    type Output = Result<Mapped, OpError>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|outcome| outcome.value().map(Mapped::from_bits))
    }
}
