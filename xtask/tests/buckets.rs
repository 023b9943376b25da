//! Buckets of rows under loom, which tries every order of their threads, and every value that each may see of the others' words.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "the crate has uses of buckets, and shows them to others, that no test here has"
)]

#[path = "../../crates/members/src/buckets.rs"]
mod buckets;

/// The words of a model checker, and few buckets: each is one more place where threads may meet.
mod word {
    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};

    pub(crate) const BUCKETS: usize = 2;
}

use std::sync::Arc;

use buckets::Buckets;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;

/// A row, and home's ear for who has left it.
struct Row {
    buckets: Buckets,
    /// The reactor that is in the row now; 0 for none. Relaxed: the buckets alone say what is seen of it.
    inside: AtomicU32,
    is_freed: Mutex<bool>,
    freed: Condvar,
}

impl Row {
    fn new() -> Arc<Self> {
        let (inside, is_freed) = (AtomicU32::new(0), Mutex::new(false));
        Arc::new(Self { buckets: Buckets::default(), inside, is_freed, freed: Condvar::new() })
    }

    /// Changes the row: nobody else does, and it is as the one before has left it.
    fn change(&self, who: u32) {
        assert_eq!(self.inside.load(Ordering::Relaxed), 0, "{who} finds another in the row");
        self.inside.store(who, Ordering::Relaxed);
        assert_eq!(self.inside.load(Ordering::Relaxed), who, "another has come to {who}");
        self.inside.store(0, Ordering::Relaxed);
    }

    /// A reactor beside home, which never waits. Whether it had the row.
    fn beside(&self, me: u32) -> bool {
        let tell = || {
            *self.is_freed.lock().expect("nobody panics") = true;
            self.freed.notify_one();
        };
        if !self.buckets.enter(me as usize, 0..1, |_| tell()) {
            return false;
        }
        self.change(me);
        self.buckets.leave(0..1, |_| tell());
        true
    }

    /// Home waits for the row: if it is not told that this is free, for good, of which loom tells.
    fn home(&self) {
        while !self.buckets.enter_home(0) {
            let mut is_freed = self.is_freed.lock().expect("nobody panics");
            while !*is_freed {
                is_freed = self.freed.wait(is_freed).expect("nobody panics");
            }
            *is_freed = false;
        }
        self.change(100);
        self.buckets.leave(0..1, |_| unreachable!("home does not wait for itself"));
    }
}

#[test]
fn home_and_another_reactor_never_meet_and_home_gets_its_turn() {
    loom::model(|| {
        let row = Row::new();
        let other = Arc::clone(&row);
        let other = thread::spawn(move || {
            other.beside(1);
            other.beside(1);
        });
        row.home();
        other.join().expect("it has ended well");
        assert!(row.beside(1), "the row is free");
    });
}

#[test]
fn two_reactors_and_home_never_meet() {
    loom::model(|| {
        let row = Row::new();
        let others = [1, 2].map(|me| {
            let row = Arc::clone(&row);
            thread::spawn(move || row.beside(me))
        });
        row.home();
        for other in others {
            other.join().expect("it has ended well");
        }
        assert!(row.beside(2), "the row is free");
    });
}
