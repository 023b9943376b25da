//! Permits that tasks wait for, and tasks that wait for others to run.

use std::cell::Cell;
use std::rc::Rc;

use brindle_io::memory::Memory;
use brindle_io::sync::{Either, Queue, Semaphore, join_all, race};
use brindle_io::{Duration, Io};

fn executor() -> Io {
    Io::new(Box::new(Memory::new()))
}

#[test]
fn permits_are_given_in_the_order_in_which_tasks_came() {
    let io = executor();
    let (permits, order) = (Rc::new(Semaphore::new(&io, 2)), Rc::new(Queue::new(&io)));
    let (now, most) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let task = |number: usize| {
        let (permits, order, now, most) = (permits.clone(), order.clone(), now.clone(), most.clone());
        let io = io.clone();
        async move {
            let _permit = permits.acquire().await;
            order.push(number);
            now.set(now.get() + 1);
            most.set(most.get().max(now.get()));
            io.yield_now().await;
            now.set(now.get() - 1);
        }
    };
    io.block_on(join_all((0..7).map(|number| io.spawn(task(number)))));
    let seen: Vec<_> = core::iter::from_fn(|| order.try_pop()).collect();
    assert_eq!((seen, most.get()), ((0..7).collect(), 2));
}

#[test]
fn a_permit_for_a_task_that_has_gone_is_the_next_ones() {
    let io = executor();
    let permits = Semaphore::new(&io, 1);
    io.block_on(async {
        for given in [false, true] {
            let held = permits.acquire().await;
            let mut gone = Box::pin(permits.acquire());
            // It takes its place in the line.
            assert!(matches!(race(&mut gone, std::future::ready(())).await, Either::Second(())));
            let next = async {
                let _permit = permits.acquire().await;
            };
            let leave = async {
                io.yield_now().await;
                if given {
                    drop(held);
                    drop(gone);
                } else {
                    drop(gone);
                    drop(held);
                }
                std::future::pending::<()>().await;
            };
            assert_eq!(race(next, leave).await, Either::First(()), "{given}");
        }
        drop(permits.acquire().await);
    });
}

#[test]
fn nobody_is_woken_while_no_other_task_runs() {
    let io = executor();
    let woken = Rc::new(Cell::new(0));
    let (count, own) = (Rc::clone(&woken), io.clone());
    drop(io.spawn(async move {
        loop {
            own.another_task_runs().await;
            count.set(count.get() + 1);
        }
    }));
    io.block_on(async {
        io.yield_now().await;
        let before = woken.get();
        for times in 1..4 {
            io.sleep(Duration::from_millis(1)).await;
            assert_eq!(woken.get(), before + times, "it runs after this one");
        }
    });
}
