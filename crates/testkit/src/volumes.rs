//! The volumes of a container as storms drive them: two arrays that share all of their devices, under load, while one of these
//! fails and the power goes. A device that one of them has lost is lost to both, at once, and on record before either
//! acknowledges anything that relies on that.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_array::ledger::State;
use brindle_array::{Array, OpenConfig, RoleState};
use brindle_io::sim::{Model, Sim, When};
use brindle_io::sync::join_all;
use brindle_io::{Duration, Instant, MemberId};
use brindle_layout::{Geometry, Layout, Level};

use crate::client::{Client, Trouble};
use crate::container::{Container, create};
use crate::faults::Fault;
use crate::load::{Load, Mix};
use crate::oracle::Oracle;
use crate::random::Random;
use crate::storm::{self, Driven, Scene, Subject};
use crate::world::patient;

/// Devices of the container, and bytes of each.
const DEVICES: usize = 4;
const SIZE: u64 = 1 << 20;
/// Bytes of each device that an array has.
const SHARE: u64 = 128 << 10;
const CHUNK: u64 = 4096;
/// The arrays.
const LEVELS: [Level; 2] = [Level::Raid10, Level::Raid1];
/// Requests to each array in a boot, and time between two at most.
const REQUESTS: u64 = 40;
const PAUSE_US: u64 = 3000;
/// Faults that cost a device.
const KINDS: [Fault; 3] = [Fault::Dies, Fault::RefusesWrites, Fault::FailsFlush];
/// Bytes of memory for clients and records.
const POOL: usize = 1 << 20;

/// A promise that the volumes of a container have broken.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The container can't be read.
    #[error("the container: {0}")]
    Container(String),
    /// A client was not served as it should have been.
    #[error("array {0}: {1}")]
    Client(usize, Trouble),
    /// Something that has to be possible is not.
    #[error("array {0}: {1}: {2}")]
    Refused(usize, &'static str, String),
    /// A device is lost to one of them only.
    #[error("device {0} is lost to array {1}, and array {2} goes on with it")]
    LostToOne(u16, usize, usize),
    /// Devices are lost that no fault has struck.
    #[error("devices {0:?} are lost")]
    Lost(Vec<u16>),
    /// A success was acknowledged that relies on the absence of a device which the record has as present.
    #[error("device {0} was done without, and is not on record")]
    Unrecorded(u16),
    /// A boot comes to no end.
    #[error("nothing comes to an end any more: {0:?}")]
    Endless((u64, Instant)),
}

/// A container and its devices.
pub struct Volumes {
    cuts: Vec<u64>,
    random: Random,
    devices: Vec<MemberId>,
    /// The one that something happens to.
    victim: u16,
    /// The fault has struck.
    struck: bool,
    oracles: [Rc<RefCell<Oracle>>; 2],
    /// A success was acknowledged while the victim was out of use.
    relied: Cell<bool>,
    done: bool,
    met: RefCell<BTreeMap<&'static str, u64>>,
}

/// A container that is open.
pub struct Running {
    container: Container,
    arrays: [Array; 2],
    clients: [Client<Array>; 2],
}

/// Drives the container of a seed through a cut, and in two of three through a second one, then to a good end. Without a cut: to a
/// good end.
pub fn run(seed: u64, cut: Option<u64>) -> Driven {
    let mut random = Random::stream(seed, 0x766f_6c75 ^ cut.unwrap_or_default());
    let second = Some(random.below(400)).filter(|_| !random.one_in(3));
    let cuts = cut.into_iter().chain(second.filter(|_| cut.is_some())).collect();
    storm::drive::<Volumes>(seed, (cuts, random)).0
}

impl Subject for Volumes {
    /// The steps before which the power goes, boot by boot; and chance.
    type Setup = (Vec<u64>, Random);
    type Open = Running;
    type End = ();
    type Broken = Broken;

    fn create(sim: &mut Sim, (cuts, mut random): Self::Setup) -> Self {
        let quick = Model { flush_latency: 150_000, ..Model::sata_ssd() };
        let devices: Vec<MemberId> = (0..DEVICES).map(|_| sim.add_blank_drive(quick, SIZE)).collect();
        create(&*sim, &devices, SIZE, &[State::default(); 2]);
        let oracles = LEVELS.map(|level| Rc::new(RefCell::new(Oracle::zeroes(geometry(level).size()))));
        let victim = random.below(DEVICES as u64) as u16;
        let (struck, relied, done, met) = (false, Cell::new(false), false, RefCell::default());
        Self { cuts, random, devices, victim, struck, oracles, relied, done, met }
    }

    fn begin(&mut self, sim: &Sim, boot: u64) -> Option<u64> {
        let cut = self.cuts.get(boot as usize - 1).copied();
        // Nothing may be lost without a cut: a run to a good end tells how many steps there are.
        if let Some(cut) = cut.filter(|_| !self.struck) {
            let (step, fault) = (self.random.below(cut + 1), *self.random.pick(&KINDS));
            let victim = self.devices[usize::from(self.victim)];
            sim.schedule(When::Step(step), victim, move |faults| fault.strike(faults, 0..0));
            self.struck = true;
        }
        self.oracles.iter().for_each(|oracle| oracle.borrow_mut().upset());
        cut
    }

