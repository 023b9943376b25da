//! A host as storms drive it: two arrays that share spares, under load, while members go away and come back, are
//! failed, replaced and removed by command, and arrays are stopped and started by name. Its policies run by
//! themselves. Arrays become devices of a kernel in memory, by which clients reach them too, and another server takes the host's place.
//! No drive may belong to two arrays at a time, and every byte is compared with the values that it may
//! have. Once nothing is broken any more every array has to become whole, and a stop leaves no device of the kernel.

mod attached;
mod drives;
mod kernel;
mod orders;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_array::{Access, Array, OpenConfig, Recovery, RoleState};
use brindle_export::nbd;
use brindle_format::md::Uuid;
use brindle_host::{
    ArrayDescription, Content, Host, HostError, Hosted, Listener, News, Placed, ServedArray, Service, all_of,
    share_spares, take_again, take_those_that_return,
};
use brindle_io::sim::{Model, Sim};
use brindle_io::{Duration, Instant, MemberId, Pool};
use brindle_layout::Level;
use brindle_md::OpenError;
use brindle_md::assembly::{AssembleOptions, AssemblyError, Candidate, assemble};
use brindle_volume::VolumeError;

use crate::client::{Client, Trouble};
use crate::load::{Load, Mix};
use crate::oracle::Oracle;
use crate::random::Random;
use crate::shape::{Shape, given, planned};
pub use crate::storm::Driven;
use crate::storm::{self, Scene, Subject};
use crate::world::NOW;
use drives::Drives;
use kernel::{Kernel, OpenDevice};

/// Requests to each array in a boot.
const REQUESTS: u64 = 60;
/// Time between two requests of a client, at most.
const PAUSE_MS: u64 = 150;
/// Time in which arrays have to become whole once nothing is broken: policies look once a second.
const WHOLE: u64 = 120;
/// Bytes of memory for clients and superblocks.
const POOL: usize = 1 << 20;

