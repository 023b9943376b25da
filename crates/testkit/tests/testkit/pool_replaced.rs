//! Members of a pool that are replaced while it is served, as its host tells of it: names in events, the history, orders beside it, and devices
//! that do not answer.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

use brindle_export::nbd;
use brindle_format::md::Uuid;
use brindle_host::control::{Ask, Author};
use brindle_host::status::{EventStatus, LeftOut, PoolDevice, PoolStatus};
use brindle_host::{
    Content, Devices, Door, Doors, Found, HostError, HostedPool, Listener, Made, NbdDoor, NewBitmapFile,
    Newcomer, News, Pending, Placed, Refused, RequestOutcome, Search, ServedPool, Service, Source, Terms,
};
use brindle_io::device::Identity;
use brindle_io::sim::{Model, Sim};
use brindle_io::{Duration, Io, MemberId};
use brindle_testkit::pools::house::{House, Kind, MEMBER};

/// A world in which each name opens a drive of its own, and the name `late` one after a minute.
struct Drives {
    sim: Sim,
    io: Io,
    opened: Cell<u64>,
    closed: Rc<RefCell<Vec<MemberId>>>,
}

impl Devices for Drives {
    fn open(&self, sources: Vec<Source>, _: Terms) -> Pending<Result<Vec<Newcomer>, Refused>> {
        let number = self.opened.get();
        self.opened.set(number + 1);
        let label = sources[0].name().display().to_string();
        let (sim, io) = (self.sim.clone(), self.io.clone());
        Box::pin(async move {
            if label == "/late" {
                io.sleep(Duration::from_secs(60)).await;
            }
            let id = sim.add_blank_drive(Model::nvme(), MEMBER);
            if label == "/mute" {
                sim.afflict(id, |faults| faults.hangs = true);
            }
            Ok(vec![Newcomer { label, file: None, id, identity: Identity::modelled(number) }])
        })
    }

    fn find(&self, _: Search) -> Pending<Found> {
        Box::pin(async { Found::default() })
    }

    fn make_bitmap(&self, _: NewBitmapFile) -> Pending<Result<Made, Refused>> {
        Box::pin(async { Err(Refused::new("there is nothing")) })
    }

    fn unmake_bitmap(&self, _: Made) -> Pending<()> {
        Box::pin(async {})
    }

    fn known(&self) -> Vec<(Identity, PathBuf)> {
        Vec::new()
    }

    fn close(&self, devices: &[MemberId]) -> Pending<()> {
        self.closed.borrow_mut().extend(devices);
        Box::pin(async {})
    }

    fn new_uuid(&self) -> Result<Uuid, Refused> {
        Ok(Uuid::from_u128(0x100 + u128::from(self.opened.get())))
    }
}

/// A host of the pool `tank`, a mirror of `/m0`, `/m1` and a third that has no device here; `/x` was named, and is done without.
struct Tank {
    io: Io,
    service: Rc<Service>,
    ids: Vec<MemberId>,
    closed: Rc<RefCell<Vec<MemberId>>>,
    told: Rc<RefCell<Vec<EventStatus>>>,
}

