//! Processes over the whole array (resync, check, recovery), which work window by window, several windows at a time.

mod found;
mod samples;

pub use samples::Redundancy;

use core::ops::Range;
use std::rc::Rc;

use crate::events::{EventKind, Note};
use crate::process::{Process, ProcessError, ProcessKind};
use brindle_io::{Duration, Instant, OpError};
use brindle_layout::Family as Map;
use brindle_members::process::Progress;
use brindle_members::windows::{Windowed, Windows};
use brindle_volume::VolumeError;

use crate::array::{Array, Outcome};
use crate::data::report::{SyncMode, SyncReport};
use crate::sync_len::sync_len;

/// Bytes of a window, or the chunk where that is more.
const WINDOW: u64 = 4 << 20;
/// Windows begin at multiples of this, if not of the chunk; those that begin where redundancy stops being true,
const ALIGNMENT: u64 = 64 << 10;
/// at multiples of this.
const FINE: u64 = 4 << 10;
/// The least number of steps in which a recovery advances, where chunks are small enough.
const STEPS: u64 = 16;
/// The position of a resync or recovery is recorded at least this often over the whole array,
const SAVES: u64 = 16;
/// and this often in time.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// Time between two tries of a window whose members do not answer, and how often a check tries.
const ASK_AGAIN: Duration = Duration::from_secs(1);
const CHECK_TRIES: u32 = 3;

impl Array {
    /// Bytes over which [`Array::sync_window`] goes: of each member for parity levels, of the array for mirrors, 0
    /// where there is no redundancy.
    pub fn sync_len(&self) -> u64 {
        sync_len(&self.0.geometry)
    }

    /// Compares the redundancy of `len` bytes at `pos` (see [`Array::sync_len`]; both multiples of 64 KiB and, for
    /// parity, of the chunk, but for the end). Requests to that range wait meanwhile. Places that can't be read are
    /// mended on the way, unless the array is read-only; places that can't be mended are named, and don't end it.
    /// Redundancy that is in sync after [`SyncMode::Repair`] is known to be from then on.
    ///
    /// # Errors
    /// [`VolumeError::TooManyLost`] or [`VolumeError::Member`] if the array can't do without a member that is gone or
    /// silent, or if a failure could not be recorded. [`VolumeError::Stopping`] if the array was stopped before that
    /// record, or has been stopped and something would have to be written. [`VolumeError::Reshaping`].
    pub async fn sync_window(&self, pos: u64, len: u64, mode: SyncMode) -> Result<SyncReport, VolumeError> {
        self.0.placement.sync_window(pos, len, mode).await
    }

    /// The process that is under way.
    pub fn process(&self) -> Option<Process> {
        self.0.process.borrow().clone()
    }

    /// Brings redundancy in sync from where it is in doubt on. Requests go on meanwhile; data below the position that
    /// has been reached enjoy full redundancy at once. How far it came is recorded now and then, and when the array
    /// is stopped: the next resync goes on from there.
    ///
    /// Begins with the call, as the array's [`Array::process`] unless there is nothing to do; the future must be driven.
    /// Dropping it ends the resync after the windows under way.
    ///
    /// Places that could not be brought in sync, since data members of a parity level are lost or unreadable, are counted
    /// as `unverified` in the report; unreadable ones are also named. The array then still [needs a
    /// resync](Array::needs_resync) until that data is rewritten, and the lowest such place is recorded. All else
    /// has its redundancy. A resync that can make nothing more true because of lost members ends early.
    ///
    /// # Errors
    /// [`ProcessError::Busy`] if another process is under way; [`ProcessError::Interrupted`] if it is stopped;
    /// [`VolumeError::ReadOnly`]; [`VolumeError::Stopping`] if the array is stopped meanwhile.
    /// [`VolumeError::TooManyLost`] or [`VolumeError::Member`] if a member is gone that the array can't do without,
    /// or if the position could not be recorded. [`VolumeError::Reshaping`].
    pub fn resync<F: FnMut(Progress)>(
        &self,
        progress: F,
    ) -> impl Future<Output = Result<SyncReport, ProcessError>> + use<F> {
        let from = self.0.core.keeper.resync_offset();
        let sweep = match from {
            None if !self.0.core.config.is_read_only() => Ok(None),
            from => {
                let work = Work::Sync(SyncMode::Repair);
                Sweep::begin(self, ProcessKind::Resync, work, from.unwrap_or(0)).map(Some)
            }
        };
        async move {
            match sweep? {
                Some(mut sweep) => {
                    let result = resync(&mut sweep, progress).await;
                    sweep.ended(result).map(|()| sweep.report.clone())
                }
                None => Ok(SyncReport::default()),
            }
        }
    }

