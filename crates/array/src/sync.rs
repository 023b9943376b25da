//! Redundancy made true, or compared, over the whole array: window after window, several at a time.

use std::collections::VecDeque;

use brindle_io::{Duration, Instant, OpError, Task};
use brindle_layout::Family as Map;

use crate::array::Array;
use crate::data::report::{SyncMode, SyncReport};
use crate::events::{EventKind, Note};
use crate::keeper::sync_len;
use crate::placement::Family;
use brindle_volume::VolumeError;

/// Bytes of a window, or the chunk where that is more.
const WINDOW: u64 = 4 << 20;
/// Windows under way at the same time: members are kept busy while one is computed.
const IN_FLIGHT: usize = 3;
/// How far a resync has come is recorded at least this often over the whole array,
const SAVES: u64 = 16;
/// and this often in time.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// Time between two tries of a window whose members do not answer, and how often a check tries.
const ASK_AGAIN: Duration = Duration::from_secs(1);
const CHECK_TRIES: u32 = 3;

/// How far a sweep over the array has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes done, in the unit of [`Array::sync_len`].
    pub position: u64,
    /// Bytes in all.
    pub total: u64,
    /// Time since the sweep began, on the reactor's clock.
    pub elapsed: Duration,
    /// Sectors found to disagree so far, as md counts them.
    pub mismatch_sectors: u64,
}

impl Array {
    /// Bytes over which [`Array::sync_window`] goes: of each member for parity levels, of the array for mirrors, 0
    /// where there is no redundancy.
    pub fn sync_len(&self) -> u64 {
        sync_len(&self.0.geometry)
    }

    /// Compares the redundancy of `len` bytes at `pos` (see [`Array::sync_len`]; both multiples of 64 KiB and, for
    /// parity, of the chunk, but for the end). Requests to that range wait meanwhile. Places that can't be read are
    /// mended on the way, unless the array is read-only; what can't be mended is named, and ends nothing. Redundancy that
    /// is true after [`SyncMode::Repair`] is known to be from then on.
    ///
    /// # Errors
    /// [`VolumeError::TooManyLost`] or a member's, if one is gone that the array can't do without;
    /// [`VolumeError::Reshaping`].
    pub async fn sync_window(&self, pos: u64, len: u64, mode: SyncMode) -> Result<SyncReport, VolumeError> {
        self.0.placement.sync_window(pos, len, mode).await
    }

    /// Rebuilds `len` bytes at `pos` of the data area of `role`, which is recovering, from the others. For parity both
    /// are multiples of the chunk, so that the border of what is good never cuts a row.
    ///
    /// # Errors
    /// [`VolumeError::TooManyLost`] or a member's, if it can't be rebuilt; [`VolumeError::Member`] if the recovering
    /// member refuses it.
    pub async fn recover_window(&self, role: u16, pos: u64, len: u64) -> Result<(), VolumeError> {
        match self.0.placement.one()? {
            Family::Stripes(_) => Err(VolumeError::TooManyLost),
            Family::Mirror(mirror) => mirror.recover(role, pos, len).await,
            Family::Parity(parity) => parity.recover(role, pos, len).await,
        }
    }

    /// Makes redundancy true from where it is in doubt on. Requests go on meanwhile; data below the position that
    /// has been reached enjoy full redundancy at once. How far it came is recorded now and then, and when the array
    /// is stopped: the next resync goes on from there.
    ///
    /// Dropping the future ends the resync after the windows under way.
    ///
    /// What could not be made true, since data members of a parity level are lost or can't be read, is counted as
    /// `unverified` in the report, and named where it can't be read; then the array still
    /// [needs a resync](Array::needs_resync), until that data is written anew: what is recorded is the lowest such place.
    /// All else has its redundancy. A resync that can make nothing true any more for what is lost ends early.
    ///
    /// # Errors
    /// [`VolumeError::ReadOnly`]; [`VolumeError::Stopping`] if the array is stopped meanwhile; a member's, if one is gone
    /// that the array can't do without.
    pub fn resync<F: FnMut(Progress)>(
        &self,
        progress: F,
    ) -> impl Future<Output = Result<SyncReport, VolumeError>> + use<F> {
        // From here on, not from the first poll: who asks meanwhile is told of it.
        let resyncing = Resyncing::begin(self);
        async move { resyncing.0.resync_marked(progress).await }
    }

