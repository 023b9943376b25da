//! A start until members are looked for: all that can be known to be wrong before a daemon that runs ends, and its end.

use brindle_host::opening::{Exports, Opening};
use brindle_io::uring::SocketRights;
use signal_hook::iterator::Signals;

use super::iscsi::IscsiPlan;
use super::job::ServeJob;
use super::metrics::ScrapePlan;
use super::places::{self, ListenPlace};
use super::takeover::Predecessor;
use super::tls::Certificates;
use super::{checked, crew, reload};
use crate::base::failure::Failure;
use crate::base::runtime;
use crate::devices::world;
use crate::server::descriptors::Room;

/// An initiator's patience, in milliseconds: VMware gives up a path whose commands take 5 to 8 seconds.
const INITIATORS_BEAR: u64 = 4_000;

/// A server whose settings, and the files and addresses that they name, are in order.
pub(super) struct Planned<'a> {
    task: Task<'a>,
    ways: Ways,
    room: Room,
}

/// A server that may look for members: no daemon runs in whose place it is to go on, or that has stopped.
pub(super) struct Cleared<'a> {
    pub(super) predecessor: Option<Predecessor<'a>>,
    pub(super) task: Task<'a>,
    pub(super) ways: Ways,
    pub(super) room: Room,
}

/// Things that a server keeps through its start.
pub(super) struct Task<'a> {
    pub(super) job: ServeJob<'a>,
    pub(super) metrics: ScrapePlan,
    /// Tells that files are to be read anew.
    pub(super) hung_up: Signals,
}

/// The ways by which clients come.
pub(super) struct Ways {
    pub(super) places: Vec<ListenPlace>,
    /// Rights of the Unix sockets among these places.
    pub(super) rights: SocketRights,
    pub(super) plan: Option<IscsiPlan>,
    pub(super) certificates: Option<Certificates>,
}

impl<'a> Planned<'a> {
    /// Checks all that can be known before a daemon that runs ends. Changes nothing.
    pub(super) fn check(mut job: ServeJob<'a>) -> Result<Self, Failure> {
        let hung_up = reload::hear()?;
        let room = Room::take();
        let metrics = ScrapePlan::find(&job.metrics)?;
        job.opening = with_patience(job.opening);
        let ways = Ways::find(&job.opening.exports)?;
        world::check_budget(&job.opening.tuning)?;
        crew::check(&job.opening.cores)?;
        Ok(Self { task: Task { job, metrics, hung_up }, ways, room })
    }

    /// Has a daemon stop in whose place this one is to go on.
    pub(super) fn take_over(self) -> Result<Cleared<'a>, Failure> {
        let Self { task, ways, room } = self;
        let is_meant = task.job.daemon.as_ref().and_then(|daemon| daemon.takes_over);
        let predecessor = match task.job.opening.name.as_ref().zip(is_meant) {
            Some((name, is_meant)) => {
                Predecessor::take_over(&runtime::make_folder(task.job.folder)?, name, is_meant)?
            }
            None => None,
        };
        Ok(Cleared { predecessor, task, ways, room })
    }
}

impl Ways {
    fn find(exports: &Exports) -> Result<Self, Failure> {
        let certificates = exports.tls.as_ref().map(Certificates::read).transpose()?;
        let places = places::find(exports, certificates.as_ref())?;
        let plan =
            exports.iscsi.as_ref().map(|iscsi| IscsiPlan::find(iscsi, exports.insecure)).transpose()?;
        let rights = checked::rights(&exports.unix_rights)?;
        Ok(Self { places, rights, plan, certificates })
    }
}

/// Returns `opening` with iSCSI's patience: with an iSCSI portal members that don't answer are failed sooner, unless
/// it is said when.
fn with_patience(mut opening: Opening) -> Opening {
    let answer = &mut opening.tuning.patience.answer_ms;
    match *answer {
        _ if opening.exports.iscsi.is_none() => {}
        None => *answer = Some(INITIATORS_BEAR),
        Some(said) if said > INITIATORS_BEAR => eprintln!(
            "brindle: while a member does not answer (--member-timeout), commands of initiators may take longer than VMware bears, \
             which is 5 to 8 seconds"
        ),
        Some(_) => {}
    }
    opening
}
