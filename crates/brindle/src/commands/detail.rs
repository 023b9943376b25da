//! `brindle detail`: the array that members form.

mod broken;
mod container;
mod content;
mod cut;

use std::path::PathBuf;
use std::process::ExitCode;

use brindle_host::opening::Tuning;
use brindle_io::device::DeviceAccess;
use serde::Serialize;

use crate::base::failure::Failure;
use crate::base::report::{self, ArrayReport};
use crate::base::{log, runtime, text};
use crate::client::ask;
use crate::client::health::Health;
use crate::devices::containers;
use crate::devices::pools::{self, Alone, PoolReport};
use crate::devices::scan;
use crate::devices::world::{self, Assembled, Cut, Set, Through, World, WorldOptions, warn_of_left_out};
use crate::flags::cli::Detail;
use broken::BrokenReport;
use content::Way;

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
    let disks: Vec<PathBuf> = args.members.iter().filter(|name| containers::is_disk(name)).cloned().collect();
    let looked = if disks.is_empty() { all(args, &args.members) } else { with_container(args, &disks) };
    let looked = match looked {
        Ok(looked) => looked,
        Err(why) if args.test => {
            log::complain(&why);
            return Ok(Health::of_failure(&why).exit_code());
        }
        Err(why) => return Err(why),
    };
    let looked = match <[Looked; 1]>::try_from(looked) {
        // One alone that can't be had is a refusal.
        Ok([Looked::Broken(report, why)]) => {
            let why = report.refusal(why);
            if !args.test {
                return Err(why);
            }
            log::complain(&why);
            return Ok(Health::of_failure(&why).exit_code());
        }
        Ok([formed]) => vec![formed],
        Err(several) => several,
    };
    let printed = print(&looked, args.json);
    let (health, is_broken) = (Looked::health(&looked), looked.iter().any(Looked::is_broken));
    // A reader of the status may not want the report.
    match printed {
        Err(why) if !args.test || !why.is_broken_pipe() => return Err(why),
        _ => {}
    }
    complain(&looked);
    Ok(match (args.test, is_broken) {
        (true, _) => health.exit_code(),
        (false, true) => ExitCode::FAILURE,
        (false, false) => ExitCode::SUCCESS,
    })
}

/// The report of an array.
#[derive(Serialize)]
#[serde(untagged)]
enum AnyReport<'a> {
    Formed(&'a ArrayReport),
    Broken(&'a BrokenReport),
}

/// The reports of several.
#[derive(Serialize)]
struct ArrayReports<'a> {
    arrays: Vec<AnyReport<'a>>,
}

/// An array of which members were named.
enum Looked {
    Formed(Box<ArrayReport>),
    /// They do not form it, for this reason.
    Broken(Box<BrokenReport>, Failure),
}

impl Looked {
    fn is_broken(&self) -> bool {
        matches!(self, Self::Broken(..))
    }

    fn text(&self) -> String {
        match self {
            Self::Formed(report) => report.text(),
            Self::Broken(report, _) => report.text(),
        }
    }

    fn report(&self) -> AnyReport<'_> {
        match self {
            Self::Formed(report) => AnyReport::Formed(report),
            Self::Broken(report, _) => AnyReport::Broken(report),
        }
    }

    /// The joined health of all.
    fn health(all: &[Self]) -> Health {
        let health = |one: &Self| match one {
            Self::Formed(report) => Health::of_members(report.is_degraded()),
            Self::Broken(_, why) => Health::of_failure(why),
        };
        all.iter().map(health).fold(Health::of_members(false), Health::and)
    }
}

/// Tells on standard error why arrays can't be had.
fn complain(looked: &[Looked]) {
    for one in looked {
        if let Looked::Broken(report, why) = one {
            eprintln!("brindle: array {}: {}", report.called(), text::shown(&why.to_string()));
        }
    }
}

