//! `brindle grow`: gives an array something beside its devices or takes it away, running or stopped.

use std::path::PathBuf;

use brindle_array::{Array, GrowSpec, Recovery};
use brindle_host::Done;
use brindle_host::opening::Tuning;
use brindle_host::status::GrowthStatus;

use crate::base::failure::Failure;
use crate::base::runtime;
use crate::client::ask::{Order, Target};
use crate::client::control::Answer;
use crate::commands::detail;
use crate::commands::devices::{change, refuse_both, tell};
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
        return tell(args.json, &text, || detail::of(members, &now));
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
    let planned = host.array.array.plan_growth(spec).map_err(|why| Failure::Refused(why.to_string()));
    let planned = planned.map(|plan| GrowthStatus::of(&plan));
    host.world.io.block_on(host.array.stop())?;
    let planned = planned?;
    let text = growth.described("the array", Some(&planned), true);
    tell(args.json, &text, || Ok(&planned))
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
