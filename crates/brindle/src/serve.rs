//! `brindle serve`: an array over NBD, until told to stop.

use std::cell::RefCell;
use std::net::ToSocketAddrs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc;

use brindle_array::{Array, Volume, VolumeError};
use brindle_export::nbd;
use brindle_io::device::Access;
use brindle_io::uring::{self, ListenError, SocketFile};
use brindle_io::{Io, Remote};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::cli::{Listen, Serve};
use crate::control::{self, Answer, Request};
use crate::failure::Failure;
use crate::service::Service;
use crate::world::{self, Opening, Running, World};
use crate::{report, runtime};

thread_local! {
    /// Jobs from other threads carry no references: they find the service here.
    static SERVICE: RefCell<Option<Rc<Service>>> = const { RefCell::new(None) };
}

pub(crate) fn serve(args: &Serve) -> Result<(), Failure> {
    let access = access(args)?;
    let opening = Opening { access, force: args.force, tuning: args.tuning };
    let running = world::open(&args.members, opening)?;
    let name = name(args, &running);
    runtime::check_name(&name)?;
    let folder = runtime::make_folder(&args.runtime)?;
    let (listener, control) = listen(&folder, &name)?;
    let service = start(args, &running, name, &folder)?;
    SERVICE.with_borrow_mut(|place| *place = Some(Rc::clone(&service)));
    let remote = running.world.io.remote();
    watch_signals(remote.clone())?;
    control::listen(listener, move |request| hand_over(&remote, request))
        .map_err(|source| Failure::system("the control thread can't start", source))?;
    announce(args, &service)?;
    running.world.io.block_on(run(&running.world, &service))?;
    SERVICE.with_borrow_mut(Option::take);
    if !args.json {
        report::print(&format!("{}: {}\n", service.name, service.last_words()))?;
    }
    drop((service, running));
    // Last: who waits for the socket to go, waits for the members to be free.
    drop(control);
    Ok(())
}

/// The control socket, and its name in the file system.
fn listen(folder: &Path, name: &str) -> Result<(UnixListener, SocketFile), Failure> {
    uring::listen_unix(&runtime::control_socket(folder, name)).map_err(|error| match error {
        ListenError::InUse(path) => Failure::Refused(format!(
            "a server named '{name}' runs already ({}): stop it, or choose another --name",
            path.display()
        )),
        other => other.into(),
    })
}

/// How to open the members: for writing, unless the user or the array's features forbid it.
fn access(args: &Serve) -> Result<Access, Failure> {
    if args.read_only {
        return Ok(Access::Read);
    }
    let mut world = World::new(Opening { force: args.force, ..Opening::LOOK })?;
    let members = world.open_all(&args.members)?;
    let assembly = world.assemble(&members, args.force)?;
    let limits = world.nested_limits.iter().chain(&assembly.limits);
    let reasons: Vec<String> =
        limits.filter(|limit| limit.forbids_writes()).map(ToString::to_string).collect();
    if reasons.is_empty() {
        return Ok(Access::Write);
    }
    if args.read_write {
        return Err(Failure::Refused(format!("the array can't be written to: {}", reasons.join("; "))));
    }
    eprintln!("brindle: serving read-only: {}", reasons.join("; "));
    Ok(Access::Read)
}

/// The name of export and sockets: as given, or the array's own without its host if that can be one, or its UUID.
fn name(args: &Serve, running: &Running) -> String {
    let assembly = &running.assembly;
    let (_, own) = brindle_format::md::split_name(&assembly.name);
    match &args.name {
        Some(name) => name.clone(),
        None if runtime::is_name(own) => own.to_owned(),
        None => brindle_format::md::display_uuid(assembly.uuid).to_string().replace(':', "-"),
    }
}

fn start(args: &Serve, running: &Running, name: String, folder: &Path) -> Result<Rc<Service>, Failure> {
    let io = &running.world.io;
    let config = nbd::Config { memory: (args.tuning.memory.0 / 2) as usize, ..nbd::Config::default() };
    let server = nbd::Server::new(io, config);
    let assembly = &running.assembly;
    let description = format!("{} of {} members", assembly.level().name(), assembly.roles.len());
    server
        .add_export(&name, &description, Rc::new(running.array.clone()))
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let mut addresses = Vec::new();
    let default = [Listen::Unix(runtime::nbd_socket(folder, &name))];
    for listen in if args.nbd.is_empty() { &default[..] } else { &args.nbd } {
        addresses.push(bind(running, &server, listen)?);
    }
    Ok(Rc::new(Service::new(running, server, name, addresses)))
}

/// Listens, and tells the address as NBD clients write it.
fn bind(running: &Running, server: &nbd::Server<Array>, listen: &Listen) -> Result<String, Failure> {
    let uring = &running.world.uring;
    match listen {
        Listen::Unix(path) => {
            server.serve(uring.listen_unix(path)?);
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            Ok(format!("nbd+unix:///?socket={}", path.display()))
        }
        Listen::Tcp(text) => {
            let mut found = text
                .to_socket_addrs()
                .map_err(|source| Failure::system(format!("{text} can't be resolved"), source))?;
            let address = found.next().ok_or_else(|| Failure::Usage(format!("{text} names no address")))?;
            let socket = uring.listen_tcp(address)?;
            server.serve(socket);
            let address = uring.local_addr(socket).unwrap_or(address);
            Ok(format!("nbd://{address}"))
        }
    }
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
async fn run(world: &World, service: &Rc<Service>) -> Result<(), Failure> {
    for array in world.nested.iter().chain([&service.array]) {
        if array.needs_resync() && !array.limits().read_only {
            resync_behind(&world.io, array.clone());
        }
    }
    service.told_to_stop().await;
    service.server.stop().await;
    world.stop(&service.array).await
}

fn resync_behind(io: &Io, array: Array) {
    io.spawn(async move {
        match array.resync(|_| {}).await {
            Ok(_) => {
                if let Some(offset) = array.detail().resync_offset {
                    eprintln!(
                        "brindle: the resync could not make all redundancy true, first at byte {offset} of each \
                         member's data area: data there is lost or can't be read, until it is written anew"
                    );
                }
            }
            Err(VolumeError::Stopping) => {}
            Err(error) => eprintln!("brindle: the resync stopped: {error}"),
        }
    });
}

fn watch_signals(remote: Remote) -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|source| Failure::system("signals can't be watched", source))?;
    let watch = move || {
        for _ in signals.forever() {
            remote.run(|_| with_service(Service::begin_stop));
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(watch)
        .map_err(|source| Failure::system("the signal thread can't start", source))?;
    Ok(())
}

fn with_service(work: impl FnOnce(&Rc<Service>)) {
    let service = SERVICE.with_borrow(Clone::clone);
    if let Some(service) = service {
        work(&service);
    }
}

fn hand_over(remote: &Remote, request: Request) -> Answer {
    let (tell, told) = mpsc::channel();
    remote.run(move |io| {
        with_service(|service| {
            let service = Rc::clone(service);
            io.spawn(async move {
                let answer = service.answer(request).await;
                let _ = tell.send(answer); // nobody waits: the client has lost its patience
            });
        });
    });
    told.recv().unwrap_or_else(|_| Answer::Error("the server is stopping".into()))
}
