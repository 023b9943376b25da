//! The volumes that are served, by name, and the requests that they get.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_array::BitmapSpec;
use brindle_io::sync::{Either, Notify, join_all, race};
use brindle_io::{Duration, Io, MemberId};

use crate::absent::Configured;
use crate::answers::{RequestOutcome, Served, Volumes, answer};
use crate::any::Any;
use crate::attach::{Attaching, Attachments, Scope};
use crate::background::Speeds;
use crate::control::{BitmapPlace, Ended, Request, Word};
use crate::error::HostError;
use crate::events::{Listener, News};
use crate::exported::Exported;
use crate::mailbox::Receiver;
use crate::names;
use crate::orders::{Message, Order};
use crate::pooled::Pooled;
use crate::servers::Doors;
use crate::snapshot::Snapshot;
use crate::world::{Coming, Devices};

/// The greatest age of the status that is given when the arrays' thread does not answer.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(1);

/// The same while nobody asks the arrays' thread for anything. An alert rests on its age being below ten seconds.
const SNAPSHOT_IDLE: Duration = Duration::from_secs(8);

/// Time for clients to leave a withdrawn array, before the answer names those that are left.
const CLIENTS_PATIENCE: Duration = Duration::from_secs(8);

/// Volumes by name, their exports, and the devices of their world. All of it lives on the reactor's thread.
pub struct Service {
    /// The server's name; that of the array, if it has one only.
    pub(crate) name: String,
    pub(crate) devices: Rc<dyn Devices>,
    pub(crate) doors: Doors,
    /// Pools that have not been stopped.
    pools: RefCell<Vec<Rc<Pooled>>>,
    /// Arrays that have not been stopped, in the order in which they were given.
    arrays: RefCell<Vec<Rc<Exported>>>,
    /// All that the settings mean; none of a server that was started without any.
    pub(crate) configured: RefCell<Vec<Configured>>,
    /// It has served something: it ends with the last of that.
    pub(crate) has_served: Cell<bool>,
    /// The server has had several arrays at a time, and reports a list from then on.
    pub(crate) several: Cell<bool>,
    /// An array has not stopped in time.
    given_up: Cell<bool>,
    /// Arrays that are stopped one by one, until their devices are free.
    leaving: Cell<usize>,
    /// Devices of the kernel.
    pub(crate) attachments: Attachments,
    /// Why arrays have not stopped well.
    failed: RefCell<Vec<HostError>>,
    listener: Listener,
    pub(crate) io: Io,
    snapshot: RefCell<Option<Snapshot>>,
    order: Cell<Option<Order>>,
    changed: Notify,
}

impl Service {
    /// Serves these arrays, which are reached by `doors`.
    pub fn new(
        io: &Io,
        name: String,
        devices: Rc<dyn Devices>,
        doors: Doors,
        arrays: Vec<Rc<Exported>>,
        listener: Listener,
    ) -> Rc<Self> {
        Rc::new(Self {
            name,
            devices,
            doors,
            several: Cell::new(arrays.len() > 1),
            has_served: Cell::new(!arrays.is_empty()),
            configured: RefCell::default(),
            arrays: RefCell::new(arrays),
            pools: RefCell::default(),
            given_up: Cell::new(false),
            leaving: Cell::new(0),
            attachments: Attachments::new(io),
            failed: RefCell::default(),
            listener,
            snapshot: RefCell::default(),
            order: Cell::new(None),
            changed: Notify::new(io),
            io: io.clone(),
        })
    }

    /// The reactor that it runs on.
    pub fn io(&self) -> &Io {
        &self.io
    }

    /// The name of the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The arrays that have not been stopped.
    pub fn arrays(&self) -> Vec<Rc<Exported>> {
        self.arrays.borrow().clone()
    }

    /// The array of that name, if it has not been stopped.
    pub fn array(&self, name: &str) -> Option<Rc<Exported>> {
        self.arrays.borrow().iter().find(|array| array.name() == name).cloned()
    }

    /// The pools that have not been stopped.
    pub fn pools(&self) -> Vec<Rc<Pooled>> {
        self.pools.borrow().clone()
    }

    /// Adds a pool to this host, which reports a list from now on.
    pub(crate) fn has_pool(&self, pooled: Rc<Pooled>) {
        self.pools.borrow_mut().push(pooled);
        self.has_served.set(true);
        self.several.set(true);
        self.publish();
    }