    async fn open(&self, scene: &Scene) -> Result<Running, Broken> {
        let pool = scene.io.pool(POOL);
        let mut given: Vec<Option<MemberId>> = self.devices.iter().copied().map(Some).collect();
        let container = loop {
            match Container::open(&scene.io, &pool, &given).await {
                Ok(Some(container)) => break container,
                Ok(None) => return Err(Broken::Container("no device has a record".to_owned())),
                Err((number, _)) if self.is_struck(number as u16) && given[number].is_some() => {
                    given[number] = None;
                }
                Err((number, why)) => return Err(Broken::Container(format!("device {number}: {why}"))),
            }
        };
        let lost = container.lost();
        if lost.iter().any(|&device| !self.is_struck(device)) {
            return Err(Broken::Lost(lost));
        }
        if self.relied.get() && !lost.contains(&self.victim) {
            return Err(Broken::Unrecorded(self.victim));
        }
        let config = OpenConfig { idle: Duration::from_millis(2), ..patient() };
        let array = |n: usize| container.array(n, geometry(LEVELS[n]), n as u64 * SHARE, &config);
        let arrays = [0, 1].map(array);
        let client = |n: usize| Client::new(arrays[n].clone(), pool.clone(), Rc::clone(&self.oracles[n]));
        let clients = [0, 1].map(client);
        Ok(Running { container, arrays, clients })
    }

    async fn load(&self, open: &Running, scene: &Scene) -> Result<(), Broken> {
        for (n, client) in open.clients.iter().enumerate() {
            client.read_all().await.map_err(|trouble| Broken::Client(n, trouble))?;
        }
        let lanes = [0, 1].map(|n| self.lane(n, open, scene));
        join_all(lanes).await.into_iter().collect()
    }

    async fn judge(&self, open: &Running, _: &Scene) -> Result<(), Broken> {
        for (n, array) in open.arrays.iter().enumerate() {
            if array.needs_resync() {
                let whole = array.resync(|_| ()).await;
                whole.map_err(|why| Broken::Refused(n, "resync", why.to_string()))?;
            }
            open.clients[n].read_all().await.map_err(|trouble| Broken::Client(n, trouble))?;
        }
        open.judge_losses()?;
        for (n, array) in open.arrays.iter().enumerate() {
            array.stop().await.map_err(|why| Broken::Refused(n, "stop", why.to_string()))?;
        }
        let lost = open.container.record().lost[usize::from(self.victim)];
        if self.relied.get() && !lost { Err(Broken::Unrecorded(self.victim)) } else { Ok(()) }
    }

    fn ended(&mut self, end: Option<()>, _: &Scene) -> Result<(), Broken> {
        self.done = end.is_some();
        if !self.done {
            self.oracles.iter().for_each(|oracle| oracle.borrow_mut().power_cut());
        }
        Ok(())
    }

    fn restarted(&mut self, sim: &Sim) -> Result<bool, Broken> {
        self.devices.iter().for_each(|&device| Fault::after_power_cycle(sim, device, false));
        Ok(!self.done)
    }

    fn endless(&self, scene: &Scene) -> Broken {
        Broken::Endless(scene.at())
    }

    fn met(&self) -> BTreeMap<&'static str, u64> {
        self.met.borrow().clone()
    }
}

impl Volumes {
    fn is_struck(&self, device: u16) -> bool {
        self.struck && device == self.victim
    }

    /// Asks an array for one thing after the other.
    async fn lane(&self, n: usize, open: &Running, scene: &Scene) -> Result<(), Broken> {
        let stream = (scene.boot << 8) + n as u64;
        let mut pauses = Random::stream(scene.seed, 0x6c61_6e65 + stream);
        let size = self.oracles[n].borrow().size();
        let mix = Mix { most: 16 << 10, block: 512, ..Mix::default() };
        let mut load = Load::new(Random::stream(scene.seed, stream), size, mix);
        for _ in 0..REQUESTS {
            scene.io.sleep(Duration::from_micros(pauses.below(PAUSE_US))).await;
            let request = load.next_request();
            open.clients[n].ask(request).await.map_err(|trouble| Broken::Client(n, trouble))?;
            open.judge_losses()?;
            if open.arrays[n].state(self.victim) == RoleState::Failed {
                let changes = !matches!(request, crate::load::Request::Read { .. });
                self.relied.set(self.relied.get() || changes && open.arrays[n].state_change().is_none());
                *self.met.borrow_mut().entry("done without").or_default() += 1;
            }
        }
        Ok(())
    }
}

impl Running {
    /// No device is lost to one array and not to the other.
    fn judge_losses(&self) -> Result<(), Broken> {
        for device in 0..DEVICES as u16 {
            let is_out = |n: usize| self.arrays[n].state(device) != RoleState::InSync;
            for (out, other) in [(0, 1), (1, 0)] {
                if is_out(out) && !is_out(other) {
                    return Err(Broken::LostToOne(device, out, other));
                }
            }
        }
        Ok(())
    }
}

fn geometry(level: Level) -> Geometry {
    Geometry::new(level, Layout::default_for(level), CHUNK, &[SHARE; DEVICES]).expect("it is possible")
}
