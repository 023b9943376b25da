//! Writes that follow each other, and rows that they fill.
//!
//! A part of a row costs reads, the whole row none. So a part waits for the rest of its row if that can come, without permit, scratch or a
//! held row. It can if a server says that a write of the same stream is being received. It can, too, if the stream had as much in flight
//! lately as the row lacks, besides the requests that wait: its client goes on when some of that is done. Fast members never let a client
//! show how much it would send at once, so now and then that is tried.
//!
//! Time by itself says little, for a disk takes milliseconds for what a flash drive does in twenty microseconds. As long as something of the
//! stream is received or at members the wait goes on; when nothing is, the client has the time of an answer and a request ([`ANSWER`]).

use core::cell::{Cell, RefCell};

use brindle_io::{Duration, Io, TaskId};

/// Streams that are known at a time.
const STREAMS: usize = 8;

/// Writes that begin so many of their lengths before or behind the end of a stream belong to it, or so many rows: several connections
/// carry them, and not in order.
const REACH: u64 = 8;
const REACH_ROWS: u64 = 2;

/// The longest that a part waits for the rest of its row.
pub(super) const LONGEST: Duration = Duration::from_millis(20);

/// The time that a client has to send more once nothing of its stream is at members or being received.
pub(super) const ANSWER: Duration = Duration::from_micros(200);

/// Bytes that were in flight are forgotten in about so many rows.
const REMEMBERED: u64 = 16;

/// Rows that are let pass without a wait after one wait was in vain, as a power of two: twice as many after each further one. After guesses
/// eight times as many: the client may well wait for each of its writes, and of those hardly any is to be late.
const MOST_DOUBLINGS: u32 = 6;
const DOUBLINGS_OF_A_GUESS: u32 = 3;
const MOST_DOUBLINGS_OF_GUESSES: u32 = 12;

/// Writes that follow each other.
#[derive(Clone, Copy, Default)]
struct Stream {
    /// Writes in flight and their bytes, and how many bytes were in flight lately.
    writes: u32,
    bytes: u64,
    depth: u64,
    /// Writes that are being received.
    coming: u32,
    /// Writes that have come.
    came: u64,
    /// Waits in vain, one after the other, and the row with which the next may begin.
    vain: u32,
    waits_from: u64,
    /// The same of waits for which nothing spoke but that the stream has more writes than one.
    guesses: u32,
    guesses_from: u64,
}

impl Stream {
    /// Nothing of it is in flight or being received.
    #[inline]
    fn is_idle(&self) -> bool {
        self.writes + self.coming == 0
    }

    #[inline]
    fn add(&mut self, len: u64, row_bytes: u64) {
        (self.came, self.writes, self.bytes) = (self.came + 1, self.writes + 1, self.bytes + len);
        if self.depth > self.bytes {
            let forgotten = self.depth / REMEMBERED / row_bytes.div_ceil(len);
            self.depth = self.bytes.max(self.depth - forgotten);
        } else {
            self.depth = self.bytes;
        }
    }
}

/// The streams of an array.
pub(super) struct Streams {
    row_bytes: u64,
    all: RefCell<[Stream; STREAMS]>,
    /// Where each has come to; beyond all bytes where there is none. Apart, since each write looks at all.
    ends: [Cell<u64>; STREAMS],
    /// Parts and runs of rows of each that are at members or wait for a row, and writes that are being received.
    busy: [Cell<u32>; STREAMS],
    /// The stream of the last write, and the one whose place a new one takes.
    recent: Cell<usize>,
    next: Cell<usize>,
    /// Tasks whose parts wait, by stream.
    waiting: RefCell<Vec<(usize, TaskId)>>,
}

/// A write in flight, as a part of its stream.
pub(super) struct InStream<'a> {
    streams: &'a Streams,
    at: Option<usize>,
    len: u64,
    /// More of the stream is expected than this write.
    follows: bool,
    /// A part of it was the last that a row waited for.
    filled: Cell<bool>,
}

/// The sign on which a wait for the rest of a row stands.
#[derive(Clone, Copy)]
pub(super) enum Hope {
    /// More is being received, or as much was in flight lately.
    Sign,
    /// Several writes came one after the other.
    Guess,
}

