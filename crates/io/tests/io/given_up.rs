//! Operations that are given up: deadlines, forsaken members, orphans and their memory.

use std::cell::Cell;
use std::rc::Rc;

use brindle_io::memory::Memory;
use brindle_io::sync::{Either, race};
use brindle_io::{Duration, Io, MemberId, OpError, PAGE, PathTarget, Pool};

const SHORT: Duration = Duration::from_millis(5);

/// Two members, of which the second hangs, and memory of four pages.
struct World {
    memory: Memory,
    io: Io,
    pool: Pool,
    well: MemberId,
    hung: MemberId,
}

fn world() -> World {
    let memory = Memory::new();
    let (well, hung) = (memory.add_ram(1 << 20), memory.add_ram(1 << 20));
    memory.hang(hung);
    let io = Io::new(Box::new(memory.clone()));
    World { pool: io.pool(4 * PAGE), memory, io, well, hung }
}

#[test]
fn what_has_not_completed_by_its_deadline_fails_for_whoever_waits() {
    let World { memory, io, pool, well, hung } = world();
    io.block_on(async {
        let (a, b) = (pool.alloc(PAGE).await, pool.alloc(PAGE).await);
        let mut group = io.group();
        group.read(well, 0, &a.all());
        let late = group.read(hung, 0, &b.all());
        let until = io.now().after(SHORT);
        let outcome = group.submit_by(until).await;
        assert!(io.now() >= until);
        let failures: Vec<_> = outcome.failures().iter().map(|f| (f.tag, f.error)).collect();
        assert_eq!(failures, [(late, OpError::TimedOut)]);
        assert_eq!((io.orphans(hung), io.orphans(well), io.in_flight()), (1, 0, 1));
        memory.release(hung);
        io.orphans_ended(hung).await;
        assert_eq!((io.orphans(hung), io.in_flight()), (0, 0));
    });
}

#[test]
fn what_completes_in_time_is_no_orphan_and_later_groups_have_their_own_deadline() {
    let World { memory, io, pool, hung, .. } = world();
    io.block_on(async {
        let buf = pool.alloc(PAGE).await;
        let flush = |span| {
            let mut group = io.group();
            group.flush(hung);
            group.submit_by(io.now().after(span))
        };
        let (long, short) = (flush(Duration::from_secs(3600)), flush(SHORT));
        assert_eq!(short.await.ok(), Err(OpError::TimedOut));
        assert_eq!(io.orphans(hung), 1, "the other has time left");
        memory.release(hung);
        long.await.ok().unwrap();
        let mut group = io.group();
        group.write(hung, 0, &buf.all(), false);
        group.submit_by(io.now().after(Duration::from_secs(3600))).await.ok().unwrap();
        assert!(io.group().submit_by(io.now()).await.is_ok(), "an empty group is done");
        assert_eq!((io.orphans(hung), io.in_flight()), (0, 0));
    });
}

#[test]
fn an_orphan_keeps_its_memory_until_its_real_end() {
    let World { memory, io, pool, well, hung } = world();
    memory.poke(hung, 0, &[7; PAGE]);
    memory.poke(well, 0, &[8; PAGE]);
    io.block_on(async {
        let lost = pool.alloc(PAGE).await;
        let mut group = io.group();
        group.read(hung, 0, &lost.all());
        assert_eq!(group.submit_by(io.now().after(SHORT)).await.ok(), Err(OpError::TimedOut));
        drop(lost);
        assert_eq!(pool.free_bytes(), 3 * PAGE, "nobody else gets memory that the device may still fill");
        let others: Vec<_> = std::iter::from_fn(|| pool.try_alloc(PAGE)).collect();
        assert_eq!(others.len(), 3);
        let mut again = io.group();
        again.read(well, 0, &others[0].all());
        again.submit().await.ok().unwrap();
        memory.release(hung);
        io.orphans_ended(hung).await;
        assert_eq!(others[0].bytes()[0], 8, "the late answer went elsewhere");
        assert_eq!(pool.free_bytes(), PAGE);
    });
}

#[test]
#[should_panic(expected = "being written to")]
fn the_memory_of_an_orphaned_read_can_not_be_looked_at() {
    let World { io, pool, hung, .. } = world();
    io.block_on(async {
        let buf = pool.alloc(PAGE).await;
        let mut group = io.group();
        group.read(hung, 0, &buf.all());
        let _ = group.submit_by(io.now()).await;
        let _ = buf.bytes()[0];
    });
}

