//! Members are looked for and looked at, and the server gets its name. No member is locked, and none is written to.

use std::path::PathBuf;

use brindle_array::Recovery;
use brindle_host::Configured;
use brindle_host::opening::{Opening, Permission};
use brindle_io::device::DeviceAccess;
use brindle_io::uring;

use super::access::{AccessFile, Proofs};
use super::detached::Detached;
use super::groups;
use super::job::ServeJob;
use super::kinds::{md, pool};
use super::planned::{Cleared, Task, Ways};
use super::takeover::Predecessor;
use crate::base::failure::Failure;
use crate::base::runtime;
use crate::devices::host::{AssembledArray, Host, Wanted};
use crate::devices::pools::{self, Sorted};
use crate::devices::unserved::Unserved;
use crate::devices::world::{World, WorldOptions};
use crate::server::descriptors::Room;

/// A server that knows its members.
pub(super) struct LookedAt<'a> {
    pub(super) seen: Seen,
    pub(super) predecessor: Option<Predecessor<'a>>,
    pub(super) ways: Ways,
    pub(super) known: Known<'a>,
}

/// Arrays and pools that were found.
pub(super) struct Seen {
    /// Has the members of the arrays. Nothing is locked in it, and it is gone before the arrays run.
    pub(super) look: World,
    pub(super) how: WorldOptions,
    pub(super) wanted: Vec<Wanted>,
    /// Members of pools, pool by pool.
    pub(super) pools: Vec<Vec<PathBuf>>,
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
    /// All that can ever be served, if that is known.
    pub(super) only: Option<Vec<String>>,
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
    /// Looks for members, and at them.
    pub(super) fn look(self) -> Result<LookedAt<'a>, Failure> {
        let Self { predecessor, mut task, ways, room } = self;
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
        let opening = &job.opening;
        let how = WorldOptions {
            access: DeviceAccess::Examine,
            force: opening.force,
            cut: false,
            search: job.search,
            tuning: opening.tuning,
            recovery: Recovery::Automatic,
        };
        let mut sorted = pools::sort(&opening.members, &opening.tuning);
        sorted.give_lost_devices();
        let (how, look, found) = match arrays_of(job, &sorted, how, unserved) {
            // Members that were cut are better than nothing.
            Err(why) if opening.force && opening.access == Permission::ReadOnly => {
                arrays_of(job, &sorted, how.with_cut(), unserved).map_err(|_| why)?
            }
            found => found?,
        };
        let wanted = md::wanted(opening, found, unserved)?;
        let pools = sorted.pools;
        let pool_names = pool::names(&pools);
        refuse_pools(&wanted, &pool_names)?;
        let names = wanted.iter().map(|wanted| wanted.name.clone()).chain(pool_names).collect();
        Ok(Self { look, how, wanted, pools, names })
    }
}

/// Looks at members of arrays, in a world of its own.
fn arrays_of(
    job: &ServeJob<'_>,
    Sorted { pools, others, silent }: &Sorted,
    how: WorldOptions,
    unserved: &Unserved,
) -> Result<(WorldOptions, World, Vec<AssembledArray>), Failure> {
    let Opening { bitmaps, force, .. } = &job.opening;
    let mut look = World::new(how)?;
    look.silent.replace(silent.clone());
    let is_empty = others.is_empty() && (job.daemon.is_some() || !pools.is_empty());
    let found = match is_empty {
        true => Vec::new(),
        false => Host::find(&mut look, others, bitmaps, *force, unserved)?,
    };
    Ok((how, look, found))
}

/// An array that has the name of a pool is refused before anything is opened.
fn refuse_pools(wanted: &[Wanted], pools: &[String]) -> Result<(), Failure> {
    if let Some(name) = pools.iter().find(|name| wanted.iter().any(|wanted| wanted.name == **name)) {
        return Err(Failure::Refused(format!(
            "an array and a pool are called '{name}': serve each by itself"
        )));
    }
    Ok(())
}

impl Rules {
    fn read(job: &ServeJob<'_>, ways: &Ways, names: &[&str]) -> Result<Self, Failure> {
        // More may come to a daemon.
        let only =
            job.daemon.is_none().then(|| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        let chap = ways.plan.as_ref().and_then(|plan| plan.chap.as_ref());
        let proofs = Proofs {
            secrets: chap.is_some(),
            authorities: ways.certificates.as_ref().is_some_and(|certificates| certificates.gives().proof),
        };
        let file = job.opening.exports.access.as_deref();
        let access = file.map(|file| AccessFile::read(file, only.as_deref(), proofs)).transpose()?;
        if let Some(access) = &access {
            let strangers = chap.map(|chap| access.strangers(chap)).unwrap_or_default();
            let remarks = access.remarks(names).into_iter().chain(strangers);
            remarks.for_each(|remark| eprintln!("brindle: {remark}"));
        }
        Ok(Self { access, only, proofs })
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
