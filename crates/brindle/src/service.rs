//! A server as the control socket sees it: its arrays, and what can be asked of them. Requests name the array.

pub(crate) mod again;
pub(crate) mod devices;
mod filed;
pub(crate) mod former;
pub(crate) mod newcomer;
mod returns;
mod sharing;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use brindle_array::{Array, BitmapSpec};
use brindle_export::nbd;
use brindle_io::sync::{Either, Event, join_all, race};
use brindle_io::{Duration, Io};
use serde_json::{Value, json};

use crate::background::Speeds;
use crate::control::{Answer, BitmapPlace, Ended, Reply, Request, Word};
use crate::ending::{self, Order};
use crate::exported::Exported;
use crate::failure::Failure;
use crate::growth::Growth;
use crate::host::Host;
use crate::snapshot::Snapshot;
use crate::{log, report};

/// How old a report is at most that is told when the arrays' thread does not answer.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(1);

thread_local! {
    /// Jobs from other threads carry no references: they find the service here, which has all arrays, and name the one
    /// that they mean.
    static SERVICE: RefCell<Option<Rc<Service>>> = const { RefCell::new(None) };
}

/// Makes the service known to jobs on this thread, or hides it.
pub(crate) fn set_service(service: Option<&Rc<Service>>) {
    SERVICE.with_borrow_mut(|place| *place = service.map(Rc::clone));
}

/// Does something with the service, on the array's thread.
pub(crate) fn with_service(work: impl FnOnce(&Rc<Service>)) {
    let service = SERVICE.with_borrow(Clone::clone);
    if let Some(service) = service {
        work(&service);
    }
}

/// What the control side can reach, on the reactor's thread.
pub(crate) struct Service {
    /// Of the server; that of the array, if there is one.
    pub(crate) name: String,
    pub(crate) host: Host,
    server: nbd::Server<Array>,
    /// Those that have not been stopped, in the order of their names on the command line.
    arrays: RefCell<Vec<Rc<Exported>>>,
    /// It was started with several, and tells of a list of them.
    several: bool,
    /// An array was told to stop, and has not stopped in time.
    given_up: Cell<bool>,
    /// Why arrays have not stopped well.
    failed: RefCell<Vec<String>>,
    json: bool,
    io: Io,
    snapshot: RefCell<Option<Snapshot>>,
    order: Cell<Option<Order>>,
    changed: Event,
}

impl Service {
    /// Serves the arrays of `host`, which `arrays` has all of. With `json`, what happens is printed as objects, too.
    pub(crate) fn new(
        name: String,
        host: Host,
        server: nbd::Server<Array>,
        arrays: Vec<Rc<Exported>>,
        json: bool,
    ) -> Rc<Self> {
        let io = host.world.io.clone();
        Rc::new(Self {
            name,
            host,
            server,
            several: arrays.len() > 1,
            arrays: RefCell::new(arrays),
            given_up: Cell::new(false),
            failed: RefCell::default(),
            json,
            snapshot: RefCell::default(),
            order: Cell::new(None),
            changed: Event::new(&io),
            io,
        })
    }

    /// The arrays that have not been stopped.
    pub(crate) fn arrays(&self) -> Vec<Rc<Exported>> {
        self.arrays.borrow().clone()
    }

    pub(crate) fn take(&self, order: Order) {
        if self.order.get() != Some(Order::GiveUp) {
            self.order.set(Some(order));
        }
        self.changed.notify();
    }

    /// Waits until it is told this, or more.
    pub(crate) async fn told(&self, order: Order) {
        let heard = || self.order.get().filter(|&told| told == order || told == Order::GiveUp);
        self.changed.until(heard).await;
    }

    /// Waits until there is nothing left to serve.
    pub(crate) async fn emptied(&self) {
        self.changed.until(|| self.arrays.borrow().is_empty().then_some(())).await;
    }

