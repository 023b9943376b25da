//! The memory of a pool: a range of addresses whose parts are taken into use as they are needed.
//!
//! A step in use is an arena: the reactor may register it, which pins its pages. So memory that nobody has asked for yet
//! costs nothing. When the pool and its last buffer are gone, its arenas end, and the addresses are given back. Of a pool
//! that lives, arenas end that nobody has had a buffer of for some seconds; one is kept, for the next request. Where pools of other executors draw
//! on the same budget, and somebody waits there, all unused arenas end at once.

use core::cell::{Cell, RefCell};
use core::ops::Range;
use core::ptr::NonNull;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::arena::{Arenas, NEVER, NO_ARENA, NotGiven, PAGE, Region, SOON, Source};
use crate::blocks::{Blocks, MAX_BUF, MAX_ORDER};
use crate::budget::{BudgetSide, Call};
use crate::task::{Scheduler, TaskId};

/// log2 of a step's pages: 4 MiB, which the kernel registers in less than a millisecond. Of what a request needs, only
/// buffers that are larger lie in several arenas, and are pinned for each operation.
const STEP_ORDER: usize = 10;
const STEP_PAGES: usize = 1 << STEP_ORDER;
const STEP: usize = PAGE << STEP_ORDER;
/// Bytes of an arena of a pool; the last of one may be shorter.
pub const ARENA: usize = STEP;

/// Looks, a second apart, that an arena is found free before it ends.
const LOOKS: u8 = 4;

/// As Linux numbers it.
const ENOMEM: i32 = 12;

/// The borrow state of one block; lives at the index of the block's first page. All zeroes is that of a free block.
pub(crate) struct Header {
    /// Handles to the block, slices and operations among them. 0: the block is free.
    pub(crate) refs: Cell<u32>,
    /// Guards and operations that read the memory.
    pub(crate) readers: Cell<u32>,
    /// Operations (on stretches of their own) that write to the memory.
    pub(crate) device_writers: Cell<u32>,
    /// Orphaned operations that use the buffer.
    pub(crate) pinned: Cell<u32>,
    /// A guard may change the memory.
    pub(crate) writer: Cell<bool>,
    pub(crate) order: Cell<u8>,
}

struct Free {
    /// In steps that are in use.
    blocks: Blocks,
    /// In all steps.
    bytes: usize,
}

pub(crate) struct Store {
    memory: Region,
    pages: usize,
    /// One for each page; a region, so that those of pages that are never used cost nothing.
    headers: Region,
    free: RefCell<Free>,
    steps: Box<[StoreStep]>,
    arenas: Rc<Arenas>,
    pub(crate) scheduler: Rc<Scheduler>,
    pub(crate) waiters: RefCell<VecDeque<(u64, TaskId)>>,
    pub(crate) next_ticket: Cell<u64>,
    /// Bytes of buffers that are pinned.
    pub(crate) pinned_bytes: Cell<usize>,
    /// A task waits for free memory, or, once, the check for unused memory wants notice.
    pub(crate) wakeful: Cell<bool>,
    /// No arena may become unused without a buffer being given back first.
    settled: Cell<bool>,
    /// Others change the memory, which is not handed out in blocks.
    shared: bool,
    /// Addresses of shared memory that operations use which nobody waits for.
    pinned: RefCell<Vec<Range<usize>>>,
    /// Where it is noted that nobody has any of it, if another executor has lent the memory.
    lent: Option<LentNote>,
    /// The budget that arenas are drawn from, if other executors have it too.
    budget: Option<Box<BudgetSide>>,
}

/// Where a store of lent memory is noted, once nobody has any of it.
pub(crate) struct LentNote {
    pub(crate) number: u32,
    pub(crate) returned: Rc<RefCell<Vec<u32>>>,
}

struct StoreStep {
    /// The arena of the step; [`NO_ARENA`] if it is not in use.
    arena: Cell<u32>,
    /// Looks in a row that have found it free.
    quiet: Cell<u8>,
}

impl Store {
    /// A store that hands out `memory`.
    pub(crate) fn new(memory: Region, scheduler: Rc<Scheduler>, arenas: Rc<Arenas>) -> Self {
        let headers = Region::new(memory.len() / PAGE * size_of::<Header>());
        Self::with(memory, headers, false, scheduler, arenas)
    }

    /// A store of shared memory, in which others name the places.
    ///
    /// # Errors
    /// [`NotGiven::Refused`]: there is no memory for the headers of that many pages.
    pub(crate) fn of_shared(
        memory: Region,
        scheduler: Rc<Scheduler>,
        arenas: Rc<Arenas>,
    ) -> Result<Self, NotGiven> {
        let pages = memory.len() / PAGE;
        if u32::try_from(pages).is_err() {
            return Err(NotGiven::Refused(ENOMEM));
        }
        let headers = Region::of(Source::Pages, pages * size_of::<Header>());
        let headers = headers.map_err(|why| NotGiven::Refused(why.errno))?;
        arenas.share(memory.part(0, memory.len()));
        Ok(Self::with(memory, headers, true, scheduler, arenas))
    }

