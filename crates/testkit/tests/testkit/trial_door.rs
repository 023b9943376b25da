//! A host has its doors as a list of one trait. The door of this test is known to no file of the host or the program. It offers an array and
//! a volume of a pool, has clients and statistics in the status and the metrics, withdraws, and ends in order.

use std::rc::Rc;

use brindle_export::nbd::Server;
use brindle_export::{Config, ConnectionStats, Gate};
use brindle_host::control::Ask;
use brindle_host::metrics::{Families, Moment};
use brindle_host::status::{ExportStatus, PoolStatus, Report};
use brindle_host::{
    Any, ArrayDescription, Content, Door, DoorClient, Doors, ExportUse, HostError, Hosted, HostedPool,
    Listener, NbdDoor, Offered, Pending, Placed, ServedArray, ServedPool, Service,
};
use brindle_io::{Duration, Pool};
use brindle_layout::Level;
use brindle_testkit::door::MemoryDoor;
use brindle_testkit::pools::house::{House, Kind};
use brindle_testkit::shape::Shape;
use brindle_testkit::world::{World, patient};
use brindle_volume::{Volume, VolumeError};

use crate::hosts::Spare;

/// The door without a socket, as one of a host's.
struct Trial(Rc<MemoryDoor<Any>>);

impl Door for Trial {
    fn protocol(&self) -> &'static str {
        "trial"
    }

    fn prepare<'a>(&'a self, export: &Offered, gate: &Rc<Gate>) -> Result<Box<dyn FnOnce() + 'a>, HostError> {
        let (export, gate) = (export.clone(), Rc::clone(gate));
        if export.name.ends_with("refused") {
            return Err(HostError::Refused {
                name: export.name,
                why: "the trial does not offer it".to_owned(),
            });
        }
        Ok(Box::new(move || self.0.exports.offer(&export.name, &export.description, export.volume, gate)))
    }

    fn withdraw(&self, export: &str) -> Pending<()> {
        let (door, export) = (Rc::clone(&self.0), export.to_owned());
        Box::pin(async move { door.exports.remove(&export, &door.sessions).await })
    }

    fn dismiss(&self, export: &str) -> Pending<()> {
        let (door, export) = (Rc::clone(&self.0), export.to_owned());
        Box::pin(async move { door.exports.dismiss(&export, &door.sessions).await })
    }

    fn stop(&self) -> Pending<()> {
        let door = Rc::clone(&self.0);
        Box::pin(async move { door.exports.stop(&door.sessions).await })
    }

    fn end(&self, connection: &ConnectionStats) -> usize {
        let export = connection.export.as_deref().unwrap_or_default();
        self.0.sessions.disconnect(export, |number, _| number == connection.id)
    }

    fn addresses(&self, export: &str, is_named: bool) -> Vec<String> {
        vec![if is_named { format!("trial:{export}") } else { "trial:".to_owned() }]
    }

    fn exports(&self) -> Vec<ExportUse> {
        self.0.exports.stats().into_iter().map(ExportUse::from).collect()
    }

    fn clients(&self) -> Vec<DoorClient> {
        self.0.sessions.stats().into_iter().map(DoorClient::from).collect()
    }

    fn refused(&self) -> u64 {
        self.0.sessions.refused()
    }
}

/// A host of an array and a pool, with two doors.
struct Trials {
    service: Rc<Service>,
    door: Rc<MemoryDoor<Any>>,
    nbd: Server<Any>,
    pool: Pool,
    contents: [Rc<dyn Content>; 2],
}

