//! The seam between storms and the thing that they drive. A [`Subject`] has worlds that end at any step, boots that
//! begin with the remains of the last one, and an end that has to come. Arrays, hosts, pools, the volumes of a container and the
//! smallest owner of members are subjects.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;

use brindle_io::sim::{Sim, When};
use brindle_io::sync::join_all;
use brindle_io::{Duration, Instant, Io};

use crate::random::Random;

/// Something that is stored on drives.
#[allow(async_fn_in_trait, reason = "futures stay on their executor's thread, none needs to be Send")]
pub trait Subject: Sized {
    /// The plan of a storm of the subject.
    type Setup;
    /// The subject, running in one world.
    type Open;
    /// How a boot ends that is not cut.
    type End;
    /// A broken promise of the subject.
    type Broken: core::fmt::Display;

    /// Steps of a boot after which nothing comes to an end any more.
    const ENDLESS_STEPS: u64 = 2_000_000;
    /// Virtual time after which a boot counts as endless.
    const ENDLESS_TIME: Duration = Duration::from_secs(600);
    /// Longest time between two changes that break or mend something; none where what breaks in a boot is planned when it begins.
    const PAUSE: Option<Duration> = None;

    /// Creates the subject on new drives.
    fn create(sim: &mut Sim, plan: Self::Setup) -> Self;

    /// A boot begins: what breaks at steps is planned. Gives the step before which the power goes, if it does.
    fn begin(&mut self, sim: &Sim, boot: u64) -> Option<u64>;

    /// Opens the subject from its drives.
    async fn open(&self, scene: &Scene) -> Result<Self::Open, Self::Broken>;

    /// Breaks something that it can bear, or mends what was broken: one change at a time, as long as there is load.
    async fn break_one(&self, _: &Self::Open, _: &Scene, _: &mut Random) -> Result<(), Self::Broken> {
        Ok(())
    }

    /// Puts load on the subject, and judges each answer; ends when the load does.
    async fn load(&self, open: &Self::Open, scene: &Scene) -> Result<(), Self::Broken>;

    /// Nothing is broken any more: it has to become whole, hold what it must hold, and stop.
    async fn judge(&self, open: &Self::Open, scene: &Scene) -> Result<Self::End, Self::Broken>;

    /// A boot is over; `None` if the power went: only what is stable is sure to be there.
    ///
    /// # Errors
    /// A promise that it has broken.
    fn ended(&mut self, end: Option<Self::End>, scene: &Scene) -> Result<(), Self::Broken>;

    /// A boot is over, however it ended: whatever holds its world is let go.
    fn let_go(&mut self, _: &Scene) {}

    /// The power is back: the drives become as the next boot finds them, and what stands on them is judged. Tells whether a
    /// boot follows.
    ///
    /// # Errors
    /// A promise that it has broken.
    fn restarted(&mut self, sim: &Sim) -> Result<bool, Self::Broken>;

    /// The words for a boot that comes to no end.
    fn endless(&self, scene: &Scene) -> Self::Broken;

    /// How often things have happened to it, by a word for each.
    fn met(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::new()
    }
}

/// The world of one boot.
pub struct Scene {
    /// Its drives.
    pub sim: Sim,
    /// Its executor.
    pub io: Io,
    /// From 1.
    pub boot: u64,
    /// The seed of the storm.
    pub seed: u64,
}

impl Scene {
    /// How far it is, for a boot that comes to no end.
    pub fn at(&self) -> (u64, Instant) {
        (self.sim.steps(), self.io.now())
    }
}

/// The outcome of driving a subject.
#[derive(Debug, Default)]
pub struct Driven {
    /// The promise that was broken, if one was.
    pub broken: Option<String>,
    /// The boot in which it was, or the last one.
    pub boot: u64,
    /// Power cuts.
    pub cuts: u64,
    /// Steps of the first boot.
    pub steps: u64,
    /// A digest of all that happened.
    pub trace: u64,
    /// See [`Subject::met`].
    pub met: BTreeMap<&'static str, u64>,
}

