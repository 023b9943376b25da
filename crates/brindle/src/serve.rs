//! `brindle serve`: an array over NBD, until told to stop.

mod places;
mod twins;

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use brindle_array::{Array, ProcessError};
use brindle_export::nbd;
use brindle_io::Io;
use brindle_io::device::Access;
use brindle_io::sync::{Either, race};
use brindle_io::uring::{self, ListenError, SocketFile};
use brindle_volume::{Volume, VolumeError};
use serde_json::json;

use crate::cli::Serve;
use crate::control::{self, Control, Ended};
use crate::desk::{self, Desk};
use crate::ending::{self, Ending, LastResort, Order, Socket};
use crate::failure::Failure;
use crate::host::{Found, Host};
use crate::service::Service;
use crate::units::Bytes;
use crate::world::{self, Opening, World};
use crate::{log, report, runtime};
use places::Place;

pub(crate) fn serve(args: &Serve) -> Result<(), Failure> {
    let places =
        args.nbd.iter().map(|listen| Place::find(listen, args.insecure)).collect::<Result<_, _>>()?;
    world::check_budget(args.tuning.memory)?;
    let opening =
        Opening { access: Access::Examine, force: args.force, tuning: args.tuning, on_full: args.on_full };
    // Looked at in a world of its own, in which nothing is locked, and which is gone before the array runs.
    let mut look = World::new(opening)?;
    let found = find(&mut look, args)?;
    let access = access(args, &found)?;
    let name = args.name.clone().unwrap_or_else(|| found.own_name());
    runtime::check_name(&name)?;
    let folder = runtime::make_folder(&args.runtime)?;
    twins::refuse(&folder, found.assembly.uuid, access == Access::Write)?;
    let host = Host::claim(&look, vec![(name, found, access)], opening)?;
    drop(look);
    let name = host.only().name.clone();
    let (listener, control_file) = listen(&folder, &name)?;
    let (service, mut sockets) = start(args, &host, name, &folder, places)?;
    desk::set_service(Some(&service));
    sockets.push(Socket::new(&runtime::control_socket(&folder, &service.name)));
    let locks = Arc::clone(&host.world.locks);
    let (ending, control) = answer_others(args, &host, &service, listener, sockets)?;
    announce(args, &service)?;
    let outcome = host.world.io.block_on(run(&host, &service));
    ending.closing();
    desk::set_service(None);
    if outcome.is_ok() && !args.json {
        log::print(format!("{}: {}\n", service.name, service.last_words()));
    }
    drop((service, host));
    let stuck = locks.unlock();
    if !stuck.is_empty() {
        tracing::warn!(
            "{} can't be closed: a thread that the kernel holds there may outlive the process",
            stuck.join(", ")
        );
    }
    // Last: who waits for the socket to go, waits for the members to be free.
    drop(control_file);
    control.end(match &outcome {
        Ok(()) => Ended::Well,
        Err(failure) => Ended::Badly { why: failure.to_string() },
    });
    outcome
}

