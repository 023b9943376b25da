//! `brindle serve`: serves arrays over NBD until an order to stop.

mod access;
mod announce;
mod checked;
mod copied_members;
mod detached;
mod doors;
mod groups;
mod iscsi;
mod joining;
mod kinds;
mod metrics;
mod notify;
mod places;
mod reload;
mod reservation_files;
mod takeover;
mod tls;

use std::cell::RefCell;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use brindle_array::Recovery;
use brindle_format::md::display_uuid;
use brindle_host::control::{self, Control, Ended};
use brindle_host::mailbox::{self, Sender};
use brindle_host::opening::{Config, MetricsConfig, Opening, Permission};
use brindle_host::{Configured, ControlHandler, Host as _, Message, Order, Reload, Service, Snapshot};
use brindle_io::device::DeviceAccess;
use brindle_io::sync::{Either, race};
use brindle_io::uring::{self, ListenError, SocketFile, SocketRights};

use crate::base::failure::Failure;
use crate::base::{log, runtime};
use crate::devices::host::{Host, Wanted};
use crate::devices::pools::{self, Opened};
use crate::devices::ring::Ring;
use crate::devices::unserved::Unserved;
use crate::devices::world::{self, Through, World};
use crate::flags::cli::Serve;
use crate::server::descriptors::Room;
use crate::server::settings::{RunningSettings, Settings, Sought, Taken};
use crate::server::shutdown::{self, LastResort, Shutdown, Socket};
use access::{AccessFile, Gates, Proofs};
use announce::{announce, listener};
pub(crate) use checked::{Checked, check};
use detached::Detached;
use doors::Entrances;
use joining::Intake;
pub(crate) use joining::Joins;
pub(crate) use kinds::{Gathering, gather};
use kinds::{md, pool};
pub(crate) use notify::starts_within;
use places::ListenPlace;
use reload::{Admission, Anew};
use takeover::{AskedToHandOver, Predecessor, hand_over};
pub(crate) use takeover::{Inherited, IsMeant, inherit};
use tls::Certificates;

pub(crate) fn serve(args: &Serve) -> Result<ExitCode, Failure> {
    if args.background && !detached::is_waited_for() {
        return detached::start();
    }
    world::assume(args.assuming.assume.as_ref());
    let served = serve_here(ServeJob {
        opening: args.into(),
        find: None,
        takes_over: None,
        metrics: (&args.metrics).into(),
        search: if args.read_only { Through::of(args.search) } else { Through::Never },
        folder: args.runtime.folder(),
        background: args.background,
        json: args.json,
        settings: None,
    });
    served.map(|()| ExitCode::SUCCESS)
}

/// All that a server is told before it runs.
pub(crate) struct ServeJob<'a> {
    pub(crate) opening: Opening,
    /// Finds the members, if `opening` does not tell them.
    pub(crate) find: Option<FindMembers<'a>>,
    /// A daemon that runs is to end, and leave its listening sockets to this one, which goes on with all that it served and this means.
    pub(crate) takes_over: Option<IsMeant<'a>>,
    pub(crate) metrics: MetricsConfig,
    /// Whether devices that are no members are looked through for members that end before they do.
    pub(crate) search: Through,
    /// The runtime folder, if one was said.
    pub(crate) folder: Option<&'a Path>,
    /// Another process waits until it serves.
    pub(crate) background: bool,
    /// Events are printed as JSON.
    pub(crate) json: bool,
    /// The file of settings that it was started with, and the way by which it takes more arrays.
    pub(crate) settings: Option<(Settings, TakeMore)>,
}

/// Devices that were found for a server.
pub(crate) struct Gathered {
    /// Members of all that is to be served.
    pub(crate) members: Vec<PathBuf>,
    /// Files with write-intent bitmaps of some of it.
    pub(crate) bitmaps: Vec<PathBuf>,
    /// All that the settings mean, also what can't be served.
    pub(crate) configured: Vec<Configured>,
}

