//! Pools of a host that are given other names: what would end a device of the kernel is refused, changes side by side are made one behind the
//! other, and of a name that can't be nothing is changed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;

use brindle_export::{ConnectionStats, Gate, nbd};
use brindle_format::md::Uuid;
use brindle_host::control::Ask;
use brindle_host::{
    Attacher, Content, Devices, Door, DoorClient, Doors, ExportUse, Found, Host as _, HostError, HostedPool,
    Listener, Made, Naming, NbdDoor, NewBitmapFile, Newcomer, Offered, Pending, Placed, Refused,
    RequestOutcome, Search, ServedPool, Service, Serving, Source, Terms, WantedDevice,
};
use brindle_io::device::Identity;
use brindle_io::sim::{Model, Sim};
use brindle_io::sync::join_all;
use brindle_io::{Duration, Io, MemberId};
use brindle_pool::PoolChangeError;
use brindle_testkit::pools::house::{House, Kind};

/// A kernel of one device, which others may end, too.
#[derive(Clone, Default)]
struct OneDevice {
    is_there: Rc<Cell<bool>>,
    ended: Rc<Cell<usize>>,
}

impl Attacher for OneDevice {
    fn prepare(&self) -> Result<(), Refused> {
        Ok(())
    }

    fn make(&self, _: Option<u32>, _: WantedDevice, _: Serving) -> Pending<Result<u32, Refused>> {
        self.is_there.set(true);
        Box::pin(async { Ok(4) })
    }

    fn connect_again(&self, _: u32, _: WantedDevice, _: Serving) -> Pending<Result<(), Refused>> {
        Box::pin(async { Ok(()) })
    }

    fn end(&self, _: u32) -> Pending<Result<(), Refused>> {
        self.is_there.set(false);
        self.ended.set(self.ended.get() + 1);
        Box::pin(async { Ok(()) })
    }

    fn is_there(&self, _: u32) -> Pending<bool> {
        let is_there = self.is_there.get();
        Box::pin(async move { is_there })
    }

    fn devices_of(&self, _: String) -> Pending<Vec<(u32, String)>> {
        Box::pin(async { Vec::new() })
    }

    fn name(&self, devices: Vec<(u32, String)>) -> Pending<Vec<Naming>> {
        Box::pin(async move { devices.iter().map(|_| Naming::NoUdev).collect() })
    }

    fn unname(&self, _: u32, _: String) -> Pending<()> {
        Box::pin(async {})
    }
}

/// A world that opens nothing.
struct Nothing(OneDevice);

impl Devices for Nothing {
    fn open(&self, _: Vec<Source>, _: Terms) -> Pending<Result<Vec<Newcomer>, Refused>> {
        Box::pin(async { Err(Refused::new("there is nothing")) })
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

    fn close(&self, _: &[MemberId]) -> Pending<()> {
        Box::pin(async {})
    }

    fn attacher(&self) -> Option<Rc<dyn Attacher>> {
        Some(Rc::new(self.0.clone()))
    }

    fn new_uuid(&self) -> Result<Uuid, Refused> {
        Ok(Uuid::from_u128(7))
    }
}

/// Waits for both, side by side.
async fn both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    let (first, second) = (RefCell::new(None), RefCell::new(None));
    let one: Box<dyn Future<Output = ()>> = Box::new(async { drop(first.replace(Some(one.await))) });
    let other: Box<dyn Future<Output = ()>> = Box::new(async { drop(second.replace(Some(other.await))) });
    join_all([Box::into_pin(one), Box::into_pin(other)]).await;
    (first.take().expect("it has ended"), second.take().expect("it has ended"))
}

/// A door whose clients may have requests that do not end.
#[derive(Default)]
struct Stuck {
    offered: RefCell<BTreeSet<String>>,
    hangs: Cell<bool>,
}

impl Stuck {
    fn left(&self) -> Pending<()> {
        if self.hangs.get() { Box::pin(std::future::pending()) } else { Box::pin(async {}) }
    }
}

impl Door for Stuck {
    fn protocol(&self) -> &'static str {
        "stuck"
    }

    fn prepare<'a>(&'a self, export: &Offered, _: &Rc<Gate>) -> Result<Box<dyn FnOnce() + 'a>, HostError> {
        let name = export.name.clone();
        match self.offered.borrow().contains(&name) {
            true => Err(HostError::NameTaken(name)),
            false => Ok(Box::new(move || {
                let _is_new = self.offered.borrow_mut().insert(name);
            })),
        }
    }

    fn withdraw(&self, export: &str) -> Pending<()> {
        self.offered.borrow_mut().remove(export);
        self.left()
    }

    fn dismiss(&self, _: &str) -> Pending<()> {
        self.left()
    }

    fn stop(&self) -> Pending<()> {
        self.left()
    }

    fn end(&self, _: &ConnectionStats) -> usize {
        0
    }

    fn addresses(&self, _: &str, _: bool) -> Vec<String> {
        Vec::new()
    }

    fn exports(&self) -> Vec<ExportUse> {
        Vec::new()
    }

    fn clients(&self) -> Vec<DoorClient> {
        Vec::new()
    }

    fn refused(&self) -> u64 {
        0
    }
}