    async fn resync_marked(&self, mut progress: impl FnMut(Progress)) -> Result<SyncReport, VolumeError> {
        let keeper = &self.0.core.keeper;
        if self.0.core.config.read_only {
            return Err(VolumeError::ReadOnly);
        }
        let Some(from) = keeper.resync_offset() else { return Ok(SyncReport::default()) };
        let parity = match self.0.geometry.family() {
            Map::Parity(map) => Some(map.parity_members()),
            _ => None,
        };
        let mut sweep = Sweep::new(self, from, SyncMode::Repair);
        keeper.note(Note { range: Some(from..sweep.total), ..Note::array(EventKind::ResyncBegun) });
        let mut saved = (from, self.0.core.io.now());
        while let Some(position) = sweep.advance().await? {
            progress(sweep.progress(position));
            // Each row lacks data, or all its parity.
            if parity
                .is_some_and(|parity| sweep.report.unverified > 0 && self.0.core.members.lost() >= parity)
            {
                break;
            }
            self.0.resyncing.set(Some(position));
            let now = self.0.core.io.now();
            if position - saved.0 >= sweep.total / SAVES || now.since(saved.1) >= SAVE_EVERY {
                saved = (position, now);
                keeper.save_position().await?;
            }
        }
        keeper.save_position().await?;
        for place in sweep.report.bad_places.iter().filter(|place| !place.mended) {
            let range = Some(place.offset..place.offset + place.len);
            keeper.note(Note { role: Some(place.role), range, ..Note::array(EventKind::Unprotected) });
        }
        keeper.note(Note { range: Some(from..sweep.total), ..Note::array(EventKind::ResyncEnded) });
        Ok(sweep.report)
    }

    /// Compares the redundancy of the whole array, and with [`SyncMode::Repair`] makes it true. Requests go on
    /// meanwhile. Dropping the future ends it after the windows under way.
    ///
    /// # Errors
    /// [`VolumeError::ReadOnly`] if a read-only array is to be repaired; [`VolumeError::Stopping`] if the array is
    /// stopped meanwhile; a member's, if redundancy does not make up for it.
    pub async fn check(
        &self,
        mode: SyncMode,
        mut progress: impl FnMut(Progress),
    ) -> Result<SyncReport, VolumeError> {
        if mode == SyncMode::Repair && self.0.core.config.read_only {
            return Err(VolumeError::ReadOnly);
        }
        let mut sweep = Sweep::new(self, 0, mode);
        while let Some(position) = sweep.advance().await? {
            progress(sweep.progress(position));
        }
        Ok(sweep.report)
    }
}

/// A resync of an array is under way.
struct Resyncing(Array);

impl Resyncing {
    fn begin(array: &Array) -> Self {
        array.0.resyncing.set(array.0.core.keeper.resync_offset());
        Self(array.clone())
    }
}

impl Drop for Resyncing {
    fn drop(&mut self) {
        self.0.0.resyncing.set(None);
    }
}

/// One window. Members that the array can't do without, and that do not answer, are asked again: a resync that ended for
/// that would not begin anew before the next run.
async fn sweep_window(array: Array, pos: u64, len: u64, mode: SyncMode) -> Result<SyncReport, VolumeError> {
    let mut tries = 0;
    loop {
        let syncing = array.0.core.keeper.sync_begins()?;
        let report = array.sync_window(pos, len, mode).await;
        let silent = report == Err(VolumeError::Member(OpError::TimedOut));
        tries += 1;
        if !silent || mode == SyncMode::Check && tries == CHECK_TRIES {
            return report;
        }
        drop(syncing);
        array.0.core.io.sleep(ASK_AGAIN).await;
    }
}

/// Windows over the array, finished in their order.
struct Sweep {
    array: Array,
    mode: SyncMode,
    next: u64,
    total: u64,
    window: u64,
    began: Instant,
    running: VecDeque<(u64, Task<Result<SyncReport, VolumeError>>)>,
    report: SyncReport,
}

impl Sweep {
    fn new(array: &Array, from: u64, mode: SyncMode) -> Self {
        // Chunks of levels with parity are powers of two, so that this is a multiple of them.
        let window = match array.0.geometry.family() {
            Map::Parity(map) => WINDOW.max(map.chunk()),
            _ => WINDOW,
        };
        Self {
            array: array.clone(),
            mode,
            next: from - from % window,
            total: array.sync_len(),
            window,
            began: array.0.core.io.now(),
            running: VecDeque::new(),
            report: SyncReport::default(),
        }
    }

    /// Keeps windows under way, and waits for the first of them. Gives the position below which all is done, or
    /// nothing when there is nothing left to do.
    async fn advance(&mut self) -> Result<Option<u64>, VolumeError> {
        while self.running.len() < IN_FLIGHT && self.next < self.total {
            let (pos, len) = (self.next, self.window.min(self.total - self.next));
            let (array, mode) = (self.array.clone(), self.mode);
            // A task of its own: once begun a window runs to its end, whatever becomes of who asked for it.
            let task = self.array.0.core.io.spawn(sweep_window(array, pos, len, mode));
            self.next += len;
            self.running.push_back((self.next, task));
        }
        let Some((end, task)) = self.running.pop_front() else { return Ok(None) };
        self.report.add(&task.await?);
        Ok(Some(end))
    }

    fn progress(&self, position: u64) -> Progress {
        Progress {
            position,
            total: self.total,
            elapsed: self.array.0.core.io.now().since(self.began),
            mismatch_sectors: self.report.mismatch_sectors,
        }
    }
}
