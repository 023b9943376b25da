//! Contents are opened and taken in, and clients are answered.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use brindle_host::opening::{Config, Opening};
use brindle_host::{Service, mailbox};

use super::access::{self, AccessFile, Gates, Servable};
use super::announce::listener;
use super::claimed::{Alone, Entrance, Held, Left};
use super::crew::Crew;
use super::doors::OpenDoors;
use super::job::DaemonJob;
use super::joining::{self, Intake, Joins};
use super::kinds::AtStart;
use super::looked::{Known, Meant, Rules, ServerPlace};
use super::planned::Task;
use super::reload::{Admission, Anew};
use crate::base::failure::Failure;
use crate::devices::ring::Ring;
use crate::devices::world::World;
use crate::server::settings::{RunningSettings, Sought};
use crate::server::shutdown::Socket;

/// A server that has all its contents. Its reactor answers once it is driven.
pub(super) struct Serving<'a> {
    pub(super) served: Served,
    pub(super) anew: Arc<Anew>,
    pub(super) left: Left,
    /// All sockets in the file system.
    pub(super) sockets: Vec<Socket>,
    pub(super) held: Held,
    pub(super) place: ServerPlace,
    pub(super) task: Task<'a>,
}

/// Ends the world in which contents are served: tasks in it hold the service, and so the world itself.
pub(super) struct Served {
    pub(super) service: Rc<Service>,
    pub(super) world: Rc<World>,
    /// The reactors beside the world's.
    crew: Option<Crew>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.crew.iter().for_each(Crew::end);
        self.world.end();
        self.crew.iter().for_each(|crew| self.world.tell_left_elsewhere(&crew.join()));
    }
}

impl<'a> Alone<'a> {
    /// Opens contents that are not open, which may write to them, takes all contents in, and has the doors answer.
    pub(super) fn serve(self) -> Result<Serving<'a>, Failure> {
        let Self { known, held, left, entrance, world, contents } = self;
        let Known { mut task, meant, rules, place } = known;
        let Rules { access, servable, proofs } = rules;
        let Entrance { entrances, sockets, certificates } = entrance;
        let (opening, io) = (&task.job.opening, world.io.clone());
        let several = contents.iter().map(|contents| contents.uuids().len()).sum::<usize>() > 1;
        let at = AtStart { opening, world: &world, unserved: &meant.unserved };
        let opened = contents.into_iter().map(|contents| contents.open(&at));
        let opened = opened.collect::<Result<Vec<_>, _>>()?;
        let access = access.map(|access| Rc::new(RefCell::new(access)));
        let is_shared = entrances.has_shared_writers();
        let gates = Gates { io: io.clone(), access: access.clone(), is_shared, servable: servable.clone() };
        let mut doors = entrances.open(&io, opening)?;
        let crew = doors.crew.take();
        let is_named = opening.own_names || several;
        let (served, intake) =
            Served::begin((world, crew), (&place, task.job.json), &doors, (gates, is_named));
        for content in opened.into_iter().flatten().map(|opened| opened(&intake, opening)) {
            if let Err(why) = served.service.take_in(&content) {
                let why = io.block_on(intake.refuse(&content, &why));
                meant.unserved.leave(content.name(), &content.uuid(), why)?;
            }
        }
        served.hear_of_names(&task, access.clone(), servable.clone());
        task.job.daemon.iter().for_each(|daemon| served.service.hear_of_drives(daemon.failing.clone()));
        let (to, files) = mailbox::mailbox(&io);
        drop(io.spawn(access::admit(files, access, Rc::clone(&served.service), doors.initiators())));
        doors.answer(certificates.as_ref());
        let joins = join(&served, intake, meant);
        let settings = task.job.daemon.take().map(|daemon| running(daemon, &place, &task.job.opening, joins));
        let secrets = task.job.opening.exports.iscsi.as_ref().and_then(|iscsi| iscsi.secrets.clone());
        let (access, bearer) = (task.job.opening.exports.access.clone(), task.metrics.bearer.clone());
        let reading = Mutex::default();
        let admission = Admission { certificates, access, servable, proofs, secrets, bearer, to, reading };
        let anew = Anew { admission, settings, looks: AtomicBool::new(false), json: task.job.json };
        Ok(Serving { served, anew: Arc::new(anew), left, sockets, held, place, task })
    }
}

impl Served {
    /// A server without contents, and the way in for these.
    fn begin(
        (world, crew): (World, Option<Crew>),
        (place, json): (&ServerPlace, bool),
        doors: &OpenDoors,
        (gates, is_named): (Gates, bool),
    ) -> (Self, Intake) {
        let (world, listener) = (Rc::new(world), listener(json));
        let ring = Rc::new(Ring(Rc::clone(&world)));
        let service =
            Service::new(&world.io, place.name.clone(), ring, doors.doors.clone(), Rc::clone(&listener));
        let served = Self { service: Rc::clone(&service), world: Rc::clone(&world), crew };
        (served, Intake { service, world, gates, listener, is_named })
    }
}

impl Served {
    /// Has the names of contents be known where files are read anew, and tells what calls one by a name that it has no more.
    fn hear_of_names(&self, task: &Task<'_>, access: Option<Rc<RefCell<AccessFile>>>, servable: Servable) {
        // The settings of a daemon are those that it read last, which the service knows.
        let volumes = match task.job.daemon {
            None => task.job.opening.volumes.clone(),
            Some(_) => Vec::new(),
        };
        self.service.on_renamed(Box::new(move |renamed| {
            servable.rename(renamed.from, renamed.to);
            let rules = access.iter().filter_map(|access| access.borrow().calls(renamed.from));
            let called = volumes.iter().any(|volume| volume.calls(renamed.from));
            rules.chain(called.then(|| renamed.settings())).collect()
        }));
    }
}

/// Has contents be taken in that come later.
fn join(served: &Served, intake: Intake, Meant { configured, unserved }: Meant) -> Joins {
    let (to, asked) = mailbox::mailbox(&served.world.io);
    // Whatever comes later has a name of its own.
    drop(served.world.io.spawn(joining::take_in(asked, Intake { is_named: true, ..intake })));
    joining::configured(&served.service, to, configured, &unserved)
}

/// The settings of a daemon, by which contents come later.
fn running(daemon: DaemonJob<'_>, place: &ServerPlace, opening: &Opening, joins: Joins) -> RunningSettings {
    let (take, folder) = (daemon.more, place.folder.clone());
    let more = move |config: &Config, sought: Sought<'_>| take(&joins, config, &folder, sought);
    daemon.settings.of(&place.folder, &place.name, opening, Box::new(more))
}
