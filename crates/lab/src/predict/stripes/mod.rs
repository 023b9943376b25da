//! md's stripe cache: which pages of its members an array with parity reads and writes.
//!
//! The engine has none: it reads what a request needs. md handles stripes of a page of each member, keeps some of them in memory, 256 as a rule, and reads
//! nothing of a page that is there. Only members' operations are made here; their bytes are of no use on drives that keep none.
//!
//! A stripe of which something must be read before it is written waits as long as reads for other such stripes are under way: meanwhile more may be
//! written to it, and then less must be read, or nothing.

mod cache;
mod roles;
mod rules;

use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_array::Array;
use brindle_io::sync::{Notify, join_all};
use brindle_io::{Buf, Group, Io, MemberId, Slice};
use brindle_layout::{Family, Geometry, ParityRows};
use brindle_volume::{Allocation, Limits, Volume, VolumeError, ZeroOptions, bytes, stretches};

use cache::{Cache, Waiting};
use roles::Roles;
use rules::{Stripe, Written};

/// Bytes of a stripe on each member.
const PAGE: u64 = 4096;
/// Bytes of an operation at most.
const LONGEST: usize = 1 << 20;

/// An array whose reads and writes of parity cost the members what md's would. A handle.
#[derive(Clone)]
pub(super) struct AsMd {
    array: Array,
    /// None where the engine's own reads and writes are asked for.
    stripes: Option<Rc<Stripes>>,
    /// Reads are cut at multiples of this, each piece a read of its own.
    cut: Option<u64>,
}

impl AsMd {
    /// The engine's own requests.
    pub(super) fn engine(array: Array) -> Self {
        Self { array, stripes: None, cut: None }
    }

    /// md's, if the array has parity; `members` by role, none where there is none. Its cache has so many `stripes`.
    pub(super) fn new(
        array: Array,
        io: &Io,
        geometry: &Geometry,
        members: Vec<Option<MemberId>>,
        stripes: u32,
    ) -> Self {
        let stripes = match geometry.family() {
            Family::Parity(rows) => Stripes::new(io, rows, members, stripes),
            _ => None,
        };
        Self { array, stripes: stripes.map(Rc::new), cut: None }
    }
}

impl AsMd {
    /// The array itself.
    pub(super) fn array(&self) -> &Array {
        &self.array
    }

    /// Reads are cut at multiples of `chunk` from now on, if there is one.
    pub(super) fn cut_at(self, chunk: Option<u64>) -> Self {
        Self { cut: chunk, ..self }
    }

    async fn read_pieces(&self, chunk: u64, offset: u64, into: &[Slice]) -> Result<(), VolumeError> {
        let mut pieces = Vec::new();
        for (mut at, slice) in stretches(offset, into) {
            let mut from = 0;
            while from < slice.len() {
                let len = ((chunk - at % chunk) as usize).min(slice.len() - from);
                pieces.push((at, slice.slice(from..from + len)));
                (from, at) = (from + len, at + len as u64);
            }
        }
        let reads = pieces.iter().map(|(at, slice)| self.array.read(*at, core::slice::from_ref(slice)));
        join_all(reads).await.into_iter().collect()
    }
}

/// Pages that are wanted of a stripe.
#[derive(Clone, Copy)]
enum Want {
    Read(Roles),
    /// To write what is to be written to it.
    Write,
}

/// Stripes that are being written: their numbers, and who waits.
type Writing = Vec<(u64, Written, Vec<Rc<Waiting>>)>;

struct Stripes {
    io: Io,
    rows: ParityRows,
    members: Vec<Option<MemberId>>,
    missing: Roles,
    cache: RefCell<Cache>,
    /// Stripes for which reads are under way.
    reading: Cell<usize>,
    /// Those that wait until none is.
    delayed: RefCell<Vec<u64>>,
    /// Pages that have come so far.
    came: Cell<u64>,
    arrival: Notify,
    /// Memory of all reads, and of all writes.
    memory: [Buf; 2],
}

impl Stripes {
    /// None if there is no memory.
    fn new(io: &Io, rows: &ParityRows, members: Vec<Option<MemberId>>, stripes: u32) -> Option<Self> {
        let pool = io.pool(2 * LONGEST);
        let lost = (0..).zip(&members).filter(|(_, member)| member.is_none());
        Some(Self {
            io: io.clone(),
            rows: rows.clone(),
            missing: Roles::of(lost.map(|(role, _)| role)),
            members,
            cache: RefCell::new(Cache::new(stripes)),
            reading: Cell::new(0),
            delayed: RefCell::default(),
            came: Cell::new(0),
            arrival: Notify::new(io),
            memory: [pool.try_alloc(LONGEST)?, pool.try_alloc(LONGEST)?],
        })
    }