    fn with(
        memory: Region,
        headers: Region,
        shared: bool,
        scheduler: Rc<Scheduler>,
        arenas: Rc<Arenas>,
    ) -> Self {
        let pages = memory.len() / PAGE;
        let free = Free { blocks: Blocks::default(), bytes: if shared { 0 } else { memory.len() } };
        Self {
            headers,
            free: RefCell::new(free),
            steps: (0..pages.div_ceil(STEP_PAGES)).map(|_| StoreStep::unused()).collect(),
            memory,
            pages,
            arenas,
            scheduler,
            waiters: RefCell::default(),
            next_ticket: Cell::new(0),
            pinned_bytes: Cell::new(0),
            wakeful: Cell::new(true),
            settled: Cell::new(true),
            shared,
            pinned: RefCell::default(),
            lent: None,
            budget: None,
        }
    }

    /// Draws on a budget from now on. Nobody has had a buffer of it.
    pub(crate) fn draws_on(&mut self, side: BudgetSide) {
        self.budget = Some(Box::new(side));
    }

    /// The budget that arenas are drawn from.
    pub(crate) fn budget(&self) -> Option<&BudgetSide> {
        self.budget.as_deref()
    }

    /// A store of memory that other executors lend, one stretch at a time; of none yet.
    pub(crate) fn of_lent(note: LentNote, scheduler: Rc<Scheduler>, arenas: Rc<Arenas>) -> Self {
        let headers = Region::new(size_of::<Header>());
        let mut store = Self::with(Region::lent(), headers, false, scheduler, arenas);
        store.steps = (0..=MAX_BUF / STEP).map(|_| StoreStep::unused()).collect();
        (store.pages, store.lent) = (1, Some(note));
        store
    }

    /// Another executor lends memory; `shared` if others change it meanwhile.
    pub(crate) fn lend_out(&mut self, base: NonNull<u8>, bytes: usize, shared: bool) {
        self.memory.lend(base, bytes);
        self.shared = shared;
        self.wakeful.set(true);
        if shared {
            self.arenas.share(self.memory.part(0, bytes));
        }
        let header = self.header(0);
        header.refs.set(1);
        header.order.set(0);
        header.writer.set(shared);
        header.pinned.set(u32::from(shared));
    }

    /// The lent memory is given back: nobody has any of it.
    #[cold]
    fn end_loan(&self, note: &LentNote) {
        if self.shared {
            self.arenas.unshare(self.memory.part(0, self.memory.len()));
        }
        // It is none of the store's own.
        let mut free = self.free.borrow_mut();
        free.blocks.take(0);
        free.bytes -= PAGE;
        note.returned.borrow_mut().push(note.number);
    }

