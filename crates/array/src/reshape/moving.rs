//! The process that moves data, window by window, and what follows its end.

use core::cell::Cell;
use std::rc::Rc;

use brindle_io::sync::join_all;
use brindle_io::{Buf, Duration, Instant, OpSpan};
use brindle_layout::Geometry;
use brindle_members::process::Progress;
use brindle_members::windows::{Windowed, Windows};
use brindle_volume::VolumeError;

use super::{rows, window};
use crate::array::{Array, Outcome, Running};
use crate::data::report::SyncReport;
use crate::events::{EventKind, Note};
use crate::ledger::GrowError;
use crate::placement::{Placement, Split, rows_of};
use crate::process::{Process, ProcessError, ProcessKind};

/// Most bytes of the array that are read and then written at a time, and how many such steps are under way.
type Steps = (u64, usize);
/// A disk with heads that read one step and wrote another would seek between them, and clients wait longer for it (docs/bench/grow.md).
const WITH_HEADS: Steps = (6 << 20, 1);
const WITHOUT_HEADS: Steps = (4 << 20, 2);
/// Most bytes of each member that a window moves.
const MOST_OF_A_MEMBER: u64 = 32 << 20;
/// Pause before a window is tried again whose members did not answer, or gave errors.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Pause between looks whether earlier reads of members have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A process under way.
struct Moving {
    array: Array,
    process: Process,
}

impl Drop for Moving {
    fn drop(&mut self) {
        // In its new shape the array may have another process by now.
        let is_it = self.array.process().is_some_and(|process| process.is(&self.process));
        if is_it {
            self.array.0.process.take();
        }
        self.array.0.core.members.changed().notify();
    }
}

/// The windows of an array whose data are being moved.
struct Over {
    array: Array,
    /// When the array was opened with two geometries: reads that began earlier know nothing of a border.
    opened: Instant,
    /// The windows under way report that they could not be moved once each time.
    stuck: Rc<Cell<bool>>,
}

impl Array {
    /// Moves the data that have not moved yet, makes rows of zeroes behind them, and gives the array its new geometry. Requests go on
    /// meanwhile; changes of the window under way wait for it. How far it came is on record with each window: the next run goes on
    /// from there.
    ///
    /// Begins with the call, as the array's [`Array::process`]; the future must be driven. It ends when the array has its new
    /// shape and size.
    ///
    /// # Errors
    /// [`ProcessError::Busy`] if another process is under way; [`ProcessError::Interrupted`] if it is stopped.
    /// [`VolumeError::Unsupported`] if nothing is being moved, or the array is only read. [`VolumeError::Stopping`] if the array is stopped
    /// meanwhile. [`VolumeError::TooManyLost`] if members are lost that it can't do without.
    pub fn reshape<F: FnMut(Progress)>(
        &self,
        progress: F,
    ) -> impl Future<Output = Result<(), ProcessError>> + use<F> {
        let moving = Moving::begin(self);
        async move {
            let moving = moving?;
            let result = move_all(&moving, progress).await;
            let (kind, report, ended) =
                (ProcessKind::Reshape, SyncReport::default(), moving.array.0.core.io.now());
            moving.array.0.outcome.replace(Some(Outcome { kind, report, ended, result }));
            result
        }
    }

    fn split(&self) -> Option<&Split> {
        match &self.0.placement {
            Placement::Split(split) => Some(split),
            Placement::One(_) => None,
        }
    }

    /// The geometry that has the bytes which have not moved.
    pub(crate) fn earlier_geometry(&self) -> Option<&Geometry> {
        self.0.earlier_geometry.as_ref()
    }
}

impl Moving {
    fn begin(array: &Array) -> Result<Self, ProcessError> {
        if let Some(other) = array.process() {
            return Err(ProcessError::Busy(other.kind()));
        }
        let split = array.split().filter(|_| array.is_moving()).ok_or(VolumeError::Unsupported)?;
        let from = split.border();
        let total = array.moved_in_the_end().ok_or(VolumeError::Unsupported)?;
        let process = Process::new(&array.0.core.io, ProcessKind::Reshape, from, total, array.speeds());
        array.0.process.replace(Some(process.clone()));
        Ok(Self { array: array.clone(), process })
    }
}

impl Array {
    /// Where the border stands in the end.
    fn moved_in_the_end(&self) -> Option<u64> {
        rows(&self.0.geometry).map(|new| new.row_data_bytes() * new.rows())
    }
}

async fn move_all(moving: &Moving, mut progress: impl FnMut(Progress)) -> Result<(), ProcessError> {
    let (array, process) = (&moving.array, &moving.process);
    let (io, keeper) = (&array.0.core.io, &array.0.core.keeper);
    let Progress { position, total, .. } = process.progress();
    keeper.note(Note { range: Some(position..total), ..Note::of(EventKind::ReshapeBegun) });
    let over = Over { array: array.clone(), opened: io.ran(), stuck: Rc::default() };
    let mut windows = Windows::new(io, process.clone(), position, over);
    while let Some((end, moved)) = windows.advance().await? {
        moved?;
        process.reached(end, 0);
        progress(process.progress());
    }
    keeper.note(Note { range: Some(position..total), ..Note::of(EventKind::ReshapeEnded) });
    array.all_has_moved().await.map_err(|why| match why {
        GrowError::Volume(error) => error.into(),
        _ => VolumeError::Unsupported.into(),
    })
}

impl Windowed for Over {
    type Outcome = Result<(), VolumeError>;

    fn requests(&self) -> u64 {
        self.array.0.core.requests.get()
    }

