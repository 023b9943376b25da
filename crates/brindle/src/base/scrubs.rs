//! When redundancy was compared last, by records that outlive servers.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::base::failure::Failure;
use crate::base::replace::replace;

/// Where the records are.
pub(crate) const FOLDER: &str = "/var/lib/brindle/scrubs";

/// A check that came to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Scrubbed {
    /// The array's UUID.
    pub(crate) uuid: String,
    /// Seconds since 1970.
    pub(crate) ended: u64,
    /// Sectors that disagreed.
    pub(crate) mismatch_cnt: u64,
}

impl Scrubbed {
    /// The record of an array; none if there is none that can be read.
    pub(crate) fn last(folder: &Path, uuid: &str) -> Option<Self> {
        let text = std::fs::read(folder.join(file(uuid)?)).ok()?;
        serde_json::from_slice(&text).ok().filter(|own: &Self| own.uuid == uuid)
    }

    /// Puts it on record: a cut leaves the old one.
    pub(crate) fn keep(&self, folder: &Path) -> Result<(), Failure> {
        let fail = |source| Failure::output(folder.display(), source);
        let Some(name) = file(&self.uuid) else { return Ok(()) };
        std::fs::create_dir_all(folder).map_err(fail)?;
        let text = serde_json::to_vec(self).map_err(|error| fail(error.into()))?;
        replace(&folder.join(name), &text).map_err(fail)
    }
}

/// The file of an array: its UUID, if it is one.
fn file(uuid: &str) -> Option<String> {
    let is_uuid =
        !uuid.is_empty() && uuid.chars().all(|letter| letter.is_ascii_hexdigit() || ":-".contains(letter));
    is_uuid.then(|| uuid.replace(':', "-"))
}
