//! No pool of any shape refuses anything for want of its own room, with the usual settings: lives of pools, each by its seed.
//!
//! `BRINDLE_POOL_LIVES=30` searches on behind the seeds of the list, for so many minutes; `BRINDLE_POOL_SEED=n` runs one, and tells its
//! steps.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration as Real, Instant};

use brindle_format::pool::VdevKind;
use brindle_io::sim::{Model, Sim};
use brindle_io::sync::join_all;
use brindle_io::{Buf, Io, MemberId};
use brindle_pool::{How, Pool, PoolConfig, PoolSpec, PoolVolume, VdevSpec, create, open, plan};
use brindle_testkit::random::Random;
use brindle_volume::{Volume, VolumeError, ZeroOptions};
use uuid::Uuid;

const MIB: u64 = 1 << 20;
/// The largest request.
const MOST: u64 = MIB;
/// Requests of a lane side by side.
const IN_FLIGHT: u64 = 8;
/// Bytes that clients of a life write at most.
const BUDGET: u64 = 1200 * MIB;

/// A pool by its seed.
struct Life {
    seed: u64,
    spec: PoolSpec,
    random: Random,
    sim: Sim,
    ids: Vec<MemberId>,
    /// Members that failed.
    failed: Vec<usize>,
    opening: u64,
    names: u64,
    tells: bool,
    /// Bytes that may still be written.
    left: i64,
}

fn vdev(random: &mut Random, size: u64) -> VdevSpec {
    let (kind, parity, count) = match random.below(10) {
        0 => (VdevKind::Plain, 0, 1),
        1 | 2 => (VdevKind::Mirror, 1, 2),
        3 => (VdevKind::Mirror, 2, 3),
        4 | 5 => (VdevKind::Raidz, 1, 2 + random.below(5)),
        6 | 7 => (VdevKind::Raidz, 2, 3 + random.below(6)),
        8 => (VdevKind::Raidz, 2, 10 + random.below(14)),
        _ => (VdevKind::Raidz, 3, 4 + random.below(8)),
    };
    VdevSpec { kind, parity, sizes: vec![size; count as usize] }
}

fn spec(seed: u64, random: &mut Random) -> PoolSpec {
    let large = random.one_in(6);
    let sizes: &[u64] = if large { &[128, 256, 512] } else { &[7, 8, 12, 20, 33, 40, 64] };
    let size = |random: &mut Random| *random.pick(sizes) * MIB;
    let count = if large { 1 } else { [1, 1, 2, 2, 3, 4][random.below(6) as usize] };
    let one = size(random);
    let unlike = random.one_in(2);
    let vdevs: Vec<VdevSpec> = (0..count)
        .map(|_| {
            let size = if unlike { size(random) } else { one };
            let mut vdev = vdev(random, size);
            if large {
                vdev.sizes.truncate((vdev.parity as usize + 2).max(1));
                if vdev.kind == VdevKind::Mirror {
                    vdev.sizes.truncate(vdev.parity as usize + 1);
                }
            }
            vdev
        })
        .collect();
    let all: usize = vdevs.iter().map(|vdev| vdev.sizes.len()).sum();
    PoolSpec {
        name: "tank".into(),
        id: Uuid::from_u128(0x7461_6e6b),
        members: (0..all).map(|n| Uuid::from_u128(n as u128 + 1)).collect(),
        opening: 0x1000 + seed,
        created: 1_800_000_000,
        vdevs,
        unit: None,
    }
}

/// A request of a volume, and what it is for.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Write { fua: bool },
    Discard,
    Zeroes,
}

/// The way a volume is gone over.
#[derive(Clone, Copy, Debug)]
struct Way {
    in_order: bool,
    /// Bytes of a request: up to, in powers of two blocks; or always as many.
    most: u64,
    varies: bool,
    /// One of so many gives something back; 0: none.
    gives: u64,
    fua: u64,
    /// Bytes in all.
    bytes: u64,
    lanes: u64,
}

type Outcome = Result<(), String>;