    /// Compares the redundancy of the whole array. [`SyncMode::Repair`] also brings it in sync, [`SyncMode::Locate`] only
    /// where the wrong member is known. Requests go on meanwhile. Begins and ends as [`Array::resync`] does.
    ///
    /// # Errors
    /// [`ProcessError::Busy`] if another process is under way; [`ProcessError::Interrupted`] if it is stopped;
    /// [`VolumeError::ReadOnly`] if a read-only array is to be repaired; [`VolumeError::Stopping`] if the array is
    /// stopped meanwhile; [`VolumeError::TooManyLost`] or [`VolumeError::Member`], if redundancy does not make up for it;
    /// [`VolumeError::Reshaping`].
    pub fn check<F: FnMut(Progress)>(
        &self,
        mode: SyncMode,
        mut progress: F,
    ) -> impl Future<Output = Result<SyncReport, ProcessError>> + use<F> {
        let kind = match mode {
            SyncMode::Check => ProcessKind::Check,
            SyncMode::Repair | SyncMode::Locate => ProcessKind::Repair,
        };
        let sweep = Sweep::begin(self, kind, Work::Sync(mode), 0);
        async move {
            let mut sweep = sweep?;
            while sweep.advance().await?.is_some() {
                progress(sweep.process.progress());
            }
            sweep.array.report_compared(kind, &sweep.report);
            Ok(sweep.report.clone())
        }
    }
}

/// The position of a process at its last record.
pub(crate) struct Saved {
    pub(crate) position: u64,
    pub(crate) at: Instant,
}

impl Saved {
    /// Whether the position is to be recorded again, which then counts as done.
    pub(crate) fn is_due(&mut self, position: u64, total: u64, now: Instant) -> bool {
        let due = position - self.position >= total / SAVES || now.since(self.at) >= SAVE_EVERY;
        if due {
            *self = Self { position, at: now };
        }
        due
    }
}

/// The work on each window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Redundancy is compared, or brought in sync.
    Sync(SyncMode),
    /// The members of roles are rebuilt.
    Recover(Rc<[u16]>),
    /// A role's second device is filled from its member.
    Replace(u16),
}

/// A resync, from where it begins to its end.
async fn resync(sweep: &mut Sweep, mut progress: impl FnMut(Progress)) -> Result<(), ProcessError> {
    let array = sweep.array.clone();
    let (core, keeper) = (&array.0.core, &array.0.core.keeper);
    let parity = match array.0.geometry.family() {
        Map::Parity(map) => Some(map.parity_members()),
        _ => None,
    };
    let Progress { position: from, total, .. } = sweep.process.progress();
    keeper.note(Note { range: Some(from..total), ..Note::of(EventKind::ResyncBegun) });
    let mut saved = Saved { position: from, at: core.io.now() };
    let ended = loop {
        let position = match sweep.advance().await {
            Ok(Some(position)) => position,
            Ok(None) => break Ok(()),
            Err(ProcessError::Interrupted) => break Err(ProcessError::Interrupted),
            Err(error) => return Err(error),
        };
        progress(sweep.process.progress());
        // Each row lacks data, or all its parity.
        if parity.is_some_and(|parity| sweep.report.unverified > 0 && core.members.lost() >= parity) {
            break Ok(());
        }
        if saved.is_due(position, total, core.io.now()) {
            keeper.save_position().await?;
        }
    };
    keeper.save_position().await?;
    ended?;
    for place in sweep.report.bad_places.iter().filter(|place| !place.mended) {
        let range = Some(place.offset..place.offset + place.len);
        keeper.note(Note { role: Some(place.role), range, ..Note::of(EventKind::Unprotected) });
    }
    keeper.note(Note { range: Some(from..total), ..Note::of(EventKind::ResyncEnded) });
    Ok(())
}