impl Tank {
    fn new() -> Self {
        let sim = Sim::new(1);
        let io = Io::new(Box::new(sim.clone()));
        let house = House::new(Kind::Mirror(3), |size| sim.add_blank_drive(Model::nvme(), size));
        let ids = house.ids.clone();
        let pool = io.block_on(async {
            house.create(&io).await;
            house.open(&io, 0x2000).await
        });
        let named = |n: usize| (format!("/m{n}"), ids[n]);
        let hosted = HostedPool {
            name: "tank".to_owned(),
            pool,
            members: vec![Some("/m0".to_owned()), Some("/m1".to_owned()), None],
            left_out: vec![LeftOut { path: "/x".to_owned(), why: "it has lost its labels".to_owned() }],
            devices: vec![named(0), named(1)],
            waits_for: Vec::new(),
            map_memory: 128 << 20,
            spare_group: None,
        };
        let (closed, told) = (Rc::default(), Rc::new(RefCell::new(Vec::new())));
        let noted = Rc::clone(&told);
        let listener: Listener = Rc::new(move |news| {
            if let News::Event { event, .. } = news {
                noted.borrow_mut().push(*event);
            }
        });
        let devices = Drives { sim, io: io.clone(), opened: Cell::new(0), closed: Rc::clone(&closed) };
        let nbd = nbd::Server::new(&io, nbd::Config { memory: 1 << 20, ..nbd::Config::default() });
        let door: Rc<dyn Door> = Rc::new(NbdDoor::new(nbd, Rc::new(|_| Vec::new())));
        let service = Service::new(
            &io,
            "host".to_owned(),
            Rc::new(devices),
            Doors::new(vec![door]),
            Rc::clone(&listener),
        );
        let placed = Placed { server: Some("host".to_owned()), ..Placed::default() };
        let content: Rc<dyn Content> = ServedPool::new(&io, hosted, placed, &listener);
        service.take_in(&content).expect("a name that is free");
        Self { io, service, ids, closed, told }
    }

    async fn ask(&self, ask: Ask) -> Result<PoolStatus, HostError> {
        let mut request = ask.of(None);
        request.by = Some(Author { command: request.ask.name().to_owned(), user: 0 });
        match self.service.ask(request).await? {
            RequestOutcome::Pool(status) => Ok(*status),
            other => panic!("{other:?}"),
        }
    }

    async fn replace(&self, member: &str, with: &str) -> Result<PoolStatus, HostError> {
        let (member, with) = (member.to_owned(), PathBuf::from(with));
        self.ask(Ask::PoolReplace { pool: "tank".to_owned(), member, with, force: false }).await
    }

    async fn offline(&self, member: &str) -> Result<PoolStatus, HostError> {
        self.ask(Ask::PoolOffline { pool: "tank".to_owned(), member: member.to_owned() }).await
    }

    async fn online(&self, member: &str, device: Option<&str>) -> Result<PoolStatus, HostError> {
        let (member, device) = (member.to_owned(), device.map(PathBuf::from));
        self.ask(Ask::PoolOnline { pool: "tank".to_owned(), member, device }).await
    }

    fn status(&self) -> PoolStatus {
        let reported = self.service.status().into_all().remove(0);
        let brindle_host::status::Report::Pool(status) = reported else { panic!("{reported:?}") };
        *status
    }

    /// Waits for the end of all copies and resilvers.
    async fn settle(&self) {
        let is_done = |status: &PoolStatus| {
            let is_whole = |one: &PoolDevice| one.replaced_by.is_none() && one.state != "resilvering";
            status.pool.resilver.is_none() && status.pool.devices.iter().all(is_whole)
        };
        while !is_done(&self.status()) {
            self.io.sleep(Duration::from_millis(10)).await;
        }
        self.io.sleep(Duration::from_millis(100)).await;
    }

    /// Commands that history has.
    fn commands(&self) -> Vec<String> {
        let pools = brindle_host::all_of::<ServedPool>(&*self.service);
        let records = pools[0].pool().history().into_iter();
        records
            .filter(|record| matches!(record.kind, brindle_format::pool::HistoryKind::Command { .. }))
            .map(|record| record.text().to_owned())
            .collect()
    }
}

#[test]
fn events_of_a_replacement_name_the_device_that_was_and_then_the_one_that_is() {
    let tank = Tank::new();
    tank.io.block_on(async {
        let status = tank.replace("/m0", "/n0").await.expect("a copy begins");
        assert_eq!(status.pool.devices[0].path.as_deref(), Some("/m0"), "it is in use as before");
        assert_eq!(status.pool.devices[0].replaced_by.as_deref(), Some("/n0"));
        assert!(tank.commands().is_empty(), "it is not done yet");
        tank.settle().await;
        let status = tank.status();
        assert_eq!(status.pool.devices[0].path.as_deref(), Some("/n0"));
        assert_eq!(tank.commands(), ["pool-replace"]);
        assert_eq!(*tank.closed.borrow(), tank.ids[..1], "the device of before");
        for events in [&status.events, &*tank.told.borrow()] {
            let of = |kind: &str| -> Vec<(Option<&str>, Option<&str>)> {
                let events = events.iter().filter(|event| event.kind == kind);
                events.map(|event| (event.member.as_deref(), event.operation.as_deref())).collect()
            };
            assert_eq!(of("member-failed"), [(Some("/m0"), Some("replacement"))]);
            assert_eq!(of("member-replaced"), [(Some("/n0"), None)]);
        }
    });
}

