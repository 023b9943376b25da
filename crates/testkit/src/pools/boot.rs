//! One boot of a pool: it is opened, judged, asked for many things while members fail, and ends well or by a power cut.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_io::sim::{Sim, When};
use brindle_io::{Duration, Io, Task};
use brindle_pool::{How, Pool, PoolVolume, choose, look, open_chosen};
use brindle_volume::Volume;

use super::aside;
use super::growth;
use super::house::House;
use super::members;
use super::names::{self, Names};
use super::phase::Phase;
use super::plan::PoolPlan;
use super::scrubs;
use super::strike::Strike;
use crate::client::{Client, Trouble};
use crate::load::{Mix, Request};
use crate::oracle::{Change, Oracle};
use crate::random::Random;

/// The name of the volume.
pub(super) const NAME: &str = "one";
/// Bytes of the volume of a pool that is not full, and of the part where half of the requests of those meet.
const SIZE: u64 = 2 << 20;
const CROWD: u64 = 64 << 10;
/// Times that each segment is reused in the storms of a seed, and times that a volume is overwritten for that at most.
/// Segments of pages take turns slowly, when many changes in memory make few pages: a hundred and a few were seen.
pub const REUSED: u32 = 3;
const MOST_ROUNDS: u64 = 200;
/// Writes of a block between two of these times.
const FEW: u64 = 256;

/// A boot: how long it is, and what happens in it.
pub(super) struct Boot {
    pub(super) house: Rc<House>,
    pub(super) plan: Rc<PoolPlan>,
    pub(super) names: Rc<RefCell<Names>>,
    pub(super) oracle: Rc<RefCell<Oracle>>,
    pub(super) number: u64,
    pub(super) seed: u64,
    pub(super) requests: u64,
    pub(super) cut: Option<u64>,
    /// The volume is overwritten until each segment was reused often enough.
    pub(super) wears: bool,
    /// The step before which something happens to a member, what, and to which.
    pub(super) strikes: Vec<(u64, usize, Strike)>,
    /// Places of members have gone bad: what recovery can't write there stays wrong.
    pub(super) spoilt: bool,
    /// Members that are not there yet when the pool is opened, and have all that they had when they are back.
    pub(super) late: Vec<usize>,
    /// Members are taken out, come back and are replaced beside the load.
    pub(super) turns: bool,
    /// The pool is getting more devices.
    pub(super) growing: Rc<Cell<bool>>,
    /// How the boot before ended.
    pub(super) cuts_before: Before,
    pub(super) pool: RefCell<Option<Pool>>,
    /// How often each segment became free.
    pub(super) reuses: RefCell<Vec<u32>>,
}

/// How the boot before ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    Well,
    Cut,
    CutInRecovery,
}

/// The size of the volume of a plan.
pub(super) fn size_of(plan: &PoolPlan, house: &House) -> u64 {
    let label = brindle_pool::plan(&house.spec()).expect("a pool that can be");
    if plan.full { brindle_pool::capacity(&label) } else { SIZE }
}

impl Boot {
    /// Plans what happens to members.
    pub(super) fn begin(&self, sim: &Sim) {
        for &(step, member, strike) in &self.strikes {
            strike.plan(sim, self.house.ids[member], When::Step(step));
        }
        if !self.strikes.is_empty() || !self.late.is_empty() || self.turns {
            self.oracle.borrow_mut().upset();
        }
    }

    /// Phases that it is in, when the power goes.
    pub(super) fn phases(&self) -> Vec<Phase> {
        match (&*self.pool.borrow(), self.cuts_before) {
            (Some(pool), _) => {
                self.reuses.replace(pool.reuses());
                let config = self.names.borrow().is_changing().then_some(Phase::Config);
                let growth = self.growing.get().then_some(Phase::Growth);
                Phase::of(pool).into_iter().chain(config).chain(growth).collect()
            }
            (None, Before::CutInRecovery) => vec![Phase::Recovery, Phase::SecondRecovery],
            (None, Before::Cut) => vec![Phase::Recovery],
            (None, Before::Well) => vec![Phase::Idle],
        }
    }