#[test]
fn an_orphaned_write_still_lands_from_memory_that_nobody_changed() {
    let World { memory, io, pool, hung, .. } = world();
    io.block_on(async {
        let buf = pool.alloc(PAGE).await;
        buf.bytes_mut().fill(9);
        let mut group = io.group();
        group.write(hung, 0, &buf.all(), false);
        assert_eq!(group.submit_by(io.now()).await.ok(), Err(OpError::TimedOut));
        assert_eq!(buf.bytes()[0], 9, "it may be looked at");
        drop(buf);
        for _ in 0..3 {
            pool.alloc(PAGE).await.bytes_mut().fill(1);
        }
        memory.release(hung);
        io.orphans_ended(hung).await;
        let mut byte = [0];
        memory.peek(hung, PAGE as u64 - 1, &mut byte);
        assert_eq!(byte, [9]);
    });
}

#[test]
fn a_forsaken_member_answers_at_once_now_and_later() {
    let World { memory, io, pool, well, hung } = world();
    io.block_on(async {
        let buf = pool.alloc(PAGE).await;
        let mut group = io.group();
        group.write(well, 0, &buf.all(), false);
        group.write(hung, 0, &buf.all(), false);
        group.flush(hung);
        let waiting = group.submit();
        io.yield_now().await;
        io.forsake(hung);
        let outcome = waiting.await;
        assert_eq!(outcome.failures().iter().map(|f| f.error).collect::<Vec<_>>(), [OpError::Gone; 2]);
        assert_eq!(io.orphans(hung), 2);
        memory.release(hung);
        io.orphans_ended(hung).await;
        let mut group = io.group();
        group.read(hung, 0, &pool.alloc(PAGE).await.all());
        assert_eq!(group.submit().await.ok(), Err(OpError::Gone), "although it answers again");
        assert_eq!(memory.op_counts(hung).0, 0, "it was not even asked");
        let looked = io.probe(hung, io.now().after(Duration::from_secs(1))).await;
        assert_eq!(
            looked.map(|probe| probe.place),
            Ok(PathTarget::There),
            "whether it is there is told all the same"
        );
        let mut group = io.group();
        group.write(well, 0, &buf.all(), false);
        group.submit().await.ok().unwrap();
        assert_eq!((io.orphans(hung), io.in_flight()), (0, 0));
    });
}

#[test]
fn forsaking_ends_what_nobody_waited_for_too() {
    let World { memory, io, pool, hung, .. } = world();
    io.block_on(async {
        let buf = pool.alloc(PAGE).await;
        for timed in [true, false] {
            let mut group = io.group();
            group.read(hung, 0, &buf.all());
            let until = io.now().after(SHORT);
            drop(if timed { group.submit_by(until) } else { group.submit() });
        }
        io.sleep(2 * SHORT).await;
        assert_eq!(io.orphans(hung), 1, "dropped, and due");
        io.forsake(hung);
        assert_eq!(io.orphans(hung), 2);
        memory.release(hung);
        io.orphans_ended(hung).await;
    });
    assert_eq!((io.in_flight(), pool.free_bytes()), (0, 4 * PAGE));
}

#[test]
fn the_first_failure_is_known_before_the_last_operation_ends() {
    let World { memory, io, pool, well, hung } = world();
    memory.refuse_writes(well);
    io.block_on(async {
        let buf = pool.alloc(PAGE).await;
        let mut group = io.group();
        group.write(hung, 0, &buf.all(), false);
        let bad = group.write(well, 0, &buf.all(), false);
        let mut pending = group.submit();
        assert!(!pending.failed_early() && pending.failures_so_far().is_empty());
        let failure = pending.nth_failure(0).await.expect("one has failed");
        assert_eq!((failure.tag, failure.error), (bad, OpError::Medium(5)));
        assert!(pending.failed_early());
        assert_eq!(pending.failures_so_far(), [failure]);
        assert_eq!(pending.nth_failure(0).await, Some(failure), "it does not change");
        memory.release(hung);
        assert_eq!(pending.await.failures(), [failure]);
        // Without a failure it waits for the end.
        memory.hang(hung);
        let mut group = io.group();
        group.flush(hung);
        let mut pending = group.submit();
        match race(pending.nth_failure(0), io.sleep(SHORT)).await {
            Either::First(found) => panic!("{found:?} while it hangs"),
            Either::Second(()) => memory.release(hung),
        }
        assert_eq!(pending.nth_failure(0).await, None);
        pending.await.ok().unwrap();
    });
}