/// A host of the pools `tank` and `pond`.
struct Pools {
    io: Io,
    service: Rc<Service>,
    nbd: nbd::Server<brindle_host::Any>,
    kernel: OneDevice,
    stuck: Rc<Stuck>,
}

impl Pools {
    fn new() -> Self {
        let sim = Sim::new(1);
        let io = Io::new(Box::new(sim.clone()));
        let nbd = nbd::Server::new(&io, nbd::Config { memory: 1 << 20, ..nbd::Config::default() });
        let (kernel, listener): (OneDevice, Listener) = (OneDevice::default(), Rc::new(|_| ()));
        let devices = Rc::new(Nothing(kernel.clone()));
        let stuck = Rc::new(Stuck::default());
        let first: Rc<dyn Door> = Rc::new(NbdDoor::new(nbd.clone(), Rc::new(|_| Vec::new())));
        let doors = Doors::new(vec![first, Rc::clone(&stuck) as Rc<dyn Door>]);
        let service = Service::new(&io, "host".to_owned(), devices, doors, Rc::clone(&listener));
        for name in ["tank", "pond"] {
            let house = House::new(Kind::Mirror(2), |size| sim.add_blank_drive(Model::nvme(), size));
            let pool = io.block_on(async {
                house.create(&io).await;
                house.open(&io, 0x2000).await
            });
            let hosted = HostedPool {
                name: name.to_owned(),
                pool,
                members: vec![None, None],
                left_out: Vec::new(),
                devices: Vec::new(),
                waits_for: Vec::new(),
                map_memory: 128 << 20,
                spare_group: None,
            };
            let placed = Placed { server: Some("host".to_owned()), ..Placed::default() };
            let content: Rc<dyn Content> = ServedPool::new(&io, hosted, placed, &listener);
            service.take_in(&content).expect("names that are free");
        }
        Self { io, service, nbd, kernel, stuck }
    }

    async fn ask(&self, ask: Ask) -> Result<RequestOutcome, HostError> {
        self.service.ask(ask.of(None)).await
    }

    async fn rename(&self, pool: &str, to: &str) -> Result<RequestOutcome, HostError> {
        self.ask(Ask::PoolRename { pool: pool.to_owned(), to: to.to_owned() }).await
    }

    async fn volume(&self, pool: &str, name: &str) -> Result<RequestOutcome, HostError> {
        self.ask(Ask::VolumeCreate { pool: pool.to_owned(), name: name.to_owned(), size: 1 << 20 }).await
    }

    fn exports(&self) -> BTreeSet<String> {
        self.nbd.export_stats().into_iter().map(|one| one.name).collect()
    }

    /// Exports, which all doors offer.
    fn offered(&self) -> BTreeSet<String> {
        assert_eq!(self.exports(), *self.stuck.offered.borrow());
        self.exports()
    }

    fn names(&self) -> Vec<String> {
        self.service.contents().iter().map(|content| content.name().to_owned()).collect()
    }
}

#[test]
fn a_pool_gets_no_other_name_while_a_volume_of_it_is_attached() {
    let pools = Pools::new();
    pools.io.block_on(async {
        for (pool, name) in [("tank", "one"), ("tank", "two"), ("pond", "one")] {
            pools.volume(pool, name).await.expect("a volume");
        }
        let attach = Ask::Attach { index: None, connections: 1, dead_timeout: 10 };
        pools.service.ask(attach.of("tank/two".to_owned())).await.expect("a device");
        let before = pools.exports();
        let two = |to: &str| Ask::VolumeRename { pool: "tank".into(), name: "two".into(), to: to.into() };
        for refused in [pools.rename("tank", "lake").await, pools.ask(two("three")).await] {
            let why = refused.expect_err("it is attached");
            assert!(matches!(&why, HostError::Attached { .. }), "{why}");
            let why = why.to_string();
            assert!(why.contains("tank/two is attached as /dev/nbd4"), "{why}");
            assert!(why.contains("`brindle detach tank/two`"), "{why}");
        }
        assert_eq!((pools.exports(), pools.names()), (before, vec!["tank".to_owned(), "pond".to_owned()]));
        assert!(pools.kernel.is_there.get() && pools.kernel.ended.get() == 0);
        // Another volume of it, and another pool, are none of the device's.
        let one = Ask::VolumeRename { pool: "tank".into(), name: "one".into(), to: "zero".into() };
        pools.ask(one).await.expect("it is not attached");
        pools.rename("pond", "lake").await.expect("nothing of it is attached");
        // One that others have ended is none any more.
        pools.kernel.is_there.set(false);
        pools.rename("tank", "sea").await.expect("there is no device");
        let all = ["lake/one", "sea/two", "sea/zero"];
        assert!(pools.exports().iter().eq(all), "{:?}", pools.exports());
    });
}

