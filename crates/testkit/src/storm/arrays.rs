//! An array by itself as storms drive it, by the course that was chosen for it.

use std::cell::RefCell;
use std::rc::Rc;

use brindle_array::EventKind;
use brindle_array::ledger::State;
use brindle_io::sim::Sim;
use brindle_io::{Duration, MemberId};
use brindle_layout::Geometry;

use super::boot::{Board, BootPlan, End, Run, Running};
use super::course::{Course, Storm};
use super::files;
use super::judge::Failure;
use super::plan::StormPlan;
use super::stage::Stage;
use super::subject::{Scene, Subject};
use super::tally::StrikeTally;
use crate::container;
use crate::faults::Fault;
use crate::oracle::Oracle;
use crate::random::Random;
use crate::shape::planned;
use crate::world::drives;

/// The array of a course.
pub(super) struct Arrays {
    course: Course,
    /// Steps of the first boot at which the array's activity is sampled.
    watched: u64,
    /// In the world of the present boot.
    stage: Stage,
    past: Past,
    boot: Rc<BootPlan>,
    board: Rc<Board>,
    /// No boot follows.
    done: bool,
    pub(super) came: Came,
}

/// The sum of its boots.
#[derive(Default)]
pub(super) struct Came {
    tally: StrikeTally,
    forced: u64,
    recovered: u64,
    returned: u64,
    changing: Vec<u64>,
}

impl Came {
    pub(super) fn tell(self, storm: &mut Storm) {
        let Self { tally, forced, recovered, returned, changing } = self;
        (storm.tally, storm.forced, storm.changing) = (tally, forced, changing);
        (storm.recovered, storm.returned) = (recovered, returned);
    }
}

/// The state that the boots so far have left, beside the content of the drives.
#[derive(Default)]
struct Past {
    /// Roles to which something has happened.
    struck: Vec<u16>,
    /// Roles and the drives in them that are lost for good.
    lost: Vec<(u16, u16)>,
    /// Redundancy was in doubt when some boot began.
    doubted: bool,
    /// The last boot ended in a stop that left the array clean.
    stopped: bool,
}

impl Subject for Arrays {
    type Setup = (Course, u64);
    type Open = Running;
    type End = End;
    type Broken = Failure;

    /// Many times as many as a boot has, of large members too.
    const ENDLESS_STEPS: u64 = 1_000_000;
    const ENDLESS_TIME: Duration = Duration::from_secs(600);

    fn create(sim: &mut Sim, (course, watched): (Course, u64)) -> Self {
        let plan = Rc::new(course.plan.clone());
        let drives: Rc<[MemberId]> = drives(sim, &plan.shape, plan.model).into();
        if plan.late {
            wipe(sim, &drives[plan.shape.members..], &plan);
        }
        if plan.container {
            // Nothing becomes of the second array: what is recorded for the first says the same of it, always.
            let doubt = (!plan.shape.in_sync).then_some(0);
            let states = [State { dirty: false, resync_offset: doubt }, State::default()];
            container::create(sim, &drives, plan.shape.device_bytes(), &states);
        }
        let second = |_: &MemberId| sim.add_drive(plan.model, plan.shape.device_bytes());
        let seconds = drives.iter().filter(|_| plan.second_devices).map(second).collect();
        let files = files::make(sim, &plan).into();
        let geometry = planned(&plan.shape.spec()).geometry;
        let new = if plan.shape.in_sync { Oracle::zeroes } else { Oracle::anything };
        let oracle = Rc::new(RefCell::new(new(geometry.size())));
        let stage = Stage { plan, sim: sim.clone(), drives, seconds, files, oracle };
        let (past, came, board) = (Past::default(), Came::default(), Board::new(false));
        let boot = Rc::new(BootPlan::default());
        Self { course, watched, stage, past, boot, board, done: false, came }
    }

    fn begin(&mut self, sim: &Sim, boot: u64) -> Option<u64> {
        self.stage.sim = sim.clone();
        self.boot = Rc::new(self.plan_boot(boot));
        self.board = Board::new(boot > 1);
        self.stage.begin(&self.boot, &self.board);
        self.boot.cut
    }

    async fn open(&self, scene: &Scene) -> Result<Running, Failure> {
        Run::new(&self.stage, &scene.io, &self.board, &self.boot).open().await
    }

    async fn load(&self, open: &Running, _: &Scene) -> Result<(), Failure> {
        open.load().await
    }

    async fn judge(&self, open: &Running, _: &Scene) -> Result<End, Failure> {
        open.judge().await
    }

