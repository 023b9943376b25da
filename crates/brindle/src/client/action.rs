//! `brindle action` and `brindle wait`: the check, repair or recovery of a running array, as md's `sync_action` has it.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use brindle_host::Volumes;
use brindle_host::status::{Findings, Outcome, PoolStatus, Report, ScanStatus};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use indicatif::ProgressBar;

use crate::base::failure::Failure;
use crate::base::sync::SyncReport;
use crate::base::units::Bytes;
use crate::base::{progress, report, runtime};
use crate::client::ask::{Order, Target, ask};
use crate::client::control::{Answer, Ask, Word};
use crate::client::{findings, scan};
use crate::flags::cli::{Action, Said, Wait};

/// How often `wait` asks.
const LOOK: Duration = Duration::from_millis(300);

impl ValueEnum for Said<Word> {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Said(Word::Check),
            Said(Word::Repair),
            Said(Word::Locate),
            Said(Word::Pause),
            Said(Word::Resume),
            Said(Word::Idle),
            Said(Word::Speed),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(match self.0 {
            Word::Check => "Compare redundancy",
            Word::Repair => "Compare redundancy, and correct it as `brindle repair` does",
            Word::Locate => {
                "Compare redundancy, and write what is known to be wrong, as `brindle repair --locate` does"
            }
            Word::Pause => "Pause the check, repair or recovery that is running",
            Word::Resume => {
                "Go on after `pause`, or with a resync, recovery or replacement that has ended early"
            }
            Word::Idle => {
                "Stop the check, repair or recovery that is running: the part that is done stays done"
            }
            Word::Speed => "Set the array's speeds, for the process that runs now and for later ones",
        }))
    }
}

/// `brindle action`.
pub(crate) fn action(args: &Action) -> Result<(), Failure> {
    let folder = runtime::folder(args.runtime.folder())?;
    let target = Target::meant(&folder, args.array.as_deref())?;
    let [max_speed, min_speed] = [args.max_speed, args.min_speed].map(|speed| speed.map(|speed| speed.0));
    if args.action.0 == Word::Speed && max_speed.or(min_speed).is_none() {
        return Err(Failure::Usage(
            "give which speed: --max-speed SIZE, or 0 for as fast as it goes; or --min-speed SIZE".to_owned(),
        ));
    }
    let ask_for = Ask::Action { action: args.action.0, max_speed, min_speed };
    let answer: Answer<Report> = match args.action.0 {
        Word::Repair | Word::Locate | Word::Resume => {
            Order::of(&folder, &target, args.array.as_deref())?.give(ask_for)?
        }
        _ => ask(&folder, &target.server, &ask_for.of(target.array))?,
    };
    if args.json { report::print_json(&answer) } else { report::print(&crate::client::status::text(&answer)) }
}

/// The progress of a command that waits: a bar on a terminal, elsewhere a line now and then.
pub(crate) struct Waiting {
    bar: Option<ProgressBar>,
    every: Duration,
    reported: Instant,
}

impl Waiting {
    pub(crate) fn new(every: Duration) -> Self {
        Self { bar: None, every, reported: Instant::now() }
    }

    /// The process has come so far.
    pub(crate) fn tell(&mut self, name: &str, sync: &SyncReport<'_>) {
        if std::io::stderr().is_terminal() {
            let bar = self.bar.get_or_insert_with(|| progress::byte_bar(sync.total));
            // One thing may follow another.
            bar.set_length(sync.total);
            bar.set_prefix(sync.action().to_owned());
            bar.set_message(sync.pace());
            bar.set_position(sync.position);
        } else if self.reported.elapsed() >= self.every {
            self.reported = Instant::now();
            // A closed standard error loses nothing that matters.
            let _ = writeln!(std::io::stderr(), "brindle: {name}: {}", sync.text());
        }
    }
}

impl Waiting {
    /// Members of a pool get what they lack, or its parity is raised: how much is left tells how far that is.
    fn tell_of_pool(&mut self, report: &PoolStatus) {
        let left = report.pool.thin;
        if std::io::stderr().is_terminal() {
            let bar = self.bar.get_or_insert_with(|| progress::byte_bar(left));
            bar.set_prefix(if report.pool.resilver.is_some() { "resilver" } else { "raising" });
            bar.set_length(bar.length().unwrap_or(0).max(left));
            bar.set_position(bar.length().unwrap_or(left) - left);
        } else if self.reported.elapsed() >= self.every {
            self.reported = Instant::now();
            let (name, left) = (&report.name, Bytes(left));
            let _ = writeln!(
                std::io::stderr(),
                "brindle: {name}: {left} have less redundancy than they can have"
            );
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// `brindle wait`: its exit status is that of `check` or `repair`, if that or a recovery is what has ended.
pub(crate) fn wait(args: &Wait) -> Result<ExitCode, Failure> {
    let folder = runtime::folder(args.runtime.folder())?;
    let Target { server, array, .. } = Target::meant(&folder, args.array.as_deref())?;
    let mut waiting = Waiting::new(Duration::from_millis(args.interval.0));
    let reported = loop {
        let reported = ask::<Volumes>(&folder, &server, &Ask::Status.of(array.clone()))?;
        match reported.all() {
            [] if matches!(*reported, Volumes::One(None)) => break reported,
            [Report::Array(status)] => match SyncReport::of(&status.array.sync) {
                Some(sync) => waiting.tell(&status.name, &sync),
                None => break reported,
            },
            [Report::Pool(status)] if status.pool.scan.as_ref().is_some_and(|scan| scan.sync().is_some()) => {
                let sync = status.pool.scan.as_ref().and_then(ScanStatus::sync);
                if let Some(sync) = SyncReport::of(&sync) {
                    waiting.tell(&status.name, &sync);
                }
            }
            [Report::Pool(status)] if status.pool.raising || status.pool.resilver.is_some() => {
                waiting.tell_of_pool(status);
            }
            [_] => break reported,
            _ => {
                return Err(Failure::Usage(format!(
                    "'{server}' serves several arrays: name the one to wait for"
                )));
            }
        }
        std::thread::sleep(LOOK);
    };
    drop(waiting);
    let last = reported.all().first().and_then(Report::array).and_then(|status| status.last_action.as_ref());
    let scanned = match reported.all() {
        [Report::Pool(status)] => status.pool.scan.as_ref(),
        _ => None,
    };
    if args.json {
        report::print_json(&reported)?;
    } else if let Some(scanned) = scanned {
        report::print(&scan::text(scanned))?;
    } else {
        let none = || "no check, repair or recovery is running\n".to_owned();
        report::print(&last.map_or_else(none, findings::text))?;
    }
    Ok(last.map_or_else(|| scan::status(scanned), status))
}

/// The exit status by what was found last.
fn status(last: &Outcome) -> ExitCode {
    let Findings { mismatch_cnt, unlocated, unreadable, unverified, resynced, .. } = last.findings;
    let left = match &*last.action {
        "check" => mismatch_cnt,
        "locate" if !resynced => unlocated,
        _ => 0,
    };
    let compared = matches!(&*last.action, "check" | "repair" | "locate");
    let unverified = if compared && !resynced { unverified } else { 0 };
    match last.error.is_some() {
        true => ExitCode::FAILURE,
        false => findings::status(left, unreadable, unverified),
    }
}
