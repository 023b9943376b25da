//! The cost of a request that another executor carries out with memory that it is lent, beside one that needs no other.
//!
//! `cargo run --profile bench -p brindle-io --example forwarding_cost [--markdown]`
//!
//! Home has [`DEPTH`] reads of 4 KiB of its own in flight all the time, on a null member that completes at once. A second executor on a
//! thread of its own has as many in flight that home carries out. Figures are processor time of both threads, medians of [`RUNS`] runs
//! in which the two ways take turns; wake-ups are those of both executors.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use brindle_io::memory::Memory;
use brindle_io::{Berth, Io, MemberId, Slice, ThreadClock};

const RUNS: usize = 9;
const DEPTH: usize = 32;
/// The time of a run.
const RUN: Duration = Duration::from_millis(300);
const HOME: usize = 0;

/// One run: what both threads used, and what was read.
#[derive(Clone, Copy, Default)]
struct Run {
    nanos: u64,
    own: u64,
    forwarded: u64,
    wake_ups: u64,
}

/// State that the two threads of a run have in common.
#[derive(Default)]
struct Common {
    ended: AtomicBool,
    gone: AtomicBool,
    forwarded: AtomicU64,
    nanos: AtomicU64,
    wake_ups: AtomicU64,
}

fn main() {
    let mut more = Vec::new();
    let mut alone = Vec::new();
    let mut woken = Vec::new();
    for _ in 0..RUNS {
        let by_itself = run(false);
        let home = by_itself.nanos as f64 / by_itself.own as f64;
        let both = run(true);
        let rest = both.nanos as f64 - home * both.own as f64;
        alone.push(home);
        more.push(rest / both.forwarded as f64 - home);
        woken.push(both.wake_ups as f64 * 20.0 / both.forwarded as f64);
    }
    let [home, more, woken] = [alone, more, woken].map(median);
    if std::env::args().any(|arg| arg == "--markdown") {
        println!(
            "| 4K read, 32 in flight | ns at home | ns more, forwarded | wake-ups for 20 |\n|---|---:|---:|---:|"
        );
        println!("| of a null member, home busy | {home:.0} | {more:.0} | {woken:.2} |");
    } else {
        println!("{home:.0} ns at home, {more:.0} ns more if forwarded, {woken:.2} wake-ups for 20 requests");
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Runs home, with another executor beside it or alone.
fn run(with_other: bool) -> Run {
    let common = Arc::<Common>::default();
    let memory = Memory::new();
    let member = memory.add_null(1 << 40);
    let io = Io::new(Box::new(memory));
    let mut berths = Berth::crew(2).into_iter();
    let other = with_other.then(|| {
        berths.next().into_iter().for_each(|berth| io.join(berth));
        let (berth, common) = (berths.next().expect("a crew of two"), Arc::clone(&common));
        thread::spawn(move || ask(berth, &common))
    });
    if with_other {
        (0..DEPTH).for_each(|_| drop(io.spawn(answer(io.clone(), member))));
    }
    let own = Rc::new(Cell::new(0));
    let pool = io.pool(1 << 20);
    for _ in 0..DEPTH {
        let (io_, pool, own) = (io.clone(), pool.clone(), Rc::clone(&own));
        drop(io.spawn(async move {
            let buf = pool.alloc(4096).await;
            loop {
                read(&io_, member, &buf.all()).await;
                own.set(own.get() + 1);
            }
        }));
    }
    let clock = ThreadClock::own().expect("a thread's clock");
    let (before, begun) = (clock.used(), std::time::Instant::now());
    io.block_on(async {
        while begun.elapsed() < RUN {
            io.another_task_runs().await;
        }
        common.ended.store(true, Ordering::Relaxed);
        while with_other && !common.gone.load(Ordering::Relaxed) {
            io.another_task_runs().await;
        }
    });
    let nanos = (clock.used() - before).as_nanos() as u64;
    other.into_iter().for_each(|other| other.join().expect("it has ended well"));
    let (_, woken) = io.parcels_sent();
    io.shutdown();
    Run {
        nanos: nanos + common.nanos.load(Ordering::Relaxed),
        own: own.get(),
        forwarded: common.forwarded.load(Ordering::Relaxed),
        wake_ups: woken + common.wake_ups.load(Ordering::Relaxed),
    }
}

async fn read(io: &Io, member: MemberId, memory: &Slice) {
    let mut group = io.group();
    group.read(member, 0, memory);
    assert!(group.submit().await.is_ok(), "a null member does not fail");
}

/// Carries out requests of the other executor.
async fn answer(io: Io, member: MemberId) {
    loop {
        let loan = io.next_loan().await;
        read(&io, member, &loan.memory()[0]).await;
        loan.answer(0);
    }
}

/// The other executor: asks until the run has ended.
fn ask(berth: Berth, common: &Arc<Common>) {
    let io = Io::new(Box::new(Memory::new()));
    io.join(berth);
    let pool = io.pool(1 << 20);
    let clock = ThreadClock::own().expect("a thread's clock");
    let before = clock.used();
    io.block_on(async {
        let lanes = (0..DEPTH).map(|_| {
            let (io_, pool, common) = (io.clone(), pool.clone(), Arc::clone(common));
            io.spawn(async move {
                let buf = pool.alloc(4096).await;
                let mut count = 0;
                while !common.ended.load(Ordering::Relaxed) {
                    io_.ask(HOME, [0; 4], true, &[buf.all()]).await.expect("home answers");
                    count += 1;
                }
                count
            })
        });
        for lane in lanes.collect::<Vec<_>>() {
            common.forwarded.fetch_add(lane.await, Ordering::Relaxed);
        }
    });
    common.nanos.store((clock.used() - before).as_nanos() as u64, Ordering::Relaxed);
    common.wake_ups.store(io.parcels_sent().1, Ordering::Relaxed);
    common.gone.store(true, Ordering::Relaxed);
    io.shutdown();
}
