//! What a process runs: a reactor with its devices, and the arrays on them, each with its name.

use std::path::PathBuf;

use brindle_array::Array;
use brindle_array::assembly::{Assembly, Limitation};
use brindle_format::md::{display_uuid, split_name};
use brindle_io::device::Access;

use crate::failure::Failure;
use crate::runtime;
use crate::world::{self, Opening, Set, World};

/// An array that was put together from what was named, and not opened yet.
pub(crate) struct Found {
    pub(crate) assembly: Assembly,
    pub(crate) set: Set,
}

/// An array that runs, and what it was put together from.
pub(crate) struct Hosted {
    pub(crate) name: String,
    pub(crate) array: Array,
    pub(crate) assembly: Assembly,
    pub(crate) set: Set,
}

/// Owns the reactor, the devices, and the arrays.
pub(crate) struct Host {
    /// Let go before the world in which they run.
    pub(crate) arrays: Vec<Hosted>,
    pub(crate) world: World,
}

impl Found {
    /// What limits the use of the array, and of those that are its members.
    pub(crate) fn limits(&self) -> impl Iterator<Item = &Limitation> {
        self.set.nested_limits().chain(&self.assembly.limits)
    }

    /// The array's own name without its host, if that can name sockets and exports; else its UUID.
    pub(crate) fn own_name(&self) -> String {
        let (_, own) = split_name(&self.assembly.name);
        if runtime::is_name(own) {
            return own.to_owned();
        }
        display_uuid(self.assembly.uuid).to_string().replace(':', "-")
    }
}

impl Hosted {
    /// What limits the use of the array, and of those that are its members.
    pub(crate) fn limits(&self) -> impl Iterator<Item = &Limitation> {
        self.set.nested_limits().chain(&self.assembly.limits)
    }

    /// Ends the array and the arrays that are its members, outermost first: each marks itself clean. A member that can't
    /// is the array's affair as any other, and has been told of.
    pub(crate) async fn stop(&self) -> Result<(), Failure> {
        let stopped = self.array.stop().await;
        for nested in self.set.nested.iter().rev() {
            if let Err(error) = nested.array.stop().await {
                tracing::warn!("{}: not marked clean: {error}", nested.label);
            }
        }
        stopped.map_err(|source| Failure::Volume { doing: "stopping the array", source })
    }
}

impl Host {
    /// Opens the array that everything named forms.
    pub(crate) fn open(names: &[PathBuf], opening: Opening) -> Result<Self, Failure> {
        world::check_budget(opening.tuning.memory)?;
        let mut world = World::new(opening)?;
        let mut set = world.open_all(names)?;
        let assembly = world.assemble(&mut set, opening.force)?;
        let found = Found { assembly, set };
        let name = found.own_name();
        let mut host = Self { arrays: Vec::new(), world };
        host.start(name, found)?;
        Ok(host)
    }

    /// Opens what another world has found, with the access that each array is to have. Nothing is assembled again.
    pub(crate) fn claim(
        look: &World,
        found: Vec<(String, Found, Access)>,
        opening: Opening,
    ) -> Result<Self, Failure> {
        let mut host = Self { arrays: Vec::new(), world: World::new(opening)? };
        host.world.share_memory(found.iter().map(|(_, found, _)| 1 + found.set.nested.len() as u64).sum());
        for (name, Found { assembly, set }, access) in found {
            let set = host.world.claim(set, look, access)?;
            host.start(name, Found { assembly, set })?;
        }
        Ok(host)
    }

    /// The array of a command that has one.
    pub(crate) fn only(&self) -> &Hosted {
        &self.arrays[0]
    }

    fn start(&mut self, name: String, found: Found) -> Result<(), Failure> {
        let Found { assembly, set } = found;
        let array = self.world.start(assembly.clone(), &set.members)?;
        set.warn_of_left_out();
        self.arrays.push(Hosted { name, array, assembly, set });
        Ok(())
    }
}
