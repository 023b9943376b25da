//! `brindle detail`: the array that members form.

use brindle_array::assembly::AssemblyError;

use crate::cli::Detail;
use crate::failure::Failure;
use crate::report::{self, ArrayReport};
use crate::world::{self, Opening, World};

pub(crate) fn detail(args: &Detail) -> Result<(), Failure> {
    let mut world = World::new(Opening::LOOK)?;
    let members = world.open_all(&args.members)?;
    // A dirty and degraded array is told about; only its use has to be forced.
    let assembly = match world::assembly(&members, false) {
        Err(AssemblyError::DirtyDegraded { .. }) => world::assembly(&members, true)?,
        other => other?,
    };
    let report = ArrayReport::of(&assembly);
    if args.json { report::print_json(&report) } else { report::print(&report.text()) }
}
