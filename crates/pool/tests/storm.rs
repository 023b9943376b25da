//! Pools keep what they were given while members die and the power goes at any step, in recovery too; and whenever one opens, every
//! checksum and all parity is true without a resync.

mod house;

use std::cell::RefCell;
use std::rc::Rc;

use brindle_io::sim::{Model, Sim, When};
use brindle_io::{Duration, Io};
use brindle_pool::{How, Pool, choose, look, open_chosen};
use brindle_testkit::client::{Client, Trouble};
use brindle_testkit::load::Mix;
use brindle_testkit::oracle::Oracle;
use brindle_testkit::random::Random;
use house::{House, Kind};

/// Bytes of the volume, all that the smallest of these pools sells, and of the part where half of the requests of some seeds meet.
const SIZE: u64 = 3584 << 10;
const CROWD: u64 = 64 << 10;
/// Time after which nothing will come to an end any more.
const ENDLESS: Duration = Duration::from_secs(600);
const KINDS: [Kind; 6] =
    [Kind::Raidz(1, 3), Kind::Raidz(2, 5), Kind::Mirror(2), Kind::Two, Kind::Raidz(3, 5), Kind::Plain(1)];

/// Requests of half of the seeds are spread over all of the volume, and so many that the pool is cleaned all the time.
fn full(seed: u64) -> bool {
    seed / KINDS.len() as u64 % 2 == 1
}

/// Members that a pool of this kind can lose, as few as there are in any vdev.
fn may_lose(kind: Kind) -> usize {
    match kind {
        Kind::Raidz(parity, _) => usize::from(parity),
        Kind::Mirror(count) => count - 1,
        Kind::Plain(_) => 0,
        Kind::Two => 1,
    }
}

/// A life: how long it is, and when the power goes.
struct Life<'a> {
    sim: &'a Sim,
    house: &'a House,
    oracle: &'a Rc<RefCell<Oracle>>,
    number: u64,
    seed: u64,
    requests: u64,
    full: bool,
    cut: Option<u64>,
    /// The step before which a member dies, and which.
    death: Option<(u64, usize)>,
}

impl Life<'_> {
    /// True if it came to its end, false if the power went.
    fn live(&self) -> Result<bool, String> {
        let io = Io::new(Box::new(self.sim.clone()));
        if let Some(cut) = self.cut {
            self.sim.cut_power_at(When::Step(cut));
        }
        if let Some((step, member)) = self.death {
            self.sim.schedule(When::Step(step), self.house.ids[member], |faults| faults.gone = true);
        }
        self.sim.cut_power_at(When::Moment(io.now().after(ENDLESS)));
        self.oracle.borrow_mut().upset();
        let ended = io.block_on(self.sim.until_end(&io, self.all(&io)));
        let (steps, now) = (self.sim.steps(), io.now());
        if !self.sim.has_ended() {
            self.sim.cut_power();
        }
        io.shutdown();
        match ended {
            None if self.cut.is_none_or(|cut| steps < cut) => {
                Err(format!("nothing comes to an end: step {steps}, {now:?}"))
            }
            None => Ok(false),
            Some(result) => result.map(|()| true),
        }
    }

    async fn open(&self, io: &Io, how: How) -> Result<Pool, String> {
        let mut looked = Vec::new();
        for &id in self.house.ids.iter().filter(|&&id| !self.sim.faults(id).gone) {
            match look(io, "a member", id).await {
                Ok(one) => looked.push(one),
                Err(_) if self.sim.faults(id).gone => {}
                Err(why) => return Err(format!("it can't be looked at: {why}")),
            }
        }
        let chosen = choose(&looked, None).map_err(|why| format!("nothing is believed: {why}"))?;
        let opened = open_chosen(io, chosen, how, self.house.config()).await;
        let (pool, recovered) = opened.map_err(|why| format!("it does not open: {why}"))?;
        if recovered.lost > 0 { Err(format!("{recovered:?}")) } else { Ok(pool) }
    }

    async fn all(&self, io: &Io) -> Result<(), String> {
        let pool = self.open(io, How::Writing { opening: 0x2000 + self.number }).await?;
        self.is_true(&pool).await?;
        let volume = match pool.volume("one") {
            Some(volume) => volume,
            None => match pool.create_volume("one", SIZE).await {
                Ok(volume) => volume,
                Err(why) => return Err(format!("no volume: {why}")),
            },
        };
        let client = Client::new(volume, io.pool(4 << 20), Rc::clone(self.oracle));
        let served = |trouble: Trouble| trouble.to_string();
        client.read_all().await.map_err(served)?;
        let crowd = if self.full { SIZE } else { CROWD };
        let mix = Mix { flushes: 3, discards: 1, most: 32 << 10, crowd, ..Mix::default() };
        let troubles = client.side_by_side(io, 3, self.requests, mix, self.seed).await;
        troubles.into_iter().next().map_or(Ok(()), |trouble| Err(served(trouble)))?;
        client.read_all().await.map_err(served)?;
        self.is_true(&pool).await?;
        pool.stop().await.map_err(|why| format!("stop: {why}"))
    }

    /// Every checksum and all parity that can be compared.
    async fn is_true(&self, pool: &Pool) -> Result<(), String> {
        let found = pool.check(|_| {}).await.map_err(|why| format!("check: {why}"))?;
        let well = found.wrong == 0 && found.lost == 0 && found.mismatches == 0 && found.unreadable == 0;
        if well { Ok(()) } else { Err(format!("{found:?}")) }
    }
}

