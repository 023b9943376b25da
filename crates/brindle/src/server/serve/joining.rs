//! Takes arrays and pools into a server: those that it is started with, and those that come while it runs. The latter are found and opened
//! on a thread of their own, since devices may hang, and begin to be served on the reactor's.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use brindle_format::md::display_uuid;
use brindle_host::mailbox::{self, Receiver, Sender};
use brindle_host::opening::Opening;
use brindle_host::status::LeftOut as LeftOutStatus;
use brindle_host::{
    Configured, Content, Host as _, HostedPool, Listener, Placed, ServedArray, ServedPool, Service, all_of,
};
use brindle_io::MemberId;
use brindle_io::device::{DeviceAccess, OpenDevice};
use brindle_md::assembly::Assembly;

use super::access::Gates;
use crate::base::failure::Failure;
use crate::devices::host::{AssembledArray, Hosted};
use crate::devices::pools::{Opened, PoolUse};
use crate::devices::unserved::Unserved;
use crate::devices::world::{LeftOut, Named, Set, World};

/// Time within which the reactor's thread has to take an array.
const PATIENCE: Duration = Duration::from_secs(10);

/// An array that was found, with its members open.
pub(crate) struct JoiningArray {
    /// Names that it may have, the first that is free.
    pub(crate) names: Vec<String>,
    pub(crate) access: DeviceAccess,
    pub(crate) assembly: Assembly,
    pub(crate) members: Vec<(Named, PathBuf, OpenDevice)>,
    /// The file of its write-intent bitmap, if it is to be written to.
    pub(crate) bitmap: Option<(PathBuf, OpenDevice)>,
    pub(crate) left_out: Vec<LeftOut>,
}

/// A pool that was found, with its members open.
pub(crate) struct JoiningPool {
    pub(crate) name: String,
    pub(crate) uuid: String,
    pub(crate) access: DeviceAccess,
    pub(crate) members: Vec<(PathBuf, OpenDevice)>,
    /// Devices that are done without, and why.
    pub(crate) left_out: Vec<(String, String)>,
}

/// Something that was found.
pub(crate) enum Joining {
    Array(Box<JoiningArray>),
    Pool(JoiningPool),
}

/// Something that is to be served, the settings by which it comes, and who waits for its name.
pub(crate) struct Newcoming(Joining, Opening, mpsc::Sender<Result<String, String>>);

/// The way to a server for arrays and pools that come to it.
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

    /// Has an array or a pool be served, and gives its name.
    pub(crate) fn take(&self, joining: Joining, opening: Opening) -> Result<String, Failure> {
        let (reply, answer) = mpsc::channel();
        self.to.send(Newcoming(joining, opening, reply));
        let late = || "the arrays' thread does not answer: it is served as soon as that does".to_owned();
        answer.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(late())).map_err(Failure::Refused)
    }
}

/// The place of contents in their server.
pub(super) struct Intake {
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

/// Takes arrays and pools as long as the reactor runs.
pub(super) async fn take_in(asked: Receiver<Newcoming>, intake: Intake) {
    loop {
        let Newcoming(joining, opening, reply) = asked.next().await;
        let taken = match joining {
            Joining::Array(array) => intake.open_array(*array, &opening).await,
            Joining::Pool(pool) => intake.take_pool(pool, &opening).await,
        };
        if let Ok(name) = &taken {
            intake.gates.warn_of(name);
            intake.attach(name.clone(), opening);
        }
        // One that no longer waits has said that it comes later.
        let _ = reply.send(taken.map_err(|why| why.to_string()));
    }
}

impl Intake {
    /// An array that runs, as content.
    pub(super) fn array(&self, hosted: &Hosted, opening: &Opening) -> Rc<dyn Content> {
        let uuid = display_uuid(hosted.found.assembly.uuid).to_string();
        let placed = self.placed(opening, (&hosted.name, &uuid), self.is_named);
        let mut given = hosted.given();
        given.spare_group =
            super::groups::of(&opening.policies.spare_groups, &hosted.name).map(str::to_owned);
        ServedArray::new(&self.world.io, given, placed, &self.listener)
    }

    /// A pool that runs, as content.
    pub(super) fn pool(&self, opened: Opened, opening: &Opening) -> Rc<dyn Content> {
        let Opened { pool, members, devices, left_out, waits_for, .. } = opened;
        let (name, uuid) = (pool.label().name.clone(), pool.label().pool.to_string());
        let placed = self.placed(opening, (&name, &uuid), true);
        let left_out = left_out.into_iter().map(|(path, why)| LeftOutStatus { path, why }).collect();
        let hosted = HostedPool { name, pool, members, left_out, devices, waits_for };
        ServedPool::new(&self.world.io, hosted, placed, &self.listener)
    }

