//! Arrays at the start of a server: looked at in a world in which nothing is locked, and then claimed as they were found.

use brindle_host::opening::{Opening, Permission};

use super::super::{AtStart, ClaimedContents, FoundContents, Looking, Others, StartedContent};
use super::{access, content, copied_members};
use crate::base::failure::Failure;
use crate::devices::host::{self, AssembledArray, Host, Hosted, Wanted};
use crate::devices::unserved::Unserved;
use crate::devices::world::World;

/// Finds arrays among the devices that no other kind knows.
pub(super) fn find(looking: &mut Looking<'_>) -> Result<FoundArrays, Failure> {
    let opening = looking.opening;
    let (look, found) = match look_at(looking) {
        // Members that were cut are better than nothing.
        Err(why) if opening.force && opening.access == Permission::ReadOnly => {
            looking.how = looking.how.with_cut();
            look_at(looking).map_err(|_| why)?
        }
        found => found?,
    };
    let wanted = wanted(opening, found, looking.unserved)?;
    Ok(FoundArrays { look, wanted })
}

/// Looks at members of arrays, in a world of its own.
fn look_at(looking: &Looking<'_>) -> Result<(World, Vec<AssembledArray>), Failure> {
    let Opening { bitmaps, force, .. } = looking.opening;
    let mut look = World::new(looking.how)?;
    look.silent.replace(looking.silent.clone());
    let found = match looking.is_done() {
        true => Vec::new(),
        false => Host::find(&mut look, &looking.devices, bitmaps, *force, looking.unserved)?,
    };
    Ok((look, found))
}

/// The arrays to be served with their names. They are opened for writing, unless the user or an array's features
/// forbid it.
fn wanted(
    opening: &Opening,
    found: Vec<AssembledArray>,
    unserved: &Unserved,
) -> Result<Vec<Wanted>, Failure> {
    let names = match &opening.name {
        // A server of several arrays has a name of its own.
        Some(name) if found.len() == 1 && !opening.own_names => vec![name.clone()],
        _ => host::names(&found),
    };
    let several = opening.own_names || found.len() > 1;
    let mut wanted = Vec::with_capacity(found.len());
    for (name, mut found) in names.into_iter().zip(found) {
        match access(opening, &mut found, several.then_some(&*name)) {
            Ok(access) => wanted.push(Wanted { name, found, access }),
            Err(why) => unserved.leave(&name, &found.uuid(), why)?,
        }
    }
    Ok(wanted)
}

/// Arrays that were found.
pub(super) struct FoundArrays {
    /// Has their members. Nothing is locked in it, and it is gone before they are served.
    look: World,
    wanted: Vec<Wanted>,
}

impl FoundContents for FoundArrays {
    fn names(&self) -> Vec<String> {
        self.wanted.iter().map(|wanted| wanted.name.clone()).collect()
    }

    fn shares(&self) -> u64 {
        self.wanted.iter().map(|wanted| wanted.found.arrays()).sum()
    }

    /// Opens the arrays, too: that writes to no member.
    fn claim(
        self: Box<Self>,
        world: &mut World,
        unserved: &Unserved,
    ) -> Result<Box<dyn ClaimedContents>, Failure> {
        let Self { look, wanted } = *self;
        Ok(Box::new(ClaimedArrays(host::claim(world, &look, wanted, unserved)?)))
    }
}

/// Arrays that are open.
struct ClaimedArrays(Vec<Hosted>);

impl ClaimedContents for ClaimedArrays {
    fn uuids(&self) -> Vec<String> {
        self.0.iter().map(|hosted| hosted.found.uuid()).collect()
    }

    fn refuse_copies(&mut self, others: &Others, at: &AtStart<'_>) -> Result<(), Failure> {
        let several = self.0.len() > 1;
        for hosted in std::mem::take(&mut self.0) {
            match copied_members::refuse(others, &hosted, several) {
                Ok(()) => self.0.push(hosted),
                Err(why) => {
                    at.unserved.leave(&hosted.name, &hosted.found.uuid(), why)?;
                    hosted.let_go(at.world)?;
                }
            }
        }
        Ok(())
    }

    fn open(self: Box<Self>, _at: &AtStart<'_>) -> Result<Vec<StartedContent>, Failure> {
        let started = |hosted: Hosted| -> StartedContent {
            Box::new(move |intake, opening| content(&hosted, intake, opening))
        };
        Ok(self.0.into_iter().map(started).collect())
    }
}
