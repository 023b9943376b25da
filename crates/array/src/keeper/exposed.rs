//! Exposed arrays. A crash in mid-write would leave bytes of lost members unknown, so that the array starts by force
//! only.

use crate::events::{EventKind, Note};

use super::Keeper;

impl Keeper {
    /// Whether the array starts again by force only if its run ends while it is written to: members are lost, and
    /// parity, of which a crash leaves some rows half written, is all that stands for them. A bitmap does not help:
    /// it names the rows, not their content.
    pub(crate) fn is_exposed(&self) -> bool {
        self.recorded && self.dependence.coupled && self.members.lost() > 0 && !self.is_broken()
    }

    /// Tells of it beforehand: once, and again when it has been over meanwhile.
    pub(crate) fn note_if_exposed(&self) {
        let is_exposed = self.is_exposed();
        if is_exposed && !self.exposed_noted.replace(is_exposed) {
            self.note(Note::of(EventKind::Exposed));
        }
        self.exposed_noted.set(is_exposed);
    }
}
