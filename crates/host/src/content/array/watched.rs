//! Passes on events of an array as they happen: to the log, to listeners, and the last ones to the status.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use brindle_array::{Array, Cause, Event, EventKind, Operation};
use brindle_io::Io;
use brindle_io::sync::{self, Either, race};

use crate::events::{Listener, News};
use crate::status::{DriveStatus, EventStatus};

/// Events that the status shows; more are remembered, and all were logged when they happened.
const SHOWN: usize = 100;

/// An array whose events are logged and passed on.
pub(crate) struct Watched {
    /// The array that is served, where there are several.
    of: Option<String>,
    /// The array as messages name it; `None` for the one that is served.
    label: Option<String>,
    array: Array,
    /// The number of the last event that was passed on.
    reported: Cell<u64>,
    /// Indexed by role.
    tallies: RefCell<BTreeMap<u16, EventCounts>>,
    /// By the names of devices; of one that has gone, too, since it is the one that has to be found.
    drives: RefCell<BTreeMap<String, DriveStatus>>,
    listener: Listener,
    over: Cell<bool>,
    is_over: sync::Notify,
}

/// Counts of a member in this run that no counter of operations shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EventCounts {
    /// Places that were rewritten after they could not be read.
    pub(crate) corrected: u64,
    /// How often the device became so slow that others answered in its place.
    pub(crate) slow: u64,
}

impl Watched {
    /// Begins to tell of an array.
    pub(crate) fn begin(
        io: &Io,
        array: &Array,
        of: Option<String>,
        label: Option<String>,
        listener: Listener,
    ) -> Rc<Self> {
        let watched = Rc::new(Self {
            over: Cell::new(false),
            is_over: sync::Notify::new(io),
            of,
            label,
            array: array.clone(),
            reported: Cell::new(0),
            tallies: RefCell::default(),
            drives: RefCell::default(),
            listener,
        });
        let this = Rc::clone(&watched);
        io.spawn(async move {
            let over = || this.over.get().then_some(());
            while let Either::First(event) =
                race(this.array.next_event(this.reported.get()), this.is_over.until(over)).await
            {
                this.tell(&event);
            }
        });
        watched
    }

    /// Reports the events since the last turn of the reporting task.
    pub(crate) fn catch_up(&self) {
        self.array.events_since(self.reported.get()).iter().for_each(|event| self.tell(event));
    }

    /// Reports the remaining events, and lets the array go.
    pub(crate) fn end(&self) {
        self.catch_up();
        self.over.set(true);
        self.is_over.notify();
    }

    /// The counts of the member in a role.
    pub(crate) fn tally(&self, role: u16) -> EventCounts {
        self.tallies.borrow().get(&role).copied().unwrap_or_default()
    }

    /// Notes the file of a device that was added.
    pub(crate) fn came(&self, label: &str, file: &Path) {
        if let Some(drive) = DriveStatus::of(file) {
            self.drives.borrow_mut().insert(label.to_owned(), drive);
        }
    }

    /// The drive that a device is.
    pub(crate) fn drive(&self, label: &str) -> Option<DriveStatus> {
        self.drives.borrow().get(label).cloned()
    }

    fn count(&self, event: &Event) {
        let Some(role) = event.role else { return };
        let mut tallies = self.tallies.borrow_mut();
        let tally = tallies.entry(role).or_default();
        match event.kind {
            EventKind::Corrected => tally.corrected += 1,
            EventKind::Slow => tally.slow += 1,
            _ => {}
        }
    }

    fn tell(&self, event: &Event) {
        self.reported.set(event.number);
        self.count(event);
        let names = self.of.iter().chain(&self.label).map(|name| format!("{name}: "));
        let drive = event.label.as_ref().and_then(|label| self.drive(label));
        let drive = drive.map_or_else(String::new, |drive| format!(" ({})", drive.text()));
        let line = format!("{}{event}{drive}", names.collect::<String>());
        match level(event) {
            tracing::Level::ERROR => tracing::error!("{line}"),
            tracing::Level::WARN => tracing::warn!("{line}"),
            _ => tracing::info!("{line}"),
        }
        (self.listener)(News::Event { name: self.of.clone(), event: Box::new(self.status_of(event)) });
    }

    /// The last events, oldest first.
    pub(crate) fn report(&self) -> Vec<EventStatus> {
        let events = self.array.events_since(0);
        let from = events.len().saturating_sub(SHOWN);
        events[from..].iter().map(|event| self.status_of(event)).collect()
    }

    fn status_of(&self, event: &Event) -> EventStatus {
        let status = EventStatus::of(event, self.label.as_ref());
        let drive = event.label.as_ref().and_then(|label| self.drive(label));
        EventStatus { drive, ..status }
    }
}

/// The level of its line: events that must not go unseen are logged by default.
fn level(event: &Event) -> tracing::Level {
    let by_command = event.cause.and_then(|cause| cause.operation) == Some(Operation::Command);
    match event.kind {
        EventKind::CheckEnded | EventKind::RepairEnded if event.mismatch_sectors == Some(0) => {
            tracing::Level::INFO
        }
        EventKind::MemberFailed if event.cause == Some(Cause::REPLACED) => tracing::Level::INFO,
        EventKind::MemberFailed if by_command => tracing::Level::WARN,
        EventKind::MemberFailed
        | EventKind::Broken
        | EventKind::Uncorrected
        | EventKind::Unrebuilt
        | EventKind::Unmoved
        | EventKind::NoBadBlockLog => tracing::Level::ERROR,
        EventKind::ResyncBegun
        | EventKind::ReshapeBegun
        | EventKind::ReshapeEnded
        | EventKind::ResyncEnded
        | EventKind::RecoveryBegun
        | EventKind::RecoveryEnded
        | EventKind::CopyBegun
        | EventKind::CopyEnded
        | EventKind::Readded
        | EventKind::LateAnswer
        | EventKind::SpaceAgain
        | EventKind::BroughtUp
        | EventKind::BitmapAdded
        | EventKind::BitmapRemoved
        | EventKind::BitmapMoved
        | EventKind::Grown
        | EventKind::WriteBehindSet
        | EventKind::AsFastAgain => tracing::Level::INFO,
        _ => tracing::Level::WARN,
    }
}
