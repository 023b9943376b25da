//! `brindle serve`: serves arrays and pools until an order to stop.

mod access;
mod announce;
mod checked;
mod claimed;
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
use crate::devices::world::{self, Through};
use crate::flags::cli::Serve;
pub(crate) use checked::{Checked, check};
pub(crate) use job::{DaemonJob, Gathered, ServeJob};
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
        json: args.json,
        daemon: None,
    });
    served.map(|()| ExitCode::SUCCESS)
}

/// Serves in this process. Each phase is a type, and only the phase before it gives it: before [`claimed::Alone`] no member is written to,
/// and before [`ended::Closed`] none is free.
pub(crate) fn serve_here(job: ServeJob<'_>) -> Result<(), Failure> {
    let planned = Planned::check(job)?;
    let claimed = planned.take_over()?.look()?.claim()?;
    let serving = claimed.listen()?.go_on()?.serve()?;
    serving.answer_others()?.run().close().tell()
}
