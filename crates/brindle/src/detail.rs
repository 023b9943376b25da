//! `brindle detail`: the array that members form.

use std::path::PathBuf;
use std::process::ExitCode;

use brindle_array::OpenError;
use brindle_array::assembly::{AssemblyError, ReshapeError};

use brindle_io::device::DeviceAccess;

use crate::cli::{Detail, Tuning};
use crate::failure::Failure;
use crate::health::Health;
use crate::log;
use crate::pools::{self, Alone, PoolReport};
use crate::report::{self, ArrayReport};
use crate::world::{Opening, World, warn_of_left_out};

pub(crate) fn detail(args: &Detail) -> Result<ExitCode, Failure> {
    if pools::are_of_pool(&args.members) {
        return of_pool(args);
    }
    match of(&args.members, &args.given.bitmaps) {
        Ok(report) => {
            let printed = if args.json { report::print_json(&report) } else { report::print(&report.text()) };
            // A reader of the status may not want the report.
            match printed {
                Err(why) if !args.test || !why.is_broken_pipe() => Err(why),
                _ if args.test => Ok(Health::of_members(report.is_degraded()).exit_code()),
                _ => Ok(ExitCode::SUCCESS),
            }
        }
        Err(why) if args.test => {
            log::complain(&why);
            Ok(Health::of_failure(&why).exit_code())
        }
        Err(why) => Err(why),
    }
}

/// The pool as its members describe it.
fn of_pool(args: &Detail) -> Result<ExitCode, Failure> {
    let alone = Alone::open(&args.members, DeviceAccess::Read, Tuning::USUAL)?;
    let report = PoolReport::of(&alone.opened);
    if args.json {
        report::print_json(&report)?;
    } else {
        report::print(&report.text())?;
    }
    let degraded = args.test && report.is_degraded();
    Ok(Health::of_members(degraded).exit_code())
}

/// What the members say of their array, whose write-intent bitmap is in a file if one is given. Tells on standard error of what is done
/// without.
pub(crate) fn of(members: &[PathBuf], bitmaps: &[PathBuf]) -> Result<ArrayReport, Failure> {
    let mut world = World::new(Opening::LOOK)?;
    let mut set = world.open_fit(members)?;
    let mut assembly = match world.assemble(&mut set, false) {
        Err(failure) if is_told_about(&failure) => world.assemble(&mut set, true)?,
        other => other?,
    };
    warn_of_left_out([&set]);
    for path in bitmaps {
        world.look_at_bitmap(path)?.become_that_of(&mut assembly, None)?;
    }
    let left_out = set.left_out.into_iter().map(|left_out| (left_out.label, left_out.why));
    Ok(ArrayReport::of(&assembly).without(left_out))
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