    /// The stripes of a range and which pages of them it covers.
    fn touched(&self, offset: u64, len: u64) -> BTreeMap<u64, Written> {
        let (mut at, end, mut all) = (offset, offset + len, BTreeMap::<u64, Written>::new());
        while at < end {
            let next = (at / PAGE * PAGE + PAGE).min(end);
            let position = self.rows.position(at);
            let role = self.rows.row(position.row).data_member(position.data_index);
            let number = (self.rows.row_offset(position.row) + position.column) / PAGE;
            let page = Roles::of([role]);
            let part = if next - at < PAGE { page } else { Roles::default() };
            all.entry(number).or_default().join(Written { any: page, part });
            at = next;
        }
        all
    }

    fn stripe(&self, number: u64, held: Roles) -> Stripe {
        let row = self.rows.row(number * PAGE / self.rows.chunk());
        Stripe::of(&row, self.members.len() as u16, self.missing, held)
    }

    /// A stripe in use, the pages that it still needs, and those that are to be computed of them.
    fn needs(&self, number: u64, want: Want) -> (Stripe, Roles, Roles) {
        let mut cache = self.cache.borrow_mut();
        let entry = cache.at(number);
        let stripe = self.stripe(number, entry.held);
        match want {
            Want::Read(wanted) => (stripe, stripe.before_read(wanted), wanted),
            Want::Write => (stripe, stripe.before_write(&entry.to_write), stripe.computed(&entry.to_write)),
        }
    }

    /// Reads until nothing is needed any more.
    async fn fetch(&self, wants: &[(u64, Want)]) -> Result<(), VolumeError> {
        loop {
            let (mut reads, mut is_open) = (Vec::new(), false);
            for &(number, want) in wants {
                let (_, needed, _) = self.needs(number, want);
                is_open |= !needed.is_empty();
                let mut cache = self.cache.borrow_mut();
                let entry = cache.at(number);
                let mine = needed.without(entry.coming);
                entry.coming = entry.coming.or(mine);
                if !mine.is_empty() {
                    reads.push((number, mine));
                }
            }
            let came = self.came.get();
            let done = match (is_open, reads.is_empty()) {
                (false, _) => Ok(()),
                (true, true) => {
                    self.arrival.until(|| (self.came.get() != came).then_some(())).await;
                    continue;
                }
                (true, false) => {
                    self.submit(&reads, &self.memory[0], |group, member, at, slice| {
                        group.read(member, at, slice);
                    })
                    .await
                }
            };
            reads.iter().for_each(|(number, read)| {
                let mut cache = self.cache.borrow_mut();
                let entry = cache.at(*number);
                entry.coming = entry.coming.without(*read);
                if done.is_ok() {
                    entry.held = entry.held.or(*read);
                }
            });
            for &(number, want) in wants.iter().filter(|_| done.is_ok()) {
                let (stripe, _, computed) = self.needs(number, want);
                self.cache.borrow_mut().at(number).held = stripe.held_with(computed);
            }
            self.came.set(self.came.get() + 1);
            self.arrival.notify();
            if !is_open || done.is_err() {
                return done;
            }
        }
    }

    /// Sends an operation for each run of pages that lie side by side on a member.
    async fn submit(
        &self,
        pages: &[(u64, Roles)],
        memory: &Buf,
        add: impl Fn(&mut Group, MemberId, u64, &Slice),
    ) -> Result<(), VolumeError> {
        let mut runs: BTreeMap<u16, Vec<(u64, u64)>> = BTreeMap::new();
        for (number, roles) in pages {
            for role in roles.each() {
                let runs = runs.entry(role).or_default();
                match runs.last_mut() {
                    Some((first, count)) if *first + *count == *number => *count += 1,
                    _ => runs.push((*number, 1)),
                }
            }
        }
        let mut group = self.io.group();
        for (role, runs) in runs {
            let Some(member) = self.members[usize::from(role)] else { continue };
            for (first, count) in runs {
                let (at, len) = (first * PAGE, count * PAGE);
                for from in (0..len).step_by(LONGEST) {
                    let part = memory.slice(0..(len - from).min(LONGEST as u64) as usize);
                    add(&mut group, member, at + from, &part);
                }
            }
        }
        group.submit().await.ok().map_err(VolumeError::of_some_member)
    }

    async fn read(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        let touched = self.touched(offset, len);
        touched.keys().for_each(|number| {
            self.cache.borrow_mut().enter(*number);
        });
        let wants: Vec<_> = touched.iter().map(|(number, pages)| (*number, Want::Read(pages.any))).collect();
        let done = self.fetch(&wants).await;
        touched.keys().for_each(|number| self.cache.borrow_mut().leave(*number));
        done
    }

    async fn write(self: &Rc<Self>, offset: u64, len: u64, fua: bool) -> Result<(), VolumeError> {
        let touched = self.touched(offset, len);
        let waiting = Rc::new(Waiting {
            open: Cell::new(touched.len()),
            failed: Cell::default(),
            done: Notify::new(&self.io),
        });
        let mut begun = Vec::new();
        for (number, pages) in touched {
            let mut cache = self.cache.borrow_mut();
            let entry = cache.enter(number);
            entry.to_write.join(pages);
            entry.fua |= fua;
            entry.waiters.push(Rc::clone(&waiting));
            if !core::mem::replace(&mut entry.is_written, true) {
                begun.push(number);
            }
        }
        self.begin(begun);
        waiting.done.until(|| (waiting.open.get() == 0).then_some(())).await;
        waiting.failed.get().map_or(Ok(()), Err)
    }