/// One array as itself, several as a list.
fn print(looked: &[Looked], json: bool) -> Result<(), Failure> {
    match looked {
        [Looked::Formed(only)] if json => report::print_json(only),
        several if json => {
            report::print_json(&ArrayReports { arrays: several.iter().map(Looked::report).collect() })
        }
        all => report::tell(&all.iter().map(Looked::text).collect::<Vec<_>>().join("\n")),
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

/// Reports the volumes of a container, and all arrays that the other devices have members of.
fn with_container(args: &Detail, disks: &[PathBuf]) -> Result<Vec<Looked>, Failure> {
    let mut looked = container::volumes(args, disks)?;
    let others: Vec<PathBuf> = args.members.iter().filter(|name| !disks.contains(name)).cloned().collect();
    if others.is_empty() {
        return Ok(looked);
    }
    match all(args, &others) {
        // The image of a disk that was cut, say: the metadata were at its end.
        Err(why) if why.is_no_member() => log::complain(&why),
        others => looked.extend(others?),
    }
    Ok(looked)
}

/// Reports all arrays that the devices have members of.
fn all(args: &Detail, members: &[PathBuf]) -> Result<Vec<Looked>, Failure> {
    let bitmaps = &args.given.bitmaps;
    // Of arrays by hand nothing is read here: a member that was cut is no less a member.
    let cut = args.assuming.assume.is_some();
    let opening = WorldOptions {
        cut: if cut { Cut::Read } else { Cut::Refused },
        search: Through::of(args.searching.search),
        ..WorldOptions::LOOK
    };
    let mut world = World::new(opening)?;
    let set = world.open_fit(members)?;
    let is_inside = set.members.iter().any(|named| !members.contains(&PathBuf::from(&named.label)));
    let mut sets = if is_inside || are_mixed(&set) { set.by_array() } else { vec![set] };
    let cut_alone = if cut { Vec::new() } else { cut::arrays(&world::of_no_set(&sets))? };
    if !cut_alone.is_empty() {
        // They are told of by themselves.
        sets.retain(|set| set.array().is_some());
        let is_told = |label: &str| cut_alone.iter().any(|(report, _)| report.has(label));
        sets.iter_mut().for_each(|set| set.left_out.retain(|left_out| !is_told(&left_out.label)));
    }
    let bare = if cut { Vec::new() } else { world::bare(members, &sets) };
    let several = sets.len() + cut_alone.len() > 1;
    let mut ways = Vec::new();
    let look = |mut set: Set| {
        let assembled = match world.assemble_any(&mut set) {
            Ok(assembled) => assembled,
            Err(why) => {
                let report = BrokenReport::of(&set, &why, set.open_roles(&bare));
                return match report {
                    Some(report) => Ok(Looked::Broken(Box::new(report), why)),
                    None => Err(why),
                };
            }
        };
        if several && assembled.is_complete() {
            // Whatever else could not be read is not a member of this one.
            set.left_out.retain(|left_out| assembled.may_have(left_out));
        }
        let (report, assembled) = of_assembled(&world, assembled, &set, bitmaps)?;
        let open = if assembled.is_complete() { Vec::new() } else { set.open_roles(&bare) };
        let way = Way::of(&assembled, &set, ways.len(), several);
        let report = report.with_open_roles(open).holding({
            let array = world.start(&assembled, &set.members).ok();
            array.and_then(|array| content::holds(&world, &array, &way))
        });
        ways.push(way);
        Ok(Looked::Formed(Box::new(report)))
    };
    let mut looked = sets.into_iter().map(look).collect::<Result<Vec<_>, Failure>>()?;
    let formed = looked.iter_mut().filter_map(|one| match one {
        Looked::Formed(report) => Some(&mut **report),
        Looked::Broken(..) => None,
    });
    content::together(&mut formed.zip(&ways).collect::<Vec<_>>());
    looked.extend(cut_alone.into_iter().map(|(report, why)| Looked::Broken(Box::new(report), why)));
    Ok(looked)
}

/// Members of several arrays.
fn are_mixed(set: &Set) -> bool {
    let candidates: Vec<_> = set.members.iter().map(|named| named.candidate.clone()).collect();
    world::describe(&candidates, true).is_err_and(|why| why.is_mixed())
}

fn of_set(
    world: &mut World,
    set: &mut Set,
    bitmaps: &[PathBuf],
) -> Result<(ArrayReport, Assembled), Failure> {
    let assembled = world.assemble_any(set)?;
    of_assembled(world, assembled, set, bitmaps)
}

fn of_assembled(
    world: &World,
    mut assembled: Assembled,
    set: &Set,
    bitmaps: &[PathBuf],
) -> Result<(ArrayReport, Assembled), Failure> {
    warn_of_left_out([set]);
    for path in bitmaps {
        world.look_at_bitmap(path)?.become_that_of(&mut assembled, None)?;
    }
    let left_out = set.left_out.iter().map(|left_out| (left_out.label.clone(), left_out.why.clone()));
    Ok((ArrayReport::of(assembled.description()).without(left_out), assembled))
}
