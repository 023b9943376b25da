//! Processor time of reads with lost members, and of checks, of arrays whose members are files in memory.
//!
//! `cargo run --profile bench -p brindle-array --example degraded_reads [--markdown] [--only=ARRAY] [SECONDS A ROW]`
//!
//! Members are files on tmpfs, under `$BRINDLE_BENCH_DIR` (`/dev/shm`), read through io_uring as any member is. The time is that of
//! the process, with the kernel's workers that copy. The divisor is the same reading of one raw file: for reads by the client's bytes,
//! for a check by those of its members. The raw file and the rows of an array take turns; medians of [`shared::TURNS`], and of each
//! turn's ratio. Bytes and operations of members are counted.

#[allow(dead_code, reason = "others measure the thread, and lay out requests otherwise")]
mod requests;
#[allow(dead_code, reason = "others measure the thread")]
mod shared;

use std::path::{Path, PathBuf};

use brindle_array::{Array, Device, SyncMode};
use brindle_io::device::{DeviceAccess, OpenDevice};
use brindle_io::uring::Uring;
use brindle_io::{Io, MemberId};
use brindle_layout::{Geometry, Layout, Level, ParityLayout};
use brindle_testkit::world::unguarded;
use rustix::time::{ClockId, clock_gettime};

use requests::{Request, Target};
use shared::{TURNS, arguments, median};

/// Bytes of each member, and of the raw file. Together members are larger than caches that are an array's own.
const MEMBER: u64 = 128 << 20;
const RAW: u64 = 512 << 20;
const CHUNK: u64 = 512 << 10;
const READ: Request = Request { len: 1 << 20, write: false, sequential: true, together: false };

/// One row of the table.
struct Row<'a> {
    array: &'a str,
    /// Members that are lost; `None` for a check of the whole array.
    lost: Option<usize>,
    depth: usize,
    /// Reads of members for each byte that counts, if no byte is read twice and none that is not needed.
    least: f64,
}

/// The measure of one turn.
#[derive(Default)]
struct Turns {
    /// Nanoseconds for each KiB.
    time: Vec<f64>,
    /// The same of the raw file.
    raw: Vec<f64>,
    /// The one to the other in the same turn.
    ratio: Vec<f64>,
    /// Bytes of members for each byte, and operations for each MiB.
    bytes: f64,
    ops: f64,
}

fn main() {
    let said = arguments("degraded_reads [--markdown] [--only=ARRAY] [SECONDS a row]", 4.0);
    let dir = std::env::var_os("BRINDLE_BENCH_DIR").map_or("/dev/shm".into(), PathBuf::from);
    let dir = tempfile::tempdir_in(dir).expect("a directory for members");
    if said.markdown {
        println!(
            "| array | request | in flight | bytes of members | least | operations a MiB | ns/KiB | raw ns/KiB | ratio |\n\
             |---|---|---:|---:|---:|---:|---:|---:|---:|"
        );
    }
    for (name, level, members, parities) in
        [("RAID 5 x4", Level::Raid5, 4, 1), ("RAID 6 x6", Level::Raid6, 6, 2)]
    {
        if !name.starts_with(&said.only) {
            continue;
        }
        let files = Files::new(dir.path(), members);
        let geometry =
            Geometry::new(level, Layout::Parity(ParityLayout::LeftSymmetric), CHUNK, &vec![MEMBER; members])
                .expect("the table's shapes are possible");
        let repaired = files.io.block_on(files.array(&geometry, 0).check(SyncMode::Repair, |_| ()));
        repaired.expect("files in memory do not fail");
        let reads = (0..=parities).flat_map(|lost| {
            [1, 8].map(|depth| Row {
                array: name,
                lost: Some(lost),
                depth,
                least: least(members - parities, parities, lost),
            })
        });
        let check = Row { array: name, lost: None, depth: 8, least: 1.0 };
        for row in reads.chain([check]) {
            let turns = measure(&row, &files, &geometry, said.seconds * 1e9 / (2 * TURNS) as f64);
            print(&row, turns, said.markdown);
        }
    }
}

/// Bytes that reads of 1 MiB in order must read of members for each of theirs. The lost chunks of a row are other ones from row to row,
/// and a request that wants one of them reads as many chunks of the row as it has data; others read what they want.
fn least(data: usize, parities: usize, lost: usize) -> f64 {
    let (roles, wanted) = (data + parities, READ.len / CHUNK as usize);
    let (mut read, mut asked) = (0, 0);
    for row in 0..roles * wanted {
        let is_lost = |index: usize| (index + row / wanted) % roles < lost;
        // The chunks of all rows in turn are cut into requests: a row begins where the last one ended.
        let cuts = (0..=data)
            .filter(|&index| index == 0 || index == data || (row * data + index).is_multiple_of(wanted));
        let cuts: Vec<usize> = cuts.collect();
        for part in cuts.windows(2).map(|cut| cut[0]..cut[1]) {
            asked += part.len();
            read += if part.clone().any(is_lost) { data } else { part.len() };
        }
    }
    read as f64 / asked as f64
}

