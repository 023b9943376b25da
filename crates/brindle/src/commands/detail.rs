//! `brindle detail`: the array that members form.

mod content;

use std::path::PathBuf;
use std::process::ExitCode;

use brindle_host::opening::Tuning;
use brindle_io::device::DeviceAccess;

use crate::base::failure::Failure;
use crate::base::report::{self, ArrayReport};
use crate::base::{log, runtime};
use crate::client::ask;
use crate::client::health::Health;
use crate::devices::pools::{self, Alone, PoolReport};
use crate::devices::scan;
use crate::devices::world::{self, Assembled, Set, Through, World, WorldOptions, warn_of_left_out};
use crate::flags::cli::Detail;

pub(crate) fn detail(args: &Detail) -> Result<ExitCode, Failure> {
    if args.scan {
        let served = ask::reports(&runtime::folder(args.runtime.folder())?);
        let lines = served.iter().filter_map(scan::served_line).map(|line| line + "\n");
        report::print(&lines.collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    world::assume(args.assuming.assume.as_ref());
    if pools::are_of_pool(&args.members) {
        return of_pool(args);
    }
    match all(args) {
        Ok(reports) => {
            let printed = print(&reports, args.json);
            // A reader of the status may not want the report.
            match printed {
                Err(why) if !args.test || !why.is_broken_pipe() => Err(why),
                _ if args.test => {
                    let degraded = reports.iter().any(ArrayReport::is_degraded);
                    Ok(Health::of_members(degraded).exit_code())
                }
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

/// One array as itself, several as a list.
fn print(reports: &[ArrayReport], json: bool) -> Result<(), Failure> {
    match reports {
        [only] if json => report::print_json(only),
        several if json => report::print_json(&serde_json::json!({ "arrays": several })),
        all => report::tell(&all.iter().map(ArrayReport::text).collect::<Vec<_>>().join("\n")),
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

/// The report of the array that the members form, with the file of its write-intent bitmap if one is given. Prints on
/// standard error which devices are left out.
pub(crate) fn of(members: &[PathBuf], bitmaps: &[PathBuf]) -> Result<ArrayReport, Failure> {
    let mut world = World::new(WorldOptions::LOOK)?;
    let mut set = world.open_fit(members)?;
    Ok(of_set(&mut world, &mut set, bitmaps)?.0)
}

/// Reports all arrays: disks with partitions may have members of several.
fn all(args: &Detail) -> Result<Vec<ArrayReport>, Failure> {
    let (members, bitmaps) = (&args.members, &args.given.bitmaps);
    // Of arrays by hand nothing is read here: a member that was cut is no less a member.
    let cut = args.assuming.assume.is_some();
    let opening = WorldOptions { cut, search: Through::of(args.searching.search), ..WorldOptions::LOOK };
    let mut world = World::new(opening)?;
    let set = world.open_fit(members)?;
    let is_inside = set.members.iter().any(|named| !members.contains(&PathBuf::from(&named.label)));
    let sets = if is_inside { set.by_array() } else { vec![set] };
    let look = |mut set: Set| {
        let (report, assembled) = of_set(&mut world, &mut set, bitmaps)?;
        Ok(report.holding(content::holds(&world, &assembled, &set)))
    };
    sets.into_iter().map(look).collect()
}

fn of_set(
    world: &mut World,
    set: &mut Set,
    bitmaps: &[PathBuf],
) -> Result<(ArrayReport, Assembled), Failure> {
    let mut assembled = world.assemble_any(set)?;
    warn_of_left_out([&*set]);
    for path in bitmaps {
        world.look_at_bitmap(path)?.become_that_of(&mut assembled, None)?;
    }
    let left_out = set.left_out.iter().map(|left_out| (left_out.label.clone(), left_out.why.clone()));
    Ok((ArrayReport::of(assembled.description()).without(left_out), assembled))
}