    /// Opens the pool, of which nothing may be lost.
    pub(super) async fn open(&self, io: &Io) -> Result<Pool, String> {
        let how = How::degraded(0x2000 + self.number);
        let mut looked = Vec::new();
        for (member, &id) in self.house.ids.iter().enumerate().filter(|(n, _)| !self.late.contains(n)) {
            match look(io, "a member", id).await {
                Ok(one) => looked.push(one),
                Err(_) if self.plan.victims.contains(&member) => {}
                Err(why) => return Err(format!("it can't be looked at: {why}")),
            }
        }
        for &extra in self.house.extra.iter().chain(&self.house.more) {
            looked.extend(look(io, "one more device", extra).await);
        }
        let chosen = choose(&looked, None).map_err(|why| format!("nothing is believed: {why}"))?;
        let opened = open_chosen(io, chosen, how, self.house.config()).await;
        let (pool, recovered) = opened.map_err(|why| format!("it does not open: {why}"))?;
        if recovered.lost > 0 {
            return Err(format!("{recovered:?}"));
        }
        self.names.borrow_mut().opened(&pool)?;
        if self.plan.grows {
            // Spares take roles by themselves.
            (0..2).for_each(|_| self.names.borrow_mut().others_change());
        }
        self.pool.replace(Some(pool.clone()));
        Ok(pool)
    }

    /// Reads all that was there, and asks for many things side by side.
    pub(super) async fn load(&self, pool: &Pool, io: &Io) -> Result<(), String> {
        self.is_true(pool).await?;
        let served = |trouble: Trouble| trouble.to_string();
        let size = size_of(&self.plan, &self.house);
        let volume = match pool.volume(NAME) {
            Some(volume) => volume,
            None => pool.create_volume(NAME, size).await.map_err(|why| format!("no volume: {why}"))?,
        };
        let client = Client::new(volume.clone(), io.pool(4 << 20), Rc::clone(&self.oracle));
        client.read_all().await.map_err(served)?;
        if self.plan.full && self.number == 0 {
            client.write_all().await.map_err(served)?;
        }
        let done = Rc::new(Cell::new(false));
        aside::is_true(pool, io).await?;
        let aside = (!self.plan.full).then(|| {
            let (pool, other, seed, done) = (pool.clone(), io.clone(), self.seed, Rc::clone(&done));
            io.spawn(async move { aside::change(&pool, &other, seed, &done).await })
        });
        let renamed = {
            let (pool, other, seed, done) = (pool.clone(), io.clone(), self.seed, Rc::clone(&done));
            let names = Rc::clone(&self.names);
            io.spawn(async move { names::change(&pool, &other, &names, seed, &done).await })
        };
        let scrubbed = self.plan.scrubs.then(|| {
            let (pool, other, seed, done) = (pool.clone(), io.clone(), self.seed, Rc::clone(&done));
            let (plan, spoilt) = (Rc::clone(&self.plan), self.spoilt);
            io.spawn(async move { scrubs::go_over(&pool, &other, (&plan, spoilt), seed, &done).await })
        });
        let turned = self.turns.then(|| {
            let (pool, other, seed, done) = (pool.clone(), io.clone(), self.seed, Rc::clone(&done));
            let (names, house, plan) =
                (Rc::clone(&self.names), Rc::clone(&self.house), Rc::clone(&self.plan));
            let are_struck = !self.strikes.is_empty() || plan.faults || plan.silent;
            io.spawn(async move {
                let whom = (&*plan.victims, are_struck);
                members::change(&pool, &other, &house, whom, &names, seed, &done).await
            })
        });
        let grown = self.plan.grows.then(|| self.grows(pool, io, &done));
        let restless = self.plan.restless.then(|| {
            let other = Rc::new(Restless { io: io.clone(), volume, oracle: Rc::clone(&self.oracle) });
            let (seed, done) = (self.seed, Rc::clone(&done));
            io.spawn(async move { other.write(seed, &done).await })
        });
        let crowd = if self.plan.full { size } else { CROWD };
        let mix = Mix { flushes: 3, discards: 1, most: 32 << 10, crowd, ..Mix::default() };
        let troubles = client.side_by_side(io, 3, self.requests, mix, self.seed).await;
        done.set(true);
        renamed.await?;
        if let Some(scrubbed) = scrubbed {
            scrubbed.await?;
        }
        if let Some(turned) = turned {
            turned.await?;
        }
        if let Some(grown) = grown {
            grown.await?;
        }
        if let Some(restless) = restless {
            restless.await?;
        }
        if let Some(aside) = aside {
            aside.await?;
        }
        troubles.into_iter().next().map_or(Ok(()), |trouble| Err(served(trouble)))?;
        client.read_all().await.map_err(served)
    }

