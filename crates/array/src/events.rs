//! What has happened to an array: the last events, by number, for whoever watches it.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::ops::Range;
use std::collections::VecDeque;

use brindle_io::sync;
use brindle_io::{Failure, Instant, Io, OpError, OpKind};

use crate::owner::Noticed;

/// Events that are remembered; older ones are forgotten, which gaps in the numbers tell.
const MOST: usize = 1024;

/// What was asked of a member when something happened to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A read of data.
    Read,
    /// A write of data.
    Write,
    /// A flush.
    Flush,
    /// A discard.
    Discard,
    /// A write of zeroes.
    WriteZeroes,
    /// The write of a superblock.
    Superblock,
    /// A look at the device's size and identity.
    Probe,
    /// An order of the operator.
    Command,
    /// Another device has taken its place.
    Replacement,
}

impl Operation {
    /// A stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::WriteZeroes => "write-zeroes",
            Self::Superblock => "superblock",
            Self::Probe => "probe",
            Self::Command => "command",
            Self::Replacement => "replacement",
        }
    }
}

/// Why something happened to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// What was asked of it, if that is known.
    pub operation: Option<Operation>,
    /// Byte of the device at which, if the operation has a place.
    pub offset: Option<u64>,
    /// What came of it; `None` for an order of the operator.
    pub error: Option<OpError>,
}

impl Cause {
    /// The operator said so.
    pub const COMMAND: Self = Self { operation: Some(Operation::Command), offset: None, error: None };

    /// The device that was to replace it has all that it held.
    pub const REPLACED: Self = Self { operation: Some(Operation::Replacement), offset: None, error: None };

    /// An operation without a place failed.
    pub fn new(operation: Operation, error: OpError) -> Self {
        Self { operation: Some(operation), offset: None, error: Some(error) }
    }

    /// An operation on a member failed.
    pub fn of(kind: OpKind, error: OpError) -> Self {
        let (operation, offset) = match kind {
            OpKind::Read { offset, .. } => (Operation::Read, Some(offset)),
            OpKind::Write { offset, .. } => (Operation::Write, Some(offset)),
            OpKind::Discard { offset, .. } => (Operation::Discard, Some(offset)),
            OpKind::WriteZeroes { offset, .. } => (Operation::WriteZeroes, Some(offset)),
            OpKind::Flush { .. } => (Operation::Flush, None),
            // Sockets are no members.
            OpKind::Probe { .. }
            | OpKind::Map { .. }
            | OpKind::Accept { .. }
            | OpKind::Recv { .. }
            | OpKind::Send { .. } => (Operation::Probe, None),
        };
        Self { operation: Some(operation), offset, error: Some(error) }
    }
}

impl From<&Failure> for Cause {
    fn from(failure: &Failure) -> Self {
        Self::of(failure.kind, failure.error)
    }
}

impl From<OpError> for Cause {
    fn from(error: OpError) -> Self {
        Self { operation: None, offset: None, error: Some(error) }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(error) = self.error else {
            let replaced = self.operation == Some(Operation::Replacement);
            return f.write_str(if replaced { "another device has taken its place" } else { "by command" });
        };
        if let Some(operation) = self.operation {
            f.write_str(operation.name())?;
            if let Some(offset) = self.offset {
                write!(f, " at byte {offset} of the device")?;
            }
            f.write_str(": ")?;
        }
        write!(f, "{error}")
    }
}

