//! Executor, op table and buffers, over the memory reactor.

use std::cell::Cell;
use std::rc::Rc;

use brindle_io::memory::Memory;
use brindle_io::sync::{Either, Queue, join_all, race};
use brindle_io::{Duration, Io, MemberInfo, OpClass, OpError, OpKind, PAGE};

fn world() -> (Memory, Io) {
    let memory = Memory::new();
    (memory.clone(), Io::new(Box::new(memory)))
}

#[test]
fn a_group_writes_and_reads_back() {
    let (memory, io) = world();
    let members = [memory.add_ram(1 << 20), memory.add_ram(1 << 20)];
    let pool = io.pool(1 << 20);
    let out = io.block_on(async {
        let buf = pool.alloc(8192).await;
        buf.bytes_mut().fill(7);
        let mut group = io.group();
        for member in members {
            group.write(member, 4096, &buf.all(), false);
        }
        assert!(group.submit().await.is_ok());
        let back = pool.alloc(8192).await;
        let mut group = io.group();
        group.read(members[1], 4096, &back.all());
        group.submit().await.ok().unwrap();
        back.bytes().to_vec()
    });
    assert_eq!(out, vec![7; 8192]);
    assert_eq!(pool.free_bytes(), 1 << 20);
    assert_eq!(io.in_flight(), 0);
}

#[test]
fn contiguous_stretches_become_one_operation_per_member() {
    let (memory, io) = world();
    let members: Vec<_> = (0..4).map(|_| memory.add_ram(1 << 20)).collect();
    let pool = io.pool(4 << 20);
    io.block_on(async {
        let buf = pool.alloc(1 << 20).await;
        for (i, byte) in buf.bytes_mut().iter_mut().enumerate() {
            *byte = (i >> 16) as u8;
        }
        let mut group = io.group();
        for chunk in 0..16usize {
            let part = buf.slice(chunk * 65536..(chunk + 1) * 65536);
            group.write(members[chunk % 4], (chunk / 4 * 65536) as u64, &part, false);
        }
        assert_eq!(group.len(), 4);
        group.submit().await.ok().unwrap();
    });
    for (i, &member) in members.iter().enumerate() {
        assert_eq!(memory.op_counts(member), (0, 1));
        for chunk in 0..4 {
            let mut byte = [0];
            memory.peek(member, chunk * 65536 + 99, &mut byte);
            assert_eq!(byte[0] as usize, chunk as usize * 4 + i);
        }
    }
}

#[test]
fn failures_name_their_operation() {
    let (memory, io) = world();
    let (good, bad) = (memory.add_ram(1 << 16), memory.add_ram(1 << 16));
    memory.spoil(bad, 0, 512);
    let pool = io.pool(1 << 16);
    io.block_on(async {
        let buf = pool.alloc(PAGE).await;
        let other = pool.alloc(PAGE).await;
        let mut group = io.group();
        group.read(good, 0, &buf.all());
        let tag = group.read(bad, 0, &other.all());
        let outcome = group.submit().await;
        assert_eq!(outcome.failures().len(), 1);
        assert_eq!(outcome.failures()[0].tag, tag);
        assert_eq!(outcome.failures()[0].error, OpError::Medium(5));
    });
}

#[test]
fn a_member_made_shorter_is_truncated_and_a_write_beyond_leaves_a_hole() {
    let (memory, io) = world();
    let member = memory.add_ram(1 << 20);
    memory.poke(member, 0, &[7; 1 << 20]);
    let pool = io.pool(1 << 20);
    io.block_on(async {
        let buf = pool.alloc(2 * PAGE).await;
        let read = |offset: u64| {
            let mut group = io.group();
            group.read(member, offset, &buf.all());
            group.submit()
        };
        let size = async || io.probe(member, io.now().after(Duration::from_secs(60))).await.map(|p| p.size);
        memory.truncate(member, PAGE as u64);
        assert_eq!(size().await, Ok(PAGE as u64));
        assert_eq!(read(0).await.ok(), Err(OpError::Truncated), "the first half came, the rest is not there");
        assert_eq!(read(1 << 19).await.ok(), Err(OpError::Truncated));
        let mut group = io.group();
        group.write(member, 1 << 19, &buf.all(), false);
        group.submit().await.ok().unwrap();
        assert_eq!(size().await, Ok((1 << 19) + 2 * PAGE as u64));
        read(PAGE as u64).await.ok().unwrap();
        assert!(buf.bytes().iter().all(|&byte| byte == 0));
    });
}

