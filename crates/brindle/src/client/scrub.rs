//! `brindle scrub`: the check of a running array that is due, within a window: what is left of it goes on in the next.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use brindle_host::Volumes;
use brindle_host::status::{self, ExportStatus, Findings, PoolStatus, ScanState, ScanStatus};
use serde::Serialize;
use serde::de::IgnoredAny;

use crate::base::failure::Failure;
use crate::base::scrubs::{FOLDER, Scrubbed};
use crate::base::sync::SyncReport;
use crate::base::{report, runtime};
use crate::client::ask::{Target, ask};
use crate::client::control::{Ask, Word};
use crate::client::{findings, scan};
use crate::devices::world::seconds_since_1970;
use crate::flags::cli::Scrub;

/// How often the server is asked.
const LOOK: Duration = Duration::from_millis(500);
const DAY: u64 = 24 * 60 * 60;

/// The end of a scrub, for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    /// All was compared.
    Finished,
    /// The window is over: it is paused, and goes on in the next.
    Paused,
    /// It was compared not long ago.
    NotDue,
    /// A resync or a recovery runs, which comes first.
    Busy,
}

/// The output of `brindle scrub --json`.
#[derive(Debug, Serialize)]
struct Report {
    name: String,
    uuid: String,
    outcome: Outcome,
    percent: Option<f64>,
    last: Option<u64>,
    mismatch_cnt: Option<u64>,
}

/// `brindle scrub`: its exit status is that of `check`, once that has ended.
pub(crate) fn scrub(args: &Scrub) -> Result<ExitCode, Failure> {
    let folder = runtime::folder(args.runtime.folder())?;
    let Target { server, array, .. } = Target::meant(&folder, args.array.as_deref())?;
    let reported = ask::<Volumes>(&folder, &server, &Ask::Status.of(array.clone()))?.into_read();
    let target_is_pool = matches!(&*reported.into_all(), [status::Report::Pool(_)]);
    let state = args.state.as_deref().unwrap_or(Path::new(FOLDER));
    let look = || one(ask::<Volumes>(&folder, &server, &Ask::Status.of(array.clone()))?.into_read(), &server);
    let act = |action: Word| {
        let (max_speed, min_speed) = (args.max_speed.map(|speed| speed.0), None);
        ask::<IgnoredAny>(&folder, &server, &Ask::Action { action, max_speed, min_speed }.of(array.clone()))
    };
    if target_is_pool {
        return scrub_pool(args, &folder, &Target::of(&server, array.as_deref()), state);
    }
    let first = look()?;
    let (name, uuid) = (first.name.clone(), first.array.facts.uuid.clone());
    let last = Scrubbed::last(state, &uuid);
    let end = |outcome, percent, mismatch_cnt| {
        let last = Scrubbed::last(state, &uuid).map(|last| last.ended);
        Report { name: name.clone(), uuid: uuid.clone(), outcome, percent, last, mismatch_cnt }
            .tell(args.json)
    };
    match SyncReport::of(&first.array.sync) {
        Some(sync) if sync.action() != "check" => {
            return end(Outcome::Busy, None, None).map(|()| ExitCode::SUCCESS);
        }
        Some(_) => drop(act(Word::Resume)?),
        None => {
            let passed = last.map(|last| seconds_since_1970().saturating_sub(last.ended));
            if passed.is_some_and(|passed| passed < u64::from(args.every) * DAY) {
                return end(Outcome::NotDue, None, None).map(|()| ExitCode::SUCCESS);
            }
            act(Word::Check)?;
        }
    }
    let until = args.window.map(|window| Instant::now() + Duration::from_millis(window.0));
    let ended = loop {
        let now = look()?;
        let Some(sync) = SyncReport::of(&now.array.sync) else { break now };
        if until.is_some_and(|until| Instant::now() >= until) {
            act(Word::Pause)?;
            return end(Outcome::Paused, Some(sync.share() * 100.0), None).map(|()| ExitCode::SUCCESS);
        }
        std::thread::sleep(LOOK);
    };
    let not_of_check = || Failure::Refused(format!("{name}: the check was ended by another process"));
    let last = ended.last_action.ok_or_else(not_of_check)?;
    if let Some(why) = last.error {
        return Err(Failure::Refused(format!("{name}: the check did not come to its end: {why}")));
    }
    if last.action != "check" {
        return Err(not_of_check());
    }
    let Findings { mismatch_cnt, unreadable, unverified, .. } = last.findings;
    Scrubbed { uuid: uuid.clone(), ended: seconds_since_1970(), mismatch_cnt }.keep(state)?;
    end(Outcome::Finished, Some(100.0), Some(mismatch_cnt))?;
    Ok(findings::status(mismatch_cnt, unreadable, unverified))
}

