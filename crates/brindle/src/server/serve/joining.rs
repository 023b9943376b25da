//! Arrays and pools that come to a server while it runs: they are found and opened on a thread of their own, since devices may hang,
//! and begin to be served on the reactor's.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use brindle_export::iscsi::Server;
use brindle_format::md::display_uuid;
use brindle_host::mailbox::{self, Receiver, Sender};
use brindle_host::opening::Opening;
use brindle_host::status::LeftOut as LeftOutStatus;
use brindle_host::{Any, Configured, Exported, HostedPool, Listener, Placed, Pooled, Service, VolumeTargets};
use brindle_io::MemberId;
use brindle_io::device::{DeviceAccess, OpenDevice};
use brindle_md::assembly::Assembly;

use super::access::Gates;
use super::places::Address;
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

/// The place of what is new in its server.
pub(super) struct Intake {
    pub(super) service: Rc<Service>,
    pub(super) world: Rc<World>,
    pub(super) addresses: Rc<[Address]>,
    /// How volumes become targets, and the server that has them.
    pub(super) targets: Option<(VolumeTargets, Server<Any>)>,
    pub(super) gates: Gates,
    pub(super) listener: Listener,
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
            Joining::Array(array) => intake.take_array(*array, &opening).await,
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
    async fn take_array(&self, joining: JoiningArray, opening: &Opening) -> Result<String, Failure> {
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
                Err(why) => return self.refuse(&ids, why),
            }
        }
        let mut opened = ids.clone();
        if let (Some((path, device)), Some(file)) = (bitmap, &mut assembly.bitmap_file) {
            match self.world.add(&path, device) {
                Ok(id) => {
                    opened.push(id);
                    file.id = Some(id);
                }
                Err(why) => return self.refuse(&opened, why),
            }
        }
        let array = match self.world.begin(assembly.clone(), &ids, access).await {
            Ok(array) => array,
            Err(why) => return self.refuse(&opened, why),
        };
        let hosted = Hosted { name: name.clone(), array, found: AssembledArray { assembly, set } };
        if let Err(why) = self.serve(&hosted, opening) {
            // No client has changed the array: it is let go as it was.
            hosted.stop().await?;
            return self.refuse(&opened, why);
        }
        Ok(name)
    }

    /// Offers an array to clients by all ways.
    fn serve(&self, hosted: &Hosted, opening: &Opening) -> Result<(), Failure> {
        let (io, name, assembly) = (&self.world.io, &hosted.name, &hosted.found.assembly);
        let gate = self.gates.of(opening, name, &display_uuid(assembly.uuid).to_string());
        let mut targets = Vec::new();
        let mut target = None;
        if let Some((ways, server)) = &self.targets {
            let (uuid, volume) = (assembly.uuid.into_bytes(), Rc::new(Any::Array(hosted.array.clone())));
            let spec = (ways.spec)(name, uuid, volume, Rc::clone(&gate)).map_err(Failure::Refused)?;
            targets = (ways.uris)(&(ways.name)(name, uuid));
            target = Some((spec, server));
        }
        let placed = Placed {
            addresses: self.addresses.iter().map(|address| address.uri(Some(name))).collect(),
            targets,
            server: Some(self.service.name().to_owned()),
            group: super::groups::of(&opening.policies.spare_groups, name).map(str::to_owned),
            folder: std::env::current_dir().ok(),
            gate,
        };
        let exported = Exported::new(io, hosted.given(), placed, &self.listener);
        self.service.serve(Rc::clone(&exported)).map_err(|why| Failure::Refused(why.to_string()))?;
        if let Some((spec, server)) = target {
            server.add_target(spec);
        }
        exported.resync();
        Ok(())
    }

    async fn take_pool(&self, joining: JoiningPool, opening: &Opening) -> Result<String, Failure> {
        let is_meant =
            |pool: &Rc<Pooled>| pool.waits() && pool.pool().label().pool.to_string() == joining.uuid;
        let waiting = self.service.pools().into_iter().find(is_meant);
        let Some(waiting) = waiting else {
            self.free(std::slice::from_ref(&joining.name))?;
            return self.open_pool(joining, Vec::new(), opening).await;
        };
        // Its devices are locked, and stay so.
        let held = waiting.devices().to_vec();
        let patience = brindle_io::Duration::from_millis(opening.stop_timeout_ms);
        let open = async || self.open_pool(joining, held, opening).await;
        let opened = self.service.exchange_pool(&waiting, patience, open).await;
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
                Err(why) => return self.refuse(&ids(&named), why),
            }
        }
        let ids = ids(&named);
        let lacking = opening.lacking_of(&name, &uuid);
        let how = PoolUse { access, lacking, take: opening.take, tuning: opening.tuning };
        let opened = match Opened::of(&self.world.io, named, left_out, how, &|_| Ok(())).await {
            Ok(opened) => opened,
            Err(why) => return self.refuse(&ids, why),
        };
        opened.warn();
        match self.offer_pool(opening, opened).await {
            Ok(name) => Ok(name),
            Err(why) => self.refuse(&ids, why),
        }
    }

    /// Offers the volumes of a pool to clients, and gives its name.
    pub(super) async fn offer_pool(&self, opening: &Opening, opened: Opened) -> Result<String, Failure> {
        let Opened { pool, members, devices, left_out, waits_for, .. } = opened;
        let (name, uuid) = (pool.label().name.clone(), pool.label().pool.to_string());
        let addresses = Rc::clone(&self.addresses);
        let hosted = HostedPool {
            name: name.clone(),
            devices,
            waits_for,
            members,
            left_out: left_out.into_iter().map(|(path, why)| LeftOutStatus { path, why }).collect(),
            addresses: Rc::new(move |export| {
                addresses.iter().map(|address| address.uri(Some(export))).collect()
            }),
            gate: self.gates.of(opening, &name, &uuid),
            targets: self.targets.as_ref().map(|(targets, _)| targets.clone()),
            server: self.service.name().to_owned(),
            folder: std::env::current_dir().ok(),
            pool,
        };
        let pooled = Pooled::new(&hosted.pool.io().clone(), hosted, &self.listener);
        self.service.serve_pool(pooled).await.map_err(|why| Failure::Refused(why.to_string()))?;
        Ok(name)
    }

    /// The first of these names that neither an array nor a pool has.
    fn free(&self, names: &[String]) -> Result<String, Failure> {
        let is_free = |name: &&String| {
            self.service.array(name).is_none()
                && !self.service.pools().iter().any(|pool| pool.name() == **name)
        };
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

    fn refuse(&self, ids: &[MemberId], why: Failure) -> Result<String, Failure> {
        let (locks, closed) = (std::sync::Arc::clone(&self.world.locks), self.world.close_devices(ids));
        // Unlocking may block.
        let _ = std::thread::Builder::new().name("unlock".into()).spawn(move || locks.unlock_those(&closed));
        Err(why)
    }
}
