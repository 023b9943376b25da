//! Operations that members have not carried out.

use brindle_io::{MemberId, OpError};

use crate::events::Cause;
use crate::members::Members;

/// An operation that a member did not carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The member's role.
    pub role: u16,
    /// The device that refused.
    pub member: MemberId,
    /// First byte, of the data area; 0 for a flush.
    pub offset: u64,
    /// Bytes of a discard or write-zeroes; 0 for others.
    pub len: u64,
    /// The reason.
    pub error: OpError,
    /// The operation and its place, for events.
    pub(super) cause: Cause,
}

impl Refused {
    /// The operation was tried in another way, and refused with this error.
    pub(crate) fn with(self, error: OpError) -> Self {
        Self { error, cause: Cause { error: Some(error), ..self.cause }, ..self }
    }

    /// Whether the member still has the role; else another has taken its place, which this failure does not concern.
    pub fn is_of(&self, members: &Members) -> bool {
        members.device(self.role).is_some_and(|device| device.id == self.member)
    }
}

impl From<&Refused> for Cause {
    fn from(refused: &Refused) -> Self {
        refused.cause
    }
}
