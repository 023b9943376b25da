//! Records made before bytes of an array change, so that the next run knows what a crash interrupted.
//!
//! There are two moments for that, and every change passes them. It begins with its range before the first member is
//! touched ([`Writing::begin`], and [`Maintenance::begin`] where no byte of the array changes). In rows with parity, the
//! new blocks are announced after they are computed and before members are written ([`Intent::computed`]).

use core::cell::{Cell, RefCell};
use core::ops::Range;
use std::rc::Rc;

use brindle_members::change::MemberChange;
use brindle_volume::VolumeError;
use smallvec::SmallVec;

use crate::bitmap::IntentBitmap;
use crate::keeper::{Keeper, MaintenanceGuard};
use crate::observer::Observer;
use crate::row_log::{Change, Computed, OnRecord, RowLog};

/// The records of changes in progress, from which the next run knows which ranges are in doubt. The dirty mark says
/// that the array changes, not where: all of its redundancy is in doubt. A bitmap says where: only chunks with set
/// bits are in doubt. Other logs may put more on record. Observers see all of it.
pub(crate) struct Intent {
    bitmap: RefCell<Option<Rc<dyn IntentBitmap>>>,
    logs: Vec<Rc<dyn RowLog>>,
    observers: Vec<Rc<dyn Observer>>,
    /// The dirty mark is the only record of changes.
    plain: Cell<bool>,
    /// How often the bitmap has come or gone.
    epoch: Cell<u32>,
    /// Changes under way that began before that, and so are counted by no bitmap.
    earlier_changes: Cell<u32>,
}

impl Intent {
    /// The intent of an array with this bitmap, and these logs beside it.
    pub(crate) fn new(
        bitmap: Option<Rc<dyn IntentBitmap>>,
        logs: Vec<Rc<dyn RowLog>>,
        observers: Vec<Rc<dyn Observer>>,
    ) -> Self {
        Self {
            plain: Cell::new(bitmap.is_none() && logs.is_empty() && observers.is_empty()),
            bitmap: RefCell::new(bitmap),
            logs,
            observers,
            epoch: Cell::default(),
            earlier_changes: Cell::default(),
        }
    }

    /// The write-intent bitmap, if there is one.
    pub(crate) fn bitmap(&self) -> Option<Rc<dyn IntentBitmap>> {
        self.bitmap.borrow().clone()
    }

    /// The members' writes are watched.
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        !self.observers.is_empty()
    }

    /// The bitmap is the only log or observer of changes.
    #[inline]
    fn is_bare(&self) -> bool {
        self.logs.is_empty() && self.observers.is_empty()
    }

    /// From now on changes are put on record in this bitmap, or in none. So many are `under_way`.
    pub(crate) fn set_bitmap(&self, bitmap: Option<Rc<dyn IntentBitmap>>, under_way: u32) {
        self.plain.set(bitmap.is_none() && self.is_bare());
        self.bitmap.replace(bitmap);
        self.epoch.set(self.epoch.get().wrapping_add(1));
        self.earlier_changes.set(under_way);
    }

    /// Changes are under way that the bitmap does not count, since they began before it came.
    pub(crate) fn has_earlier_changes(&self) -> bool {
        self.earlier_changes.get() > 0
    }

    /// A change of bytes begins; what is to be waited for, if anything is.
    #[inline]
    fn begins<'a>(&self, keeper: &'a Keeper, range: &Range<u64>) -> Option<OnRecord<'a>> {
        if self.plain.get() {
            return None;
        }
        let change = Change::Bytes(range.clone());
        let marked = self.bitmap.borrow().as_ref().and_then(|bitmap| bitmap.begins(&change, keeper));
        if self.is_bare() { marked } else { self.tell_begin(keeper, &change, marked) }
    }

    /// A change that began in an epoch has ended.
    #[inline]
    fn ends(&self, range: &Range<u64>, epoch: u32) {
        if self.epoch.get() != epoch {
            self.earlier_changes.set(self.earlier_changes.get().saturating_sub(1));
        } else if !self.plain.get()
            && let Some(bitmap) = &*self.bitmap.borrow()
        {
            bitmap.ends(&Change::Bytes(range.clone()));
        }
        if !self.is_bare() {
            self.tell_end(&Change::Bytes(range.clone()));
        }
    }

    /// The new content of rows has been computed: returns once the logs have it on record and members may be
    /// written.
    #[inline]
    pub(crate) async fn computed(
        &self,
        keeper: &Keeper,
        rows: impl FnOnce() -> Computed,
    ) -> Result<(), VolumeError> {
        if self.is_bare() {
            return Ok(());
        }
        match self.announce(keeper, rows) {
            None => Ok(()),
            Some(recording) => recording.await,
        }
    }

    /// Members are about to be sent changes of their data.
    pub(crate) fn sent(&self, changes: &[MemberChange]) {
        let all = self.observers.iter();
        all.for_each(|observer| changes.iter().for_each(|change| observer.sent(change)));
    }

    // Apart, so that they take no room in the futures of requests that need none of it.

    #[cold]
    fn announce<'a>(&self, keeper: &'a Keeper, rows: impl FnOnce() -> Computed) -> Option<OnRecord<'a>> {
        let rows = rows();
        self.observers.iter().for_each(|observer| observer.computed(&rows));
        one_by_one(self.logs.iter().filter_map(|log| log.computed(&rows, keeper)))
    }

    /// Informs observers and logs of a change that begins; `marked` is the bitmap's record of it.
    #[cold]
    fn tell_begin<'a>(
        &self,
        keeper: &'a Keeper,
        change: &Change,
        marked: Option<OnRecord<'a>>,
    ) -> Option<OnRecord<'a>> {
        self.observers.iter().for_each(|observer| observer.begins(change));
        one_by_one(marked.into_iter().chain(self.logs.iter().filter_map(|log| log.begins(change, keeper))))
    }

    #[cold]
    fn tell_end(&self, change: &Change) {
        self.logs.iter().for_each(|log| log.ends(change));
        self.observers.iter().for_each(|observer| observer.ends(change));
    }
}

