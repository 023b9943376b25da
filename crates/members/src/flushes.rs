//! The flushes under way. None is acknowledged before the outcome of the earlier ones is known.
//!
//! A drive that fails a flush may drop what it had not made stable, and take the next one. So a flush that succeeded
//! says nothing as long as another may have failed on the same member: its failure must be known first, and recorded,
//! or the member could answer for what it has lost. Every flush goes to every member in use, so that all flushes under
//! way count.

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_io::Io;
use brindle_io::sync::Notify;

use brindle_volume::VolumeError;

/// The flushes of an array that are under way.
pub struct Flushes {
    under_way: RefCell<Vec<u64>>,
    begun: Cell<u64>,
    landed: Notify,
    /// A flush failed, and the array could not do without the member: what was lost is not known.
    failed: Cell<Option<VolumeError>>,
}

/// A flush that has been sent, until it is known on which members it failed, and those have been taken out of use.
pub struct Flight {
    flushes: Rc<Flushes>,
    number: u64,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.flushes.under_way.borrow_mut().retain(|number| *number != self.number);
        self.flushes.landed.notify();
    }
}

impl Flushes {
    /// Starts with no flush under way.
    pub fn new(io: &Io) -> Rc<Self> {
        Rc::new(Self {
            under_way: RefCell::default(),
            begun: Cell::new(0),
            landed: Notify::new(io),
            failed: Cell::new(None),
        })
    }

    /// Begins a flush. It must be dropped before its failures are recorded: other tasks wait for it, maybe while they
    /// have the turn to write superblocks.
    pub fn begin(self: &Rc<Self>) -> Flight {
        let number = self.begun.get() + 1;
        self.begun.set(number);
        self.under_way.borrow_mut().push(number);
        Flight { flushes: Rc::clone(self), number }
    }

    /// A flush failed on a member that the array can't do without: no later flush can make up for that.
    pub fn fail(&self, why: VolumeError) {
        self.failed.set(self.failed.get().or(Some(why)));
    }

    /// Waits until it is known what became of every flush that is under way now.
    ///
    /// # Errors
    /// The failure of a flush, this one's or any before, that the array could not make up for.
    pub async fn others_landed(&self) -> Result<(), VolumeError> {
        let others = self.begun.get();
        let landed = || self.under_way.borrow().iter().all(|&number| number > others).then_some(());
        self.landed.until(landed).await;
        self.failed.get().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brindle_io::memory::Memory;

    #[test]
    fn nobody_is_told_before_all_that_were_under_way_have_landed() {
        let io = Io::new(Box::new(Memory::new()));
        let flushes = Flushes::new(&io);
        let (one, two) = (flushes.begin(), flushes.begin());
        let reported = Rc::new(Cell::new(false));
        let (waiting, tells) = (Rc::clone(&flushes), Rc::clone(&reported));
        drop(io.spawn(async move {
            waiting.others_landed().await.unwrap();
            tells.set(true);
        }));
        let settle = || (0..4).for_each(|_| io.block_on(io.yield_now()));
        settle();
        // One that begins later is not waited for.
        let later = flushes.begin();
        drop(one);
        settle();
        assert!(!reported.get(), "the second is under way");
        drop(two);
        settle();
        assert!(reported.get());
        drop(later);
        io.shutdown();
    }
}
