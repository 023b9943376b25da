//! Processes over a served array that a client asked for, and their outcome.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU64;
use std::rc::Rc;

use brindle_array::{Array, Process, ProcessError, ProcessKind, SyncMode, SyncReport};
use brindle_io::sync::{Either, race};
use brindle_io::{Duration, Instant, Io};
use brindle_layout::Size;
use brindle_volume::{Volume, VolumeError};

use crate::control::Word;
use crate::status::{Findings, Outcome, mode_of_locating};

/// Time in which work that can't begin fails.
const BEGINNING: Duration = Duration::from_millis(100);

impl Word {
    fn mode(self) -> Option<SyncMode> {
        match self {
            Self::Check => Some(SyncMode::Check),
            Self::Repair => Some(SyncMode::Repair),
            Self::Locate => Some(SyncMode::Locate),
            Self::Pause | Self::Resume | Self::Idle | Self::Speed => None,
        }
    }
}

/// The outcome of the process that was begun last on an array, and its end.
#[derive(Clone, Default)]
pub(crate) struct Last {
    outcome: Rc<RefCell<Option<(Instant, Outcome)>>>,
    /// A reshape has ended since clients were told of the array's size.
    pub(crate) grown: Rc<Cell<bool>>,
}

impl Last {
    /// The outcome of the last one that ended, of these and of those that begin by themselves. None as long as none has.
    pub(crate) fn report(&self, array: &Array) -> Option<Outcome> {
        let asked = self.outcome.borrow().clone();
        match array.last_outcome() {
            Some(last) if asked.as_ref().is_none_or(|(ended, _)| *ended <= last.ended) => {
                let action = match last.kind {
                    ProcessKind::Replacement => "replace".to_owned(),
                    kind => kind.to_string(),
                };
                Some(outcome_of(&action, array, &last.report, last.result.err()))
            }
            _ => asked.map(|(_, reported)| reported),
        }
    }

    /// Does what is asked; `Err` says why not. Later messages about the process begin with `of`.
    pub(crate) async fn act(
        &self,
        io: &Io,
        array: &Array,
        of: &str,
        word: Word,
        speeds: Speeds,
    ) -> Result<(), String> {
        if word == Word::Speed {
            speeds.keep(array);
            return Ok(());
        }
        if word == Word::Resume && array.process().is_none() {
            return begin_again(io, array, of, speeds, &self.grown).await;
        }
        let Some(mode) = word.mode() else {
            let process = array.process().ok_or("no check, repair or recovery is running")?;
            speeds.set(&process);
            match word {
                Word::Pause => process.pause(),
                Word::Resume => process.resume(),
                Word::Idle => process.stop(),
                Word::Check | Word::Repair | Word::Locate | Word::Speed => {}
            }
            return Ok(());
        };
        if array.sync_len() == 0 {
            return Err(format!(
                "{} has no redundancy to check: only levels with copies or parity have any",
                array.geometry().level().name()
            ));
        }
        if let Some(process) = array.process() {
            return Err(ProcessError::Busy(process.detail().kind).to_string());
        }
        let mode = match mode {
            SyncMode::Locate => match array.sample_redundancy().await {
                Ok(redundancy) => mode_of_locating(redundancy)?,
                Err(error) => return Err(error.to_string()),
            },
            mode => mode,
        };
        let resynced = word == Word::Locate && mode == SyncMode::Repair;
        // It begins with the call.
        let work = array.check(mode, |_| ());
        if let Some(process) = array.process() {
            speeds.set(&process);
        }
        let (last, of, of_io) = (self.clone(), array.clone(), io.clone());
        let task = io.spawn(async move {
            let ended = work.await;
            let found = ended.clone().unwrap_or_default();
            let mut reported = outcome_of(word.name(), &of, &found, ended.as_ref().err().copied());
            reported.findings.resynced = resynced;
            *last.outcome.borrow_mut() = Some((of_io.now(), reported));
            ended
        });
        match race(task, io.sleep(BEGINNING)).await {
            Either::First(Err(error)) => Err(error.to_string()),
            Either::First(Ok(_)) | Either::Second(()) => Ok(()),
        }
    }
}

