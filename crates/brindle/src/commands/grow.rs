//! `brindle grow`: gives an array something beside its devices or takes it away, running or stopped.

use std::path::PathBuf;

use brindle_array::{Array, GrowSpec, Recovery};
use brindle_host::opening::Tuning;
use brindle_host::status::GrowthStatus;
use brindle_host::{Coming, Done};

use crate::base::failure::Failure;
use crate::base::runtime;
use crate::client::ask::{Order, Target};
use crate::client::control::Answer;
use crate::commands::detail;
use crate::commands::devices::{change, refuse_both, take_in, tell};
use crate::commands::growth::{self, Filed, Growth};
use crate::devices::host::Host;
use crate::flags::cli::Grow;

pub(crate) fn grow(args: &Grow) -> Result<(), Failure> {
    let growth = Growth::asked(args)?;
    let members = &args.stopped.members;
    if !members.is_empty() {
        refuse_both(args.array.as_deref())?;
        let from: Vec<PathBuf> = args.from.iter().cloned().collect();
        if let (Growth::Shape(spec), true) = (&growth, args.dry_run) {
            return plan_stopped(args, &growth, *spec, &from);
        }
        let mut status = None;
        change(members, &from, |host, array| match &growth {
            Growth::Filed(filed) => file_bitmap(host, array, filed),
            growth => {
                add_first(args, host, array, growth)?;
                let given = host.world.io.block_on(growth.give(array));
                status = given.map_err(|why| Failure::Refused(why.to_string()))?;
                if array.is_moving() {
                    move_all(host, array)?;
                }
                Ok(())
            }
        })?;
        let now = match &growth {
            Growth::Filed(filed) => vec![filed.path.clone()],
            Growth::WriteBehind(_) => from,
            Growth::Bitmap(_) | Growth::NoBitmap | Growth::Shape(_) => Vec::new(),
        };
        let text = match &status {
            Some(status) if status.moved > 0 => growth::moved_text("the array", status),
            status => growth.described("the array", status.as_ref(), false),
        };
        let all: Vec<PathBuf> = members.iter().chain(&args.add).cloned().collect();
        return tell(args.json, &text, || detail::of(&all, &now));
    }
    let folder = runtime::folder(args.runtime.folder())?;
    let target = Target::meant(&folder, args.array.as_deref())?;
    let request = growth.request(args)?;
    let answer: Answer<Done> = Order::of(&folder, &target, args.array.as_deref())?.give(request)?;
    let text = growth.described(&answer.name, answer.growth.as_ref(), args.dry_run);
    tell(args.json, &text, || Ok(&answer))
}

/// Shows what would become of an array that is not served. Nothing is written.
fn plan_stopped(args: &Grow, growth: &Growth, spec: GrowSpec, bitmaps: &[PathBuf]) -> Result<(), Failure> {
    let host = Host::open_to_change(&args.stopped.members, bitmaps, Tuning::USUAL, Recovery::Manual)?;
    let array = &host.array.array;
    let planned = array.plan_growth(with_coming(spec, args.add.len()));
    let planned = planned.map_err(|why| Failure::Refused(why.to_string())).map(|plan| {
        let time = host.world.io.block_on(array.time_to_move(&plan));
        GrowthStatus::of(&plan, time)
    });
    host.world.io.block_on(host.array.stop())?;
    let planned = planned?;
    let text = growth.described("the array", Some(&planned), true);
    tell(args.json, &text, || Ok(&planned))
}

/// Adds the devices of new members to an array that is not served; none if it would not be given the shape that is asked for.
fn add_first(args: &Grow, host: &Host, array: &Array, growth: &Growth) -> Result<(), Failure> {
    let Growth::Shape(spec) = growth else { return Ok(()) };
    if args.add.is_empty() {
        return Ok(());
    }
    let planned = array.plan_growth(with_coming(*spec, args.add.len()));
    planned.map_err(|why| Failure::Refused(why.to_string()))?;
    let coming = Coming { force: args.force, re_add: false };
    take_in(host, array, &args.add, coming).map(drop)
}

/// A change of shape for which so many devices are about to be added.
fn with_coming(spec: GrowSpec, coming: usize) -> GrowSpec {
    match spec {
        GrowSpec::Members { count, .. } => GrowSpec::Members { count, coming },
        GrowSpec::Level { level, .. } => GrowSpec::Level { level, coming },
        size @ GrowSpec::Size { .. } => size,
    }
}

/// Moves the data of an array that is not served.
fn move_all(host: &Host, array: &Array) -> Result<(), Failure> {
    eprintln!(
        "brindle: data are being moved; what ends this before it has moved all leaves the array to `brindle serve --continue`, or to mdadm"
    );
    let moved = host.world.io.block_on(array.reshape(|_| ()));
    moved.map_err(|why| Failure::Refused(format!("the reshape did not come to its end: {why}")))
}

/// Makes the file of a bitmap, and gives it to the array.
fn file_bitmap(host: &Host, array: &Array, filed: &Filed) -> Result<(), Failure> {
    let known = host.world.known().into_iter();
    let known = known
        .map(|(identity, path)| (identity, format!("a device of the array already, {}", path.display())));
    let make = filed.make(array, known.collect()).map_err(|why| Failure::Refused(why.to_string()))?;
    let made = make.make(None)?;
    let undo = made.undo();
    let file = host.world.take_bitmap(made)?;
    let given = host.world.io.block_on(array.set_bitmap(filed.spec(file)));
    given.map_err(|why| {
        undo();
        Failure::Refused(why.to_string())
    })
}
