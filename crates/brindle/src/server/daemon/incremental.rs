//! `brindle incremental`: hands a device that has appeared to the daemon, as a udev rule does.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use brindle_format::md::display_uuid;
use brindle_io::device::DeviceAccess;
use serde::Serialize;

use super::Meant;
use crate::base::failure::Failure;
use crate::base::{look, report, runtime};
use crate::client::ask;
use crate::client::choice::{Choice, served, waiting};
use crate::client::control::Request;
use crate::devices::pools;
use crate::devices::scan::Findable;
use crate::devices::world::place;
use crate::flags::cli::Incremental;
use crate::server::settings::Settings;

/// The end of a device that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    /// It is no member.
    NoMember,
    /// Its array is served already.
    Served,
    /// The settings do not mean its array.
    Foreign,
    /// Another waits for the array's other members.
    Waiting,
    /// Its array is served now.
    Started,
}

/// The output of `brindle incremental --json`.
#[derive(Debug, Serialize)]
struct Report {
    device: String,
    uuid: Option<String>,
    outcome: Outcome,
    changed: Vec<String>,
}

/// `brindle incremental`.
pub(crate) fn incremental(args: &Incremental) -> Result<(), Failure> {
    let (uuid, outcome, changed) = hand_over(args)?;
    let report = Report { device: args.device.display().to_string(), uuid, outcome, changed };
    if args.json { report::print_json(&report) } else { report::tell(&report.text()) }
}

type End = (Option<String>, Outcome, Vec<String>);

fn hand_over(args: &Incremental) -> Result<End, Failure> {
    let config = Settings::read(&args.config)?.config;
    let folder = runtime::make_folder(args.runtime.folder())?;
    let Some(uuid) = array_of(&args.device)? else { return Ok((None, Outcome::NoMember, Vec::new())) };
    let end = |outcome, changed| Ok((Some(uuid.clone()), outcome, changed));
    // One that is served and waits for members takes them.
    let waits = || waiting(&folder).iter().any(|one| one.uuid == uuid);
    if served(&folder).contains(&uuid) && !waits() {
        return end(Outcome::Served, Vec::new());
    }
    // One waits for all members of an array. The lock goes with the process, and stands where only its user comes.
    let lock = folder.join(format!(".incremental-{uuid}"));
    let failed = |source| Failure::output(lock.display(), source);
    let only = File::options().write(true).create(true).truncate(false).open(&lock).map_err(failed)?;
    match only.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return end(Outcome::Waiting, Vec::new()),
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    let meant = Meant::by(&config);
    let is_meant = |found: &Findable| found.uuid == uuid && meant.is_meant(found);
    let wait = Duration::from_millis(args.wait.0);
    let choice = Choice { places: &config.devices, named: &is_meant, own: None, wait };
    let (scanned, served) = choice.wait_for_members(&folder);
    if served.contains(&uuid) && !waits() {
        return end(Outcome::Served, Vec::new());
    }
    if !scanned.all.iter().any(is_meant) {
        return end(Outcome::Foreign, Vec::new());
    }
    let answer = ask::ask(&folder, &config.name, &Request::Incremental { uuid: uuid.clone() })?;
    let words = answer["changed"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_str);
    end(Outcome::Started, words.map(str::to_owned).collect())
}

/// The UUID of the array or pool that a device is a member of.
fn array_of(device: &Path) -> Result<Option<String>, Failure> {
    if let Some(label) = pools::label_of(device) {
        return Ok(Some(label.pool.to_string()));
    }
    let open = place::open(device, DeviceAccess::Examine)?;
    let candidate = look::candidate(&device.display().to_string(), open.info(), look::reader(&open))?;
    let superblock = candidate.superblock().ok().filter(|_| !look::is_unfit(&candidate));
    Ok(superblock.map(|(superblock, _)| display_uuid(superblock.set_uuid).to_string()))
}

impl Report {
    fn text(&self) -> String {
        let device = &self.device;
        match self.outcome {
            Outcome::NoMember => format!("{device} is a member of no array\n"),
            Outcome::Served => format!(
                "{device}: its array is served already; `brindle add --re-add` gives it a member back\n"
            ),
            Outcome::Foreign => format!(
                "{device}: the settings do not mean its array, {}\n",
                self.uuid.as_deref().unwrap_or_default()
            ),
            Outcome::Waiting => format!("{device}: the other members of its array are waited for already\n"),
            Outcome::Started => self.changed.iter().map(|words| format!("{words}\n")).collect(),
        }
    }
}