    pub(crate) async fn answer(self: Rc<Self>, request: Request) -> Answer {
        match request {
            Request::Status { array } => match self.called(array.as_deref()) {
                Ok(Some(array)) => Answer::Ok(self.report_of(&array)),
                Ok(None) => Answer::Ok(self.report()),
                Err(answer) => answer,
            },
            Request::Fail { member, array } => self.fail(&member, array.as_deref()).await,
            Request::Flag { member, flag, clear, array } => match self.having(&member, array.as_deref()) {
                Ok(array) => match array.flag(&member, flag, clear).await {
                    Ok(()) => Answer::Ok(self.report_of(&array)),
                    Err(why) => Answer::Error(format!("{member}: {why}")),
                },
                Err(answer) => answer,
            },
            Request::Action { action, max_speed, min_speed, array } => {
                let speeds = Speeds { max: max_speed, min: min_speed };
                self.act(action, speeds, array.as_deref()).await
            }
            Request::Bitmap { place: BitmapPlace::None, array, .. } => {
                self.grow(Growth::NoBitmap, array.as_deref()).await
            }
            Request::Bitmap { chunk, write_behind, array, .. } => {
                let spec = BitmapSpec { file: None, chunk, write_behind };
                self.grow(Growth::Bitmap(spec), array.as_deref()).await
            }
            Request::WriteBehind { count, array } => {
                self.grow(Growth::WriteBehind(count), array.as_deref()).await
            }
            // The desk knows what is stopped, and hands over devices by itself.
            Request::Stop { .. } | Request::Add { .. } | Request::Replace { .. } | Request::Remove { .. } => {
                Answer::Ok(Value::Null)
            }
        }
    }

    /// The array that is meant; `None` for all of the server. There is no other than the only one.
    fn called(&self, name: Option<&str>) -> Result<Option<Rc<Exported>>, Answer> {
        let arrays = self.arrays();
        let told = self.report();
        if !self.several {
            return Ok(arrays.into_iter().next());
        }
        let meant = report::select(&told, name, &self.name).map_err(Answer::Error)?;
        Ok(meant.and_then(|report| arrays.into_iter().find(|array| report["name"] == *array.name())))
    }

    /// The same, where one has to be meant.
    fn one(&self, name: Option<&str>) -> Result<Rc<Exported>, Answer> {
        let several = || Answer::Error(format!("{} serves several arrays: name one", self.name));
        self.called(name)?.ok_or_else(several)
    }

    async fn act(&self, word: Word, speeds: Speeds, array: Option<&str>) -> Answer {
        let array = match self.one(array) {
            Ok(array) => array,
            Err(answer) => return answer,
        };
        match array.act(word, speeds).await {
            Ok(()) => Answer::Ok(self.report_of(&array)),
            Err(why) => Answer::Error(format!("{}: {why}", array.name())),
        }
    }

    /// The array that is meant; if none is named, the one that has the member.
    fn having(&self, member: &str, array: Option<&str>) -> Result<Rc<Exported>, Answer> {
        if let Some(array) = self.called(array)? {
            return Ok(array);
        }
        let arrays = self.arrays();
        let mut having = arrays.iter().filter(|array| array.has(member));
        match (having.next(), having.next()) {
            (Some(array), None) => Ok(Rc::clone(array)),
            (Some(_), Some(_)) => Err(Answer::Error(format!(
                "several arrays of {} have a member {member}: name the array",
                self.name
            ))),
            (None, _) => Err(Answer::Error(format!("{member} is no member of an array of {}", self.name))),
        }
    }

    async fn fail(&self, member: &str, array: Option<&str>) -> Answer {
        let array = match self.having(member, array) {
            Ok(array) => array,
            Err(answer) => return answer,
        };
        let report = || {
            self.publish();
            self.report_of(&array)
        };
        array.fail(member, report).await
    }

