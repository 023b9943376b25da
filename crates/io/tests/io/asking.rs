//! Executors that ask each other, each on a thread of its own, with memory that is lent.

use core::cell::Cell;
use core::future::poll_fn;
use core::task::Poll;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use brindle_io::memory::Memory;
use brindle_io::sync::{Either, join_all, race};
use brindle_io::uring::Uring;
use brindle_io::{Berth, Duration, Io, Loan, MemberId, OpError, Remote, TaskId};

/// An executor on a thread of its own, which answers until it is told to end.
struct Answering {
    end: Remote,
    thread: JoinHandle<()>,
}

/// Which reactor an executor has.
#[derive(Clone, Copy)]
enum Over {
    Memory,
    Ring,
}

fn io(over: Over) -> Io {
    match over {
        Over::Memory => Io::new(Box::new(Memory::new())),
        Over::Ring => {
            let ring = Uring::new().or_else(|_| Uring::on_threads());
            Io::new(Box::new(ring.expect("some reactor")))
        }
    }
}

/// Begins a thread whose executor has `tasks` tasks that answer, by `answer`.
fn answering<F: Future<Output = ()> + 'static>(
    over: Over,
    berth: Berth,
    tasks: usize,
    answer: impl FnOnce(&Io) -> Box<dyn Fn(Loan) -> F> + Send + 'static,
) -> Answering {
    let (told, tell) = mpsc::channel();
    let thread = thread::spawn(move || {
        let io = io(over);
        io.join(berth);
        told.send(io.remote()).expect("awaited");
        let answer = Rc::new(answer(&io));
        for _ in 0..tasks {
            let (io_, answer) = (io.clone(), Rc::clone(&answer));
            io.spawn(async move {
                loop {
                    answer(io_.next_loan().await).await;
                }
            });
        }
        io.block_on(async {
            let me = io.current_task();
            END.with(|end| end.set(Some(me)));
            poll_fn(|_| if ENDED.with(Cell::get) { Poll::Ready(()) } else { Poll::Pending }).await;
        });
        io.shutdown();
    });
    Answering { end: tell.recv().expect("it begins"), thread }
}

thread_local! {
    static END: Cell<Option<TaskId>> = const { Cell::new(None) };
    static ENDED: Cell<bool> = const { Cell::new(false) };
}

impl Answering {
    fn end(self) {
        self.end.run(|io| {
            ENDED.with(|ended| ended.set(true));
            END.with(|end| end.get().inspect(|&task| io.wake(task)));
        });
        self.thread.join().expect("it has ended well");
    }
}

fn pair() -> (Berth, Berth) {
    let mut crew = Berth::crew(2);
    let other = crew.pop().expect("two");
    (crew.pop().expect("two"), other)
}

/// Adds the words up, and 1 to each byte of the memory.
async fn add(loan: Loan) {
    for slice in loan.memory() {
        slice.bytes_mut().iter_mut().for_each(|byte| *byte += 1);
    }
    let sum = loan.question().iter().sum();
    loan.answer(sum);
}

#[test]
fn another_executor_answers_and_changes_the_memory_that_it_is_lent() {
    for over in [Over::Memory, Over::Ring] {
        let (mine, theirs) = pair();
        let other = answering(over, theirs, 4, |_| Box::new(add));
        let io = io(over);
        io.join(mine);
        let pool = io.pool(1 << 20);
        io.block_on(async {
            for round in 0..1000_u64 {
                let buf = pool.alloc(8192).await;
                buf.bytes_mut().fill(round as u8 & 0x7f);
                let memory = [buf.slice(0..512), buf.slice(4096..8192)];
                assert_eq!(io.ask(1, [round, 1, 2, 3], true, &memory).await, Ok(round + 6));
                let expected = |at: usize| (round as u8 & 0x7f) + u8::from(!(512..4096).contains(&at));
                assert!(buf.bytes().iter().enumerate().all(|(at, &byte)| byte == expected(at)));
            }
            // More than a lane has places for.
            let asked = (0..2000).map(|round| io.ask(1, [round, 0, 0, 0], false, &[]));
            let answers = join_all(asked).await;
            assert!(answers.into_iter().zip(0..).all(|(answer, round)| answer == Ok(round)));
        });
        assert_eq!(io.in_flight(), 0);
        io.shutdown();
        other.end();
    }
}