/// One window. Members that the array can't do without, and that do not answer, are asked again: a resync that ended for
/// that would not begin anew by itself.
async fn sweep_window(array: Array, pos: u64, len: u64, work: Work) -> Result<SyncReport, VolumeError> {
    let mut tries = 0;
    loop {
        let syncing = array.0.core.keeper.sync_begins()?;
        let report = match &work {
            Work::Sync(mode) => array.sync_window(pos, len, *mode).await,
            Work::Recover(roles) => {
                let lacking = array.lacking(roles, pos + len);
                match lacking.is_empty() {
                    true => Ok(SyncReport::default()),
                    false => array.recover_window(&lacking, pos, len).await,
                }
            }
            Work::Replace(role) => array.recover_window(&[*role], pos, len).await,
        };
        let silent = matches!(report, Err(VolumeError::Member { error: OpError::TimedOut, .. }));
        tries += 1;
        if !silent || work == Work::Sync(SyncMode::Check) && tries == CHECK_TRIES {
            return report;
        }
        drop(syncing);
        array.0.core.io.sleep(ASK_AGAIN).await;
    }
}

/// The part of the array that a process may skip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeftOut {
    /// Chunks whose bitmap bits are clear: their redundancy is known to be in sync.
    True,
    /// Chunks whose bitmap bits are clear: members that were away still hold them.
    Unmarked,
}

/// The windows of a process over an array.
struct Over {
    array: Array,
    work: Work,
    window: u64,
    /// The part to skip, and the unit at whose multiples windows begin and end.
    leaves_out: Option<(LeftOut, u64)>,
}

/// A process under way.
pub(crate) struct Sweep {
    pub(crate) array: Array,
    pub(crate) process: Process,
    work: Work,
    windows: Windows<ProcessKind, Over>,
    report: SyncReport,
    /// Number of places that were reported as events.
    reported: usize,
}

impl Drop for Sweep {
    fn drop(&mut self) {
        self.array.0.process.take();
        // Another may begin.
        self.array.0.core.members.changed().notify();
    }
}

