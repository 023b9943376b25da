//! Arrays and pools that a daemon takes while it runs: its settings mean them, and it does not serve them yet.

use std::path::Path;
use std::time::Duration;

use brindle_host::opening::{Config, Lacking, Opening, Permission};

use super::{Meant, absent, means};
use crate::base::failure::Failure;
use crate::client::choice::{Choice, Waiting, lacking, waiting};
use crate::devices::scan::Findable;
use crate::devices::unserved::with_user;
use crate::devices::world::{self, World};
use crate::server::descriptors::Room;
use crate::server::serve::{Gathering, Joins, gather};
use crate::server::settings::{Joined, Sought, Taken};

/// Finds arrays and pools that the settings mean and that are not served, and has the server take them. One that is asked for may lack
/// members. Gives the contents that it took, and for each other the reason.
pub(super) fn take(joins: &Joins, config: &Config, folder: &Path, sought: Sought<'_>) -> Taken {
    let meant = Meant::by(config);
    let choice = Choice {
        places: &config.devices,
        named: &|found| meant.is_meant(found),
        own: None,
        wait: Duration::ZERO,
    };
    let (scanned, served) = choice.wait_for_members(folder);
    let waiting = waiting(folder);
    let waits = |found: &Findable| waiting.iter().find(|one| one.uuid == found.uuid);
    let only = match sought {
        Sought::One(uuid) => Some(uuid),
        Sought::All(_) => None,
    };
    let is_new = |found: &&Findable| {
        let is_asked = only.is_none_or(|only| found.uuid == only);
        is_asked && choice.is_meant(found) && (!served.contains(&found.uuid) || waits(found).is_some())
    };
    if let Sought::All(_) = sought {
        let configured = absent::configured(config, &scanned, |found| choice.is_meant(found));
        joins.configure(|all| *all = configured);
    }
    let Taken { mut joined, mut others, mut gone } = Taken::default();
    if only.is_none() {
        others.extend(scanned.refused.iter().map(|one| one.why.clone()));
    }
    for found in scanned.all.iter().filter(is_new) {
        let lacks = !found.newly_missing.is_empty();
        let name = found.name.escape_debug();
        let waiting = waits(found);
        let still = waiting.map(|one| one.lacks(found).map(String::as_str).collect::<Vec<_>>());
        let still = still.filter(|still| !still.is_empty() && !goes_on_without(config, found));
        let taken = match &found.problem {
            Some(why) => Err(why.clone()),
            None if let Some(still) = still => {
                Err(format!("it is read-only until {} is here", still.join(", ")))
            }
            None if waiting.is_none() && lacks && only.is_none() => Err(format!(
                "{} was there when it was used last: it is served when that is here",
                lacking(found)
            )),
            None => match Room::take().lacks_more(found.members.len()) {
                Some(why) => Err(why),
                None => one(joins, config, found, waiting).map_err(|why| with_user(&why)),
            },
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
                joins.configure(|all| absent::takes(all, found));
                joined.push(Joined { name, uuid: found.uuid.clone(), words });
            }
            Err(why) => {
                joins.configure(|all| absent::note(all, found, &why));
                others.push(format!("{name} is not served: {why}"));
            }
        }
    }
    match sought {
        Sought::One(uuid)
            if joined.is_empty() && others.is_empty() && !served.iter().any(|one| one == uuid) =>
        {
            others.push(format!("{uuid} is not found, or the settings do not mean it"));
        }
        Sought::One(_) => {}
        Sought::All(before) => {
            let was_named = |found: &&Findable| before.volumes().any(|volume| means(volume, found));
            let is_gone = scanned.all.iter().filter(|found| was_named(found) && !meant.is_meant(found));
            gone.extend(is_gone.map(|found| found.uuid.clone()));
        }
    }
    Taken { joined, others, gone }
}

/// Whether the settings say that a pool is written to without members that were in use.
fn goes_on_without(config: &Config, found: &Findable) -> bool {
    config.opening(Vec::new()).lacking_of(&found.name, &found.uuid) == Lacking::Degraded
}

fn one(
    joins: &Joins,
    config: &Config,
    found: &Findable,
    waiting: Option<&Waiting>,
) -> Result<String, Failure> {
    let own = || config.volumes().filter(|volume| means(volume, found));
    let opening = Opening { bitmaps: super::bitmaps(config, found), ..config.opening(found.members.clone()) };
    let is_read_only = own().any(|volume| volume.access == Some(Permission::ReadOnly));
    let mut look =
        World::new(world::WorldOptions { force: false, tuning: config.tuning, ..world::WorldOptions::LOOK })?;
    let by = Gathering { opening: &opening, is_read_only, waiting };
    let joining = gather(&mut look, found, &by)?;
    joins.take(joining, opening)
}
