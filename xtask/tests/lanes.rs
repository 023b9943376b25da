//! Lanes and bells under loom, which tries every order of their threads, and every value that each may see of the others' words.

#![allow(dead_code, reason = "the crate has uses of a lane that no test here has")]

#[path = "../../crates/io/src/lane.rs"]
mod lane;

/// The words of a model checker, and few of them: each is one more place where threads may meet.
mod word {
    pub(crate) use loom::sync::Arc;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

    pub(crate) const WORDS: usize = 1;
    pub(crate) const PLACES: usize = 2;
}

use lane::{Bell, LaneEnd, Parcel, lane};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use word::Arc;

/// The bell of a thread, and what wakes it: as an eventfd, it remembers a wake-up of one that does not sleep yet.
struct Sleeper {
    bell: Bell,
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl Sleeper {
    fn new() -> Arc<Self> {
        Arc::new(Self { bell: Bell::new(), is_woken: Mutex::new(false), changed: Condvar::new() })
    }

    fn sleep(&self) {
        let mut is_woken = self.is_woken.lock().expect("nobody panics");
        while !*is_woken {
            is_woken = self.changed.wait(is_woken).expect("nobody panics");
        }
        *is_woken = false;
    }

    /// After something was put.
    fn ring(&self) {
        if self.bell.needs_ringing() {
            *self.is_woken.lock().expect("nobody panics") = true;
            self.changed.notify_one();
        }
    }
}

/// Takes the next parcel. The thread sleeps until it is woken: if a wake-up is lost, for good, of which loom tells.
fn next(end: &mut LaneEnd, me: &Sleeper) -> Parcel {
    loop {
        if let Some(parcel) = end.take() {
            return parcel;
        }
        me.bell.about_to_sleep();
        if end.is_empty() {
            me.sleep();
        }
        me.bell.is_awake();
    }
}

#[test]
fn no_parcel_is_slept_over() {
    loom::model(|| {
        let ((mut mouth, mut end), me) = (lane(), Sleeper::new());
        let receiver = Arc::clone(&me);
        let sender = thread::spawn(move || {
            for number in 0..2 {
                assert!(mouth.put(&[number]));
                receiver.ring();
            }
        });
        assert_eq!(next(&mut end, &me), [0]);
        assert_eq!(next(&mut end, &me), [1]);
        sender.join().expect("it has ended well");
    });
}

#[test]
fn two_senders_wake_a_thread_that_sleeps() {
    // All orders of three threads are too many.
    let mut some = loom::model::Builder::new();
    some.preemption_bound = Some(2);
    some.check(|| {
        let me = Sleeper::new();
        let senders = [5, 6].map(|number| {
            let ((mut mouth, end), receiver) = (lane(), Arc::clone(&me));
            let sender = thread::spawn(move || {
                assert!(mouth.put(&[number]));
                receiver.ring();
            });
            (sender, end, number)
        });
        let [(first, mut of_first, five), (second, mut of_second, six)] = senders;
        let (mut one, mut other) = (None, None);
        while one.is_none() || other.is_none() {
            one = one.or_else(|| of_first.take());
            other = other.or_else(|| of_second.take());
            if one.is_some() && other.is_some() {
                break;
            }
            me.bell.about_to_sleep();
            if of_first.is_empty() && of_second.is_empty() {
                me.sleep();
            }
            me.bell.is_awake();
        }
        assert_eq!((one, other), (Some([five]), Some([six])));
        first.join().expect("it has ended well");
        second.join().expect("it has ended well");
    });
}

/// A place is written again only when its parcel was taken: the words of two are never mixed, none is lost, none comes twice.
#[test]
fn a_full_lane_takes_no_more_and_loses_nothing() {
    loom::model(|| {
        let (mut mouth, mut end) = lane();
        let sender = thread::spawn(move || {
            let mut put = 0;
            for number in 0..3 {
                put += u64::from(mouth.put(&[number]));
            }
            put
        });
        let (mut taken, mut last) = (0, None);
        for _ in 0..2 {
            if let Some([number]) = end.take() {
                assert!(last < Some(number));
                (taken, last) = (taken + 1, Some(number));
            }
        }
        let put = sender.join().expect("it has ended well");
        assert!(put >= 2);
        while let Some([number]) = end.take() {
            assert!(last < Some(number));
            (taken, last) = (taken + 1, Some(number));
        }
        assert_eq!(taken, put);
    });
}
