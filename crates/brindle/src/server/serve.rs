//! `brindle serve`: serves arrays over NBD until an order to stop.

mod access;
mod announce;
mod checked;
mod copied_members;
mod detached;
mod groups;
mod iscsi;
mod joining;
mod metrics;
mod notify;
mod places;
mod pooled;
mod reload;
mod reservation_files;
mod takeover;
mod tls;
mod wanted;

use std::cell::RefCell;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use brindle_array::Recovery;
use brindle_export::nbd;
use brindle_format::md::display_uuid;
use brindle_host::control::{self, Control, Ended};
use brindle_host::mailbox::{self, Sender};
use brindle_host::opening::{Config, MetricsConfig, Opening, Permission};
use brindle_host::{
    Any, Configured, ControlHandler, Doors, Exported, Message, Order, Placed, Reload, Service, Snapshot,
};
use brindle_io::device::DeviceAccess;
use brindle_io::sync::{Either, race};
use brindle_io::uring::{self, ListenError, SocketFile, SocketRights};

use crate::base::failure::Failure;
use crate::base::{log, runtime};
use crate::devices::host::{Host, Wanted};
use crate::devices::pools;
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
use joining::Intake;
pub(crate) use joining::{Joining, JoiningArray, JoiningPool, Joins};
pub(crate) use notify::starts_within;
use places::{Address, ListenPlace};
use reload::{Admission, Anew};
use takeover::{AskedToHandOver, Predecessor, hand_over};
pub(crate) use takeover::{Inherited, inherit};
use tls::Certificates;
pub(crate) use wanted::access;
use wanted::wanted;

