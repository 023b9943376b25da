//! All jobs: which run together, who waits for whom, and what each came to.

use core::cell::{Cell, RefCell};
use core::time::Duration;
use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_io::sync::Notify;
use brindle_io::{Instant, Io, Task};
use brindle_volume::Volume;

use super::copy::{Bench, carry_out};
use super::outcome::{Live, Outcome, RunError};
use super::pace::OwnTime;
use super::work::{Places, Work};
use crate::job::Job;
use crate::load::Range;

/// The parameters of a run beside its jobs.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Chance, for jobs with `randrepeat=0`.
    pub chance: u64,
    /// Most bytes for requests in flight.
    pub memory: u64,
    /// Nothing keeps what is written: requests bring whatever their memory holds.
    pub hollow: bool,
    /// Requests under way when a job's time ends do not count, as if it went on.
    pub sharp_end: bool,
    /// Modelled processor time of each copy of a job.
    pub own: OwnTime,
}

impl Terms {
    /// Those of targets that keep what is written, in real time.
    pub const fn new(chance: u64, memory: u64) -> Self {
        Self { chance, memory, hollow: false, sharp_end: false, own: OwnTime::NONE }
    }
}

/// Runs jobs on targets; requests of a job go to its targets in turn, and its size is of each. Outcomes are in the order of the
/// jobs, with one for each copy.
///
/// # Errors
/// [`RunError`], before anything is read or written. What fails in a run stands in its [`Outcome`].
pub async fn run<V: Volume + Clone + 'static>(
    io: &Io,
    targets: &[V],
    jobs: &[Job],
    terms: Terms,
    live: &Rc<Live>,
) -> Result<Vec<Outcome>, RunError> {
    let all = copies(targets, jobs, terms)?;
    let ended = Rc::new(Ended { left: RefCell::default(), changed: Notify::new(io) });
    for copy in &all {
        *ended.left.borrow_mut().entry(copy.job.name.clone()).or_default() += 1;
    }
    let run = Run {
        io: io.clone(),
        hollow: terms.hollow,
        sharp_end: terms.sharp_end,
        own: terms.own,
        targets: Rc::from(targets),
        live: Rc::clone(live),
        ended,
        begun: io.now(),
    };
    let mut outcomes = Vec::with_capacity(all.len());
    let mut rest = &all[..];
    while !rest.is_empty() {
        let together = rest.iter().skip(1).take_while(|copy| !copy.wall).count() + 1;
        let stop = Rc::new(Cell::new(false));
        let tasks: Vec<Task<Outcome>> = rest[..together].iter().map(|copy| run.begin(copy, &stop)).collect();
        for task in tasks {
            outcomes.push(task.await);
        }
        rest = &rest[together..];
    }
    Ok(outcomes)
}

/// A copy that is to run.
#[derive(Clone)]
struct Copy {
    job: Job,
    group: u32,
    /// The phase begins once all before have ended.
    wall: bool,
    places: Places,
    delay: Duration,
}

/// How many copies of each job have not ended.
struct Ended {
    left: RefCell<BTreeMap<String, u32>>,
    changed: Notify,
}

struct Run<V> {
    io: Io,
    hollow: bool,
    sharp_end: bool,
    own: OwnTime,
    targets: Rc<[V]>,
    live: Rc<Live>,
    ended: Rc<Ended>,
    begun: Instant,
}