#[test]
fn a_dropped_future_keeps_its_buffer_until_the_completion() {
    let (memory, io) = world();
    let member = memory.add_ram(1 << 16);
    let pool = io.pool(PAGE);
    io.block_on(async {
        let buf = pool.alloc(PAGE).await;
        let mut group = io.group();
        group.read(member, 0, &buf.all());
        drop(group.submit());
        drop(buf);
        assert_eq!(pool.free_bytes(), 0, "the operation holds the only page");
        drop(pool.alloc(PAGE).await);
    });
    assert_eq!(pool.free_bytes(), PAGE);
}

#[test]
#[should_panic(expected = "being written to")]
fn looking_at_a_buffer_that_a_device_fills_panics() {
    let (memory, io) = world();
    let member = memory.add_ram(1 << 16);
    let pool = io.pool(PAGE);
    io.block_on(async {
        let buf = pool.alloc(PAGE).await;
        let mut group = io.group();
        group.read(member, 0, &buf.all());
        let pending = group.submit();
        let _ = buf.bytes()[0];
        let _ = pending.await;
    });
}

#[test]
fn memory_is_given_in_turn() {
    let (_, io) = world();
    let pool = io.pool(16 * PAGE);
    let order = Rc::new(Queue::new(&io));
    io.block_on(async {
        let held = pool.alloc(8 * PAGE).await;
        let tasks: Vec<_> = [16usize, 1, 8]
            .into_iter()
            .map(|pages| {
                let (pool, order) = (pool.clone(), Rc::clone(&order));
                io.spawn(async move {
                    let buf = pool.alloc(pages * PAGE).await;
                    order.push(pages);
                    drop(buf);
                })
            })
            .collect();
        io.yield_now().await;
        assert!(order.is_empty(), "one page is free, but the task that wants 16 came first");
        drop(held);
        join_all(tasks).await;
    });
    let seen: Vec<_> = core::iter::from_fn(|| order.try_pop()).collect();
    assert_eq!(seen, [16, 1, 8]);
    assert_eq!(pool.free_bytes(), 16 * PAGE);
}

#[test]
fn pools_of_any_size_give_all_their_pages() {
    for pages in [1usize, 2, 3, 7, 64, 100, 9000] {
        let (_, io) = world();
        let pool = io.pool(pages * PAGE);
        let held: Vec<_> = core::iter::from_fn(|| pool.try_alloc(PAGE)).collect();
        assert_eq!(held.len(), pages);
        let first = held[0].bytes().as_ptr() as usize;
        for buf in &held {
            buf.bytes_mut().fill(1);
            assert_eq!((buf.bytes().as_ptr() as usize).abs_diff(first) % PAGE, 0);
        }
        drop(held);
        let largest = PAGE << pages.ilog2().min(13);
        assert!(pool.try_alloc(largest).is_some(), "free neighbours join again");
    }
}

#[test]
fn timers_race_and_order() {
    let (_, io) = world();
    let fired = Rc::new(Cell::new(0));
    io.block_on(async {
        let other = Rc::clone(&fired);
        let (slow, quick) = (io.sleep(Duration::from_secs(3600)), io.sleep(Duration::from_millis(1)));
        assert_eq!(race(slow, quick).await, Either::Second(()));
        let clock = io.clone();
        let task = io.spawn(async move {
            clock.sleep(Duration::from_millis(1)).await;
            other.set(other.get() + 1);
        });
        task.await;
    });
    assert_eq!(fired.get(), 1);
}

