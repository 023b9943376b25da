//! Reports places that disagree as events while a check or a repair finds them.

use crate::events::{EventKind, Note};
use crate::process::ProcessKind;

use crate::array::Array;
use crate::data::report::{Mismatch, SyncMode, SyncReport};

impl Array {
    /// Reports the named places of a window that disagree as events, at most `most`; gives their number.
    pub(super) fn report_found(&self, mode: SyncMode, window: &SyncReport, most: usize) -> usize {
        let places = &window.places[..window.places.len().min(most)];
        for place in places {
            let range = place.offset..place.offset + place.len;
            let array = self.array_ranges(place.role, range.clone()).into_iter().next();
            self.0.core.keeper.note_place(place.role, event_kind(mode, place), range, array);
        }
        places.len()
    }

    /// All redundancy has been compared.
    pub(super) fn report_compared(&self, kind: ProcessKind, found: &SyncReport) {
        let kind = if kind == ProcessKind::Check { EventKind::CheckEnded } else { EventKind::RepairEnded };
        let mismatch_sectors = Some(found.mismatch_sectors);
        self.0.core.keeper.note(Note { mismatch_sectors, ..Note::of(kind) });
    }
}

/// The kind of event for a place that disagrees.
fn event_kind(mode: SyncMode, place: &Mismatch) -> EventKind {
    match (mode, place.located) {
        (SyncMode::Locate, true) | (SyncMode::Repair, false) => EventKind::Rewritten,
        // A repair has made the redundancy agree with it.
        (SyncMode::Check | SyncMode::Repair, true) => EventKind::Wrong,
        (SyncMode::Check | SyncMode::Locate, false) => EventKind::Mismatch,
    }
}