    /// Goes on with stripes to which something is to be written.
    fn begin(self: &Rc<Self>, numbers: Vec<u64>) {
        let is_ready = |number: &u64| self.needs(*number, Want::Write).1.is_empty();
        let (ready, rest): (Vec<_>, Vec<_>) = numbers.into_iter().partition(is_ready);
        self.put(ready);
        if self.reading.get() == 0 {
            self.begin_reads(rest);
        } else {
            self.delayed.borrow_mut().extend(rest);
        }
    }

    /// Reads what stripes need, and then writes them.
    fn begin_reads(self: &Rc<Self>, numbers: Vec<u64>) {
        if numbers.is_empty() {
            return;
        }
        self.reading.set(self.reading.get() + numbers.len());
        let this = Rc::clone(self);
        self.io.spawn(async move {
            let wants: Vec<_> = numbers.iter().map(|number| (*number, Want::Write)).collect();
            let done = this.fetch(&wants).await;
            this.reading.set(this.reading.get() - numbers.len());
            match done {
                Ok(()) => this.put(numbers),
                Err(error) => {
                    let writing = this.take(numbers);
                    this.end(writing, Err(error));
                }
            }
            if this.reading.get() == 0 {
                let delayed = this.delayed.take();
                this.begin(delayed);
            }
        });
    }

    /// Writes stripes that need nothing more.
    fn put(self: &Rc<Self>, numbers: Vec<u64>) {
        if numbers.is_empty() {
            return;
        }
        let is_forced = numbers.iter().any(|number| self.cache.borrow_mut().at(*number).fua);
        let writing = self.take(numbers);
        let this = Rc::clone(self);
        self.io.spawn(async move {
            let pages: Vec<_> = writing
                .iter()
                .map(|(number, written, _)| {
                    let stripe = this.stripe(*number, Roles::default());
                    (*number, written.any.or(stripe.parity).without(this.missing))
                })
                .collect();
            let done = this
                .submit(&pages, &this.memory[1], |group, member, at, slice| {
                    group.write(member, at, slice, is_forced);
                })
                .await;
            this.end(writing, done);
        });
    }

    /// Takes over what is to be written to stripes: more may come from now on.
    fn take(&self, numbers: Vec<u64>) -> Writing {
        let mut cache = self.cache.borrow_mut();
        let take = |number| {
            let entry = cache.at(number);
            entry.fua = false;
            (number, core::mem::take(&mut entry.to_write), core::mem::take(&mut entry.waiters))
        };
        numbers.into_iter().map(take).collect()
    }

    /// Answers those that have waited, and goes on with what has come meanwhile.
    fn end(self: &Rc<Self>, writing: Writing, done: Result<(), VolumeError>) {
        let mut again = Vec::new();
        for (number, written, waiters) in writing {
            let parity = self.stripe(number, Roles::default()).parity;
            let mut cache = self.cache.borrow_mut();
            let entry = cache.at(number);
            if done.is_ok() {
                entry.held = entry.held.or(written.any).or(parity);
            }
            entry.is_written = !entry.waiters.is_empty();
            if entry.is_written {
                again.push(number);
            }
            for waiting in waiters {
                waiting.open.set(waiting.open.get() - 1);
                if let Err(error) = done {
                    waiting.failed.set(Some(error));
                }
                if waiting.open.get() == 0 {
                    waiting.done.notify();
                }
                cache.leave(number);
            }
        }
        self.begin(again);
    }
}

impl Volume for AsMd {
    fn limits(&self) -> Limits {
        self.array.limits()
    }

    async fn read(&self, offset: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        let len = bytes(into.as_ref());
        match &self.stripes {
            // Of an array that lacks nothing md reads the members straight.
            Some(stripes) if !stripes.missing.is_empty() && self.limits().check(offset, len).is_ok() => {
                stripes.read(offset, len).await
            }
            _ => match self.cut.filter(|chunk| offset % chunk + len > *chunk) {
                Some(chunk) if self.limits().check(offset, len).is_ok() => {
                    self.read_pieces(chunk, offset, into.as_ref()).await
                }
                _ => self.array.read(offset, into).await,
            },
        }
    }

    async fn write(&self, offset: u64, from: impl AsRef<[Slice]>, fua: bool) -> Result<(), VolumeError> {
        let len = bytes(from.as_ref());
        match &self.stripes {
            Some(stripes) if len > 0 && self.limits().check(offset, len).is_ok() => {
                stripes.write(offset, len, fua).await
            }
            _ => self.array.write(offset, from, fua).await,
        }
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.array.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.array.discard(offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError> {
        self.array.write_zeroes(offset, len, options).await
    }

    async fn allocation(
        &self,
        offset: u64,
        len: u64,
        found: &mut Vec<Allocation>,
    ) -> Result<(), VolumeError> {
        self.array.allocation(offset, len, found).await
    }
}
