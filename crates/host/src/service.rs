//! The contents that are served, by name, and the requests that they get.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_io::sync::{Either, Notify, join_all, race};
use brindle_io::{Duration, Io};

use crate::absent::Configured;
use crate::answers::{Effects, RequestOutcome, answer};
use crate::attach::{Attached, Attaching, Attachments, Bar, Scope};
use crate::content::{Content, Host, Seen};
use crate::control::{Ask, Ended, Request};
use crate::doors::{Doors, ExportPlace};
use crate::error::HostError;
use crate::events::{Listener, News};
use crate::failing::FailingDrives;
use crate::mailbox::Receiver;
use crate::names::{self, Names, OnRenamed, Renamed};
use crate::offered::Offered;
use crate::orders::{Message, Order};
use crate::snapshot::Snapshot;
use crate::world::{Devices, Pending};

/// The greatest age of the status that is given when the service's thread does not answer.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(1);

/// The same while the service's thread is asked for nothing. An alert rests on its age being below ten seconds.
const SNAPSHOT_IDLE: Duration = Duration::from_secs(8);

/// Time for clients to leave a withdrawn content, before the answer names those that are left.
const CLIENTS_PATIENCE: Duration = Duration::from_secs(8);

/// Contents by name, their exports, and the devices of their world. All of it lives on the reactor's thread.
pub struct Service {
    /// The server's name; that of the content, if it has one only.
    pub(crate) name: String,
    pub(crate) devices: Rc<dyn Devices>,
    pub(crate) doors: Doors,
    /// Contents that have not been stopped: first those that are one export, in the order in which they came.
    contents: RefCell<Vec<Rc<dyn Content>>>,
    /// All that the settings mean; none of a server that was started without any.
    pub(crate) configured: RefCell<Vec<Configured>>,
    /// Contents do work by themselves.
    has_begun: Cell<bool>,
    /// It has served something: it ends with the last of that.
    pub(crate) has_served: Cell<bool>,
    /// The server reports a list from now on: it has had several contents at a time, or one of several exports.
    pub(crate) several: Cell<bool>,
    /// A content has not stopped in time.
    given_up: Cell<bool>,
    /// Contents that are stopped one by one, until their devices are free.
    leaving: Cell<usize>,
    /// Devices of the kernel.
    pub(crate) attachments: Attachments,
    /// Why contents have not stopped well.
    failed: RefCell<Vec<HostError>>,
    listener: Listener,
    pub(crate) io: Io,
    snapshot: RefCell<Option<Snapshot>>,
    order: Cell<Option<Order>>,
    changed: Notify,
    /// Hears of contents that get another name.
    pub(crate) on_renamed: RefCell<Option<OnRenamed>>,
    pub(crate) failing: RefCell<FailingDrives>,
}

impl Service {
    /// A service without content, which is reached by `doors`.
    pub fn new(
        io: &Io,
        name: String,
        devices: Rc<dyn Devices>,
        doors: Doors,
        listener: Listener,
    ) -> Rc<Self> {
        Rc::new(Self {
            name,
            devices,
            doors,
            several: Cell::new(false),
            has_begun: Cell::new(false),
            has_served: Cell::new(false),
            configured: RefCell::default(),
            contents: RefCell::default(),
            given_up: Cell::new(false),
            leaving: Cell::new(0),
            attachments: Attachments::new(io),
            failed: RefCell::default(),
            listener,
            snapshot: RefCell::default(),
            order: Cell::new(None),
            changed: Notify::new(io),
            on_renamed: RefCell::default(),
            failing: RefCell::default(),
            io: io.clone(),
        })
    }

    /// The name of the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The content of that name, if it has not been stopped.
    pub fn content(&self, name: &str) -> Option<Rc<dyn Content>> {
        self.contents.borrow().iter().find(|content| content.name() == name).cloned()
    }

    /// The places of all exports of a content.
    pub fn places(&self, content: &dyn Content) -> Vec<ExportPlace> {
        content.places(&self.doors)
    }

