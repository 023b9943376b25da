//! The threads of a server start, and its reactor is driven until all contents have stopped.

use std::os::unix::net::UnixListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use brindle_host::control::{self, Control, ControlRights};
use brindle_host::mailbox::{self, Sender};
use brindle_host::opening::{Config, Opening};
use brindle_host::{ControlHandler, Host as _, Message, Order, Reload, Service, Snapshot};
use brindle_io::sync::{Either, race};
use brindle_io::uring::{self, SocketFile};

use super::announce::announce;
use super::checked;
use super::claimed::{Held, Left};
use super::detached::Detached;
use super::disks;
use super::looked::ServerPlace;
use super::metrics::Listening as Scraped;
use super::mounted::{self, Awaiting};
use super::notify;
use super::planned::Task;
use super::reload::Anew;
use super::serving::{Served, Serving};
use super::takeover::AskedToHandOver;
use crate::base::failure::Failure;
use crate::base::runtime;
use crate::devices::world::World;
use crate::server::shutdown::{self, LastResort, Shutdown, Socket};

/// A server whose threads answer.
pub(super) struct Running {
    served: Served,
    opening: Opening,
    devices: Devices,
    mount: Option<Awaiting>,
    others: Others,
    held: LastNames,
}

/// A server whose contents have stopped, or were given up.
pub(super) struct Ended {
    pub(super) served: Served,
    pub(super) outcome: Result<(), Failure>,
    pub(super) others: Others,
    pub(super) held: LastNames,
}

/// The things by which other threads and processes have to do with a server.
pub(super) struct Others {
    pub(super) ended: Arc<Shutdown>,
    pub(super) control: Arc<Control>,
    pub(super) snapshot: Snapshot,
    pub(super) anew: Arc<Anew>,
    pub(super) asked: AskedToHandOver,
}

/// Names of sockets in the file system that go last.
pub(super) struct LastNames {
    pub(super) control: SocketFile,
    pub(super) scraped: Scraped,
}

/// Devices of the kernel that the settings ask for, at the start.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Devices {
    /// Mounts wait for some: a service manager hears that the server is ready once these are made.
    Awaited,
    /// There are none, or they are there already.
    Settled,
}

impl<'a> Serving<'a> {
    /// Starts the threads, and tells that the exports answer.
    pub(super) fn answer_others(self) -> Result<Running, Failure> {
        let Self { task, place, held, mut sockets, left, anew, served } = self;
        let Task { job, metrics, hung_up } = task;
        let Held { mut scraped, listener, rights, control } = held;
        sockets.push(Socket::new(&runtime::control_socket(&place.folder, &place.name)));
        sockets.extend(scraped.sockets());
        let flags = checked::as_of_daemon(&job.opening, &job.metrics);
        let others = Others::begin(&served, &job.opening, (listener, rights, sockets), (anew, flags))?;
        others.anew.watch(hung_up)?;
        let service = &served.service;
        let mount = job.mount.as_ref().map(|mount| Awaiting::begin(mount, service, job.json)).transpose()?;
        if service.contents().iter().any(|content| content.waits()) {
            others.anew.look_for_members();
        }
        metrics.serve(std::mem::take(&mut scraped.listeners), service.name(), &others.snapshot)?;
        let ServerPlace { detached, .. } = place;
        announce((job.folder, job.json), service, &scraped.addresses, detached.as_ref())?;
        let devices = Devices::of(&job.opening, left);
        settle(others.anew.settings.is_some(), devices);
        detached.map_or(Ok(()), Detached::serves)?;
        let held = LastNames { control, scraped };
        Ok(Running { served, opening: job.opening, devices, mount, others, held })
    }
}

impl Devices {
    fn of(opening: &Opening, left: Left) -> Self {
        let are_wanted = opening.volumes.iter().any(|volume| volume.attach);
        if are_wanted && left == Left::Nothing { Self::Awaited } else { Self::Settled }
    }
}

