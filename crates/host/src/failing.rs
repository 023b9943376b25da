//! Drives that are called failing: found beside the arrays' thread, told with their status.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::status::Report;

/// Drives that SMART calls failing: by the names of devices, each with the reason. A handle: cloning gives the same.
#[derive(Clone, Debug, Default)]
pub struct FailingDrives(Arc<Mutex<BTreeMap<String, String>>>);

impl FailingDrives {
    /// These are all that a look has found.
    pub fn replace(&self, found: BTreeMap<String, String>) {
        *self.lock() = found;
    }

    /// Notes in a status which of its devices are called failing.
    pub(crate) fn note(&self, report: &mut Report) {
        let found = self.lock();
        report.note_failing(|device| found.get(device).cloned());
    }

    /// Held for no longer than it takes to look there: the arrays' thread may want it.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