impl Trials {
    fn new(world: &World<brindle_io::memory::Memory>) -> Self {
        let io = &world.io;
        let config = Config { memory: 1 << 20, connections: 4, ..Config::default() };
        let (door, nbd) = (Rc::new(MemoryDoor::new(io, config)), Server::new(io, config));
        let addresses = Rc::new(|export: Option<&str>| vec![format!("nbd:{}", export.unwrap_or_default())]);
        let doors: Vec<Rc<dyn Door>> =
            vec![Rc::new(NbdDoor::new(nbd.clone(), addresses)), Rc::new(Trial(Rc::clone(&door)))];
        let spare = Spare { id: world.ids[0], closed: Rc::default() };
        let listener: Listener = Rc::new(|_| ());
        let service =
            Service::new(io, "host".to_owned(), Rc::new(spare), Doors::new(doors), Rc::clone(&listener));
        let placed = || Placed { server: Some("host".to_owned()), ..Placed::default() };
        let assembly = world.assembly().expect("members of an array");
        let hosted = Hosted {
            name: "a".to_owned(),
            array: world.try_open(assembly.clone(), patient()).expect("an array"),
            description: ArrayDescription::of(&assembly),
            nested: Vec::new(),
            spare_group: None,
            left_out: Vec::new(),
            devices: world.ids.clone(),
            files: Vec::new(),
        };
        let array: Rc<dyn Content> = ServedArray::new(io, hosted, placed(), &listener);
        let house = House::new(Kind::Mirror(2), |size| world.bench.add_ram(size));
        let opened = io.block_on(async {
            house.create(io).await;
            house.open(io, 0x2000).await
        });
        let hosted = HostedPool {
            name: "tank".to_owned(),
            pool: opened,
            members: vec![Some("p0".to_owned()), Some("p1".to_owned())],
            left_out: Vec::new(),
            devices: Vec::new(),
            waits_for: Vec::new(),
            map_memory: 128 << 20,
            spare_group: None,
        };
        let pool: Rc<dyn Content> = ServedPool::new(io, hosted, placed(), &listener);
        let contents = [array, pool];
        for content in &contents {
            service.take_in(content).expect("names that are free");
        }
        Self { service, door, nbd, pool: io.pool(1 << 20), contents }
    }

    async fn ask(&self, of: &str, ask: Ask) -> Result<(), HostError> {
        self.service.ask(ask.of(of.to_owned())).await.map(drop)
    }

    async fn volume(&self, name: &str) -> Result<(), HostError> {
        let create = Ask::VolumeCreate { pool: "tank".to_owned(), name: name.to_owned(), size: 1 << 20 };
        self.service.ask(create.of(None)).await.map(drop)
    }

    fn status(&self) -> (Box<ExportStatus>, Box<PoolStatus>) {
        let (mut array, mut pool) = (None, None);
        for report in self.service.status().all() {
            match report {
                Report::Array(status) => array = Some(status.clone()),
                Report::Pool(status) => pool = Some(status.clone()),
                Report::Absent(_) | Report::Other(_) => {}
            }
        }
        (array.expect("an array"), pool.expect("a pool"))
    }

    /// Writes to an export by way of the trial door, and reads it; `false` if there is no way.
    async fn use_it(&self, export: &str) -> bool {
        let Some(client) = self.door.connect(export).await else { return false };
        let buf = self.pool.alloc(8192).await;
        buf.bytes_mut().fill(7);
        client.write(4096, buf.slice(0..4096), false).await.expect("a write");
        client.read(4096, buf.slice(4096..8192)).await.expect("a read");
        buf.bytes()[4096] == 7
    }
}

