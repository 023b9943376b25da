//! The owner of members, as a trait.

use core::ops::Range;
use core::pin::Pin;

use brindle_io::Duration;
use brindle_volume::VolumeError;

use super::MemberSet;
use crate::change::MemberChange;
use crate::events::Cause;

/// A record that is being written; begun, whether or not it is awaited.
pub type Recording = Pin<Box<dyn Future<Output = Result<(), VolumeError>>>>;

/// Something that was noticed of a member while it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noticed {
    /// The member is slow: reads are answered by others in its place.
    Slow,
    /// The member has grown slow against its peers.
    Slower,
    /// A slow member is as fast as the others again.
    AsFastAgain,
    /// An operation got no answer within the member's patience, and was given up.
    GivenUp,
    /// The member's file was deleted.
    Deleted,
    /// Another file has taken the place of its own.
    Replaced,
}

/// Owns members: decides what becomes of them, and keeps on record who is out of use.
///
/// The rule for all owners: a member is out of use from the moment at which [`Owner::begin_failing`] returns. Success
/// that relies on its absence is acknowledged only after the failure is on record.
pub trait Owner {
    /// The members.
    fn set(&self) -> &MemberSet;

    /// Whether nothing is lost without the members of these roles, too.
    fn can_lose(&self, roles: &[u16]) -> bool;

    /// Takes the member of a role out of use. What is returned ends when that is on record.
    ///
    /// # Errors
    /// [`VolumeError::TooManyLost`] if the owner can't do without it.
    fn begin_failing(&self, role: u16, why: Cause) -> Result<Recording, VolumeError>;

    /// The record that is due before success may be acknowledged: `None` if there is none.
    fn unrecorded(&self) -> Option<Recording>;

    /// The second device of a role did not carry something out: it is out of use from now on.
    fn second_failed(&self, role: u16, why: Cause) {
        let _no_seconds = (role, why);
    }

    /// Something was noticed of a role's member.
    fn notice(&self, role: u16, what: Noticed, why: Option<Cause>) {
        let _untold = (role, what, why);
    }

    /// Members had no room for a part of a write to a range, in the owner's unit. They stay in use where the owner
    /// [waits for room](MemberSet::waits_for_space), and are failed else.
    fn note_no_space(&self, range: Range<u64>, members: &[(u16, Cause)]) {
        let _failed_instead = (range, members);
    }

    /// Notes that a write found no space on a member, and left nothing in doubt.
    fn full(&self, role: u16, why: Cause) {
        let _untold = (role, why);
    }

    /// Members are about to be sent these changes. Asked only where they are [observed](MemberSet::is_observed).
    fn sent(&self, changes: &[MemberChange]) {
        let _unobserved = changes;
    }

    /// The run ends: members that keep it from that are waited for less long.
    fn is_stopping(&self) -> bool {
        false
    }

    /// Reads of a member that does not answer in time can be answered by others.
    fn answers_for_members(&self) -> bool;

    /// Reads of a role's member were given up that had waited for so long.
    fn gave_up_reads(&self, role: u16, age: Duration) {
        let _unmeasured = (role, age);
    }

    /// Writes of other reactors to a role's member have waited for too long, and are to be given up.
    fn gave_up_elsewhere(&self, role: u16) {
        let _none = role;
    }

    /// Called after each look at the members, some times a second.
    fn looked(&self) {}
}