/// Restarts automatic processes that ended early.
async fn begin_again(
    io: &Io,
    array: &Array,
    of: &str,
    speeds: Speeds,
    grown: &Rc<Cell<bool>>,
) -> Result<(), String> {
    let grown = Rc::clone(grown);
    if !reshape(io, array, of, move || grown.set(true)) && !resync(io, array, of) && !array.recover_again() {
        return Err("no check, repair or recovery is running, and none is left to resume".into());
    }
    io.sleep(BEGINNING).await;
    if let Some(process) = array.process() {
        speeds.set(&process);
    }
    Ok(())
}

/// Brings redundancy in sync behind the clients, where it is in doubt. Its messages begin with `of`. False if there
/// is nothing to bring in sync, or nothing may be written.
pub(crate) fn resync(io: &Io, array: &Array, of: &str) -> bool {
    if !array.needs_resync() || array.limits().read_only {
        return false;
    }
    let (resync, array, of) = (array.resync(|_| {}), array.clone(), of.to_owned());
    io.spawn(async move {
        match resync.await {
            Ok(report) => {
                if let Some(offset) = array.detail().resync_offset {
                    tracing::warn!(
                        "{of}the resync has ended, but could not make {} redundant, first at byte {offset} of each \
                         member's data area: data there is lost or can't be read, until it is written anew",
                        Size(report.unverified)
                    );
                }
            }
            Err(ProcessError::Volume(VolumeError::Stopping)) => {}
            Err(error @ ProcessError::Interrupted) => {
                tracing::warn!("{of}the resync ended: {error}; `brindle action resume` goes on with it");
            }
            Err(error) => tracing::error!("{of}the resync stopped: {error}"),
        }
    });
    true
}

/// Moves data that are to be moved, behind the clients, and brings redundancy in sync afterwards where a crash left it in doubt. Its
/// messages begin with `of`; `ended` is called when the array has its new size. False if nothing is to be moved.
pub(crate) fn reshape(io: &Io, array: &Array, of: &str, ended: impl FnOnce() + 'static) -> bool {
    if !array.is_moving() || array.process().is_some() {
        return false;
    }
    let (work, array, of, io_of) = (array.reshape(|_| {}), array.clone(), of.to_owned(), io.clone());
    io.spawn(async move {
        match work.await {
            Ok(()) => {
                ended();
                resync(&io_of, &array, &of);
            }
            Err(ProcessError::Volume(VolumeError::Stopping)) => {}
            Err(error @ ProcessError::Interrupted) => {
                tracing::warn!("{of}the reshape ended: {error}; `brindle action resume` goes on with it");
            }
            Err(error) => tracing::error!("{of}the reshape stopped: {error}"),
        }
    });
    true
}

/// Bytes a second; 0 is none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Speeds {
    /// The maximum speed, bytes a second.
    pub(crate) max: Option<u64>,
    /// The minimum speed, also beside clients, bytes a second.
    pub(crate) min: Option<u64>,
}

impl Speeds {
    /// Sets the speeds that are given, of the array and of its process that runs now.
    fn keep(self, array: &Array) {
        let known = array.speeds();
        array.set_speeds(brindle_array::Speeds {
            pace: self.max.map_or(known.pace, NonZeroU64::new),
            floor: self.min.map_or(known.floor, NonZeroU64::new),
        });
        if let Some(process) = array.process() {
            self.set(&process);
        }
    }

    /// Sets the speeds that are given.
    fn set(self, process: &Process) {
        if let Some(speed) = self.max {
            process.set_pace(NonZeroU64::new(speed));
        }
        if let Some(speed) = self.min {
            process.set_floor(NonZeroU64::new(speed));
        }
    }
}

/// The outcome, for the status.
fn outcome_of(action: &str, array: &Array, found: &SyncReport, error: Option<ProcessError>) -> Outcome {
    Outcome {
        findings: Findings::of(array, found),
        action: action.to_owned(),
        error: error.map(|error| error.to_string()),
    }
}
