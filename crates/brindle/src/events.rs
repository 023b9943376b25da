//! What happens to an array, told as it happens: a line of the log, with `--json` an object on standard output, and the
//! last ones in `status`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use brindle_array::{Array, Cause, Event, EventKind, Failed, Operation};
use brindle_io::Io;
use brindle_io::sync::{self, Either, race};
use serde_json::{Value, json};

use crate::log;

/// Events that `status` shows; more are remembered, and all were told when they happened.
const SHOWN: usize = 100;

/// An array whose events are told.
pub(crate) struct Watched {
    /// The array that is served, where there are several.
    of: Option<String>,
    /// The array as messages name it; `None` for the one that is served.
    label: Option<String>,
    array: Array,
    /// The number of the last event that was told.
    told: Cell<u64>,
    /// By role.
    tallies: RefCell<BTreeMap<u16, Tally>>,
    json: bool,
    over: Cell<bool>,
    is_over: sync::Event,
}

/// What happened to a member in this run that no counter of operations shows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Places that were written anew after they could not be read.
    pub(crate) corrected: u64,
    /// Times at which it became so slow that the others answered for it.
    pub(crate) slow: u64,
}

impl Watched {
    /// Begins to tell of an array.
    pub(crate) fn begin(
        io: &Io,
        array: &Array,
        of: Option<String>,
        label: Option<String>,
        json: bool,
    ) -> Rc<Self> {
        let watched = Rc::new(Self {
            over: Cell::new(false),
            is_over: sync::Event::new(io),
            of,
            label,
            array: array.clone(),
            told: Cell::new(0),
            tallies: RefCell::default(),
            json,
        });
        let this = Rc::clone(&watched);
        io.spawn(async move {
            let over = || this.over.get().then_some(());
            while let Either::First(event) =
                race(this.array.next_event(this.told.get()), this.is_over.until(over)).await
            {
                this.tell(&event);
            }
        });
        watched
    }

    /// Tells what has happened since the last turn of the task that tells.
    pub(crate) fn catch_up(&self) {
        self.array.events_since(self.told.get()).iter().for_each(|event| self.tell(event));
    }

    /// Tells what is left to tell, and lets the array go.
    pub(crate) fn end(&self) {
        self.catch_up();
        self.over.set(true);
        self.is_over.notify();
    }

    /// What happened to the member in a role.
    pub(crate) fn tally(&self, role: u16) -> Tally {
        self.tallies.borrow().get(&role).copied().unwrap_or_default()
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
        self.told.set(event.number);
        self.count(event);
        let names = self.of.iter().chain(&self.label).map(|name| format!("{name}: "));
        let line = format!("{}{event}", names.collect::<String>());
        match level(event) {
            tracing::Level::ERROR => tracing::error!("{line}"),
            tracing::Level::WARN => tracing::warn!("{line}"),
            _ => tracing::info!("{line}"),
        }
        if self.json {
            let mut object = self.object(event);
            object["event"] = json!(event.kind.name());
            if let Some(of) = &self.of {
                object["name"] = json!(of);
            }
            log::print(format!("{object}\n"));
        }
    }

    /// The last events, oldest first.
    pub(crate) fn report(&self) -> Vec<Value> {
        let events = self.array.events_since(0);
        let from = events.len().saturating_sub(SHOWN);
        events[from..].iter().map(|event| self.object(event)).collect()
    }

    fn object(&self, event: &Event) -> Value {
        let cause = event.cause;
        json!({
            "number": event.number,
            "at": event.at,
            "kind": event.kind.name(),
            "array": self.label,
            "role": event.role,
            "member": event.label,
            "operation": cause.and_then(|cause| cause.operation).map(Operation::name),
            "offset": cause.and_then(|cause| cause.offset),
            "error": cause.and_then(|cause| cause.error).map(|error| error.to_string()),
            "text": event.to_string(),
            "range": event.range.as_ref().map(bounds),
            "array_range": event.array.as_ref().map(bounds),
            "mismatch_cnt": event.mismatch_sectors,
        })
    }
}

fn bounds(range: &Range<u64>) -> Value {
    json!({"from": range.start, "to": range.end})
}

/// Why and when a member failed.
pub(crate) fn failure(failed: &Failed) -> Value {
    let cause = failed.cause;
    json!({
        "at": failed.at,
        "operation": cause.operation.map(Operation::name),
        "offset": cause.offset,
        "error": cause.error.map(|error| error.to_string()),
        "why": cause.to_string(),
    })
}

/// What must not go unseen is told unasked.
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
        | EventKind::NoBadBlockLog => tracing::Level::ERROR,
        EventKind::ResyncBegun
        | EventKind::ResyncEnded
        | EventKind::RecoveryBegun
        | EventKind::RecoveryEnded
        | EventKind::CopyBegun
        | EventKind::CopyEnded
        | EventKind::Readded
        | EventKind::LateAnswer
        | EventKind::RoomAgain
        | EventKind::BroughtUp
        | EventKind::BitmapAdded
        | EventKind::BitmapRemoved
        | EventKind::BitmapMoved
        | EventKind::WriteBehindSet
        | EventKind::AsFastAgain => tracing::Level::INFO,
        _ => tracing::Level::WARN,
    }
}