/// Drives a new subject through its boots. A panic of the engine is a promise that was broken; the subject is there unless it panicked
/// while it was made.
pub fn drive<S: Subject>(seed: u64, plan: S::Setup) -> (Driven, Option<S>) {
    let (mut driven, mut subject) = (Driven::default(), None);
    // A boot that was unwound is not looked at again.
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let mut sim = Sim::new(seed);
        let made = S::create(&mut sim, plan);
        boots(subject.insert(made), sim, seed, &mut driven)
    }));
    driven.broken = match lived {
        Ok(ended) => ended.err().map(|broken| broken.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Some(format!("panic: {}", text.unwrap_or_default()))
        }
    };
    (driven, subject)
}

/// Drives a subject from its first boot to its last. What is known until a promise is broken is in `driven`.
pub(super) fn boots<S: Subject>(
    subject: &mut S,
    mut sim: Sim,
    seed: u64,
    driven: &mut Driven,
) -> Result<(), S::Broken> {
    loop {
        driven.boot += 1;
        let cut = subject.begin(&sim, driven.boot);
        let io = Io::new(Box::new(sim.clone()));
        sim.cut_power_at(When::Step(cut.unwrap_or(S::ENDLESS_STEPS)));
        sim.cut_power_at(When::Moment(io.now().after(S::ENDLESS_TIME)));
        let scene = Scene { sim: sim.clone(), io: io.clone(), boot: driven.boot, seed };
        let ended = io.block_on(sim.until_end(&io, live(subject, &scene)));
        // A planned cut must not come while the rest is waited for: its strike would go unnoticed.
        if !sim.has_ended() {
            sim.cut_power();
        }
        if driven.boot == 1 {
            driven.steps = sim.steps();
        }
        driven.trace = driven.trace.rotate_left(7) ^ sim.trace().0;
        let was_cut = cut.is_some_and(|cut| sim.steps() >= cut);
        let ended = match ended {
            // It was done before the power went, or nothing was to be cut.
            Some(done) => done.and_then(|end| subject.ended(Some(end), &scene)),
            None if was_cut => {
                driven.cuts += 1;
                subject.ended(None, &scene)
            }
            None => Err(subject.endless(&scene)),
        };
        driven.met = subject.met();
        subject.let_go(&scene);
        drop(scene);
        io.shutdown();
        sim.end_others();
        ended?;
        sim = sim.restart(seed.wrapping_add(driven.trace));
        if !subject.restarted(&sim)? {
            return Ok(());
        }
    }
}

/// A part of a run that goes on beside another.
type Part<'a, E> = Pin<Box<dyn Future<Output = Result<(), E>> + 'a>>;

async fn live<S: Subject>(subject: &S, scene: &Scene) -> Result<S::End, S::Broken> {
    let open = subject.open(scene).await?;
    match S::PAUSE {
        None => subject.load(&open, scene).await?,
        Some(pause) => load_and_break(subject, &open, scene, pause).await?,
    }
    subject.judge(&open, scene).await
}

async fn load_and_break<S: Subject>(
    subject: &S,
    open: &S::Open,
    scene: &Scene,
    pause: Duration,
) -> Result<(), S::Broken> {
    let mut random = Random::stream(scene.seed, 0x6272_6561 + scene.boot);
    // A change is driven to its end, whatever it was.
    let done = Cell::new(false);
    let breaking = async {
        while !done.get() {
            scene.io.sleep(Duration::from_millis(1 + random.below(pause.as_millis() as u64))).await;
            subject.break_one(open, scene, &mut random).await?;
        }
        Ok(())
    };
    let loading = async {
        let loaded = subject.load(open, scene).await;
        done.set(true);
        loaded
    };
    let both: [Part<'_, S::Broken>; 2] = [Box::pin(loading), Box::pin(breaking)];
    join_all(both).await.into_iter().collect()
}
