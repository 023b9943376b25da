//! Storms of arrays of rows with parity whose data move into rows of more members. Clients write on both sides of the border meanwhile,
//! drives fail, hang and rot as the array can bear it, and the power goes.
//!
//! A run has three boots at most, and two cuts. In the first the array is filled, grown by a member or two, and used until its data have
//! moved or the power goes. Each boot after that begins with the remains, by the product's own assembly and without force, is
//! read whole, and goes on with the reshape. `(seed, cut)` is all that a run depends on.

mod plan;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_array::{Access, Array, GrowError, GrowSpec, OpenConfig, ProcessError, SyncMode};
use brindle_io::sim::{Faults, Hostility, Overlaps, Sim, When};
use brindle_io::{Duration, Io, MemberId, Task};
use brindle_md::assembly::{AssembleOptions, AssemblyError, Candidate, assemble};
use brindle_volume::{Volume, VolumeError};

use crate::client::{Client, Trouble};
use crate::faults::Fault;
use crate::guard;
use crate::oracle::Oracle;
use crate::random::Random;
use crate::storm::{Driven, Planned, Scene, Subject, drive};
use crate::world::{NOW, drives};
use plan::WideningPlan;

/// Bytes of memory for clients.
const POOL: usize = 1 << 20;
/// Boots at most: what moves on in the last is not cut.
const BOOTS: u64 = 3;

/// Drives the array of a seed, with the power going just before step `cut`. Without a cut nothing goes wrong.
pub fn run(seed: u64, cut: Option<u64>) -> Driven {
    drive::<Widening>(seed, WideningPlan::new(seed, cut)).0
}

/// An array that gets more members.
struct Widening {
    plan: WideningPlan,
    sim: Sim,
    drives: Vec<MemberId>,
    oracle: Rc<RefCell<Oracle>>,
    boot: u64,
    /// Nothing strikes any more.
    calmed: Rc<Cell<bool>>,
    /// Answers may be errors: a drive was struck while redundancy was in doubt.
    may_fail: Cell<bool>,
    done: bool,
}

/// An array that runs, if it starts without force.
type Open = Option<Client<Array>>;

impl Subject for Widening {
    type Setup = WideningPlan;
    type Open = Open;
    type End = ();
    type Broken = String;

    fn create(sim: &mut Sim, plan: WideningPlan) -> Self {
        let short_transfers = plan.short_transfers;
        sim.set_hostility(Hostility { short_transfers, overlaps: Overlaps::Panic, ..Hostility::default() });
        let drives = drives(sim, &plan.shape, plan.model);
        let oracle = Rc::new(RefCell::new(Oracle::zeroes(plan.size())));
        let (calmed, may_fail) = (Rc::default(), Cell::new(false));
        Self { plan, sim: sim.clone(), drives, oracle, boot: 0, calmed, may_fail, done: false }
    }

    fn begin(&mut self, sim: &Sim, boot: u64) -> Option<u64> {
        (self.sim, self.boot, self.calmed) = (sim.clone(), boot, Rc::default());
        self.may_fail.set(false);
        self.plan.cuts.get(boot as usize - 1).copied().flatten()
    }

    async fn open(&self, scene: &Scene) -> Result<Open, String> {
        let pool = scene.io.pool(POOL);
        let (mut ids, mut found) = (Vec::new(), Vec::new());
        for (drive, &id) in self.drives.iter().enumerate() {
            match Candidate::read(&scene.io, &pool, id, id.to_string()).await {
                Ok(candidate) => {
                    ids.push(id);
                    found.push(candidate);
                }
                Err(_) if self.is_struck(drive) => {}
                Err(error) => return Err(format!("{id} can't be looked at: {error}")),
            }
        }
        let mut assembly = match assemble(&found, AssembleOptions::default()) {
            // As with md, of a member that is lost beside a write under way the content is unknown.
            Err(AssemblyError::DirtyDegraded { .. }) if self.boot > 1 && self.plan.is_any_struck() => {
                return Ok(None);
            }
            other => other.map_err(|error| format!("assembly: {error}"))?,
        };
        assembly.go_on();
        let next = Cell::new(NOW + (self.boot << 20));
        let clock = move || next.replace(next.get() + 1);
        let observers = self.plan.watched.then(guard::observer).into_iter().collect();
        let (idle, daemon_sleep) = (self.plan.idle, Some(self.plan.daemon_sleep));
        let config =
            OpenConfig { idle, daemon_sleep, observers, ..OpenConfig::new(Access::ReadWrite, clock) };
        let array = brindle_md::open(&scene.io, assembly, &ids, config).await;
        let array = array.map_err(|error| format!("open: {error}"))?;
        self.may_fail.set(array.needs_resync() && self.plan.is_any_struck());
        Ok(Some(Client::new(array, pool, Rc::clone(&self.oracle))))
    }

