//! The check or scrub of a pool that is under way, and the outcome of the last one.

use core::cell::{Cell, RefCell};
use core::fmt;

use brindle_format::pool::{ScrubRecord, ScrubState};
use brindle_io::Io;
use brindle_members::process::{Process, ProcessError, Speeds};

use crate::damage::DamagedRange;

/// The kind of a scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubKind {
    /// It tells what is wrong.
    Check,
    /// It writes anew what is wrong, too.
    Repair,
}

impl fmt::Display for ScrubKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Check => "check",
            Self::Repair => "repair",
        })
    }
}

/// A scrub under way: paused, stopped and slowed down by this. It counts bytes of members.
pub type Scrub = Process<ScrubKind>;

/// The reason why a scrub did not come to its end.
pub type ScrubError = ProcessError<ScrubKind>;

/// The outcome of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Blocks that were held against their checksums: those of volumes, and pages of the map. A repair does not ask the map where all is
    /// well, and counts those that nothing names any more, too.
    pub blocks: u64,
    /// Of these, those that are not what they should be.
    pub wrong: u64,
    /// Blocks that their member can't read.
    pub unreadable: u64,
    /// Blocks of volumes that are lost: of those that are wrong, unreadable or missing, those that can't be rebuilt; and what pages of the
    /// map named that are lost.
    pub lost: u64,
    /// Where these are, the first 1024 ranges,
    pub damaged: Vec<DamagedRange>,
    /// and lost blocks for which there was no room there.
    pub damaged_beyond: u64,
    /// Blocks that something names on members that are missing, or did not answer.
    pub missing: u64,
    /// All blocks that were not looked at since their members are missing, also those of parity and those that nothing names any more.
    pub unverified: u64,
    /// Stripes whose parity was compared.
    pub stripes: u64,
    /// Of these, those whose parity is not that of their data.
    pub mismatches: u64,
    /// Stripes that could not be compared.
    pub uncompared: u64,
    /// Blocks, also of parity, that were written anew.
    pub healed: u64,
    /// The same that were to be written anew, and are wrong still.
    pub unhealed: u64,
    /// Where blocks are wrong: member of the pool, and byte of its data area; the first few.
    pub places: Vec<(u16, u64)>,
}

impl Checked {
    /// Everything that is stored was looked at.
    pub fn is_complete(&self) -> bool {
        self.unverified == 0 && self.missing == 0
    }
}

/// A scrub that has ended.
#[derive(Clone, Debug)]
pub struct Scrubbed {
    /// The kind.
    pub kind: ScrubKind,
    /// When it began and ended, in seconds since 1970.
    pub began: u64,
    /// The end.
    pub ended: u64,
    /// The findings, up to where it came.
    pub found: Checked,
    /// Why it did not come to its end.
    pub error: Option<ScrubError>,
}

impl Scrubbed {
    /// Blocks that are wrong still, and stripes whose parity is: those that are lost, and those that could not be written anew or were not to be.
    pub fn errors(&self) -> u64 {
        self.found.errors(self.kind)
    }
}

impl Checked {
    fn errors(&self, kind: ScrubKind) -> u64 {
        match kind {
            ScrubKind::Check => (self.wrong + self.unreadable + self.mismatches).max(self.lost),
            ScrubKind::Repair => self.lost + self.unhealed,
        }
    }
}

impl fmt::Display for Scrubbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, found, .. } = self;
        match &self.error {
            None => write!(f, "{kind} has ended: healed {}, errors {}", found.healed, self.errors()),
            Some(why) => {
                let (healed, errors) = (found.healed, self.errors());
                write!(f, "{kind} did not come to its end: {why}; healed {healed}, errors {errors}")
            }
        }
    }
}

/// The scrub that is under way, and the last one. There is one at a time.
#[derive(Default)]
pub(crate) struct Scrubs {
    running: RefCell<Option<Scrub>>,
    last: RefCell<Option<Scrubbed>>,
    /// Both, as uberblocks have them.
    record: Cell<ScrubRecord>,
    /// The one that is under way is told of there: a check of the pool by itself is not.
    is_told: Cell<bool>,
}

/// The same with what was found.
fn counted(record: ScrubRecord, kind: ScrubKind, found: &Checked) -> ScrubRecord {
    let errors = found.errors(kind);
    let unverified = found.unverified.max(found.missing);
    ScrubRecord { healed: found.healed, errors, lost: found.lost, unverified, ..record }
}

/// A scrub is under way, as long as this lives.
#[must_use]
pub(crate) struct Running<'a>(&'a Scrubs);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.take();
        self.0.is_told.set(false);
    }
}

