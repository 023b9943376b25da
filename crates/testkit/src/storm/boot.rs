//! One boot of an array: from its assembly to its end, in a world that may end before.

mod bitmap_files;
mod container_boot;
mod doors;
mod faults;
mod fewer_devices;
mod flags;
mod grow;
mod larger;
mod leave_and_return;
mod liveness;
mod locate;
mod patience;
mod replace;
mod scrub;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_array::{Access, Array, EventKind, OpenConfig, Recovery, RoleState};
use brindle_format::md::DeviceFlags;
use brindle_io::sim::When;
use brindle_io::sync::join_all;
use brindle_io::{Duration, Io, MemberId, Pool};
use brindle_layout::Family;
use brindle_md::assembly::{AssembleOptions, Assembly, AssemblyError, Candidate, assemble};
use brindle_volume::Volume;
use doors::{Doors, Way};
use fewer_devices::judge_fewer;
use patience::Patience;

use super::content::Seen;
use super::disks::{Disks, Known};
use super::judge::Failure;
use super::marks;
use super::plan::Planned;
use super::second_devices::{self, SecondDevices};
use super::stage::Stage;
use super::standstill::{Standstill, Waiting};
use super::tally::{Condition, Strike, StrikeTally};
use crate::client::{Client, Trouble};
use crate::guard;
use crate::load::{Load, Request};
use crate::random::Random;
use crate::stamp::SECTOR;
use crate::world::NOW;

/// Bytes of memory for clients, which is more than they ask for at once.
const POOL: usize = 1 << 20;

/// The state of the array that a strike needs to know.
#[derive(Default)]
pub(super) struct Board {
    array: RefCell<Option<Array>>,
    resyncing: Cell<bool>,
    /// The present activity of the boot, for boots that come to no end.
    doing: Cell<&'static str>,
    after_cut: bool,
    /// Redundancy was in doubt when this boot began.
    pub(super) doubt: Cell<bool>,
    /// Faults have ended.
    calmed: Cell<bool>,
    /// The array was opened by force.
    pub(super) forced: Cell<bool>,
    stopping: Cell<bool>,
    /// A bitmap has come: it tells nothing of what was written before.
    grown: Cell<bool>,
    /// The flags that members were given, once acknowledged; `None` while the outcome is unknown.
    flags: RefCell<BTreeMap<MemberId, Option<DeviceFlags>>>,
    /// Steps before which superblocks were being written, if that is asked for.
    pub(super) changing: RefCell<Vec<u64>>,
    pub(super) tally: RefCell<StrikeTally>,
}

impl Board {
    /// The array's view of its drives when the power went. `None` while the array stops, since it may be recording
    /// then.
    pub(super) fn known(&self, drives: &[MemberId]) -> Known {
        let array = self.array.borrow();
        let array = array.as_ref().filter(|_| !self.stopping.get());
        array.map(|array| self.known_of(array, drives)).unwrap_or_default()
    }

    fn known_of(&self, array: &Array, drives: &[MemberId]) -> Known {
        let known = Known::of(array, drives);
        let flags = self.flags.borrow();
        let place = |id: &MemberId| drives.iter().position(|drive| drive == id);
        let flags = flags.iter().filter_map(|(id, flags)| Some((place(id)? as u16, (*flags)?))).collect();
        Known { recovered: known.recovered || self.grown.get(), flags, ..known }
    }

    /// How often something of a kind has happened.
    pub(super) fn count(&self, kind: EventKind) -> u64 {
        let events = self.array.borrow().as_ref().map(|array| array.events_since(0)).unwrap_or_default();
        events.iter().filter(|event| event.kind == kind).count() as u64
    }

    /// A new board. `after_cut`: the boot is not the first one.
    pub(super) fn new(after_cut: bool) -> Rc<Self> {
        Rc::new(Self { after_cut, ..Self::default() })
    }

    /// Events still planned in the world hold the board: the array must not live on with them.
    pub(super) fn let_go(&self) {
        self.array.borrow_mut().take();
    }

    fn watch(&self, step: u64) {
        if self.array.borrow().as_ref().is_some_and(|array| array.state_change().is_some()) {
            self.changing.borrow_mut().push(step);
        }
    }

