//! Time, threads and the end of executors.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::Poll;

use brindle_io::sync::join_all;
use brindle_io::{Duration, Io, PAGE};

use crate::conformance::Stage;
use crate::conformance::worlds::World;

pub(crate) fn timers_fire_in_order<W: World>(stage: &Stage<W>) {
    let io = &stage.io;
    let fired = Rc::new(RefCell::new(Vec::new()));
    let now = io.now();
    let tasks = [30u64, 10, 20, 0, 10].map(|millis| {
        let (io2, fired) = (io.clone(), Rc::clone(&fired));
        let until = now.after(Duration::from_millis(millis));
        io.spawn(async move {
            io2.sleep_until(until).await;
            assert!(io2.now() >= until);
            fired.borrow_mut().push(millis);
        })
    });
    io.block_on(join_all(tasks));
    assert_eq!(*fired.borrow(), [0, 10, 10, 20, 30]);
}

pub(crate) fn other_threads_hand_work_in<W: World>(stage: &Stage<W>) {
    let io = &stage.io;
    let root = io.block_on(async { io.current_task() });
    let remote = io.remote();
    let (send, receive) = std::sync::mpsc::channel();
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let (remote, send) = (remote.clone(), send.clone());
            std::thread::spawn(move || {
                for number in 0..250 {
                    let send = send.clone();
                    remote.run(move |io| {
                        send.send(thread * 250 + number).unwrap();
                        io.wake(root);
                    });
                }
            })
        })
        .collect();
    // The reactor sleeps without end but for the threads' calls.
    let mut seen = Vec::new();
    io.block_on(std::future::poll_fn(|_| {
        seen.extend(receive.try_iter());
        if seen.len() == 1000 { Poll::Ready(()) } else { Poll::Pending }
    }));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..1000));
}

pub(crate) fn a_reactor_has_one_executor<W: World>(stage: &Stage<W>) {
    let second = catch_unwind(AssertUnwindSafe(|| Io::new(stage.world.reactor())));
    assert!(second.is_err());
}

pub(crate) fn shutdown_with_everything_under_way<W: World>(stage: &Stage<W>) {
    let Stage { io, pool, world } = stage;
    let (member, listener) = (world.member(1 << 20), world.listen());
    let client = world.connect(listener);
    for kind in 0..4 {
        let (io2, pool) = (io.clone(), pool.clone());
        io.spawn(async move {
            let buf = pool.alloc(64 << 10).await;
            match kind {
                0 => while io2.accept(listener).await.is_ok() {},
                1 => drop(io2.recv(client, &buf.all()).await),
                2 => io2.sleep(Duration::from_secs(3600)).await,
                _ => loop {
                    let mut group = io2.group();
                    group.write(member, 0, &buf.all(), true);
                    group.submit().await.ok().unwrap();
                },
            }
        });
    }
    io.block_on(async {
        for _ in 0..20 {
            io.yield_now().await;
        }
    });
    assert_eq!(io.tasks_alive(), 4);
    io.shutdown();
    assert_eq!((io.tasks_alive(), io.in_flight()), (0, 0));
    // The same executor goes on.
    io.block_on(async {
        let buf = pool.alloc(PAGE).await;
        let mut group = io.group();
        group.read(member, 0, &buf.all());
        group.submit().await.ok().unwrap();
    });
}
