//! The handler of the control socket: requests become messages to the arrays' thread, which may hang. The last status
//! is available without that thread.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::answers::{Changed, Protocol, RequestOutcome, answer};
use crate::control::{Answer, Ask, BitmapPlace, Handler, Reply, Request, VERSION};
use crate::mailbox::Sender;
use crate::orders::Message;
use crate::snapshot::{Snapshot, Stops};
use crate::status::DiskStatus;

/// Reads all files anew that a server was started with, or takes the array of this UUID, which its settings mean. Says what has changed,
/// or why nothing has.
pub type Reload = Arc<dyn Fn(Option<&str>) -> Result<Vec<String>, String> + Send + Sync>;

/// The settings of a daemon that hold now, or by which a daemon would serve as this server does; as JSON.
pub type HeldSettings = Arc<dyn Fn() -> Result<Value, String> + Send + Sync>;

/// Devices that could come to an array or a pool, without those of these names, which are its members. Waits for devices.
pub type OtherDisks = Arc<dyn Fn(&[String]) -> Vec<DiskStatus> + Send + Sync>;

/// Has the server stop for a process that takes over, and waits for its listening sockets at this path. Says why not.
pub type Takeover = Box<dyn Fn(PathBuf) -> Result<(), String> + Send>;

/// The control thread's way to the arrays. `E` begins the end of all.
pub struct ControlHandler<E> {
    /// The server's name.
    pub name: String,
    /// The version of the program.
    pub version: String,
    /// The arrays' thread.
    pub arrays: Sender<Message>,
    /// The status that it gave last.
    pub snapshot: Snapshot,
    /// Begins the end.
    pub end: E,
    /// Begins the end of all for another process.
    pub takeover: Takeover,
    /// Reads files anew.
    pub reload: Reload,
    /// Devices that are no members.
    pub disks: OtherDisks,
    /// The settings that hold.
    pub settings: HeldSettings,
    /// Time that stopping an array may take.
    pub patience: Duration,
}

impl<E> ControlHandler<E> {
    fn stopped(&self) -> Answer {
        answer(Ok(RequestOutcome::stopped(&self.name)))
    }

    /// On a thread of its own, since a file system may take its time.
    fn reload(&self, only: Option<String>, reply: Reply) {
        let (reload, reply) = (Arc::clone(&self.reload), Arc::new(reply));
        let answers = Arc::clone(&reply);
        let work = move || match reload(only.as_deref()) {
            Ok(changed) => answers.send(answer(Ok(Changed { changed }))),
            Err(why) => answers.send(Answer::Error(why)),
        };
        if let Err(error) = std::thread::Builder::new().name("reload".into()).spawn(work) {
            reply.send(Answer::Error(format!("no thread can be started that reads files: {error}")));
        }
    }

    /// On a thread of its own, since devices may take their time.
    fn disks(&self, reply: Reply) {
        let (disks, reply) = (Arc::clone(&self.disks), Arc::new(reply));
        let (answers, members) = (Arc::clone(&reply), self.snapshot.devices());
        let work = move || answers.send(answer(Ok(disks(&members))));
        if let Err(error) = std::thread::Builder::new().name("disks".into()).spawn(work) {
            reply.send(Answer::Error(format!("no thread can be started that looks at disks: {error}")));
        }
    }

    fn settings(&self) -> Answer {
        match (self.settings)() {
            Ok(settings) => Answer::Ok(settings),
            Err(why) => Answer::Error(why),
        }
    }

    /// The last status, for those who do not know it yet, without asking the arrays' thread.
    fn look(&self, known: Option<u64>) -> Answer {
        answer(Ok(self.snapshot.look(known)))
    }

    /// The answer from the last status, without asking the arrays' thread.
    fn metrics(&self, full: bool) -> Answer {
        answer(Ok(self.snapshot.metrics(&self.name, &self.version, full)))
    }
}

