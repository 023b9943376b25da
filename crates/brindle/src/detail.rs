//! `brindle detail`: the array that members form.

use std::path::PathBuf;

use brindle_array::OpenError;
use brindle_array::assembly::{AssemblyError, ReshapeError};

use crate::cli::Detail;
use crate::failure::Failure;
use crate::report::{self, ArrayReport};
use crate::world::{Opening, World, warn_of_left_out};

pub(crate) fn detail(args: &Detail) -> Result<(), Failure> {
    let report = of(&args.members, &args.given.bitmaps)?;
    if args.json { report::print_json(&report) } else { report::print(&report.text()) }
}

/// What the members say of their array, whose write-intent bitmap is in a file if one is given. Tells on standard error of what is done
/// without.
pub(crate) fn of(members: &[PathBuf], bitmaps: &[PathBuf]) -> Result<ArrayReport, Failure> {
    let mut world = World::new(Opening::LOOK)?;
    let mut set = world.open_all(members)?;
    let mut assembly = match world.assemble(&mut set, false) {
        Err(failure) if is_told_about(&failure) => world.assemble(&mut set, true)?,
        other => other?,
    };
    warn_of_left_out([&set]);
    for path in bitmaps {
        world.look_at_bitmap(path)?.become_that_of(&mut assembly, None)?;
    }
    Ok(ArrayReport::of(&assembly))
}

/// The array is there, and only its use has to be forced.
pub(crate) fn is_told_about(failure: &Failure) -> bool {
    match failure {
        Failure::Without { source, .. } => is_told_about(source),
        Failure::Assembly(
            AssemblyError::DirtyDegraded { .. }
            | AssemblyError::Apart { .. }
            | AssemblyError::JournalMissing { .. }
            | AssemblyError::Reshape(ReshapeError::InDoubt),
        )
        | Failure::OpenArray(OpenError::Journal { .. })
        | Failure::Newer { .. } => true,
        _ => false,
    }
}