    /// Serves one more array from now on.
    ///
    /// # Errors
    /// There is one of that name, or it is no name for an export: nothing has changed.
    pub fn serve(&self, exported: Rc<Exported>) -> Result<(), HostError> {
        let volume = Rc::new(Any::Array(exported.array().clone()));
        let gate = Rc::clone(exported.gate());
        self.doors.nbd.add_guarded(exported.name(), &exported.description(), volume, gate)?;
        self.arrays.borrow_mut().push(exported);
        self.has_served.set(true);
        self.several.set(self.several.get() || self.arrays.borrow().len() > 1);
        self.publish();
        Ok(())
    }

    /// Takes messages as long as the reactor runs: each request has a task of its own, so that one that hangs holds up no
    /// other.
    pub async fn listen(self: Rc<Self>, messages: Receiver<Message>) {
        loop {
            let this = Rc::clone(&self);
            match messages.next().await {
                Message::Order(order) => self.take(order),
                Message::Ask(request, reply) => {
                    drop(self.io.spawn(async move { reply.send(answer(this.ask(request).await)) }));
                }
                Message::StopOne(name, patience, reply) => {
                    let patience = Duration::from_millis(patience.as_millis() as u64);
                    drop(self.io.spawn(async move {
                        let pool = this.pools().into_iter().find(|pool| pool.name() == name);
                        let array = this.array(&name);
                        if array.is_none() && pool.is_none() {
                            return reply
                                .send(answer::<RequestOutcome>(Err(HostError::StoppedAlready(name))));
                        }
                        reply.send(answer(Ok(RequestOutcome::stopped(&name))));
                        let stopped = match (array, pool) {
                            (Some(array), _) => this.stop_one(&array, patience).await,
                            (None, Some(pool)) => this.stop_pool(&pool, patience).await,
                            (None, None) => Ok(()),
                        };
                        reply.end(match stopped {
                            Ok(()) => Ended::Well,
                            Err(why) => Ended::Badly { why: why.to_string() },
                        });
                    }));
                }
            }
        }
    }

    /// Orders the server to end, or to end sooner.
    pub fn take(&self, order: Order) {
        if self.order.get() != Some(Order::GiveUp) {
            self.order.set(Some(order));
        }
        self.changed.notify();
    }

    /// Waits until this order, or a stronger one, was given. To hand over is to stop.
    pub async fn ordered(&self, order: Order) {
        let is_it = |given: Order| {
            given == order || given == Order::GiveUp || (order, given) == (Order::Stop, Order::HandOver)
        };
        let heard = || self.order.get().filter(|&given| is_it(given));
        self.changed.until(heard).await;
    }

    /// Notes all that the settings mean. What of that is not served is part of the status from now on, and the server reports a list.
    pub fn configure(&self, configured: Vec<Configured>) {
        *self.configured.borrow_mut() = configured;
        self.publish();
    }

    /// Waits until there is nothing left to serve, and the client that stopped it has its answer. A server that has had nothing to serve
    /// so far goes on.
    pub async fn emptied(&self) {
        let is_empty = || {
            self.has_served.get()
                && self.arrays.borrow().is_empty()
                && self.pools.borrow().is_empty()
                && self.leaving.get() == 0
        };
        self.changed.until(|| is_empty().then_some(())).await;
    }

