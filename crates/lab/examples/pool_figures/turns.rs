//! How long all others wait while the pool works: the most processor time between two turns of a task that asks for one all the time.
//!
//! So it is measured from outside: whatever the executor does between those turns counts, which is a turn of another task, or some of
//! them. Many segments, and a map of which each change is in a leaf of its own. Modelled drives keep nothing but what is written, so
//! such a pool takes little memory.

use core::cell::Cell;
use std::rc::Rc;

use brindle_format::pool::VdevKind;
use brindle_io::sim::{Model, Sim};
use brindle_io::{Duration, Io, MemberId};
use brindle_pool::{Pool, PoolConfig, PoolSpec, VdevSpec, create, plan};
use brindle_volume::Volume as _;
use rustix::time::{ClockId, clock_gettime};
use uuid::Uuid;

use crate::table::{Limit, head, line};
use crate::world::{BLOCK, MEMBERS, PARITY, opened};

/// Bytes of each drive, and of a unit: more than a million segments.
const SIZE: u64 = 72 << 30;
const UNIT: u64 = 64 << 10;
/// No turn is to take more.
const MOST: f64 = 20.0;
/// Virtual time between two turns.
const REST: Duration = Duration::from_micros(20);

/// Processor time of this thread, in nanoseconds.
fn clock() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The most that passed between two turns, as long as there is one that asks for it.
struct Watch(Rc<Cell<u64>>);

impl Watch {
    fn begin(io: &Io) -> Self {
        let most = Rc::new(Cell::new(0));
        let (own, told) = (io.clone(), Rc::downgrade(&most));
        drop(io.spawn(async move {
            while told.strong_count() > 0 {
                let since = clock();
                own.sleep(REST).await;
                let took = clock().saturating_sub(since);
                if let Some(most) = told.upgrade() {
                    most.set(most.get().max(took));
                }
            }
        }));
        Self(most)
    }

    /// Prints the longest one since the last line.
    fn told(&self, io: &Io, what: &str, pool: Option<&Pool>) {
        let most = self.0.get() as f64 / 1e6;
        let map = pool.map_or(0, |pool| pool.status().map.pages);
        line(what, Limit::Most(MOST), most, " ms", &format!("a map of {map} pages"));
        // The status itself does not count.
        io.block_on(io.sleep(2 * REST));
        self.0.set(0);
    }
}

/// Prints the table, of a map of so many blocks.
pub(crate) fn print(live: u64) {
    let (sim, sizes) = (Sim::new(7), vec![SIZE; MEMBERS as usize]);
    let ids: Vec<MemberId> = sizes.iter().map(|&size| sim.add_blank_drive(Model::nvme(), size)).collect();
    let spec = PoolSpec {
        name: "tank".into(),
        id: Uuid::from_u128(0x7461_6e6b),
        members: (1..=u128::from(MEMBERS)).map(Uuid::from_u128).collect(),
        opening: 1,
        created: 1,
        vdevs: vec![VdevSpec { kind: VdevKind::Raidz, parity: PARITY as u8, sizes }],
        unit: Some(UNIT),
    };
    let io = Io::new(Box::new(sim));
    let config = PoolConfig { map_memory: 64 << 20, ..PoolConfig::new(|| 1_800_000_000) };
    let label = plan(&spec).expect("a pool that can be");
    head(&format!(
        "The longest turn of others in processor time, {} segments (to reach: 20 ms)",
        label.segments()
    ));
    io.block_on(create(&io, &label, spec.opening, &ids)).expect("members that are well");
    let watch = Watch::begin(&io);
    let pool = io.block_on(opened(&io, &ids, 2, config));
    watch.told(&io, "the first opening", Some(&pool));
    let size = pool.status().capacity / 2 / BLOCK * BLOCK;
    let volume = io.block_on(pool.create_volume("one", size)).expect("room");
    watch.told(&io, "a volume is made", Some(&pool));
    // Each is in a leaf of its own, but for those that are joined.
    let (buf, each) = (io.block_on(io.pool(1 << 20).alloc(BLOCK as usize)), size / live / BLOCK * BLOCK);
    for round in 0..2u64 {
        io.block_on(async {
            for n in 0..live {
                let at = (n.wrapping_mul(0x9e37_79b9) + round) % live * each;
                volume.write(at, buf.all(), false).await.expect("room");
            }
        });
        watch.told(&io, &format!("{live} writes far from each other, round {round}"), Some(&pool));
        io.block_on(pool.checkpoint()).expect("room");
        watch.told(&io, &format!("a checkpoint, round {round}"), Some(&pool));
    }
    let before = clock();
    let _status = pool.status();
    line("a status", Limit::Most(MOST), (clock() - before) as f64 / 1e6, " ms", "one turn by itself");
    io.block_on(volume.discard(0, size / 2 / BLOCK * BLOCK)).expect("given back");
    watch.told(&io, "half of it discarded", Some(&pool));
    io.block_on(pool.checkpoint()).expect("room");
    watch.told(&io, "a checkpoint behind that", Some(&pool));
    io.block_on(pool.stop()).expect("all are well");
    watch.told(&io, "the end of the run", None);
    drop((pool, volume));
    let pool = io.block_on(opened(&io, &ids, 3, config));
    watch.told(&io, "an opening", Some(&pool));
    io.block_on(pool.fail(0)).expect("it can do without");
    watch.told(&io, "a member is lost", Some(&pool));
    io.block_on(pool.stop()).expect("the others are well");
    watch.told(&io, "the end of that run", None);
    drop(watch);
    io.shutdown();
}
