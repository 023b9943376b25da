//! A kind of content that no file of the host or of the program knows: it is served, told of, asked and stopped as all others are.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;

use brindle_array::Array;
use brindle_export::nbd;
use brindle_host::control::{Ask, Author, Word};
use brindle_host::status::{OtherStatus, PoolDoors, Report};
use brindle_host::{
    Any, Content, Effects, Host, HostError, Listener, Names, News, Offered, Pending, Placed, RequestOutcome,
    Seen, Service, Volumes, not_for,
};
use brindle_io::{Duration, MemberId};
use brindle_layout::Level;
use brindle_testkit::shape::Shape;
use brindle_testkit::world::{World, patient};

use super::hosts::Spare;

/// Two exports of one array in memory.
struct Trial {
    array: Array,
    devices: Vec<MemberId>,
    placed: Placed,
    is_degraded: Cell<bool>,
    stopped: Cell<Option<bool>>,
    /// It has no end.
    hangs: Cell<bool>,
}

impl Trial {
    fn of(array: &Array, devices: &[MemberId]) -> Self {
        Self {
            array: array.clone(),
            devices: devices.to_vec(),
            placed: Placed::default(),
            is_degraded: Cell::default(),
            stopped: Cell::default(),
            hangs: Cell::default(),
        }
    }
}

impl Content for Trial {
    fn kind(&self) -> &'static str {
        "trial"
    }

    fn name(&self) -> &str {
        "t"
    }

    fn uuid(&self) -> String {
        "7".to_owned()
    }

    fn names(&self) -> Names {
        Names { own: "t".to_owned(), uuid: self.uuid(), devices: vec!["d0".to_owned()] }
    }

    fn has_member(&self, name: &str) -> bool {
        name == "d0"
    }

    fn exports(&self) -> Vec<Offered> {
        let offered = |name: &str| Offered {
            name: name.to_owned(),
            description: "half of a trial".to_owned(),
            uuid: [7; 16],
            identity: format!("trial:{name}"),
            volume: Rc::new(Any::Array(self.array.clone())),
        };
        vec![offered("t/a"), offered("t/b")]
    }

    fn is_one_export(&self) -> bool {
        false
    }

    fn placed(&self) -> &Placed {
        &self.placed
    }

    fn devices(&self, _: &dyn Host) -> Vec<MemberId> {
        self.devices.clone()
    }

    fn report(&self, seen: &Seen<'_>) -> Report {
        let state = if self.is_degraded.get() { "degraded" } else { "whole" };
        Report::Other(Box::new(OtherStatus {
            name: "t".to_owned(),
            kind: "trial".into(),
            uuid: self.uuid(),
            state: vec![state.into()],
            doors: PoolDoors::of(seen.uses(self)),
            devices: vec!["d0".to_owned()],
            ..OtherStatus::default()
        }))
    }

    fn carry_out(
        self: Rc<Self>,
        ask: Ask,
        _: Option<Author>,
        host: Rc<dyn Host>,
    ) -> Pending<Result<RequestOutcome, HostError>> {
        Box::pin(async move {
            match ask {
                Ask::Fail { .. } => self.is_degraded.set(true),
                ask => return Err(not_for(&*self, &ask)),
            }
            Ok(host.done(&*self, Effects::default()))
        })
    }

    fn stop(self: Rc<Self>, clients: Pending<()>) -> Pending<Result<(), HostError>> {
        Box::pin(async move {
            clients.await;
            if self.hangs.get() {
                pending::<()>().await;
            }
            let stopped = self.array.stop().await;
            self.stopped.set(Some(stopped.is_ok()));
            stopped.map_err(HostError::Stop)
        })
    }

    fn has_stopped_well(&self) -> Option<bool> {
        self.stopped.get()
    }

    fn last_words(&self) -> &'static str {
        "stopped"
    }

    fn tell_the_last_events(&self) {}
}

