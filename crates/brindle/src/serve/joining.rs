//! Arrays that come to a server while it runs: they are found and opened on a thread of their own, since devices may hang, and begin
//! to be served on the reactor's.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use brindle_export::Gate;
use brindle_format::md::display_uuid;
use brindle_host::mailbox::{Receiver, Sender};
use brindle_host::opening::Opening;
use brindle_host::{Exported, Listener, Placed, Service};
use brindle_io::device::{DeviceAccess, OpenDevice};
use brindle_md::assembly::Assembly;

use super::places::Address;
use crate::failure::Failure;
use crate::host::{Found, Hosted};
use crate::world::{LeftOut, Named, Set, World};

/// Time within which the reactor's thread has to take an array.
const PATIENCE: Duration = Duration::from_secs(10);

/// An array that was found, with its members open.
pub(crate) struct Joining {
    /// Names that it may have, the first that is free.
    pub(crate) names: Vec<String>,
    pub(crate) access: DeviceAccess,
    pub(crate) assembly: Assembly,
    pub(crate) members: Vec<(Named, PathBuf, OpenDevice)>,
    pub(crate) left_out: Vec<LeftOut>,
    /// The settings by which it comes.
    pub(crate) opening: Opening,
}

/// An array that is to be served, and who waits for its name.
pub(crate) struct Newcoming(Joining, mpsc::Sender<Result<String, String>>);

/// The way to a server for arrays that come to it.
#[derive(Clone)]
pub(crate) struct Joins {
    to: Sender<Newcoming>,
    /// The server names who may use which array, and would not know of this one.
    pub(crate) has_rules: bool,
}

impl Joins {
    pub(super) fn new(to: Sender<Newcoming>, has_rules: bool) -> Self {
        Self { to, has_rules }
    }

    /// Has an array be served, and gives its name.
    pub(crate) fn take(&self, joining: Joining) -> Result<String, Failure> {
        let (reply, answer) = mpsc::channel();
        self.to.send(Newcoming(joining, reply));
        let late = || "the arrays' thread does not answer: it is served as soon as that does".to_owned();
        answer.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(late())).map_err(Failure::Refused)
    }
}

/// The place of a new array in its server.
pub(super) struct Door {
    pub(super) service: Rc<Service>,
    pub(super) world: Rc<World>,
    pub(super) addresses: Rc<[Address]>,
    pub(super) listener: Listener,
}

/// Takes arrays as long as the reactor runs.
pub(super) async fn take_in(asked: Receiver<Newcoming>, door: Door) {
    loop {
        let Newcoming(joining, reply) = asked.next().await;
        let taken = door.take(joining).await;
        // One that no longer waits has said that it comes later.
        let _ = reply.send(taken.map_err(|why| why.to_string()));
    }
}

impl Door {
    async fn take(&self, joining: Joining) -> Result<String, Failure> {
        let Joining { names, access, assembly, members, left_out, opening } = joining;
        let is_free = |name: &&String| {
            self.service.array(name).is_none()
                && !self.service.pools().iter().any(|pool| pool.name() == **name)
        };
        let Some(name) = names.iter().find(is_free).cloned() else {
            return Err(Failure::Refused(format!(
                "there is an array called '{}' already",
                names.join("' and '")
            )));
        };
        let mut set = Set { left_out, ..Set::default() };
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
        let array = match self.world.begin(assembly.clone(), &ids, access).await {
            Ok(array) => array,
            Err(why) => return self.refuse(&ids, why),
        };
        let io = &self.world.io;
        let uuid = display_uuid(assembly.uuid).to_string();
        let gate = Rc::new(Gate::default());
        gate.set_rates(io, opening.limits_of(&name, &uuid).map(Into::into).unwrap_or_default());
        gate.withdraw(opening.withdraws(&name, &uuid));
        let placed = Placed {
            addresses: self.addresses.iter().map(|address| address.uri(Some(&name))).collect(),
            server: Some(self.service.name().to_owned()),
            group: super::groups::of(&opening.policies.spare_groups, &name).map(str::to_owned),
            folder: std::env::current_dir().ok(),
            gate,
            ..Placed::default()
        };
        let hosted = Hosted { name: name.clone(), array, found: Found { assembly, set } };
        let exported = Exported::new(io, hosted.given(), placed, &self.listener);
        if let Err(why) = self.service.serve(Rc::clone(&exported)) {
            // The array was not changed by anybody: it is let go as it was.
            hosted.stop().await?;
            return self.refuse(&ids, Failure::Refused(why.to_string()));
        }
        exported.resync();
        let (volumes, own) = (opening.volumes, name.clone());
        let wanted = move |name: &str, uuid: &str| {
            name == own && volumes.iter().any(|one| one.attach && one.means(name, uuid))
        };
        drop(io.spawn(Rc::clone(&self.service).attach_wanted(wanted)));
        Ok(name)
    }

    fn refuse(&self, ids: &[brindle_io::MemberId], why: Failure) -> Result<String, Failure> {
        let (locks, closed) = (std::sync::Arc::clone(&self.world.locks), self.world.close_devices(ids));
        // Unlocking may block.
        let _ = std::thread::Builder::new().name("unlock".into()).spawn(move || locks.unlock_those(&closed));
        Err(why)
    }
}