    /// Serves one more content from now on.
    ///
    /// # Errors
    /// The name of an export is none, or another has it: the content is not served, and is to be let go by [`Service::refuse`].
    pub fn take_in(&self, content: &Rc<dyn Content>) -> Result<(), HostError> {
        if self.contents().iter().any(|other| other.claims(content.name())) {
            return Err(HostError::NameTaken(content.name().to_owned()));
        }
        // Nothing is waited for in between: a client that finds one of them finds all.
        for offered in content.exports() {
            self.offer(&**content, offered)?;
        }
        // Reports list contents that are one export before others.
        let at = |all: &[Rc<dyn Content>]| match content.is_one_export() {
            true => all.partition_point(|other| other.is_one_export()),
            false => all.len(),
        };
        let at = at(&self.contents.borrow());
        self.contents.borrow_mut().insert(at, Rc::clone(content));
        self.has_served.set(true);
        let several = !content.is_one_export() || self.contents.borrow().len() > 1;
        self.several.set(self.several.get() || several);
        if self.has_begun.get() {
            content.begin();
        }
        self.contents().iter().for_each(|content| content.share(self));
        self.publish();
        Ok(())
    }

    /// Stops a content that is not served: none of its exports is offered.
    pub async fn refuse(&self, content: &Rc<dyn Content>) {
        // Another content that has the name of one of its exports is served on.
        let others: Vec<String> = self.contents().iter().flat_map(|other| other.export_names()).collect();
        let own = content.export_names().into_iter().filter(|export| !others.contains(export)).collect();
        if let Err(stopping) = Rc::clone(content).stop(self.withdraw_all(own)).await {
            tracing::warn!("{stopping}");
        }
    }

    /// Has all contents begin the work that they do by themselves, and each one that comes later.
    pub fn begin(&self) {
        self.has_begun.set(true);
        self.contents().iter().for_each(|content| content.begin());
    }