    fn note(&self, strike: Strike) {
        let conditions = match &*self.array.borrow() {
            Some(array) => Condition::of(array, self.resyncing.get(), self.after_cut),
            None if self.after_cut => vec![Condition::AfterCut],
            None => vec![Condition::Healthy],
        };
        self.tally.borrow_mut().note(strike, &conditions);
    }

    pub(super) fn standstill(&self, io: &Io) -> Standstill {
        Standstill {
            doing: self.doing.get(),
            at: io.now(),
            tasks: io.tasks_alive(),
            array: self.array.borrow().as_ref().map(|array| Waiting::of(array, io)),
        }
    }
}

/// The plan of one boot.
#[derive(Clone, Debug, Default)]
pub(super) struct BootPlan {
    /// 1 for the first.
    pub(super) number: u64,
    /// The step before which the power goes.
    pub(super) cut: Option<u64>,
    pub(super) faults: Vec<Planned>,
    /// Requests of each client.
    pub(super) requests: u64,
    /// No writes are made.
    pub(super) reads_only: bool,
    /// The boot before this one ended in a stop that left the array clean.
    pub(super) stopped: bool,
    /// Cuts that fall into the writing of superblocks are looked for below this step.
    pub(super) watched: u64,
    /// Roles to which something has happened, in this boot or before.
    pub(super) struck: Vec<u16>,
    /// Redundancy was in doubt when the boot before this one began.
    pub(super) doubted: bool,
    /// Number of steps of the storm's first boot without faults, where that is known.
    pub(super) calm: Option<u64>,
    /// A place on a member for faults that have one, by role of the fault.
    pub(super) random: Random,
}

/// How a boot ended.
pub(super) enum End {
    /// All was done.
    Well {
        /// The superblocks say that redundancy is in sync.
        clean: bool,
    },
    /// A forced array has been judged as far as it can be.
    Forced,
}

/// Bytes of an array that was forced that are read at once.
const AT_ONCE: u64 = 256 << 10;

impl Stage {
    /// Plans what happens to the drives in a boot, whatever state the array is in.
    pub(super) fn begin(&self, boot: &BootPlan, board: &Rc<Board>) {
        self.sim.afflict(self.drives[0], |faults| faults.slowness = faults.slowness.max(self.plan.slower));
        for (n, &drive) in (0..).zip(self.drives.iter().chain(&*self.seconds)) {
            let unable = self.plan.is_unable(n);
            self.sim.afflict(drive, |faults| (faults.no_write_zeroes, faults.no_discard) = (unable, unable));
        }
        if let Some(cut) = boot.cut {
            let watching = Rc::clone(board);
            self.sim.schedule(When::Step(cut), self.drives[0], move |_| watching.note(Strike::PowerCut));
        }
        for step in 0..boot.watched {
            let watching = Rc::clone(board);
            self.sim.schedule(When::Step(step), self.drives[0], move |_| watching.watch(step));
        }
    }

    /// The content of the drives.
    pub(super) fn seen(&self) -> Seen {
        Seen::look(&self.sim, &self.drives, &self.plan)
    }

    /// The superblocks on the drives.
    fn disks(&self) -> Disks {
        Disks::look(&self.sim, &self.drives, &self.plan.shape)
    }
}

/// A boot under way.
pub(super) struct Run {
    stage: Stage,
    io: Io,
    pool: Pool,
    board: Rc<Board>,
    boot: Rc<BootPlan>,
}

/// An array that runs, in a boot.
pub(super) struct Running {
    run: Run,
    array: Array,
    client: Client<Array>,
    /// The array was opened by force: data may be wrong, and are not judged after that.
    forced: bool,
    patient: Patience,
    second_devices: RefCell<Option<SecondDevices>>,
}

impl Running {
    /// Reads what was there, and asks for much while faults strike.
    pub(super) async fn load(&self) -> Result<(), Failure> {
        let Self { run, array, client, patient, .. } = self;
        if self.forced {
            return Ok(());
        }
        let doing = |what| run.board.doing.set(what);
        run.plan_faults(array);
        let second_devices = SecondDevices::begin(&run.io, array, &run.stage);
        self.second_devices.replace(Some(second_devices));
        if run.boot.number > 1 {
            doing("reading what was there");
            patient.with(client.read_all().await)?;
            doing("locating");
            run.locate(array, *patient).await?;
        } else if run.stage.plan.filled {
            doing("filling");
            patient.with(client.write_all().await)?;
        }
        doing("load");
        run.load(client, *patient).await
    }