/// A part of a stream that is at members.
pub(super) struct AtMembers<'a> {
    io: &'a Io,
    streams: &'a Streams,
    at: Option<usize>,
}

impl Streams {
    /// For rows of so many data bytes.
    pub(super) fn new(row_bytes: u64) -> Self {
        let (all, waiting) = (RefCell::default(), RefCell::default());
        let ends = [const { Cell::new(u64::MAX) }; STREAMS];
        let busy = [const { Cell::new(0) }; STREAMS];
        Self { row_bytes, all, ends, busy, recent: Cell::new(0), next: Cell::new(0), waiting }
    }

    /// A write comes. It belongs to the stream that it follows, or begins one. So does one that goes back in a stream of which nothing is in
    /// flight: rows that are written anew can be filled anew.
    #[inline]
    pub(super) fn enter(&self, offset: u64, len: u64) -> InStream<'_> {
        let mut follows = false;
        let mut all = self.all.borrow_mut();
        let goes_back = |at: usize| offset + self.row_bytes <= self.ends[at].get();
        let at = match self.find(offset, len) {
            Some(at) if goes_back(at) && all[at].is_idle() => {
                Some(self.begin_at(&mut all[at], at, offset, len))
            }
            Some(at) => Some(at),
            None => self.begin(&mut all, offset, len),
        };
        if let Some(at) = at {
            let stream = &mut all[at];
            stream.add(len, self.row_bytes);
            follows = stream.came > 1;
            self.ends[at].set(self.ends[at].get().max(offset + len));
            self.recent.set(at);
        }
        InStream { streams: self, at, len, follows, filled: Cell::new(false) }
    }

    /// The stream to which a write belongs.
    #[inline]
    fn find(&self, offset: u64, len: u64) -> Option<usize> {
        let reach = (REACH * len).max(REACH_ROWS * self.row_bytes);
        // A write at random is hardly near any: one comparison each.
        let lowest = offset.saturating_sub(reach);
        let span = offset + reach - lowest;
        let is_near = |at: &usize| self.ends[*at].get().wrapping_sub(lowest) <= span;
        let first = (0..STREAMS).find(is_near)?;
        let distance = |at: &usize| self.ends[*at].get().abs_diff(offset);
        let recent = self.recent.get();
        if distance(&recent) == 0 {
            Some(recent)
        } else {
            (first..STREAMS).filter(is_near).min_by_key(distance)
        }
    }

    /// Begins a stream, if one that has no writes in flight can go.
    #[inline]
    fn begin(&self, all: &mut [Stream; STREAMS], offset: u64, len: u64) -> Option<usize> {
        let from = self.next.get();
        let at = (from..from + STREAMS).map(|at| at % STREAMS).find(|at| all[*at].is_idle())?;
        self.next.set((at + 1) % STREAMS);
        Some(self.begin_at(&mut all[at], at, offset, len))
    }

    /// Begins a stream in a place; gives that.
    #[inline]
    fn begin_at(&self, stream: &mut Stream, at: usize, offset: u64, len: u64) -> usize {
        // The first write does not wait, so that nothing fills the rows that it has a part of.
        let waits_from = (offset + len).div_ceil(self.row_bytes);
        *stream = Stream { waits_from, ..Stream::default() };
        self.ends[at].set(offset);
        at
    }

    /// A write is being received; gives its stream, if it belongs to one.
    pub(super) fn comes(&self, offset: u64, len: u64) -> Option<usize> {
        let at = self.find(offset, len)?;
        self.all.borrow_mut()[at].coming += 1;
        self.busy[at].set(self.busy[at].get() + 1);
        Some(at)
    }

    /// A write of a stream has been received, or is not any more.
    pub(super) fn came(&self, io: &Io, at: usize) {
        self.all.borrow_mut()[at].coming -= 1;
        self.rests(io, at);
    }

    /// Something of a stream is no longer at members or being received.
    #[inline]
    fn rests(&self, io: &Io, at: usize) {
        let busy = self.busy[at].get() - 1;
        self.busy[at].set(busy);
        if busy == 0 {
            self.wake(io, at);
        }
    }

    /// A write that belongs to no stream.
    pub(super) fn none(&self) -> InStream<'_> {
        InStream { streams: self, at: None, len: 0, follows: false, filled: Cell::new(false) }
    }

    fn wake(&self, io: &Io, at: usize) {
        self.waiting.borrow().iter().filter(|(of, _)| *of == at).for_each(|(_, task)| io.wake(*task));
    }
}

