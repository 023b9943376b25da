//! Exclusive ranges of one request, so that nothing changes between its read and its write there.
//!
//! **Passage.** Each change of a client passes by here, and is counted until it has ended. Without claims there is no
//! other cost.
//!
//! **Claim.** Changes that come later wait, if they overlap it. It waits for all changes that began before, since
//! only their number is known, not their ranges. For that there are two counts. Who claims has changes counted in the
//! other one from now on, and waits for the one to come to nothing; who comes meanwhile waits for that, and then does
//! the same.

use core::cell::{Cell, RefCell};
use core::ops::Range;

use brindle_io::Io;
use brindle_io::sync::Notify;

/// The claims of an array, and how many changes are under way.
pub(crate) struct Claims {
    /// Changes under way, by the count that they are in.
    under_way: [Cell<u32>; 2],
    /// The count of changes that begin.
    now: Cell<usize>,
    /// How often the other count has been begun, and how often one has come to nothing.
    begun: Cell<u64>,
    ended: Cell<u64>,
    ranges: RefCell<Vec<Range<u64>>>,
    /// There are claims, or a claim waits for a count.
    any: Cell<bool>,
    changed: Notify,
}

impl Claims {
    pub(crate) fn new(io: &Io) -> Self {
        Self {
            under_way: Default::default(),
            now: Cell::new(0),
            begun: Cell::new(0),
            ended: Cell::new(0),
            ranges: RefCell::default(),
            any: Cell::new(false),
            changed: Notify::new(io),
        }
    }

    /// A change begins, if there is no claim.
    #[inline(always)]
    pub(crate) fn pass_at_once(&self) -> Option<Passage<'_>> {
        if self.any.get() { None } else { Some(self.passage()) }
    }

    /// A change of a range begins once no claim overlaps it.
    #[cold]
    pub(crate) async fn pass(&self, range: Range<u64>) -> Passage<'_> {
        self.changed.until(|| (!self.is_claimed(&range)).then(|| self.passage())).await
    }

    #[inline]
    fn passage(&self) -> Passage<'_> {
        let count = self.now.get();
        self.under_way[count].set(self.under_way[count].get() + 1);
        Passage { claims: self, count }
    }

    fn is_claimed(&self, range: &Range<u64>) -> bool {
        self.ranges.borrow().iter().any(|claimed| claimed.start < range.end && range.start < claimed.end)
    }

    /// Claims a range: returns once nothing is under way that may change it.
    pub(crate) async fn claim(&self, range: Range<u64>) -> Claim<'_> {
        let free = || (!self.is_claimed(&range)).then(|| self.ranges.borrow_mut().push(range.clone()));
        self.changed.until(free).await;
        self.any.set(true);
        let claim = Claim { claims: self, range };
        self.earlier_ended().await;
        claim
    }

    /// Waits until all changes have ended that are under way now.
    async fn earlier_ended(&self) {
        self.changed.until(|| (self.begun.get() == self.ended.get()).then_some(())).await;
        let earlier_changes = self.now.get();
        self.now.set(1 - earlier_changes);
        self.begun.set(self.begun.get() + 1);
        let mine = self.begun.get();
        if self.under_way[earlier_changes].get() == 0 {
            self.ended.set(mine);
            self.changed.notify();
            return;
        }
        self.changed.until(|| (self.ended.get() >= mine).then_some(())).await;
    }

    /// The last change of a count has ended.
    #[cold]
    fn emptied(&self, count: usize) {
        if count != self.now.get() && self.ended.get() < self.begun.get() {
            self.ended.set(self.begun.get());
            // A waiting claim may have been dropped, and its range with it.
            self.any.set(!self.ranges.borrow().is_empty());
            self.changed.notify();
        }
    }
}

/// A change under way.
pub(crate) struct Passage<'a> {
    claims: &'a Claims,
    count: usize,
}

impl Drop for Passage<'_> {
    #[inline]
    fn drop(&mut self) {
        let count = &self.claims.under_way[self.count];
        count.set(count.get() - 1);
        if count.get() == 0 && self.claims.any.get() {
            self.claims.emptied(self.count);
        }
    }
}

/// A range that is claimed.
pub(crate) struct Claim<'a> {
    claims: &'a Claims,
    range: Range<u64>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut ranges = self.claims.ranges.borrow_mut();
        // No two of them overlap.
        ranges.retain(|range| *range != self.range);
        // A claim that was dropped while it waited for a count has left that open: it is still looked after.
        let waits = self.claims.begun.get() != self.claims.ended.get();
        self.claims.any.set(!ranges.is_empty() || waits);
        self.claims.changed.notify();
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use brindle_io::memory::Memory;

    use super::*;

    fn world() -> (Io, Rc<Claims>) {
        let io = Io::new(Box::new(Memory::new()));
        let claims = Rc::new(Claims::new(&io));
        (io, claims)
    }

    async fn turns(io: &Io) {
        for _ in 0..8 {
            io.yield_now().await;
        }
    }

    #[test]
    fn a_claim_waits_for_what_was_there_and_holds_back_what_overlaps() {
        let (io, claims) = world();
        io.block_on(async {
            let before = claims.pass_at_once().expect("nobody claims");
            let (held, let_go) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
            let claimer = io.spawn({
                let (io, claims, held, let_go) =
                    (io.clone(), Rc::clone(&claims), Rc::clone(&held), Rc::clone(&let_go));
                async move {
                    let _claim = claims.claim(10..20).await;
                    held.set(true);
                    while !let_go.get() {
                        io.yield_now().await;
                    }
                    held.set(false);
                }
            });
            turns(&io).await;
            assert!(!held.get() && claims.pass_at_once().is_none());
            // Beside it others go on, and are not waited for.
            let beside = claims.pass(20..30).await;
            drop(before);
            turns(&io).await;
            assert!(held.get());
            let later = io.spawn({
                let (claims, held) = (Rc::clone(&claims), Rc::clone(&held));
                async move {
                    let _passage = claims.pass(19..25).await;
                    assert!(!held.get());
                }
            });
            turns(&io).await;
            let_go.set(true);
            claimer.await;
            later.await;
            drop(beside);
            assert!(claims.pass_at_once().is_some(), "all is as before");
        });
    }

    #[test]
    fn many_claims_and_changes_end_and_never_meet() {
        let (io, claims) = world();
        let inside = Rc::new(Cell::new(0_i32));
        io.block_on(async {
            let tasks = (0..64_u64).map(|n| {
                let (io, claims, inside) = (io.clone(), Rc::clone(&claims), Rc::clone(&inside));
                io.clone().spawn(async move {
                    for round in 0..50 {
                        if (n + round) % 4 == 0 {
                            let _claim = claims.claim(0..8).await;
                            assert_eq!(inside.replace(-1), 0);
                            io.yield_now().await;
                            assert_eq!(inside.replace(0), -1);
                        } else {
                            let _passage = match claims.pass_at_once() {
                                Some(passage) => passage,
                                None => claims.pass(0..1).await,
                            };
                            assert!(inside.get() >= 0);
                            inside.set(inside.get() + 1);
                            io.yield_now().await;
                            inside.set(inside.get() - 1);
                        }
                    }
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await;
            }
        });
        assert!(claims.pass_at_once().is_some());
    }
}