/// Starts the threads that answer, stop, and end what hangs.
fn answer_others(
    args: &Serve,
    host: &Host,
    service: &Rc<Service>,
    listener: UnixListener,
    sockets: Vec<Socket>,
) -> Result<(Arc<Ending>, Arc<Control>), Failure> {
    let io = &host.world.io;
    let remote = io.remote();
    let ending = Ending::new(Duration::from_millis(args.stop_timeout.0), {
        let remote = remote.clone();
        move |order| remote.run(move |_| desk::with_service(|service| service.take(order)))
    });
    let name = service.name.clone();
    let snapshot = service.publish_to_others(io);
    let desk = Desk { name: name.clone(), remote, snapshot: snapshot.clone(), ending: Arc::clone(&ending) };
    let control = control::listen(listener, desk)
        .map_err(|source| Failure::system("the control thread can't start", source))?;
    let control = Arc::new(control);
    let locks = Arc::clone(&host.world.locks);
    let last = LastResort { name, locks, sockets, control: Arc::clone(&control), snapshot };
    ending::watch(Arc::clone(&ending), last)?;
    ending::watch_signals(Arc::clone(&ending))?;
    Ok((ending, control))
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

/// Finds the array that the members form.
fn find(look: &mut World, args: &Serve) -> Result<Found, Failure> {
    let mut set = look.open_all(&args.members)?;
    let assembly = look.assemble(&mut set, args.force)?;
    Ok(Found { assembly, set })
}

/// How to open the members: for writing, unless the user or the array's features forbid it.
fn access(args: &Serve, found: &Found) -> Result<Access, Failure> {
    if args.read_only {
        return Ok(Access::Read);
    }
    let reasons: Vec<String> =
        found.limits().filter(|limit| limit.forbids_writes()).map(ToString::to_string).collect();
    if reasons.is_empty() {
        return Ok(Access::Write);
    }
    if args.read_write {
        return Err(Failure::Refused(format!("the array can't be written to: {}", reasons.join("; "))));
    }
    eprintln!("brindle: serving read-only: {}", reasons.join("; "));
    Ok(Access::Read)
}

/// The array's server, and the names of its sockets in the file system.
fn start(
    args: &Serve,
    host: &Host,
    name: String,
    folder: &Path,
    mut places: Vec<Place>,
) -> Result<(Rc<Service>, Vec<Socket>), Failure> {
    let io = &host.world.io;
    let config = nbd::Config { memory: (args.tuning.memory.0 / 2) as usize, ..nbd::Config::default() };
    let server = nbd::Server::new(io, config);
    let running = host.only();
    let assembly = &running.assembly;
    let description = format!("{} of {} members", assembly.level().name(), assembly.roles.len());
    server
        .add_export(&name, &description, Rc::new(running.array.clone()))
        .map_err(|error| Failure::Usage(error.to_string()))?;
    if places.is_empty() {
        places.push(Place::Unix(runtime::nbd_socket(folder, &name)));
    }
    let (mut addresses, mut sockets) = (Vec::new(), Vec::new());
    for place in &places {
        addresses.extend(place.listen(&host.world.uring, &server, args.socket_mode.0)?);
        if let Place::Unix(path) = place {
            sockets.push(Socket::new(path));
        }
    }
    let service = Service::new(host, server, name, addresses, args.json);
    Ok((Rc::new(service), sockets))
}

fn announce(args: &Serve, service: &Service) -> Result<(), Failure> {
    if args.json {
        return report::print(&format!(
            "{}\n",
            json!({"event": "serving", "name": service.name, "nbd": service.addresses, "pid": std::process::id()})
        ));
    }
    let state = if service.array.limits().read_only { ", read-only" } else { "" };
    let text: String =
        service.addresses.iter().map(|at| format!("{} serves on {at}{state}\n", service.name)).collect();
    report::print(&text)
}

/// Serves until told to stop; then drains, flushes and marks clean.
async fn run(host: &Host, service: &Rc<Service>) -> Result<(), Failure> {
    let running = host.only();
    for array in running.set.nested.iter().map(|nested| &nested.array).chain([&running.array]) {
        if array.needs_resync() && !array.limits().read_only {
            resync_behind(&host.world.io, array.clone());
        }
    }
    service.told(Order::Stop).await;
    let stop = async {
        service.server.stop().await;
        running.stop().await
    };
    let stopped = race(stop, service.told(Order::GiveUp)).await;
    service.tell_the_last_events();
    match stopped {
        Either::First(stopped) => stopped,
        Either::Second(()) => Err(Failure::Refused(ending::not_stopped(&service.name))),
    }
}

fn resync_behind(io: &Io, array: Array) {
    let resync = array.resync(|_| {});
    io.spawn(async move {
        match resync.await {
            Ok(report) => {
                if let Some(offset) = array.detail().resync_offset {
                    tracing::warn!(
                        "the resync has ended, but could not make {} redundant, first at byte {offset} of each \
                         member's data area: data there is lost or can't be read, until it is written anew",
                        Bytes(report.unverified)
                    );
                }
            }
            Err(ProcessError::Volume(VolumeError::Stopping)) => {}
            Err(error) => tracing::error!("the resync stopped: {error}"),
        }
    });
}