#[test]
fn a_served_member_is_given_up_like_any_other() {
    let World { memory, io, pool, well, .. } = world();
    let served = io.serve_member(io.member_info(well).unwrap());
    let member = served.member();
    let flush = |io: &Io| {
        let mut group = io.group();
        group.flush(member);
        group.submit_by(io.now().after(SHORT))
    };
    io.block_on(async {
        assert_eq!(flush(&io).await.ok(), Err(OpError::TimedOut));
        assert_eq!(io.orphans(member), 0, "no task had taken it: it ended unserved");
        let taken = Rc::new(Cell::new(false));
        let seen = Rc::clone(&taken);
        let task = io.spawn(async move {
            let request = served.next().await;
            seen.set(true);
            (request, served)
        });
        assert_eq!(flush(&io).await.ok(), Err(OpError::TimedOut));
        assert!(taken.get());
        assert_eq!(io.orphans(member), 1);
        let (request, served) = task.await;
        request.complete(Ok(()));
        io.orphans_ended(member).await;
        io.forsake(member);
        assert_eq!(flush(&io).await.ok(), Err(OpError::Gone));
        drop(served);
    });
    drop((memory, pool));
    assert_eq!(io.in_flight(), 0);
}

/// Slots and groups of the table are used again; an orphan's only after its end.
#[test]
fn late_answers_are_nobody_elses() {
    let World { memory, io, pool, well, hung } = world();
    memory.poke(well, 0, &[1; PAGE]);
    io.block_on(async {
        for round in 0..50u8 {
            memory.hang(hung);
            memory.poke(hung, 0, &[round; PAGE]);
            let mut group = io.group();
            group.read(hung, 0, &pool.alloc(PAGE).await.all());
            assert_eq!(group.submit_by(io.now()).await.ok(), Err(OpError::TimedOut));
            for _ in 0..3 {
                let buf = pool.alloc(PAGE).await;
                let mut group = io.group();
                group.read(well, 0, &buf.all());
                let pending = group.submit();
                memory.release(hung);
                pending.await.ok().unwrap();
                assert_eq!(buf.bytes()[0], 1);
            }
        }
        io.orphans_ended(hung).await;
    });
    assert_eq!((io.in_flight(), pool.free_bytes()), (0, 4 * PAGE));
}

#[test]
fn an_executor_ends_although_a_member_hangs_and_its_memory_is_never_given_out_again() {
    let World { memory, io, pool, hung, .. } = world();
    let buf = pool.try_alloc(PAGE).unwrap();
    let mut group = io.group();
    group.read(hung, 0, &buf.all());
    drop(group.submit());
    drop(buf);
    io.set_grace(SHORT);
    io.shutdown();
    assert_eq!(io.in_flight(), 1, "one operation is not answered");
    assert_eq!((io.orphans(hung), pool.free_bytes()), (1, 3 * PAGE));
    // It can still be used, and the late answer is no harm.
    memory.release(hung);
    io.block_on(io.orphans_ended(hung));
    io.shutdown();
    assert_eq!((io.in_flight(), pool.free_bytes()), (0, 4 * PAGE));
}

#[test]
fn an_executor_that_is_dropped_leaves_the_arenas_of_its_orphans_behind() {
    let World { memory, io, pool, hung, .. } = world();
    let kept = pool.try_alloc(PAGE).unwrap();
    let mut group = io.group();
    group.read(hung, 0, &pool.try_alloc(PAGE).unwrap().all());
    drop(group.submit());
    io.set_grace(SHORT);
    drop(io);
    assert_eq!(pool.free_bytes(), 2 * PAGE, "the orphan has its page for ever");
    kept.bytes_mut().fill(1);
    memory.release(hung);
    let io = Io::new(Box::new(memory));
    io.block_on(io.sleep(SHORT));
    assert_eq!(io.in_flight(), 0, "the new executor gets no answers of the old one");
}
