//! `brindle serve`: an array over NBD, until told to stop.

use std::cell::RefCell;
use std::net::ToSocketAddrs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc;

use brindle_array::{Array, DeviceDetail, DeviceState, Volume, VolumeError};
use brindle_export::nbd;
use brindle_io::device::Access;
use brindle_io::sync::Event;
use brindle_io::{Io, Remote};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::cli::{Listen, Serve};
use crate::control::{self, Answer, Request};
use crate::failure::Failure;
use crate::world::{self, Opening, Running, World};
use crate::{report, runtime};

/// What the control side can reach, on the reactor's thread.
struct Service {
    array: Array,
    server: nbd::Server<Array>,
    name: String,
    addresses: Vec<String>,
    /// Devices by role, as they were named.
    paths: Vec<Option<String>>,
    static_report: serde_json::Value,
    stopping: RefCell<bool>,
    stop: Event,
}

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
    let control = Control::bind(&folder, &name)?;
    let service = start(args, &running, name, &folder)?;
    SERVICE.with_borrow_mut(|place| *place = Some(Rc::clone(&service)));
    let remote = running.world.io.remote();
    watch_signals(remote.clone())?;
    control.listen(remote)?;
    announce(args, &service)?;
    running.world.io.block_on(run(&running.world, &service))?;
    SERVICE.with_borrow_mut(Option::take);
    if !args.json {
        report::print(&format!("{}: stopped, marked clean\n", service.name))?;
    }
    Ok(())
}