#[test]
fn a_served_member_is_a_member_like_others() {
    let (memory, io) = world();
    let below = memory.add_ram(1 << 20);
    let pool = io.pool(1 << 20);
    let served = io.serve_member(MemberInfo {
        size: 1 << 19,
        logical_block: 512,
        physical_block: 512,
        rotational: false,
        discard: false,
        write_zeroes: false,
    });
    let member = served.member();
    let below_io = io.clone();
    io.spawn(async move {
        loop {
            let mut request = served.next().await;
            let Some(op) = request.take() else { continue };
            let mut group = below_io.group();
            let mut at = 1 << 19;
            for slice in &op.slices {
                match op.kind {
                    OpKind::Write { offset, fua, .. } => group.write(below, at + offset, slice, fua),
                    OpKind::Read { offset, .. } => group.read(below, at + offset, slice),
                    _ => continue,
                };
                at += slice.len() as u64;
            }
            let result = group.submit().await.ok();
            request.complete(result);
        }
    });
    io.block_on(async {
        let buf = pool.alloc(2 * PAGE).await;
        buf.bytes_mut().fill(9);
        let mut group = io.group();
        group.write(member, PAGE as u64, &buf.slice(0..PAGE), true);
        group.submit().await.ok().unwrap();
        let mut group = io.group();
        group.read(member, PAGE as u64, &buf.slice(PAGE..2 * PAGE));
        group.submit().await.ok().unwrap();
        assert_eq!(buf.bytes()[PAGE], 9);
    });
    let mut byte = [0];
    memory.peek(below, (1 << 19) + PAGE as u64, &mut byte);
    assert_eq!(byte[0], 9);
}

#[test]
fn pipes_carry_more_than_they_hold_and_end() {
    let (memory, io) = world();
    let pool = io.pool(4 << 20);
    let listener = memory.listen();
    io.block_on(async {
        let client = memory.connect(listener);
        let server = io.accept(listener).await.unwrap();
        let (sender, from) = (io.clone(), pool.alloc(1 << 20).await);
        from.bytes_mut().fill(5);
        let sending = io.spawn(async move {
            sender.send(client, &[from.slice(0..100), from.slice(100..1 << 20)]).await.unwrap();
            sender.close(client);
        });
        let into = pool.alloc(1 << 16).await;
        let mut total = 0;
        loop {
            let got = io.recv(server, &into.all()).await.unwrap();
            if got == 0 {
                break;
            }
            assert!(into.bytes()[..got].iter().all(|&byte| byte == 5));
            total += got;
        }
        assert_eq!(total, 1 << 20);
        sending.await;
        assert!(io.send(server, &[into.all()]).await.is_err());
        io.close(listener);
        assert_eq!(io.accept(listener).await, Err(OpError::Cancelled));
    });
}

#[test]
fn another_thread_hands_work_in() {
    let (_, io) = world();
    let remote = io.remote();
    let queue = Rc::new(Queue::new(&io));
    let (tx, rx) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        remote.run(move |io| {
            let now = io.now();
            tx.send(now).unwrap();
        });
    });
    let (io2, queue2) = (io.clone(), Rc::clone(&queue));
    io.spawn(async move {
        while rx.try_recv().is_err() {
            io2.sleep(Duration::from_millis(1)).await;
        }
        queue2.push(());
    });
    io.block_on(queue.pop());
    thread.join().unwrap();
}

#[test]
fn shutdown_ends_tasks_that_hold_their_own_executor() {
    let (memory, io) = world();
    let pool = io.pool(1 << 20);
    let listener = memory.listen();
    let client = memory.connect(listener);
    for socket in [listener, client] {
        let (io2, pool) = (io.clone(), pool.clone());
        io.spawn(async move {
            let buf = pool.alloc(PAGE).await;
            if socket == client {
                let _ = io2.recv(socket, &buf.all()).await;
            } else {
                while io2.accept(socket).await.is_ok() {}
            }
        });
    }
    io.block_on(async {
        while io.in_flight() < 2 {
            io.yield_now().await;
        }
    });
    assert_eq!((io.tasks_alive(), io.in_flight()), (2, 2));
    io.shutdown();
    assert_eq!((io.tasks_alive(), io.in_flight()), (0, 0));
    assert_eq!(pool.free_bytes(), 1 << 20);
    let task = io.spawn(async { 5 });
    assert_eq!(io.block_on(task), 5, "it can be used again");
}