    fn placed(&self, opening: &Opening, (name, uuid): (&str, &str), is_named: bool) -> Placed {
        Placed {
            server: is_named.then(|| self.service.name().to_owned()),
            folder: std::env::current_dir().ok(),
            gate: self.gates.of(opening, name, uuid),
        }
    }

    /// Has a content be served, or stops it.
    async fn serve(&self, content: Rc<dyn Content>) -> Result<String, Failure> {
        match self.service.take_in(&content) {
            Ok(()) => Ok(content.name().to_owned()),
            Err(why) => {
                self.service.refuse(&content).await;
                Err(Failure::Refused(why.to_string()))
            }
        }
    }

    async fn open_array(&self, joining: JoiningArray, opening: &Opening) -> Result<String, Failure> {
        let JoiningArray { names, access, mut assembly, members, bitmap, left_out } = joining;
        let name = self.free(&names)?;
        let mut set =
            Set { left_out, bitmap: bitmap.as_ref().map(|(path, _)| path.clone()), ..Set::default() };
        let mut ids = Vec::with_capacity(members.len());
        for (named, path, device) in members {
            match self.world.add(&path, device) {
                Ok(id) => {
                    ids.push(id);
                    set.members.push(Named { id, ..named });
                }
                Err(why) => return Err(self.close(&ids, why)),
            }
        }
        let mut opened = ids.clone();
        if let (Some((path, device)), Some(file)) = (bitmap, &mut assembly.bitmap_file) {
            match self.world.add(&path, device) {
                Ok(id) => {
                    opened.push(id);
                    file.id = Some(id);
                }
                Err(why) => return Err(self.close(&opened, why)),
            }
        }
        let array = match self.world.begin(assembly.clone(), &ids, access).await {
            Ok(array) => array,
            Err(why) => return Err(self.close(&opened, why)),
        };
        let hosted = Hosted { name, array, found: AssembledArray { assembly, set } };
        match self.serve(self.array(&hosted, opening)).await {
            Ok(name) => Ok(name),
            Err(why) => Err(self.close(&opened, why)),
        }
    }

    async fn take_pool(&self, joining: JoiningPool, opening: &Opening) -> Result<String, Failure> {
        let is_meant = |pool: &Rc<ServedPool>| pool.waits() && pool.uuid() == joining.uuid;
        let waiting = all_of::<ServedPool>(&*self.service).into_iter().find(is_meant);
        let Some(waiting) = waiting else {
            self.free(std::slice::from_ref(&joining.name))?;
            return self.open_pool(joining, Vec::new(), opening).await;
        };
        // Its devices are locked, and stay so.
        let held = waiting.named_devices().to_vec();
        let patience = brindle_io::Duration::from_millis(opening.stop_timeout_ms);
        let open = async || self.open_pool(joining, held, opening).await;
        let waiting: Rc<dyn Content> = waiting;
        let opened = self.service.exchange(&waiting, patience, open).await;
        opened.map_err(|why| Failure::Refused(why.to_string()))?
    }

    /// Opens a pool on devices that are `held`, and those that come.
    async fn open_pool(
        &self,
        joining: JoiningPool,
        held: Vec<(String, MemberId)>,
        opening: &Opening,
    ) -> Result<String, Failure> {
        let JoiningPool { name, uuid, access, members, left_out } = joining;
        let mut named = held;
        let ids = |named: &[(String, MemberId)]| named.iter().map(|(_, id)| *id).collect::<Vec<_>>();
        for (path, device) in members {
            match self.world.add(&path, device) {
                Ok(id) => named.push((path.display().to_string(), id)),
                Err(why) => return Err(self.close(&ids(&named), why)),
            }
        }
        let ids = ids(&named);
        let lacking = opening.lacking_of(&name, &uuid);
        let how = PoolUse { access, lacking, take: opening.take, tuning: opening.tuning };
        let opened = match Opened::of(&self.world.io, named, left_out, how, &|_| Ok(())).await {
            Ok(opened) => opened,
            Err(why) => return Err(self.close(&ids, why)),
        };
        opened.warn();
        match self.serve(self.pool(opened, opening)).await {
            Ok(name) => Ok(name),
            Err(why) => Err(self.close(&ids, why)),
        }
    }

    /// The first of these names that no content has.
    fn free(&self, names: &[String]) -> Result<String, Failure> {
        names.iter().find(|name| self.service.content(name).is_none()).cloned().ok_or_else(|| {
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
