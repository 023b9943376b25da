//! Twelve modelled drives with a pool on them, scaled down with all that its figures depend on.

use std::rc::Rc;

use brindle_format::pool::VdevKind;
use brindle_io::sim::Sim;
use brindle_io::{Duration, Io, MemberId};
use brindle_lab::drive::{Drive, parse, shipped};
use brindle_members::patience::Patience;
use brindle_pool::{How, Pool, PoolConfig, PoolSpec, PoolVolume, VdevSpec, Written, create, open, plan};
use uuid::Uuid;

/// Members of the pool, and how many of them it can lose.
pub(crate) const MEMBERS: u64 = 12;
pub(crate) const PARITY: u64 = 2;
/// Blocks of 4 KiB.
pub(crate) const BLOCK: u64 = 4096;
/// The clock of the pool's records, which no figure depends on.
const CLOCK: fn() -> u64 = || 1_800_000_000;
/// Longer than any queue of a drive that is modelled as it is.
const ENDLESS: Duration = Duration::from_secs(3600);

/// The sizes that belong together.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    /// Blocks that the volume has.
    pub(crate) live: u64,
    /// Per cent of the data space that they take.
    pub(crate) percent: u64,
    /// Bytes of a unit; none lets the pool choose.
    pub(crate) unit: Option<u64>,
    /// Live blocks to one change in memory.
    pub(crate) changes: u64,
    /// Bytes of memory for requests.
    pub(crate) memory: usize,
    /// The model of every drive.
    pub(crate) drive: &'static str,
}

impl Scale {
    /// The usual settings for so many blocks.
    pub(crate) fn of(live: u64, percent: u64) -> Self {
        Self { live, percent, unit: None, changes: 16, memory: 32 << 20, drive: "p3700" }
    }

    /// Bytes of each device.
    pub(crate) fn member(&self) -> u64 {
        let data = self.live * BLOCK * 100 / self.percent / (MEMBERS - PARITY);
        // Labels and the room at the end come on top.
        (data + data / 900 + (3 << 20)).next_multiple_of(1 << 20)
    }

    /// Leaves of a map that was written in order, or has been split.
    fn all_leaves(&self) -> u64 {
        self.live.div_ceil(brindle_format::pool::DENSE_ENTRIES as u64)
    }

    /// The settings of the pool.
    pub(crate) fn config(&self) -> PoolConfig {
        // Of all leaves, and as much again for what names them and for changes.
        let map_memory = 2 * self.all_leaves() as usize * BLOCK as usize;
        PoolConfig {
            patience: Patience { answer: ENDLESS, flush: ENDLESS, read: ENDLESS },
            changes: (self.live / self.changes) as usize,
            map_memory,
            // Their number alone says when a checkpoint is due.
            dirty_memory: usize::MAX,
            memory: self.memory,
            ..PoolConfig::new(CLOCK)
        }
    }

    fn spec(&self) -> PoolSpec {
        let sizes = vec![self.member(); MEMBERS as usize];
        PoolSpec {
            name: "tank".into(),
            id: Uuid::from_u128(0x7461_6e6b),
            members: (1..=u128::from(MEMBERS)).map(Uuid::from_u128).collect(),
            opening: 0x1000,
            created: CLOCK(),
            vdevs: vec![VdevSpec { kind: VdevKind::Raidz, parity: PARITY as u8, sizes }],
            unit: self.unit,
        }
    }
}

/// A drive by its name.
pub(crate) fn drive(name: &str) -> Drive {
    parse(name, shipped(name).expect("a model that ships")).expect("a model that can be read")
}

/// A pool in a world of its own.
pub(crate) struct Stage {
    /// The drives, where they are modelled.
    pub(crate) sim: Option<Sim>,
    pub(crate) io: Io,
    pub(crate) ids: Vec<MemberId>,
    pub(crate) pool: Pool,
    pub(crate) volume: PoolVolume,
    pub(crate) config: PoolConfig,
    /// Blocks that the volume has.
    pub(crate) blocks: u64,
}

