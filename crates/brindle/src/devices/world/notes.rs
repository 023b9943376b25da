//! Remarks on whatever is read without proof: said once each on standard error, and kept for the map of a copy.

use std::sync::Mutex;

use crate::base::text;

/// The remarks of this process, in the order in which they were made.
static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Tells something on standard error that is taken so without proof, unless it was told before.
pub(crate) fn note(about: String) {
    let Ok(mut notes) = NOTES.lock() else { return };
    if !notes.contains(&about) {
        eprintln!("brindle: {}", text::shown(&about));
        notes.push(about);
    }
}

/// All that was told so far.
pub(crate) fn notes() -> Vec<String> {
    NOTES.lock().map(|notes| notes.clone()).unwrap_or_default()
}