    /// Stops one array, and lets its members go; the others are served on. Who asked is told of the end.
    pub(crate) fn stop_one(self: &Rc<Self>, name: &str, patience: Duration, reply: Reply) {
        let Some(array) = self.arrays().into_iter().find(|array| array.name() == name) else {
            return reply.send(Answer::Error(format!("{name} has been stopped already")));
        };
        reply.send(Answer::Ok(json!({"name": name, "stopped": true})));
        let this = Rc::clone(self);
        self.io.spawn(async move {
            let stop = array.stop(this.clients_of(&array));
            let stopped = match race(stop, this.io.sleep(patience)).await {
                Either::First(stopped) => stopped,
                Either::Second(()) => {
                    this.given_up.set(true);
                    Err(ending::not_stopped(array.name()))
                }
            };
            this.let_go(&array, stopped.as_ref().err());
            let ended = match stopped {
                Ok(()) => Ended::Well,
                Err(why) => Ended::Badly { why },
            };
            let (devices, locks) = (this.host.close(&array.hosted), Arc::clone(&this.host.world.locks));
            // Who waits for the end, waits for the members to be free.
            let free = move || {
                locks.unlock_those(&devices);
                reply.end(ended);
            };
            // Without a thread they are unlocked, and it is told, when the server ends.
            let _ = std::thread::Builder::new().name("unlock".into()).spawn(free);
        });
    }

    /// Forgets an array, and tells of it for the last time, once, whoever else has stopped it.
    fn let_go(&self, array: &Rc<Exported>, failed: Option<&String>) {
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

    /// Tells what became of the arrays.
    pub(crate) fn tell_the_end(&self) {
        for array in self.arrays() {
            self.tell_the_end_of(&array);
        }
    }

    fn tell_the_end_of(&self, array: &Exported) {
        if array.has_stopped_well() != Some(true) {
            return;
        }
        match (self.json, self.several) {
            (false, _) => log::print(format!("{}: {}\n", array.name(), array.last_words())),
            (true, true) => log::print(format!("{}\n", json!({"event": "stopped", "name": array.name()}))),
            (true, false) => {}
        }
    }

    /// Ends an export, and waits until its clients are gone.
    fn clients_of(&self, array: &Rc<Exported>) -> impl Future<Output = ()> + 'static {
        let (server, name) = (self.server.clone(), array.name().to_owned());
        async move { server.remove_export(&name).await }
    }

    /// Stops all arrays, side by side: one that hangs holds up no other. Clients of one that was given up may wait for ever.
    pub(crate) async fn stop_all(&self) -> Result<(), Failure> {
        let server = self.server.clone();
        let closed = self.io.spawn(async move { server.stop().await });
        let arrays = self.arrays();
        let stopped = join_all(arrays.iter().map(|array| array.stop(self.clients_of(array)))).await;
        if !self.given_up.get() {
            closed.await;
        }
        let mut failed = self.failed.borrow_mut();
        failed.extend(stopped.into_iter().filter_map(Result::err));
        if failed.is_empty() { Ok(()) } else { Err(Failure::Refused(failed.join("; "))) }
    }

    /// Tells what the tasks that tell had no turn for.
    pub(crate) fn tell_the_last_events(&self) {
        self.arrays().iter().for_each(|array| array.tell_the_last_events());
    }

    /// The arrays that have not stopped, for people.
    pub(crate) fn not_stopped(&self) -> String {
        let arrays = self.arrays();
        let left = arrays.iter().filter(|array| array.has_stopped_well().is_none());
        ending::not_stopped(&left.map(|array| array.name()).collect::<Vec<_>>().join(", "))
    }

    /// Keeps a report where threads can have it that must not wait for this one.
    pub(crate) fn publish_to_others(self: &Rc<Self>) -> Snapshot {
        let snapshot = Snapshot::new(self.report());
        *self.snapshot.borrow_mut() = Some(snapshot.clone());
        let service = Rc::clone(self);
        self.io.spawn(async move {
            loop {
                service.io.sleep(SNAPSHOT_EVERY).await;
                service.publish();
            }
        });
        snapshot
    }

    fn publish(&self) {
        if let Some(snapshot) = &*self.snapshot.borrow() {
            snapshot.publish(self.report());
        }
    }

    fn report_of(&self, array: &Exported) -> Value {
        array.report(&self.server.export_stats())
    }

    /// `brindle status --json`: an object, or a list of them where several arrays are served.
    fn report(&self) -> Value {
        let stats = self.server.export_stats();
        let arrays = self.arrays();
        let mut reports = arrays.iter().map(|array| array.report(&stats));
        if self.several { reports.collect() } else { reports.next().unwrap_or_default() }
    }
}