#[test]
fn names_that_can_not_be_are_refused_and_nothing_is_withdrawn() {
    let pools = Pools::new();
    pools.io.block_on(async {
        pools.volume("tank", "one").await.expect("a volume");
        let long = "x".repeat(65);
        for name in ["", &long, "a/b", "a@b", ".", "..", "a\nb", "\u{1b}[2J", "a b", "-a"] {
            let why = pools.rename("tank", name).await.expect_err(name);
            assert!(matches!(why, HostError::Pool(PoolChangeError::Name(_))), "{name:?}: {why}");
        }
        let why = pools.rename("tank", "tank").await.expect_err("the same");
        assert!(matches!(why, HostError::Pool(PoolChangeError::SameName(_))), "{why}");
        let why = pools.rename("tank", "pond").await.expect_err("it is another's");
        assert!(matches!(why, HostError::NameTaken(_)), "{why}");
        let why = pools.rename("lake", "sea").await.expect_err("there is none");
        assert!(matches!(why, HostError::NoSuchContent { .. }), "{why}");
        assert_eq!(pools.names(), ["tank", "pond"]);
        assert!(pools.exports().iter().eq(["tank/one"]));
    });
}

#[test]
fn changes_side_by_side_are_each_done_whole_or_refused() {
    let pools = Pools::new();
    pools.io.block_on(async {
        pools.volume("tank", "one").await.expect("a volume");
        let done = RefCell::new(Vec::new());
        let note = async |what: &'static str, ask: Ask| {
            let outcome = pools.ask(ask).await;
            done.borrow_mut().push((what, outcome.map(drop)));
        };
        let rename = |pool: &str, to: &str| Ask::PoolRename { pool: pool.into(), to: to.into() };
        let create = |name: &str| Ask::VolumeCreate { pool: "tank".into(), name: name.into(), size: 1 << 20 };
        let asked: Vec<std::pin::Pin<Box<dyn Future<Output = ()>>>> = vec![
            Box::pin(note("first", rename("tank", "lake"))),
            Box::pin(note("behind", create("behind"))),
            Box::pin(note("second", rename("tank", "sea"))),
            Box::pin(note("other", rename("pond", "lake"))),
        ];
        join_all(asked).await;
        let done = done.into_inner();
        let outcome = |what: &str| &done.iter().find(|(of, _)| *of == what).expect("it has ended").1;
        assert!(outcome("first").is_ok(), "{done:?}");
        // The pool that they name is called otherwise by then.
        for what in ["behind", "second"] {
            assert!(matches!(outcome(what), Err(HostError::NoSuchContent { .. })), "{done:?}");
        }
        // One of two pools gets a name that both are to have.
        assert_eq!(pools.names().iter().filter(|name| *name == "lake").count(), 1, "{done:?}");
        assert!(matches!(outcome("other"), Err(HostError::NameTaken(_))), "{done:?}");
        assert!(pools.exports().iter().eq(["lake/one"]), "{:?}", pools.exports());
    });
}

#[test]
fn the_answer_tells_what_calls_a_pool_by_the_name_that_it_had() {
    let pools = Pools::new();
    pools.service.on_renamed(Box::new(|renamed| vec![format!("a file has lines for {}", renamed.from)]));
    let outcome = pools.io.block_on(pools.rename("tank", "lake")).expect("renamed");
    let RequestOutcome::Pool(status) = outcome else { panic!("{outcome:?}") };
    assert_eq!(
        (status.name.as_str(), status.still_called),
        ("lake", vec!["a file has lines for tank".to_owned()])
    );
}