#[test]
fn a_door_that_the_host_does_not_know_is_one_of_its_doors() {
    let shape = Shape { rows: 32, ..Shape::new(Level::Raid1, 2) };
    let world = World::of(&shape);
    let trials = Trials::new(&world);
    world.io.block_on(async {
        trials.volume("one").await.expect("a volume");
        // All doors have it, or none.
        let why = trials.volume("refused").await.expect_err("the trial refuses it");
        assert!(why.to_string().contains("the trial does not offer it"), "{why}");
        let destroy =
            Ask::VolumeDestroy { pool: "tank".to_owned(), name: "refused".to_owned(), force: false };
        trials.service.ask(destroy.of(None)).await.expect("a volume that nobody has open");
        let names = |stats: Vec<brindle_export::session::ExportStats>| {
            stats.into_iter().map(|one| one.name).collect::<Vec<_>>()
        };
        for offered in [names(trials.nbd.export_stats()), names(trials.door.exports.stats())] {
            assert_eq!(offered, ["a", "tank/one"]);
        }
        assert!(trials.use_it("a").await && trials.use_it("tank/one").await);
        // Both take their leave.
        world.io.sleep(Duration::from_millis(1)).await;
        let clients =
            [trials.door.connect("a").await, trials.door.connect("tank/one").await].map(Option::unwrap);
        status_shows_them(&trials);
        clients_are_ended_by_order(&trials, clients).await;
        trials.ask("tank", Ask::Unexport).await.expect("no clients");
        assert!(!trials.use_it("tank/one").await && trials.use_it("a").await);
        trials.ask("tank", Ask::Export { limits: None }).await.expect("a pool");
        assert!(trials.use_it("tank/one").await);
        all_ends_in_order(&trials).await;
    });
}

fn status_shows_them(trials: &Trials) {
    let (array, pool) = trials.status();
    let [one] = &*array.doors.doors else { panic!("{:?}", array.doors) };
    assert_eq!((&*one.protocol, &*one.addresses), ("trial", &["trial:a".to_owned()][..]));
    assert_eq!((one.connections, one.requests, one.bytes_written, one.bytes_read), (1, 2, 4096, 4096));
    // Counters that are not of all doors are those of the first.
    assert_eq!((&*array.doors.nbd, array.connections), (&["nbd:a".to_owned()][..], 0));
    assert_eq!(array.clients.iter().map(|one| &*one.protocol).collect::<Vec<_>>(), ["trial"]);
    let [one] = &*pool.doors.doors else { panic!("{:?}", pool.doors) };
    assert_eq!((&*one.addresses, one.connections), (&["trial:tank/one".to_owned()][..], 1));
    assert_eq!((pool.connections, pool.bytes_written), (1, 4096));
    assert_eq!(pool.clients[0].volume.as_deref(), Some("tank/one"));
    let moment = Moment { age: 0.0, started: 0.0 };
    let all = trials.service.status();
    let text = Families::of("host", "1", moment, all.all(), false).text();
    let series = r#"brindle_export_requests_total{array="a",protocol="trial"} 2"#;
    assert!(text.contains(series), "{text}");
}

async fn clients_are_ended_by_order(
    trials: &Trials,
    [of_array, of_pool]: [brindle_testkit::door::DoorClient<Any>; 2],
) {
    let destroy = || Ask::VolumeDestroy { pool: "tank".into(), name: "one".into(), force: false };
    let why = trials.service.ask(destroy().of(None)).await.map(drop).expect_err("it is open");
    assert!(matches!(why, HostError::Open { clients: 1, .. }), "{why}");
    trials.ask("a", Ask::Disconnect { client: None }).await.expect("an array");
    assert_eq!(of_array.flush().await, Err(VolumeError::Stopping));
    of_pool.flush().await.expect("another client");
    drop((of_array, of_pool));
}

async fn all_ends_in_order(trials: &Trials) {
    let client = trials.door.connect("a").await.expect("a place");
    let buf = trials.pool.alloc(4096).await;
    trials.service.stop_one(&trials.contents[0], Duration::from_secs(60)).await.expect("it is stopped");
    assert_eq!(client.read(0, buf.slice(0..4096)).await, Err(VolumeError::Stopping));
    assert_eq!(trials.door.exports.stats().len(), 1);
    trials.service.stop_all().await.expect("all is stopped");
    assert!(trials.door.exports.stats().is_empty() && trials.door.sessions.stats().is_empty());
    assert_eq!(trials.door.sessions.memory_in_use(), 0);
}
