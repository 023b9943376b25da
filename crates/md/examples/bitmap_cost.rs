//! The cost of a write-intent bitmap for writes, and how much of a resync it saves.
//!
//! `cargo run --profile bench -p brindle-md --example bitmap_cost [--markdown] [--only=ARRAY] [SECONDS a row]`
//!
//! Arrays whose members are RAM, with a bitmap and without, by turns; one thread, its own processor time, [`DEPTH`] requests
//! in flight, medians of [`shared::TURNS`] turns. The arrays are so small that each chunk of the bitmap is written to between any two
//! rounds that clear bits (5 s apart, as mdadm has it), however busy the machine: these are hot writes. All bits are set by the
//! turns that are not counted; how often the bitmap was written in the others is. Then each array is left as a crash leaves it, and
//! what its resync reads is counted.

#[allow(dead_code, reason = "others measure bare members beside")]
#[path = "../../array/examples/requests/mod.rs"]
mod requests;
#[path = "../../array/examples/shared/mod.rs"]
mod shared;

use brindle_array::{Array, OpenConfig};
use brindle_format::md::Version;
use brindle_layout::Level;
use brindle_md::create::{CreateSpec, NewBitmap};
use brindle_testkit::shape::spec;
use brindle_testkit::world::{World, patient};
use brindle_volume::Volume;

use requests::{Request, Target};
use shared::{TURNS, arguments, median};

const DEPTH: usize = 32;
/// Bytes of each member's data, and those of what describes it beside.
const DATA: u64 = 32 << 20;
const BESIDE: u64 = 4 << 20;

/// One row of the table.
struct Subject {
    name: &'static str,
    level: Level,
    members: usize,
    /// Bytes to a bit; `None` for what mdadm chooses.
    chunk: Option<u64>,
    sequential: bool,
}

fn subjects() -> Vec<Subject> {
    let arrays = [
        ("RAID 1 x2", Level::Raid1, 2),
        ("RAID 10 x4", Level::Raid10, 4),
        ("RAID 5 4+1", Level::Raid5, 5),
        ("RAID 6 8+2", Level::Raid6, 10),
    ];
    let fine = Some(64 << 10);
    let all = arrays.into_iter().flat_map(|(name, level, members)| {
        let kinds = [(None, false), (fine, false), (fine, true)];
        kinds.map(|(chunk, sequential)| Subject { name, level, members, chunk, sequential })
    });
    all.collect()
}

/// An array in memory that runs, and what it runs in.
struct Running {
    // Goes first.
    array: Array,
    world: World,
}

impl Running {
    fn new(subject: &Subject, bitmap: bool) -> Self {
        let chunk = subject.chunk;
        let mut wanted = CreateSpec {
            bitmap: if bitmap { NewBitmap::Internal { chunk } } else { NewBitmap::None },
            size: Some(DATA),
            ..spec(subject.level, subject.members, Version::V1_2)
        };
        wanted.roles.iter_mut().flatten().for_each(|member| member.info.size = DATA + BESIDE);
        Self::open(World::create(&wanted))
    }

    fn open(world: World) -> Self {
        let assembly = world.assembly().expect("it was made just now");
        let config = OpenConfig { observers: Vec::new(), ..patient() };
        let array = world.try_open(assembly, config).expect("members in memory do not fail");
        Self { array, world }
    }

    fn run(&self, request: Request, count: usize) -> f64 {
        let pool = self.world.io.pool(DEPTH * request.len);
        Target::Array(self.array.clone()).run(&self.world.io, &pool, request, DEPTH, count)
    }

    fn enough(&self, request: Request, nanoseconds: f64) -> usize {
        let pool = self.world.io.pool(DEPTH * request.len);
        Target::Array(self.array.clone()).enough(&self.world.io, &pool, request, DEPTH, nanoseconds)
    }

    /// Pages of the bitmap written so far.
    fn bitmap_writes(&self) -> u64 {
        self.array.detail().bitmap.map_or(0, |bitmap| bitmap.writes)
    }