impl Scrubbed {
    /// The scrub of before that the record of the pool tells of.
    fn of(record: ScrubRecord) -> Option<Self> {
        let error = match record.state {
            ScrubState::Ended => None,
            ScrubState::EndedEarly => Some(ProcessError::Interrupted),
            ScrubState::None | ScrubState::Running | ScrubState::Paused => return None,
        };
        let kind = if record.heals { ScrubKind::Repair } else { ScrubKind::Check };
        let found = Checked::known(&record);
        Some(Self { kind, began: record.began, ended: record.ended, found, error })
    }
}

impl Checked {
    /// The findings up to the place where a scrub goes on, or at its end.
    pub(crate) fn known(record: &ScrubRecord) -> Self {
        let left = record.errors.saturating_sub(record.lost);
        let (wrong, unhealed) = if record.heals { (0, left) } else { (record.errors, 0) };
        Self {
            wrong,
            unhealed,
            lost: record.lost,
            healed: record.healed,
            unverified: record.unverified,
            ..Self::default()
        }
    }
}

impl Scrubs {
    /// As the record of the pool has them.
    pub(crate) fn found(record: ScrubRecord) -> Self {
        let last = RefCell::new(Scrubbed::of(record));
        Self { last, record: Cell::new(record), ..Self::default() }
    }

    /// The record as the next uberblock is to have it.
    pub(crate) fn on_record(&self) -> ScrubRecord {
        let record = self.record.get();
        // One that is not resumed yet stays what it was.
        let is_paused = self.running.borrow().as_ref().filter(|_| self.is_told.get()).map(Process::is_paused);
        let state = match (record.state, is_paused) {
            (ScrubState::Running, Some(true)) => ScrubState::Paused,
            (ScrubState::Paused, Some(false)) => ScrubState::Running,
            (state, _) => state,
        };
        ScrubRecord { state, ..record }
    }

    /// A scrub is told of from now on, which goes on with a segment.
    pub(crate) fn opens(&self, kind: ScrubKind, began: u64, segment: u32, found: &Checked) {
        let (whole, heals) = (self.record.get().whole, kind == ScrubKind::Repair);
        let began = ScrubRecord {
            state: ScrubState::Running,
            heals,
            began,
            segment,
            whole,
            ..ScrubRecord::default()
        };
        self.record.set(counted(began, kind, found));
        self.is_told.set(true);
    }

    /// The run ends: the one that is under way goes on with the next, or stays paused.
    pub(crate) fn rests(&self) {
        self.record.set(self.on_record());
    }

    /// It has gone over all segments before this one.
    pub(crate) fn reached(&self, kind: ScrubKind, segment: u32, found: &Checked) {
        self.record.set(counted(ScrubRecord { segment, ..self.record.get() }, kind, found));
    }

    /// When the last one ended that came to its end.
    pub(crate) fn whole(&self) -> Option<u64> {
        Some(self.record.get().whole).filter(|&at| at > 0)
    }

    /// A scrub begins at a byte.
    ///
    /// # Errors
    /// [`ProcessError::Busy`].
    pub(crate) fn begins(&self, io: &Io, kind: ScrubKind, from: u64) -> Result<Scrub, ScrubError> {
        if let Some(other) = &*self.running.borrow() {
            return Err(ProcessError::Busy(other.kind()));
        }
        let scrub = Process::new(io, kind, from, from, Speeds::default());
        self.running.replace(Some(scrub.clone()));
        Ok(scrub)
    }

    /// The scrub that has begun ends when this is dropped.
    pub(crate) fn runs(&self) -> Running<'_> {
        Running(self)
    }

    /// The scrub that is under way.
    pub(crate) fn process(&self) -> Option<Scrub> {
        self.running.borrow().clone()
    }

    /// One has ended.
    pub(crate) fn ended(&self, scrubbed: Scrubbed) {
        let before = self.record.get();
        let (state, whole) = match scrubbed.error {
            None => (ScrubState::Ended, scrubbed.ended),
            Some(_) => (ScrubState::EndedEarly, before.whole),
        };
        let ended = ScrubRecord { state, whole, ended: scrubbed.ended, segment: 0, ..before };
        self.record.set(counted(ended, scrubbed.kind, &scrubbed.found));
        self.last.replace(Some(scrubbed));
    }

    /// The last one.
    pub(crate) fn last(&self) -> Option<Scrubbed> {
        self.last.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use brindle_io::memory::Memory;

    use super::*;

    #[test]
    fn there_is_one_scrub_at_a_time() {
        let io = Io::new(Box::new(Memory::new()));
        let scrubs = Scrubs::default();
        let first = scrubs.begins(&io, ScrubKind::Check, 0);
        assert!(first.is_ok() && scrubs.process().is_some());
        let other = scrubs.begins(&io, ScrubKind::Repair, 0);
        assert!(matches!(other, Err(ProcessError::Busy(ScrubKind::Check))));
        drop(scrubs.runs());
        assert!(scrubs.process().is_none() && scrubs.begins(&io, ScrubKind::Repair, 0).is_ok());
    }
}