impl Sweep {
    pub(crate) fn begin(
        array: &Array,
        kind: ProcessKind,
        work: Work,
        from: u64,
    ) -> Result<Self, ProcessError> {
        if work != Work::Sync(SyncMode::Check) && array.0.core.config.is_read_only() {
            return Err(VolumeError::ReadOnly.into());
        }
        array.0.placement.one()?;
        // A change of the array's shape ends with a resync as a rule: who waits for that comes after both.
        if array.0.growing.get() {
            return Err(ProcessError::Busy(ProcessKind::Resync));
        }
        if let Some(other) = array.process() {
            return Err(ProcessError::Busy(other.kind()));
        }
        // Chunks of levels with parity are powers of two, so that this is a multiple of them: the border of good data
        // never cuts a row.
        let unit = match array.0.geometry.family() {
            Map::Parity(map) => map.chunk(),
            _ => ALIGNMENT,
        };
        let (total, window) = match work {
            Work::Sync(_) => (array.sync_len(), WINDOW.max(unit)),
            Work::Recover(_) | Work::Replace(_) => {
                let total = array.0.geometry.member_size();
                (total, (total / STEPS).next_multiple_of(unit).clamp(unit, WINDOW.max(unit)))
            }
        };
        let fine = match array.0.geometry.family() {
            Map::Parity(_) => unit,
            _ => FINE,
        };
        // Without a bitmap it goes over rows too that a write has brought in sync: unreadable places there have to be
        // reported.
        let marked = array.0.core.intent.bitmap().is_some();
        let left_out = match &work {
            Work::Sync(_) if kind == ProcessKind::Resync => Some(LeftOut::True),
            Work::Recover(roles) if array.are_guided(roles) => Some(LeftOut::Unmarked),
            _ => None,
        };
        let leaves_out = left_out.filter(|_| marked).map(|what| (what, fine));
        // The first window ends beyond `from`, however short it is; there is none if all has been done.
        let aligned = leaves_out.map_or(window, |(_, unit)| unit);
        let next = if from < total { from - from % aligned } else { total };
        let process = Process::new(&array.0.core.io, kind, from, total, array.speeds());
        array.0.process.replace(Some(process.clone()));
        let over = Over { array: array.clone(), work: work.clone(), window, leaves_out };
        let windows = Windows::new(&array.0.core.io, process.clone(), next, over);
        let (array, report) = (array.clone(), SyncReport::default());
        Ok(Self { array, process, work, windows, report, reported: 0 })
    }

    /// Keeps windows under way, and waits for the first of them. Gives the position below which all is done, or
    /// nothing when there is nothing left to do.
    pub(crate) async fn advance(&mut self) -> Result<Option<u64>, ProcessError> {
        let Some((end, window)) = self.windows.advance().await? else { return Ok(None) };
        let window = window?;
        match self.work {
            Work::Recover(_) => self.array.report_unrebuilt(&window),
            Work::Sync(mode) if self.process.kind() != ProcessKind::Resync => {
                self.reported += self.array.report_found(mode, &window, SyncReport::PLACES - self.reported);
            }
            Work::Sync(_) | Work::Replace(_) => {}
        }
        self.report.add(&window);
        self.process.reached(end, self.report.mismatch_sectors);
        Ok(Some(end))
    }

    /// Remembers the outcome of the process.
    pub(crate) fn ended(&self, result: Result<(), ProcessError>) -> Result<(), ProcessError> {
        let (kind, report, ended) = (self.process.kind(), self.report.clone(), self.array.0.core.io.now());
        self.array.0.outcome.replace(Some(Outcome { kind, report, ended, result }));
        result
    }
}

impl Windowed for Over {
    type Outcome = Result<SyncReport, VolumeError>;

    fn requests(&self) -> u64 {
        let core = &self.array.0.core;
        core.requests.get() + core.keeper.channels.requests()
    }

    fn place(&self, next: u64, total: u64) -> (u64, u64) {
        let whole = (next, self.window.min(total - next));
        let Some((what, unit)) = self.leaves_out else { return whole };
        let run = |range: Range<u64>| match (what, &self.work) {
            (LeftOut::True, _) => self.array.0.core.keeper.in_sync_run(&range),
            (LeftOut::Unmarked, Work::Recover(roles)) => {
                let (marked, end) = self.array.marked_run(roles, &range);
                (!marked, end)
            }
            (LeftOut::Unmarked, _) => (false, range.end),
        };
        let from = match run(next..total) {
            (true, end) if end >= total => return (total, 0),
            (true, end) => end,
            (false, _) => next,
        };
        let (left_out, end) = run(from..total);
        if left_out {
            // Only a part is looked at at a time.
            return (from, 0);
        }
        let pos = next.max(from - from % unit);
        (pos, self.window.min(end.next_multiple_of(unit).min(total) - pos))
    }
    fn carry_out(&self, at: u64, len: u64) -> impl Future<Output = Self::Outcome> + 'static {
        sweep_window(self.array.clone(), at, len, self.work.clone())
    }
}
