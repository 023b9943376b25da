//! The engine's own cost: nanoseconds of processor time per request on null members. Given in all, and above the bare
//! reactor that does the same request as one operation on one member.
//!
//! `cargo run --profile bench -p brindle-array --example engine_cost [--markdown] [--only=ARRAY] [SECONDS]`
//!
//! Each shape and the bare reactor take turns; medians of [`shared::TURNS`] turns. One thread, [`DEPTH`] requests in flight.

mod requests;
mod shared;

use brindle_array::Device;
use brindle_io::Io;
use brindle_io::memory::Memory;
use brindle_layout::{Geometry, Layout, Level, ParityLayout, Raid10Layout};
use brindle_testkit::world::unguarded;

use requests::{Request, Target, take_turns};
use shared::{arguments, median};

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
    let said = arguments("engine_cost [--markdown] [--only=ARRAY] [SECONDS a row]", 1.0);
    if said.markdown {
        println!("| array | request | ns | bare ns | above |\n|---|---|---:|---:|---:|");
    }
    for subject in subjects() {
        let kind = if subject.write { "write" } else { "read" };
        let request = format!("{}K random {kind}", subject.len >> 10);
        let name = subject.name;
        if !format!("{name} {request}").starts_with(&said.only) {
            continue;
        }
        let (ours, bare) = measure(&subject, said.seconds);
        let above = ours - bare;
        if said.markdown {
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
    let array = Target::Array(unguarded(&io, geometry, devices));
    let bare = Target::Bare { io: io.clone(), members: [ids[0]].into(), size: MEMBER };
    let pool = io.pool(DEPTH * subject.len);
    let request = Request { len: subject.len, write: subject.write, sequential: false, together: false };
    let [ours, bare] = take_turns(&io, &pool, request, DEPTH, [&array, &bare], seconds);
    (median(ours), median(bare))
}
