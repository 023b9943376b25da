//! A served array as the control socket sees it: its report, and what can be asked of it.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use brindle_array::{Array, RoleState};
use brindle_export::nbd;
use brindle_io::sync::{Either, Event, race};
use brindle_io::{Duration, Io};
use brindle_volume::Volume;
use serde_json::{Value, json};

use crate::control::{Answer, Request};
use crate::desk::Snapshot;
use crate::ending::Order;
use crate::host::Host;
use crate::standing::Standing;

/// How old a report is at most that is told when the array's thread does not answer.
const SNAPSHOT_EVERY: Duration = Duration::from_secs(1);

/// How long it may take to record a failure before it is reported without that.
const RECORD_PATIENCE: Duration = Duration::from_millis(500);

/// What the control side can reach, on the reactor's thread.
pub(crate) struct Service {
    pub(crate) array: Array,
    pub(crate) server: nbd::Server<Array>,
    pub(crate) name: String,
    pub(crate) addresses: Vec<String>,
    served: Standing,
    nested: Vec<Standing>,
    left_out: Value,
    io: Io,
    snapshot: RefCell<Option<Snapshot>>,
    order: Cell<Option<Order>>,
    ordered: Event,
}

impl Service {
    /// With `json`, events are printed as objects, too.
    pub(crate) fn new(
        host: &Host,
        server: nbd::Server<Array>,
        name: String,
        addresses: Vec<String>,
        json: bool,
    ) -> Self {
        let (world, running) = (&host.world, host.only());
        let nested = running.set.nested.iter().map(|nested| {
            Standing::new(&world.io, Some(nested.label.clone()), &nested.array, &nested.assembly, json)
        });
        let left_out = running.set.left_out.iter();
        Self {
            array: running.array.clone(),
            server,
            name,
            addresses,
            served: Standing::new(&world.io, None, &running.array, &running.assembly, json),
            nested: nested.collect(),
            left_out: left_out.map(|left_out| json!({"path": left_out.label, "why": left_out.why})).collect(),
            io: world.io.clone(),
            snapshot: RefCell::default(),
            order: Cell::new(None),
            ordered: Event::new(&world.io),
        }
    }

    pub(crate) fn take(&self, order: Order) {
        if self.order.get() != Some(Order::GiveUp) {
            self.order.set(Some(order));
        }
        self.ordered.notify();
    }

    /// Waits until it is told this, or more.
    pub(crate) async fn told(&self, order: Order) {
        let heard = || self.order.get().filter(|&told| told == order || told == Order::GiveUp);
        self.ordered.until(heard).await;
    }

    /// What became of the array, for people.
    pub(crate) fn last_words(&self) -> &'static str {
        if self.array.limits().read_only {
            "stopped, nothing was written"
        } else if self.array.needs_resync() {
            "stopped; the resync goes on when it is served again"
        } else if self.array.detail().limits.iter().any(|limit| limit.forced_from().is_some()) {
            // Clean only if something was written.
            "stopped"
        } else {
            "stopped, marked clean"
        }
    }

    pub(crate) async fn answer(self: Rc<Self>, request: Request) -> Answer {
        match request {
            Request::Status => Answer::Ok(self.report()),
            Request::Fail { member } => self.fail(&member).await,
            Request::Stop => {
                self.take(Order::Stop);
                Answer::Ok(Value::Null)
            }
        }
    }

    /// What the tasks that tell had no turn for.
    pub(crate) fn tell_the_last_events(&self) {
        self.standings().for_each(|standing| standing.watched.catch_up());
    }

    /// Keeps a report where threads can have it that must not wait for this one.
    pub(crate) fn publish_to_others(self: &Rc<Self>, io: &Io) -> Snapshot {
        let snapshot = Snapshot::new(self.report());
        *self.snapshot.borrow_mut() = Some(snapshot.clone());
        let (service, clock) = (Rc::clone(self), io.clone());
        io.spawn(async move {
            loop {
                clock.sleep(SNAPSHOT_EVERY).await;
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

    async fn fail(&self, member: &str) -> Answer {
        let Some((standing, role)) = self.find(member) else {
            let known: Vec<&str> = self.standings().flat_map(Standing::members).collect();
            return Answer::Error(format!(
                "{member} is no member of {}: it has {}",
                self.name,
                known.join(", ")
            ));
        };
        let array = standing.array.clone();
        let recorded = self.io.spawn(async move { array.fail(role).await });
        let failed = race(recorded, self.io.sleep(RECORD_PATIENCE)).await;
        self.publish();
        match failed {
            Either::First(Ok(())) => Answer::Ok(self.report()),
            Either::First(Err(error)) => Answer::Error(format!("{member} stays in service: {error}")),
            // Out of service already; the other members learn of it as soon as they can.
            Either::Second(()) if standing.array.state(role) == RoleState::Failed => {
                Answer::Ok(self.report())
            }
            Either::Second(()) => Answer::Error(format!(
                "{member} is still in service: the array is busy, and fails it as soon as it can; see `brindle status`"
            )),
        }
    }

    /// The array that is served, then those that are its members.
    fn standings(&self) -> impl Iterator<Item = &Standing> {
        std::iter::once(&self.served).chain(&self.nested)
    }

    /// By the name that `serve` was given, by the number of a role of the array that is served, or by the real name of the
    /// file as it was then: no file system is asked, since it may be the one that hangs.
    fn find(&self, member: &str) -> Option<(&Standing, u16)> {
        let by = |find: &dyn Fn(&Standing) -> Option<u16>| {
            self.standings().find_map(|standing| Some((standing, find(standing)?)))
        };
        by(&|standing| standing.named(member))
            .or_else(|| Some((&self.served, self.served.numbered(member)?)))
            .or_else(|| by(&|standing| standing.same_file(Path::new(member))))
    }

    /// `brindle status --json`.
    fn report(&self) -> Value {
        let total = self.server.export_stats().into_iter().next();
        let counters = total.as_ref().map(|stats| stats.total).unwrap_or_default();
        let events: Vec<Value> = self.standings().flat_map(|standing| standing.watched.report()).collect();
        json!({
            "name": self.name,
            "pid": std::process::id(),
            "nbd": self.addresses,
            "array": self.served.report(),
            "arrays": self.nested.iter().map(Standing::report).collect::<Vec<_>>(),
            "left_out": self.left_out,
            "connections": total.map_or(0, |stats| stats.connections),
            "requests": counters.requests,
            "bytes_read": counters.read_bytes,
            "bytes_written": counters.written_bytes,
            "errors": counters.errors,
            "events": events,
            "stale_for": null,
        })
    }
}
