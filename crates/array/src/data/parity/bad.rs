//! The members whose reads failed in a step.

use brindle_io::OpError;
use brindle_members::door::Done;
use brindle_volume::VolumeError;
use smallvec::SmallVec;

/// Members whose bytes in a window could not be read, and why.
#[derive(Clone, Debug, Default)]
pub(super) struct Bad(SmallVec<[(u16, OpError); 4]>);

impl Bad {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, role: u16) -> bool {
        self.0.iter().any(|(bad, _)| *bad == role)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, OpError)> + '_ {
        self.0.iter().copied()
    }

    /// The error of a member that can't be asked at all; without one, the first error.
    pub(super) fn worst(&self) -> Option<VolumeError> {
        let first = || self.0.first().map(|&(role, error)| VolumeError::of_member(role, error));
        self.absent().or_else(first)
    }

    /// The error of a member that can't be asked at all: smaller reads would not help either.
    pub(super) fn absent(&self) -> Option<VolumeError> {
        let absent = self.iter().find(|(_, error)| !matches!(error, OpError::Medium(_)));
        absent.map(|(role, error)| VolumeError::of_member(role, error))
    }

    /// A member that does not answer.
    pub(super) fn silent(&self) -> Option<u16> {
        self.iter().find(|(_, error)| *error == OpError::TimedOut).map(|(role, _)| role)
    }

    /// The members among these that do not answer.
    pub(super) fn only_silent(&self) -> Self {
        Self(self.iter().filter(|(_, error)| *error == OpError::TimedOut).collect())
    }

    pub(super) fn add(&mut self, role: u16, error: OpError) {
        if !self.has(role) {
            self.0.push((role, error));
        }
    }

    /// Adds the members that refused something; false if all of them had been known.
    pub(super) fn add_all(&mut self, outcome: &Done) -> bool {
        let before = self.0.len();
        outcome.refused().iter().for_each(|refused| self.add(refused.role, refused.error));
        self.0.len() > before
    }
}
