//! The seam between storms and the thing that they drive. A [`Subject`] has worlds that end at any step, lives that
//! begin with the remains of the last one, and an end that has to come.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;

use brindle_io::sim::{Sim, When};
use brindle_io::sync::join_all;
use brindle_io::{Duration, Io};

use crate::random::Random;

/// Something that lives on drives.
#[allow(async_fn_in_trait, reason = "futures stay on their executor's thread, none needs to be Send")]
pub trait Subject: Sized {
    /// It, running in one world.
    type Open;
    /// A promise that it has broken.
    type Broken: core::fmt::Display;

    /// Makes it on new drives.
    fn create(sim: &Sim, seed: u64) -> Self;

    /// Starts what stands on its drives.
    async fn open(&self, scene: &Scene) -> Result<Self::Open, Self::Broken>;

    /// Breaks something that it can bear, or mends what was broken: one change at a time, as long as a life lasts.
    async fn break_one(
        &self,
        open: &Self::Open,
        scene: &Scene,
        random: &mut Random,
    ) -> Result<(), Self::Broken>;

    /// Loads it, and judges each answer; ends when the load does.
    async fn load(&self, open: &Self::Open, scene: &Scene) -> Result<(), Self::Broken>;

    /// Nothing is broken any more: it has to become whole, hold what it must hold, and stop.
    async fn judge(&self, open: &Self::Open, scene: &Scene) -> Result<(), Self::Broken>;

    /// The power went: only what is stable is sure to be there.
    fn power_cut(&self);

    /// How often things have happened to it, by a word for each.
    fn met(&self) -> BTreeMap<&'static str, u64>;
}

/// The world of one life.
pub struct Scene {
    /// Its drives.
    pub sim: Sim,
    /// Its executor.
    pub io: Io,
    /// From 1.
    pub life: u64,
    /// Of the storm.
    pub seed: u64,
}

/// How it ended that a subject was driven.
#[derive(Debug)]
pub struct Driven {
    /// The promise that was broken, if one was.
    pub broken: Option<String>,
    /// The life in which it was, or the last one.
    pub life: u64,
    /// Steps of the first life.
    pub steps: u64,
    /// A digest of all that happened.
    pub trace: u64,
    /// See [`Subject::met`].
    pub met: BTreeMap<&'static str, u64>,
}

/// Time between two changes that break or mend something, at most.
const PAUSE_MS: u64 = 1500;
/// Steps after which nothing comes to an end any more.
const ENDLESS_STEPS: u64 = 2_000_000;
/// Time after which it does not either.
const ENDLESS_TIME: Duration = Duration::from_secs(600);

/// Drives a subject through lives that end before these steps, and one that ends well.
pub fn drive<S: Subject>(seed: u64, cuts: &[u64]) -> Driven {
    let mut driven = Driven { broken: None, life: 1, steps: 0, trace: 0, met: BTreeMap::new() };
    // A life that was unwound is not looked at again.
    let lived = catch_unwind(AssertUnwindSafe(|| lives::<S>(seed, cuts, &mut driven)));
    driven.broken = match lived {
        Ok(ended) => ended.err(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Some(format!("panic: {}", text.unwrap_or_default()))
        }
    };
    driven
}

/// A part of a run that goes on beside another.
type Part<'a, E> = Pin<Box<dyn Future<Output = Result<(), E>> + 'a>>;

fn lives<S: Subject>(seed: u64, cuts: &[u64], driven: &mut Driven) -> Result<(), String> {
    let mut sim = Sim::new(seed);
    let subject = S::create(&sim, seed);
    loop {
        let life = driven.life;
        let cut = cuts.get(life as usize - 1).copied();
        let io = Io::new(Box::new(sim.clone()));
        sim.cut_power_at(When::Step(cut.unwrap_or(ENDLESS_STEPS)));
        sim.cut_power_at(When::Moment(io.now().after(ENDLESS_TIME)));
        let scene = Scene { sim: sim.clone(), io: io.clone(), life, seed };
        let ended = io.block_on(sim.until_end(&io, live(&subject, &scene)));
        // A planned cut must not come while the rest is waited for: its strike would go unnoticed.
        if !sim.has_ended() {
            sim.cut_power();
        }
        if life == 1 {
            driven.steps = sim.steps();
        }
        driven.trace = driven.trace.rotate_left(7) ^ sim.trace().0;
        driven.met = subject.met();
        let was_cut = cut.is_some_and(|cut| sim.steps() >= cut);
        drop(scene);
        io.shutdown();
        match ended {
            Some(Err(broken)) => return Err(broken.to_string()),
            // It was done before the power went, or nothing was to be cut.
            Some(Ok(())) => return Ok(()),
            None if was_cut => subject.power_cut(),
            None => return Err("nothing comes to an end any more".to_owned()),
        }
        driven.life += 1;
        sim = sim.restart(seed.wrapping_add(driven.trace));
    }
}

async fn live<S: Subject>(subject: &S, scene: &Scene) -> Result<(), S::Broken> {
    let open = subject.open(scene).await?;
    let mut random = Random::stream(scene.seed, 0x6272_6561 + scene.life);
    // A change is driven to its end, whatever it was.
    let done = Cell::new(false);
    let breaking = async {
        while !done.get() {
            scene.io.sleep(Duration::from_millis(1 + random.below(PAUSE_MS))).await;
            subject.break_one(&open, scene, &mut random).await?;
        }
        Ok(())
    };
    let loading = async {
        let loaded = subject.load(&open, scene).await;
        done.set(true);
        loaded
    };
    let both: [Part<'_, S::Broken>; 2] = [Box::pin(loading), Box::pin(breaking)];
    join_all(both).await.into_iter().collect::<Result<(), _>>()?;
    subject.judge(&open, scene).await
}
