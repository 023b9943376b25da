//! Takes contents of all kinds into a server: at its start, and while it runs. A content that comes while it runs is found, and its devices
//! are opened, on another thread, since devices may hang. It begins to be served on the reactor's.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use brindle_host::mailbox::{self, Receiver, Sender};
use brindle_host::opening::Opening;
use brindle_host::{Configured, Content, Host as _, HostError, Listener, Placed, Service};
use brindle_io::MemberId;

use super::access::Gates;
use crate::base::failure::Failure;
use crate::devices::unserved::Unserved;
use crate::devices::world::World;

/// Time within which the reactor's thread has to take a content.
const PATIENCE: Duration = Duration::from_secs(10);

/// A content as it is opened, on the reactor's thread.
pub(crate) type OpenedContent<'a> = Pin<Box<dyn Future<Output = Result<Rc<dyn Content>, Failure>> + 'a>>;

/// A content that was found, with its devices open. It goes from the thread that has found it to the reactor's.
pub(crate) trait Joining: Send {
    /// Names that it may have, the first that is free.
    fn names(&self) -> &[String];

    /// The content that stops for it, whose devices it takes over.
    fn takes_place(&mut self, _service: &Service) -> Option<Rc<dyn Content>> {
        None
    }

    /// Opens it. If that fails its devices are closed.
    fn open<'a>(self: Box<Self>, name: String, at: &'a Intake, opening: &'a Opening) -> OpenedContent<'a>;
}

/// Something that is to be served, the settings by which it comes, and who waits for its name.
pub(crate) struct Newcoming(Box<dyn Joining>, Opening, mpsc::Sender<Result<String, String>>);

/// The way to a server for contents that come to it.
#[derive(Clone)]
pub(crate) struct Joins {
    to: Sender<Newcoming>,
    /// All that the settings mean, with the reasons why some of it is not served.
    configured: Arc<Mutex<Vec<Configured>>>,
    noted: Sender<Vec<Configured>>,
}

impl Joins {
    fn new(to: Sender<Newcoming>, noted: Sender<Vec<Configured>>, configured: Vec<Configured>) -> Self {
        Self { to, configured: Arc::new(Mutex::new(configured)), noted }
    }

    /// Changes what the settings mean, and has the server report it.
    pub(crate) fn configure(&self, change: impl FnOnce(&mut Vec<Configured>)) {
        let mut configured = self.configured.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut configured);
        self.noted.send(configured.clone());
    }

    /// Has a content be served, and gives its name.
    pub(crate) fn take(&self, joining: Box<dyn Joining>, opening: Opening) -> Result<String, Failure> {
        let (reply, answer) = mpsc::channel();
        self.to.send(Newcoming(joining, opening, reply));
        let late = || "the arrays' thread does not answer: it is served as soon as that does".to_owned();
        answer.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(late())).map_err(Failure::Refused)
    }
}

/// The place of contents in their server.
pub(crate) struct Intake {
    pub(super) service: Rc<Service>,
    pub(super) world: Rc<World>,
    pub(super) gates: Gates,
    pub(super) listener: Listener,
    /// Reports and addresses name each content: it is one of several, or others may come.
    pub(super) is_named: bool,
}

/// The way to a server whose settings mean all of this. Contents that it could not serve have the reasons.
pub(super) fn configured(
    service: &Rc<Service>,
    to: Sender<Newcoming>,
    mut configured: Vec<Configured>,
    unserved: &Unserved,
) -> Joins {
    for one in &mut configured {
        let why = one.volume.uuid.as_ref().and_then(|uuid| unserved.why(uuid));
        one.why = why.unwrap_or_else(|| core::mem::take(&mut one.why));
    }
    service.configure(configured.clone());
    let (noted, all) = mailbox::mailbox(service.io());
    drop(service.io().spawn(note(all, Rc::clone(service))));
    Joins::new(to, noted, configured)
}

/// Notes what the settings mean, as long as the reactor runs.
async fn note(configured: Receiver<Vec<Configured>>, service: Rc<Service>) {
    loop {
        service.configure(configured.next().await);
    }
}

/// Takes contents as long as the reactor runs.
pub(super) async fn take_in(asked: Receiver<Newcoming>, intake: Intake) {
    loop {
        let Newcoming(joining, opening, reply) = asked.next().await;
        let taken = intake.take(joining, &opening).await;
        if let Ok(name) = &taken {
            intake.gates.warn_of(name);
            intake.attach(name.clone(), opening);
        }
        // One that no longer waits has said that it comes later.
        let _ = reply.send(taken.map_err(|why| why.to_string()));
    }
}

impl Intake {
    /// The place of a content of that name and UUID.
    pub(super) fn placed(&self, opening: &Opening, (name, uuid): (&str, &str), is_named: bool) -> Placed {
        Placed {
            server: is_named.then(|| self.service.name().to_owned()),
            folder: std::env::current_dir().ok(),
            gate: self.gates.of(opening, name, uuid),
        }
    }

    /// Stops a content that is not served, and closes its devices.
    pub(super) async fn refuse(&self, content: &Rc<dyn Content>, why: &HostError) -> Failure {
        self.service.refuse(content).await;
        self.close(&content.devices(&*self.service), Failure::Refused(why.to_string()))
    }

    /// Takes a content in, in the place of another if it is to have that.
    async fn take(&self, mut joining: Box<dyn Joining>, opening: &Opening) -> Result<String, Failure> {
        let Some(before) = joining.takes_place(&self.service) else {
            let name = self.free(joining.names())?;
            return self.open(joining, name, opening).await;
        };
        let (name, patience) = (before.name().to_owned(), opening.stop_timeout_ms);
        let open = async || self.open(joining, name, opening).await;
        let patience = brindle_io::Duration::from_millis(patience);
        let opened = self.service.exchange(&before, patience, open).await;
        opened.map_err(|why| Failure::Refused(why.to_string()))?
    }

    async fn open(
        &self,
        joining: Box<dyn Joining>,
        name: String,
        opening: &Opening,
    ) -> Result<String, Failure> {
        let content = joining.open(name, self, opening).await?;
        match self.service.take_in(&content) {
            Ok(()) => Ok(content.name().to_owned()),
            Err(why) => Err(self.refuse(&content, &why).await),
        }
    }

    /// The first of these names that no content has.
    fn free(&self, names: &[String]) -> Result<String, Failure> {
        let contents = self.service.contents();
        let is_free = |name: &&String| !contents.iter().any(|other| other.claims(name));
        names.iter().find(is_free).cloned().ok_or_else(|| {
            Failure::Refused(format!(
                "there is an array or a pool called '{}' already",
                names.join("' and '")
            ))
        })
    }

    /// Makes the devices of the kernel that the settings ask for.
    fn attach(&self, own: String, opening: Opening) {
        let wanted = move |name: &str, uuid: &str| {
            name == own && opening.volumes.iter().any(|one| one.attach && one.means(name, uuid))
        };
        drop(self.world.io.spawn(Rc::clone(&self.service).attach_wanted(wanted)));
    }

    /// Closes the devices of what is not served.
    pub(super) fn close(&self, ids: &[MemberId], why: Failure) -> Failure {
        let (locks, closed) = (std::sync::Arc::clone(&self.world.locks), self.world.close_devices(ids));
        // Unlocking may block.
        let _ = std::thread::Builder::new().name("unlock".into()).spawn(move || locks.unlock_those(&closed));
        why
    }
}