#[test]
fn it_is_told_also_when_the_answer_has_gone() {
    let pools = Pools::new();
    let told = Rc::new(RefCell::new(Vec::new()));
    let noted = Rc::clone(&told);
    pools.service.on_renamed(Box::new(move |renamed| {
        noted.borrow_mut().push((renamed.from.to_owned(), renamed.to.to_owned()));
        Vec::new()
    }));
    pools.io.block_on(async {
        // Nobody waits for the first one: it has begun, and comes to its end.
        let mut first = Box::pin(pools.rename("tank", "lake"));
        let begun = std::future::poll_fn(|cx| std::task::Poll::Ready(first.as_mut().poll(cx).is_pending()));
        assert!(begun.await);
        drop(first);
        // The second one was asked for by the UUID, beside it.
        let uuid = pools.service.contents()[0].uuid();
        pools.rename(&uuid, "sea").await.expect("renamed");
    });
    let expected = [("tank", "lake"), ("lake", "sea")].map(|(from, to)| (from.to_owned(), to.to_owned()));
    assert_eq!(*told.borrow(), expected);
}

#[test]
fn a_change_whose_clients_do_not_leave_is_refused_and_their_exports_stay() {
    let pools = Pools::new();
    pools.io.block_on(async {
        for name in ["one", "two"] {
            pools.volume("tank", name).await.expect("a volume");
        }
        pools.stuck.hangs.set(true);
        let (pool, one) = (|| "tank".to_owned(), || "one".to_owned());
        let before = pools.offered();
        for ask in [
            Ask::PoolRename { pool: pool(), to: "lake".into() },
            Ask::VolumeRename { pool: pool(), name: one(), to: "three".into() },
            Ask::VolumeDestroy { pool: pool(), name: one(), force: true },
        ] {
            let why = pools.ask(ask).await.expect_err("requests have not ended");
            assert!(matches!(why, HostError::RequestsStay(_)), "{why}");
            assert_eq!((pools.offered(), pools.names()[0].as_str()), (before.clone(), "tank"));
        }
        // A change that was refused does not begin later.
        let (first, second) = (pools.rename("tank", "lake"), pools.volume("tank", "three"));
        let (first, second) = both(first, second).await;
        assert!(matches!(first, Err(HostError::RequestsStay(_))), "{first:?}");
        assert!(matches!(second, Err(HostError::Changing(_))), "{second:?}");
        pools.io.sleep(Duration::from_secs(60)).await;
        assert_eq!(pools.offered(), before);
        pools.stuck.hangs.set(false);
        pools.rename("tank", "lake").await.expect("they have ended");
        assert!(pools.offered().iter().eq(["lake/one", "lake/two"]));
    });
}

#[test]
fn a_stop_beside_a_change_leaves_no_export() {
    let create = || Ask::VolumeCreate { pool: "tank".into(), name: "two".into(), size: 1 << 20 };
    let rename = || Ask::PoolRename { pool: "tank".into(), to: "lake".into() };
    let destroy = || Ask::VolumeDestroy { pool: "tank".into(), name: "one".into(), force: true };
    for delay in [0, 5, 20, 50, 100, 200, 400, 1_000] {
        for ask in [create(), rename(), destroy()] {
            let pools = Pools::new();
            let told = format!("{ask:?} and a stop {delay} us behind");
            pools.io.block_on(async {
                pools.volume("tank", "one").await.expect("a volume");
                let content = Rc::clone(&pools.service.contents()[0]);
                let stop = async {
                    pools.io.sleep(Duration::from_micros(delay)).await;
                    pools.service.stop_one(&content, Duration::from_secs(30)).await
                };
                let (changed, stopped) = both(pools.ask(ask), stop).await;
                assert!(stopped.is_ok(), "{told}: {stopped:?}");
                pools.io.sleep(Duration::from_secs(1)).await;
                assert!(pools.offered().is_empty(), "{told}: {:?}, {changed:?}", pools.exports());
            });
            assert_eq!(pools.names(), ["pond"], "{told}");
            let why = pools.io.block_on(pools.volume("tank", "three")).expect_err("it is gone");
            assert!(matches!(why, HostError::NoSuchContent { .. }), "{told}: {why}");
        }
    }
}

#[test]
fn pools_of_a_host_share_the_memory_for_their_maps_and_get_it_back() {
    let pools = Pools::new();
    let limits = || {
        let pools = brindle_host::all_of::<ServedPool>(&*pools.service);
        pools.iter().map(|pool| pool.pool().status().map.limit).collect::<Vec<_>>()
    };
    assert_eq!(limits(), [64 << 20; 2]);
    pools.io.block_on(async {
        let pond = pools.service.content("pond").expect("it is served");
        pools.service.stop_one(&pond, Duration::from_secs(9)).await.expect("it stops");
    });
    assert_eq!(limits(), [128 << 20]);
}
