//! Why a volume did not do what was asked.

use brindle_io::OpError;

/// Reasons why a volume refused or failed a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    /// The range is not within the volume.
    #[error("the range lies beyond the end of the volume")]
    OutOfRange,
    /// Offset or length is not a multiple of the volume's block.
    #[error("offset or length is not a multiple of the volume's block size: align the request")]
    Unaligned,
    /// The volume takes no writes.
    #[error("the volume is read-only")]
    ReadOnly,
    /// Too many members are gone for these bytes: nothing was returned or acknowledged.
    #[error("more members are lost than the array's redundancy can replace: bring some of them back")]
    TooManyLost,
    /// A member failed and redundancy could not make up for it.
    #[error("{}: {error}", who(*role))]
    Member {
        /// The role of the member. `None` if it is not known: the member has left its role meanwhile, or belongs to a
        /// volume of another process.
        role: Option<u16>,
        /// The member's error.
        error: OpError,
    },
    /// A member has not answered, and may still write to the memory that was given: nothing was returned. The same read
    /// into other memory will not ask that member again.
    #[error("a member did not answer in time, and its memory can't be used again: ask with other memory")]
    Again,
    /// The volume can't do this as fast as was demanded, or at all (fast zeroes).
    #[error("the volume can't do this faster than by writing")]
    Unsupported,
    /// Redundancy is another on either side of a reshape's border.
    #[error("the array is being reshaped: its redundancy can be compared once mdadm has finished that")]
    Reshaping,
    /// There is no space for the write: nothing was written.
    #[error("there is no room left for this: free some, or give the pool more")]
    NoSpace,
    /// The volume is stopping.
    #[error("the volume is stopping")]
    Stopping,
}

impl VolumeError {
    /// The error of the member of a role.
    #[inline]
    pub const fn of_member(role: u16, error: OpError) -> Self {
        Self::Member { role: Some(role), error }
    }

    /// The error of a member whose role is not known.
    #[inline]
    pub const fn of_some_member(error: OpError) -> Self {
        Self::Member { role: None, error }
    }
}

/// The name of the member that failed, for a message.
fn who(role: Option<u16>) -> String {
    role.map_or_else(|| "a member failed".to_owned(), |role| format!("the member of role {role} failed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_role_if_it_is_known() {
        let error = OpError::Gone;
        assert_eq!(
            VolumeError::of_member(3, error).to_string(),
            format!("the member of role 3 failed: {error}")
        );
        assert_eq!(VolumeError::of_some_member(error).to_string(), format!("a member failed: {error}"));
    }
}