impl Life {
    fn new(seed: u64, tells: bool) -> Self {
        let mut random = Random::stream(seed, 0x6c69_6665);
        let spec = spec(seed, &mut random);
        let sim = Sim::new(seed);
        let sizes = spec.vdevs.iter().flat_map(|vdev| vdev.sizes.iter().copied());
        let ids = sizes.map(|size| sim.add_blank_drive(Model::nvme(), size)).collect();
        let (failed, opening, names, left) = (Vec::new(), 0x2000, 0, BUDGET as i64);
        Self { seed, spec, random, sim, ids, failed, opening, names, tells, left }
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        if self.tells {
            eprintln!("{}", what());
        }
    }

    fn shape(&self) -> String {
        let of = |vdev: &VdevSpec| {
            format!("{:?}{} {}x{}M", vdev.kind, vdev.parity, vdev.sizes.len(), vdev.sizes[0] >> 20)
        };
        self.spec.vdevs.iter().map(of).collect::<Vec<_>>().join(" + ")
    }

    async fn open(&mut self, io: &Io) -> Result<Pool, String> {
        self.opening += 1;
        let there: Vec<MemberId> =
            (0..self.ids.len()).filter(|n| !self.failed.contains(n)).map(|n| self.ids[n]).collect();
        let config = PoolConfig::new(|| 1_800_000_001);
        let how = How::degraded(self.opening);
        let (pool, recovered) =
            open(io, &there, how, None, config).await.map_err(|why| format!("it does not open: {why}"))?;
        if recovered.lost > 0 || pool.is_read_only() {
            return Err(format!("it opens with {recovered:?}, read-only {}", pool.is_read_only()));
        }
        Ok(pool)
    }

    async fn volumes(&mut self, pool: &Pool) -> Outcome {
        let left = (pool.status().capacity - pool.status().sold) / 4096 * 4096;
        if left == 0 {
            return Ok(());
        }
        let count = [1, 1, 1, 2, 3, 12][self.random.below(6) as usize];
        let percent = *self.random.pick(&[60, 75, 85, 90, 95, 100, 100]);
        let size = left / count / 100 * percent / 4096 * 4096;
        for _ in 0..count {
            if size == 0 {
                return Ok(());
            }
            self.names += 1;
            let name = format!("v{}", self.names);
            self.tell(|| format!("  volume {name} of {size} bytes, {percent} %"));
            pool.create_volume(&name, size).await.map_err(|why| format!("volume of {size}: {why}"))?;
        }
        Ok(())
    }

    fn way(&mut self, size: u64, fills: bool) -> Way {
        let random = &mut self.random;
        let in_order = fills || random.one_in(2);
        let most = if fills || in_order {
            *random.pick(&[MOST, MOST, MOST, 64 << 10, 256 << 10])
        } else {
            *random.pick(&[4096, 8192, 16 << 10, 64 << 10, 256 << 10, MOST])
        };
        let times = if fills { 100 } else { *random.pick(&[20, 50, 100, 200]) };
        let mut bytes = size / 100 * times;
        // Small requests take long.
        bytes = bytes.min(most * 12_000);
        bytes = bytes.min(self.left.max(0) as u64);
        let gives = if fills { 0 } else { *random.pick(&[0, 0, 3, 10, 40]) };
        Way {
            in_order,
            most,
            varies: !fills && random.one_in(3),
            gives,
            fua: *random.pick(&[0, 0, 10]),
            bytes,
            lanes: *random.pick(&[1, IN_FLIGHT, IN_FLIGHT, 32]),
        }
    }