impl<V: Volume + Clone + 'static> Run<V> {
    fn begin(&self, copy: &Copy, stop: &Rc<Cell<bool>>) -> Task<Outcome> {
        let (io, targets, copy) = (self.io.clone(), Rc::clone(&self.targets), copy.clone());
        let (hollow, own, sharp_end) = (self.hollow, self.own, self.sharp_end);
        let (ended, live, stop, begun) =
            (Rc::clone(&self.ended), Rc::clone(&self.live), Rc::clone(stop), self.begun);
        self.io.spawn(async move {
            if let Some(name) = &copy.job.wait_for {
                ended.changed.until(|| (ended.left.borrow().get(name) == Some(&0)).then_some(())).await;
            }
            io.sleep(copy.delay).await;
            let now = io.now();
            live.began();
            let pool = io.pool(memory(&copy.job) as usize);
            let work =
                Work::new(&copy.job, (own, sharp_end), copy.places, now, Rc::clone(&stop), Rc::clone(&live));
            let bench = Rc::new(Bench { io: io.clone(), targets, pool, work, hollow });
            carry_out(&bench).await;
            live.ended();
            if copy.job.exitall {
                stop.set(true);
            }
            if let Some(left) = ended.left.borrow_mut().get_mut(&copy.job.name) {
                *left -= 1;
            }
            ended.changed.notify();
            let sums = bench.work.sums.replace(empty(&copy.job));
            Outcome {
                group: copy.group,
                tallies: sums.tallies,
                flushes: sums.flushes,
                depths: sums.depths,
                began: now.since(begun),
                elapsed: io.now().since(now),
                trouble: sums.trouble,
                job: copy.job,
            }
        })
    }
}

fn empty(job: &Job) -> super::work::Sums {
    super::work::Sums {
        tallies: super::outcome::tallies(job),
        flushes: crate::measure::Latency::default(),
        depths: [0; 7],
        trouble: None,
    }
}

/// Bytes for the requests of all copies of a job that may be in flight.
pub fn memory_for(job: &Job) -> u64 {
    memory(job).saturating_mul(job.numjobs.into())
}

/// Bytes for the requests of a copy: one more than are in flight, for what a member keeps. Buffers are powers of two.
fn memory(job: &Job) -> u64 {
    let one = job.largest().max(4096).next_power_of_two();
    one * (u64::from(job.depth()) + 1)
}

/// All copies, with what they work on; refused before anything begins.
fn copies<V: Volume>(targets: &[V], jobs: &[Job], terms: Terms) -> Result<Vec<Copy>, RunError> {
    if targets.is_empty() {
        return Err(RunError::NoTarget);
    }
    let mut all: Vec<Copy> = Vec::new();
    let mut group = 0;
    for (number, job) in jobs.iter().enumerate() {
        fits(targets, job)?;
        if number > 0 && (job.stonewall || job.new_group) {
            group += 1;
        }
        for copy in 0..u64::from(job.numjobs) {
            let seed = seed(job, terms);
            let own = seed ^ (all.len() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let ranges = targets.iter().map(|target| range(target, job, copy)).collect::<Result<_, _>>()?;
            let (least, most) = job.startdelay;
            let delay = least + (most - least).mul_f64((own >> 11) as f64 / (1u64 << 53) as f64);
            let places = Places { ranges, seed: own, content: seed ^ number as u64 };
            all.push(Copy { job: job.clone(), group, wall: job.stonewall && copy == 0, places, delay });
        }
    }
    check_memory(&all, terms)?;
    Ok(all)
}

/// Where the chance of a job begins.
fn seed(job: &Job, terms: Terms) -> u64 {
    match job.randseed {
        Some(seed) => seed,
        None if job.randrepeat => 0x0062_7269_6e64_6c65,
        None => terms.chance,
    }
}

fn range<V: Volume>(target: &V, job: &Job, copy: u64) -> Result<Range, RunError> {
    let wrong = |source| RunError::Range { job: job.name.clone(), source };
    let limits = target.limits();
    Range::of(job, copy, limits.size, limits.block.into()).map_err(wrong)
}

fn fits<V: Volume>(targets: &[V], job: &Job) -> Result<(), RunError> {
    if job.access.changes() && targets.iter().any(|target| target.limits().read_only) {
        return Err(RunError::ReadOnly(job.name.clone()));
    }
    Ok(())
}

/// Refuses jobs that need more memory than there is. Jobs between two walls run together.
fn check_memory(all: &[Copy], terms: Terms) -> Result<(), RunError> {
    let (mut together, mut needed) = (0u64, 0);
    for copy in all {
        if copy.wall {
            together = 0;
        }
        together = together.saturating_add(memory(&copy.job));
        needed = needed.max(together);
    }
    if needed > terms.memory {
        return Err(RunError::Memory { needed, there: terms.memory });
    }
    Ok(())
}