/// Finds members, and is told whether this server goes on in the place of one that has ended just now, and its room for descriptors.
pub(crate) type FindMembers<'a> = &'a dyn Fn(bool, Room) -> Result<Gathered, Failure>;

/// Finds arrays and pools for a server that runs: by its settings, with its runtime folder.
pub(crate) type TakeMore = fn(&Joins, &Config, &Path, Sought<'_>) -> Taken;

/// Serves in this process.
pub(crate) fn serve_here(job: ServeJob<'_>) -> Result<(), Failure> {
    let hung_up = reload::hear()?;
    let room = Room::take();
    let metrics = metrics::ScrapePlan::find(&job.metrics)?;
    let mut opening = with_patience(job.opening);
    let exports = &opening.exports;
    let certificates = exports.tls.as_ref().map(Certificates::read).transpose()?;
    let places = places::find(exports, certificates.as_ref())?;
    let plan =
        exports.iscsi.as_ref().map(|iscsi| iscsi::IscsiPlan::find(iscsi, exports.insecure)).transpose()?;
    let rights = checked::rights(&exports.unix_rights)?;
    world::check_budget(opening.tuning.memory)?;
    // All that can be known to be wrong before the other ends has been found.
    let predecessor = match opening.name.as_ref().zip(job.takes_over) {
        Some((name, is_meant)) => {
            Predecessor::take_over(&runtime::make_folder(job.folder)?, name)?.map(|old| (old, is_meant))
        }
        None => None,
    };
    let took_over = predecessor.is_some();
    let (mut unserved, mut configured) = (Unserved::ends(), Vec::new());
    if let Some(find) = job.find {
        uring::track_listeners();
        let found = find(predecessor.is_some(), room)?;
        (opening.members, opening.bitmaps, configured) = (found.members, found.bitmaps, found.configured);
        unserved = Unserved::is_left();
    } else if let Some(why) = room.lacks(opening.members.len(), opening.members.len()) {
        return Err(Failure::Refused(why));
    }
    let unserved = &unserved;
    let (opening, exports) = (&opening, &opening.exports);
    let how = world::WorldOptions {
        access: DeviceAccess::Examine,
        force: opening.force,
        cut: false,
        search: job.search,
        tuning: opening.tuning,
        recovery: Recovery::Automatic,
    };
    let mut sorted = pools::sort(&opening.members, &opening.tuning);
    sorted.give_lost_devices();
    let pools::Sorted { pools, others: members, silent } = sorted;
    // Looked at in a world of its own, in which nothing is locked, and which is gone before the arrays run.
    let find = |how: world::WorldOptions| {
        let mut look = World::new(how)?;
        look.silent.replace(silent.clone());
        let is_empty = members.is_empty() && (job.find.is_some() || !pools.is_empty());
        let found = match is_empty {
            true => Vec::new(),
            false => Host::find(&mut look, &members, &opening.bitmaps, opening.force, unserved)?,
        };
        Ok::<_, Failure>((how, look, found))
    };
    let (how, look, found) = match find(how) {
        // Members that were cut are better than nothing.
        Err(why) if opening.force && opening.access == Permission::ReadOnly => {
            find(how.with_cut()).map_err(|_| why)?
        }
        found => found?,
    };
    let wanted = md::wanted(opening, found, unserved)?;
    let pool_names = pool::names(&pools);
    refuse_pools(&wanted, &pool_names)?;
    let names: Vec<&str> =
        wanted.iter().map(|wanted| &*wanted.name).chain(pool_names.iter().map(String::as_str)).collect();
    // More may come to a daemon.
    let only = job.settings.is_none().then(|| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
    let chap = plan.as_ref().and_then(|plan| plan.chap.as_ref());
    let proofs = Proofs {
        secrets: chap.is_some(),
        authorities: certificates.as_ref().is_some_and(|certificates| certificates.gives().proof),
    };
    let access = exports.access.as_deref().map(|file| AccessFile::read(file, only.as_deref(), proofs));
    let access = access.transpose()?;
    let strangers =
        access.iter().zip(chap).flat_map(|(access, chap)| access.strangers(chap)).collect::<Vec<_>>();
    let remarks = access.iter().flat_map(|access| access.remarks(&names));
    remarks.chain(strangers).for_each(|remark| eprintln!("brindle: {remark}"));
    let spare_groups = &opening.policies.spare_groups;
    groups::check(spare_groups, &names, only.is_none())?;
    if only.is_some() {
        groups::lone(spare_groups, &names).iter().for_each(|lone| eprintln!("brindle: {lone}"));
    }
    let name = opening.name.clone().unwrap_or_else(|| names[0].to_owned());
    runtime::check_name(&name)?;
    let folder = runtime::make_folder(job.folder)?;
    let detached = job.background.then(|| Detached::begin(&folder, &name)).transpose()?;
    let host = Host::claim(&look, wanted, how, (unserved, configured.len()))?;
    drop(look);
    copied_members::refuse(&folder, &host, unserved)?;
    let (listener, control_file) = listen(&folder, &name)?;
    let scraped = metrics.listen()?;
    let bearer = metrics.bearer.clone();
    let ways = Ways { places, rights, plan, access, only, proofs, certificates, bearer, json: job.json };
    let meant = (configured, unserved);
    let (served, mut anew, mut sockets, joins) =
        start((opening, predecessor), host, (&pools, meant), name, &folder, ways)?;
    let Served { service, world } = &served;
    sockets.push(Socket::new(&runtime::control_socket(&folder, service.name())));
    let locks = Arc::clone(&world.locks);
    sockets.extend(scraped.sockets());
    let is_daemon = job.settings.is_some();
    anew.settings = job.settings.map(|(settings, take)| {
        let (own, within) = (folder.clone(), joins.clone());
        let folder = own.clone();
        let more = move |config: &Config, sought: Sought<'_>| take(&within, config, &folder, sought);
        settings.of(&own, service.name(), opening, Box::new(more))
    });
    let anew = Arc::new(anew);
    let asked = AskedToHandOver::default();
    let flags = checked::as_of_daemon(opening, &job.metrics);
    let (ended, control, snapshot) =
        answer_others((opening, flags), &served, listener, sockets, &anew, (&asked, is_daemon))?;
    anew.watch(hung_up)?;
    if service.contents().iter().any(|content| content.waits()) {
        anew.look_for_members();
    }
    let scrapes = scraped.addresses.clone();
    metrics.serve(scraped.listeners, service.name(), &snapshot)?;
    announce((job.folder, job.json), service, &scrapes, detached.as_ref())?;
    // Mounts wait for the devices that the settings ask for. A daemon that ended just now has left its devices.
    let makes_devices = !took_over && opening.volumes.iter().any(|volume| volume.attach);
    settle(is_daemon, !makes_devices);
    detached.map_or(Ok(()), Detached::serves)?;
    let outcome = world.io.block_on(run(service, world, &ended, (opening, makes_devices)));
    let successor = asked.get();
    if successor.is_none() {
        notify::stopping();
    }
    ended.closing();
    service.tell_the_end();
    drop(served);
    let stuck = locks.unlock();
    if !stuck.is_empty() {
        tracing::warn!(
            "{} can't be closed: a thread that the kernel holds there may outlive the process",
            stuck.join(", ")
        );
    }
    if outcome.is_err() && successor.is_some() {
        // It is refused.
        uring::let_listeners_go();
    }
    // Clients that wait for the end find all of it in the log.
    log::flush();
    // Last: who waits for the socket to go, waits for the members to be free.
    drop(control_file);
    match (&outcome, successor) {
        (Ok(()), Some(successor)) => {
            ended.over();
            control.hand_over(Ended::Well);
            let held = !stuck.is_empty() || !snapshot.unanswered().is_empty();
            let text = anew.settings.as_ref().map(RunningSettings::text).unwrap_or_default();
            return hand_over(&successor, &text, &ended, held);
        }
        (Ok(()), None) if uring::keeps_listeners() => control.hand_over(Ended::Well),
        (Ok(()), None) => control.end(Ended::Well),
        (Err(failure), _) => control.end(Ended::Badly { why: failure.to_string() }),
    }
    outcome
}

/// Closes listeners of an earlier server that this one does not use, and tells a service manager that the exports answer, if no device
/// is still to be made (`is_ready`). The manager keeps the listeners of a daemon.
fn settle(is_daemon: bool, is_ready: bool) {
    uring::keep_listeners(false);
    let closed = uring::close_unclaimed();
    if is_ready {
        notify::ready();
    }
    if is_daemon {
        match uring::listeners() {
            Ok(listeners) => notify::store(&listeners, &closed),
            Err(error) => tracing::warn!("listening sockets can't be stored: {error}"),
        }
    }
}

/// Names and protocols that can't be with pools are refused before anything is opened.
fn refuse_pools(wanted: &[Wanted], pools: &[String]) -> Result<(), Failure> {
    if let Some(name) = pools.iter().find(|name| wanted.iter().any(|wanted| wanted.name == **name)) {
        return Err(Failure::Refused(format!(
            "an array and a pool are called '{name}': serve each by itself"
        )));
    }
    Ok(())
}

/// Ends the world in which arrays are served: tasks in it hold the service, and so the world itself.
struct Served {
    service: Rc<Service>,
    world: Rc<World>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.world.end();
    }
}

/// Starts the threads that answer, stop the server, and end it if it hangs.
fn answer_others(
    (opening, flags): (&Opening, Config),
    served: &Served,
    listener: UnixListener,
    sockets: Vec<Socket>,
    anew: &Arc<Anew>,
    (asked, is_daemon): (&AskedToHandOver, bool),
) -> Result<(Arc<Shutdown>, Arc<Control>, Snapshot), Failure> {
    let Served { service, world } = served;
    let (arrays, messages): (Sender<Message>, _) = mailbox::mailbox(&world.io);
    drop(world.io.spawn(Rc::clone(service).listen(messages)));
    let patience = Duration::from_millis(opening.stop_timeout_ms);
    let ended = Shutdown::new(patience, {
        let arrays = arrays.clone();
        move |order| arrays.send(Message::Order(order))
    });
    let name = service.name().to_owned();
    let snapshot = service.publish_to_others();
    let end = {
        let ended = Arc::clone(&ended);
        move || ended.begin()
    };
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let reading = Arc::clone(anew);
    let reload: Reload = Arc::new(move |only| {
        let done = only.map_or_else(|| reading.read(), |only| reading.take(only));
        reading.look_for_members();
        done
    });
    let handler = ControlHandler {
        name: name.clone(),
        version,
        arrays,
        snapshot: snapshot.clone(),
        end,
        takeover: asked.answers(is_daemon, Arc::clone(&ended)),
        reload,
        settings: checked::in_force(flags, anew),
        patience,
    };
    let control = control::listen(listener, handler)
        .map_err(|source| Failure::system("the control thread can't start", source))?;
    let control = Arc::new(control);
    let locks = Arc::clone(&world.locks);
    let last = LastResort { name, locks, sockets, control: Arc::clone(&control), snapshot: snapshot.clone() };
    shutdown::watch(Arc::clone(&ended), last)?;
    // A manager that has the sockets starts the server anew, and clients wait for that.
    let keep = || {
        if notify::stores() {
            uring::keep_listeners(true);
        }
    };
    shutdown::watch_signals(Arc::clone(&ended), keep)?;
    Ok((ended, control, snapshot))
}

/// The control socket, and its name in the file system.
fn listen(folder: &Path, name: &str) -> Result<(UnixListener, SocketFile), Failure> {
    let _held = runtime::hold(folder);
    uring::listen_unix(&runtime::control_socket(folder, name), uring::OWNER_ONLY).map_err(|error| match error
    {
        ListenError::InUse(path) => Failure::Refused(format!(
            "a server named '{name}' runs already ({}): stop it, or choose another --name",
            path.display()
        )),
        other => other.into(),
    })
}

/// An initiator's patience, in milliseconds: VMware gives up a path whose commands take 5 to 8 seconds.
const INITIATORS_BEAR: u64 = 4_000;

/// Returns `opening` with iSCSI's patience: with an iSCSI portal members that don't answer are failed sooner, unless
/// it is said when.
fn with_patience(mut opening: Opening) -> Opening {
    let answer = &mut opening.tuning.patience.answer_ms;
    match *answer {
        _ if opening.exports.iscsi.is_none() => {}
        None => *answer = Some(INITIATORS_BEAR),
        Some(said) if said > INITIATORS_BEAR => eprintln!(
            "brindle: while a member does not answer (--member-timeout), commands of initiators may take longer than VMware bears, \
             which is 5 to 8 seconds"
        ),
        Some(_) => {}
    }
    opening
}

/// The ways by which clients come, checked before anything runs.
struct Ways {
    places: Vec<ListenPlace>,
    /// Rights of the Unix sockets among these places.
    rights: SocketRights,
    plan: Option<iscsi::IscsiPlan>,
    access: Option<AccessFile>,
    /// All that can ever be served, if that is known.
    only: Option<Vec<String>>,
    proofs: Proofs,
    certificates: Option<Certificates>,
    bearer: Option<metrics::BearerFile>,
    /// Events are printed.
    json: bool,
}

/// All that the settings mean, and what of it can't be served.
type Meant<'a> = (Vec<Configured>, &'a Unserved);

