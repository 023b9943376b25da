//! Deadlines while the process is stopped: on a reactor whose clock the test moves.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use brindle_io::{
    Completion, Duration, Instant, Io, MemberId, MemberInfo, OpError, OpKey, OpView, Reactor, SocketId,
    Unpark,
};

/// A world in which nothing answers before its time and every sleep ends on time, but for the gaps that a test makes.
#[derive(Clone, Default)]
struct Stopped(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    now: Instant,
    /// Length of the stops to come: one before each sleep's end.
    stops: Vec<Duration>,
    waiting: Vec<OpKey>,
    /// All that waits completes when the clock shows this, if it is looked at.
    answer_at: Option<Instant>,
    sleeps: usize,
}

// SAFETY: an operation's key is kept until it is completed, once; no memory is touched.
unsafe impl Reactor for Stopped {
    fn attach(&mut self) {}
    fn detach(&mut self) {}
    fn register_arena(&mut self, _: u32, _: NonNull<[u8]>) {}
    fn unregister_arena(&mut self, _: u32) {}

    unsafe fn submit(&mut self, key: OpKey, _: OpView<'_>) {
        self.0.borrow_mut().waiting.push(key);
    }

    fn park(&mut self, done: &mut Vec<Completion>, until: Option<Instant>) {
        let state = &mut *self.0.borrow_mut();
        if until.is_none_or(|until| until > state.now) {
            let until = until.or(state.answer_at).expect("somebody has to come");
            state.now = match state.answer_at {
                Some(at) if at > state.now => until.min(at),
                _ => until,
            };
            state.sleeps += 1;
            if let Some(stop) = state.stops.pop() {
                state.now = state.now.after(stop);
                return; // as a system call that a signal has ended
            }
        }
        if state.answer_at.is_some_and(|at| at <= state.now) {
            done.extend(state.waiting.drain(..).map(|key| Completion { key, result: Ok(0) }));
        }
    }

    fn now(&self) -> Instant {
        self.0.borrow().now
    }
    fn member_info(&self, _: MemberId) -> Option<MemberInfo> {
        None
    }
    fn close_socket(&mut self, _: SocketId) {}
    fn cancel_all(&mut self) {
        self.0.borrow_mut().answer_at = Some(Instant::default());
    }
    fn unpark(&self) -> Unpark {
        Arc::new(|| {})
    }
}

const SECOND: Duration = Duration::from_secs(1);

/// The result of a flush with this patience, and the time at which it was known.
fn flush(world: &Stopped, patience: Duration) -> (Result<(), OpError>, Instant) {
    let io = Io::new(Box::new(world.clone()));
    io.block_on(async {
        let mut group = io.group();
        group.flush(MemberId::device(0));
        let outcome = group.submit_by(io.now().after(patience)).await.ok();
        (outcome, io.now())
    })
}

#[test]
fn a_member_that_does_not_answer_is_given_up_at_the_deadline_to_the_nanosecond() {
    let world = Stopped::default();
    world.0.borrow_mut().now = Instant::default().after(SECOND);
    assert_eq!(flush(&world, 20 * SECOND), (Err(OpError::TimedOut), Instant::default().after(21 * SECOND)));
}

#[test]
fn an_answer_that_came_while_the_process_was_stopped_counts() {
    let world = Stopped::default();
    {
        let state = &mut *world.0.borrow_mut();
        state.stops = vec![60 * SECOND];
        state.answer_at = Some(Instant::default().after(30 * SECOND));
    }
    let (outcome, at) = flush(&world, 20 * SECOND);
    assert_eq!(outcome, Ok(()), "it had 60 s of the clock, and less than 1 s of the process");
    assert!(at >= Instant::default().after(60 * SECOND));
}

#[test]
fn a_stop_leaves_the_patience_that_was_left() {
    let world = Stopped::default();
    // Two stops, soon after each other.
    world.0.borrow_mut().stops = vec![60 * SECOND, 30 * SECOND];
    let (outcome, at) = flush(&world, 20 * SECOND);
    assert_eq!(outcome, Err(OpError::TimedOut));
    assert_eq!(at, Instant::default().after(110 * SECOND));
    // The answer comes late by the clock, and in time by what the process ran.
    let world = Stopped::default();
    {
        let state = &mut *world.0.borrow_mut();
        state.stops = vec![60 * SECOND];
        state.answer_at = Some(Instant::default().after(79 * SECOND));
    }
    assert_eq!(flush(&world, 20 * SECOND).0, Ok(()));
}

#[test]
fn stops_that_never_end_do_not_keep_a_hung_member_for_ever() {
    let world = Stopped::default();
    world.0.borrow_mut().stops = vec![5 * SECOND; 1000];
    assert_eq!(flush(&world, 20 * SECOND).0, Err(OpError::TimedOut));
}

#[test]
fn without_a_deadline_the_executor_sleeps_as_long_as_it_may() {
    let world = Stopped::default();
    world.0.borrow_mut().answer_at = Some(Instant::default().after(3600 * SECOND));
    let io = Io::new(Box::new(world.clone()));
    io.block_on(async {
        let mut group = io.group();
        group.flush(MemberId::device(0));
        group.submit().await.ok().unwrap();
        io.sleep(3600 * SECOND).await;
    });
    assert!(world.0.borrow().sleeps <= 3, "{} sleeps in two hours", world.0.borrow().sleeps);
}
