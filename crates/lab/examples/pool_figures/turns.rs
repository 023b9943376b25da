//! How long all others wait while the pool works: the processor time of the longest turn of what it is asked for, and the most between two turns of a
//! task that asks for one all the time.
//!
//! So it is measured from outside: of its own tasks whatever the executor does between those turns counts, which is a turn of one, or some of
//! them. Many segments, and a map of which each change is in a leaf of its own. Modelled drives keep nothing but what is written, so
//! such a pool takes little memory.

use core::cell::Cell;
use core::future::{Future, poll_fn};
use core::pin::pin;
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

/// The longest turn so far, in nanoseconds: of the work that is measured, or of all others between two turns of a task that asks for one all
/// the time.
#[derive(Clone, Default)]
struct Watch {
    most: Rc<Cell<u64>>,
    /// All turns of the work that is measured. Virtual time stands still while it yields, so that the other task has no turn in between.
    work: Rc<Cell<u64>>,
}

impl Watch {
    fn begin(io: &Io) -> Self {
        let watch = Self::default();
        let (own, most, work) = (io.clone(), Rc::downgrade(&watch.most), Rc::downgrade(&watch.work));
        drop(io.spawn(async move {
            while let Some(before) = work.upgrade().map(|work| work.get()) {
                let since = clock();
                own.sleep(REST).await;
                let (Some(most), Some(work)) = (most.upgrade(), work.upgrade()) else { break };
                let took = clock().saturating_sub(since).saturating_sub(work.get() - before);
                most.set(most.get().max(took));
            }
        }));
        watch
    }

    /// Does some work, and notes its turns.
    fn over<T>(&self, io: &Io, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        io.block_on(poll_fn(|context| {
            let since = clock();
            let polled = work.as_mut().poll(context);
            let took = clock().saturating_sub(since);
            self.work.set(self.work.get() + took);
            self.most.set(self.most.get().max(took));
            polled
        }))
    }

    /// Prints the longest one since the last line.
    fn told(&self, io: &Io, what: &str, pool: Option<&Pool>) {
        let most = self.most.get() as f64 / 1e6;
        let map = pool.map_or(0, |pool| pool.status().map.pages);
        line(what, Limit::Most(MOST), most, " ms", &format!("a map of {map} pages"));
        // The status itself does not count.
        io.block_on(io.sleep(2 * REST));
        self.most.set(0);
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
    head(&format!("The longest turn in processor time, {} segments (to reach: 20 ms)", label.segments()));
    io.block_on(create(&io, &label, spec.opening, &ids)).expect("members that are well");
    let watch = Watch::begin(&io);
    let pool = watch.over(&io, opened(&io, &ids, 2, config));
    watch.told(&io, "the first opening", Some(&pool));
    let size = pool.status().capacity / 2 / BLOCK * BLOCK;
    let volume = watch.over(&io, pool.create_volume("one", size)).expect("room");
    watch.told(&io, "a volume is made", Some(&pool));
    // Each is in a leaf of its own, but for those that are joined.
    let (buf, each) = (io.block_on(io.pool(1 << 20).alloc(BLOCK as usize)), size / live / BLOCK * BLOCK);
    for round in 0..2u64 {
        watch.over(&io, async {
            for n in 0..live {
                let at = (n.wrapping_mul(0x9e37_79b9) + round) % live * each;
                volume.write(at, buf.all(), false).await.expect("room");
            }
        });
        watch.told(&io, &format!("{live} writes far from each other, round {round}"), Some(&pool));
        watch.over(&io, pool.checkpoint()).expect("room");
        watch.told(&io, &format!("a checkpoint, round {round}"), Some(&pool));
    }
    let before = clock();
    let _status = pool.status();
    line("a status", Limit::Most(MOST), (clock() - before) as f64 / 1e6, " ms", "one turn by itself");
    watch.over(&io, volume.discard(0, size / 2 / BLOCK * BLOCK)).expect("given back");
    watch.told(&io, "half of it discarded", Some(&pool));
    watch.over(&io, pool.checkpoint()).expect("room");
    watch.told(&io, "a checkpoint behind that", Some(&pool));
    watch.over(&io, pool.stop()).expect("all are well");
    watch.told(&io, "the end of the run", None);
    drop((pool, volume));
    let pool = watch.over(&io, opened(&io, &ids, 3, config));
    watch.told(&io, "an opening", Some(&pool));
    watch.over(&io, pool.fail(0)).expect("it can do without");
    watch.told(&io, "a member is lost", Some(&pool));
    watch.over(&io, pool.stop()).expect("the others are well");
    watch.told(&io, "the end of that run", None);
    drop(watch);
    io.shutdown();
}
