//! Rules of access and settings call contents by their names: that is told when a pool gets another name.

use crate::names::{OnRenamed, Renamed};
use crate::service::Service;

impl Service {
    /// Has this be told when something is called otherwise.
    pub fn on_renamed(&self, listener: OnRenamed) {
        *self.on_renamed.borrow_mut() = Some(listener);
    }

    /// Tells that a content is called otherwise from now on. Gives sentences about all that calls it by the name that it had.
    pub(crate) fn tell_renamed(&self, renamed: &Renamed<'_>) -> Vec<String> {
        let mut all: Vec<String> =
            self.on_renamed.borrow().iter().flat_map(|listener| listener(renamed)).collect();
        if self.configured.borrow().iter().any(|one| one.volume.calls(renamed.from)) {
            all.push(renamed.settings());
        }
        all
    }
}