    /// Bytes in all.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.len()
    }

    /// Bytes that could be handed out.
    pub(crate) fn free_bytes(&self) -> usize {
        let free = self.free.borrow().bytes;
        self.budget.as_ref().map_or(free, |side| side.available(free, self.memory.len()))
    }

    /// Bytes that are handed out.
    pub(crate) fn used_bytes(&self) -> usize {
        self.memory.len() - self.free.borrow().bytes
    }

    /// Bytes of all steps in use.
    pub(crate) fn arena_bytes(&self) -> usize {
        self.used().map(|step| self.pages_of(step) * PAGE).sum()
    }

    #[inline]
    pub(crate) fn header(&self, page: u32) -> &Header {
        debug_assert!((page as usize) < self.pages, "page {page} of {}", self.pages);
        // SAFETY: pages come from `take`, so there is one of that number, and the region has a header for each. Zeroes,
        // as which it begins, are a header; it is aligned to a page, and changed by `Cell`s of this thread only.
        unsafe { self.headers.base().cast::<Header>().add(page as usize).as_ref() }
    }

    /// The first byte of a page.
    #[inline]
    pub(crate) fn at(&self, page: u32) -> NonNull<u8> {
        // SAFETY: pages come from `take`, so the address stays within the region.
        unsafe { self.memory.base().add(page as usize * PAGE) }
    }

    /// The arena that holds `len` bytes from the byte `first` on; none if they lie in several.
    #[inline]
    pub(crate) fn arena_of(&self, first: usize, len: usize) -> u32 {
        let (step, last) = (first / STEP, (first + len.max(1) - 1) / STEP);
        if step == last { self.steps[step].arena.get() } else { NO_ARENA }
    }

    /// Marks a page of shared memory as held. It is never free: its header keeps away all who would take it.
    pub(crate) fn hold_shared(&self, page: u32) {
        let header = self.header(page);
        if header.refs.get() == 0 {
            // The store's own.
            header.refs.set(1);
            header.writer.set(true);
            header.pinned.set(1);
        }
    }

    /// Takes the steps into use that hold `len` bytes from the byte `first` on.
    pub(crate) fn register(&self, first: usize, len: usize) {
        for step in first / STEP..(first + len).div_ceil(STEP) {
            if !self.steps[step].is_used() {
                let memory = self.memory.part(step * STEP, self.pages_of(step) * PAGE);
                self.steps[step].arena.set(self.arenas.begin(memory));
            }
        }
    }

    /// Where `len` bytes of shared memory at `base` are, if they are in this.
    pub(crate) fn place_of(&self, base: *const u8, len: usize) -> Option<usize> {
        let at = base.addr().checked_sub(self.memory.base().addr().get())?;
        (at <= self.bytes() && len <= self.bytes() - at).then_some(at)
    }

    /// An operation that nobody waits for uses this shared memory.
    pub(crate) fn lend(&self, range: Range<usize>) {
        self.pinned.borrow_mut().push(range);
    }

    /// Ends the pin of an operation that has completed.
    pub(crate) fn given_back(&self, range: &Range<usize>) {
        let mut pinned = self.pinned.borrow_mut();
        if let Some(at) = pinned.iter().position(|other| other == range) {
            pinned.swap_remove(at);
        }
    }

    /// Whether orphaned operations use some of this shared memory.
    pub(crate) fn lends(&self, range: &Range<usize>) -> bool {
        self.pinned.borrow().iter().any(|pinned| pinned.start < range.end && range.start < pinned.end)
    }

    /// The first page of a block of 2^`order` pages, which is the caller's until it gives it back.
    #[inline]
    pub(crate) fn take(&self, order: usize) -> Option<u32> {
        if order > MAX_ORDER {
            return None;
        }
        let mut free = self.free.borrow_mut();
        let page = match free.blocks.take(order) {
            Some(page) => page,
            None => self.make(&mut free.blocks, order)?,
        };
        free.bytes -= PAGE << order;
        Some(page)
    }

    #[inline]
    pub(crate) fn give(&self, page: u32, order: usize) {
        let mut free = self.free.borrow_mut();
        free.blocks.give(page, order);
        free.bytes += PAGE << order;
        drop(free);
        if self.wakeful.get() {
            self.tell();
        }
    }

    /// Wakes the tasks that wait for memory, and notes that there may be too much of it.
    #[cold]
    fn tell(&self) {
        if let Some(note) = &self.lent {
            return self.end_loan(note);
        }
        if self.settled.replace(false) && self.arenas.next_look.get() == NEVER {
            self.arenas.next_look.set(SOON);
        }
        let is_wanted = self.is_wanted_elsewhere();
        if is_wanted {
            self.arenas.looks_at_once();
        }
        match self.waiters.borrow().front() {
            Some(&(_, task)) => self.scheduler.wake(task),
            None => self.wakeful.set(is_wanted),
        }
    }

    /// Somebody waits on another executor for what this one has of the budget.
    fn is_wanted_elsewhere(&self) -> bool {
        self.budget.as_ref().is_some_and(|side| side.is_wanted())
    }

    /// Answers a call of another executor.
    pub(crate) fn called(&self, call: &Call) {
        let Some(side) = &self.budget else { return };
        side.called(call, &self.scheduler, || self.spare());
        if let Some(&(_, task)) = self.waiters.borrow().front() {
            self.scheduler.wake(task);
        }
    }

    /// Ends all arenas that are free, and goes on so, as long as somebody waits for them on another executor.
    pub(crate) fn spare(&self) {
        let Some(side) = self.budget.as_ref().filter(|side| side.is_wanted()) else { return };
        self.wakeful.set(true);
        if self.end_idle(&mut self.free.borrow_mut().blocks) {
            side.tell_others();
        }
    }

    /// Ends all arenas that are free; says whether there was one.
    fn end_idle(&self, blocks: &mut Blocks) -> bool {
        let counts = blocks.count(STEP_ORDER, self.steps.len());
        let is_idle = |step: usize| self.steps[step].is_used() && counts[step] == self.pages_of(step);
        let idle: Vec<bool> = (0..self.steps.len()).map(is_idle).collect();
        if !idle.contains(&true) {
            return false;
        }
        blocks.remove(STEP_ORDER, &idle);
        (0..idle.len()).filter(|&step| idle[step]).for_each(|step| self.end(step));
        true
    }

    /// Makes a block of others, or of steps that were not in use.
    #[cold]
    fn make(&self, blocks: &mut Blocks, order: usize) -> Option<u32> {
        if let Some(page) = blocks.split(order) {
            return Some(page);
        }
        let run = match &self.budget {
            None => self.room(blocks, order, usize::MAX)?,
            Some(side) => self.drawn(side, blocks, order)?,
        };
        for step in run {
            if !self.steps[step].is_used() {
                let pages = self.pages_of(step);
                let arena = self.arenas.begin(self.memory.part(step * STEP, pages * PAGE));
                self.steps[step].arena.set(arena);
                blocks.add(step * STEP_PAGES, step * STEP_PAGES + pages);
            }
        }
        blocks.split(order)
    }

    /// The same, of a budget of which others have a part, too: it has been drawn what the steps need that are not in use.
    #[cold]
    fn drawn(&self, side: &BudgetSide, blocks: &mut Blocks, order: usize) -> Option<Range<usize>> {
        let run = self.room(blocks, order, side.left()).or_else(|| {
            // Arenas of its own may be free elsewhere than where the block has room.
            let ended = order > STEP_ORDER && self.end_idle(blocks);
            if ended { self.room(blocks, order, side.left()) } else { None }
        })?;
        side.draw(self.undrawn(&run)).then_some(run)
    }

    /// Bytes of steps that are not in use.
    fn undrawn(&self, run: &Range<usize>) -> usize {
        run.clone().filter(|&step| !self.steps[step].is_used()).map(|step| self.pages_of(step) * PAGE).sum()
    }

    /// The lowest steps that have room for a block, if those are taken into use that are not, which have `most` bytes at most. Blocks that
    /// are free were joined, and are not enough.
    fn room(&self, blocks: &Blocks, order: usize, most: usize) -> Option<Range<usize>> {
        let count = 1 << order.saturating_sub(STEP_ORDER);
        let free = if count > 1 { blocks.count(STEP_ORDER, self.steps.len()) } else { Vec::new() };
        let fits = |step: usize| {
            let unused = !self.steps[step].is_used();
            self.pages_of(step) >= 1 << order.min(STEP_ORDER)
                && (unused || free.get(step).is_some_and(|&free| free == STEP_PAGES))
        };
        let starts = (0..=self.steps.len().checked_sub(count)?).step_by(count);
        let mut runs = starts.map(|first| first..first + count);
        runs.find(|run| run.clone().all(fits) && self.undrawn(run) <= most)
    }

    /// The last step may be a short one.
    fn pages_of(&self, step: usize) -> usize {
        STEP_PAGES.min(self.pages - step * STEP_PAGES)
    }

    /// Ends arenas that have been free for [`LOOKS`] in a row, all but the first of the pool. Says whether there may be
    /// more to end at the next look; if not, buffers have to be given back before there is.
    pub(crate) fn look(&self) -> bool {
        let mut free = self.free.borrow_mut();
        let counts = free.blocks.count(STEP_ORDER, self.steps.len());
        let (mut gone, mut watched) = (vec![false; self.steps.len()], false);
        for step in self.used().skip(1) {
            let StoreStep { quiet, .. } = &self.steps[step];
            quiet.set(if counts[step] == self.pages_of(step) { quiet.get() + 1 } else { 0 });
            gone[step] = quiet.get() == LOOKS;
            watched |= (1..LOOKS).contains(&quiet.get());
        }
        if gone.contains(&true) {
            free.blocks.remove(STEP_ORDER, &gone);
            (0..gone.len()).filter(|&step| gone[step]).for_each(|step| self.end(step));
            self.budget.as_ref().inspect(|side| side.tell_others());
        }
        self.settled.set(!watched);
        let is_wanted = !self.waiters.borrow().is_empty() || self.is_wanted_elsewhere();
        self.wakeful.set(!watched || is_wanted);
        watched
    }

    /// The steps in use.
    fn used(&self) -> impl Iterator<Item = usize> {
        (0..self.steps.len()).filter(|&step| self.steps[step].is_used())
    }

    /// A step of which all is free is in use no more.
    fn end(&self, step: usize) {
        let bytes = self.pages_of(step) * PAGE;
        self.arenas.end(self.steps[step].arena.replace(NO_ARENA), bytes);
        self.steps[step].quiet.set(0);
        self.budget.as_ref().inspect(|side| side.give_back(bytes));
        // SAFETY: no block of it is handed out, so no guard and no operation refers to its bytes.
        unsafe { self.memory.forget(step * STEP, bytes) };
    }
}

impl StoreStep {
    const fn unused() -> Self {
        Self { arena: Cell::new(NO_ARENA), quiet: Cell::new(0) }
    }

    fn is_used(&self) -> bool {
        self.arena.get() != NO_ARENA
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.used()
            .for_each(|step| self.arenas.end(self.steps[step].arena.get(), self.pages_of(step) * PAGE));
        if self.shared && self.lent.is_none() {
            self.arenas.unshare(self.memory.part(0, self.memory.len()));
        }
    }
}
