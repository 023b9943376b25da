//! Kinds of events of an array, with their texts.

use brindle_members::events::{self, Cause, Kind};
use brindle_members::set::Noticed;

/// Something that has happened to an array. Ranges are of the member's data area for what happens to members, else as
/// [`Array::sync_len`](crate::Array::sync_len) counts.
pub type Event = events::Event<EventKind>;

pub(crate) type Events = events::Events<EventKind>;
pub(crate) type Note = events::Note<EventKind>;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A member was taken out of use for good.
    MemberFailed,
    /// A member failed that redundancy does not make up for: no writes are taken any more.
    Broken,
    /// A place of a member that could not be read was rewritten from redundancy.
    Corrected,
    /// A place of a member can't be read, and redundancy does not make up for it.
    Uncorrected,
    /// A resync has begun; `range` is what it has to go over.
    ResyncBegun,
    /// A resync has come to its end.
    ResyncEnded,
    /// A member is being rebuilt from the others; `range` is the part of it that has to be rebuilt.
    RecoveryBegun,
    /// A member has been rebuilt.
    RecoveryEnded,
    /// A member is being copied onto the device that is to replace it; `range` is what has to be.
    CopyBegun,
    /// A device has taken the place of the member that it was to replace.
    CopyEnded,
    /// A former member was re-added.
    Readded,
    /// `range` of a member that is being rebuilt could not be rebuilt, since other members can't be read there. Reads
    /// of it fail until it is rewritten.
    Unrebuilt,
    /// A member has no room to record which places could not be rebuilt.
    NoBadBlockLog,
    /// `range` of a member disagrees with the others, and nothing tells which is wrong: the member is the one that holds the
    /// redundancy.
    Mismatch,
    /// `range` of a member is wrong by what all others say.
    Wrong,
    /// `range` of a member disagreed with the others, and was rewritten from them.
    Rewritten,
    /// All redundancy has been compared.
    CheckEnded,
    /// All redundancy has been compared, and brought in sync as it was asked for.
    RepairEnded,
    /// `range` could not be made redundant: a loss of a member there is a loss of data.
    Unprotected,
    /// A member is slow: reads are answered from redundancy in its place.
    Slow,
    /// A member has grown slow against its peers: it takes eight times as long, or more.
    Slower,
    /// A slow member is as fast as the others again.
    AsFastAgain,
    /// An operation got no answer within the member's patience, and was given up.
    GivenUp,
    /// The answer to an operation that had been given up has come.
    LateAnswer,
    /// The member's file was deleted; it serves on while it is open.
    Deleted,
    /// Another file has taken the place of the member's.
    Replaced,
    /// The member is shorter than it was.
    Truncated,
    /// The file system that holds the member is full: writes that need space are refused. No data are lost.
    Full,
    /// All ranges that the member had no space for are in sync again.
    SpaceAgain,
    /// A member whose superblock was behind after a crash was given the present state.
    BroughtUp,
    /// The array has a write-intent bitmap from now on.
    BitmapAdded,
    /// The array has no write-intent bitmap any more.
    BitmapRemoved,
    /// The array's write-intent bitmap stands elsewhere from now on.
    BitmapMoved,
    /// The file of the write-intent bitmap is out of use: the array goes on without one that survives a crash.
    BitmapFailed,
    /// The array has another size, other roles or another level from now on.
    Grown,
    /// Data begin to move into rows of more members, from `range` on, or go on with that.
    ReshapeBegun,
    /// A part of that can't be moved: members do not answer, or give errors. It is tried again until it can.
    ReshapeWaits,
    /// Nothing is left of a place that was to be moved.
    Unmoved,
    /// All data have moved.
    ReshapeEnded,
    /// Another number of writes may lag behind on write-mostly members.
    WriteBehindSet,
    /// A spare has left for another array that lacked a member.
    SpareGiven,
    /// A spare of another array has come, since members are lost.
    SpareTaken,
    /// Members are lost for which parity stands: if the run ends in mid-write, the array starts again by force only.
    Exposed,
}

impl EventKind {
    /// A stable name, as JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::MemberFailed => "member-failed",
            Self::Broken => "broken",
            Self::Corrected => "corrected",
            Self::Uncorrected => "uncorrected",
            Self::ResyncBegun => "resync-begun",
            Self::ResyncEnded => "resync-ended",
            Self::RecoveryBegun => "recovery-begun",
            Self::RecoveryEnded => "recovery-ended",
            Self::CopyBegun => "copy-begun",
            Self::CopyEnded => "copy-ended",
            Self::Readded => "re-added",
            Self::Unrebuilt => "unrebuilt",
            Self::NoBadBlockLog => "no-bad-block-log",
            Self::Mismatch => "mismatch",
            Self::Wrong => "wrong",
            Self::Rewritten => "rewritten",
            Self::CheckEnded => "check-ended",
            Self::RepairEnded => "repair-ended",
            Self::Unprotected => "unprotected",
            Self::Slow => "slow",
            Self::Slower => "slower",
            Self::AsFastAgain => "as-fast-again",
            Self::GivenUp => "given-up",
            Self::LateAnswer => "late-answer",
            Self::Deleted => "deleted",
            Self::Replaced => "replaced",
            Self::Truncated => "truncated",
            Self::Full => "full",
            Self::SpaceAgain => "room-again",
            Self::BroughtUp => "brought-up",
            Self::BitmapAdded => "bitmap-added",
            Self::BitmapRemoved => "bitmap-removed",
            Self::BitmapMoved => "bitmap-moved",
            Self::BitmapFailed => "bitmap-failed",
            Self::Grown => "grown",
            Self::ReshapeBegun => "reshape-begun",
            Self::ReshapeWaits => "reshape-waits",
            Self::Unmoved => "unmoved",
            Self::ReshapeEnded => "reshape-ended",
            Self::WriteBehindSet => "write-behind-set",
            Self::SpareGiven => "spare-given",
            Self::SpareTaken => "spare-taken",
            Self::Exposed => "exposed",
        }
    }
}