/// The server of the arrays, and the names of its sockets in the file system.
fn start(
    (opening, predecessor): (&Opening, Option<(Predecessor, IsMeant<'_>)>),
    host: Host,
    (pools, (configured, unserved)): (&[Vec<PathBuf>], Meant<'_>),
    name: String,
    folder: &Path,
    ways: Ways,
) -> Result<(Served, Anew, Vec<Socket>, Joins), Failure> {
    let Ways { mut places, rights, plan, access, only, proofs, certificates, bearer, json } = ways;
    let exports = &opening.exports;
    let io = &host.world.io;
    // Opening a pool writes to it: an address that is in use is found before. Clients are answered when all exports are there.
    if places.is_empty() {
        places.push(ListenPlace::Unix(runtime::nbd_socket(folder, &name)));
    }
    let listening = Entrances::begin(&host.world.uring, &places, (rights, certificates.is_some()), plan)?;
    let unix = places.iter().filter_map(|place| match place {
        ListenPlace::Unix(path) => Some(Socket::new(path)),
        ListenPlace::Tcp(_) => None,
    });
    let sockets: Vec<Socket> = unix.collect();
    let opened =
        open_pools((opening, predecessor), &host, pools, (&configured, unserved)).inspect_err(|_| {
            // Listeners of a daemon that serves on stay as they were.
            if !uring::keeps_listeners() {
                sockets.iter().for_each(Socket::remove);
            }
        })?;
    let access = access.map(|access| Rc::new(RefCell::new(access)));
    let is_shared = listening.has_shared_writers();
    let gates = Gates { io: io.clone(), access: access.clone(), is_shared };
    let doors = listening.open(io, opening.tuning.for_requests(), exports.max_connections);
    let (arrays, io) = (host.arrays(), io.clone());
    let is_named = opening.own_names || arrays.len() + pools.len() > 1;
    let world = Rc::new(host.into_world());
    let listener = listener(json);
    let service =
        Service::new(&io, name, Rc::new(Ring(Rc::clone(&world))), doors.doors.clone(), Rc::clone(&listener));
    let intake = Intake { service: Rc::clone(&service), world: Rc::clone(&world), gates, listener, is_named };
    let arrays = arrays.iter().map(|hosted| md::content(hosted, &intake, opening));
    let pools = opened.into_iter().map(|opened| pool::content(opened, &intake, opening));
    for content in arrays.chain(pools) {
        if let Err(why) = service.take_in(&content) {
            io.block_on(service.refuse(&content));
            let why = intake.close(&content.devices(&*service), Failure::Refused(why.to_string()));
            unserved.leave(content.name(), &content.uuid(), why)?;
        }
    }
    let (to, files) = mailbox::mailbox(&io);
    drop(io.spawn(access::admit(files, access, Rc::clone(&service), doors.initiators())));
    let secrets = exports.iscsi.as_ref().and_then(|iscsi| iscsi.secrets.clone());
    let access = exports.access.clone();
    let reading = Mutex::default();
    let admission = Admission { certificates, access, only, proofs, secrets, bearer, to, reading };
    let anew = Anew { admission, settings: None, looks: AtomicBool::new(false), json };
    doors.answer(anew.admission.certificates.as_ref());
    let (to, asked) = mailbox::mailbox(&io);
    // Whatever comes later has a name of its own.
    drop(io.spawn(joining::take_in(asked, Intake { is_named: true, ..intake })));
    let joins = joining::configured(&service, to, configured, unserved);
    Ok((Served { service, world }, anew, sockets, joins))
}

/// Opens pools, which writes to them: not before a daemon in whose place this one goes on has heard that all else is ready.
fn open_pools(
    (opening, predecessor): (&Opening, Option<(Predecessor, IsMeant<'_>)>),
    host: &Host,
    pools: &[Vec<PathBuf>],
    (configured, unserved): (&[Configured], &Unserved),
) -> Result<Vec<Opened>, Failure> {
    let Some((predecessor, is_meant)) = predecessor else {
        return pool::open(opening, &host.world, pools, unserved);
    };
    let pools = pool::try_open(opening, &host.world, pools, unserved)?;
    let arrays = host.arrays();
    let arrays = arrays.iter().map(|hosted| display_uuid(hosted.found.assembly.uuid).to_string());
    let taken: Vec<String> = arrays.chain(pools.iter().map(|members| pool::called(members).1)).collect();
    let is_taken = |uuid: &str| taken.iter().any(|own| own == uuid);
    predecessor.leaves_nothing(is_taken, is_meant, (configured, unserved))?;
    predecessor.ready()?;
    pool::open(opening, &host.world, &pools, unserved)
}

/// Serves until an order to stop, or until each array was stopped; then drains, flushes and marks clean. `tells_of_devices`: a service
/// manager hears that the server is ready once its devices are made.
async fn run(
    service: &Rc<Service>,
    world: &World,
    ended: &Shutdown,
    (opening, tells_of_devices): (&Opening, bool),
) -> Result<(), Failure> {
    service.begin();
    drop(world.io.spawn(Rc::clone(service).attach_again()));
    let volumes = opening.volumes.clone();
    let attached =
        move |name: &str, uuid: &str| volumes.iter().any(|one| one.attach && one.means(name, uuid));
    let made = world.io.spawn(Rc::clone(service).attach_wanted(attached));
    if tells_of_devices {
        drop(world.io.spawn(notify::ready_behind(made, world.io.clone())));
    }
    brindle_host::share_spares(service.clone());
    if opening.policies.re_add {
        world.io.spawn(brindle_host::take_again(service.clone()));
    }
    if opening.policies.re_add_returned {
        let host: Rc<dyn brindle_host::Host> = service.clone();
        brindle_host::take_those_that_return(&host);
    }
    if let Some(every) = notify::watchdog() {
        let (io, every) = (world.io.clone(), brindle_io::Duration::from_micros(every.as_micros() as u64));
        drop(world.io.spawn(async move {
            loop {
                notify::works();
                io.sleep(every).await;
            }
        }));
    }
    if let Either::Second(()) = race(service.ordered(Order::Stop), service.emptied()).await {
        ended.begin();
    }
    let stopped = race(service.stop_all(), service.ordered(Order::GiveUp)).await;
    service.tell_the_last_events();
    match stopped {
        Either::First(stopped) => stopped.map_err(|why| Failure::Refused(why.to_string())),
        Either::Second(()) => Err(Failure::Refused(service.not_stopped().to_string())),
    }
}