#[test]
fn a_served_request_keeps_no_executor_alive() {
    let (memory, io) = world();
    let below = memory.add_ram(1 << 20);
    let served = io.serve_member(io.member_info(below).unwrap());
    let member = served.member();
    io.spawn(async move {
        loop {
            served.next().await.complete(Ok(()));
        }
    });
    io.block_on(async {
        let mut group = io.group();
        group.flush(member);
        group.submit().await.ok().unwrap();
    });
    io.shutdown();
    let token = Rc::new(());
    let held = Rc::clone(&token);
    io.spawn(async move {
        let _held = held;
        std::future::pending::<()>().await;
    });
    drop(io);
    assert_eq!(Rc::strong_count(&token), 1, "the executor, and so its task, is gone");
}

#[test]
#[should_panic(expected = "given once")]
fn a_result_is_not_given_twice() {
    let (_, io) = world();
    io.block_on(async {
        let mut pending = std::pin::pin!(io.group().submit());
        let _ = pending.as_mut().await;
        let _ = pending.await;
    });
}

#[test]
fn a_member_that_nobody_serves_is_gone() {
    let (memory, io) = world();
    let below = memory.add_ram(1 << 20);
    let served = io.serve_member(io.member_info(below).unwrap());
    let member = served.member();
    let flush = |io: &Io| {
        let mut group = io.group();
        group.flush(member);
        group.submit()
    };
    io.block_on(async {
        let waiting = flush(&io);
        io.yield_now().await;
        drop(served);
        assert_eq!(waiting.await.ok(), Err(OpError::Gone), "asked before");
        assert_eq!(flush(&io).await.ok(), Err(OpError::Gone), "asked after");
    });
    assert_eq!(io.in_flight(), 0);
}

/// A future that waits as those of other executors do: it keeps the waker, and is made ready through it.
async fn foreign() {
    std::future::poll_fn(|cx| {
        let waker = cx.waker().clone();
        std::thread::spawn(move || waker.wake());
        std::task::Poll::<()>::Pending
    })
    .await;
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "made for another executor")]
fn a_future_of_another_executor_is_told_apart_at_once() {
    world().1.block_on(foreign());
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "made for another executor")]
fn so_is_one_in_a_task() {
    let (_memory, io) = world();
    drop(io.spawn(foreign()));
    io.block_on(io.sleep(Duration::from_secs(3600)));
}

#[test]
fn tasks_hand_their_class_on_and_served_members_see_it() {
    let (_memory, io) = world();
    let info = MemberInfo {
        size: 1 << 20,
        logical_block: 512,
        physical_block: 512,
        rotational: false,
        discard: false,
        write_zeroes: false,
    };
    let served = io.serve_member(info);
    let member = served.member();
    let seen = io.spawn(async move {
        let mut seen = Vec::new();
        for _ in 0..6 {
            let mut request = served.next().await;
            seen.push(request.take().unwrap().class);
            request.complete(Ok(()));
        }
        seen
    });
    let ask = move |io: &Io| {
        let mut group = io.group();
        group.flush(member);
        let sent = group.submit();
        async move { sent.await.ok().unwrap() }
    };
    let seen = io.block_on(async {
        ask(&io).await;
        let own = io.clone();
        let repair = io.spawn_as(OpClass::Repair, async move {
            ask(&own).await;
            let child = own.clone();
            own.spawn(async move { ask(&child).await }).await;
            own.set_class(OpClass::Metadata);
            own.yield_now().await;
            ask(&own).await;
            // Work handed in by other threads belongs to no task, and so to no class.
            own.remote().run(move |io| {
                let io2 = io.clone();
                drop(io.spawn(async move { ask(&io2).await }));
            });
        });
        repair.await;
        let mut group = io.group_of(OpClass::Metadata);
        group.flush(member);
        group.submit().await.ok().unwrap();
        seen.await
    });
    let (mut early, late) = (seen[..4].to_vec(), &seen[4..]);
    early.sort_by_key(|class| *class as u8);
    assert_eq!(early, [OpClass::Client, OpClass::Repair, OpClass::Repair, OpClass::Metadata]);
    assert!(late.contains(&OpClass::Client) && late.contains(&OpClass::Metadata), "{late:?}");
}
