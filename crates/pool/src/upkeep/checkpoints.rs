//! The state of checkpoints, and of records of the table of segments alone. One of either is under way at a time: the task that has the
//! turn.

use core::cell::{Cell, RefCell};

use brindle_format::pool::place::Address;
use brindle_io::Io;
use brindle_members::turn::{self, Turns};
use brindle_volume::VolumeError;

use crate::store::table::Table;

/// The phase of the work that has the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// None is under way.
    Idle,
    /// A checkpoint puts changes into leaves that an earlier attempt has left over.
    Draining,
    /// A checkpoint waits for batches under way, and no other batch begins.
    Freezing,
    /// A checkpoint puts the changes up to then into leaves, writes pages, and has them named.
    Writing,
    /// The table of segments is recorded alone.
    Recording,
}

/// The state of both works, and what the last of them wrote.
pub(crate) struct Checkpoints {
    turns: Turns,
    phase: Cell<Phase>,
    /// A task sees to one that is due.
    due: Cell<bool>,
    /// Checkpoints that have begun, and the result of the last one that has ended.
    begun: Cell<u64>,
    last: Cell<Result<(), VolumeError>>,
    /// Records of the table alone by which the log got segments.
    gains: Cell<u64>,
    /// A checkpoint has begun to put changes into leaves since the last one that stands.
    unfinished: Cell<bool>,
    /// A member was lost or has come since the last checkpoint.
    reshaped: Cell<bool>,
    /// Pages of the last checkpoint that are neither of the map nor of the table of segments, and that.
    pub(crate) lists: RefCell<Vec<Address>>,
    pub(crate) table: RefCell<Table>,
}

/// The turn to write a checkpoint, or the table alone. Its work has ended when it is dropped.
#[must_use]
pub(crate) struct Turn<'a> {
    of: &'a Checkpoints,
    _turn: turn::Turn<'a>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.of.phase.set(Phase::Idle);
    }
}

impl Turn<'_> {
    /// A checkpoint begins.
    pub(crate) fn begins(&self) {
        self.of.enter(Phase::Draining);
        self.of.begun.set(self.of.begun.get() + 1);
    }

    /// It has ended.
    pub(crate) fn ends(&self, result: Result<(), VolumeError>) {
        debug_assert!(self.of.is_under_way(), "a checkpoint ends that has begun");
        self.of.phase.set(Phase::Idle);
        self.of.last.set(result);
    }

    /// A record of the table alone begins.
    pub(crate) fn records(&self) {
        self.of.enter(Phase::Recording);
    }
}

impl Checkpoints {
    /// None yet.
    pub(crate) fn new(io: &Io) -> Self {
        Self {
            turns: Turns::new(io),
            phase: Cell::new(Phase::Idle),
            due: Cell::new(false),
            begun: Cell::new(0),
            last: Cell::new(Ok(())),
            gains: Cell::new(0),
            unfinished: Cell::new(false),
            reshaped: Cell::new(false),
            lists: RefCell::default(),
            table: RefCell::default(),
        }
    }