    /// Takes messages as long as the reactor runs: each request has a task of its own, so that one that hangs holds up no
    /// other.
    pub async fn listen(self: Rc<Self>, messages: Receiver<Message>) {
        loop {
            let this = Rc::clone(&self);
            match messages.next().await {
                Message::Order(order) => self.take(order),
                Message::Ask(request, reply) => {
                    drop(self.io.spawn(this.answer_to(request, reply)));
                }
                Message::StopOne(name, patience, reply) => {
                    let patience = Duration::from_millis(patience.as_millis() as u64);
                    drop(self.io.spawn(async move {
                        let Some(content) = this.content(&name) else {
                            let stopped = HostError::StoppedAlready(name);
                            return reply.send(answer::<RequestOutcome>(Err(stopped)));
                        };
                        reply.send(answer(Ok(RequestOutcome::stopped(&name))));
                        reply.end(match this.stop_one(&content, patience).await {
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

    /// Notes all that the settings mean. The status has the part of it, too, that is not served, and the server reports a list from now on.
    pub fn configure(&self, configured: Vec<Configured>) {
        *self.configured.borrow_mut() = configured;
        self.publish();
    }

    /// Waits until there is nothing left to serve, and the client that stopped it has its answer. A server that has had nothing to serve
    /// so far goes on.
    pub async fn emptied(&self) {
        let is_empty =
            || self.has_served.get() && self.contents.borrow().is_empty() && self.leaving.get() == 0;
        self.changed.until(|| is_empty().then_some(())).await;
    }

    /// Does what is asked. An order to stop is none of these: see [`Service::stop_one`] and [`Service::stop_all`].
    ///
    /// # Errors
    /// Why it is not done.
    pub async fn ask(self: &Rc<Self>, request: Request) -> Result<RequestOutcome, HostError> {
        let Request { ask, array, by } = request;
        let of = array.as_deref();
        let content = match &ask {
            Ask::Attach { index, connections, dead_timeout } => {
                let how = Attaching { index: *index, connections: *connections, dead_timeout: *dead_timeout };
                return self.attach(&self.meant_to_attach(of)?, how).await;
            }
            Ask::Detach => return self.detach(&self.meant_to_attach(of)?).await,
            Ask::Mount { .. } => return Err(HostError::NoDescriptor(self.name.clone())),
            Ask::Disconnect { client } => return self.disconnect(of, client.as_deref()),
            Ask::Status => return self.status_of(of),
            Ask::Export { limits } => {
                let content = self.one(of)?;
                let gate = &content.placed().gate;
                if let Some(limits) = limits {
                    gate.set_rates(&self.io, (*limits).into());
                }
                gate.withdraw(false);
                return Ok(self.done(&*content, Effects::default()));
            }
            Ask::Unexport => {
                let content = self.one(of)?;
                self.unexport(&*content).await?;
                return Ok(self.done(&*content, Effects::default()));
            }
            Ask::Fail { member } | Ask::Flag { member, .. } => self.having(member, of)?,
            Ask::PoolRename { pool, .. } | Ask::VolumeRename { pool, .. } => {
                let content = self.by_name(pool)?;
                self.forget_ended(&*content).await;
                content
            }
            Ask::PoolExport { pool, .. }
            | Ask::PoolHistory { pool }
            | Ask::PoolOffline { pool, .. }
            | Ask::PoolOnline { pool, .. }
            | Ask::PoolReplace { pool, .. }
            | Ask::PoolAdd { pool, .. }
            | Ask::PoolAttach { pool, .. }
            | Ask::PoolDetach { pool, .. }
            | Ask::VolumeCreate { pool, .. }
            | Ask::VolumeDestroy { pool, .. } => self.by_name(pool)?,
            Ask::Action { .. }
            | Ask::Add { .. }
            | Ask::Replace { .. }
            | Ask::Remove { .. }
            | Ask::Bitmap { .. }
            | Ask::Resize { .. }
            | Ask::Reshape { .. }
            | Ask::WriteBehind { .. } => self.one(of)?,
            Ask::Stop
            | Ask::Look { .. }
            | Ask::Metrics { .. }
            | Ask::Disks
            | Ask::Settings
            | Ask::Reload
            | Ask::Incremental { .. }
            | Ask::Takeover { .. }
            | Ask::Version => return self.status_of(None),
        };
        let host: Rc<dyn Host> = self.clone();
        let by = by.filter(|_| ask.is_change());
        content.carry_out(ask, by, host).await
    }

    /// Offers a content no more, and waits until its clients are gone.
    async fn unexport(&self, content: &dyn Content) -> Result<(), HostError> {
        content.placed().gate.withdraw(true);
        let (doors, exports) = (self.doors.clone(), content.export_names());
        let dismissed = self.io.spawn(async move {
            for export in exports {
                doors.dismiss(&export).await;
            }
        });
        match race(dismissed, self.io.sleep(CLIENTS_PATIENCE)).await {
            Either::First(()) => Ok(()),
            Either::Second(()) => Err(HostError::ClientsStay(content.name().to_owned())),
        }
    }

    /// Ends connections to a content, or to an export that is called so.
    fn disconnect(&self, of: Option<&str>, client: Option<&str>) -> Result<RequestOutcome, HostError> {
        let has = |content: &Rc<dyn Content>| {
            of.is_some_and(|of| content.export_names().iter().any(|own| own == of))
        };
        let (content, exports) = match self.contents().into_iter().find(has) {
            Some(content) => (content, vec![of.unwrap_or_default().to_owned()]),
            None => {
                let content = self.one(of)?;
                let exports = content.export_names();
                (content, exports)
            }
        };
        let ended = self.doors.disconnect(&exports, client);
        Ok(self.done(&*content, Effects { disconnected: Some(ended), ..Effects::default() }))
    }

    /// The state of the host that a report shows.
    pub(crate) fn seen<'a>(&'a self, attached: &'a [Attached]) -> Seen<'a> {
        Seen { doors: &self.doors, stats: self.doors.stats(), attached }
    }

    /// The names of all contents.
    fn all_names(&self) -> Vec<Names> {
        self.contents.borrow().iter().map(|content| content.names()).collect()
    }

    /// The content that is meant; `None` for all of the server. A server that has always had one, and one export of it, means that.
    pub(crate) fn called(&self, name: Option<&str>) -> Result<Option<Rc<dyn Content>>, HostError> {
        let contents = self.contents();
        if !self.several.get() {
            return Ok(contents.into_iter().next());
        }
        Ok(names::select(&self.all_names(), name, &self.name)?.map(|at| Rc::clone(&contents[at])))
    }

    /// The content of this name, UUID or member.
    fn by_name(&self, name: &str) -> Result<Rc<dyn Content>, HostError> {
        let names = self.all_names();
        let known = || names.iter().map(|names| names.own.clone()).collect();
        names::find(&names, name).map(|at| Rc::clone(&self.contents.borrow()[at])).ok_or_else(|| {
            HostError::NoSuchContent { server: self.name.clone(), array: name.to_owned(), known: known() }
        })
    }

    /// The content of this name; an error if the name is left out and there are several. The only content of several exports is meant
    /// without a name, too.
    pub(crate) fn one(&self, name: Option<&str>) -> Result<Rc<dyn Content>, HostError> {
        if let Some(content) = self.called(name)? {
            return Ok(content);
        }
        match &self.contents()[..] {
            [only] if name.is_none() && !only.is_one_export() => Ok(Rc::clone(only)),
            _ => Err(HostError::Several(self.name.clone())),
        }
    }

    /// The content that is meant; if none is named, the one that has the member.
    fn having(&self, member: &str, of: Option<&str>) -> Result<Rc<dyn Content>, HostError> {
        if let Some(content) = self.called(of)? {
            return Ok(content);
        }
        let contents = self.contents();
        let mut having = contents.iter().filter(|content| content.has_member(member));
        let (server, member) = (self.name.clone(), member.to_owned());
        match (having.next(), having.next()) {
            (Some(content), None) => Ok(Rc::clone(content)),
            (Some(_), Some(_)) => Err(HostError::SeveralHave { server, member }),
            (None, _) => Err(HostError::NoneHas { server, member }),
        }
    }

    /// Stops one content, and closes its devices; the others are served on.
    ///
    /// # Errors
    /// Not all of it is stable, or it has not stopped in time.
    pub async fn stop_one(&self, content: &Rc<dyn Content>, patience: Duration) -> Result<(), HostError> {
        let _bar = self.end_devices_of(&**content).await?;
        let leaving = self.leave();
        let stopped = self.end(content, patience).await;
        // Clients that wait for the end wait for the members to be free.
        self.devices.close(&content.devices(self)).await;
        drop(leaving);
        stopped
    }

    /// Has another take the place of a content, on the same devices: `open` opens it once this one has stopped.
    ///
    /// # Errors
    /// It has not stopped in time, or not well: its devices are closed.
    pub async fn exchange<T>(
        &self,
        content: &Rc<dyn Content>,
        patience: Duration,
        open: impl AsyncFnOnce() -> T,
    ) -> Result<T, HostError> {
        let _bar = self.end_devices_of(&**content).await?;
        // The server does not end meanwhile, though it may serve nothing else.
        let _leaving = self.leave();
        match self.end(content, patience).await {
            Ok(()) => Ok(open().await),
            Err(why) => {
                self.devices.close(&content.devices(self)).await;
                Err(why)
            }
        }
    }

    /// Ends the devices of the kernel that a content's exports are.
    async fn end_devices_of(&self, content: &dyn Content) -> Result<Bar<'_>, HostError> {
        self.end_devices(Scope::Of(content.name().to_owned())).await
    }

    /// Stops a content within a time, and forgets it.
    async fn end(&self, content: &Rc<dyn Content>, patience: Duration) -> Result<(), HostError> {
        let stop = Rc::clone(content).stop(self.clients_of(&**content));
        let stopped = match race(stop, self.io.sleep(patience)).await {
            Either::First(stopped) => stopped,
            Either::Second(()) => {
                self.given_up.set(true);
                Err(HostError::NotStopped(content.name().to_owned()))
            }
        };
        self.let_go(content, stopped.as_ref().err());
        stopped
    }

    /// Counts a stop in progress until the returned guard is dropped.
    fn leave(&self) -> impl Drop + '_ {
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

    /// Forgets a content, and reports its events for the last time. Does so once, also if several clients stopped it.
    fn let_go(&self, content: &Rc<dyn Content>, failed: Option<&HostError>) {
        let at = self.contents.borrow().iter().position(|other| Rc::ptr_eq(other, content));
        let Some(at) = at else { return };
        self.contents.borrow_mut().remove(at);
        self.contents().iter().for_each(|content| content.share(self));
        content.tell_no_more();
        self.tell_the_end_of(&**content);
        if let Some(why) = failed {
            tracing::error!("{why}");
            self.failed.borrow_mut().push(why.clone());
        }
        self.publish();
        self.changed.notify();
    }

    /// Reports the end of all contents. The status that others have is that of the end from then on.
    pub fn tell_the_end(&self) {
        self.publish();
        self.contents().iter().for_each(|content| self.tell_the_end_of(&**content));
    }

    fn tell_the_end_of(&self, content: &dyn Content) {
        if content.has_stopped_well() != Some(true) {
            return;
        }
        let (name, words) = (content.name().to_owned(), content.last_words());
        (self.listener)(News::Stopped { name, words, several: self.several.get() });
    }

    /// Ends the exports of a content, and waits until its clients are gone.
    fn clients_of(&self, content: &dyn Content) -> Pending<()> {
        self.withdraw_all(content.export_names())
    }

    /// Offers exports no more, and waits until their clients are gone.
    fn withdraw_all(&self, exports: Vec<String>) -> Pending<()> {
        let doors = self.doors.clone();
        Box::pin(async move {
            for export in exports {
                doors.withdraw(&export).await;
            }
        })
    }

    /// Stops all contents, side by side: one that hangs holds up no other. Clients of one that was given up may wait for ever.
    ///
    /// # Errors
    /// Contents were not marked clean, now or before.
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
        let contents = self.contents();
        let stop = |content: &Rc<dyn Content>| Rc::clone(content).stop(self.clients_of(&**content));
        let stopped = join_all(contents.iter().map(stop)).await;
        if !self.given_up.get() {
            closed.await;
        }
        let mut failed = self.failed.borrow_mut();
        failed.extend(stopped.into_iter().filter_map(Result::err));
        if failed.is_empty() { Ok(()) } else { Err(HostError::All(failed.clone())) }
    }

    /// Reports the events for which the reporting tasks had no turn.
    pub fn tell_the_last_events(&self) {
        self.contents().iter().for_each(|content| content.tell_the_last_events());
    }

    /// The message of the contents that have not stopped.
    pub fn not_stopped(&self) -> HostError {
        let contents = self.contents();
        let left = contents.iter().filter(|content| content.has_stopped_well().is_none());
        HostError::NotStopped(left.map(|content| content.name()).collect::<Vec<_>>().join(", "))
    }

    /// Keeps a status where threads can have it that must not wait for this one.
    pub fn publish_to_others(self: &Rc<Self>) -> Snapshot {
        let snapshot = Snapshot::new(self.status());
        *self.snapshot.borrow_mut() = Some(snapshot.clone());
        let service = Rc::clone(self);
        self.io.spawn(async move {
            loop {
                service.io.sleep(SNAPSHOT_EVERY).await;
                let resized: Vec<String> =
                    service.contents().iter().flat_map(|content| content.resized()).collect();
                resized.iter().for_each(|export| service.resized(export));
                service.publish();
                // Nothing changes while nothing runs.
                race(service.io.another_task_runs(), service.io.sleep(SNAPSHOT_IDLE)).await;
            }
        });
        snapshot
    }
}

impl Host for Service {
    fn io(&self) -> &Io {
        &self.io
    }

    fn devices(&self) -> &dyn Devices {
        &*self.devices
    }

    fn contents(&self) -> Vec<Rc<dyn Content>> {
        self.contents.borrow().clone()
    }

    fn publish(&self) {
        if let Some(snapshot) = &*self.snapshot.borrow() {
            snapshot.publish(self.status());
        }
    }

    fn done(&self, content: &dyn Content, effects: Effects) -> RequestOutcome {
        RequestOutcome::of(self.report_of(content, &self.seen(&self.attachments.there())), effects)
    }

    fn offer(&self, content: &dyn Content, offered: Offered) -> Result<(), HostError> {
        let gate = &content.placed().gate;
        // Exports of one content have its rules and its limits together, but are held by initiators each by itself.
        let gate = if content.is_one_export() { Rc::clone(gate) } else { Rc::new(gate.of_another()) };
        self.doors.offer(&offered, &gate)
    }

    fn withdraw(&self, export: &str) -> Pending<()> {
        let (doors, export) = (self.doors.clone(), export.to_owned());
        Box::pin(async move { doors.withdraw(&export).await })
    }

    fn resized(&self, export: &str) {
        self.doors.resized(export);
        self.resize_device(export);
    }

    fn renamed(&self, renamed: &Renamed<'_>) -> Vec<String> {
        self.tell_renamed(renamed)
    }

    fn device_of(&self, export: &str) -> Option<String> {
        self.attachments.device_of(export)
    }

    fn users_of(&self, export: &str) -> usize {
        self.doors.users_of(export).max(usize::from(self.attached_to(export).is_some()))
    }
}