    /// Goes over a volume.
    fn go_over(&mut self, io: &Io, volume: &PoolVolume, way: Way, buf: &Buf) -> brindle_io::Task<Outcome> {
        let seed = self.random.next();
        self.left -= way.bytes as i64;
        let size = volume.limits().size / 4096 * 4096;
        let (done, at) = (Rc::new(Cell::new(0u64)), Rc::new(Cell::new(0u64)));
        let wrong: Rc<RefCell<Option<String>>> = Rc::default();
        let lanes = (0..way.lanes).map(|lane| {
            let (io, volume, buf) = (io.clone(), volume.clone(), buf.slice(0..MOST as usize));
            let (done, at, wrong) = (Rc::clone(&done), Rc::clone(&at), Rc::clone(&wrong));
            let mut random = Random::stream(seed, lane);
            io.clone().spawn(async move {
                while done.get() < way.bytes && wrong.borrow().is_none() {
                    let most = way.most.min(size);
                    let len = if way.varies { (1 + random.below(most >> 12)) << 12 } else { most };
                    let offset = if way.in_order {
                        let offset = if at.get() >= size { 0 } else { at.get() };
                        at.set(offset + len);
                        offset
                    } else {
                        random.below(((size - len) >> 12) + 1) << 12
                    };
                    let len = len.min(size - offset);
                    let kind = match way.gives {
                        0 => Kind::Write { fua: false },
                        gives if random.one_in(gives) && random.one_in(2) => Kind::Zeroes,
                        gives if random.one_in(gives) => Kind::Discard,
                        _ => Kind::Write { fua: way.fua > 0 && random.one_in(way.fua) },
                    };
                    done.set(done.get() + len);
                    let began = io.now();
                    let result = match kind {
                        Kind::Write { fua } => volume.write(offset, buf.slice(0..len as usize), fua).await,
                        Kind::Discard => volume.discard(offset, len).await,
                        Kind::Zeroes => volume.write_zeroes(offset, len, ZeroOptions::default()).await,
                    };
                    let took = io.now().since(began);
                    if let Err(why) = result {
                        wrong.borrow_mut().get_or_insert(format!("{kind:?} of {len} at {offset}: {why}"));
                    }
                    if took > brindle_io::Duration::from_secs(20) {
                        wrong.borrow_mut().get_or_insert(format!("{kind:?} of {len} took {took:?}"));
                    }
                }
            })
        });
        let lanes: Vec<_> = lanes.collect();
        io.spawn(async move {
            join_all(lanes).await;
            wrong.take().map_or(Ok(()), Err)
        })
    }

    /// A member that can fail still.
    fn victim(&mut self) -> Option<usize> {
        let mut can = Vec::new();
        let mut first = 0;
        for vdev in &self.spec.vdevs {
            let all = first..first + vdev.sizes.len();
            let gone = self.failed.iter().filter(|n| all.contains(n)).count();
            if gone < usize::from(vdev.parity) {
                can.extend(all.clone().filter(|n| !self.failed.contains(n)));
            }
            first = all.end;
        }
        (!can.is_empty()).then(|| *self.random.pick(&can))
    }

    fn fail(&mut self, io: &Io, pool: &Pool) -> Option<brindle_io::Task<Outcome>> {
        let victim = self.victim()?;
        self.tell(|| format!("  member {victim} fails"));
        // Beside a vdev without redundancy no member is done without that did not fail by command.
        let dies = self.random.one_in(2) && self.spec.vdevs.iter().all(|vdev| vdev.parity > 0);
        let (pool, sim, id, now) = (pool.clone(), self.sim.clone(), self.ids[victim], io.clone());
        let after = self.random.below(60);
        self.failed.push(victim);
        Some(io.spawn(async move {
            now.sleep(brindle_io::Duration::from_millis(after)).await;
            if dies {
                sim.kill(id);
                return Ok(());
            }
            match pool.fail(victim as u16).await {
                // More of what stands there is without parity than it was: tried again later.
                Err(VolumeError::TooManyLost) => Err("spared".to_owned()),
                other => other.map_err(|why| format!("a failure by command: {why}")),
            }
        }))
    }