impl Others {
    /// Starts the threads that answer, stop the server, and end it if it hangs.
    fn begin(
        served: &Served,
        opening: &Opening,
        (listener, rights, sockets): (UnixListener, ControlRights, Vec<Socket>),
        (anew, flags): (Arc<Anew>, Config),
    ) -> Result<Self, Failure> {
        let Served { service, world, .. } = served;
        let (arrays, messages): (Sender<Message>, _) = mailbox::mailbox(&world.io);
        drop(world.io.spawn(Rc::clone(service).listen(messages)));
        let patience = Duration::from_millis(opening.stop_timeout_ms);
        let ended = Shutdown::new(patience, {
            let arrays = arrays.clone();
            move |order| arrays.send(Message::Order(order))
        });
        let (asked, snapshot) = (AskedToHandOver::default(), service.publish_to_others());
        let end = Arc::clone(&ended);
        let handler = ControlHandler {
            name: service.name().to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            arrays,
            snapshot: snapshot.clone(),
            end: move || end.begin(),
            takeover: asked.answers(anew.settings.is_some(), Arc::clone(&ended)),
            reload: reload(&anew),
            disks: disks::others(&anew),
            settings: checked::in_force(flags, &anew),
            patience,
        };
        let control = control::listen(listener, rights, handler)
            .map_err(|source| Failure::system("the control thread can't start", source))?;
        let others = Self { ended, control: Arc::new(control), snapshot, anew, asked };
        others.watch(served, sockets)?;
        Ok(others)
    }

    /// Watches for signals, and for a reactor that does not end in time.
    fn watch(&self, Served { service, world, .. }: &Served, sockets: Vec<Socket>) -> Result<(), Failure> {
        let last = LastResort {
            name: service.name().to_owned(),
            locks: Arc::clone(&world.locks),
            sockets,
            control: Arc::clone(&self.control),
            snapshot: self.snapshot.clone(),
        };
        shutdown::watch(Arc::clone(&self.ended), last)?;
        // A manager that has the sockets starts the server anew, and clients wait for that.
        let keep = || {
            if notify::stores() {
                uring::keep_listeners(true);
            }
        };
        shutdown::watch_signals(Arc::clone(&self.ended), keep)
    }
}

/// Reads files anew as a client asks, and looks for members again.
fn reload(anew: &Arc<Anew>) -> Reload {
    let anew = Arc::clone(anew);
    Arc::new(move |only| {
        let done = only.map_or_else(|| anew.read(), |only| anew.take(only));
        anew.look_for_members();
        done
    })
}

/// Closes listeners of an earlier server that this one does not use, and tells a service manager that the exports answer, if no device
/// is still to be made. The manager keeps the listeners of a daemon.
fn settle(is_daemon: bool, devices: Devices) {
    uring::keep_listeners(false);
    let closed = uring::close_unclaimed();
    if devices == Devices::Settled {
        notify::ready();
    }
    if is_daemon {
        match uring::listeners() {
            Ok(listeners) => notify::store(&listeners, &closed),
            Err(error) => tracing::warn!("listening sockets can't be stored: {error}"),
        }
    }
}

impl Running {
    /// Serves until an order to stop, or until each content was stopped; then drains, flushes and marks clean.
    pub(super) fn run(self) -> Ended {
        let Self { held, others, devices, mount, opening, served } = self;
        let Served { service, world, .. } = &served;
        let outcome = world.io.block_on(async {
            begin(service, world, (&opening, devices));
            let there = mount.as_ref().map(Awaiting::mounted);
            let mounted = match mount {
                Some(mount) => mount.serve(service, &world.io).await,
                None => Ok(()),
            };
            if mounted.is_err() {
                service.take(Order::Stop);
            }
            if let Either::Second(()) = race(service.ordered(Order::Stop), service.emptied()).await {
                others.ended.begin();
            }
            if let Some(there) = there {
                mounted::end(&world.io, there).await;
            }
            stop(service).await.and(mounted)
        });
        Ended { served, outcome, others, held }
    }
}

/// Begins the work that a server does by itself.
fn begin(service: &Rc<Service>, world: &World, (opening, devices): (&Opening, Devices)) {
    service.begin();
    drop(world.io.spawn(Rc::clone(service).attach_again()));
    let volumes = opening.volumes.clone();
    let attached =
        move |name: &str, uuid: &str| volumes.iter().any(|one| one.attach && one.means(name, uuid));
    let made = world.io.spawn(Rc::clone(service).attach_wanted(attached));
    if devices == Devices::Awaited {
        drop(world.io.spawn(notify::ready_behind(made, world.io.clone())));
    }
    if !opening.policies.spare_groups.is_empty() {
        brindle_host::share_spares(service.clone());
    }
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
}

/// Stops all contents, or gives up those that have not stopped in time.
async fn stop(service: &Rc<Service>) -> Result<(), Failure> {
    let stopped = race(service.stop_all(), service.ordered(Order::GiveUp)).await;
    service.tell_the_last_events();
    match stopped {
        Either::First(stopped) => stopped.map_err(|why| Failure::Refused(why.to_string())),
        Either::Second(()) => Err(Failure::Refused(service.not_stopped().to_string())),
    }
}