impl Stage {
    /// Creates the pool on modelled drives, with a volume that has the live blocks.
    pub(crate) fn new(scale: &Scale) -> Self {
        let (sim, drive) = (Sim::new(7), drive(scale.drive));
        let add = |_| {
            let id = sim.add_measured_drive(&drive.stations, scale.member());
            sim.keep_beginning(id, scale.member());
            id
        };
        let ids = (0..MEMBERS).map(add).collect();
        let io = Io::new(Box::new(sim.clone()));
        Self { sim: Some(sim), ..Self::on(io, ids, scale) }
    }

    /// The same on any members.
    pub(crate) fn on(io: Io, ids: Vec<MemberId>, scale: &Scale) -> Self {
        let (spec, config) = (scale.spec(), scale.config());
        let (pool, volume, blocks) = io.block_on(async {
            let label = plan(&spec).expect("a pool that can be");
            create(&io, &label, spec.opening, &ids).await.expect("members that are well");
            let vdev = label.vdevs[0];
            let data = (u64::from(vdev.units) << vdev.unit) / BLOCK * (MEMBERS - PARITY);
            let pool = opened(&io, &ids, 1, config).await;
            let sold = pool.status().capacity / BLOCK;
            let blocks = if scale.percent == SOLD { sold } else { data * scale.percent / 100 };
            let volume = pool.create_volume("one", blocks * BLOCK).await.expect("it is sold");
            (pool, volume, blocks)
        });
        Self { sim: None, io, ids, pool, volume, config, blocks }
    }

    /// Bytes written by what for, since `before`.
    pub(crate) fn written_since(&self, before: &Written) -> Written {
        let now = self.pool.status().written;
        Written {
            client: now.client - before.client,
            moved: now.moved - before.moved,
            summaries: now.summaries - before.summaries,
            pages: now.pages - before.pages,
            parity: now.parity - before.parity,
        }
    }

    /// Bytes that members read and wrote so far.
    pub(crate) fn moved(&self) -> (u64, u64) {
        let of = |id: &MemberId| self.io.counters(*id);
        let all = self.ids.iter().map(of).map(|c| (c.bytes_read, c.bytes_written));
        all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Ends the run, and opens the pool anew with these settings.
    pub(crate) fn reopened(self, config: PoolConfig) -> Self {
        self.io.block_on(self.pool.stop()).expect("all are well");
        let Self { sim, io, ids, blocks, .. } = self;
        let pool = io.block_on(opened(&io, &ids, 2, config));
        let volume = pool.volume("one").expect("it was made");
        Self { sim, io, ids, pool, volume, config, blocks }
    }

    /// The power goes; gives the world in which it is back.
    pub(crate) fn cut(self) -> (Sim, Io, Vec<MemberId>, PoolConfig) {
        let Self { sim, io, ids, pool, volume, config, .. } = self;
        let sim = sim.expect("modelled drives");
        sim.cut_power();
        drop((pool, volume));
        io.shutdown();
        let next = sim.restart(8);
        let io = Io::new(Box::new(next.clone()));
        (next, io, ids, config)
    }

    /// Ends the world.
    pub(crate) fn end(self) {
        drop((self.pool, self.volume));
        self.io.shutdown();
    }
}

/// Per cent of the data space that a pool sells: a volume that has all of that.
pub(crate) const SOLD: u64 = 85;

/// Opens the pool that stands on these.
pub(crate) async fn opened(io: &Io, ids: &[MemberId], opening: u64, config: PoolConfig) -> Pool {
    open(io, ids, How::writing(opening), None, config).await.expect("a pool that is well").0
}

/// The drives by themselves, in a world of their own, which keep nothing.
pub(crate) fn bare(scale: &Scale) -> (Io, Vec<brindle_volume::LoneMember>) {
    let (sim, drive) = (Sim::new(7), drive(scale.drive));
    let ids: Vec<MemberId> =
        (0..MEMBERS).map(|_| sim.add_measured_drive(&drive.stations, scale.member())).collect();
    let io = Io::new(Box::new(sim));
    let alone = |id: MemberId| brindle_volume::LoneMember::new(&io, id, false).expect("a drive");
    let alone = ids.into_iter().map(alone).collect();
    (io, alone)
}

/// Shared by the tasks of a load.
pub(crate) type Shared<T> = Rc<std::cell::RefCell<T>>;
