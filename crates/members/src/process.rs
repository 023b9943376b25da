//! Background work over a whole array: its progress, and the ways to pause, stop or slow it. An array has one process
//! at a time, as md has one `sync_action`.

mod marks;

use core::cell::{Cell, RefCell};
use core::num::NonZeroU64;
use std::rc::Rc;

use brindle_io::sync::{Notify, race};
use brindle_io::{Duration, Instant, Io};
use brindle_volume::VolumeError;

use marks::Marks;

/// Why a process did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProcessError<K> {
    /// Another process is under way: this one did not begin.
    #[error("a {0} of the array is under way: wait for its end, or stop it")]
    Busy(K),
    /// The process was stopped. Its work up to then stays done.
    #[error("it was stopped before its end")]
    Interrupted,
    /// The array failed a part of the process.
    #[error(transparent)]
    Volume(#[from] VolumeError),
}

/// How fast processes go, in bytes a second of what they go over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speeds {
    /// The maximum speed; `None`: no limit.
    pub pace: Option<NonZeroU64>,
    /// The speed below which processes do not slow down for clients; `None`: processes leave clients more than half
    /// of the time.
    pub floor: Option<NonZeroU64>,
}

/// How far a process has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes done, as the owner counts; of a recovery, bytes of the member's data
    /// area.
    pub position: u64,
    /// Bytes in all.
    pub total: u64,
    /// Time since the process began, on the reactor's clock.
    pub elapsed: Duration,
    /// Sectors found to disagree so far, as md counts them.
    pub mismatch_sectors: u64,
}

/// The present state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessDetail<K> {
    /// The kind of process.
    pub kind: K,
    /// How far it has come.
    pub progress: Progress,
    /// The process begins no further window until [`Process::resume`].
    pub paused: bool,
    /// Most bytes a second, in the unit of its position; `None`: as fast as it can.
    pub pace: Option<NonZeroU64>,
    /// Bytes a second below which it does not go for the sake of clients, where it can; `None`: it leaves more than half of the
    /// time to them.
    pub floor: Option<NonZeroU64>,
    /// Bytes a second that it went over in the last ten seconds or, where one window took longer, in that; `None` as long as that is
    /// not known, and while it is paused.
    pub speed: Option<u64>,
}

impl<K> ProcessDetail<K> {
    /// How long it will take until it ends, if it goes on at its speed; `None` where that is not known.
    pub fn left(&self) -> Option<Duration> {
        let left = self.progress.total.saturating_sub(self.progress.position);
        let speed = self.speed.filter(|&speed| speed > 0)?;
        Some(Duration::from_secs(left.div_ceil(speed)))
    }
}

/// A process of an array. A handle: cloning gives the same process, and it lives on when that has ended.
#[derive(Clone)]
pub struct Process<K>(Rc<ProcessState<K>>);

struct ProcessState<K> {
    io: Io,
    kind: K,
    total: Cell<u64>,
    began: Instant,
    position: Cell<u64>,
    marks: RefCell<Marks>,
    mismatch_sectors: Cell<u64>,
    paused: Cell<bool>,
    stopped: Cell<bool>,
    /// Bytes a second at most.
    pace: Cell<Option<NonZeroU64>>,
    /// Bytes a second below which the process does not rest.
    floor: Cell<Option<NonZeroU64>>,
    /// When the next window may begin at that pace.
    due: Cell<Instant>,
    /// The array ends: neither pause nor pace keep the process from meeting that.
    released: Cell<bool>,
    orders: Cell<u64>,
    changed: Notify,
}

impl<K: Copy> Process<K> {
    /// One that begins at `from`, and has `total` bytes to go over.
    pub fn new(io: &Io, kind: K, from: u64, total: u64, speeds: Speeds) -> Self {
        Self(Rc::new(ProcessState {
            io: io.clone(),
            kind,
            total: Cell::new(total),
            began: io.now(),
            position: Cell::new(from),
            marks: RefCell::new(Marks::new(io.now(), from)),
            mismatch_sectors: Cell::new(0),
            paused: Cell::new(false),
            stopped: Cell::new(false),
            pace: Cell::new(speeds.pace),
            floor: Cell::new(speeds.floor),
            due: Cell::new(io.now()),
            released: Cell::new(false),
            orders: Cell::new(0),
            changed: Notify::new(io),
        }))
    }