#[test]
fn a_member_that_is_being_replaced_is_left_alone() {
    let tank = Tank::new();
    tank.io.block_on(async {
        tank.replace("/m0", "/n0").await.expect("a copy begins");
        for refused in [
            tank.replace("0.0", "/n1").await,
            tank.offline("0.0").await,
            tank.online("0.0", Some("/n0")).await,
        ] {
            let why = refused.expect_err("it is being replaced").to_string();
            assert!(why.contains("member 0.0: it is being replaced by /n0"), "{why}");
        }
        // Other members are none of it, and the new device is in use.
        tank.offline("0.1").await.expect("the third is there");
        let why = tank.online("0.1", Some("/m0")).await.expect_err("a blank drive").to_string();
        assert!(why.contains("/m0"), "{why}");
        tank.settle().await;
        assert_eq!(tank.status().pool.devices[0].state, "online");
    });
}

#[test]
fn a_device_that_does_not_answer_keeps_no_change_waiting_for_ever() {
    let tank = Tank::new();
    tank.io.block_on(async {
        for (with, seconds) in [("/late", 20), ("/mute", 60)] {
            let begun = tank.io.now();
            let why = tank.replace("/m0", with).await.expect_err("it does not answer");
            assert!(matches!(why, HostError::Busy(_)), "{why}");
            let why = tank.offline("0.1").await.expect_err("the other has the turn");
            assert!(matches!(why, HostError::Changing(_)), "{why}");
            while let Err(why) = tank.offline("0.1").await {
                assert!(matches!(why, HostError::Changing(_)), "{why}");
                assert!(tank.io.now() < begun.after(Duration::from_secs(seconds)), "{with}");
            }
            // Its own device is opened anew, which is a blank one here: it counts for nothing that it holds.
            tank.replace("0.1", "/again").await.expect("it is out");
            tank.settle().await;
        }
        let closed = tank.closed.borrow().len();
        assert!(closed >= 2, "the one that was late is closed, too");
        assert_eq!(tank.status().pool.devices[0].path.as_deref(), Some("/m0"));
        assert_eq!(tank.commands().iter().filter(|command| *command == "pool-replace").count(), 2);
    });
}

#[test]
fn a_device_that_is_taken_is_done_without_no_more_and_one_without_a_name_is_asked_for() {
    let tank = Tank::new();
    tank.io.block_on(async {
        tank.offline("0.2").await.expect("two are left");
        let why = tank.online("0.2", None).await.expect_err("it has no device").to_string();
        assert!(why.contains("member 0.2: it has no device here") && why.contains("DEVICE"), "{why}");
        let why = tank.online("nosuch", None).await.expect_err("there is none").to_string();
        assert!(why.contains("nosuch is not a member"), "{why}");
        assert_eq!(tank.status().left_out.len(), 1);
        tank.replace("0.2", "/x").await.expect("it is out");
        assert!(tank.status().left_out.is_empty(), "{:?}", tank.status().left_out);
        tank.settle().await;
        // A command that is carried out after its answer is in history, too.
        assert_eq!(tank.commands(), ["pool-offline", "pool-replace"]);
    });
}

#[test]
fn a_number_alone_is_no_member_of_a_pool_that_is_not_named() {
    let tank = Tank::new();
    let content = tank.service.content("tank").expect("it is served");
    let has = ["1", "0.1", "/m1", "/m2"].map(|member| content.has_member(member));
    assert_eq!(has, [false, true, true, false]);
    // Of the pool that is named it is.
    tank.io.block_on(tank.offline("1")).expect("two are left");
    assert_eq!(tank.status().pool.devices[1].state, "offline");
}