    /// Does what is asked. An order to stop is none of these: see [`Service::stop_one`] and [`Service::stop_all`].
    ///
    /// # Errors
    /// Why it is not done.
    pub async fn ask(self: &Rc<Self>, request: Request) -> Result<RequestOutcome, HostError> {
        match &request {
            Request::Attach { array, index, connections, dead_timeout } => {
                let how = Attaching { index: *index, connections: *connections, dead_timeout: *dead_timeout };
                return self.attach(&self.meant_to_attach(array.as_deref())?, how).await;
            }
            Request::Detach { array } => return self.detach(&self.meant_to_attach(array.as_deref())?).await,
            _ => {}
        }
        if let Some(reported) = self.ask_pool(&request).await {
            return reported;
        }
        let array = match request {
            Request::Status { array: Some(name) } if self.absent(&name).is_some() => {
                return Ok(RequestOutcome::Volumes(Volumes::One(self.absent(&name))));
            }
            Request::Status { array } => {
                return Ok(match self.called(array.as_deref())? {
                    Some(array) => RequestOutcome::Served(Box::new(self.status_of(&array).into())),
                    None => RequestOutcome::Volumes(self.status()),
                });
            }
            Request::Fail { member, array } => {
                let array = self.having(&member, array.as_deref())?;
                let failed = array.fail(&member).await;
                self.publish();
                failed?;
                array
            }
            Request::Flag { member, flag, clear, array } => {
                let array = self.having(&member, array.as_deref())?;
                array.flag(&member, flag, clear).await?;
                array
            }
            Request::Action { action, max_speed, min_speed, array } => {
                let speeds = Speeds { max: max_speed, min: min_speed };
                self.act(action, speeds, array.as_deref()).await?
            }
            Request::Add { devices, force, re_add, array } => {
                let (array, coming) = (self.one(array.as_deref())?, Coming { force, re_add });
                return Ok(RequestOutcome::Served(Box::new(self.add(&array, devices, coming).await?)));
            }
            Request::Replace { member, with, force, array } => {
                let array = self.one(array.as_deref())?;
                return Ok(RequestOutcome::Served(Box::new(
                    self.replace(&array, &member, with, force).await?,
                )));
            }
            Request::Remove { devices, array } => {
                let array = self.one(array.as_deref())?;
                return Ok(RequestOutcome::Served(Box::new(self.remove(&array, &devices).await?)));
            }
            Request::Bitmap { place, chunk, write_behind, force, array } => {
                let array = self.one(array.as_deref())?;
                self.set_bitmap(&array, place, BitmapSpec { file: None, chunk, write_behind }, force).await?;
                array
            }
            Request::WriteBehind { count, array } => {
                let array = self.one(array.as_deref())?;
                let engine = array.array().clone();
                array.grow(async move { engine.set_write_behind(count).await }).await?;
                array
            }
            Request::Export { limits, array } => {
                let array = self.one(array.as_deref())?;
                array.export(limits);
                array
            }
            Request::Unexport { array } => {
                let array = self.one(array.as_deref())?;
                self.unexport(&array).await?;
                array
            }
            Request::Disconnect { client, array } => {
                let array = self.one(array.as_deref())?;
                let export = (array.name().to_owned(), array.target().map(str::to_owned));
                let ended = self.doors.disconnect(&[export], client.as_deref());
                let served = Served { disconnected: Some(ended), ..self.status_of(&array).into() };
                return Ok(RequestOutcome::Served(Box::new(served)));
            }
            Request::VolumeCreate { .. }
            | Request::VolumeRename { .. }
            | Request::VolumeDestroy { .. }
            | Request::Stop { .. }
            | Request::Metrics { .. }
            | Request::Settings
            | Request::Reload
            | Request::Incremental { .. }
            | Request::Attach { .. }
            | Request::Detach { .. }
            | Request::Takeover { .. }
            | Request::Version => return Ok(RequestOutcome::Volumes(self.status())),
        };
        Ok(RequestOutcome::Served(Box::new(self.status_of(&array).into())))
    }

    /// The name of the volume that becomes a device: the only array, if none is said.
    fn meant_to_attach(&self, name: Option<&str>) -> Result<String, HostError> {
        match name {
            Some(name) => Ok(name.to_owned()),
            None => self.one(None).map(|array| array.name().to_owned()),
        }
    }

    /// Offers an array no more, and waits until its clients are gone.
    async fn unexport(&self, array: &Rc<Exported>) -> Result<(), HostError> {
        array.gate().withdraw(true);
        let (doors, name) = (self.doors.clone(), array.name().to_owned());
        let target = array.target().map(str::to_owned);
        let dismissed = self.io.spawn(async move { doors.dismiss(&name, target.as_deref()).await });
        match race(dismissed, self.io.sleep(CLIENTS_PATIENCE)).await {
            Either::First(()) => Ok(()),
            Either::Second(()) => Err(HostError::ClientsStay(array.name().to_owned())),
        }
    }

    async fn set_bitmap(
        self: &Rc<Self>,
        array: &Rc<Exported>,
        place: BitmapPlace,
        spec: BitmapSpec,
        force: bool,
    ) -> Result<(), HostError> {
        let engine = array.array().clone();
        match place {
            BitmapPlace::File { path } => self.file_bitmap(array, path, spec, force).await,
            BitmapPlace::None => self.grow(array, async move { engine.remove_bitmap().await }).await,
            BitmapPlace::Internal => self.grow(array, async move { engine.set_bitmap(spec).await }).await,
        }
    }