    fn ended(&mut self, end: Option<End>, _: &Scene) -> Result<(), Failure> {
        // Data that were forced may be wrong, and after that nothing is said of them.
        let end = end.or_else(|| self.board.forced.get().then_some(End::Forced));
        if end.is_none() {
            self.stage.seen().judge_event_counts(&self.board.known(&self.stage.drives))?;
        }
        let oracle = &self.stage.oracle;
        match end {
            None => oracle.borrow_mut().power_cut(),
            Some(End::Well { clean: true }) if self.course.again && !self.past.stopped => {
                self.past.stopped = true;
                oracle.borrow_mut().stopped();
            }
            Some(End::Well { .. }) => self.done = true,
            Some(End::Forced) => {
                self.came.forced += 1;
                self.done = true;
            }
        }
        // While the drives still are this boot's.
        if !self.done && self.course.start(self.boot.number + 1).newest_lost {
            let geometry = planned(&self.stage.plan.shape.spec()).geometry;
            let stage = self.stage.clone();
            self.lose_newest(&geometry, &stage);
        }
        Ok(())
    }

    fn restarted(&mut self, sim: &Sim) -> Result<bool, Failure> {
        if self.done {
            return Ok(false);
        }
        let Stage { drives, seconds, files, .. } = &self.stage;
        let all = drives.iter().chain(&**seconds).chain(&**files);
        all.for_each(|&drive| Fault::after_power_cycle(sim, drive, self.course.stays_dead));
        self.past.lost.iter().for_each(|&(_, drive)| sim.kill(drives[usize::from(drive)]));
        Ok(true)
    }

    fn let_go(&mut self, scene: &Scene) {
        let (came, board) = (&mut self.came, &self.board);
        came.recovered += board.count(EventKind::RecoveryEnded) + board.count(EventKind::CopyEnded);
        came.returned += board.count(EventKind::Readded);
        board.let_go();
        came.tally.add(&board.tally.borrow());
        self.past.doubted |= board.doubt.get();
        let changing = board.changing.take();
        if scene.boot == 1 {
            came.changing = changing;
        }
    }

    fn endless(&self, scene: &Scene) -> Failure {
        Failure::Endless(Box::new(self.board.standstill(&scene.io)))
    }
}

impl Arrays {
    fn plan_boot(&mut self, number: u64) -> BootPlan {
        let (course, past) = (&self.course, &mut self.past);
        let at = number as usize - 1;
        let faults = course.faults.get(at).cloned().unwrap_or_default();
        let harmful = faults.iter().filter(|planned| planned.fault.harms());
        past.struck.extend(harmful.map(|planned| planned.role));
        let reads_only = past.stopped || number > 1 && course.start(number).reads_only;
        let requests = if number == 1 { course.plan.requests } else { course.plan.requests.div_ceil(3) };
        BootPlan {
            number,
            cut: course.cuts.get(at).copied().flatten().filter(|_| !past.stopped),
            requests: if reads_only { 0 } else { requests },
            reads_only,
            stopped: past.stopped,
            watched: core::mem::take(&mut self.watched),
            struck: past.struck.clone(),
            doubted: past.doubted,
            calm: course.calm,
            random: Random::stream(course.plan.seed, number << 40),
            faults,
        }
    }

    /// The member with the newest superblock is lost for good, if the array can do without it and all others that have
    /// been or will be struck.
    fn lose_newest(&mut self, geometry: &Geometry, stage: &Stage) {
        let struck = self.course.faults.iter().flatten().filter(|planned| planned.fault.harms());
        let lost = self.past.lost.iter().map(|&(role, _)| role);
        let mut struck: Vec<u16> = struck.map(|planned| planned.role).chain(lost).collect();
        let newest = stage.seen().newest(|role| !struck.contains(&role));
        struck.extend(newest.map(|(role, _)| role));
        struck.sort_unstable();
        struck.dedup();
        if geometry.level().is_redundant() && geometry.can_lose(&struck) {
            self.past.lost.extend(newest);
            self.past.struck.extend(newest.map(|(role, _)| role));
        }
    }
}

/// Leaves drives without a superblock.
fn wipe(sim: &Sim, drives: &[MemberId], plan: &StormPlan) {
    let places = plan.shape.superblocks();
    for (&drive, (offset, bytes)) in drives.iter().zip(&places[plan.shape.members..]) {
        sim.poke(drive, *offset, &vec![0; bytes.len()]);
    }
}
