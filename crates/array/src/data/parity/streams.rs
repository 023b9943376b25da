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

/// The time that a client has to send more once nothing of its stream is at members.
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
    /// Where it began, and where it has come to.
    start: u64,
    end: u64,
    /// Writes in flight and their bytes, and how many bytes were in flight lately.
    writes: u32,
    bytes: u64,
    depth: u64,
    /// Parts that are at members, and writes that are being received.
    at_members: u32,
    coming: u32,
    /// The number of the write that came last, of all of the array's.
    last: u64,
    /// It has more writes than one.
    follows: bool,
    /// Waits in vain, one after the other, and the row with which the next may begin.
    vain: u32,
    waits_from: u64,
    /// The same of waits for which nothing spoke but that the stream has more writes than one.
    guesses: u32,
    guesses_from: u64,
}

impl Stream {
    fn is_quiet(&self) -> bool {
        self.at_members + self.coming == 0
    }

    #[inline]
    fn add(&mut self, offset: u64, len: u64, number: u64, row_bytes: u64) {
        self.end = self.end.max(offset + len);
        (self.writes, self.bytes) = (self.writes + 1, self.bytes + len);
        let forgotten = self.depth * len.min(row_bytes) / (REMEMBERED * row_bytes);
        self.depth = self.bytes.max(self.depth - forgotten);
        self.last = number;
        self.follows |= offset > self.start;
    }
}

/// The streams of an array.
pub(super) struct Streams {
    row_bytes: u64,
    all: RefCell<[Stream; STREAMS]>,
    /// Where each has come to; beyond all bytes where there is none. Apart, since each write looks at all.
    ends: [Cell<u64>; STREAMS],
    /// The stream of the last write, and the one whose place a new one takes.
    recent: Cell<usize>,
    next: Cell<usize>,
    came: Cell<u64>,
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
        let (recent, next, came) = (Cell::new(0), Cell::new(0), Cell::new(0));
        Self { row_bytes, all, ends, recent, next, came, waiting }
    }

    /// A write comes. It belongs to the stream that it follows, or begins one.
    #[inline]
    pub(super) fn enter(&self, offset: u64, len: u64) -> InStream<'_> {
        let number = self.came.get() + 1;
        self.came.set(number);
        let mut follows = false;
        let mut all = self.all.borrow_mut();
        let at = self.find(offset, len).or_else(|| self.begin(&mut all, offset, len));
        if let Some(at) = at {
            let stream = &mut all[at];
            stream.add(offset, len, number, self.row_bytes);
            follows = stream.follows;
            self.ends[at].set(stream.end);
            self.recent.set(at);
        }
        InStream { streams: self, at, len, follows, filled: Cell::new(false) }
    }

    /// The stream to which a write belongs.
    #[inline]
    fn find(&self, offset: u64, len: u64) -> Option<usize> {
        let reach = (REACH * len).max(REACH_ROWS * self.row_bytes);
        let takes = |at: &usize| self.ends[*at].get().abs_diff(offset) <= reach;
        Some(self.recent.get()).filter(takes).or_else(|| (0..STREAMS).find(takes))
    }

    /// Begins a stream, if one that has no writes in flight can go.
    #[inline]
    fn begin(&self, all: &mut [Stream; STREAMS], offset: u64, len: u64) -> Option<usize> {
        let at = self.next.get();
        self.next.set((at + 1) % STREAMS);
        let stream = &mut all[at];
        if stream.writes + stream.coming > 0 {
            return None;
        }
        // The first write does not wait, so that nothing fills the rows that it has a part of.
        let waits_from = (offset + len).div_ceil(self.row_bytes);
        *stream = Stream { start: offset, end: offset, waits_from, ..Stream::default() };
        Some(at)
    }

    /// A write is being received; gives its stream, if it belongs to one.
    pub(super) fn comes(&self, offset: u64, len: u64) -> Option<usize> {
        let at = self.find(offset, len)?;
        self.all.borrow_mut()[at].coming += 1;
        Some(at)
    }

    /// A write of a stream has been received, or is not any more.
    pub(super) fn came(&self, io: &Io, at: usize) {
        let quiet = {
            let stream = &mut self.all.borrow_mut()[at];
            stream.coming -= 1;
            stream.is_quiet()
        };
        if quiet {
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
    /// Bytes of the write.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// More of its stream is expected.
    #[inline]
    pub(super) fn follows(&self) -> bool {
        self.follows
    }

    /// Why a batch should wait for what its row lacks, if it should: its requests have `held` bytes in all, which their clients send no more of
    /// before they are answered.
    pub(super) fn hope(&self, row: u64, held: u64, lacks: u64) -> Option<Hope> {
        let stream = &self.streams.all.borrow()[self.at?];
        if row < stream.waits_from {
            return None;
        }
        if stream.coming > 0 || stream.depth >= held + lacks {
            return Some(Hope::Sign);
        }
        (row >= stream.guesses_from).then_some(Hope::Guess)
    }

    /// A part of the write is what a row has waited for.
    pub(super) fn fills(&self) {
        self.filled.set(true);
    }

    /// Whether a row has waited for a part of the write.
    pub(super) fn has_filled(&self) -> bool {
        self.filled.get()
    }

    /// The number of the last write, if nothing of the stream is at members or being received.
    pub(super) fn quiet(&self) -> Option<u64> {
        let all = self.streams.all.borrow();
        let stream = &all[self.at?];
        stream.is_quiet().then_some(stream.last)
    }

    /// The task is woken when nothing of the stream is at members any more, until this is dropped.
    pub(super) fn wait(&self, task: TaskId) -> Waits<'_> {
        let waits = (self.at.unwrap_or(0), task);
        self.streams.waiting.borrow_mut().push(waits);
        Waits { streams: self.streams, waits }
    }

    /// A wait for the rest of a row is over.
    pub(super) fn waited(&self, row: u64, hope: Hope, is_full: bool) {
        let Some(at) = self.at else { return };
        let stream = &mut self.streams.all.borrow_mut()[at];
        match hope {
            _ if is_full => (stream.vain, stream.guesses) = (0, 0),
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

    /// A part of a row goes to members: what comes of the row later does not fill it.
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
            self.streams.all.borrow_mut()[at].at_members += 1;
        }
        AtMembers { io, streams: self.streams, at: self.at }
    }
}

/// A task's wish to be woken.
pub(super) struct Waits<'a> {
    streams: &'a Streams,
    waits: (usize, TaskId),
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut waiting = self.streams.waiting.borrow_mut();
        if let Some(at) = waiting.iter().position(|waits| *waits == self.waits) {
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
        let Some(at) = self.at else { return };
        let stream = &mut self.streams.all.borrow_mut()[at];
        stream.at_members -= 1;
        if stream.is_quiet() {
            self.streams.wake(self.io, at);
        }
    }
}