    /// Until the power goes, or it is stopped; true if there is more to come.
    async fn boot(&mut self, io: &Io, number: u64) -> Result<bool, String> {
        let mut pool = self.open(io).await?;
        let memory = io.pool(2 * MOST as usize);
        let buf = memory.alloc(MOST as usize).await;
        buf.bytes_mut().fill(7 + number as u8);
        if pool.volumes().is_empty() {
            self.volumes(&pool).await?;
        }
        for step in 0..2 + self.random.below(5) {
            let what = if step == 0 && number == 0 { 0 } else { self.random.below(12) };
            let volumes: Vec<PoolVolume> =
                pool.volumes().iter().filter_map(|record| pool.volume(&record.name)).collect();
            let mut failing = None;
            if number + step > 0 && self.random.one_in(4) {
                failing = self.fail(io, &pool);
            }
            match what {
                0 => {
                    let mut all = Vec::new();
                    for volume in &volumes {
                        let mut way = self.way(volume.limits().size, true);
                        way.lanes = way.lanes.min(IN_FLIGHT);
                        self.tell(|| format!("  fills: {way:?}"));
                        let task = self.go_over(io, volume, way, &buf);
                        if volumes.len() > 3 { all.push(task) } else { task.await? }
                    }
                    for one in join_all(all).await {
                        one?;
                    }
                }
                1..=7 => {
                    let mut all = Vec::new();
                    for volume in &volumes {
                        if all.is_empty() || self.random.one_in(2) {
                            let way = self.way(volume.limits().size, false);
                            self.tell(|| format!("  {way:?}"));
                            all.push(self.go_over(io, volume, way, &buf));
                        }
                    }
                    for one in join_all(all).await {
                        one?;
                    }
                }
                8 => {
                    let record = self.random.pick(&pool.volumes()).clone();
                    self.tell(|| format!("  destroys {}", record.name));
                    pool.destroy_volume(&record.name).await.map_err(|why| format!("destroy: {why}"))?;
                    self.volumes(&pool).await?;
                }
                9 => pool.checkpoint().await.map_err(|why| format!("checkpoint: {why}"))?,
                10 => {
                    self.tell(|| "  stops".into());
                    if let Some(failing) = failing.take() {
                        self.failed_well(failing.await)?;
                    }
                    pool.stop().await.map_err(|why| format!("stop: {why}"))?;
                    pool = self.open(io).await?;
                }
                _ => pool.flush().await.map_err(|why| format!("flush: {why}"))?,
            }
            if let Some(failing) = failing {
                self.failed_well(failing.await)?;
            }
            self.tell(|| format!("    {:?} {:?}", pool.status().segments, pool.status().busy));
            if self.left <= 0 {
                break;
            }
        }
        if self.random.one_in(3) || self.left <= 0 {
            let checked = pool.check(|_| {}).await.map_err(|why| format!("check: {why}"))?;
            if checked.wrong + checked.lost + checked.mismatches > 0 {
                return Err(format!("{checked:?}"));
            }
        }
        if self.random.one_in(3) {
            pool.stop().await.map_err(|why| format!("stop: {why}"))?;
        }
        Ok(self.left > 0)
    }

    fn failed_well(&mut self, outcome: Outcome) -> Outcome {
        match outcome {
            Err(why) if why == "spared" => {
                self.failed.pop();
                Ok(())
            }
            other => other,
        }
    }

    fn run(mut self) -> Outcome {
        let io = Io::new(Box::new(self.sim.clone()));
        self.tell(|| format!("seed {}: {}", self.seed, self.shape()));
        let label = plan(&self.spec).map_err(|why| why.to_string())?;
        io.block_on(create(&io, &label, self.spec.opening, &self.ids)).map_err(|why| why.to_string())?;
        io.shutdown();
        for number in 0..5 {
            self.sim = self.sim.restart(self.seed * 8 + number);
            for &failed in &self.failed {
                self.sim.kill(self.ids[failed]);
            }
            let io = Io::new(Box::new(self.sim.clone()));
            let more = io.block_on(self.boot(&io, number));
            // Some of what was not flushed is lost.
            self.sim.cut_power();
            io.shutdown();
            if !more.map_err(|why| format!("seed {} ({}): {why}", self.seed, self.shape()))? {
                break;
            }
        }
        Ok(())
    }
}

/// Lives of each of which something was refused once, or a checkpoint took more than was counted.
const FOUND: [u64; 7] = [5, 8, 9, 12, 16, 121, 296];

#[test]
fn nothing_is_refused_for_want_of_the_pools_own_room() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("BRINDLE_POOL_SEED") {
        Life::new(seed, true).run().expect("a pool with room");
        return;
    }
    let until = number("BRINDLE_POOL_LIVES").map(|minutes| Instant::now() + Real::from_secs(60 * minutes));
    let more = 100..until.map_or(100, |_| u64::MAX);
    let in_time = |_: &u64| until.is_none_or(|until| Instant::now() < until);
    let (mut lives, mut refused) = (0, Vec::new());
    for seed in FOUND.into_iter().chain(more).take_while(in_time) {
        lives += 1;
        if until.is_some() {
            eprintln!("seed {seed}");
        }
        refused.extend(Life::new(seed, false).run().err());
    }
    assert!(refused.is_empty(), "{} of {lives} lives: {refused:#?}", refused.len());
}