    async fn load(&self, open: &Open, scene: &Scene) -> Result<(), String> {
        let Some(client) = open else { return Ok(()) };
        self.plan_faults(scene);
        if self.boot > 1 {
            self.borne("what was there", client.read_all().await)?;
        } else if self.plan.filled {
            self.borne("filling", client.write_all().await)?;
        }
        let moving = self.begin_to_move(client.volume(), &scene.io).await?;
        let (lanes, requests) = (self.plan.lanes, self.plan.requests / self.boot);
        let seed = self.plan.seed * 8 + self.boot;
        for trouble in client.side_by_side(&scene.io, lanes, requests, self.plan.mix, seed).await {
            self.borne("load", Err(trouble))?;
        }
        match moving {
            Some(moving) => self.has_moved(moving.await),
            None => Ok(()),
        }
    }

    async fn judge(&self, open: &Open, scene: &Scene) -> Result<(), String> {
        let Some(client) = open else { return Ok(()) };
        let array = client.volume();
        self.end_faults();
        if array.is_moving() {
            self.has_moved(array.reshape(|_| ()).await)?;
        }
        if array.needs_resync() && !array.is_moving() {
            self.engine("resync", array.resync(|_| ()).await.map(drop))?;
        }
        self.borne("reading all", client.read_all().await)?;
        if !array.is_moving() {
            let mismatches = array.check(SyncMode::Check, |_| ()).await.map(|report| report.mismatch_sectors);
            if matches!(mismatches, Ok(some) if some > 0) && !self.may_fail.get() {
                return Err(format!("{mismatches:?} sectors disagree"));
            }
            self.engine("check", mismatches.map(drop))?;
        }
        let (members, is_moving) = (usize::from(array.geometry().members()), array.is_moving());
        let as_meant = members == self.plan.to && !is_moving;
        if !as_meant && !self.plan.is_any_struck() {
            return Err(format!("{members} members, and moving: {is_moving}"));
        }
        self.engine("stop", array.stop().await)?;
        self.is_as_stopped(scene).await
    }

    fn ended(&mut self, end: Option<()>, _: &Scene) -> Result<(), String> {
        match end {
            None => self.oracle.borrow_mut().power_cut(),
            Some(()) => self.done = true,
        }
        Ok(())
    }

    fn restarted(&mut self, sim: &Sim) -> Result<bool, String> {
        for &drive in &self.drives {
            Fault::after_power_cycle(sim, drive, self.plan.stays_dead);
        }
        Ok(!self.done && self.boot < BOOTS)
    }

    fn endless(&self, scene: &Scene) -> String {
        format!("boot {} comes to no end: {:?}", self.boot, scene.at())
    }
}

impl Widening {
    fn is_struck(&self, drive: usize) -> bool {
        self.plan.struck().any(|role| usize::from(role) == drive)
    }