/// Two that ask each other at the same time, so that both sleep and wake all the time.
#[test]
fn executors_that_ask_each_other_lose_no_wake_up() {
    let (mine, theirs) = pair();
    let other = answering(Over::Ring, theirs, 1, |io| {
        let io = io.clone();
        Box::new(move |loan: Loan| {
            let io = io.clone();
            async move {
                let back = io.ask(0, loan.question(), false, loan.memory()).await;
                loan.answer(back.expect("answered") + 1);
            }
        })
    });
    let io = io(Over::Ring);
    io.join(mine);
    let mine = io.clone();
    io.spawn(async move {
        loop {
            let loan = mine.next_loan().await;
            let value = loan.question()[0];
            loan.answer(value * 2);
        }
    });
    let pool = io.pool(1 << 20);
    io.block_on(async {
        let buf = pool.alloc(4096).await;
        for round in 0..20_000 {
            assert_eq!(io.ask(1, [round, 0, 0, 0], false, &[buf.all()]).await, Ok(2 * round + 1));
        }
    });
    io.shutdown();
    other.end();
}

#[test]
fn memory_that_a_device_keeps_is_kept_though_there_is_an_answer() {
    let (mine, theirs) = pair();
    let io = io(Over::Memory);
    io.join(mine);
    let thread = thread::spawn(move || {
        let memory = Memory::new();
        let io = Io::new(Box::new(memory.clone()));
        io.join(theirs);
        let member = memory.add_ram(1 << 20);
        memory.hang(member);
        io.block_on(async {
            let loan = io.next_loan().await;
            let mut group = io.group();
            group.read(member, 0, &loan.memory()[0]);
            let outcome = group.submit_by(io.now()).await;
            assert_eq!(outcome.ok(), Err(OpError::TimedOut));
            assert_eq!(io.orphans(MemberId::device(0)), 1);
            loan.answer(7);
            // The device comes back when it is asked for the second time.
            let loan = io.next_loan().await;
            assert!(loan.memory().is_empty());
            memory.release(member);
            io.orphans_ended(member).await;
            loan.answer(8);
        });
        io.shutdown();
    });
    let pool = io.pool(4096);
    io.block_on(async {
        let buf = pool.alloc(4096).await;
        buf.bytes_mut().fill(9);
        assert_eq!(io.ask(1, [0; 4], true, &[buf.all()]).await, Ok(7));
        assert!(buf.is_pinned(), "a device may still fill it");
        drop(buf);
        assert_eq!(pool.free_bytes(), 0, "it is not given out again");
        assert_eq!(io.in_flight(), 1);
        assert_eq!(io.ask(1, [0; 4], false, &[]).await, Ok(8));
        let free = async {
            while pool.free_bytes() == 0 {
                io.yield_now().await;
            }
        };
        let freed = race(free, io.sleep(Duration::from_secs(20))).await;
        assert!(matches!(freed, Either::First(())), "the device is through with it");
        assert_eq!(io.in_flight(), 0);
    });
    thread.join().expect("it has ended well");
    io.shutdown();
}

#[test]
fn futures_that_are_dropped_leave_the_memory_with_who_was_asked() {
    let (mine, theirs) = pair();
    let other = answering(Over::Memory, theirs, 2, |io| {
        let io = io.clone();
        Box::new(move |loan: Loan| {
            let io = io.clone();
            async move {
                io.sleep(Duration::from_millis(loan.question()[0])).await;
                loan.answer(0);
            }
        })
    });
    let io = io(Over::Memory);
    io.join(mine);
    let pool = io.pool(4096);
    io.block_on(async {
        let buf = pool.alloc(4096).await;
        let memory = [buf.all()];
        let asked = io.ask(1, [100, 0, 0, 0], true, &memory);
        let first = race(asked, io.sleep(Duration::from_millis(10))).await;
        assert!(matches!(first, Either::Second(())));
        drop((buf, memory));
        assert_eq!((pool.free_bytes(), io.in_flight()), (0, 1));
        // The wait for memory ends with the answer.
        drop(pool.alloc(4096).await);
        assert_eq!(io.in_flight(), 0);
    });
    // An end waits for what is under way.
    io.block_on(async {
        let buf = pool.alloc(4096).await;
        let memory = [buf.all()];
        let _late = race(io.ask(1, [50, 0, 0, 0], true, &memory), io.yield_now()).await;
    });
    io.shutdown();
    assert_eq!((pool.free_bytes(), io.in_flight()), (4096, 0));
    other.end();
}

#[test]
fn questions_to_one_that_ends_are_cancelled() {
    let (mine, theirs) = pair();
    let other = answering(Over::Memory, theirs, 0, |_| Box::new(add));
    let io = io(Over::Memory);
    io.join(mine);
    io.block_on(async {
        let asked = io.ask(1, [0; 4], false, &[]);
        let end = async {
            io.sleep(Duration::from_millis(20)).await;
            other.end();
            core::future::pending::<()>().await;
        };
        let answer = match race(asked, end).await {
            Either::First(answer) => answer,
            Either::Second(()) => unreachable!("it does not end"),
        };
        assert_eq!(answer, Err(OpError::Cancelled));
    });
    io.shutdown();
}
