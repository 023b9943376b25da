//! The check or scrub of a pool that is under way, and the outcome of the last one.

use core::cell::RefCell;
use core::fmt;

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
        let found = &self.found;
        match self.kind {
            ScrubKind::Check => (found.wrong + found.unreadable + found.mismatches).max(found.lost),
            ScrubKind::Repair => found.lost + found.unhealed,
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
}

/// A scrub is under way, as long as this lives.
#[must_use]
pub(crate) struct Running<'a>(&'a Scrubs);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.take();
    }
}

impl Scrubs {
    /// A scrub begins.
    ///
    /// # Errors
    /// [`ProcessError::Busy`].
    pub(crate) fn begins(&self, io: &Io, kind: ScrubKind) -> Result<Scrub, ScrubError> {
        if let Some(other) = &*self.running.borrow() {
            return Err(ProcessError::Busy(other.kind()));
        }
        let scrub = Process::new(io, kind, 0, 0, Speeds::default());
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
        let first = scrubs.begins(&io, ScrubKind::Check);
        assert!(first.is_ok() && scrubs.process().is_some());
        let other = scrubs.begins(&io, ScrubKind::Repair);
        assert!(matches!(other, Err(ProcessError::Busy(ScrubKind::Check))));
        drop(scrubs.runs());
        assert!(scrubs.process().is_none() && scrubs.begins(&io, ScrubKind::Repair).is_ok());
    }
}
