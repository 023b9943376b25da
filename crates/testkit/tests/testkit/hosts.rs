//! Hosts in storms, the same seeds and cuts each time. `make storm ONLY=hosts` searches further.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use brindle_array::{OpenConfig, Recovery};
use brindle_export::nbd;
use brindle_format::md::Uuid;
use brindle_host::{
    ArrayDescription, Coming, Content, Devices, Found, Host, Hosted, Listener, Made, NewBitmapFile, Newcomer,
    News, Pending, Placed, Refused, Search, ServedArray, Service, Source, Terms,
};
use brindle_io::device::Identity;
use brindle_io::{Duration, MemberId};
use brindle_layout::Level;
use brindle_testkit::hosts;
use brindle_testkit::random::Random;
use brindle_testkit::shape::Shape;
use brindle_testkit::world::{World, patient};

#[test]
fn arrays_of_one_host_share_spares_and_take_members_again_whenever_the_power_goes() {
    let mut met = BTreeMap::new();
    for seed in 0..8 {
        let calm = hosts::run(seed, None);
        assert_eq!(calm.broken, None, "make storm SEED={seed} CUT=none ONLY=hosts, boot {}", calm.boot);
        let mut random = Random::stream(seed, 0x6669_7865);
        for _ in 0..6 {
            let cut = random.below(calm.steps);
            let driven = hosts::run(seed, Some(cut));
            assert_eq!(
                driven.broken, None,
                "make storm SEED={seed} CUT={cut} ONLY=hosts, boot {}",
                driven.boot
            );
            for (kind, count) in driven.met {
                *met.entry(kind).or_insert(0) += count;
            }
        }
    }
    let of_members = [
        "member-failed",
        "spare-given",
        "spare-taken",
        "recovery-ended",
        "copy-ended",
        "re-added",
        "stopped",
    ];
    let of_devices = ["attached", "detached", "mounted", "in-use", "reclaimed"];
    let least = of_members.map(|kind| (kind, 3)).into_iter().chain(of_devices.map(|kind| (kind, 1)));
    for (kind, least) in least {
        assert!(met.get(kind).is_some_and(|&count| count >= least), "{kind} in {met:?}");
    }
}

#[test]
fn a_seed_and_a_cut_are_all_that_a_storm_of_hosts_depends_on() {
    let [once, again] = [0, 1].map(|_| hosts::run(3, Some(4000)));
    assert_eq!((once.trace, once.boot, once.steps), (again.trace, again.boot, again.steps));
}

/// One device in RAM, by its name.
pub(crate) struct Spare {
    pub(crate) id: MemberId,
    pub(crate) closed: Rc<RefCell<Vec<MemberId>>>,
}

impl Devices for Spare {
    fn open(&self, sources: Vec<Source>, _: Terms) -> Pending<Result<Vec<Newcomer>, Refused>> {
        let id = self.id;
        let newcomer = |source: Source| match source {
            Source::Named(name) if name.to_str() == Some("spare") => {
                Ok(Newcomer { label: "spare".to_owned(), file: None, id, identity: Identity::modelled(9) })
            }
            source => Err(Refused::new(format!("{}: it is not in RAM", source.name().display()))),
        };
        let opened = sources.into_iter().map(newcomer).collect();
        Box::pin(async { opened })
    }

    fn find(&self, _: Search) -> Pending<Found> {
        Box::pin(async { Found::default() })
    }

    fn make_bitmap(&self, new: NewBitmapFile) -> Pending<Result<Made, Refused>> {
        Box::pin(async move { Err(Refused::new(format!("{}: RAM has no files", new.path.display()))) })
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
        Ok(Uuid::from_u128(7))
    }
}

#[test]
fn a_host_runs_on_members_in_memory() {
    let shape = Shape::new(Level::Raid1, 2);
    let world = World::of(&shape);
    let assembly = world.assembly().unwrap();
    let config = OpenConfig { recovery: Recovery::Automatic, ..patient() };
    let array = world.try_open(assembly.clone(), config).unwrap();
    let (closed, met) = <(Rc<RefCell<Vec<MemberId>>>, Rc<RefCell<Vec<String>>>)>::default();
    let heard = Rc::clone(&met);
    let listener: Listener = Rc::new(move |news| {
        heard.borrow_mut().push(match news {
            News::Event { event, .. } => event.kind.into_owned(),
            News::Stopped { .. } => "stopped".to_owned(),
        });
    });
    let hosted = Hosted {
        name: "a".to_owned(),
        array: array.clone(),
        description: ArrayDescription::of(&assembly),
        nested: Vec::new(),
        spare_group: None,
        left_out: Vec::new(),
        devices: world.ids.clone(),
        files: Vec::new(),
    };
    let served = ServedArray::new(&world.io, hosted, Placed::default(), &listener);
    let content: Rc<dyn Content> = served.clone();
    let spare = Spare { id: world.bench.add_ram(shape.device_bytes()), closed: Rc::clone(&closed) };
    let id = spare.id;
    let server = nbd::Server::new(&world.io, nbd::Config { memory: 1 << 20, ..nbd::Config::default() });
    let devices = Rc::new(spare);
    let service = Service::new(&world.io, "host".to_owned(), devices, server.into(), listener);
    service.take_in(&content).unwrap();
    world.io.block_on(async {
        let file = tempfile::tempfile().unwrap();
        let given = vec![("mine".into(), file.into())];
        let why = served.add_given(&*service, given, Coming::default()).await.expect_err("a file");
        assert_eq!(why.to_string(), "mine: it is not in RAM");
        let added = served.add(&*service, vec!["spare".into()], Coming::default()).await.unwrap();
        assert_eq!(added.joined.unwrap()[0].path, "spare");
        array.fail(0).await.unwrap();
        for _ in 0..4000 {
            if array.detail().in_sync() == 2 && array.process().is_none() {
                break;
            }
            world.io.sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(array.detail().in_sync(), 2);
        assert!(array.detail().devices.iter().any(|device| device.id == id && device.role == Some(0)));
        assert_eq!(service.status().all().len(), 1);
        service.stop_one(&content, Duration::from_secs(60)).await.unwrap();
        assert!(service.contents().is_empty());
    });
    assert!(closed.borrow().contains(&id), "{closed:?}");
    for kind in ["member-failed", "recovery-ended", "stopped"] {
        assert!(met.borrow().iter().any(|met| met == kind), "{kind} in {met:?}");
    }
}
