//! What the control thread asks and tells: requests become tasks on the array's thread, which may hang; what that
//! thread last said of the array can be had without it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use brindle_io::Remote;
use serde_json::{Value, json};

use crate::control::{Answer, Handler, Reply, Request};
use crate::ending::Ending;
use crate::report;
use crate::service::Service;

thread_local! {
    /// Jobs from other threads carry no references: they find the service here.
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

/// The last report that the array's thread has made. A handle: cloning gives the same.
#[derive(Clone)]
pub(crate) struct Snapshot(Arc<Mutex<(Value, Instant)>>);

impl Snapshot {
    pub(crate) fn new(report: Value) -> Self {
        Self(Arc::new(Mutex::new((report, Instant::now()))))
    }

    pub(crate) fn publish(&self, report: Value) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (report, Instant::now());
    }

    /// What members had not answered when the report was made: `/dev/sdc (3)`.
    pub(crate) fn owed(&self) -> Vec<String> {
        let latest = &self.0.lock().unwrap_or_else(PoisonError::into_inner).0;
        let owed = report::devices(latest).filter_map(|device| {
            let count = device["io"]["in_flight"].as_u64().filter(|&count| count > 0)?;
            Some(format!("{} ({count})", device["path"].as_str()?))
        });
        owed.collect()
    }

    /// The report, which says how old it is.
    fn told(&self) -> Value {
        let (mut report, made) = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        report["stale_for"] = json!(made.elapsed().as_secs_f64());
        report
    }
}

/// The control thread's way to the array.
pub(crate) struct Desk {
    pub(crate) name: String,
    pub(crate) remote: Remote,
    pub(crate) snapshot: Snapshot,
    pub(crate) ending: Arc<Ending>,
}

impl Desk {
    fn stopped(&self) -> Answer {
        Answer::Ok(json!({"name": self.name, "stopped": true}))
    }
}

impl Handler for Desk {
    fn begin(&self, request: Request, reply: Reply) {
        if request == Request::Stop {
            // It stops in any case, so that this needs no word of the array's.
            reply.send(self.stopped());
            return self.ending.begin();
        }
        self.remote.run(move |io| {
            with_service(|service| {
                let service = Rc::clone(service);
                io.spawn(async move {
                    reply.send(service.answer(request).await);
                });
            });
        });
    }

    fn overdue(&self, request: &Request) -> Answer {
        match request {
            Request::Status => Answer::Ok(self.snapshot.told()),
            Request::Stop => self.stopped(),
            Request::Fail { member } => Answer::Error(format!(
                "the thread of '{}' does not answer now: {member} is failed as soon as it does; see `brindle status`",
                self.name
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_owe_answers_are_named_those_of_inner_arrays_too() {
        let device = |path: &str, count: u64| json!({"path": path, "io": {"in_flight": count}});
        let snapshot = Snapshot::new(json!({
            "array": {"devices": [device("a+b", 0), device("c", 3)]},
            "arrays": [{"devices": [device("a", 0), device("b", 1)]}],
        }));
        assert_eq!(snapshot.owed(), ["b (1)", "c (3)"]);
        snapshot.publish(json!({"array": {"devices": [device("c", 0)]}, "arrays": []}));
        assert_eq!(snapshot.owed(), Vec::<String>::new());
    }
}