/// What kind of thing has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A member was taken out of use for good.
    MemberFailed,
    /// A member failed that redundancy does not make up for: no writes are taken any more.
    Broken,
    /// A place of a member that could not be read was written anew from redundancy.
    Corrected,
    /// A place of a member can't be read, and redundancy does not make up for it.
    Uncorrected,
    /// A resync has begun; `range` is what it has to go over.
    ResyncBegun,
    /// A resync has come to its end.
    ResyncEnded,
    /// A member is being rebuilt from the others; `range` is what of it has to be.
    RecoveryBegun,
    /// A member has been rebuilt.
    RecoveryEnded,
    /// A member is being copied onto the device that is to replace it; `range` is what has to be.
    CopyBegun,
    /// A device has taken the place of the member that it was to replace.
    CopyEnded,
    /// A device is the member again that it was.
    Readded,
    /// `range` of a member that is being rebuilt could not be, since what it is made of can't be read: whoever reads it gets an
    /// error until it is written anew.
    Unrebuilt,
    /// A member has no room to record which places could not be rebuilt.
    NoBadBlockLog,
    /// `range` of a member disagrees with the others, and nothing tells which is wrong: the member is the one that holds the
    /// redundancy.
    Mismatch,
    /// `range` of a member is wrong by what all others say.
    Wrong,
    /// `range` of a member disagreed with the others, and was written anew from them.
    Rewritten,
    /// All redundancy has been compared.
    CheckEnded,
    /// All redundancy has been compared, and made true as it was asked for.
    RepairEnded,
    /// `range` could not be made redundant: a loss of a member there is a loss of data.
    Unprotected,
    /// A member is slow: reads are answered from redundancy in its place.
    Slow,
    /// A member has grown slow against its peers: it takes eight times as long, or more.
    Slower,
    /// That is over.
    AsFastAgain,
    /// An operation got no answer within the member's patience, and was given up.
    GivenUp,
    /// The answer to an operation that had been given up has come.
    LateAnswer,
    /// The member's file was deleted; it goes on serving as long as it is open.
    Deleted,
    /// Another file has taken the place of the member's.
    Replaced,
    /// The member is shorter than it was.
    Truncated,
    /// What holds the member has no room left: writes that need some are refused, nothing is lost.
    Full,
    /// Nothing is left in doubt of what the member had no room for.
    RoomAgain,
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
            Self::RoomAgain => "room-again",
            Self::BroughtUp => "brought-up",
            Self::BitmapAdded => "bitmap-added",
            Self::BitmapRemoved => "bitmap-removed",
            Self::BitmapMoved => "bitmap-moved",
            Self::BitmapFailed => "bitmap-failed",
            Self::WriteBehindSet => "write-behind-set",
            Self::SpareGiven => "spare-given",
            Self::SpareTaken => "spare-taken",
            Self::Exposed => "exposed",
        }
    }

    /// What a line of a log says of it, after the member's name or the array's.
    fn words(self) -> &'static str {
        match self {
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
                "disagrees with the others in a place, and nothing tells which is wrong: it is left as it is"
            }
            Self::Wrong => "is wrong in a place, by what all others say",
            Self::Rewritten => "disagreed with the others in a place, which was written anew from them",
            Self::CheckEnded => "has been checked",
            Self::RepairEnded => "has been repaired",
            Self::Unprotected => "could not be made redundant in a place",
            Self::Slow => "is slow: the others answer for it",
            Self::Slower => "has grown slow: it takes much longer to answer than the others",
            Self::AsFastAgain => "answers about as fast as the others again",
            Self::GivenUp => "did not answer in time: the operation was given up",
            Self::LateAnswer => "answered late",
            Self::Deleted => "was deleted while it is in use: its content goes when the array stops",
            Self::Replaced => "was replaced by another file: what it holds goes when the array stops",
            Self::Truncated => "is shorter than it was",
            Self::Full => "has no room left where it lives",
            Self::RoomAgain => "lacks nothing any more for want of room where it lives",
            Self::BroughtUp => "was one event behind after a crash and was given the present state",
            Self::BitmapAdded => "has a write-intent bitmap now",
            Self::BitmapRemoved => "has no write-intent bitmap any more",
            Self::BitmapMoved => "has its write-intent bitmap elsewhere now",
            Self::BitmapFailed => {
                "had the write-intent bitmap, and is not used any more: after a crash all of the array is resynced"
            }
            Self::WriteBehindSet => "lets another number of writes lag behind on write-mostly members",
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

