//! What the engine costs: nanoseconds of processor time for each request on null members, in all and above the bare
//! reactor doing the same request as one operation on one member.
//!
//! `cargo run --release -p brindle-array --example engine_cost [--markdown] [SECONDS]`
//!
//! Each shape and the bare reactor take turns; medians of [`RUNS`] turns. One thread, [`DEPTH`] requests in flight.

use std::rc::Rc;

use brindle_array::{Array, Config, Device, Volume};
use brindle_io::memory::Memory;
use brindle_io::sync::join_all;
use brindle_io::{Io, MemberId, Pool, Slice};
use brindle_layout::{Geometry, Layout, Level, ParityLayout, Raid10Layout};

const RUNS: usize = 9;
const DEPTH: usize = 32;
/// Bytes of each null member: of what nobody keeps, there can be much.
const MEMBER: u64 = 1 << 38;
const CHUNK: u64 = 64 << 10;

/// One row of the table.
struct Subject {
    name: &'static str,
    level: Level,
    layout: Layout,
    members: usize,
    /// Bytes of a request.
    len: usize,
    write: bool,
}

/// Who does the requests.
#[derive(Clone)]
enum Target {
    Bare(Io, MemberId),
    Array(Array),
}

fn subjects() -> Vec<Subject> {
    let near = Layout::Raid10(Raid10Layout::near(2));
    let symmetric = Layout::Parity(ParityLayout::LeftSymmetric);
    let mut subjects = Vec::new();
    let mut add = |name, level, layout, members, requests: &[(usize, bool)]| {
        for &(len, write) in requests {
            subjects.push(Subject { name, level, layout, members, len, write });
        }
    };
    let (small, middle, large) = (4 << 10, 128 << 10, 1 << 20);
    let all = [(small, false), (small, true), (middle, false), (middle, true), (large, false), (large, true)];
    add("RAID 0 x4", Level::Raid0, Layout::None, 4, &all);
    add("RAID 0 x12", Level::Raid0, Layout::None, 12, &all);
    add("RAID 1 x2", Level::Raid1, Layout::None, 2, &all);
    add("RAID 10 x4", Level::Raid10, near, 4, &all);
    add("RAID 5 x4", Level::Raid5, symmetric, 4, &all);
    add("RAID 6 x6", Level::Raid6, symmetric, 6, &all);
    add("RAID 6 x12", Level::Raid6, symmetric, 12, &[(small, false), (small, true)]);
    subjects
}

fn main() {
    let mut markdown = false;
    let mut seconds = 1.0;
    for arg in std::env::args().skip(1) {
        match arg.parse() {
            Ok(number) => seconds = number,
            Err(_) if arg == "--markdown" => markdown = true,
            Err(_) => {
                eprintln!("engine_cost [--markdown] [SECONDS a shape]");
                std::process::exit(2);
            }
        }
    }
    if markdown {
        println!("| array | request | ns | bare ns | above |\n|---|---|---:|---:|---:|");
    }
    for subject in subjects() {
        let (ours, bare) = measure(&subject, seconds);
        let kind = if subject.write { "write" } else { "read" };
        let request = format!("{}K random {kind}", subject.len >> 10);
        let (name, above) = (subject.name, ours - bare);
        if markdown {
            println!("| {name} | {request} | {ours:.0} | {bare:.0} | {above:.0} |");
        } else {
            println!("{name:<11} {request:<18} {ours:>8.0} ns  bare {bare:>6.0}  above {above:>8.0}");
        }
    }
}

/// Nanoseconds a request: of the array, and of the bare reactor.
fn measure(subject: &Subject, seconds: f64) -> (f64, f64) {
    let memory = Memory::new();
    let ids: Vec<_> = (0..subject.members).map(|_| memory.add_null(MEMBER)).collect();
    let io = Io::new(Box::new(memory));
    let geometry = Geometry::new(subject.level, subject.layout, CHUNK, &vec![MEMBER; subject.members])
        .expect("the table's shapes are possible");
    let devices = ids.iter().map(|&id| Some(Device { id, data_offset: 0 })).collect();
    let array = Target::Array(Array::volatile(&io, geometry, devices, Config::default()));
    let bare = Target::Bare(io.clone(), ids[0]);
    let pool = io.pool(DEPTH * subject.len);
    // As many requests as fill a turn's share of the time: the processor time is told in steps of milliseconds.
    let turn = seconds * 1e9 / (2 * RUNS) as f64;
    let enough = |target: &Target| {
        let mut count = DEPTH;
        while run(&io, &pool, target, subject, count) < turn / 2.0 {
            count *= 2;
        }
        count
    };
    let targets = [&array, &bare].map(|target| (target, enough(target)));
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..RUNS {
        for ((target, count), times) in targets.iter().zip(&mut times) {
            times.push(run(&io, &pool, target, subject, *count) / *count as f64);
        }
    }
    let [ours, bare] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[RUNS / 2]
    });
    (ours, bare)
}

/// Nanoseconds of `count` requests.
fn run(io: &Io, pool: &Pool, target: &Target, subject: &Subject, count: usize) -> f64 {
    let size = match target {
        Target::Bare(..) => MEMBER,
        Target::Array(array) => array.limits().size,
    };
    let places = size / subject.len as u64;
    let began = processor_time();
    io.block_on(async {
        let slots = (0..DEPTH).map(|slot| {
            let (target, pool) = (target.clone(), pool.clone());
            let (len, write) = (subject.len, subject.write);
            io.spawn(async move {
                let buf = Rc::new(pool.alloc(len).await);
                let mut state = slot as u64 + 1;
                for _ in 0..count / DEPTH {
                    let offset = next(&mut state, places) * len as u64;
                    request(&target, offset, buf.all(), write).await;
                }
            })
        });
        join_all(slots.collect::<Vec<_>>()).await;
    });
    processor_time() - began
}

async fn request(target: &Target, offset: u64, memory: Slice, write: bool) {
    let done = match target {
        Target::Bare(io, member) => {
            let mut group = io.group();
            if write {
                group.write(*member, offset, &memory, false);
            } else {
                group.read(*member, offset, &memory);
            }
            group.submit().await.is_ok()
        }
        Target::Array(array) if write => array.write(offset, memory, false).await.is_ok(),
        Target::Array(array) => array.read(offset, memory).await.is_ok(),
    };
    assert!(done, "null members take everything");
}

/// Numbers without pattern: a linear congruential generator (Knuth, MMIX), scaled rather than divided.
fn next(state: &mut u64, end: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((u128::from(*state) * u128::from(end)) >> 64) as u64
}

/// What this thread has run for, in nanoseconds: other programs do not count.
fn processor_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells");
    stat.split(' ').next().and_then(|word| word.parse().ok()).expect("nanoseconds come first")
}