#[test]
fn a_kind_that_the_host_does_not_know_is_served_as_all_others_are() {
    let world = World::of(&Shape::new(Level::Raid1, 2));
    let array = world.try_open(world.assembly().unwrap(), patient()).unwrap();
    let (closed, told) = <(Rc<RefCell<Vec<MemberId>>>, Rc<RefCell<Vec<String>>>)>::default();
    let heard = Rc::clone(&told);
    let listener: Listener = Rc::new(move |news| {
        let News::Stopped { name, .. } = news else { return };
        heard.borrow_mut().push(name);
    });
    let devices = Rc::new(Spare { id: world.ids[0], closed: Rc::clone(&closed) });
    let server = nbd::Server::new(&world.io, nbd::Config { memory: 1 << 20, ..nbd::Config::default() });
    let service = Service::new(&world.io, "host".to_owned(), devices, server.clone().into(), listener);
    let content: Rc<dyn Content> = Rc::new(Trial::of(&array, &world.ids));
    service.take_in(&content).unwrap();
    let offered: Vec<String> = server.export_stats().into_iter().map(|stats| stats.name).collect();
    assert_eq!(offered, ["t/a", "t/b"]);
    world.io.block_on(async {
        let why = service.ask(Ask::Action { action: Word::Check, max_speed: None, min_speed: None }.of(None));
        let why = why.await.unwrap_err().to_string();
        assert_eq!(why, "t: it is a trial, and 'action' is not for trials");
        service.ask(Ask::Fail { member: "d0".to_owned() }.into()).await.unwrap();
        let Volumes::List(all) = service.status() else { panic!("exports with names are a list") };
        let [Report::Other(one)] = &all[..] else { panic!("{all:?}") };
        assert_eq!((&*one.kind, &one.state[..]), ("trial", &["degraded".into()][..]));
        assert_eq!((all[0].name(), all[0].uuid(), all[0].has_device("d0")), ("t", "7", true));
        service.stop_one(&content, Duration::from_secs(60)).await.unwrap();
    });
    assert!(service.contents().is_empty() && server.export_stats().is_empty());
    assert_eq!((&*closed.borrow(), &*told.borrow()), (&world.ids, &vec!["t".to_owned()]));
}

#[test]
fn a_content_that_is_refused_takes_no_export_from_another() {
    let world = World::of(&Shape::new(Level::Raid1, 2));
    let array = world.try_open(world.assembly().unwrap(), patient()).unwrap();
    let devices = Rc::new(Spare { id: world.ids[0], closed: Rc::default() });
    let server = nbd::Server::new(&world.io, nbd::Config { memory: 1 << 20, ..nbd::Config::default() });
    let listener: Listener = Rc::new(|_| {});
    let service = Service::new(&world.io, "host".to_owned(), devices, server.clone().into(), listener);
    let trial = || -> Rc<dyn Content> { Rc::new(Trial::of(&array, &world.ids)) };
    let (first, second) = (trial(), trial());
    service.take_in(&first).unwrap();
    service.take_in(&second).unwrap_err();
    world.io.block_on(service.refuse(&second));
    let offered: Vec<String> = server.export_stats().into_iter().map(|stats| stats.name).collect();
    assert_eq!(offered, ["t/a", "t/b"]);
}

#[test]
fn a_content_that_does_not_stop_for_another_has_its_devices_closed() {
    let world = World::of(&Shape::new(Level::Raid1, 2));
    let array = world.try_open(world.assembly().unwrap(), patient()).unwrap();
    let closed = Rc::<RefCell<Vec<MemberId>>>::default();
    let devices = Rc::new(Spare { id: world.ids[0], closed: Rc::clone(&closed) });
    let server = nbd::Server::new(&world.io, nbd::Config { memory: 1 << 20, ..nbd::Config::default() });
    let service = Service::new(&world.io, "host".to_owned(), devices, server.into(), Rc::new(|_| {}));
    let trial = Trial::of(&array, &world.ids);
    trial.hangs.set(true);
    let content: Rc<dyn Content> = Rc::new(trial);
    service.take_in(&content).unwrap();
    let other = async || panic!("nothing is opened in the place of one that may write still");
    let exchanged = world.io.block_on(service.exchange(&content, Duration::from_secs(1), other));
    assert_eq!(exchanged.unwrap_err().to_string(), HostError::NotStopped("t".to_owned()).to_string());
    assert!(service.contents().is_empty());
    assert_eq!(*closed.borrow(), world.ids);
}
