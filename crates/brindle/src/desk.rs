//! What the control thread asks and tells: requests become tasks on the arrays' thread, which may hang; what that thread
//! last said of the arrays can be had without it.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use brindle_io::{Io, Remote};
use serde_json::json;

use crate::control::{Answer, BitmapPlace, Handler, Reply, Request};
use crate::ending::Ending;
use crate::growth::Filed;
use crate::service::newcomer::Coming;
use crate::service::{Service, with_service};
use crate::snapshot::{Snapshot, Stops};

/// The control thread's way to the arrays.
pub(crate) struct Desk {
    pub(crate) name: String,
    pub(crate) remote: Remote,
    pub(crate) snapshot: Snapshot,
    pub(crate) ending: Arc<Ending>,
    /// How long stopping an array may take.
    pub(crate) patience: Duration,
}

impl Desk {
    fn stopped(&self) -> Answer {
        Answer::Ok(json!({"name": self.name, "stopped": true}))
    }

    /// Sends a job to the arrays' thread.
    fn job(&self, work: impl FnOnce(&Io, &Rc<Service>) + Send + 'static) {
        self.remote.run(move |io| with_service(|service| work(io, service)));
    }
}

impl Handler for Desk {
    fn begin(&self, request: Request, reply: Reply) {
        let array = match request {
            Request::Stop { array } => array,
            Request::Add { devices, force, re_add, array } => {
                let coming = Coming { force, re_add };
                return self.job(move |_, service| service.add(devices, coming, array.as_deref(), reply));
            }
            Request::Replace { member, with, force, array } => {
                return self
                    .job(move |_, service| service.replace(&member, with, force, array.as_deref(), reply));
            }
            Request::Remove { devices, array } => {
                return self.job(move |io, service| {
                    drop(io.spawn(Rc::clone(service).remove(devices, array, reply)));
                });
            }
            Request::Bitmap { place: BitmapPlace::File { path }, chunk, write_behind, force, array } => {
                let filed = Filed { path, chunk, write_behind, force };
                return self.job(move |_, service| service.file_bitmap(filed, array.as_deref(), reply));
            }
            request => {
                return self.job(move |io, service| {
                    let service = Rc::clone(service);
                    io.spawn(async move {
                        reply.send(service.answer(request).await);
                    });
                });
            }
        };
        match self.snapshot.stops(array.as_deref(), &self.name) {
            Stops::All => {
                // It stops in any case, so that this needs no word of the arrays'.
                reply.send(self.stopped());
                self.ending.begin();
            }
            Stops::One(name) => {
                let patience = brindle_io::Duration::from_millis(self.patience.as_millis() as u64);
                self.job(move |_, service| service.stop_one(&name, patience, reply));
            }
            Stops::Nothing(why) => reply.send(Answer::Error(why)),
        }
    }

    fn overdue(&self, request: &Request) -> Answer {
        let late = |what: &str| {
            Answer::Error(format!(
                "the thread of '{}' does not answer now: {what} as soon as it does; see `brindle status`",
                self.name
            ))
        };
        match request {
            Request::Status { array } => self.snapshot.told(array.as_deref(), &self.name),
            Request::Fail { member, .. } => late(&format!("{member} is failed")),
            Request::Add { devices, .. } => late(&format!("{} is added", list(devices))),
            Request::Replace { member, .. } => late(&format!("{member} is replaced")),
            Request::Remove { devices, .. } => late(&format!("{} is removed", devices.join(", "))),
            Request::Flag { member, flag, .. } => late(&format!("'{}' of {member} is changed", flag.name())),
            Request::Bitmap { place, .. } => late(match place {
                BitmapPlace::None => "the bitmap is removed",
                BitmapPlace::Internal => "the bitmap is added",
                BitmapPlace::File { .. } => "the bitmap is put in the file",
            }),
            Request::WriteBehind { .. } => late("'write-behind' is changed"),
            Request::Action { action, .. } => late(&format!("'{}' is done", action.name())),
            Request::Stop { array } => match self.snapshot.stops(array.as_deref(), &self.name) {
                Stops::All => self.stopped(),
                Stops::One(name) => late(&format!("{name} is stopped")),
                Stops::Nothing(why) => Answer::Error(why),
            },
        }
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
