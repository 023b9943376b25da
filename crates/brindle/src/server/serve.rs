//! `brindle serve`: serves arrays and pools until an order to stop.

mod access;
mod announce;
mod checked;
mod claimed;
mod crew;
mod detached;
mod disks;
mod doors;
mod ended;
mod groups;
mod iscsi;
mod job;
mod joining;
mod kinds;
mod looked;
mod metrics;
mod mounted;
mod notify;
mod places;
mod planned;
mod reload;
mod reservation_files;
mod running;
mod serving;
mod takeover;
mod tls;

use std::process::ExitCode;

use crate::base::failure::Failure;
use crate::base::machine;
use crate::devices::mounts;
use crate::devices::world::{self, Through};
use crate::flags::cli::{Mount, Serve};
use brindle_host::opening::{MetricsConfig, Opening, Permission, Tuning};
pub(crate) use checked::{Checked, check};
pub(crate) use job::{DaemonJob, Gathered, MountJob, ServeJob};
pub(crate) use joining::Joins;
pub(crate) use kinds::{Gathering, gather, refused};
pub(crate) use notify::starts_within;
use planned::Planned;
pub(crate) use takeover::{Inherited, IsMeant, inherit};

pub(crate) fn serve(args: &Serve) -> Result<ExitCode, Failure> {
    if args.background && !detached::is_waited_for() {
        return detached::start();
    }
    world::assume(args.assuming.assume.as_ref());
    let served = serve_here(ServeJob {
        opening: args.into(),
        metrics: (&args.metrics).into(),
        search: if args.read_only { Through::of(args.search) } else { Through::Never },
        folder: args.runtime.folder(),
        background: args.background,
        mount: None,
        json: args.json,
        daemon: None,
    });
    served.map(|()| ExitCode::SUCCESS)
}

/// `brindle mount --members`: serves them until the folder is unmounted, or an order to stop.
pub(crate) fn mount(args: &Mount) -> Result<ExitCode, Failure> {
    let Some((volume, folder)) = args.of_members() else {
        return Err(Failure::Usage(
            "name the folder behind the members: brindle mount --members a b c -- FOLDER".to_owned(),
        ));
    };
    if args.background && !detached::is_waited_for() {
        return detached::start();
    }
    let access = if args.write { Permission::ReadWrite } else { Permission::ReadOnly };
    let (members, force) = (args.members.clone(), args.force);
    let job =
        MountJob { place: mounts::prepare(folder)?, volume: volume.map(str::to_owned), write: args.write };
    let served = serve_here(ServeJob {
        opening: Opening { members, access, force, tuning: of_this_machine(), ..Opening::default() },
        metrics: MetricsConfig::default(),
        search: if args.write { Through::Never } else { Through::of(args.search) },
        folder: args.runtime.folder(),
        background: args.background,
        mount: Some(job),
        json: args.json,
        daemon: None,
    });
    served.map(|()| ExitCode::SUCCESS)
}

/// The usual memory, or a part of what a small machine has.
fn of_this_machine() -> Tuning {
    Tuning { memory: (machine::memory() / 4).clamp(16 << 20, Tuning::USUAL.memory), ..Tuning::USUAL }
}

/// Serves in this process. Each phase is a type, and only the phase before it gives it: before [`claimed::Alone`] no member is written to,
/// and before [`ended::Closed`] none is free.
pub(crate) fn serve_here(job: ServeJob<'_>) -> Result<(), Failure> {
    let planned = Planned::check(job)?;
    let claimed = planned.take_over()?.look()?.claim()?;
    let serving = claimed.listen()?.go_on()?.serve()?;
    serving.answer_others()?.run().close().tell()
}
