//! The state of resilvering: members get what they lack of segments that have something live. One task does that at most.

use core::cell::RefCell;

use brindle_members::process::{Process, ProcessDetail};

/// The phase of the work.
#[derive(Clone, Default)]
enum Phase {
    /// No task resilvers.
    #[default]
    Idle,
    /// A task looks for what members lack, or waits for batches that were begun before.
    Looking,
    /// Segments are gone over, as far as the process says.
    Rebuilding(Process<()>),
}

/// The state of resilvering.
#[derive(Default)]
pub(crate) struct Resilvering {
    phase: RefCell<Phase>,
}

impl Resilvering {
    /// A task begins; false if one does it already.
    pub(crate) fn begins(&self) -> bool {
        let begins = !self.is_busy();
        if begins {
            self.phase.replace(Phase::Looking);
        }
        begins
    }

    /// That task has ended, or was dropped.
    pub(crate) fn ends(&self) {
        let before = self.phase.take();
        debug_assert!(!matches!(before, Phase::Idle), "resilvering ends once");
    }

    /// Segments are gone over from now on.
    pub(crate) fn rebuilds(&self, process: Process<()>) {
        let before = self.phase.replace(Phase::Rebuilding(process));
        debug_assert!(matches!(before, Phase::Looking), "a pass begins once it is known what members lack");
    }

    /// All of these have been, or the pass was stopped.
    pub(crate) fn looks(&self) {
        let before = self.phase.replace(Phase::Looking);
        debug_assert!(matches!(before, Phase::Rebuilding(_)), "a pass ends that has begun");
    }

    /// A task resilvers.
    pub(crate) fn is_busy(&self) -> bool {
        !matches!(*self.phase.borrow(), Phase::Idle)
    }

    /// The pass under way begins no more.
    pub(crate) fn stop(&self) {
        if let Phase::Rebuilding(process) = &*self.phase.borrow() {
            process.stop();
        }
    }

    /// How far the pass under way has come, in bytes of the segments that it goes over.
    pub(crate) fn detail(&self) -> Option<ProcessDetail<()>> {
        match &*self.phase.borrow() {
            Phase::Rebuilding(process) => Some(process.detail()),
            Phase::Idle | Phase::Looking => None,
        }
    }
}
