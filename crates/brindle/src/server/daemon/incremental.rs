//! `brindle incremental`: hands a device that has appeared to the daemon, as a udev rule does.

use brindle_host::Changed;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use super::Meant;
use crate::base::failure::Failure;
use crate::base::path::{absolute, real};
use crate::base::{report, runtime, text};
use crate::client::choice::{Choice, served, waiting};
use crate::client::control::Ask;
use crate::client::{ask, next_step};
use crate::devices::scan::{Findable, set_of};
use crate::flags::cli::Incremental;
use crate::server::reach;
use crate::server::settings::Settings;

/// The end of a device that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    /// It is no member.
    NoMember,
    /// Its array is served already, and uses it.
    Served,
    /// Its array is served already, without it.
    Back,
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
    /// The reason why its array is none of this host's.
    why: Option<String>,
    /// The step by which an array that is served without it gets it back.
    next: Option<String>,
}

/// `brindle incremental`.
pub(crate) fn incremental(args: &Incremental) -> Result<(), Failure> {
    let report = hand_over(args)?;
    if args.json { report::print_json(&report) } else { report::tell(&report.text()) }
}

fn hand_over(args: &Incremental) -> Result<Report, Failure> {
    let config = Settings::read(&args.config)?.config;
    let folder = runtime::make_folder(args.runtime.folder())?;
    let device = args.device.display().to_string();
    let uuid = set_of(&args.device)?;
    let end = |outcome, changed| {
        Ok(Report { device: device.clone(), uuid: uuid.clone(), outcome, changed, why: None, next: None })
    };
    let Some(uuid) = &uuid else { return end(Outcome::NoMember, Vec::new()) };
    // One that is served and waits for members takes them.
    let waits = || waiting(&folder).iter().any(|one| one.uuid == *uuid);
    let is_served = || match next(args, &folder, uuid) {
        Some(next) => Ok(Report { next: Some(next), ..end(Outcome::Back, Vec::new())? }),
        None => end(Outcome::Served, Vec::new()),
    };
    if served(&folder).contains(uuid) && !waits() {
        return is_served();
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
    let is_meant = |found: &Findable| found.uuid == *uuid && meant.is_meant(found);
    let wait = Duration::from_millis(args.wait.0);
    let choice = Choice { places: &config.devices, named: &is_meant, own: None, wait };
    let (scanned, served) = choice.wait_for_members(&folder);
    if served.contains(uuid) && !waits() {
        return is_served();
    }
    if !scanned.all.iter().any(is_meant) {
        let own = scanned.all.iter().find(|found| found.uuid == *uuid);
        let why = own.and_then(|found| meant.foreign(found));
        return Ok(Report { why, ..end(Outcome::Foreign, Vec::new())? });
    }
    let request = Ask::Incremental { uuid: uuid.clone() }.into();
    let Changed { changed } = ask::ask::<Changed>(&folder, &config.name, &request)?.into_read();
    end(Outcome::Started, changed)
}

/// The step by which an array that is served gets the device back, if it does without it.
fn next(args: &Incremental, folder: &Path, uuid: &str) -> Option<String> {
    let reports = ask::reports(folder);
    let report = reports.iter().find(|report| report.served_uuid() == Some(uuid))?;
    let (own, here) = (real(&args.device), report.folder().unwrap_or(Path::new(".")));
    let flags = next_step::runtime_flag(args.runtime.folder());
    let restart = restart(args, Some(report.pid().into()), &flags);
    let device = absolute(&args.device).display().to_string();
    next_step::back(report, (&flags, &restart), &device, |path| real(&here.join(path)) == own)
}

/// The command that starts the daemon of this process anew: by the unit that it runs in, if it is one of systemd's.
fn restart(args: &Incremental, pid: Option<u64>, flags: &str) -> String {
    let groups = pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok());
    match groups.as_deref().and_then(reach::unit_in) {
        Some(unit) => format!("systemctl restart {}", text::shell(unit)),
        None => {
            let config = text::shell(&absolute(&args.config).display().to_string());
            format!("brindle daemon --takeover --config {config}{flags}")
        }
    }
}

impl Report {
    fn text(&self) -> String {
        let device = &self.device;
        match self.outcome {
            Outcome::NoMember => format!("{device} is a member of no array\n"),
            Outcome::Served => format!("{device}: its array is served already, and uses it\n"),
            Outcome::Back => format!(
                "{device}: its array is served already, and does without it; to give it back: {}\n",
                self.next.as_deref().unwrap_or_default()
            ),
            Outcome::Foreign => match &self.why {
                Some(why) => format!("{device}: the settings do not mean its array: {why}\n"),
                None => format!(
                    "{device}: the settings do not mean its array, {}\n",
                    self.uuid.as_deref().unwrap_or_default()
                ),
            },
            Outcome::Waiting => format!("{device}: the other members of its array are waited for already\n"),
            Outcome::Started => self.changed.iter().map(|words| format!("{words}\n")).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_of_systemds_is_started_anew_by_its_unit() {
        assert_eq!(reach::unit_in("0::/system.slice/brindle.service\n"), Some("brindle.service"));
        assert_eq!(
            reach::unit_in("4:memory:/x\n1:name=systemd:/system.slice/brindle.service\n"),
            Some("brindle.service")
        );
        assert_eq!(reach::unit_in("0::/user.slice/user-0.slice/session-1.scope\n"), None);
        assert_eq!(reach::unit_in("0::/system.slice/ssh.service\n"), None);
    }
}