/// Something that has happened to an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Counts from 1 in each run.
    pub number: u64,
    /// Seconds since 1970, by the clock that the array was opened with.
    pub at: u64,
    /// When, on the reactor's clock.
    pub moment: Instant,
    /// What.
    pub kind: EventKind,
    /// The role of the member that it happened to.
    pub role: Option<u16>,
    /// How messages name that member.
    pub label: Option<String>,
    /// Why.
    pub cause: Option<Cause>,
    /// Bytes concerned: of the member's data area for what happens to members, else as
    /// [`Array::sync_len`] counts.
    pub range: Option<Range<u64>>,
    /// Bytes of the array that a place of a member holds, if it holds data.
    pub array: Option<Range<u64>>,
    /// Sectors of 512 bytes that disagreed, as md counts them, of what went over the whole array.
    pub mismatch_sectors: Option<u64>,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.label, self.role) {
            (Some(label), Some(role)) => write!(f, "{label} (role {role})")?,
            (Some(label), None) => f.write_str(label)?,
            (None, Some(role)) => write!(f, "the member in role {role}")?,
            (None, None) => f.write_str("the array")?,
        }
        let words = match (self.kind, self.cause) {
            (EventKind::MemberFailed, Some(Cause::REPLACED)) => "is not used any more",
            _ => self.kind.words(),
        };
        write!(f, " {words}")?;
        if let Some(range) = &self.range {
            write!(f, " (bytes {} to {})", range.start, range.end)?;
        }
        if let Some(array) = &self.array {
            write!(f, ", which the array has at bytes {} to {}", array.start, array.end)?;
        }
        if let Some(sectors) = self.mismatch_sectors {
            write!(f, ": mismatch_cnt {sectors} (sectors of 512 bytes)")?;
        }
        match &self.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

/// What is known of an event when it is noted.
pub(crate) struct Note {
    pub(crate) kind: EventKind,
    pub(crate) role: Option<u16>,
    pub(crate) label: Option<String>,
    pub(crate) cause: Option<Cause>,
    pub(crate) range: Option<Range<u64>>,
    pub(crate) array: Option<Range<u64>>,
    pub(crate) mismatch_sectors: Option<u64>,
}

impl Note {
    /// Something that concerns the array as a whole.
    pub(crate) fn array(kind: EventKind) -> Self {
        Self { kind, role: None, label: None, cause: None, range: None, array: None, mismatch_sectors: None }
    }
}

/// The last events of an array.
pub(crate) struct Events {
    io: Io,
    ring: RefCell<VecDeque<Event>>,
    /// The newest event's number.
    newest: Cell<u64>,
    noted: sync::Event,
}

impl Events {
    pub(crate) fn new(io: &Io) -> Self {
        Self { io: io.clone(), ring: RefCell::default(), newest: Cell::new(0), noted: sync::Event::new(io) }
    }

    /// Remembers an event that happened at `at` (seconds since 1970).
    pub(crate) fn note(&self, at: u64, note: Note) -> Event {
        let Note { kind, role, label, cause, range, array, mismatch_sectors } = note;
        let number = self.newest.get() + 1;
        let moment = self.io.now();
        let event = Event { number, at, moment, kind, role, label, cause, range, array, mismatch_sectors };
        self.newest.set(number);
        let mut ring = self.ring.borrow_mut();
        if ring.len() == MOST {
            ring.pop_front();
        }
        ring.push_back(event.clone());
        drop(ring);
        self.noted.notify();
        event
    }

    pub(crate) fn since(&self, number: u64) -> Vec<Event> {
        self.ring.borrow().iter().filter(|event| event.number > number).cloned().collect()
    }

    pub(crate) async fn next(&self, number: u64) -> Event {
        let after = || self.ring.borrow().iter().find(|event| event.number > number).cloned();
        self.noted.until(after).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brindle_io::memory::Memory;

    #[test]
    fn the_newest_events_are_kept_and_waited_for() {
        let io = Io::new(Box::new(Memory::new()));
        let events = Events::new(&io);
        for at in 0..MOST as u64 + 5 {
            events.note(at, Note::array(EventKind::ResyncBegun));
        }
        let all = events.since(0);
        assert_eq!((all.len(), all[0].number, all[0].at), (MOST, 6, 5));
        let last = all[MOST - 1].number;
        assert!(events.since(last).is_empty());
        let next = io.block_on(async {
            assert_eq!(events.next(0).await.number, 6, "what is there is given at once");
            let waits = events.next(last);
            events.note(7, Note::array(EventKind::ResyncEnded));
            waits.await
        });
        assert_eq!((next.number, next.at, next.kind), (last + 1, 7, EventKind::ResyncEnded));
        io.shutdown();
    }

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
            ..Note::array(EventKind::MemberFailed)
        };
        assert_eq!(
            events.note(0, note).to_string(),
            "/dev/sdb (role 1) has failed and is not used any more: write at byte 4096 of the device: \
             input/output error (errno 5)"
        );
        let note = Note { range: Some(0..65536), ..Note::array(EventKind::Unprotected) };
        assert_eq!(
            events.note(0, note).to_string(),
            "the array could not be made redundant in a place (bytes 0 to 65536)"
        );
        io.shutdown();
    }
}