    /// The place of a window depends on what the one before has put on record.
    fn in_flight(&self) -> usize {
        1
    }

    fn place(&self, at: u64, total: u64) -> (u64, u64) {
        let Running { geometry, earlier_geometry, core, .. } = &*self.array.0;
        let earlier = earlier_geometry.as_ref().and_then(rows);
        let (Some(old), Some(new)) = (earlier, rows(geometry)) else { return (total, 0) };
        let most = MOST_OF_A_MEMBER.max(new.chunk()) / new.chunk() * new.row_data_bytes();
        let end = window::end(old, new, core.keeper.ledger().shift(), at, most);
        (at, end.saturating_sub(at))
    }

    fn carry_out(&self, at: u64, len: u64) -> impl Future<Output = Self::Outcome> + 'static {
        move_window(self.array.clone(), at, len, self.opened, Rc::clone(&self.stuck))
    }
}

/// Moves one window, however often its members don't answer.
async fn move_window(
    array: Array,
    from: u64,
    len: u64,
    opened: Instant,
    stuck: Rc<Cell<bool>>,
) -> Result<(), VolumeError> {
    let (core, split) = (&array.0.core, array.split().ok_or(VolumeError::Unsupported)?);
    let hurry = core.io.hurrying();
    let _claim = core.claim(from..from + len).await;
    drop(hurry);
    // New rows may land on bytes that such reads look for.
    split.earlier_reads_ended().await;
    array.reads_before_ended(opened).await?;
    loop {
        let syncing = core.keeper.sync_begins()?;
        // An error may pass: nothing is lost before it is tried once more.
        match array.move_claimed(split, from, len, stuck.get()).await {
            Ok(()) => {
                stuck.set(false);
                return Ok(());
            }
            Err(why @ (VolumeError::TooManyLost | VolumeError::Stopping)) => return Err(why),
            Err(why) if !stuck.replace(true) => {
                let error = match why {
                    VolumeError::Member { error, .. } => Some(error),
                    _ => None,
                };
                let cause = error.map(Into::into);
                core.keeper.note(Note {
                    range: Some(from..from + len),
                    cause,
                    ..Note::of(EventKind::ReshapeWaits)
                });
            }
            Err(_) => {}
        }
        drop(syncing);
        core.io.sleep(ASK_AGAIN).await;
    }
}

impl Array {
    /// Reads and writes a window, records that, and has the border pass it. The caller has claimed it.
    async fn move_claimed(&self, split: &Split, from: u64, len: u64, again: bool) -> Result<(), VolumeError> {
        let core = &self.0.core;
        let new = rows(&self.0.geometry).ok_or(VolumeError::Unsupported)?;
        let (row, size) = (new.row_data_bytes(), self.earlier_geometry().map_or(0, Geometry::size));
        if from >= size {
            rows_of(&split.below)?.put_zeroes(from, len).await?;
            core.keeper.moved_to(from + len).await?;
            split.pass(from + len);
            return Ok(());
        }
        let (most, lanes) = self.steps();
        let each = most.min(len / lanes as u64);
        let step = (each - each % row).max(row);
        let memory = core.io.pool(lanes * (step as usize).next_power_of_two());
        // No row of a window is written over bytes that another one is read from.
        let lane = async |first: usize| {
            let mut buf = memory.alloc(step as usize).await;
            for at in (from..from + len).step_by(step as usize).skip(first).step_by(lanes) {
                self.move_rows(split, at, step.min(from + len - at), &buf, again).await?;
                // A member that was given up still has the step before.
                if buf.is_pinned() {
                    buf = core.io.pool((step as usize).next_power_of_two()).alloc(step as usize).await;
                }
            }
            Ok(())
        };
        join_all((0..lanes).map(lane)).await.into_iter().collect::<Result<(), VolumeError>>()?;
        core.keeper.moved_to(from + len).await?;
        split.pass(from + len);
        Ok(())
    }

    fn steps(&self) -> Steps {
        let Running { core, .. } = &*self.0;
        let info = |role| core.io.member_info(core.members.device(role)?.id);
        let rotates = (0..core.members.len()).filter_map(info).any(|info| info.rotational);
        if rotates { WITH_HEADS } else { WITHOUT_HEADS }
    }

    /// Moves some rows: what is behind the end of the bytes to be moved is zeroes.
    async fn move_rows(
        &self,
        split: &Split,
        at: u64,
        len: u64,
        buf: &Buf,
        again: bool,
    ) -> Result<(), VolumeError> {
        let has = self.earlier_geometry().map_or(0, Geometry::size).saturating_sub(at).min(len);
        let data = buf.slice(0..has as usize);
        if has < len {
            buf.slice(has as usize..len as usize).bytes_mut().fill(0);
        }
        let lost = self.read_or_lose(split, at, &data, again).await?;
        let rows = rows_of(&split.below)?;
        rows.put_rows(at, core::slice::from_ref(&buf.slice(0..len as usize))).await?;
        if lost.is_empty() { Ok(()) } else { self.leave_lost(lost).await }
    }

    /// Waits for reads of members that began before the array had two geometries: they are of bytes that are about to be overwritten.
    async fn reads_before_ended(&self, opened: Instant) -> Result<(), VolumeError> {
        let core = &self.0.core;
        let is_under_way = |role: u16| {
            let oldest = core.members.device(role).and_then(|device| core.io.oldest(device.id, OpSpan::Read));
            oldest.is_some_and(|since| since <= opened)
        };
        while (0..core.members.len()).any(is_under_way) {
            core.keeper.refuse_if_closed()?;
            core.io.sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }
}