/// How to open the members: for writing, unless the user or the array's features forbid it.
fn access(args: &Serve) -> Result<Access, Failure> {
    if args.read_only {
        return Ok(Access::Read);
    }
    let mut world = World::new(Opening { force: args.force, ..Opening::LOOK })?;
    let members = world.open_all(&args.members)?;
    let assembly = world::assembly(&members, args.force)?;
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

/// The name of export and sockets: as given, or the array's own without its host, or its UUID.
fn name(args: &Serve, running: &Running) -> String {
    let assembly = &running.assembly;
    let (_, own) = brindle_format::md::split_name(&assembly.name);
    match &args.name {
        Some(name) => name.clone(),
        None if !own.is_empty() => own.replace('/', "_"),
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
    let label = |device: usize| assembly.devices.get(device).map(|device| device.label.clone());
    Ok(Rc::new(Service {
        array: running.array.clone(),
        server,
        name,
        addresses,
        paths: assembly.roles.iter().map(|device| device.and_then(label)).collect(),
        static_report: serde_json::to_value(report::ArrayReport::of(assembly)).unwrap_or_default(),
        stopping: RefCell::new(false),
        stop: Event::new(io),
    }))
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
            let mut found = text.to_socket_addrs().map_err(|source| Failure::output(text, source))?;
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
    service.stop.until(|| service.stopping.borrow().then_some(())).await;
    service.server.stop().await;
    world.stop(&service.array).await
}

fn resync_behind(io: &Io, array: Array) {
    io.spawn(async move {
        match array.resync(|_| {}).await {
            Ok(_) | Err(VolumeError::Stopping) => {}
            Err(error) => eprintln!("brindle: the resync stopped: {error}"),
        }
    });
}

fn watch_signals(remote: Remote) -> Result<(), Failure> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|source| Failure::output("signal handlers", source))?;
    let watch = move || {
        for _ in signals.forever() {
            remote.run(|_| with_service(Service::begin_stop));
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(watch)
        .map_err(|source| Failure::output("the signal thread", source))?;
    Ok(())
}

fn with_service(work: impl FnOnce(&Rc<Service>)) {
    let service = SERVICE.with_borrow(Clone::clone);
    if let Some(service) = service {
        work(&service);
    }
}

/// The control socket's file; removed with it.
struct Control {
    listener: Option<UnixListener>,
    path: PathBuf,
}

impl Control {
    fn bind(folder: &Path, name: &str) -> Result<Self, Failure> {
        let path = runtime::control_socket(folder, name);
        if std::os::unix::net::UnixStream::connect(&path).is_ok() {
            return Err(Failure::Refused(format!(
                "a server named '{name}' runs already ({}): stop it, or choose another --name",
                path.display()
            )));
        }
        let _ = std::fs::remove_file(&path); // left by a server that was killed
        let listener = UnixListener::bind(&path).map_err(|source| Failure::output(path.display(), source))?;
        Ok(Self { listener: Some(listener), path })
    }

    /// Answers on a thread of its own; requests travel to the reactor's thread as jobs.
    fn listen(&self, remote: Remote) -> Result<(), Failure> {
        let failed = |source| Failure::output(self.path.display(), source);
        let Some(listener) = &self.listener else { return Ok(()) };
        let listener = listener.try_clone().map_err(failed)?;
        control::listen(listener, move |request| hand_over(&remote, request)).map_err(failed)
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn hand_over(remote: &Remote, request: Request) -> Answer {
    let (tell, told) = mpsc::channel();
    remote.run(move |io| {
        let ends = tell.clone();
        with_service(|service| {
            let (service, tell) = (Rc::clone(service), tell);
            io.spawn(async move {
                let answer = service.answer(request).await;
                let _ = tell.send(answer);
            });
        });
        drop(ends);
    });
    told.recv().unwrap_or_else(|_| Answer::Error("the server is stopping".into()))
}

impl Service {
    fn begin_stop(self: &Rc<Self>) {
        *self.stopping.borrow_mut() = true;
        self.stop.notify();
    }

    async fn answer(self: Rc<Self>, request: Request) -> Answer {
        match request {
            Request::Status => Answer::Ok(self.report()),
            Request::Fail { member } => self.fail(&member).await,
            Request::Stop => {
                self.begin_stop();
                Answer::Ok(json!({"name": self.name, "stopped": true}))
            }
        }
    }

    async fn fail(&self, member: &str) -> Answer {
        let same = |path: &str| {
            path == member || std::fs::canonicalize(path).ok() == std::fs::canonicalize(member).ok()
        };
        let by_path = || self.paths.iter().position(|path| path.as_deref().is_some_and(same));
        let by_role = || member.parse::<usize>().ok().filter(|&role| role < self.paths.len());
        let Some(role) = by_path().or_else(by_role) else {
            let known: Vec<&str> = self.paths.iter().flatten().map(String::as_str).collect();
            return Answer::Error(format!(
                "{member} is no member of {}: it has {}",
                self.name,
                known.join(", ")
            ));
        };
        match self.array.fail(role as u16).await {
            Ok(()) => Answer::Ok(self.report()),
            Err(error) => Answer::Error(format!("{member} stays in service: {error}")),
        }
    }

    /// `brindle status --json`.
    fn report(&self) -> serde_json::Value {
        let detail = self.array.detail();
        let mut array = self.static_report.clone();
        if let Some(fields) = array.as_object_mut() {
            let words: Vec<String> = detail.state_words().split(", ").map(str::to_owned).collect();
            let devices: Vec<_> = detail.devices.iter().map(device_report).collect();
            fields.insert("state".into(), json!(words));
            fields.insert("events".into(), json!(detail.events));
            fields.insert("devices".into(), json!(devices));
            fields.insert("resync_offset".into(), json!(detail.resync_offset));
            fields.insert("sync".into(), json!(self.sync_report(detail.resync_offset)));
        }
        let total = self.server.export_stats().into_iter().next();
        let counters = total.as_ref().map(|stats| stats.total).unwrap_or_default();
        json!({
            "name": self.name,
            "pid": std::process::id(),
            "nbd": self.addresses,
            "array": array,
            "connections": total.map_or(0, |stats| stats.connections),
            "requests": counters.requests,
            "bytes_read": counters.read_bytes,
            "bytes_written": counters.written_bytes,
            "errors": counters.errors,
        })
    }

    fn sync_report(&self, position: Option<u64>) -> Option<serde_json::Value> {
        let (position, total) = (position?, self.array.sync_len());
        let percent = position.min(total) as f64 * 100.0 / total.max(1) as f64;
        Some(json!({"position": position, "total": total, "percent": percent}))
    }
}

fn device_report(device: &DeviceDetail) -> serde_json::Value {
    let state = match device.state {
        DeviceState::InSync => "in-sync",
        DeviceState::Recovering { .. } => "recovering",
        DeviceState::Failed => "failed",
        DeviceState::Spare => "spare",
        DeviceState::Journal => "journal",
        DeviceState::LeftOut(why) => report::left_out(why),
    };
    json!({"role": device.role, "path": device.label, "state": state})
}