    /// The array has to become whole, hold what it must hold, and stop.
    pub(super) async fn judge(&self) -> Result<End, Failure> {
        let Self { run, array, client, patient, .. } = self;
        let doing = |what| run.board.doing.set(what);
        if self.forced {
            run.read_forced(client).await?;
            doing("what was forced is made whole");
            run.resync_forced(client).await?;
            return Ok(End::Forced);
        }
        doing("resync and check");
        run.make_whole(client, *patient).await?;
        doing("reading all");
        patient.with(client.read_all().await)?;
        doing("stop");
        let second_devices = self.second_devices.take();
        if let Some(second_devices) = second_devices {
            second_devices.filled().await;
        }
        let clean = run.stop(array, *patient).await?;
        let discarded = run.stage.plan.mix.discards > 0 && run.boot.reads_only;
        if !discarded {
            second_devices::judge_lost(array, &run.stage, &run.boot.struck)?;
            second_devices::judge(array, &run.stage)?;
        }
        Ok(End::Well { clean })
    }
}

impl Run {
    /// The run of an array that is to be opened.
    pub(super) fn new(stage: &Stage, io: &Io, board: &Rc<Board>, boot: &Rc<BootPlan>) -> Self {
        let (stage, pool) = (stage.clone(), io.pool(POOL));
        Self { stage, io: io.clone(), pool, board: Rc::clone(board), boot: Rc::clone(boot) }
    }

    /// Opens the array of the drives.
    pub(super) async fn open(self) -> Result<Running, Failure> {
        self.board.doing.set("opening");
        let (array, forced) = self.start().await?;
        self.board.doubt.set(array.needs_resync());
        *self.board.array.borrow_mut() = Some(array.clone());
        let client = Client::new(array.clone(), self.pool.clone(), Rc::clone(&self.stage.oracle));
        let patient = Patience { errors: !forced && self.may_fail(&array) };
        Ok(Running { run: self, array, client, forced, patient, second_devices: RefCell::default() })
    }

    /// Looks at the drives that answer, assembles what they carry as the product does, and opens it.
    async fn start(&self) -> Result<(Array, bool), Failure> {
        if self.stage.plan.container {
            return self.start_contained().await;
        }
        let (ids, found) = self.look().await?;
        let struck = |roles: &[u16]| roles.iter().all(|role| self.boot.struck.contains(role));
        let (assembly, forced) = match assemble(&found, AssembleOptions::default()) {
            // As md does: the content of a lost member beside a write under way is unknown.
            Err(AssemblyError::DirtyDegraded { roles }) if self.may_force() && struck(&roles) => (
                assemble(&found, AssembleOptions { force: true, partial: false })
                    .map_err(Failure::Assembly)?,
                true,
            ),
            other => (other.map_err(Failure::Assembly)?, false),
        };
        self.board.forced.set(forced);
        self.judge_members(&assembly)?;
        if assembly.level().is_redundant() {
            self.stage.disks().judge_torn(&assembly.geometry, &self.boot.struck)?;
        }
        if self.stage.plan.shape.bitmap.is_some() {
            // Discarded blocks read differently each time, so that they can't be compared.
            marks::judge(&self.stage.sim, &assembly, &ids, self.stage.plan.mix.discards == 0)?;
        }
        if self.boot.stopped && !assembly.is_clean() {
            return Err(Failure::NotClean);
        }
        let config = OpenConfig { recovery: Recovery::Automatic, ..self.config() };
        if let Some(array) = self.open_with_file(&assembly, &ids, &config).await? {
            return Ok((array, forced));
        }
        let array = brindle_md::open(&self.io, assembly, &ids, config).await;
        array.map(|array| (array, forced)).map_err(Failure::Open)
    }

    fn config(&self) -> OpenConfig {
        OpenConfig {
            idle: self.stage.plan.idle,
            daemon_sleep: Some(self.stage.plan.daemon_sleep),
            // As little as there may be, on each reactor: a channel has a quarter of home's.
            scratch_bytes: if self.stage.plan.reactors > 1 { 4 << 20 } else { 0 },
            observers: self.stage.plan.watched.then(guard::observer).into_iter().collect(),
            ..OpenConfig::new(Access::ReadWrite, self.clock())
        }
    }

