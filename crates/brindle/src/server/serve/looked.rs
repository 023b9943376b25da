//! Members are looked for and looked at, and the server gets its name. No member is locked, and none is written to.

use std::path::PathBuf;

use brindle_host::Configured;
use brindle_io::uring;

use super::access::{AccessFile, Proofs, Servable};
use super::detached::Detached;
use super::groups;
use super::job::ServeJob;
use super::kinds::{self, FoundContents, Looking};
use super::planned::{Cleared, Task, Ways};
use super::takeover::Predecessor;
use crate::base::failure::Failure;
use crate::base::runtime;
use crate::devices::unserved::Unserved;
use crate::devices::world::WorldOptions;
use crate::server::descriptors::Room;

/// A server that knows its members.
pub(super) struct LookedAt<'a> {
    pub(super) seen: Seen,
    pub(super) predecessor: Option<Predecessor<'a>>,
    pub(super) ways: Ways,
    pub(super) known: Known<'a>,
}

/// Contents that were found.
pub(super) struct Seen {
    pub(super) how: WorldOptions,
    /// Of each kind.
    pub(super) contents: Vec<Box<dyn FoundContents>>,
    /// The names of all of them.
    names: Vec<String>,
}

/// All that is known of a server that has its name.
pub(super) struct Known<'a> {
    pub(super) task: Task<'a>,
    pub(super) meant: Meant,
    pub(super) rules: Rules,
    pub(super) place: ServerPlace,
}

/// All that the settings mean, and the part of it that can't be served.
pub(super) struct Meant {
    pub(super) configured: Vec<Configured>,
    pub(super) unserved: Unserved,
}

/// Rules of access, and what they are held against.
pub(super) struct Rules {
    pub(super) access: Option<AccessFile>,
    pub(super) servable: Servable,
    pub(super) proofs: Proofs,
}

/// The name of a server, and its folder.
pub(super) struct ServerPlace {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    /// Another process waits until it serves.
    pub(super) detached: Option<Detached>,
}

impl<'a> Cleared<'a> {
    /// Looks for members, and at them. None is locked.
    pub(super) fn look(self) -> Result<LookedAt<'a>, Failure> {
        let Self { predecessor, mut task, ways, room } = self;
        let moving = predecessor.iter().flat_map(|before| before.moving().iter().cloned());
        task.job.opening.moving.extend(moving);
        let meant = Meant::find(&mut task.job, predecessor.is_some(), room)?;
        let seen = Seen::of(&task.job, &meant.unserved)?;
        let names: Vec<&str> = seen.names.iter().map(String::as_str).collect();
        let rules = Rules::read(&task.job, &ways, &names)?;
        check_groups(&task.job, &names)?;
        let place = ServerPlace::make(&task.job, &names)?;
        Ok(LookedAt { seen, predecessor, ways, known: Known { task, meant, rules, place } })
    }
}

impl Meant {
    /// Has a daemon find its members. A server that was told them must have room for them.
    fn find(job: &mut ServeJob<'_>, goes_on: bool, room: Room) -> Result<Self, Failure> {
        let Some(daemon) = &job.daemon else {
            let members = job.opening.members.len();
            return match room.lacks(members, members) {
                Some(why) => Err(Failure::Refused(why)),
                None => Ok(Self { configured: Vec::new(), unserved: Unserved::ends() }),
            };
        };
        uring::track_listeners();
        let found = (daemon.find)(goes_on, room)?;
        (job.opening.members, job.opening.bitmaps) = (found.members, found.bitmaps);
        Ok(Self { configured: found.configured, unserved: Unserved::is_left() })
    }
}

impl Seen {
    fn of(job: &ServeJob<'_>, unserved: &Unserved) -> Result<Self, Failure> {
        let looking = Looking {
            opening: &job.opening,
            devices: job.opening.members.clone(),
            silent: Vec::new(),
            how: WorldOptions::to_serve(&job.opening, job.search),
            // More may come to a daemon.
            may_be_empty: job.daemon.is_some(),
            unserved,
        };
        let (how, contents) = kinds::find(looking)?;
        let names = contents.iter().flat_map(|contents| contents.names()).collect();
        Ok(Self { how, contents, names })
    }
}

impl Rules {
    fn read(job: &ServeJob<'_>, ways: &Ways, names: &[&str]) -> Result<Self, Failure> {
        // More may come to a daemon.
        let servable = match job.daemon {
            None => Servable::only(names.iter().map(|&name| name.to_owned()).collect()),
            Some(_) => Servable::default(),
        };
        let chap = ways.plan.as_ref().and_then(|plan| plan.chap.as_ref());
        let proofs = Proofs {
            secrets: chap.is_some(),
            authorities: ways.certificates.as_ref().is_some_and(|certificates| certificates.gives().proof),
        };
        let file = job.opening.exports.access.as_deref();
        let access =
            file.map(|file| AccessFile::read(file, servable.now().as_deref(), proofs)).transpose()?;
        if let Some(access) = &access {
            let strangers = chap.map(|chap| access.strangers(chap)).unwrap_or_default();
            let remarks = access.remarks(names).into_iter().chain(strangers);
            remarks.for_each(|remark| eprintln!("brindle: {remark}"));
        }
        Ok(Self { access, servable, proofs })
    }
}

fn check_groups(job: &ServeJob<'_>, names: &[&str]) -> Result<(), Failure> {
    let spare_groups = &job.opening.policies.spare_groups;
    let more_may_come = job.daemon.is_some();
    groups::check(spare_groups, names, more_may_come)?;
    if !more_may_come {
        groups::lone(spare_groups, names).iter().for_each(|lone| eprintln!("brindle: {lone}"));
    }
    Ok(())
}

impl ServerPlace {
    /// Makes the folder. A server without a name has that of its first array or pool.
    fn make(job: &ServeJob<'_>, names: &[&str]) -> Result<Self, Failure> {
        let name = job.opening.name.clone().unwrap_or_else(|| names[0].to_owned());
        runtime::check_name(&name)?;
        let folder = runtime::make_folder(job.folder)?;
        let detached = job.background.then(|| Detached::begin(&folder, &name)).transpose()?;
        Ok(Self { name, folder, detached })
    }
}
