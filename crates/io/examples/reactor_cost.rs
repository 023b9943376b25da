//! The cost of the executor and the op table: nanoseconds per 4 KiB transfer.
//!
//! `cargo run --profile bench -p brindle-io --example reactor_cost [--write] [COUNT] [FILE OR DEVICE]...`
//!
//! Null members of the memory world complete at once, so that the time is the crate's own. A file or device that is
//! named goes through the ring; it is read, or with `--write` overwritten. Of each figure, medians of [`RUNS`] runs:
//! processor time of the executor's thread, of the whole process with the kernel's workers, and time that passed.

use brindle_io::device::{DeviceAccess, OpenDevice};
use brindle_io::memory::Memory;
use brindle_io::sync::join_all;
use brindle_io::uring::Uring;
use brindle_io::{Io, MemberId, PAGE, Pool};
use std::time::Instant;

const RUNS: usize = 9;

/// The members that the transfers go to.
struct Bench {
    io: Io,
    pool: Pool,
    member: MemberId,
    pages: u64,
    write: bool,
}

fn main() {
    let mut args = std::env::args().skip(1).peekable();
    let write = args.next_if(|arg| arg == "--write").is_some();
    let count: Option<usize> = args.peek().and_then(|arg| arg.parse().ok());
    if count.is_some() {
        args.next();
    }
    println!("{:<44} {:>9} {:>9} {:>9}", "nanoseconds each", "thread", "process", "passed");
    let memory = Memory::new();
    let null = memory.add_null(1 << 40);
    let null = Bench::new(Io::new(Box::new(memory)), null, write);
    null.report("null member", count.unwrap_or(2_000_000));
    for path in args {
        match open(&path, write) {
            Ok(bench) => bench.report(&path, count.unwrap_or(200_000)),
            Err(why) => eprintln!("{why}"),
        }
    }
}

fn open(path: &str, write: bool) -> Result<Bench, String> {
    let uring = Uring::new().map_err(|error| error.to_string())?;
    let access = if write { DeviceAccess::Write } else { DeviceAccess::Examine };
    let device = OpenDevice::open(path, access).map_err(|error| error.to_string())?;
    let member = uring.add_member(device);
    Ok(Bench::new(Io::new(Box::new(uring)), member, write))
}

impl Bench {
    fn new(io: Io, member: MemberId, write: bool) -> Self {
        let pages = io.member_info(member).map_or(0, |info| info.size / PAGE as u64);
        Self { pool: io.pool(1 << 20), pages, io, member, write }
    }

    fn report(&self, name: &str, count: usize) {
        for depth in [1, 32] {
            let times = medians(|| self.io.block_on(self.tasks(depth, count)));
            tell(&format!("{name}: {depth:>2} tasks, one each"), times, count);
        }
        let times = medians(|| self.io.block_on(self.groups(32, count)));
        tell(&format!("{name}:  1 task, groups of 32"), times, count);
    }

    /// `depth` tasks that each transfer one page at a time: an export's request slots.
    async fn tasks(&self, depth: usize, count: usize) {
        let slots = (0..depth).map(|slot| {
            let (io, pool) = (self.io.clone(), self.pool.clone());
            let (member, pages, write) = (self.member, self.pages, self.write);
            self.io.spawn(async move {
                let buf = pool.alloc(PAGE).await;
                let (memory, mut state) = (buf.all(), slot as u64);
                for _ in 0..count / depth {
                    let mut group = io.group();
                    let offset = next_page(&mut state, pages) * PAGE as u64;
                    if write {
                        group.write(member, offset, &memory, false);
                    } else {
                        group.read(member, offset, &memory);
                    }
                    assert!(group.submit().await.is_ok());
                }
            })
        });
        let slots: Vec<_> = slots.collect();
        join_all(slots).await;
    }

    /// One task that transfers `depth` pages at a time.
    async fn groups(&self, depth: usize, count: usize) {
        let mut buffers = Vec::new();
        for _ in 0..depth {
            buffers.push(self.pool.alloc(PAGE).await.all());
        }
        let mut state = 0;
        for _ in 0..count / depth {
            let mut group = self.io.group();
            for memory in &buffers {
                let offset = next_page(&mut state, self.pages) * PAGE as u64;
                if self.write {
                    group.write(self.member, offset, memory, false);
                } else {
                    group.read(self.member, offset, memory);
                }
            }
            assert!(group.submit().await.is_ok());
        }
    }
}

fn tell(what: &str, times: [f64; 3], count: usize) {
    let [thread, process, passed] = times.map(|nanos| nanos / count as f64);
    println!("{what:<44} {thread:>9.1} {process:>9.1} {passed:>9.1}");
}

/// Nanoseconds: of this thread, of the process, and that passed.
fn medians(mut run: impl FnMut()) -> [f64; 3] {
    run(); // caches and tables warm up
    let runs: Vec<_> = (0..RUNS)
        .map(|_| {
            let (thread, process, began) = (thread_time(), process_time(), Instant::now());
            run();
            let passed = began.elapsed().as_nanos() as f64;
            [thread_time() - thread, process_time() - process, passed]
        })
        .collect();
    [0, 1, 2].map(|clock| {
        let mut times: Vec<_> = runs.iter().map(|run| run[clock]).collect();
        times.sort_by(f64::total_cmp);
        times[RUNS / 2]
    })
}

/// Processor time of this thread: other programs, and waiting for a device, are not counted.
fn thread_time() -> f64 {
    ran_for(std::path::Path::new("/proc/thread-self")).expect("Linux tells")
}

/// Processor time of the process's threads, among them the kernel's worker threads for it that are alive.
fn process_time() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").expect("Linux tells");
    threads.flatten().filter_map(|thread| ran_for(&thread.path())).sum()
}

fn ran_for(thread: &std::path::Path) -> Option<f64> {
    let stat = std::fs::read_to_string(thread.join("schedstat")).ok()?;
    stat.split(' ').next()?.parse().ok()
}

/// Pages in an order without pattern: a linear congruential generator (Knuth, MMIX).
fn next_page(state: &mut u64, pages: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    // Scaled rather than divided, so that the measurement is not of a division.
    ((u128::from(*state) * u128::from(pages)) >> 64) as u64
}
