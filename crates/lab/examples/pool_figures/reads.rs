//! Random reads of 4 KiB beside the same drives without a pool.

use brindle_pool::PoolConfig;

use crate::load::{Kind, closed, fill};
use crate::table::{Limit, head, line};
use crate::world::{MEMBERS, Scale, Stage, bare};

/// Requests in flight: as many as the published measurement had.
pub(crate) const DEPTH: u64 = 2048;
/// Bytes of memory for each page that branches in memory name, with some room.
const NAMED: usize = 200;
/// Requests of a row.
const COUNT: u64 = 400_000;

/// Requests a second of the drives alone.
pub(crate) fn alone(scale: &Scale, kind: Kind, depth: u64) -> f64 {
    let (io, drives) = bare(scale);
    let done = closed(&io, &drives, kind, depth, COUNT, 1);
    io.shutdown();
    done.rate
}

/// Prints the table.
pub(crate) fn print(live: u64) {
    // Units of 16 rows, as the others have them, would give members 0, 1 and 11 a fifth fewer data blocks: parity goes round in twelve.
    let scale = Scale { unit: Some(1 << 20), ..Scale::of(2 * live, 70) };
    let jbod = alone(&scale, Kind::Read, DEPTH);
    head("4K random reads, raidz2 of twelve drives, units of 1 MiB and twice as many blocks");
    println!("| JBOD, M IOPS | | {:.2} | | the drives |", jbod / 1e6);
    let stage = Stage::new(&scale);
    fill(&stage.io, &stage.volume, 16);
    closed(&stage.io, core::slice::from_ref(&stage.volume), Kind::Write, 384, live, 2);
    stage.io.block_on(stage.pool.checkpoint()).expect("drives that are well");
    let mut stage = stage.reopened(scale.config());
    // Each leaf is read once.
    read_leaves(&stage);
    measure(&stage, "map in memory", jbod, 90.0);
    let all = stage.pool.status().map;
    let missing = |stage: &Stage| shares(stage).0;
    stage = with_memory(stage, &scale, (all.pages as usize * NAMED, all.bytes as usize), 0.25, missing);
    measure(&stage, "a quarter of look-ups missing", jbod, 75.0);
    // Requests that wait for one leaf share its reading, which so small a map makes likelier: reads of members are what counts.
    let reading = |stage: &Stage| shares(stage).1 - 1.0;
    stage = with_memory(stage, &scale, (all.pages as usize * NAMED, all.bytes as usize), 0.25, reading);
    measure(&stage, "a quarter of look-ups reading a leaf", jbod, 75.0);
    // Some leaves beside them, without which a leaf might go before those have looked at it that wait for it.
    let branches = all.pages as usize * NAMED + all.bytes as usize * 3 / 100;
    stage = stage.reopened(PoolConfig { map_memory: branches, ..scale.config() });
    warm(&stage, live);
    measure(&stage, "branches of the map in memory", jbod, 45.0);
    stage = stage.reopened(scale.config());
    read_leaves(&stage);
    for member in [3, 8] {
        stage.io.block_on(stage.pool.fail(member)).expect("it can do without");
    }
    measure(&stage, "two members lost, data of before", jbod, 30.0);
    stage.end();
}

/// Opens the pool with as much memory for its map, of what is between these bytes, as makes a share of look-ups what is wanted: it is the
/// smaller the more memory there is.
fn with_memory(
    mut stage: Stage,
    scale: &Scale,
    (mut least, mut most): (usize, usize),
    wanted: f64,
    share: impl Fn(&Stage) -> f64,
) -> Stage {
    loop {
        let map_memory = usize::midpoint(least, most);
        stage = stage.reopened(PoolConfig { map_memory, ..scale.config() });
        warm(&stage, scale.live);
        let share = share(&stage);
        if (share - wanted).abs() < 0.01 || most - least < 8192 {
            return stage;
        }
        if share > wanted {
            least = map_memory;
        } else {
            most = map_memory;
        }
    }
}

/// Of some look-ups, the share that missed a page, and reads of members for each.
fn shares(stage: &Stage) -> (f64, f64) {
    const SOME: u64 = 100_000;
    let (before, seen) = (reads(stage), stage.pool.status().map);
    closed(&stage.io, core::slice::from_ref(&stage.volume), Kind::Read, DEPTH, SOME, 5);
    let now = stage.pool.status().map;
    let missed = (now.missed - seen.missed) as f64 / (now.asked - seen.asked) as f64;
    (missed, (reads(stage) - before) as f64 / SOME as f64)
}

fn read_leaves(stage: &Stage) {
    let mut blocks = Vec::new();
    blocks.extend((0..stage.blocks).step_by(64));
    stage.io.block_on(async {
        let buf = stage.io.pool(1 << 20).alloc(4096).await;
        for block in blocks {
            use brindle_volume::Volume as _;
            stage.volume.read(block * 4096, buf.all()).await.expect("drives that are well");
        }
    });
}

/// Reads until as much of the map is in memory as may be.
fn warm(stage: &Stage, live: u64) {
    let count = (live / 16).max(4096);
    closed(&stage.io, core::slice::from_ref(&stage.volume), Kind::Read, 256, count, 4);
}

fn measure(stage: &Stage, what: &str, jbod: f64, limit: f64) {
    let before = reads(stage);
    let done = closed(&stage.io, core::slice::from_ref(&stage.volume), Kind::Read, DEPTH, COUNT, 3);
    let each = (reads(stage) - before) as f64 / COUNT as f64;
    let bound = 100.0 / each;
    let left = stage.pool.status().members.iter().filter(|member| !member.is_failed()).count() as f64;
    let bound = bound * left / MEMBERS as f64;
    let why = format!(
        "{each:.2} reads of members for each, which leaves {bound:.0} %; median {:.0} us, p99.9 {:.0} us",
        done.within(500),
        done.within(999)
    );
    line(what, Limit::Least(limit), 100.0 * done.rate / jbod, " % of JBOD", &why);
}

fn reads(stage: &Stage) -> u64 {
    stage.ids.iter().map(|id| stage.io.counters(*id).reads).sum()
}
