//! `brindle action` and `brindle wait`: what goes over a running array, as md's `sync_action` is asked for.

use std::cell::RefCell;
use std::num::NonZeroU64;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use brindle_array::{Array, Process, ProcessError, SyncMode, SyncReport};
use brindle_io::sync::{Either, race};
use brindle_io::{Instant, Io};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde_json::{Value, json};

use crate::ask::{Target, ask};
use crate::check;
use crate::cli::{Action, Wait};
use crate::control::{Request, Word};
use crate::failure::Failure;
use crate::{MISMATCH, UNREADABLE, progress, report, runtime};

/// How long it may take until it is known that work can't begin.
const BEGINNING: brindle_io::Duration = brindle_io::Duration::from_millis(100);
/// How often `wait` asks.
const LOOK: Duration = Duration::from_millis(300);

impl ValueEnum for Word {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self::Check, Self::Repair, Self::Locate, Self::Pause, Self::Resume, Self::Idle, Self::Speed]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()).help(match self {
            Self::Check => "Compare redundancy",
            Self::Repair => "Compare redundancy, and make it true as `brindle repair` does",
            Self::Locate => {
                "Compare redundancy, and write what is known to be wrong, as `brindle repair --locate` does"
            }
            Self::Pause => "Begin no more of what goes over the array",
            Self::Resume => "Go on after `pause`",
            Self::Idle => "End what goes over the array: what is done stays done",
            Self::Speed => "Change nothing but the speed",
        }))
    }
}

impl Word {
    fn mode(self) -> Option<SyncMode> {
        match self {
            Self::Check => Some(SyncMode::Check),
            Self::Repair => Some(SyncMode::Repair),
            Self::Locate => Some(SyncMode::Locate),
            Self::Pause | Self::Resume | Self::Idle | Self::Speed => None,
        }
    }
}

/// What was begun last on an array, what came of it, and when it ended.
#[derive(Clone, Default)]
pub(crate) struct Last(Rc<RefCell<Option<(Instant, Value)>>>);

impl Last {
    /// What ended last of that, and of recoveries, which begin by themselves. Null as long as nothing has.
    pub(crate) fn report(&self, array: &Array) -> Value {
        let asked = self.0.borrow().clone();
        match array.last_recovery() {
            Some(last) if asked.as_ref().is_none_or(|(ended, _)| *ended <= last.ended) => {
                told("recover", array, &last.report, last.result.err())
            }
            _ => asked.map_or(Value::Null, |(_, told)| told),
        }
    }

    /// Does what is asked; `Err` says why not.
    pub(crate) async fn act(&self, io: &Io, array: &Array, word: Word, speeds: Speeds) -> Result<(), String> {
        let Some(mode) = word.mode() else {
            let process = array.process().ok_or("nothing goes over the array now")?;
            speeds.set(&process);
            match word {
                Word::Pause => process.pause(),
                Word::Resume => process.resume(),
                Word::Idle => process.stop(),
                Word::Check | Word::Repair | Word::Locate | Word::Speed => {}
            }
            return Ok(());
        };
        if array.sync_len() == 0 {
            return Err(format!("{} has no redundancy to check", array.geometry().level().name()));
        }
        if let Some(process) = array.process() {
            return Err(ProcessError::Busy(process.detail().kind).to_string());
        }
        if mode == SyncMode::Locate {
            match array.seems_never_synced().await {
                Ok(false) => {}
                Ok(true) => return Err(check::NEVER_SYNCED.to_owned()),
                Err(error) => return Err(error.to_string()),
            }
        }
        // It begins with the call.
        let work = array.check(mode, |_| ());
        if let Some(process) = array.process() {
            speeds.set(&process);
        }
        let (last, of, of_io) = (self.clone(), array.clone(), io.clone());
        let task = io.spawn(async move {
            let ended = work.await;
            let found = ended.clone().unwrap_or_default();
            let told = told(word.name(), &of, &found, ended.as_ref().err().copied());
            *last.0.borrow_mut() = Some((of_io.now(), told));
            ended
        });
        match race(task, io.sleep(BEGINNING)).await {
            Either::First(Err(error)) => Err(error.to_string()),
            Either::First(Ok(_)) | Either::Second(()) => Ok(()),
        }
    }
}

/// Bytes a second; 0 is none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Speeds {
    /// At most.
    pub(crate) max: Option<u64>,
    /// At least, where clients could have it slower.
    pub(crate) min: Option<u64>,
}

impl Speeds {
    /// Sets those that are said.
    fn set(self, process: &Process) {
        if let Some(speed) = self.max {
            process.set_pace(NonZeroU64::new(speed));
        }
        if let Some(speed) = self.min {
            process.set_floor(NonZeroU64::new(speed));
        }
    }
}

/// What came of it, for `status`.
fn told(action: &str, array: &Array, found: &SyncReport, error: Option<ProcessError>) -> Value {
    let mut told = json!(check::Report::of(array, found));
    told["action"] = json!(action);
    told["error"] = json!(error.map(|error| error.to_string()));
    told
}

/// `brindle action`.
pub(crate) fn action(args: &Action) -> Result<(), Failure> {
    let folder = runtime::folder(&args.runtime)?;
    let Target { server, array } = Target::meant(&folder, args.array.as_deref())?;
    let [max_speed, min_speed] = [args.max_speed, args.min_speed].map(|speed| speed.map(|speed| speed.0));
    if args.action == Word::Speed && max_speed.or(min_speed).is_none() {
        return Err(Failure::Usage(
            "say which speed: --max-speed SIZE, or 0 for as fast as it goes; or --min-speed SIZE".to_owned(),
        ));
    }
    let request = Request::Action { action: args.action, max_speed, min_speed, array };
    let answer = ask(&folder, &server, &request)?;
    if args.json { report::print_json(&answer) } else { report::print(&crate::status::text(&answer)) }
}

/// `brindle wait`: its exit status is that of `check` or `repair`, if that or a recovery is what has ended.
pub(crate) fn wait(args: &Wait) -> Result<ExitCode, Failure> {
    let folder = runtime::folder(&args.runtime)?;
    let Target { server, array } = Target::meant(&folder, args.array.as_deref())?;
    let mut bar = None;
    let told = loop {
        let told = ask(&folder, &server, &Request::Status { array: array.clone() })?;
        let reports = report::of_arrays(&told);
        let [report] = reports else {
            return Err(Failure::Usage(format!(
                "'{server}' serves several arrays: name the one to wait for"
            )));
        };
        let sync = &report["array"]["sync"];
        let (Some(position), Some(total)) = (sync["position"].as_u64(), sync["total"].as_u64()) else {
            break report.clone();
        };
        bar.get_or_insert_with(|| progress::bar("waiting", total)).set_position(position);
        std::thread::sleep(LOOK);
    };
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let last = &told["last_action"];
    if args.json {
        report::print_json(&told)?;
    } else {
        report::print(&check::text(last).unwrap_or_else(|| "nothing goes over the array\n".to_owned()))?;
    }
    let count = |field: &str| last[field].as_u64().unwrap_or(0);
    let left = match last["action"].as_str() {
        Some("check") => count("mismatch_cnt"),
        Some("locate") => count("unlocated"),
        _ => 0,
    };
    Ok(match (left, count("unreadable"), last["error"].is_string()) {
        (_, _, true) => ExitCode::FAILURE,
        (0, 0, _) => ExitCode::SUCCESS,
        (0, _, _) => ExitCode::from(UNREADABLE),
        _ => ExitCode::from(MISMATCH),
    })
}