impl Kind for EventKind {
    fn words(self, why: Option<&Cause>) -> &'static str {
        match self {
            Self::MemberFailed if why == Some(&Cause::REPLACED) => "is not used any more",
            Self::MemberFailed => "has failed and is not used any more",
            Self::Broken => "has failed, and the array can't do without it: no writes are taken any more",
            Self::Corrected => "could not be read in a place, which was written anew from the others",
            Self::Uncorrected => "can't be read in a place, and the others do not make up for it",
            Self::ResyncBegun => "is being resynced",
            Self::ResyncEnded => "has been resynced",
            Self::RecoveryBegun => "is being rebuilt from the others",
            Self::RecoveryEnded => "has been rebuilt",
            Self::CopyBegun => "is being copied onto the device that replaces it",
            Self::CopyEnded => "is the member now: it holds all that the one held which it replaces",
            Self::Readded => "is back, and is given what was written while it was away",
            Self::Unrebuilt => {
                "could not be rebuilt in a place that the others can't give: it can't be read until it is written anew"
            }
            Self::NoBadBlockLog => {
                "has no room in a log of bad blocks to record what could not be rebuilt of it"
            }
            Self::Mismatch => {
                "disagrees with the others in a place, and it is not known which is wrong: it is left as it is"
            }
            Self::Wrong => "is wrong in a place, by what all others say",
            Self::Rewritten => "disagreed with the others in a place, which was written anew from them",
            Self::CheckEnded => "has been checked",
            Self::RepairEnded => "has been repaired",
            Self::Unprotected => "has a place whose redundancy could not be brought in sync",
            Self::Slow => "is slow: the others answer for it",
            Self::Slower => "has grown slow: it takes much longer to answer than the others",
            Self::AsFastAgain => "answers about as fast as the others again",
            Self::GivenUp => "did not answer in time: the operation was given up",
            Self::LateAnswer => "answered late",
            Self::Deleted => "was deleted while it is in use: its content goes when the array stops",
            Self::Replaced => "was replaced by another file: what it holds goes when the array stops",
            Self::Truncated => "is shorter than it was",
            Self::Full => "has no space left: what lies below it is full",
            Self::SpaceAgain => "has caught up on the writes that failed for lack of space",
            Self::BroughtUp => "was one event behind after a crash and was given the present state",
            Self::BitmapAdded => "has a write-intent bitmap now",
            Self::BitmapRemoved => "has no write-intent bitmap any more",
            Self::BitmapMoved => "has its write-intent bitmap elsewhere now",
            Self::BitmapFailed => {
                "had the write-intent bitmap, and is not used any more: after a crash all of the array is resynced"
            }
            Self::Grown => "has another size, number of members or level now",
            Self::ReshapeBegun => "moves its data into rows of more members",
            Self::ReshapeWaits => "can't move a part of its data, and tries that again",
            Self::Unmoved => {
                "would hold a place of which no member had anything left to be moved: it can't be read until it is written anew"
            }
            Self::ReshapeEnded => "has moved its data into rows of more members",
            Self::WriteBehindSet => "has another limit of write-behind now",
            Self::SpareGiven => "was a spare, and has left for another array that lacks a member",
            Self::SpareTaken => "was a spare of another array, and takes the place of a member of this one",
            Self::Exposed => {
                "lacks members: if its server is killed, or the machine stops, while it is written to, it starts again only with --force"
            }
        }
    }
}

impl From<Noticed> for EventKind {
    fn from(what: Noticed) -> Self {
        match what {
            Noticed::Slow => Self::Slow,
            Noticed::Slower => Self::Slower,
            Noticed::AsFastAgain => Self::AsFastAgain,
            Noticed::GivenUp => Self::GivenUp,
            Noticed::Deleted => Self::Deleted,
            Noticed::Replaced => Self::Replaced,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brindle_io::memory::Memory;
    use brindle_io::{Io, OpError};
    use brindle_members::events::Operation;

    #[test]
    fn an_event_reads_as_a_line_of_a_log() {
        let io = Io::new(Box::new(Memory::new()));
        let events = Events::new(&io);
        let cause =
            Cause { operation: Some(Operation::Write), offset: Some(4096), error: Some(OpError::Medium(5)) };
        let note = Note {
            role: Some(1),
            label: Some("/dev/sdb".to_owned()),
            cause: Some(cause),
            ..Note::of(EventKind::MemberFailed)
        };
        assert_eq!(
            events.note(0, note).to_string(),
            "/dev/sdb (role 1) has failed and is not used any more: write at byte 4096 of the device: \
             input/output error (errno 5)"
        );
        let note = Note { range: Some(0..65536), ..Note::of(EventKind::Unprotected) };
        assert_eq!(
            events.note(0, note).to_string(),
            "the array has a place whose redundancy could not be brought in sync (bytes 0 to 65536)"
        );
        io.shutdown();
    }
}
