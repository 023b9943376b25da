//! Arrays that a daemon takes while it runs: those that its settings mean, and that it does not serve yet.

use std::path::{Path, PathBuf};
use std::time::Duration;

use brindle_host::opening::{Config, Permission};
use brindle_io::device::DeviceAccess;

use super::{Meant, means};
use crate::choice::{Choice, lacking};
use crate::failure::Failure;
use crate::host::Host;
use crate::scan::Findable;
use crate::serve::{Joining, Joins, access};
use crate::settings::Joined;
use crate::world::{self, World};

/// Finds arrays that the settings mean and nobody serves, and has the server take them; `only` names the one that is meant, which
/// may lack members then. Gives those that it took, and the reasons why it took others not.
pub(super) fn take(
    joins: &Joins,
    config: &Config,
    folder: &Path,
    only: Option<&str>,
) -> (Vec<Joined>, Vec<String>) {
    let meant = Meant::by(config);
    let choice = Choice {
        places: &config.devices,
        named: &|found| meant.is_meant(found),
        own: None,
        wait: Duration::ZERO,
    };
    let (scanned, served) = choice.wait_for_members(folder);
    let is_new = |found: &&Findable| {
        let is_asked = only.is_none_or(|only| found.uuid == only);
        is_asked && choice.is_meant(found) && !served.contains(&found.uuid)
    };
    let (mut joined, mut others) = (Vec::new(), Vec::new());
    for found in scanned.all.iter().filter(is_new) {
        let lacks = !found.newly_missing.is_empty();
        let name = found.name.escape_debug();
        let taken = match &found.problem {
            Some(why) => Err(why.clone()),
            None if found.metadata == "pool" => {
                Err("it is a pool, and is served when the daemon is started anew".to_owned())
            }
            None if lacks && only.is_none() => Err(format!(
                "{} was there when it was used last: it is served when that is here",
                lacking(found)
            )),
            None => one(joins, config, found).map_err(|why| why.to_string()),
        };
        match taken {
            Ok(name) => {
                let mut words = format!("{name} is served");
                if lacks {
                    words.push_str(&format!(
                        ": {} was there when it was used last, and is missing",
                        lacking(found)
                    ));
                }
                joined.push(Joined { name, uuid: found.uuid.clone(), words });
            }
            Err(why) => others.push(format!("{name} is not served: {why}")),
        }
    }
    if let Some(only) =
        only.filter(|only| joined.is_empty() && others.is_empty() && !served.iter().any(|uuid| uuid == only))
    {
        others.push(format!("{only} is not found, or the settings do not mean it"));
    }
    (joined, others)
}

fn one(joins: &Joins, config: &Config, found: &Findable) -> Result<String, Failure> {
    let later =
        |what: &str| Failure::Refused(format!("{what}: it takes effect when the daemon is started anew"));
    if joins.has_rules {
        return Err(later(
            "a file says who may use what, and is read for the arrays that are there at the start",
        ));
    }
    if config.volumes().any(|volume| volume.bitmap.is_some() && means(volume, found)) {
        return Err(later("its write-intent bitmap is in a file"));
    }
    let opening = config.opening(found.members.clone());
    let mut look =
        World::new(world::Opening { force: false, tuning: config.tuning, ..world::Opening::LOOK })?;
    let mut all = Host::find(&mut look, &found.members, &[], false)?;
    let Some(only) = all.pop().filter(|_| all.is_empty()) else {
        return Err(Failure::Refused("its members are of several arrays".to_owned()));
    };
    let name = only.own_name();
    let access = match config.volumes().find(|volume| means(volume, found)).and_then(|volume| volume.access) {
        Some(Permission::ReadOnly) => DeviceAccess::Read,
        _ => access(&opening, &only, Some(&name))?,
    };
    let mut members = Vec::new();
    let names = vec![name, only.uuid_name()];
    let set = only.set;
    for named in set.members {
        let (path, device): (PathBuf, _) = look.reopen(&named, access)?;
        members.push((named, path, device));
    }
    joins.take(Joining { names, access, assembly: only.assembly, members, left_out: set.left_out, opening })
}