impl InStream<'_> {
    /// The number of its stream.
    pub(super) fn number(&self) -> Option<usize> {
        self.at
    }

    /// More of its stream is expected.
    #[inline]
    pub(super) fn follows(&self) -> bool {
        self.follows
    }

    /// Why a part of the write should wait for what its row lacks, if it should. The bytes of the write itself are in flight, and bring nothing
    /// before it is answered.
    pub(super) fn hope(&self, row: u64, lacks: u64) -> Option<Hope> {
        let stream = &self.streams.all.borrow()[self.at?];
        if row < stream.waits_from {
            return None;
        }
        if stream.coming > 0 || stream.depth >= self.len + lacks {
            return Some(Hope::Sign);
        }
        (row >= stream.guesses_from).then_some(Hope::Guess)
    }

    /// A part of the write has filled a row that has waited for it.
    pub(super) fn fills(&self) {
        self.filled.set(true);
    }

    /// Whether a part of the write has filled a row that has waited for it.
    pub(super) fn has_filled(&self) -> bool {
        self.filled.get()
    }

    /// How many writes have come, if nothing of the stream is at members or being received.
    pub(super) fn came_if_quiet(&self) -> Option<u64> {
        let at = self.at?;
        (self.streams.busy[at].get() == 0).then(|| self.streams.all.borrow()[at].came)
    }

    /// The task is woken when nothing of the stream is at members or being received any more, until this is dropped.
    pub(super) fn wait(&self, task: TaskId) -> Waits<'_> {
        let entry = (self.at.unwrap_or(0), task);
        self.streams.waiting.borrow_mut().push(entry);
        Waits { streams: self.streams, entry }
    }

    /// A row that has waited for the rest is full.
    pub(super) fn was_filled(&self) {
        if let Some(at) = self.at {
            let stream = &mut self.streams.all.borrow_mut()[at];
            (stream.vain, stream.guesses) = (0, 0);
        }
    }

    /// The rest of a row has not come.
    pub(super) fn waited_in_vain(&self, row: u64, hope: Hope) {
        let Some(at) = self.at else { return };
        let stream = &mut self.streams.all.borrow_mut()[at];
        match hope {
            Hope::Sign => {
                stream.waits_from = row + (1 << stream.vain.min(MOST_DOUBLINGS));
                stream.vain += 1;
            }
            Hope::Guess => {
                stream.guesses += 1;
                let doublings = DOUBLINGS_OF_A_GUESS.saturating_mul(stream.guesses);
                stream.guesses_from = row + (1 << doublings.min(MOST_DOUBLINGS_OF_GUESSES));
            }
        }
    }

    /// A part of a row goes to members without the rest: later parts do not fill the row.
    #[inline]
    pub(super) fn leaves(&self, row: u64) {
        if let Some(at) = self.at {
            let stream = &mut self.streams.all.borrow_mut()[at];
            stream.waits_from = stream.waits_from.max(row + 1);
        }
    }

    /// A part of the write goes to members, until this is dropped.
    #[inline]
    pub(super) fn at_members<'a>(&'a self, io: &'a Io) -> AtMembers<'a> {
        if let Some(at) = self.at {
            self.streams.busy[at].set(self.streams.busy[at].get() + 1);
        }
        AtMembers { io, streams: self.streams, at: self.at }
    }
}

/// A task's wish to be woken.
pub(super) struct Waits<'a> {
    streams: &'a Streams,
    entry: (usize, TaskId),
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut waiting = self.streams.waiting.borrow_mut();
        if let Some(at) = waiting.iter().position(|entry| *entry == self.entry) {
            waiting.swap_remove(at);
        }
    }
}

impl Drop for InStream<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(at) = self.at {
            let stream = &mut self.streams.all.borrow_mut()[at];
            (stream.writes, stream.bytes) = (stream.writes - 1, stream.bytes - self.len);
        }
    }
}

impl Drop for AtMembers<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(at) = self.at {
            self.streams.rests(self.io, at);
        }
    }
}