    /// Only after a power cut can there be a write under way whose outcome is unknown.
    fn may_force(&self) -> bool {
        self.boot.number > 1 && !self.boot.stopped
    }

    /// A clock that never shows the same second twice, in this boot or another.
    fn clock(&self) -> impl Fn() -> u64 + use<> {
        let next = Cell::new(NOW + (self.boot.number << 20));
        move || next.replace(next.get() + 1)
    }

    /// The drives that answer, and what is on them.
    async fn look(&self) -> Result<(Vec<MemberId>, Vec<Candidate>), Failure> {
        let (mut ids, mut found) = (Vec::new(), Vec::new());
        for (role, &id) in (0..).zip(&*self.stage.drives) {
            let gone = || self.stage.sim.faults(id).gone;
            if gone() {
                continue;
            }
            match Candidate::read(&self.io, &self.pool, id, id.to_string()).await {
                // The power went while one that came back was given a superblock of several sectors.
                Ok(candidate)
                    if candidate.found.is_empty() && (self.is_struck(role) || self.is_spare(role)) => {}
                Ok(candidate) => {
                    ids.push(id);
                    found.push(candidate);
                }
                // The product warns, and goes on without.
                // A spare may be struck whatever role the fault was for.
                Err(_) if gone() || self.is_struck(role) || self.is_spare(role) => {}
                Err(error) => return Err(Failure::Look(error)),
            }
        }
        Ok((ids, found))
    }

    /// A drive that filled no role when the array was made.
    fn is_spare(&self, drive: u16) -> bool {
        usize::from(drive) >= self.stage.plan.shape.members
    }

    fn is_struck(&self, role: u16) -> bool {
        self.boot.struck.contains(&role)
    }

    fn judge_members(&self, assembly: &Assembly) -> Result<(), Failure> {
        self.judge_out(&assembly.degraded())
    }

    /// Something has happened to each of the roles that are out.
    fn judge_out(&self, out: &[u16]) -> Result<(), Failure> {
        let mut out = out.to_vec();
        out.retain(|role| !self.boot.struck.contains(role));
        if out.is_empty() { Ok(()) } else { Err(Failure::ThrownOut(out)) }
    }

    /// Whether requests may fail: redundancy is not known to be in sync, and cannot make up for a drive.
    fn may_fail(&self, array: &Array) -> bool {
        let parity = matches!(array.geometry().family(), Family::Parity(_));
        parity && array.needs_resync() && !self.boot.struck.is_empty()
    }

    /// Clients ask side by side, while redundancy is brought in sync if it is not, and all else goes on that may.
    async fn load(&self, client: &Client<Array>, patient: Patience) -> Result<(), Failure> {
        let plan = &self.stage.plan;
        let syncing = self.resync_and_scrub(client.volume(), patient);
        self.replace_some(client.volume());
        self.have_some_leave_and_return(client.volume());
        self.have_spares_come(client.volume());
        self.have_the_bitmap_come_and_go(client.volume());
        self.have_flags_change(client.volume());
        let larger = self.have_it_grow(client.volume());
        let doors = Doors::open(self, client.volume());
        let mut random = Random::stream(plan.seed, self.boot.number * 1000 + 994);
        if let Some(doors) = doors.as_ref().filter(|_| random.one_in(2)) {
            doors.dismiss_some(&mut random);
        }
        let stream = Rc::new(Cell::new(0));
        // Of an array that grows no more is known than it had at first.
        let size = self.known_size(client.volume());
        let lanes = (0..plan.lanes).map(|lane| {
            let stream = plan.streams.then(|| Rc::clone(&stream));
            let (client, io, doors) = (client.clone(), self.io.clone(), doors.clone());
            let random = Random::stream(plan.seed, self.boot.number * 1000 + lane);
            let (mix, idle, requests) = (plan.mix, plan.idle, self.boot.requests);
            self.io.spawn(async move {
                let mut pauses = random.clone();
                let mut load = Load::new(random, size, mix);
                if let Some(stream) = stream {
                    load = load.following(&stream);
                }
                let mut way = Way::find(&client, doors.as_ref(), lane).await;
                for _ in 0..requests {
                    if pauses.one_in(8) {
                        let longest = idle.as_nanos() as u64 * 3;
                        io.sleep(Duration::from_nanos(pauses.below(longest))).await;
                    }
                    patient.with(way.ask(load.next_request()).await)?;
                }
                way.leave().await;
                Ok(())
            })
        });
        let lanes: Vec<_> = lanes.collect();
        join_all(lanes).await.into_iter().collect::<Result<(), Failure>>()?;
        larger.await;
        if let Some(doors) = doors {
            // Writes that lag behind hold their memory when they have been answered.
            doors.stop(!self.boot.faults.is_empty() || plan.shape.behind > 0).await?;
        }
        syncing.await?;
        self.recovered(client.volume()).await;
        Ok(())
    }

