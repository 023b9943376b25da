//! What the executor and the op table cost: nanoseconds of processor time for each 4 KiB read.
//!
//! `cargo run --release -p brindle-io --example reactor_cost [READS] [FILE OR DEVICE]...`
//!
//! Null members of the memory world complete at once, so that the time is the crate's own. A file or device that is
//! named is read, never written, through the ring. Medians of [`RUNS`] runs.

use brindle_io::device::{Access, Device};
use brindle_io::memory::Memory;
use brindle_io::sync::join_all;
use brindle_io::uring::Uring;
use brindle_io::{Io, MemberId, PAGE, Pool};

const RUNS: usize = 9;

fn main() {
    let mut args = std::env::args().skip(1).peekable();
    let reads = args.peek().and_then(|arg| arg.parse().ok());
    if reads.is_some() {
        args.next();
    }
    let memory = Memory::new();
    let null = memory.add_null(1 << 40);
    let io = Io::new(Box::new(memory));
    let pool = io.pool(1 << 20);
    report("null member", &io, &pool, null, reads.unwrap_or(2_000_000));
    for path in args {
        let opened = Uring::new().map_err(|error| error.to_string());
        let member = opened.and_then(|uring| {
            let device = Device::open(&path, Access::Examine).map_err(|error| error.to_string())?;
            Ok((uring.add_member(device), uring))
        });
        match member {
            Ok((member, uring)) => {
                let io = Io::new(Box::new(uring));
                let pool = io.pool(1 << 20);
                report(&path, &io, &pool, member, reads.unwrap_or(200_000));
            }
            Err(why) => eprintln!("{why}"),
        }
    }
}

fn report(name: &str, io: &Io, pool: &Pool, member: MemberId, reads: usize) {
    let pages = io.member_info(member).map_or(0, |info| info.size / PAGE as u64);
    for depth in [1, 32] {
        let ns = median(|| io.block_on(tasks(io, pool, member, pages, depth, reads)));
        println!("{name}: {depth:>2} tasks, one read each      {:>8.1} ns a read", ns / reads as f64);
    }
    let ns = median(|| io.block_on(groups(io, pool, member, pages, 32, reads)));
    println!("{name}:  1 task, groups of 32 reads  {:>8.1} ns a read", ns / reads as f64);
}

/// Nanoseconds.
fn median(mut run: impl FnMut()) -> f64 {
    run(); // caches and tables warm up
    let mut times: Vec<_> = (0..RUNS)
        .map(|_| {
            let began = processor_time();
            run();
            processor_time() - began
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[RUNS / 2]
}

/// What this thread has run for, in nanoseconds: other programs, and waiting for a device, do not count.
fn processor_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    stat.split(' ').next().and_then(|word| word.parse().ok()).expect("nanoseconds come first")
}

/// Pages in an order without pattern: a linear congruential generator (Knuth, MMIX).
fn next_page(state: &mut u64, pages: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    // Scaled rather than divided, so that the measurement is not of a division.
    ((u128::from(*state) * u128::from(pages)) >> 64) as u64
}

/// `depth` tasks that each read one page at a time: an export's request slots.
async fn tasks(io: &Io, pool: &Pool, member: MemberId, pages: u64, depth: usize, reads: usize) {
    let slots = (0..depth).map(|slot| {
        let (io2, pool) = (io.clone(), pool.clone());
        io.spawn(async move {
            let buf = pool.alloc(PAGE).await;
            let (into, mut state) = (buf.all(), slot as u64);
            for _ in 0..reads / depth {
                let mut group = io2.group();
                group.read(member, next_page(&mut state, pages) * PAGE as u64, &into);
                assert!(group.submit().await.is_ok());
            }
        })
    });
    let slots: Vec<_> = slots.collect();
    join_all(slots).await;
}

/// One task that reads `depth` pages at a time.
async fn groups(io: &Io, pool: &Pool, member: MemberId, pages: u64, depth: usize, reads: usize) {
    let mut buffers = Vec::new();
    for _ in 0..depth {
        buffers.push(pool.alloc(PAGE).await.all());
    }
    let mut state = 0;
    for _ in 0..reads / depth {
        let mut group = io.group();
        for into in &buffers {
            group.read(member, next_page(&mut state, pages) * PAGE as u64, into);
        }
        assert!(group.submit().await.is_ok());
    }
}