#[derive(Default)]
struct Came {
    cuts: u64,
    steps: u64,
}

/// Lives of one pool: the first is cut at a step, the next ones early, which is in recovery; the last comes to its end.
fn storm(seed: u64, cut: Option<u64>) -> Result<Came, String> {
    let mut sim = Sim::new(seed);
    let kind = KINDS[(seed % KINDS.len() as u64) as usize];
    let quick = Model { flush_latency: 150_000, ..Model::sata_ssd() };
    let house = House::new(kind, |size| sim.add_blank_drive(quick, size));
    let io = Io::new(Box::new(sim.clone()));
    io.block_on(house.create(&io));
    io.shutdown();
    sim = sim.restart(seed);
    let oracle = Rc::new(RefCell::new(Oracle::zeroes(SIZE)));
    let mut random = Random::stream(seed, cut.map_or(u64::MAX, |cut| cut + 1));
    let mut came = Came::default();
    let mut left = may_lose(kind);
    for number in 0..5 {
        let cut = match number {
            0 => cut,
            1 | 2 if random.one_in(2) => {
                let within = *random.pick(&[60, 900]);
                Some(random.below(within))
            }
            _ => None,
        };
        let alive: Vec<usize> = (0..house.ids.len()).filter(|&n| !sim.faults(house.ids[n]).gone).collect();
        // Of two vdevs any may lose one; a second one may be the other's.
        let dies = number < 4 && cut.is_some() && left > 0 && random.one_in(3);
        let death = dies.then(|| (random.below(cut.unwrap_or(300) + 1), *random.pick(&alive)));
        left -= usize::from(dies);
        let requests = if number == 0 {
            std::env::var("REQ").ok().and_then(|t| t.parse().ok()).unwrap_or(160)
        } else {
            30
        };
        let life = Life {
            sim: &sim,
            house: &house,
            oracle: &oracle,
            number,
            seed: seed * 11 + number,
            requests,
            full: full(seed),
            cut,
            death,
        };
        let ended = life
            .live()
            .map_err(|why| format!("life {number} of {kind:?} (cut {cut:?}, death {death:?}): {why}"))?;
        came.steps = came.steps.max(if number == 0 { sim.steps() } else { 0 });
        came.cuts += u64::from(!ended);
        if ended {
            oracle.borrow_mut().stopped();
        } else {
            oracle.borrow_mut().power_cut();
        }
        sim = sim.restart(seed * 7 + number);
    }
    Ok(came)
}

fn storms(seeds: core::ops::Range<u64>, each: u64) -> u64 {
    let mut cuts = 0;
    for seed in seeds {
        let calm = storm(seed, None).unwrap_or_else(|why| panic!("seed {seed}, calm: {why}"));
        let mut random = Random::stream(seed, 0x706f_6f6c);
        for _ in 0..each {
            let cut = random.below(calm.steps);
            let came = storm(seed, Some(cut)).unwrap_or_else(|why| panic!("seed {seed}, cut {cut}: {why}"));
            cuts += came.cuts;
        }
    }
    cuts
}

#[test]
fn pools_keep_what_they_were_given_while_members_die_and_the_power_goes() {
    // More of them: SEED=100 SEEDS=50 CUTS=20.
    let of = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let first = of("SEED").unwrap_or(0);
    let (seeds, each) = (of("SEEDS").unwrap_or(12), of("CUTS").unwrap_or(3));
    let cuts = storms(first..first + seeds, each);
    assert!(cuts >= seeds * each, "{cuts}");
    println!("{cuts} cuts");
}