/// A promise that a host has broken.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// A client was not served as it should have been.
    #[error("{0}: {1}")]
    Client(&'static str, Trouble),
    /// The drives that say they are an array's form none.
    #[error("{0} can't be assembled: {1}")]
    Assembly(&'static str, Box<AssemblyError>),
    /// The array can't be opened.
    #[error("{0} can't be opened: {1}")]
    Open(&'static str, OpenError),
    /// An order that had to be carried out was not.
    #[error("{0}: {1}")]
    Order(&'static str, Box<HostError>),
    /// A device is two arrays'.
    #[error("{0} belongs to two arrays")]
    TwoOwners(String),
    /// A device of a served array is closed.
    #[error("{0} of {1} is closed")]
    Closed(String, String),
    /// An array lacks members although nothing is broken.
    #[error("{0} does not become whole: {1}")]
    NotWhole(&'static str, String),
    /// A boot comes to no end.
    #[error("nothing comes to an end any more: {0:?}")]
    Endless((u64, Instant)),
    /// A service that was to have an array has it not.
    #[error("{0} is not served")]
    NotServed(&'static str),
    /// The kernel's devices are not those that were asked for.
    #[error("{0}: {1}")]
    Devices(&'static str, String),
}

/// One of the two arrays.
struct HostedArray {
    name: &'static str,
    uuid: Uuid,
    oracle: Rc<RefCell<Oracle>>,
}

/// Two arrays and their drives.
pub struct Hosts {
    cuts: Vec<u64>,
    /// The array has come to its end.
    done: bool,
    drives: Vec<MemberId>,
    arrays: Vec<HostedArray>,
    /// Seconds that superblocks tell; no two are the same.
    clock: Rc<Cell<u64>>,
    /// Events of both arrays, by kind.
    met: Rc<RefCell<BTreeMap<&'static str, u64>>>,
}

/// A host that runs.
pub struct Running {
    /// The server of now.
    service: RefCell<Rc<Service>>,
    kernel: Kernel,
    drives: Drives,
    pool: Pool,
    /// Numbers of drives that are gone for now.
    away: RefCell<Vec<usize>>,
}

/// Drives the hosts of a seed through a cut, and in two of three through a second one, then to a good end. Without a cut: to a
/// good end.
pub fn run(seed: u64, cut: Option<u64>) -> Driven {
    let mut random = Random::stream(seed, 0x686f_7374 ^ cut.unwrap_or_default());
    let second = Some(random.below(2000)).filter(|_| !random.one_in(3));
    let cuts = cut.into_iter().chain(second.filter(|_| cut.is_some())).collect();
    storm::drive::<Hosts>(seed, cuts).0
}

/// The shapes: a mirror of three without spares, and a RAID 10 with two.
fn shapes() -> [(&'static str, Shape); 2] {
    let mirror = Shape { bitmap: Some(8192), ..Shape::new(Level::Raid1, 3) };
    let striped = Shape { bitmap: Some(8192), spares: 2, ..Shape::new(Level::Raid10, 4).layout("n2") };
    [("a", mirror), ("b", striped)]
}

impl Subject for Hosts {
    /// The steps before which the power goes, boot by boot.
    type Setup = Vec<u64>;
    type Open = Running;
    type End = ();
    type Broken = Broken;

    const PAUSE: Option<Duration> = Some(Duration::from_millis(1500));

    fn create(sim: &mut Sim, cuts: Vec<u64>) -> Self {
        let model = Model { flush_latency: 150_000, ..Model::sata_ssd() };
        let (mut drives, mut arrays) = (Vec::new(), Vec::new());
        for (number, (name, shape)) in (1..).zip(shapes()) {
            let mut spec = shape.spec();
            (spec.uuid, spec.name) = (Uuid::from_u128(number << 100), name.to_owned());
            let first = drives.len();
            drives.extend(given(&spec).iter().map(|new| sim.add_blank_drive(model, new.info.size)));
            let plan = planned(&spec);
            for write in plan.writes() {
                sim.poke(drives[first + write.device], write.offset, &write.bytes);
            }
            let oracle = Rc::new(RefCell::new(Oracle::zeroes(plan.geometry.size())));
            arrays.push(HostedArray { name, uuid: spec.uuid, oracle });
        }
        Self { cuts, done: false, drives, arrays, clock: Rc::new(Cell::new(NOW)), met: Rc::default() }
    }

    fn begin(&mut self, _: &Sim, boot: u64) -> Option<u64> {
        self.cuts.get(boot as usize - 1).copied()
    }

    async fn open(&self, scene: &Scene) -> Result<Running, Broken> {
        let io = &scene.io;
        // A drive that was gone is there again after the power was.
        self.drives.iter().for_each(|&drive| scene.sim.afflict(drive, |faults| faults.gone = false));
        let (pool, kernel) = (io.pool(POOL), Kernel::new(&scene.sim, io));
        let drives = Drives::new(&scene.sim, io, &pool, &self.drives, &kernel, scene.boot);
        let service = RefCell::new(self.service(&drives, scene));
        let running = Running { service, kernel, drives, pool, away: RefCell::default() };
        self.start_all(&running, scene).await?;
        Ok(running)
    }

    async fn break_one(&self, open: &Running, scene: &Scene, random: &mut Random) -> Result<(), Broken> {
        open.judge_owners()?;
        self.order(open, scene, random).await?;
        open.judge_owners()
    }

    async fn load(&self, open: &Running, scene: &Scene) -> Result<(), Broken> {
        let clients = self.arrays.iter().map(|kept| self.client(kept, open, scene));
        let ended = brindle_io::sync::join_all(clients).await;
        ended.into_iter().collect()
    }

    async fn judge(&self, open: &Running, scene: &Scene) -> Result<(), Broken> {
        open.bring_back(scene);
        for kept in &self.arrays {
            let array = open.array(kept)?;
            self.become_whole(kept, &array, open, scene).await?;
            let client = Client::new(array, open.pool.clone(), Rc::clone(&kept.oracle));
            client.read_all().await.map_err(|trouble| Broken::Client(kept.name, trouble))?;
        }
        open.judge_owners()?;
        self.judge_devices(open)?;
        open.service().stop_all().await.map_err(|why| Broken::Order("stop", why.into()))?;
        if open.kernel.has_devices() {
            return Err(Broken::Devices("host", "it has stopped, and left a device".to_owned()));
        }
        Ok(())
    }

    fn ended(&mut self, end: Option<()>, _: &Scene) -> Result<(), Broken> {
        self.done = end.is_some();
        if !self.done {
            self.arrays.iter().for_each(|kept| kept.oracle.borrow_mut().power_cut());
        }
        Ok(())
    }

    fn restarted(&mut self, _: &Sim) -> Result<bool, Broken> {
        Ok(!self.done)
    }

    fn endless(&self, scene: &Scene) -> Broken {
        Broken::Endless(scene.at())
    }

    fn met(&self) -> BTreeMap<&'static str, u64> {
        self.met.borrow().clone()
    }
}

impl Hosts {
    /// A server that serves nothing yet.
    fn service(&self, drives: &Drives, scene: &Scene) -> Rc<Service> {
        let server = nbd::Server::new(&scene.io, nbd::Config { memory: POOL, ..nbd::Config::default() });
        let devices = Rc::new(drives.clone());
        Service::new(&scene.io, "host".to_owned(), devices, server.into(), self.listener())
    }

    /// Another server takes the place of the one that there was, and serves all arrays.
    async fn serve(&self, open: &Running, scene: &Scene) -> Result<(), Broken> {
        open.service.replace(self.service(&open.drives, scene));
        self.start_all(open, scene).await
    }

    async fn start_all(&self, open: &Running, scene: &Scene) -> Result<(), Broken> {
        for kept in &self.arrays {
            self.start(kept, open, scene).await?;
        }
        let host: Rc<dyn Host> = open.service();
        open.service().begin();
        take_those_that_return(&host);
        share_spares(Rc::clone(&host));
        take_again(host).await;
        Ok(())
    }

    /// Something has happened.
    fn note(&self, kind: &'static str) {
        self.note_some(kind, 1);
    }

    fn note_some(&self, kind: &'static str, count: usize) {
        *self.met.borrow_mut().entry(kind).or_default() += count as u64;
    }

    /// Counts events.
    fn listener(&self) -> Listener {
        let met = Rc::clone(&self.met);
        Rc::new(move |news| {
            let kind = match news {
                News::Event { event, .. } => match event.kind {
                    Cow::Borrowed(kind) => kind,
                    Cow::Owned(_) => "told by another process",
                },
                News::Stopped { .. } => "stopped",
            };
            *met.borrow_mut().entry(kind).or_default() += 1;
        })
    }

    /// Assembles an array from all drives that answer and say that they are its, and has it served.
    async fn start(&self, kept: &HostedArray, open: &Running, scene: &Scene) -> Result<(), Broken> {
        let (mut ids, mut found, mut numbers): (Vec<MemberId>, Vec<Candidate>, Vec<usize>) =
            Default::default();
        for number in (0..self.drives.len()).filter(|&number| !open.drives.is_gone(number)) {
            let Some(candidate) = open.drives.candidate(number).await else { continue };
            let superblock = candidate.superblock().ok();
            if superblock.is_some_and(|(superblock, _)| superblock.set_uuid == kept.uuid) {
                ids.push(self.drives[number]);
                found.push(candidate);
                numbers.push(number);
            }
        }
        let assembly = assemble(&found, AssembleOptions::default());
        let assembly = assembly.map_err(|why| Broken::Assembly(kept.name, why.into()))?;
        numbers.iter().for_each(|&number| drop(open.drives.take(number)));
        let clock = Rc::clone(&self.clock);
        let config = OpenConfig {
            idle: Duration::from_millis(300),
            daemon_sleep: Some(Duration::from_millis(500)),
            scratch_bytes: 0,
            recovery: Recovery::Automatic,
            ..OpenConfig::new(Access::ReadWrite, move || clock.replace(clock.get() + 1))
        };
        let array = brindle_md::open(&scene.io, assembly.clone(), &ids, config).await;
        let array = array.map_err(|why| Broken::Open(kept.name, why))?;
        let hosted = Hosted {
            name: kept.name.to_owned(),
            array,
            description: ArrayDescription::of(&assembly),
            nested: Vec::new(),
            spare_group: Some("all".to_owned()),
            left_out: Vec::new(),
            devices: ids,
            files: Vec::new(),
        };
        let content: Rc<dyn Content> =
            ServedArray::new(&scene.io, hosted, Placed::default(), &self.listener());
        open.service().take_in(&content).map_err(|why| Broken::Order("serve", why.into()))
    }

    /// Asks an array for one thing after the other. One that was stopped is waited for.
    async fn client(&self, kept: &HostedArray, open: &Running, scene: &Scene) -> Result<(), Broken> {
        let stream = u64::from_le_bytes(*b"hostload") ^ (kept.uuid.as_u128() >> 100) as u64;
        let mut random = Random::stream(scene.seed, stream + (scene.boot << 8));
        let mix = Mix { most: 16 << 10, block: 512, ..Mix::default() };
        let size = kept.oracle.borrow().size();
        let mut load = Load::new(Random::stream(scene.seed, stream + 1 + (scene.boot << 8)), size, mix);
        // Some requests go by the array's device, which is mounted for a while.
        let mut mounted: Option<Client<OpenDevice>> = None;
        for _ in 0..REQUESTS {
            scene.io.sleep(Duration::from_millis(random.below(PAUSE_MS))).await;
            let request = load.next_request();
            if mounted.is_some() && random.one_in(4) {
                mounted = None;
            } else if mounted.is_none() && random.one_in(6) {
                let device =
                    open.kernel.numbers(&kept.key()).first().and_then(|&index| open.kernel.open(index));
                mounted = device.map(|device| {
                    self.note("mounted");
                    Client::new(device, open.pool.clone(), Rc::clone(&kept.oracle))
                });
            }
            // No request of a mount fails, whatever happens to servers.
            if let Some(client) = &mounted {
                client.ask(request).await.map_err(|trouble| Broken::Client(kept.name, trouble))?;
                continue;
            }
            let Some(served) = open.served(kept) else { continue };
            let array = served.array().clone();
            let client = Client::new(array, open.pool.clone(), Rc::clone(&kept.oracle));
            match client.ask(request).await {
                Ok(()) | Err(Trouble::Refused(_, VolumeError::Stopping)) => {}
                Err(trouble) => return Err(Broken::Client(kept.name, trouble)),
            }
        }
        Ok(())
    }

    /// Waits until an array has all of its members: those that return come by themselves, others by one word.
    async fn become_whole(
        &self,
        kept: &HostedArray,
        array: &Array,
        open: &Running,
        scene: &Scene,
    ) -> Result<(), Broken> {
        for _ in 0..WHOLE {
            if array.detail().in_sync() == array.detail().roles.len() && array.process().is_none() {
                return Ok(());
            }
            open.add_missing(kept.name).await;
            scene.io.sleep(Duration::from_secs(1)).await;
        }
        let states: Vec<RoleState> = array.detail().roles.iter().map(|role| role.state).collect();
        let events = array.events_since(0).into_iter().map(|event| format!("\n  {event}"));
        Err(Broken::NotWhole(kept.name, format!("{states:?}{}", events.collect::<String>())))
    }
}

impl Running {
    fn service(&self) -> Rc<Service> {
        Rc::clone(&self.service.borrow())
    }

    /// An array as the host serves it.
    fn served(&self, kept: &HostedArray) -> Option<Rc<ServedArray>> {
        all_of::<ServedArray>(&*self.service()).into_iter().find(|served| served.name() == kept.name)
    }

    fn array(&self, kept: &HostedArray) -> Result<Array, Broken> {
        let served = self.served(kept).ok_or(Broken::NotServed(kept.name))?;
        Ok(served.array().clone())
    }

    /// No device is one of two arrays, and all are open.
    fn judge_owners(&self) -> Result<(), Broken> {
        let mut known: Vec<MemberId> = Vec::new();
        for served in all_of::<ServedArray>(&*self.service()) {
            let own = served.array().detail().devices;
            if let Some(device) = own.iter().find(|device| known.contains(&device.id)) {
                return Err(Broken::TwoOwners(device.label.clone()));
            }
            if let Some(device) = own.iter().find(|device| !self.drives.is_open(&device.label)) {
                return Err(Broken::Closed(device.label.clone(), served.name().to_owned()));
            }
            known.extend(own.iter().map(|device| device.id));
        }
        Ok(())
    }

    /// Whatever is gone comes back.
    fn bring_back(&self, scene: &Scene) {
        for number in self.away.take() {
            self.drives.set_gone(&scene.sim, number, false);
        }
    }
}