    /// The array that is meant; `None` for all of the server. A server with one array means that one.
    fn called(&self, name: Option<&str>) -> Result<Option<Rc<Exported>>, HostError> {
        let arrays = self.arrays();
        if !self.several.get() {
            return Ok(arrays.into_iter().next());
        }
        let names: Vec<_> = arrays.iter().map(|array| array.names()).collect();
        Ok(names::select(&names, name, &self.name)?.map(|at| Rc::clone(&arrays[at])))
    }

    /// The array of this name; an error if the name is left out and there are several.
    fn one(&self, name: Option<&str>) -> Result<Rc<Exported>, HostError> {
        self.called(name)?.ok_or_else(|| HostError::Several(self.name.clone()))
    }

    async fn act(&self, word: Word, speeds: Speeds, array: Option<&str>) -> Result<Rc<Exported>, HostError> {
        let array = self.one(array)?;
        array.act(word, speeds).await?;
        Ok(array)
    }

    /// The array that is meant; if none is named, the one that has the member.
    fn having(&self, member: &str, array: Option<&str>) -> Result<Rc<Exported>, HostError> {
        if let Some(array) = self.called(array)? {
            return Ok(array);
        }
        let arrays = self.arrays();
        let mut having = arrays.iter().filter(|array| array.has(member));
        let (server, member) = (self.name.clone(), member.to_owned());
        match (having.next(), having.next()) {
            (Some(array), None) => Ok(Rc::clone(array)),
            (Some(_), Some(_)) => Err(HostError::SeveralHave { server, member }),
            (None, _) => Err(HostError::NoneHas { server, member }),
        }
    }

    /// Stops one array, and closes its devices; the others are served on.
    ///
    /// # Errors
    /// It was not marked clean, or has not stopped in time.
    pub async fn stop_one(&self, array: &Rc<Exported>, patience: Duration) -> Result<(), HostError> {
        let _bar = self.end_devices(Scope::Export(array.name().to_owned())).await?;
        self.leaving.set(self.leaving.get() + 1);
        let stop = array.stop(self.clients_of(array));
        let stopped = match race(stop, self.io.sleep(patience)).await {
            Either::First(stopped) => stopped,
            Either::Second(()) => {
                self.given_up.set(true);
                Err(HostError::NotStopped(array.name().to_owned()))
            }
        };
        self.let_go(array, stopped.as_ref().err());
        // Clients that wait for the end wait for the members to be free.
        self.devices.close(&self.devices_of(array)).await;
        self.leaving.set(self.leaving.get() - 1);
        self.changed.notify();
        stopped
    }

    /// All devices of an array that is stopped, also those that came later, but not those that went to another array.
    fn devices_of(&self, array: &Exported) -> Vec<MemberId> {
        let others = self.arrays();
        let moved: Vec<MemberId> =
            others.iter().flat_map(|other| other.array().detail().devices).map(|device| device.id).collect();
        let detail = array.array().detail();
        let came = detail.devices.iter().map(|device| device.id);
        let file = detail.bitmap.and_then(|bitmap| bitmap.file?.id);
        let first = array.hosted.devices.iter().copied().filter(|id| !moved.contains(id));
        first.chain(came).chain(file).collect()
    }

    /// Forgets an array, and reports its events for the last time. Does so once, also if several clients stopped it.
    fn let_go(&self, array: &Rc<Exported>, failed: Option<&HostError>) {
        let at = self.arrays.borrow().iter().position(|other| Rc::ptr_eq(other, array));
        let Some(at) = at else { return };
        self.arrays.borrow_mut().remove(at);
        array.tell_no_more();
        self.tell_the_end_of(array);
        if let Some(why) = failed {
            tracing::error!("{why}");
            self.failed.borrow_mut().push(why.clone());
        }
        self.publish();
        self.changed.notify();
    }

    /// Reports the end of all arrays. The status that others have is that of the end from then on.
    pub fn tell_the_end(&self) {
        self.publish();
        for array in self.arrays() {
            self.tell_the_end_of(&array);
        }
        self.pools().iter().for_each(|pool| self.tell_the_end_of_pool(pool));
    }

    fn tell_the_end_of(&self, array: &Exported) {
        if array.has_stopped_well() != Some(true) {
            return;
        }
        let (name, words) = (array.name().to_owned(), array.last_words());
        (self.listener)(News::Stopped { name, words, several: self.several.get() });
    }