pub(crate) fn serve(args: &Serve) -> Result<ExitCode, Failure> {
    if args.background && !detached::is_waited_for() {
        return detached::start();
    }
    world::assume(args.assuming.assume.as_ref());
    let served = serve_here(ServeJob {
        opening: args.into(),
        find: None,
        takes_over: false,
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
    /// A daemon that runs is to end, and leave its listening sockets to this one.
    pub(crate) takes_over: bool,
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
    let predecessor = match opening.name.as_ref().filter(|_| job.takes_over) {
        Some(name) => Predecessor::take_over(&runtime::make_folder(job.folder)?, name)?,
        None => None,
    };
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
    let wanted = wanted(opening, found, unserved)?;
    let pool_names = pooled::names(&pools);
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
    let (served, mut anew, mut sockets, joins) = start(opening, host, (&pools, meant), name, &folder, ways)?;
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
    if service.pools().iter().any(|pool| pool.waits()) {
        anew.look_for_members();
    }
    let scrapes = scraped.addresses.clone();
    metrics.serve(scraped.listeners, service.name(), &snapshot)?;
    announce((job.folder, job.json), service, &scrapes, detached.as_ref())?;
    let took_over = predecessor.is_some();
    if let Some(predecessor) = predecessor {
        predecessor.ready()?;
    }
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
    opening: &Opening,
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
    let (mut listening, mut sockets) = (Vec::new(), Vec::new());
    for place in &places {
        listening.extend(place.listen(&host.world.uring, rights, certificates.is_some())?);
        if let ListenPlace::Unix(path) = place {
            sockets.push(Socket::new(path));
        }
    }
    let portals = plan.as_ref().map_or(Ok(Vec::new()), |plan| plan.listen(&host.world.uring))?;
    let opened = pooled::open(opening, &host.world, pools, unserved)
        .inspect_err(|_| sockets.iter().for_each(Socket::remove))?;
    // Each server has its share.
    let share = opening.tuning.for_requests() >> u32::from(plan.is_some());
    let config = nbd::Config {
        memory: share as usize,
        connections: exports.max_connections as usize,
        ..nbd::Config::default()
    };
    let server = nbd::Server::new(io, config);
    let arrays = host.arrays();
    let access = access.map(|access| Rc::new(RefCell::new(access)));
    let is_shared = plan.as_ref().is_some_and(|plan| plan.shared_writers);
    let ways_in = Gates { io: io.clone(), access: access.clone(), is_shared };
    let mut gates = Vec::new();
    for hosted in &arrays {
        let uuid = display_uuid(hosted.found.assembly.uuid).to_string();
        let gate = ways_in.of(opening, &hosted.name, &uuid);
        gates.push((Rc::clone(hosted), Rc::clone(&gate)));
        let assembly = &hosted.found.assembly;
        let description = format!("{} of {} members", assembly.level().name(), assembly.roles.len());
        server
            .add_guarded(&hosted.name, &description, Rc::new(Any::Array(hosted.array.clone())), gate)
            .map_err(|error| Failure::Usage(error.to_string()))?;
    }
    let addresses: Vec<Address> = listening.iter().map(|(_, address)| address.clone()).collect();
    let disks = plan.map(|plan| plan.start(io, &portals, config, &gates)).transpose()?;
    let volumes = disks.as_ref().map(|disks| disks.volumes(io));
    let several = opening.own_names || arrays.len() + pools.len() > 1;
    let listener = listener(json);
    let exported = gates.iter().map(|(hosted, gate)| {
        let export = several.then_some(&*hosted.name);
        let placed = Placed {
            addresses: addresses.iter().map(|address| address.uri(export)).collect(),
            targets: disks.as_ref().map(|disks| disks.uris(hosted)).unwrap_or_default(),
            server: several.then(|| name.clone()),
            group: groups::of(&opening.policies.spare_groups, &hosted.name).map(str::to_owned),
            folder: std::env::current_dir().ok(),
            gate: Rc::clone(gate),
        };
        Exported::new(io, hosted.given(), placed, &listener)
    });
    let (exported, io) = (exported.collect(), io.clone());
    let world = Rc::new(host.into_world());
    let devices = Rc::new(Ring(Rc::clone(&world)));
    let doors = Doors { nbd: server, iscsi: disks.map(|disks| disks.server) };
    let (nbd, iscsi) = (doors.nbd.clone(), doors.iscsi.clone());
    let (targets, initiators) = (volumes.zip(iscsi.clone()), iscsi.clone());
    let service = Service::new(&io, name, devices, doors, exported, Rc::clone(&listener));
    let (to, files) = mailbox::mailbox(&io);
    drop(io.spawn(access::admit(files, access, Rc::clone(&service), initiators)));
    let secrets = exports.iscsi.as_ref().and_then(|iscsi| iscsi.secrets.clone());
    let access = exports.access.clone();
    let reading = Mutex::default();
    let admission = Admission { certificates, access, only, proofs, secrets, bearer, to, reading };
    let anew = Anew { admission, settings: None, looks: AtomicBool::new(false), json };
    let intake = Intake {
        service: Rc::clone(&service),
        world: Rc::clone(&world),
        addresses: Rc::from(addresses),
        targets,
        gates: ways_in,
        listener,
    };
    // Where there are none nothing else gets a turn, either: its events come behind the first line.
    if !opened.is_empty() {
        io.block_on(async {
            for opened in opened {
                let (name, uuid) = (opened.pool.label().name.clone(), opened.pool.label().pool.to_string());
                if let Err(why) = intake.offer_pool(opening, opened).await {
                    unserved.leave(&name, &uuid, why)?;
                }
            }
            Ok::<_, Failure>(())
        })?;
    }
    places::serve(&nbd, listening, anew.admission.certificates.as_ref());
    if let Some(iscsi) = iscsi {
        iscsi::serve(&iscsi, portals);
    }
    let (to, asked) = mailbox::mailbox(&io);
    drop(io.spawn(joining::take_in(asked, intake)));
    let joins = joining::configured(&service, to, configured, unserved);
    Ok((Served { service, world }, anew, sockets, joins))
}

/// Serves until an order to stop, or until each array was stopped; then drains, flushes and marks clean. `tells_of_devices`: a service
/// manager hears that the server is ready once its devices are made.
async fn run(
    service: &Rc<Service>,
    world: &World,
    ended: &Shutdown,
    (opening, tells_of_devices): (&Opening, bool),
) -> Result<(), Failure> {
    for exported in service.arrays() {
        exported.resync();
    }
    drop(world.io.spawn(Rc::clone(service).attach_again()));
    let volumes = opening.volumes.clone();
    let attached =
        move |name: &str, uuid: &str| volumes.iter().any(|one| one.attach && one.means(name, uuid));
    let made = world.io.spawn(Rc::clone(service).attach_wanted(attached));
    if tells_of_devices {
        drop(world.io.spawn(notify::ready_behind(made, world.io.clone())));
    }
    service.share_spares();
    if opening.policies.re_add {
        world.io.spawn(Rc::clone(service).take_again());
    }
    if opening.policies.re_add_returned {
        service.take_those_that_return();
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