    /// Waits for the turn.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        let turn = self.turns.turn().await;
        debug_assert_eq!(self.phase.get(), Phase::Idle, "the turn before has ended");
        Turn { of: self, _turn: turn }
    }

    /// A task has the turn.
    pub(crate) fn is_taken(&self) -> bool {
        self.turns.is_taken()
    }

    fn enter(&self, next: Phase) {
        let before = self.phase.replace(next);
        let follows = match next {
            Phase::Idle => true,
            Phase::Recording => before == Phase::Idle,
            Phase::Draining => {
                matches!(before, Phase::Idle | Phase::Draining | Phase::Freezing | Phase::Writing)
            }
            Phase::Freezing => before == Phase::Draining,
            Phase::Writing => before == Phase::Freezing,
        };
        debug_assert!(follows, "{next:?} does not follow {before:?}");
    }

    /// The checkpoint under way makes another attempt, or its first.
    pub(crate) fn drains(&self) {
        self.enter(Phase::Draining);
    }

    /// It waits for batches under way.
    pub(crate) fn freezes(&self) {
        self.enter(Phase::Freezing);
    }

    /// It has no more to wait for.
    pub(crate) fn writes(&self) {
        self.enter(Phase::Writing);
    }

    /// Changes up to now go into leaves. Gives whether a member was lost before.
    pub(crate) fn parts_changes(&self) -> bool {
        debug_assert_eq!(self.phase.get(), Phase::Writing, "changes are parted once batches have landed");
        self.unfinished.set(true);
        self.reshaped.replace(false)
    }

    /// A checkpoint stands that has all changes which went into leaves.
    pub(crate) fn stands(&self) {
        debug_assert_eq!(self.phase.get(), Phase::Writing, "pages are written before a checkpoint stands");
        self.unfinished.set(false);
    }

    /// A checkpoint is under way.
    pub(crate) fn is_under_way(&self) -> bool {
        matches!(self.phase.get(), Phase::Draining | Phase::Freezing | Phase::Writing)
    }

    /// A checkpoint or a record of the table is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.phase.get() != Phase::Idle
    }

    /// A checkpoint waits for batches under way, and no other batch begins.
    pub(crate) fn is_freezing(&self) -> bool {
        self.phase.get() == Phase::Freezing
    }

    /// A checkpoint has put changes into leaves, and none stands that has them.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.unfinished.get()
    }

    /// Checkpoints that have begun.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.get()
    }

    /// The result of the last one.
    pub(crate) fn last_result(&self) -> Result<(), VolumeError> {
        self.last.get()
    }

    /// Records of the table alone by which the log got segments.
    pub(crate) fn gains(&self) -> u64 {
        self.gains.get()
    }

    /// There is one more of these.
    pub(crate) fn gained(&self) {
        self.gains.set(self.gains.get() + 1);
    }

    /// A member was lost or has come since the last checkpoint.
    pub(crate) fn is_reshaped(&self) -> bool {
        self.reshaped.get()
    }

    /// A member was lost or has come, or the last checkpoint does not make up for one.
    pub(crate) fn reshape(&self) {
        self.reshaped.set(true);
    }

    /// A task begins to see to what is due; false if one does already.
    pub(crate) fn begins_due(&self) -> bool {
        !self.due.replace(true)
    }

    /// That task has ended.
    pub(crate) fn ends_due(&self) {
        self.due.set(false);
    }
}

#[cfg(test)]
mod tests {
    use brindle_io::memory::Memory;

    use super::*;

    #[test]
    fn nothing_is_under_way_once_a_turn_is_dropped() {
        let io = Io::new(Box::new(Memory::new()));
        let checkpoints = Checkpoints::new(&io);
        io.block_on(async {
            let turn = checkpoints.turn().await;
            turn.begins();
            checkpoints.freezes();
            assert!(checkpoints.is_taken() && checkpoints.is_under_way() && checkpoints.is_freezing());
            drop(turn);
            assert!(!checkpoints.is_taken() && !checkpoints.is_busy());
            let turn = checkpoints.turn().await;
            turn.records();
            assert!(checkpoints.is_busy() && !checkpoints.is_under_way());
        });
    }

    #[test]
    fn a_checkpoint_that_fails_is_unfinished_until_another_stands() {
        let io = Io::new(Box::new(Memory::new()));
        let checkpoints = Checkpoints::new(&io);
        io.block_on(async {
            let turn = checkpoints.turn().await;
            turn.begins();
            checkpoints.reshape();
            for attempt in 0..2 {
                checkpoints.drains();
                checkpoints.freezes();
                checkpoints.writes();
                assert_eq!(checkpoints.parts_changes(), attempt == 0, "a member was lost before the first");
                assert!(checkpoints.is_unfinished() && !checkpoints.is_reshaped());
            }
            turn.ends(Err(VolumeError::NoSpace));
            assert!(checkpoints.is_unfinished() && checkpoints.last_result().is_err());
            turn.begins();
            checkpoints.freezes();
            checkpoints.writes();
            let _reshaped = checkpoints.parts_changes();
            checkpoints.stands();
            turn.ends(Ok(()));
            assert_eq!((checkpoints.is_unfinished(), checkpoints.begun()), (false, 2));
        });
    }
}