/// The same of a pool, whose scrub heals.
fn scrub_pool(args: &Scrub, folder: &Path, target: &Target, state: &Path) -> Result<ExitCode, Failure> {
    let act = |action: Word| {
        let (max_speed, min_speed) = (args.max_speed.map(|speed| speed.0), None);
        let order = Ask::Action { action, max_speed, min_speed }.of(target.array.clone());
        ask::<IgnoredAny>(folder, &target.server, &order)
    };
    let first = pool_meant(folder, target)?;
    let (name, uuid) = (first.name.clone(), first.pool.uuid.clone());
    let end = |outcome, percent, errors| {
        let last = Scrubbed::last(state, &uuid).map(|last| last.ended);
        let report =
            Report { name: name.clone(), uuid: uuid.clone(), outcome, percent, last, mismatch_cnt: errors };
        if args.json { report::print_json(&report) } else { report::tell(&report.text_of_pool()) }
    };
    match first.pool.scan.as_ref().map(|scan| (scan, scan.sync())) {
        Some((ScanStatus::Resilver(_), Some(_))) => {
            return end(Outcome::Busy, None, None).map(|()| ExitCode::SUCCESS);
        }
        Some((ScanStatus::Scrub(_), Some(_))) => drop(act(Word::Resume)?),
        _ => {
            let passed =
                Scrubbed::last(state, &uuid).map(|last| seconds_since_1970().saturating_sub(last.ended));
            if passed.is_some_and(|passed| passed < u64::from(args.every) * DAY) {
                return end(Outcome::NotDue, None, None).map(|()| ExitCode::SUCCESS);
            }
            act(Word::Repair)?;
        }
    }
    let until = args.window.map(|window| Instant::now() + Duration::from_millis(window.0));
    let ended = loop {
        let now = pool_meant(folder, target)?;
        let Some(sync) = now.pool.scan.as_ref().and_then(ScanStatus::sync) else { break now };
        if until.is_some_and(|until| Instant::now() >= until) {
            act(Word::Pause)?;
            return end(Outcome::Paused, Some(sync.percent), None).map(|()| ExitCode::SUCCESS);
        }
        std::thread::sleep(LOOK);
    };
    let scan = ended.pool.scan.as_ref();
    let (errors, stopped) = match scan.map(ScanStatus::state) {
        Some(ScanState::Finished { errors, stopped, .. }) => (*errors, stopped.clone()),
        _ => (0, Some("its server was started anew".to_owned())),
    };
    if let Some(why) = stopped {
        return Err(Failure::Refused(format!("{name}: the scrub did not come to its end: {why}")));
    }
    Scrubbed { uuid: uuid.clone(), ended: seconds_since_1970(), mismatch_cnt: errors }.keep(state)?;
    end(Outcome::Finished, Some(100.0), Some(errors))?;
    Ok(scan::status(scan))
}

/// The pool that is meant.
pub(crate) fn pool_meant(folder: &Path, target: &Target) -> Result<PoolStatus, Failure> {
    let reported = ask::<Volumes>(folder, &target.server, &Ask::Status.of(target.array.clone()))?.into_read();
    let mut all = reported.into_all();
    match (all.pop(), all.is_empty()) {
        (Some(status::Report::Pool(status)), true) => Ok(*status),
        (Some(_), true) => {
            Err(Failure::Usage("it is an array: `brindle action` compares its redundancy".to_owned()))
        }
        _ => Err(Failure::Usage(format!("'{}' serves several: name the pool", target.server))),
    }
}

/// Waits until no scan of the pool is under way; `tell` is told how far it is.
pub(crate) fn wait_for_pool(
    folder: &Path,
    target: &Target,
    mut tell: impl FnMut(&str, &SyncReport<'_>),
) -> Result<PoolStatus, Failure> {
    loop {
        let status = pool_meant(folder, target)?;
        let sync = status.pool.scan.as_ref().and_then(ScanStatus::sync);
        match SyncReport::of(&sync) {
            Some(sync) => tell(&status.name, &sync),
            None => return Ok(status),
        }
        std::thread::sleep(LOOK);
    }
}

/// The report of the array that is meant.
fn one(reported: Volumes, server: &str) -> Result<ExportStatus, Failure> {
    let mut all = reported.into_all();
    match (all.pop(), all.is_empty()) {
        (Some(status::Report::Array(status)), true) => Ok(*status),
        (Some(_), true) => Err(Failure::Usage("it is a pool: `brindle pool scrub` goes over it".to_owned())),
        _ => Err(Failure::Usage(format!("'{server}' serves several arrays: name the one to scrub"))),
    }
}

impl Report {
    fn tell(&self, json: bool) -> Result<(), Failure> {
        if json { report::print_json(self) } else { report::tell(&self.text()) }
    }

    fn text_of_pool(&self) -> String {
        let name = &self.name;
        match (self.outcome, self.mismatch_cnt.unwrap_or(0)) {
            (Outcome::Finished, 0) => format!("{name}: nothing is wrong\n"),
            (Outcome::Finished, count) => {
                format!(
                    "{name}: {count} errors are left: `brindle pool status {name}` tells of what is lost\n"
                )
            }
            _ => self.text(),
        }
    }

    fn text(&self) -> String {
        let name = &self.name;
        match self.outcome {
            Outcome::Finished => match self.mismatch_cnt.unwrap_or(0) {
                0 => format!("{name}: all redundancy agrees\n"),
                count => format!(
                    "{name}: {count} sectors disagree: `brindle action {name} repair` corrects them\n"
                ),
            },
            Outcome::Paused => {
                format!(
                    "{name}: the window is over at {:.1}%: it goes on in the next\n",
                    self.percent.unwrap_or(0.0)
                )
            }
            Outcome::NotDue => format!("{name}: was compared not long ago\n"),
            Outcome::Busy => format!("{name}: a resync or a recovery runs, which comes first\n"),
        }
    }
}