    /// Whether both are handles of one process.
    pub fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// The kind of process.
    pub fn kind(&self) -> K {
        self.0.kind
    }

    /// How far it has come.
    pub fn progress(&self) -> Progress {
        Progress {
            position: self.0.position.get(),
            total: self.0.total.get(),
            elapsed: self.0.io.now().since(self.0.began),
            mismatch_sectors: self.0.mismatch_sectors.get(),
        }
    }

    /// The state of the process at this moment.
    pub fn detail(&self) -> ProcessDetail<K> {
        let (paused, pace, floor) = (self.0.paused.get(), self.0.pace.get(), self.0.floor.get());
        let (kind, progress, speed) = (self.0.kind, self.progress(), self.speed());
        ProcessDetail { kind, progress, paused, pace, floor, speed }
    }

    /// The first windows at a pace end long before it says, since it rests after them.
    fn speed(&self) -> Option<u64> {
        let speed = self.0.marks.borrow().speed(self.0.io.now()).filter(|_| !self.0.paused.get())?;
        Some(self.0.pace.get().map_or(speed, |pace| speed.min(pace.get())))
    }

    /// Earlier progress tells nothing of its speed from now on.
    fn forget_speed(&self) {
        *self.0.marks.borrow_mut() = Marks::new(self.0.io.now(), self.0.position.get());
    }

    /// It has so many bytes to go over: nobody knew when it began.
    pub fn set_total(&self, total: u64) {
        self.0.total.set(total);
    }

    /// Begins no further window. Those under way come to their end.
    pub fn pause(&self) {
        self.0.paused.set(true);
    }

    /// Goes on after [`Process::pause`].
    pub fn resume(&self) {
        if self.0.paused.replace(false) {
            self.forget_speed();
        }
        self.tell();
    }

    /// Limits the process to this many bytes a second from now on.
    pub fn set_pace(&self, pace: Option<NonZeroU64>) {
        self.0.pace.set(pace);
        self.0.due.set(self.0.io.now());
        self.forget_speed();
        self.tell();
    }

    /// Keeps the process from resting for clients below this many bytes a second.
    pub fn set_floor(&self, floor: Option<NonZeroU64>) {
        self.0.floor.set(floor);
        self.0.due.set(self.0.io.now());
        self.forget_speed();
        self.tell();
    }

    /// Delays the next window by this time.
    pub fn rest(&self, rest: Duration) {
        self.0.due.set(self.0.due.get().max(self.0.io.now().after(rest)));
    }

    /// Ends the process after the windows under way, with [`ProcessError::Interrupted`].
    pub fn stop(&self) {
        self.0.stopped.set(true);
        self.tell();
    }

    /// The array ends.
    pub fn release(&self) {
        self.0.released.set(true);
        self.tell();
    }

    fn tell(&self) {
        self.0.orders.set(self.0.orders.get() + 1);
        self.0.changed.notify();
    }

    /// The process is to [stop](Process::stop).
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.get()
    }

    /// The process begins no further window: see [`Process::pause`].
    pub fn is_paused(&self) -> bool {
        self.0.paused.get()
    }

    /// All below a position is done.
    pub fn reached(&self, position: u64, mismatch_sectors: u64) {
        self.0.position.set(position);
        self.0.marks.borrow_mut().reached(self.0.io.now(), position);
        self.0.mismatch_sectors.set(mismatch_sectors);
    }

    /// Whether a window of `len` bytes may begin now, which then counts as begun.
    pub fn may_begin(&self, len: u64) -> bool {
        let now = self.0.io.now();
        if self.0.released.get() {
            return true;
        }
        if self.0.paused.get() || now < self.0.due.get() {
            return false;
        }
        if let Some(pace) = self.0.pace.get() {
            let nanos = u128::from(len) * 1_000_000_000 / u128::from(pace.get());
            self.0.due.set(now.after(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))));
        }
        true
    }

    /// Waits until a window may begin, as far as is known, or the process has something else to do.
    pub async fn wait(&self) {
        let seen = self.0.orders.get();
        let changed = self.0.changed.until(|| (self.0.orders.get() != seen).then_some(()));
        if self.0.paused.get() {
            changed.await;
        } else {
            race(changed, self.0.io.sleep_until(self.0.due.get())).await;
        }
    }
}