    /// Stops the array. It must be clean then, and a new look must say so, with any members lost that it can do
    /// without. Gives whether it does.
    async fn stop(&self, array: &Array, patient: Patience) -> Result<bool, Failure> {
        let doubt = array.needs_resync();
        self.board.stopping.set(true);
        patient.engine("stop", array.stop().await)?;
        if self.stage.plan.container {
            return self.judge_stopped(array, patient).await;
        }
        let (_, mut found) = self.look().await?;
        let assembly = match assemble(&found, AssembleOptions::default()) {
            Ok(assembly) if assembly.is_clean() || doubt || patient.errors => assembly,
            Ok(_) => return Err(Failure::NotClean),
            Err(_) if patient.errors => return Ok(false),
            // A member was lost before what has come of one that grows was brought in sync.
            Err(AssemblyError::DirtyDegraded { .. }) if self.stage.plan.grows && doubt => return Ok(false),
            Err(error) => return Err(Failure::Assembly(error)),
        };
        self.judge_members(&assembly)?;
        if assembly.level().is_redundant() && !patient.errors {
            self.stage.disks().judge_whole(&self.board.known_of(array, &self.stage.drives))?;
        }
        // A run that wrote nothing has recorded nothing that relies on a member's absence.
        if !self.boot.reads_only {
            self.stage.disks().judge_event_counts(&self.board.known_of(array, &self.stage.drives))?;
        }
        if assembly.is_clean() && !patient.errors {
            judge_fewer(&mut found, &assembly)?;
        }
        Ok(assembly.is_clean())
    }

    /// Reads what force gives: errors are none of ours, and what a lost member held may be wrong beside anything that was
    /// under way when the power went; all of it, if redundancy was in doubt before that.
    async fn read_forced(&self, client: &Client<Array>) -> Result<(), Failure> {
        let size = self.known_size(client.volume());
        let block = u64::from(client.volume().limits().block);
        // Large members take a million steps block by block.
        for start in (0..size).step_by(AT_ONCE as usize) {
            let end = size.min(start + AT_ONCE);
            if client.ask(Request::Read { offset: start, len: end - start }).await.is_ok() {
                continue;
            }
            for offset in (start..end).step_by(block as usize) {
                match client.ask(Request::Read { offset, len: block }).await {
                    Err(Trouble::Wrong(_, _)) if self.beside_doubt(client.volume(), offset, block) => {}
                    Err(Trouble::Refused(_, _)) | Ok(()) => {}
                    Err(wrong) => return Err(Failure::Client(wrong)),
                }
            }
        }
        Ok(())
    }

    /// Bytes of the array whose content is known: of one that has grown, those that it had at first.
    fn known_size(&self, array: &Array) -> u64 {
        array.limits().size.min(self.stage.oracle.borrow().size())
    }

    /// Whether a block belongs to a member that is lost or can't be read in places, and stands in a column of a row of which some sector is in doubt.
    fn beside_doubt(&self, array: &Array, offset: u64, block: u64) -> bool {
        let Family::Parity(map) = array.geometry().family() else { return false };
        let position = map.position(offset);
        let role = map.row(position.row).data_member(position.data_index);
        let row = position.row * map.row_data_bytes();
        let oracle = self.stage.oracle.borrow();
        let mates =
            (0..map.data_members()).map(|index| row + u64::from(index) * map.chunk() + position.column);
        let in_doubt =
            |mate: u64| (mate..mate + block).step_by(SECTOR).any(|sector| !oracle.is_certain(sector));
        let lost = array.state(role) != RoleState::InSync || self.is_struck(role);
        lost && (self.boot.doubted || mates.into_iter().any(in_doubt))
    }
}