/// The files of an array, opened as its members, and a raw one beside them.
struct Files {
    io: Io,
    members: Vec<MemberId>,
    raw: MemberId,
}

impl Files {
    fn new(dir: &Path, members: usize) -> Self {
        let uring = Uring::new().expect("io_uring");
        let add = |name: String, len: u64| {
            let path = dir.join(name);
            let pattern: Vec<u8> = (0..len).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
            std::fs::write(&path, pattern).expect("room for members");
            uring.add_member(OpenDevice::open(path, DeviceAccess::Write).expect("a file of one's own"))
        };
        let raw = add(format!("raw{members}"), RAW);
        let members = (0..members).map(|member| add(format!("{members}-{member}"), MEMBER)).collect();
        Self { io: Io::new(Box::new(uring)), members, raw }
    }

    /// The array without its first `lost` members.
    fn array(&self, geometry: &Geometry, lost: usize) -> Array {
        let device = |(role, &id)| (role >= lost).then_some(Device { id, data_offset: 0 });
        unguarded(&self.io, geometry.clone(), self.members.iter().enumerate().map(device).collect())
    }
}

/// Measures a row beside the raw file, `each` nanoseconds a turn.
fn measure(row: &Row<'_>, files: &Files, geometry: &Geometry, each: f64) -> Turns {
    let Files { io, members, raw } = files;
    let array = files.array(geometry, row.lost.unwrap_or(0));
    let raw = Target::Bare { io: io.clone(), members: [*raw].into(), size: RAW };
    let ours = Target::Array(array.clone());
    let pool = io.pool(row.depth * READ.len);
    let counted = || {
        let counters = members.iter().map(|&id| io.counters(id));
        counters.fold((0, 0), |(bytes, ops), counter| (bytes + counter.bytes_read, ops + counter.reads))
    };
    let run = |target: &Target, count: usize| {
        let began = processor_time();
        target.run(io, &pool, READ, row.depth, count);
        (processor_time() - began) / (count.next_multiple_of(row.depth) * READ.len / 1024) as f64
    };
    let check = || {
        let began = processor_time();
        let report = io.block_on(array.check(SyncMode::Check, |_| ())).expect("files in memory do not fail");
        assert!(report.mismatch_sectors == 0, "the redundancy is true");
        (processor_time() - began) / (members.len() as u64 * MEMBER / 1024) as f64
    };
    let count = (each / 160.0 / 1024.0) as usize + 1;
    let mut turns = Turns::default();
    for turn in 0..=TURNS {
        let alone = run(&raw, count);
        let before = counted();
        let (time, len) = match row.lost {
            Some(_) => (run(&ours, count), (count.next_multiple_of(row.depth) * READ.len) as u64),
            None => (check(), members.len() as u64 * MEMBER),
        };
        let after = counted();
        // The first turn fills caches and pools.
        if turn > 0 {
            turns.time.push(time);
            turns.raw.push(alone);
            turns.ratio.push(time / alone);
            turns.bytes = (after.0 - before.0) as f64 / len as f64;
            turns.ops = (after.1 - before.1) as f64 / (len >> 20) as f64;
        }
    }
    turns
}

fn print(row: &Row<'_>, turns: Turns, markdown: bool) {
    let Row { array, lost, depth, least } = row;
    let request = match lost {
        Some(lost) => format!("1M read, {lost} lost"),
        None => "check".to_owned(),
    };
    let depth = lost.map_or("".to_owned(), |_| depth.to_string());
    let least_of = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
    let best = [least_of(&turns.time), least_of(&turns.raw)];
    let (time, raw, ratio) = (median(turns.time), median(turns.raw), median(turns.ratio));
    let (bytes, ops) = (turns.bytes, turns.ops);
    if markdown {
        println!(
            "| {array} | {request} | {depth} | {bytes:.2} | {least:.2} | {ops:.1} | {time:.0} | {raw:.0} | {ratio:.2} |"
        );
    } else {
        println!(
            "{array:<10} {request:<16} {depth:>1}  members {bytes:.2} (least {least:.2})  {ops:>5.1} ops/MiB  \
             {time:>4.0} ns/KiB  raw {raw:>4.0}  {ratio:.2}  best {:.0} to {:.0}: {:.2}",
            best[0],
            best[1],
            best[0] / best[1]
        );
    }
}

/// Processor time of the process, with the kernel's workers, in nanoseconds.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}
