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

use crate::bitmap::Bitmap;
use crate::hooks::{Change, Computed, Hooks, OnRecord};
use crate::keeper::{Keeper, MaintenanceGuard};

/// The records of changes in progress, which tell what is in doubt after a crash. The dirty mark says that the array
/// changes, not where: all of its redundancy is in doubt. A bitmap says where: only chunks with set bits are in
/// doubt. Hooks may put more on record.
pub(crate) struct Intent {
    bitmap: RefCell<Option<Rc<Bitmap>>>,
    hooks: Option<Rc<dyn Hooks>>,
    /// There is nothing but the dirty mark.
    plain: Cell<bool>,
    /// How often the bitmap has come or gone.
    epoch: Cell<u32>,
    /// Changes under way that began before that, and so are counted by no bitmap.
    earlier_changes: Cell<u32>,
}

impl Intent {
    /// The intent of an array with this bitmap and these hooks.
    pub(crate) fn new(bitmap: Option<Rc<Bitmap>>, hooks: Option<Rc<dyn Hooks>>) -> Self {
        Self {
            plain: Cell::new(bitmap.is_none() && hooks.is_none()),
            bitmap: RefCell::new(bitmap),
            hooks,
            epoch: Cell::default(),
            earlier_changes: Cell::default(),
        }
    }

    /// The write-intent bitmap, if there is one.
    pub(crate) fn bitmap(&self) -> Option<Rc<Bitmap>> {
        self.bitmap.borrow().clone()
    }

    /// No hooks watch the members' writes.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.hooks.is_none()
    }

    /// From now on changes are put on record in this bitmap, or in none. So many are `under_way`.
    pub(crate) fn set_bitmap(&self, bitmap: Option<Rc<Bitmap>>, under_way: u32) {
        self.plain.set(bitmap.is_none() && self.hooks.is_none());
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
    fn begins<'a>(&'a self, keeper: &'a Keeper, range: &Range<u64>) -> Option<OnRecord<'a>> {
        if self.plain.get() {
            return None;
        }
        match (&*self.bitmap.borrow(), &self.hooks) {
            (None, None) => None,
            (None, Some(hooks)) => Some(begins(&**hooks, range)),
            (Some(bitmap), hooks) => match (bitmap.begins(range), hooks) {
                (true, None) => None,
                (stable, hooks) => Some(sets(Rc::clone(bitmap), stable, hooks.as_deref(), keeper, range)),
            },
        }
    }

    /// A change that began in an epoch has ended.
    #[inline]
    fn ends(&self, range: &Range<u64>, epoch: u32) {
        if let Some(hooks) = &self.hooks {
            ends(&**hooks, range);
        }
        if self.epoch.get() != epoch {
            self.earlier_changes.set(self.earlier_changes.get().saturating_sub(1));
        } else if !self.plain.get()
            && let Some(bitmap) = &*self.bitmap.borrow()
        {
            bitmap.ends(range);
        }
    }

    /// The new content of rows has been computed: returns once the hooks have it on record and members may be
    /// written.
    #[inline]
    pub(crate) async fn computed(&self, rows: impl FnOnce() -> Computed) -> Result<(), VolumeError> {
        match self.hooks.as_deref() {
            None => Ok(()),
            Some(hooks) => announce(hooks, rows).await,
        }
    }

    /// Members are about to be sent changes of their data.
    pub(crate) fn sent(&self, changes: &[MemberChange]) {
        self.hooks.iter().for_each(|hooks| changes.iter().for_each(|change| hooks.sent(change)));
    }
}

// Apart, so that they take no room in the futures of requests that need none of it.

#[cold]
fn announce(hooks: &dyn Hooks, rows: impl FnOnce() -> Computed) -> OnRecord<'_> {
    hooks.computed(&rows())
}

#[cold]
fn begins<'a>(hooks: &'a dyn Hooks, range: &Range<u64>) -> OnRecord<'a> {
    hooks.begins(&Change::Bytes(range.clone()))
}

/// Sets the bits of a range, and whatever the hooks do.
#[cold]
fn sets<'a>(
    bitmap: Rc<Bitmap>,
    stable: bool,
    hooks: Option<&'a dyn Hooks>,
    keeper: &'a Keeper,
    range: &Range<u64>,
) -> OnRecord<'a> {
    let range = range.clone();
    let hooked = hooks.map(|hooks| begins(hooks, &range));
    if !stable {
        bitmap.set(&range);
    }
    Box::pin(async move {
        while !bitmap.is_on_record(&range) {
            let refused = bitmap.fly().await;
            keeper.bits_refused(&refused).await?;
        }
        match hooked {
            Some(hooked) => hooked.await,
            None => Ok(()),
        }
    })
}

#[cold]
fn ends(hooks: &dyn Hooks, range: &Range<u64>) {
    hooks.ends(&Change::Bytes(range.clone()));
}

/// A change of a range of the array in progress; the keeper waits for its end before it calls the array clean.
pub(crate) struct Writing<'a> {
    intent: &'a Intent,
    keeper: &'a Keeper,
    range: Range<u64>,
    epoch: u32,
}

impl<'a> Writing<'a> {
    /// The same as [`Writing::begin`] where there is nothing to be waited for; else nothing has begun. By itself, since what comes
    /// out of a future is copied from where it was put a moment ago, for which the processor waits.
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
    hooked: Option<(&'a dyn Hooks, Change)>,
    _guard: MaintenanceGuard<'a>,
}

impl<'a> Maintenance<'a> {
    /// Returns once members may be changed.
    ///
    /// # Errors
    /// [`VolumeError::Stopping`] if the run has ended; a hook's.
    pub(crate) async fn begin(
        intent: &'a Intent,
        keeper: &'a Keeper,
        change: Change,
    ) -> Result<Self, VolumeError> {
        let guard = keeper.maintenance_begins()?;
        let Some(hooks) = intent.hooks.as_deref() else {
            return Ok(Self { hooked: None, _guard: guard });
        };
        let begun = hooks.begins(&change);
        let maintenance = Self { hooked: Some((hooks, change)), _guard: guard };
        begun.await?;
        Ok(maintenance)
    }
}

impl Drop for Maintenance<'_> {
    fn drop(&mut self) {
        if let Some((hooks, change)) = &self.hooked {
            hooks.ends(change);
        }
    }
}