impl<E: Fn() + Send + 'static> Handler for ControlHandler<E> {
    fn begin(&self, request: Request, reply: Reply) {
        match request.ask {
            Ask::Stop => {}
            Ask::Takeover { socket } => {
                return reply.send(match (self.takeover)(socket) {
                    Ok(()) => self.stopped(),
                    Err(why) => Answer::Error(why),
                });
            }
            Ask::Version => return reply.send(version()),
            Ask::Look { known } => return reply.send(self.look(known)),
            Ask::Reload => return self.reload(None, reply),
            Ask::Incremental { uuid } => return self.reload(Some(uuid), reply),
            Ask::Metrics { full } => return reply.send(self.metrics(full)),
            Ask::Disks => return self.disks(reply),
            Ask::Settings => return reply.send(self.settings()),
            _ => return self.arrays.send(Message::Ask(request, reply)),
        }
        match self.snapshot.stops(request.array.as_deref(), &self.name) {
            Ok(Stops::All) => {
                // It stops in any case, so that this needs no word of the arrays'.
                reply.send(self.stopped());
                (self.end)();
            }
            Ok(Stops::One(name)) => self.arrays.send(Message::StopOne(name, self.patience, reply)),
            Err(why) => reply.send(answer::<Value>(Err(why))),
        }
    }

    fn overdue(&self, request: &Request) -> Answer {
        let late = |what: &str| {
            Answer::Error(format!(
                "the thread of '{}' does not answer now: {what} as soon as it does; see `brindle status`",
                self.name
            ))
        };
        let array = request.array.as_deref();
        match &request.ask {
            Ask::Version => version(),
            Ask::Look { known } => self.look(*known),
            Ask::Metrics { full } => self.metrics(*full),
            Ask::Settings => self.settings(),
            Ask::Status => answer(self.snapshot.report(array, &self.name)),
            Ask::Disks => Answer::Error("disks do not all answer now: ask again".to_owned()),
            Ask::Reload => late("files are read again"),
            Ask::Incremental { uuid } => late(&format!("{uuid} is served")),
            Ask::Fail { member, .. } => late(&format!("{member} is failed")),
            Ask::Add { devices, .. } => late(&format!("{} is added", list(devices))),
            Ask::Replace { member, .. } => late(&format!("{member} is replaced")),
            Ask::Remove { devices, .. } => late(&format!("{} is removed", devices.join(", "))),
            Ask::Flag { member, flag, .. } => late(&format!("'{}' of {member} is changed", flag.name())),
            Ask::Bitmap { place, .. } => late(match place {
                BitmapPlace::None => "the bitmap is removed",
                BitmapPlace::Internal => "the bitmap is added",
                BitmapPlace::File { .. } => "the bitmap is put in the file",
            }),
            Ask::Reshape { .. } => late("the array is given that shape"),
            Ask::Resize { .. } => late("the array is given that size"),
            Ask::WriteBehind { .. } => late("'write-behind' is changed"),
            Ask::Action { action, .. } => late(&format!("'{}' is done", action.name())),
            Ask::VolumeCreate { name, .. } => late(&format!("volume {name} is created")),
            Ask::PoolExport { pool, .. } => late(&format!("pool {pool} is exported if it is stopped then")),
            Ask::PoolHistory { pool } => late(&format!("the history of {pool} is read")),
            Ask::PoolRename { to, .. } => late(&format!("the pool is called {to}")),
            Ask::PoolOffline { member, .. } => late(&format!("{member} is offline")),
            Ask::PoolOnline { member, .. } => late(&format!("{member} is in use again")),
            Ask::PoolReplace { member, .. } => late(&format!("the replacement of {member} begins")),
            Ask::PoolAdd { devices, .. } => late(&format!("{} is added", list(devices))),
            Ask::PoolAttach { device, .. } => late(&format!("{} is attached", device.display())),
            Ask::PoolDetach { member, .. } => late(&format!("{member} is detached")),
            Ask::VolumeRename { name, .. } => late(&format!("volume {name} is renamed")),
            Ask::VolumeDestroy { name, .. } => late(&format!("volume {name} is destroyed")),
            Ask::Attach { .. } => late("the device is made"),
            Ask::Detach => late("the device is ended"),
            Ask::Mount { folder, .. } => late(&format!("{} is served", folder.display())),
            Ask::Export { .. } => late("the array is offered to clients"),
            Ask::Unexport => late("the array is offered to no client any more"),
            Ask::Disconnect { .. } => late("clients are disconnected"),
            // It is answered at once: if not, the server ended in the meantime, as it was asked to.
            Ask::Takeover { .. } => self.stopped(),
            Ask::Stop => match self.snapshot.stops(array, &self.name) {
                Ok(Stops::All) => self.stopped(),
                Ok(Stops::One(name)) => late(&format!("{name} is stopped")),
                Err(why) => answer::<Value>(Err(why)),
            },
        }
    }
}

fn version() -> Answer {
    answer(Ok(Protocol { version: VERSION }))
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
