//! Events of members and their owner: the last ones, by number.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::ops::Range;
use std::collections::VecDeque;

use brindle_io::sync;
use brindle_io::{Failure, Instant, Io, OpError, OpKind};

/// Events that are remembered; older ones are forgotten, which gaps in the numbers tell.
const MOST: usize = 1024;

/// The operation that a member was asked for when something happened to it.
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
    /// The operation, if it is known.
    pub operation: Option<Operation>,
    /// Byte of the device at which, if the operation has a place.
    pub offset: Option<u64>,
    /// The error; `None` for an order of the operator.
    pub error: Option<OpError>,
}

impl Cause {
    /// The cause is an order of the operator.
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
            // Sockets and other executors are no members.
            OpKind::Probe { .. }
            | OpKind::Map { .. }
            | OpKind::Accept { .. }
            | OpKind::Recv { .. }
            | OpKind::Send { .. }
            | OpKind::Ask { .. } => (Operation::Probe, None),
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

/// Kinds of events of members and their owner, in the owner's words.
pub trait Kind: Copy {
    /// The words of a log's line, after the member's name or the owner's.
    fn words(self, why: Option<&Cause>) -> &'static str;
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<K> {
    /// Counts from 1 in each run.
    pub number: u64,
    /// Seconds since 1970, by the clock that the owner was opened with.
    pub at: u64,
    /// When, on the reactor's clock.
    pub moment: Instant,
    /// The kind.
    pub kind: K,
    /// The role of the member that it happened to.
    pub role: Option<u16>,
    /// How messages name that member.
    pub label: Option<String>,
    /// The reason.
    pub cause: Option<Cause>,
    /// Bytes concerned: of the member's data area for what happens to members, else as the
    /// owner counts.
    pub range: Option<Range<u64>>,
    /// Bytes of the owner that a place of a member holds, if it holds data.
    pub array: Option<Range<u64>>,
    /// Sectors of 512 bytes that disagreed, as md counts them, of what went over the whole array.
    pub mismatch_sectors: Option<u64>,
    /// Blocks of 4096 bytes concerned, of events that are told together.
    pub blocks: Option<u64>,
}

impl<K: Kind> fmt::Display for Event<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.label, self.role) {
            (Some(label), Some(role)) => write!(f, "{label} (role {role})")?,
            (Some(label), None) => f.write_str(label)?,
            (None, Some(role)) => write!(f, "the member in role {role}")?,
            (None, None) => f.write_str("the array")?,
        }
        let words = self.kind.words(self.cause.as_ref());
        write!(f, " {words}")?;
        if let Some(range) = &self.range {
            write!(f, " (bytes {} to {})", range.start, range.end)?;
        }
        if let Some(array) = &self.array {
            write!(f, ", which the array has at bytes {} to {}", array.start, array.end)?;
        }
        if let Some(blocks) = self.blocks {
            write!(f, ": {blocks} blocks of 4096 bytes")?;
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

/// A new event, with the facts known when it is noted.
pub struct Note<K> {
    /// The kind.
    pub kind: K,
    /// To the member of which role.
    pub role: Option<u16>,
    /// How messages name that member.
    pub label: Option<String>,
    /// The reason.
    pub cause: Option<Cause>,
    /// Bytes concerned, as of [`Event::range`].
    pub range: Option<Range<u64>>,
    /// Bytes of the owner that a place of a member holds.
    pub array: Option<Range<u64>>,
    /// Sectors that disagreed, as of [`Event::mismatch_sectors`].
    pub mismatch_sectors: Option<u64>,
    /// Blocks, as of [`Event::blocks`].
    pub blocks: Option<u64>,
}

impl<K> Note<K> {
    /// Something that concerns the owner as a whole.
    pub fn of(kind: K) -> Self {
        let (role, label, cause) = (None, None, None);
        Self { kind, role, label, cause, range: None, array: None, mismatch_sectors: None, blocks: None }
    }
}

/// The last events of an owner.
pub struct Events<K> {
    io: Io,
    ring: RefCell<VecDeque<Event<K>>>,
    /// The newest event's number.
    newest: Cell<u64>,
    noted: sync::Notify,
}

impl<K: Copy> Events<K> {
    /// No events yet.
    pub fn new(io: &Io) -> Self {
        Self { io: io.clone(), ring: RefCell::default(), newest: Cell::new(0), noted: sync::Notify::new(io) }
    }

    /// Remembers an event that happened at `at` (seconds since 1970).
    pub fn note(&self, at: u64, note: Note<K>) -> Event<K> {
        let Note { kind, role, label, cause, range, array, mismatch_sectors, blocks } = note;
        let number = self.newest.get() + 1;
        let moment = self.io.now();
        let event =
            Event { number, at, moment, kind, role, label, cause, range, array, mismatch_sectors, blocks };
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

    /// The events after the one with this number that are still remembered, oldest first.
    pub fn since(&self, number: u64) -> Vec<Event<K>> {
        self.ring.borrow().iter().filter(|event| event.number > number).cloned().collect()
    }

    /// The first event after the one with this number; waits for one if there is none yet.
    pub async fn next(&self, number: u64) -> Event<K> {
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
            events.note(at, Note::of(false));
        }
        let all = events.since(0);
        assert_eq!((all.len(), all[0].number, all[0].at), (MOST, 6, 5));
        let last = all[MOST - 1].number;
        assert!(events.since(last).is_empty());
        let next = io.block_on(async {
            assert_eq!(events.next(0).await.number, 6, "what is there is given at once");
            let waits = events.next(last);
            events.note(7, Note::of(true));
            waits.await
        });
        assert_eq!((next.number, next.at, next.kind), (last + 1, 7, true));
        io.shutdown();
    }
}