    /// Has the pool grow beside the load.
    fn grows(&self, pool: &Pool, io: &Io, done: &Rc<Cell<bool>>) -> Task<Result<(), String>> {
        let (pool, other, seed) = (pool.clone(), io.clone(), self.seed);
        let (house, plan) = (Rc::clone(&self.house), Rc::clone(&self.plan));
        let (growing, done) = (Rc::clone(&self.growing), Rc::clone(done));
        let are_struck = !self.strikes.is_empty() || plan.faults || plan.silent;
        self.names.borrow_mut().others_change();
        self.names.borrow_mut().others_change();
        io.spawn(async move {
            growth::grow(&pool, &other, (&house, &plan), are_struck, seed, (&growing, &done)).await
        })
    }

    /// Overwrites all of the volume until no segment of the pool was reused less often than storms want.
    pub(super) async fn wear(&self, pool: &Pool, io: &Io) -> Result<(), String> {
        let volume = pool.volume(NAME).ok_or("the volume is gone")?;
        let client = Client::new(volume.clone(), io.pool(4 << 20), Rc::clone(&self.oracle));
        let least = || pool.reuses().into_iter().min().unwrap_or(REUSED);
        let (mut random, blocks) = (Random::stream(self.seed, 0x7765_6172), volume.limits().size >> 12);
        for _ in 0..MOST_ROUNDS {
            if least() >= REUSED {
                return Ok(());
            }
            client.write_all().await.map_err(|trouble| trouble.to_string())?;
            // Narrow stripes have segments of their own: each of these is a batch.
            for _ in 0..FEW {
                let offset = random.below(blocks) << 12;
                let small = Request::Write { offset, len: 4096, fua: true };
                client.ask(small).await.map_err(|trouble| trouble.to_string())?;
            }
        }
        Err(format!("there are segments that nothing is written to: {:?}", pool.reuses()))
    }

    /// Checks that the pool is consistent, and stops it. Members have what they lack by then.
    pub(super) async fn judge(&self, pool: &Pool, io: &Io) -> Result<(), String> {
        self.is_true(pool).await?;
        members::settle(pool, io).await;
        self.is_true(pool).await?;
        self.reuses.replace(pool.reuses());
        pool.stop().await.map_err(|why| format!("stop: {why}"))
    }

    /// Checks every checksum and all parity that can be compared. Only members that faults may strike may be wrong.
    async fn is_true(&self, pool: &Pool) -> Result<(), String> {
        let status = pool.status();
        let found = pool.check(|_| {}).await.map_err(|why| format!("check: {why}"))?;
        let sound = found.wrong == 0 && found.unreadable == 0 && found.mismatches == 0;
        let blamed = found.places.iter().all(|(member, _)| self.plan.victims.contains(&usize::from(*member)));
        let damage = status.damage;
        let whole = found.lost == 0 && damage.lost == 0;
        let well = if self.plan.is_sound() {
            sound && damage.found == 0
        } else {
            blamed && (self.plan.silent || self.spoilt || found.wrong == 0 && found.mismatches == 0)
        };
        if well && whole { Ok(()) } else { Err(format!("{found:?}, {damage:?}")) }
    }
}

/// A client that changes the memory which it writes from. The result is unknown, but stays the same from then on.
struct Restless {
    io: Io,
    volume: PoolVolume,
    oracle: Rc<RefCell<Oracle>>,
}

impl Restless {
    async fn write(&self, seed: u64, done: &Cell<bool>) -> Result<(), String> {
        let mut random = Random::stream(seed, 0x7265_7374);
        let buf = self.io.pool(16 << 10).alloc(16 << 10).await;
        let blocks = self.volume.limits().size >> 12;
        while !done.get() {
            let count = 1 + random.below(4);
            let offset = random.below(blocks - count) << 12;
            let number = self.oracle.borrow_mut().change_begins(Change::Discard, offset, count << 12);
            let writing = Rc::new(Cell::new(true));
            let (changed, under_way, io) = (buf.all(), Rc::clone(&writing), self.io.clone());
            let mut chance = Random::new(random.next());
            drop(self.io.spawn(async move {
                while under_way.get() {
                    let at = chance.below(changed.len() as u64 - 8) as usize;
                    changed.put(at, &chance.next().to_le_bytes());
                    io.yield_now().await;
                    if chance.one_in(3) {
                        io.sleep(Duration::from_micros(1 + chance.below(40))).await;
                    }
                }
            }));
            let written = self.volume.write(offset, buf.slice(0..(count << 12) as usize), false).await;
            writing.set(false);
            self.oracle.borrow_mut().change_ended(number, written.is_ok(), false);
            written.map_err(|why| format!("a restless client: {why}"))?;
            self.io.sleep(Duration::from_micros(random.below(400))).await;
        }
        Ok(())
    }
}
