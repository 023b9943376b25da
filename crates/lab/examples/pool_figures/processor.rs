//! One core: members in memory, and what the pool costs above the bare reactor.

use brindle_io::memory::Memory;
use brindle_io::{Io, MemberId};
use brindle_testkit::random::Random;
use brindle_volume::Volume as _;
use rustix::time::{ClockId, clock_gettime};

use crate::load::{Kind, closed, fill};
use crate::table::{Limit, head, line};
use crate::world::{BLOCK, MEMBERS, Scale, Stage};

/// Rounds, of which the median counts.
const ROUNDS: usize = 5;
/// Requests of a round.
const COUNT: u64 = 200_000;

/// Processor time of this thread, in nanoseconds.
fn now() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Nanoseconds for each of `count`.
fn timed(count: u64, run: impl Fn(u64)) -> f64 {
    let rounds = (0..ROUNDS as u64).map(|round| {
        let began = now();
        run(round);
        (now() - began) / count as f64
    });
    median(rounds.collect())
}

fn members(scale: &Scale) -> (Io, Vec<MemberId>) {
    let memory = Memory::new();
    let ids = (0..MEMBERS).map(|_| memory.add_ram(scale.member())).collect();
    (Io::new(Box::new(memory)), ids)
}

/// Prints the tables.
pub(crate) fn print(live: u64) {
    let scale = Scale::of(live, 70);
    let (io, ids) = members(&scale);
    let drives: Vec<_> =
        ids.iter().map(|id| brindle_volume::LoneMember::new(&io, *id, false).expect("a member")).collect();
    let bare = timed(COUNT, |round| drop(closed(&io, &drives, Kind::Read, 32, COUNT, round)));
    let stage = Stage::on(io, ids, &scale);
    fill(&stage.io, &stage.volume, 16);
    let volume = core::slice::from_ref(&stage.volume);
    closed(&stage.io, volume, Kind::Write, 32, stage.blocks * 3, 9);
    head("One core, members in memory");
    let reads = timed(COUNT, |round| drop(closed(&stage.io, volume, Kind::Read, 32, COUNT, round)));
    let why =
        format!("{reads:.0} ns beside {bare:.0} of the members alone; a map of {} blocks", stage.blocks);
    line("4K read, checksum verified", Limit::Most(0.8), (reads - bare) / 1e3, " us", &why);
    let before = stage.pool.status().written;
    let writes = timed(COUNT, |round| drop(closed(&stage.io, volume, Kind::Write, 32, COUNT, round)));
    let written = stage.written_since(&before);
    let all = written.client + written.moved + written.pages + written.summaries + written.parity;
    let each = all as f64 / (COUNT * BLOCK * ROUNDS as u64) as f64;
    let why =
        format!("70 % live, cleaning and checkpoints included; {each:.1} blocks written to members for each");
    line("4K write, 32 in flight", Limit::Most(2.5), writes / 1e3, " us", &why);
    let large = 256;
    let count = (stage.blocks / large).min(512);
    let each = timed(count, |round| large_writes(&stage, large, count, round));
    let rate = (large * BLOCK) as f64 / each;
    line(
        "1 MiB write to 10+2",
        Limit::Least(3.5),
        rate,
        " GB/s",
        "checksums, parity, and a copy into memory members",
    );
    let rates = (0..ROUNDS).map(|_| scrubbed(&stage)).collect();
    line(
        "scrub",
        Limit::Least(2.5),
        median(rates),
        " GB/s of what it reads",
        "checksums, parity, and a copy out of memory members",
    );
    stage.end();
}

/// Bytes that a scrub reads, for each nanosecond.
fn scrubbed(stage: &Stage) -> f64 {
    let (before, began) = (stage.moved().0, now());
    stage.io.block_on(stage.pool.check(|_| {})).expect("members that are well");
    (stage.moved().0 - before) as f64 / (now() - began)
}

fn large_writes(stage: &Stage, blocks: u64, count: u64, seed: u64) {
    stage.io.block_on(async {
        let mut random = Random::new(seed);
        let buf = stage.io.pool(4 << 20).alloc((blocks * BLOCK) as usize).await;
        buf.bytes_mut().fill(3);
        for _ in 0..count {
            let at = random.below(stage.blocks - blocks);
            stage.volume.write(at * BLOCK, buf.all(), false).await.expect("members that are well");
        }
    });
}
