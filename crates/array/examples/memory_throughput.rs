//! Throughput of an array whose members are RAM: MB of data per second of processor time. Beside it stands the bare
//! reactor, which does the same requests as one operation on one member each: one copy of the data.
//!
//! `cargo run --profile bench -p brindle-array --example memory_throughput [--markdown] [--only=ARRAY] [SECONDS A ROW]`
//!
//! Array and bare members take turns, on the same members; medians of [`shared::TURNS`] turns, and of each turn's
//! ratio. One thread. The members together are larger than the caches.

mod requests;
mod shared;

use brindle_array::Device;
use brindle_io::memory::Memory;
use brindle_io::{Io, MemberId};
use brindle_layout::{Geometry, Layout, Level, ParityLayout, Raid10Layout};
use brindle_testkit::world::unguarded;

use requests::{Request, Target, take_turns};
use shared::{arguments, median};

/// Bytes of each member.
const MEMBER: u64 = 128 << 20;
const CHUNK: u64 = 64 << 10;

struct Subject {
    name: &'static str,
    level: Level,
    layout: Layout,
    members: usize,
    /// Members that can be lost.
    tolerance: usize,
    /// Bytes of a row's data, where there is parity.
    row: Option<usize>,
}

fn subjects() -> Vec<Subject> {
    let near = Layout::Raid10(Raid10Layout::near(2));
    let symmetric = Layout::Parity(ParityLayout::LeftSymmetric);
    let chunk = CHUNK as usize;
    let subject = |name, level, layout, members, tolerance, row| Subject {
        name,
        level,
        layout,
        members,
        tolerance,
        row,
    };
    vec![
        subject("RAID 0 x4", Level::Raid0, Layout::None, 4, 0, None),
        subject("RAID 1 x2", Level::Raid1, Layout::None, 2, 1, None),
        subject("RAID 10 x4", Level::Raid10, near, 4, 1, None),
        subject("RAID 5 4+1", Level::Raid5, symmetric, 5, 1, Some(4 * chunk)),
        subject("RAID 6 8+2", Level::Raid6, symmetric, 10, 2, Some(8 * chunk)),
    ]
}

/// The requests made to an array that has lost `lost` members, each with the number in flight.
fn requests(subject: &Subject, lost: usize) -> Vec<(&'static str, Request, usize)> {
    let request = |len, write, sequential| Request { len, write, sequential, together: false };
    let mut requests = vec![
        ("1M sequential read", request(1 << 20, false, true), 8),
        ("4K random read", request(4 << 10, false, false), 32),
    ];
    if lost == 0 {
        requests.push(("1M sequential write", request(1 << 20, true, true), 8));
        if let Some(row) = subject.row {
            requests.push(("full-stripe write", request(row, true, true), 8));
        }
        requests.push(("4K random write", request(4 << 10, true, false), 32));
    }
    requests
}

fn main() {
    let said = arguments("memory_throughput [--markdown] [--only=ARRAY] [SECONDS a row]", 1.0);
    if said.markdown {
        println!("| array | lost | request | MB/s | bare MB/s | ratio |\n|---|---:|---|---:|---:|---:|");
    }
    for subject in subjects().iter().filter(|subject| subject.name.starts_with(&said.only)) {
        let memory = Memory::new();
        let ids: Vec<_> = (0..subject.members).map(|_| filled(&memory)).collect();
        let io = Io::new(Box::new(memory));
        let bare = Target::Bare { io: io.clone(), members: ids.as_slice().into(), size: MEMBER };
        for lost in 0..=subject.tolerance {
            let array = array(&io, subject, &ids, lost);
            for (kind, request, depth) in requests(subject, lost) {
                let pool = io.pool(depth * request.len);
                let [ours, alone] = take_turns(&io, &pool, request, depth, [&array, &bare], said.seconds);
                let ratio = median(ours.iter().zip(&alone).map(|(ours, alone)| alone / ours).collect());
                let [ours, alone] = [ours, alone].map(|times| request.len as f64 * 1e3 / median(times));
                let name = subject.name;
                if said.markdown {
                    println!("| {name} | {lost} | {kind} | {ours:.0} | {alone:.0} | {ratio:.2} |");
                } else {
                    println!(
                        "{name:<11} {lost} lost  {kind:<20} {ours:>7.0} MB/s  bare {alone:>7.0}  {ratio:.2}"
                    );
                }
            }
        }
    }
}

/// A member whose every page is its own: of pages that nobody wrote, the system keeps but one.
fn filled(memory: &Memory) -> MemberId {
    let id = memory.add_ram(MEMBER);
    let pattern: Vec<u8> = (0..1 << 20).map(|at: u32| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    for offset in (0..MEMBER).step_by(pattern.len()) {
        memory.poke(id, offset, &pattern);
    }
    id
}

/// The array without its first `lost` members. What the members hold is not valid parity, and need not be: nothing is
/// compared, and computing does not depend on it.
fn array(io: &Io, subject: &Subject, ids: &[MemberId], lost: usize) -> Target {
    let geometry = Geometry::new(subject.level, subject.layout, CHUNK, &vec![MEMBER; subject.members])
        .expect("the table's shapes are possible");
    let device = |(role, &id)| (role >= lost).then_some(Device { id, data_offset: 0 });
    let devices = ids.iter().enumerate().map(device).collect();
    Target::Array(unguarded(io, geometry, devices))
}
