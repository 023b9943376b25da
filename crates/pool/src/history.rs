//! The history of a pool, as commands see it.

use brindle_format::pool::{HistoryKind, HistoryRecord};

use crate::core::Core;
use crate::pool::Pool;
use crate::store::history::most_pages;
use crate::upkeep::scrubs::{Scrub, ScrubError};

impl Core {
    /// The next checkpoint puts it on record. Nothing of a pool that is open for reading alone is.
    pub(crate) fn goes_down(&self, kind: HistoryKind, text: &str) {
        if !self.read_only {
            let host = self.config.host.name();
            self.history.add(HistoryRecord::new((self.config.clock)(), kind, &host, text));
        }
    }

    /// Something that happened goes down in history.
    pub(crate) fn went_so(&self, text: &str) {
        self.goes_down(HistoryKind::Internal, text);
    }

    /// A checkpoint begins: records that wait get pages, as far as there is room for them beside all that it may take.
    pub(crate) fn take_up_history(&self) {
        let most = most_pages(&self.label.get());
        let room = self.space.borrow().room_for_pages();
        let left = room.saturating_sub(self.page_debt(crate::store::owed::Coming::default()));
        if self.history.take_up(most, left) {
            self.estimate();
        }
    }
}

impl Pool {
    /// Its history, from the oldest on: commands that changed it, and what happened.
    pub fn history(&self) -> Vec<HistoryRecord> {
        self.0.history.records()
    }

    /// Has the scrub go on that was under way or paused when the pool was closed, or its server was killed; none if there was none.
    ///
    /// # Errors
    /// As of [`Pool::begin_scrub`].
    pub fn resume_scrub(&self) -> Result<Option<Scrub>, ScrubError> {
        self.0.resume_scrub()
    }

    /// Has the members say how far the scrub is, and whether it is paused.
    pub async fn record_scrub(&self) {
        self.0.put_scrub_on_record().await;
    }

    /// When all of the pool was gone over last, in seconds since 1970.
    pub fn scrubbed_whole(&self) -> Option<u64> {
        self.0.scrubs.whole()
    }

    /// A command has changed the pool, as it was typed by the user of that number. It is on record with the next checkpoint, at the latest with
    /// the stop.
    pub fn note_command(&self, command: &str, user: Option<u32>) {
        self.0.goes_down(HistoryKind::Command { user }, command);
    }
}