    /// Counts a stop in progress until the returned guard is dropped.
    pub(crate) fn leave(&self) -> impl Drop + '_ {
        struct Leaving<'a>(&'a Service);
        impl Drop for Leaving<'_> {
            fn drop(&mut self) {
                self.0.leaving.set(self.0.leaving.get() - 1);
                self.0.changed.notify();
            }
        }
        self.leaving.set(self.leaving.get() + 1);
        Leaving(self)
    }

    /// Forgets a pool, and reports its events for the last time.
    pub(crate) fn let_pool_go(&self, pooled: &Rc<Pooled>, failed: Option<&HostError>) {
        self.pools.borrow_mut().retain(|other| !Rc::ptr_eq(other, pooled));
        self.tell_the_end_of_pool(pooled);
        if let Some(why) = failed {
            tracing::error!("{why}");
            self.failed.borrow_mut().push(why.clone());
            self.given_up.set(self.given_up.get() || matches!(why, HostError::NotStopped(_)));
        }
        self.publish();
        self.changed.notify();
    }

    fn tell_the_end_of_pool(&self, pooled: &Pooled) {
        if pooled.has_stopped_well() == Some(true) {
            let (name, words) = (pooled.name().to_owned(), pooled.last_words());
            (self.listener)(News::Stopped { name, words, several: self.several.get() });
        }
    }

    /// Ends the exports of a pool, and waits until its clients are gone.
    pub(crate) fn clients_of_pool(&self, pooled: &Pooled) -> impl Future<Output = ()> + 'static {
        let (exports, doors) = (pooled.targeted(), self.doors.clone());
        async move {
            for (export, target) in exports {
                doors.remove(&export, target.as_deref()).await;
            }
        }
    }

    /// Ends an export, and waits until its clients are gone.
    fn clients_of(&self, array: &Rc<Exported>) -> impl Future<Output = ()> + 'static {
        let (doors, name) = (self.doors.clone(), array.name().to_owned());
        let target = array.target().map(str::to_owned);
        async move { doors.remove(&name, target.as_deref()).await }
    }

    /// Stops all arrays, side by side: one that hangs holds up no other. Clients of one that was given up may wait for ever.
    ///
    /// # Errors
    /// Arrays were not marked clean, now or before.
    pub async fn stop_all(&self) -> Result<(), HostError> {
        self.make_no_devices();
        if self.order.get() != Some(Order::HandOver) {
            for why in self.end_all_devices().await {
                tracing::warn!(
                    "{why}; its requests wait for a server that starts anew (attach --dead-timeout)"
                );
            }
        }
        let doors = self.doors.clone();
        let closed = self.io.spawn(async move { doors.stop().await });
        let arrays = self.arrays();
        let stopped = join_all(arrays.iter().map(|array| array.stop(self.clients_of(array)))).await;
        let pools = self.pools();
        let ended = join_all(pools.iter().map(|pool| pool.stop(self.clients_of_pool(pool)))).await;
        if !self.given_up.get() {
            closed.await;
        }
        let mut failed = self.failed.borrow_mut();
        failed.extend(stopped.into_iter().chain(ended).filter_map(Result::err));
        if failed.is_empty() { Ok(()) } else { Err(HostError::All(failed.clone())) }
    }

    /// Reports the events for which the reporting tasks had no turn.
    pub fn tell_the_last_events(&self) {
        self.arrays().iter().for_each(|array| array.tell_the_last_events());
        self.pools().iter().for_each(|pool| pool.tell_the_last_events());
    }

    /// The message of the arrays that have not stopped.
    pub fn not_stopped(&self) -> HostError {
        let arrays = self.arrays();
        let left = arrays.iter().filter(|array| array.has_stopped_well().is_none());
        let pools = self.pools();
        let pools = pools.iter().filter(|pool| pool.has_stopped_well().is_none());
        let names = left.map(|array| array.name()).chain(pools.map(|pool| pool.name()));
        HostError::NotStopped(names.collect::<Vec<_>>().join(", "))
    }

    /// Keeps a status where threads can have it that must not wait for this one.
    pub fn publish_to_others(self: &Rc<Self>) -> Snapshot {
        let snapshot = Snapshot::new(self.status());
        *self.snapshot.borrow_mut() = Some(snapshot.clone());
        let service = Rc::clone(self);
        self.io.spawn(async move {
            loop {
                service.io.sleep(SNAPSHOT_EVERY).await;
                service.publish();
                // Nothing changes while nothing runs.
                race(service.io.another_task_runs(), service.io.sleep(SNAPSHOT_IDLE)).await;
            }
        });
        snapshot
    }

    pub(crate) fn publish(&self) {
        if let Some(snapshot) = &*self.snapshot.borrow() {
            snapshot.publish(self.status());
        }
    }
}
