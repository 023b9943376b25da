//! `brindle scrub`: the check of a running array that is due, within a window: what is left of it goes on in the next.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use brindle_host::Volumes;
use brindle_host::status::{self, ExportStatus, Findings};
use serde::Serialize;
use serde::de::IgnoredAny;

use crate::base::failure::Failure;
use crate::base::scrubs::{FOLDER, Scrubbed};
use crate::base::sync::SyncReport;
use crate::base::{report, runtime};
use crate::client::ask::{Target, ask};
use crate::client::control::{Ask, Word};
use crate::client::findings;
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
    let state = args.state.as_deref().unwrap_or(Path::new(FOLDER));
    let look = || one(ask::<Volumes>(&folder, &server, &Ask::Status.of(array.clone()))?.into_read(), &server);
    let act = |action: Word| {
        let (max_speed, min_speed) = (args.max_speed.map(|speed| speed.0), None);
        ask::<IgnoredAny>(&folder, &server, &Ask::Action { action, max_speed, min_speed }.of(array.clone()))
    };
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

/// The report of the array that is meant.
fn one(reported: Volumes, server: &str) -> Result<ExportStatus, Failure> {
    let mut all = reported.into_all();
    match (all.pop(), all.is_empty()) {
        (Some(status::Report::Array(status)), true) => Ok(*status),
        (Some(_), true) => {
            Err(Failure::Usage("a pool is compared with `brindle check`, while it is not served".to_owned()))
        }
        _ => Err(Failure::Usage(format!("'{server}' serves several arrays: name the one to scrub"))),
    }
}

impl Report {
    fn tell(&self, json: bool) -> Result<(), Failure> {
        if json { report::print_json(self) } else { report::tell(&self.text()) }
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
