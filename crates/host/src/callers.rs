//! Rules of access and settings call contents by their names: that is told when a pool gets another name.

use crate::names::Callers;
use crate::service::Service;

impl Service {
    /// Has these be asked when something is called otherwise.
    pub fn set_callers(&self, callers: Callers) {
        *self.callers.borrow_mut() = Some(callers);
    }

    /// Sentences about all that calls a content of this name and UUID by its name.
    pub(crate) fn all_callers(&self, name: &str, uuid: &str) -> Vec<String> {
        let mut all: Vec<String> =
            self.callers.borrow().iter().flat_map(|callers| callers(name, uuid)).collect();
        if self.configured.borrow().iter().any(|one| one.volume.calls(name)) {
            all.push(format!("the settings call it {name:?}: give its new name there, or its UUID {uuid}"));
        }
        all.dedup();
        all
    }
}
