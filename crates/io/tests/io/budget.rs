//! Pools of several executors, each on a thread of its own, that draw on one budget.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use brindle_io::memory::Memory;
use brindle_io::{ARENA, BudgetShare, Buf, Io, PAGE, Pool, Remote};

/// An executor on a thread of its own, which holds buffers as it is told.
struct Holder {
    remote: Remote,
    orders: Sender<Order>,
    /// The state of its pool after each order.
    states: Receiver<State>,
    thread: JoinHandle<()>,
}

enum Order {
    /// Take a buffer, if there is one.
    Take(usize),
    /// Give the oldest back.
    Give,
    End,
}

#[derive(Debug, PartialEq, Eq)]
struct State {
    /// Bytes of its buffers.
    held: usize,
    arenas: usize,
    free: usize,
}

/// A thread that does nothing but what it is told, and sleeps in between.
fn holder(share: BudgetShare) -> Holder {
    let ((orders, next), (say, states)) = (mpsc::channel(), mpsc::channel());
    let (tell, told) = mpsc::channel();
    let thread = thread::spawn(move || {
        let io = Io::new(Box::new(Memory::new()));
        let pool = io.pool_within(share);
        tell.send(io.remote()).expect("awaited");
        io.block_on(obey(&io, &pool, &next, &say));
        drop(pool);
        io.shutdown();
    });
    Holder { remote: told.recv().expect("it begins"), orders, states, thread }
}

async fn obey(io: &Io, pool: &Pool, next: &Receiver<Order>, say: &Sender<State>) {
    let mut held: Vec<Buf> = Vec::new();
    let me = io.current_task();
    ME.set(Some(me));
    loop {
        let order = core::future::poll_fn(|_| match next.try_recv() {
            Ok(order) => core::task::Poll::Ready(order),
            Err(_) => core::task::Poll::Pending,
        });
        match order.await {
            Order::Take(len) => held.extend(pool.try_alloc(len)),
            Order::Give => drop(held.remove(0)),
            Order::End => return,
        }
        let bytes = held.iter().map(|buf| buf.len()).sum();
        assert_eq!(pool.used_bytes(), bytes);
        let state = State { held: bytes, arenas: pool.arena_bytes(), free: pool.free_bytes() };
        say.send(state).expect("awaited");
    }
}

thread_local! {
    static ME: core::cell::Cell<Option<brindle_io::TaskId>> = const { core::cell::Cell::new(None) };
}

impl Holder {
    fn send(&self, order: Order) {
        self.orders.send(order).expect("it obeys");
        self.remote.run(|io| ME.get().into_iter().for_each(|task| io.wake(task)));
    }

    fn tell(&self, order: Order) -> State {
        self.send(order);
        self.states.recv_timeout(Duration::from_secs(20)).expect("it is awake")
    }

    fn end(self) {
        self.send(Order::End);
        self.thread.join().expect("it has ended well");
    }
}

/// An executor here and another one, with a budget of so many arenas.
fn pair(arenas: usize) -> (Io, Pool, Holder) {
    let mut shares = BudgetShare::of(arenas * ARENA, 2);
    let io = Io::new(Box::new(Memory::new()));
    let pool = io.pool_within(shares.remove(0));
    (io, pool, holder(shares.remove(0)))
}

#[test]
fn the_other_one_can_not_have_what_one_holds() {
    let (_io, pool, other) = pair(3);
    assert_eq!((pool.capacity(), pool.free_bytes()), (3 * ARENA, 3 * ARENA));
    let state = other.tell(Order::Take(PAGE));
    assert_eq!(state, State { held: PAGE, arenas: ARENA, free: 3 * ARENA - PAGE });
    assert_eq!(pool.free_bytes(), 2 * ARENA, "arenas of the other one are none of its own");
    assert!(pool.try_alloc(4 * ARENA).is_none());
    let two = pool.try_alloc(2 * ARENA).expect("nobody has them");
    assert_eq!((pool.free_bytes(), pool.arena_bytes()), (0, 2 * ARENA));
    assert!(pool.try_alloc(PAGE).is_none());
    let state = other.tell(Order::Take(2 * ARENA));
    assert_eq!(state, State { held: PAGE, arenas: ARENA, free: ARENA - PAGE });
    drop(two);
    assert_eq!(pool.free_bytes(), 2 * ARENA);
    other.end();
    assert_eq!(pool.free_bytes(), 3 * ARENA, "with its pool it gives all back");
}

#[test]
fn unused_arenas_come_at_once_when_the_other_one_waits_the_kept_one_too() {
    let (io, pool, other) = pair(4);
    assert_eq!(other.tell(Order::Take(4 * ARENA)).arenas, 4 * ARENA);
    assert_eq!(other.tell(Order::Give).arenas, 4 * ARENA, "they are kept for the next");
    assert!(pool.try_alloc(PAGE).is_none());
    let all = io.block_on(pool.alloc(4 * ARENA));
    assert_eq!(all.len(), 4 * ARENA);
    // Nobody waits any more: the other one keeps what it gets.
    drop(all);
    drop(io.block_on(pool.alloc(PAGE)));
    assert_eq!(pool.arena_bytes(), 4 * ARENA);
    other.end();
}

#[test]
fn what_is_given_back_while_the_other_one_waits_comes_at_once() {
    let (io, pool, other) = pair(2);
    for _ in 0..2 {
        assert_eq!(other.tell(Order::Take(ARENA)).arenas % ARENA, 0);
    }
    let waiting = [ARENA, PAGE].map(|len| {
        let pool = pool.clone();
        io.spawn(async move { pool.alloc(len).await })
    });
    io.block_on(io.yield_now());
    assert!(pool.is_wanted());
    other.send(Order::Give);
    let [first, second] = waiting;
    let first = io.block_on(first);
    assert_eq!(other.states.recv().expect("it is awake").held, ARENA);
    assert_eq!(
        (pool.arena_bytes(), pool.is_wanted()),
        (ARENA, true),
        "the second one has its turn behind it"
    );
    other.send(Order::Give);
    let second = io.block_on(second);
    assert_eq!(pool.free_bytes(), ARENA - PAGE);
    drop((first, second));
    other.end();
}

/// Both hold what the other wants, and take turns without end.
#[test]
fn two_that_want_all_of_it_take_turns() {
    const ROUNDS: usize = 2000;
    let shares = BudgetShare::of(2 * ARENA, 2);
    let threads = shares.into_iter().map(|share| {
        thread::spawn(move || {
            let io = Io::new(Box::new(Memory::new()));
            let pool = io.pool_within(share);
            io.block_on(async {
                for round in 0..ROUNDS {
                    let len = if round % 3 == 0 { 2 * ARENA } else { PAGE << (round % 11) };
                    let buf = pool.alloc(len).await;
                    assert!(pool.arena_bytes() <= 2 * ARENA);
                    if round % 2 == 0 {
                        io.yield_now().await;
                    }
                    drop(buf);
                }
            });
            drop(pool);
            io.shutdown();
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().expect("it gets its turns"));
}