    /// Bytes that a resync reads from all members after a crash, and the chunks in doubt. The crash comes during
    /// `writes` writes of 4 KiB each, far apart, to an array that was in sync.
    fn after_a_crash(self, writes: u64) -> (u64, Option<u64>) {
        let Self { array, world } = self;
        world.stop(&array);
        drop(array);
        let Self { array, world } = Self::open(world.reboot());
        let size = array.limits().size;
        for n in 0..writes {
            world.write(&array, n * (size / writes) / 4096 * 4096, &[7; 4096]).expect("as above");
        }
        drop(array);
        let Self { array, world } = Self::open(world.reboot());
        let dirty = array.detail().bitmap.map(|bitmap| bitmap.dirty);
        let read = || -> u64 { world.ids.iter().map(|&id| world.io.counters(id).bytes_read).sum() };
        let before = read();
        world.io.block_on(array.resync(|_| ())).expect("as above");
        (read() - before, dirty)
    }
}

fn main() {
    let said = arguments("bitmap_cost [--markdown] [--only=ARRAY] [SECONDS a row]", 6.0);
    let chosen = || subjects().into_iter().filter(|subject| subject.name.starts_with(&said.only));
    if said.markdown {
        println!(
            "| array | 4K writes | bytes to a bit | ns | without ns | IOPS ratio | bitmap writes in 1,000 |"
        );
        println!("|---|---|---:|---:|---:|---:|---:|");
    }
    for subject in chosen() {
        costs(&subject, said.seconds, said.markdown);
    }
    if said.markdown {
        println!(
            "\n| array | chunks in doubt | each | resync read of each member | times the chunks | without |"
        );
        println!("|---|---:|---:|---:|---:|---:|");
    }
    for subject in chosen().filter(|subject| subject.chunk.is_some() && !subject.sequential) {
        resync(&subject, said.markdown);
    }
}

fn costs(subject: &Subject, seconds: f64, markdown: bool) {
    let request = Request { len: 4096, write: true, sequential: subject.sequential, together: false };
    let arrays = [Running::new(subject, true), Running::new(subject, false)];
    let turn = seconds * 1e9 / (2 * TURNS) as f64;
    let counts = arrays.each_ref().map(|array| array.enough(request, turn));
    let (mut times, mut ratios, mut pages) = ([Vec::new(), Vec::new()], Vec::new(), 0);
    for _ in 0..TURNS {
        let before = arrays[0].bitmap_writes();
        let [with, without] = [0, 1].map(|n| arrays[n].run(request, counts[n]));
        pages += arrays[0].bitmap_writes() - before;
        times[0].push(with);
        times[1].push(without);
        ratios.push(without / with);
    }
    let each = pages as f64 * 1000.0 / (TURNS * counts[0]) as f64;
    let [with, without] = times.map(median);
    let (name, ratio) = (subject.name, median(ratios));
    let chunk = arrays[0].array.detail().bitmap.map_or(0, |bitmap| bitmap.chunk) >> 10;
    let kind = if subject.sequential { "sequential" } else { "random" };
    if markdown {
        println!("| {name} | {kind} | {chunk} KiB | {with:.0} | {without:.0} | {ratio:.2} | {each:.4} |");
    } else {
        println!(
            "{name:<11} {kind:<10} bits of {chunk:>6} KiB  {with:>6.0} ns  without {without:>6.0}  ratio {ratio:.2}  \
             {each:.4} bitmap writes in 1,000"
        );
    }
}

fn resync(subject: &Subject, markdown: bool) {
    const WRITES: u64 = 16;
    let (with, dirty) = Running::new(subject, true).after_a_crash(WRITES);
    let (without, _) = Running::new(subject, false).after_a_crash(WRITES);
    let (name, members, chunk) = (subject.name, subject.members as u64, subject.chunk.unwrap_or(0));
    let dirty = dirty.unwrap_or(0);
    // A bit stands for a chunk of each member, or for a chunk of the array where the array is mirrored; the latter
    // has two copies.
    let marked = match subject.level {
        Level::Raid10 => dirty * chunk * 2 / members,
        _ => dirty * chunk,
    };
    let (with, without) = (with / members, without / members);
    let times = with as f64 / marked as f64;
    if markdown {
        println!(
            "| {name} | {dirty} | {} KiB | {} KiB | {times:.2} | {} KiB |",
            chunk >> 10,
            with >> 10,
            without >> 10
        );
    } else {
        println!(
            "{name:<11} {dirty} chunks of {} KiB in doubt: each member read {} KiB, {times:.2} times that; without {} KiB",
            chunk >> 10,
            with >> 10,
            without >> 10
        );
    }
}