/// Waits for records that have begun together.
fn one_by_one<'a>(recordings: impl Iterator<Item = OnRecord<'a>>) -> Option<OnRecord<'a>> {
    let mut all: SmallVec<[OnRecord<'a>; 2]> = recordings.collect();
    if all.len() < 2 {
        return all.pop();
    }
    Some(Box::pin(async move {
        for recording in all {
            recording.await?;
        }
        Ok(())
    }))
}

/// A change of a range of the array in progress; the keeper waits for its end before it calls the array clean.
pub(crate) struct Writing<'a> {
    intent: &'a Intent,
    keeper: &'a Keeper,
    range: Range<u64>,
    epoch: u32,
}

impl<'a> Writing<'a> {
    /// Begins a write as [`Writing::begin`] does if it need not wait; else nothing has begun. It is a function of its
    /// own because the result of a future is copied once more, and the processor waits for that copy.
    #[inline(always)]
    pub(crate) fn begin_at_once(intent: &'a Intent, keeper: &'a Keeper, range: Range<u64>) -> Option<Self> {
        if !intent.plain.get() || !keeper.write_begins_at_once() {
            return None;
        }
        Some(Self { intent, keeper, range, epoch: intent.epoch.get() })
    }

    /// Returns once members may be changed.
    #[inline]
    pub(crate) async fn begin(
        intent: &'a Intent,
        keeper: &'a Keeper,
        range: Range<u64>,
    ) -> Result<Self, VolumeError> {
        keeper.write_begins().await?;
        let writing = Self { intent, keeper, range, epoch: intent.epoch.get() };
        if let Some(recording) = intent.begins(keeper, &writing.range) {
            recording.await?;
        }
        Ok(writing)
    }
}

impl Drop for Writing<'_> {
    #[inline]
    fn drop(&mut self) {
        self.intent.ends(&self.range, self.epoch);
        self.keeper.write_ends();
    }
}

/// A write that gives members what they should hold already. It needs neither dirty mark nor bits: no byte of the
/// array changes, and redundancy that a crash leaves half mended was not true before. Stopping the array waits for
/// its end.
pub(crate) struct Maintenance<'a> {
    observed: Option<(&'a Intent, Change)>,
    _guard: MaintenanceGuard<'a>,
}

impl<'a> Maintenance<'a> {
    /// Returns once members may be changed.
    ///
    /// # Errors
    /// [`VolumeError::Stopping`] if the run has ended; a log's.
    pub(crate) async fn begin(
        intent: &'a Intent,
        keeper: &'a Keeper,
        change: Change,
    ) -> Result<Self, VolumeError> {
        let guard = keeper.maintenance_begins()?;
        if intent.is_bare() {
            return Ok(Self { observed: None, _guard: guard });
        }
        let recording = intent.tell_begin(keeper, &change, None);
        let maintenance = Self { observed: Some((intent, change)), _guard: guard };
        if let Some(recording) = recording {
            recording.await?;
        }
        Ok(maintenance)
    }
}

impl Drop for Maintenance<'_> {
    fn drop(&mut self) {
        if let Some((intent, change)) = &self.observed {
            intent.tell_end(change);
        }
    }
}
