//! The outcome of operations on members.

use brindle_io::{MemberId, OpError};
use brindle_volume::VolumeError;

use super::Refused;
use crate::events::{Cause, Operation};
use crate::set::MemberSet;

/// The outcome of the operations: `None` if all succeeded.
#[derive(Debug, Default)]
#[must_use]
pub struct Done(pub(super) Option<Box<NotDone>>);

#[derive(Debug)]
pub(super) struct NotDone {
    /// The role of the operation that failed first, if that role still has the same member, and the error.
    pub(super) first: (Option<u16>, OpError),
    /// In the order in which they failed.
    pub(super) refused: Vec<Refused>,
}

impl Done {
    /// Every operation was carried out.
    #[inline]
    pub fn is_ok(&self) -> bool {
        self.0.is_none()
    }

    /// The operations that were not carried out.
    pub fn refused(&self) -> &[Refused] {
        self.0.as_ref().map_or(&[], |not_done| &not_done.refused)
    }

    /// The combined outcome of several groups.
    pub fn of_all(groups: impl IntoIterator<Item = Self>) -> Self {
        groups.into_iter().fold(Self::default(), |all, group| match (all.0, group.0) {
            (Some(mut all), Some(group)) => {
                all.refused.extend(group.refused);
                Self(Some(all))
            }
            (all, group) => Self(all.or(group)),
        })
    }

    /// The outcome of operations of which these were refused.
    pub(crate) fn of_refused(refused: Vec<Refused>) -> Self {
        let first = refused.first().map(|first| (Some(first.role), first.error));
        Self(first.map(|first| Box::new(NotDone { first, refused })))
    }

    /// The outcome of writes that were sent by ports of these members: the devices that have refused one, at this byte of theirs, and why.
    pub fn of_ports(set: &MemberSet, refused: impl IntoIterator<Item = (MemberId, u64, OpError)>) -> Self {
        let of = |(member, at, error): (MemberId, u64, OpError)| {
            let (role, device) = set.members.role_and_device(member)?;
            let cause = Cause { operation: Some(Operation::Write), offset: Some(at), error: Some(error) };
            Some(Refused {
                role,
                member,
                offset: at.saturating_sub(device.data_offset),
                len: 0,
                error,
                cause,
            })
        };
        Self::of_refused(refused.into_iter().filter_map(of).collect())
    }

    /// For operations each of which must succeed.
    ///
    /// # Errors
    /// The first operation's that failed.
    #[inline]
    pub fn ok(&self) -> Result<(), OpError> {
        self.0.as_ref().map_or(Ok(()), |not_done| Err(not_done.first.1))
    }

    /// The outcome as an error of the volume.
    ///
    /// # Errors
    /// [`VolumeError::Member`], with the role of the member that failed first.
    #[inline]
    pub fn named(&self) -> Result<(), VolumeError> {
        let of = |&(role, error): &(Option<u16>, OpError)| VolumeError::Member { role, error };
        self.0.as_ref().map_or(Ok(()), |not_done| Err(of(&not_done.first)))
    }
}
