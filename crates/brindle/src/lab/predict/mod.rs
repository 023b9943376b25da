//! `brindle calibrate` and `brindle simulate`: models of drives, and what arrays of them would do.

mod calibrate;
pub(crate) mod load;
mod measured;
mod output;

use brindle_lab::predict::{self, Door, Kernel, Policies, Shape, Spec, job};
use brindle_lab::sweep::sizes_option;
use brindle_layout::{Layout, Level};

use crate::base::failure::Failure;
use crate::base::models::model;
use crate::base::report;
use crate::base::units::Bytes;
use crate::flags::cli::{Balance, DoorWord, Simulate, Whose};
pub(crate) use calibrate::calibrate;

pub(crate) fn simulate(args: &Simulate) -> Result<(), Failure> {
    let spec = spec(args)?;
    let predicted = predict::predict(&spec)?;
    if args.json {
        return report::print_json(&output::json(&spec, &predicted));
    }
    report::print(&output::text(&spec, &predicted))
}

fn spec(args: &Simulate) -> Result<Spec, Failure> {
    let (rw, bs) = (args.rw.as_deref().unwrap_or_default(), args.bs.as_deref().unwrap_or_default());
    let words = [
        ("rw", rw),
        (sizes_option(bs), bs),
        ("rwmixread", args.rwmixread.as_str()),
        ("random_distribution", args.random_distribution.as_str()),
        ("iodepth", args.iodepth.as_str()),
        ("numjobs", args.numjobs.as_deref().unwrap_or("1")),
    ];
    let shape = shape_of(&args.level, args.layout.as_deref(), args.chunk, args.members)?;
    if shape.is_none() && args.bitmap_chunk.is_some() {
        return Err(Failure::Usage("--bitmap-chunk: one drive by itself has no bitmap".to_owned()));
    }
    if shape.is_none() && args.door.is_some() {
        return Err(Failure::Usage("--door: one drive by itself is not served".to_owned()));
    }
    let policies = policies(args.policies, args.door, args.kernel, args.read_balance)?;
    let job = match &args.jobs {
        Some(file) => load::load(file)?,
        None => job(&words)?,
    };
    Ok(Spec {
        by_job: args.numjobs.is_some() || job.numjobs > 1,
        drive: model(&args.drive)?,
        shape: shape.map(|shape| Shape { bitmap: args.bitmap_chunk.map(|chunk| chunk.0), ..shape }),
        policies,
        cores: args.cores,
        job,
    })
}

/// The implementation: of Brindle with a door; of md that of a kernel, which may also be named by how it chooses copies.
pub(crate) fn policies(
    whose: Whose,
    door: Option<DoorWord>,
    kernel: Option<Kernel>,
    balance: Option<Balance>,
) -> Result<Policies, Failure> {
    match (whose, balance) {
        (Whose::Brindle, _) => Ok(Policies::Brindle(door.map_or_else(Door::default, DoorWord::door))),
        (Whose::LinuxMd, _) if door.is_some() => Err(Failure::Usage(
            "--door goes with --as brindle; requests to md come from the kernel that runs it".to_owned(),
        )),
        (Whose::LinuxMd, Some(Balance::Nearest)) => Ok(Policies::LinuxMd(Kernel::BEFORE_PENDING)),
        (Whose::LinuxMd, _) => Ok(Policies::LinuxMd(kernel.unwrap_or(Kernel::USUAL))),
    }
}

impl DoorWord {
    fn door(self) -> Door {
        match self {
            Self::InProcess => Door::InProcess,
            Self::Unix => Door::Unix,
            Self::Tcp => Door::Tcp,
            Self::Iscsi => Door::Iscsi,
        }
    }
}

/// The word of a door in flags and reports, and what it is for people.
pub(crate) const fn words_of(door: Door) -> (&'static str, &'static str) {
    match door {
        Door::InProcess => ("in-process", "in process"),
        Door::Unix => ("unix", "by NBD over a Unix socket"),
        Door::Tcp => ("tcp", "by NBD over TCP"),
        Door::Iscsi => ("iscsi", "by iSCSI over TCP"),
    }
}

/// An array, or none for one drive by itself.
pub(crate) fn shape_of(
    level: &str,
    layout: Option<&str>,
    chunk: Bytes,
    members: u16,
) -> Result<Option<Shape>, Failure> {
    let wrong = |why: &dyn std::fmt::Display| Failure::Usage(why.to_string());
    if level == "none" {
        return match members {
            1 => Ok(None),
            _ => Err(Failure::Usage("--level none is one drive: give --members 1".to_owned())),
        };
    }
    let level: Level = level.parse().map_err(|why: brindle_layout::UnknownLevel| wrong(&why))?;
    let layout = match layout {
        Some(layout) => Layout::parse(level, layout).map_err(|why| wrong(&why))?,
        None => Layout::default_for(level),
    };
    Ok(Some(Shape { level, layout, chunk: chunk.0, members, bitmap: None }))
}