    /// The array gets more members, unless it has them; then its data move.
    async fn begin_to_move(
        &self,
        array: &Array,
        io: &Io,
    ) -> Result<Option<Task<Result<(), ProcessError>>>, String> {
        if !array.is_moving() && array.needs_resync() {
            self.engine("resync", array.resync(|_| ()).await.map(drop))?;
        }
        if !array.is_moving() && usize::from(array.geometry().members()) < self.plan.to {
            io.sleep(Duration::from_micros(Random::stream(self.plan.seed, self.boot).below(500))).await;
            let count = self.plan.to as u16;
            match array.grow(GrowSpec::Members { count, coming: 0 }).await {
                Ok(_) => {}
                // A member or a spare that is lost, or doubt that can't be resolved, keeps it as it is.
                Err(GrowError::Missing { .. } | GrowError::Spares { .. } | GrowError::InDoubt)
                    if self.plan.is_any_struck() => {}
                Err(GrowError::Volume(_)) if self.may_fail.get() => {}
                Err(error) => return Err(format!("grow: {error}")),
            }
        }
        if array.is_moving() && array.limits().size != self.plan.size() {
            return Err(format!("it has {} bytes before its data have moved", array.limits().size));
        }
        let array = array.clone();
        Ok(array.is_moving().then(|| io.spawn(async move { array.reshape(|_| ()).await })))
    }

    fn has_moved(&self, ended: Result<(), ProcessError>) -> Result<(), String> {
        self.engine("reshape", ended)
    }

    fn borne(&self, what: &str, answer: Result<(), Trouble>) -> Result<(), String> {
        match answer {
            Err(Trouble::Refused(..)) if self.may_fail.get() => Ok(()),
            other => other.map_err(|trouble| format!("{what}: {trouble}")),
        }
    }

    fn engine(&self, what: &str, ended: Result<(), impl Into<ProcessError>>) -> Result<(), String> {
        match ended.map_err(Into::into) {
            Err(ProcessError::Volume(VolumeError::Member { .. } | VolumeError::TooManyLost))
                if self.may_fail.get() =>
            {
                Ok(())
            }
            other => other.map_err(|error: ProcessError| format!("{what}: {error}")),
        }
    }

    fn plan_faults(&self, scene: &Scene) {
        let mut random = Random::stream(self.plan.seed, 0x7768_6572 + self.boot);
        let is_left = |&drive: &MemberId| !self.sim.faults(drive).unreadable.is_empty();
        if self.drives.iter().any(is_left) {
            self.oracle.borrow_mut().upset();
        }
        for &Planned { step, fault, role } in self.plan.faults_of(self.boot) {
            let drive = self.drives[usize::from(role)];
            let place = self.plan.place(&mut random);
            let (calmed, oracle) = (Rc::clone(&self.calmed), Rc::clone(&self.oracle));
            let Some(lasts) = fault.lasts() else {
                self.sim.schedule(When::Step(step), drive, move |faults| {
                    if !calmed.get() {
                        oracle.borrow_mut().upset();
                        fault.strike(faults, place);
                    }
                });
                continue;
            };
            let (sim, io) = (self.sim.clone(), scene.io.clone());
            drop(scene.io.spawn(async move {
                // A step is taken for microseconds.
                io.sleep(Duration::from_micros(step * 10)).await;
                if !calmed.get() {
                    sim.afflict(drive, |faults| fault.strike(faults, 0..0));
                    io.sleep(lasts).await;
                    sim.afflict(drive, |faults| faults.hangs = false);
                }
            }));
        }
    }

    /// Nothing strikes any more: but for places that can't be read, and drives that are gone, all is well.
    fn end_faults(&self) {
        self.calmed.set(true);
        for &drive in &self.drives {
            self.sim.afflict(drive, |faults| {
                let (gone, unreadable) = (faults.gone, core::mem::take(&mut faults.unreadable));
                *faults = Faults { gone, unreadable, ..Faults::default() };
            });
        }
    }

    /// Superblocks say that all is done, and clean.
    async fn is_as_stopped(&self, scene: &Scene) -> Result<(), String> {
        let pool = scene.io.pool(POOL);
        let mut found = Vec::new();
        for &id in &self.drives {
            found.extend(Candidate::read(&scene.io, &pool, id, id.to_string()).await.ok());
        }
        match assemble(&found, AssembleOptions::default()) {
            Ok(assembly) if assembly.is_clean() => Ok(()),
            _ if self.may_fail.get() => Ok(()),
            Ok(_) => Err("it is not clean after a stop".to_owned()),
            Err(error) => Err(format!("assembly after a stop: {error}")),
        }
    }
}
