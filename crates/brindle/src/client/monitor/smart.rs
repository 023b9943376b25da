//! The health of drives by SMART, as smartctl reports it: a program that is run now and then, on a thread of its own, since a drive
//! that dies may keep it waiting.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::changes::Happened;
use super::programs::output_of;
use super::state::Seen;

/// Time between two looks at drives, as smartd has it.
const EVERY: Duration = Duration::from_secs(30 * 60);
/// Time that one drive may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time after which a drive that goes on failing is reported again.
const AGAIN: Duration = Duration::from_secs(24 * 60 * 60);

/// The output of `smartctl --json`, as far as it is read. Anything may be missing.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Reported {
    smart_status: Option<Status>,
    model_name: Option<String>,
    serial_number: Option<String>,
    nvme_smart_health_information_log: Option<NvmeLog>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    passed: Option<bool>,
    nvme: Option<NvmeStatus>,
}

/// The critical warning of an NVMe drive, in the answer about its health.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NvmeStatus {
    value: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NvmeLog {
    critical_warning: u64,
}

/// A drive that SMART calls failing: what is known of it.
fn failing(text: &[u8]) -> Option<String> {
    let reported: Reported = serde_json::from_slice(text).ok()?;
    let status = reported.smart_status.unwrap_or_default();
    let log = reported.nvme_smart_health_information_log.unwrap_or_default();
    let warning = log.critical_warning | status.nvme.unwrap_or_default().value;
    let failed = status.passed == Some(false);
    if !failed && warning == 0 {
        return None;
    }
    let drive = [reported.model_name, reported.serial_number].into_iter().flatten();
    let why = if warning == 0 {
        "SMART says that it fails".to_owned()
    } else {
        format!("its critical warning is {warning:#x}")
    };
    Some(drive.chain([why]).collect::<Vec<_>>().join(", "))
}

/// Looks at drives by smartctl.
#[derive(Clone)]
pub(super) struct Smart {
    program: PathBuf,
    /// Files are drives, too: for a program of one's own.
    any_file: bool,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Failing drives that the last look found, by device.
    failing: Mutex<BTreeMap<String, String>>,
    busy: AtomicBool,
    begun: Mutex<Option<Instant>>,
    /// When each was reported last.
    reported: Mutex<BTreeMap<String, Instant>>,
}

impl Smart {
    /// By this program, or by smartctl if it is there.
    pub(super) fn by(program: Option<&Path>) -> Self {
        let any_file = program.is_some();
        let program = program.map_or_else(|| "smartctl".into(), Path::to_owned);
        Self { program, any_file, shared: Arc::default() }
    }

    /// Events of drives; begins a look if one is due, whose findings come with a later call. With `wait` they come with this one.
    pub(super) fn turn(&self, all: &[Seen], now: Instant, wait: bool) -> Vec<Happened> {
        let devices: BTreeSet<String> = all.iter().flat_map(|seen| seen.devices.keys()).cloned().collect();
        let is_due = {
            let mut begun = lock(&self.shared.begun);
            let is_due = begun.is_none_or(|begun| now.duration_since(begun) >= EVERY);
            if is_due && !devices.is_empty() {
                *begun = Some(now);
            }
            is_due && !devices.is_empty()
        };
        if is_due && !self.shared.busy.swap(true, Ordering::AcqRel) {
            let this = self.clone();
            let look = move || {
                this.look(&devices);
                this.shared.busy.store(false, Ordering::Release);
            };
            match std::thread::Builder::new().name("smart".into()).spawn(look) {
                Ok(thread) if wait => drop(thread.join()),
                Ok(_) => {}
                Err(_) => self.shared.busy.store(false, Ordering::Release),
            }
        }
        self.events(all, now)
    }

    /// Drives that the last look found failing: by device, and why.
    pub(super) fn failing(&self) -> BTreeMap<String, String> {
        lock(&self.shared.failing).clone()
    }

    fn look(&self, devices: &BTreeSet<String>) {
        let is_drive = |device: &&String| {
            let kind = std::fs::metadata(device).map(|meta| meta.file_type());
            kind.is_ok_and(|kind| self.any_file || kind.is_block_device())
        };
        let mut found = BTreeMap::new();
        for device in devices.iter().filter(is_drive) {
            let args = ["--json", "--health", "--info", "--", device].map(str::to_owned);
            match output_of(&self.program, &args, PATIENCE) {
                // The exit status has a bit for each thing that is not as it should be: the text says what.
                Ok(text) => found.extend(failing(&text).map(|why| (device.clone(), why))),
                Err(why) => {
                    eprintln!("brindle: no word of SMART: {why}");
                    if why.contains("can't be run") {
                        break;
                    }
                }
            }
        }
        *lock(&self.shared.failing) = found;
    }

    fn events(&self, all: &[Seen], now: Instant) -> Vec<Happened> {
        let failing = lock(&self.shared.failing).clone();
        let mut reported = lock(&self.shared.reported);
        reported.retain(|device, _| failing.contains_key(device));
        let mut events = Vec::new();
        for (device, about) in failing {
            let is_new = reported.get(&device).is_none_or(|last| now.duration_since(*last) >= AGAIN);
            let of = all.iter().filter(|seen| seen.devices.contains_key(&device));
            if is_new {
                reported.insert(device.clone(), now);
                events.extend(of.map(|seen| Happened {
                    device: Some(device.clone()),
                    about: Some(about.clone()),
                    ..Happened::new("DriveFailing", &seen.name)
                }));
            }
        }
        events
    }
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_fails_when_smart_says_so() {
        let failed = br#"{"smartctl": {"exit_status": 8}, "model_name": "M", "serial_number": "S", "smart_status": {"passed": false, "x": 1}}"#;
        assert_eq!(failing(failed).as_deref(), Some("M, S, SMART says that it fails"));
        let worn = br#"{"smart_status": {"passed": true}, "nvme_smart_health_information_log": {"critical_warning": 4}}"#;
        assert_eq!(failing(worn).as_deref(), Some("its critical warning is 0x4"));
        let by_health = br#"{"smart_status": {"passed": false, "nvme": {"value": 1}}}"#;
        assert_eq!(failing(by_health).as_deref(), Some("its critical warning is 0x1"));
        assert_eq!(failing(br#"{"smart_status": {"passed": true}}"#), None);
    }

    #[test]
    fn nothing_that_a_program_says_is_trusted() {
        for text in [
            "",
            "{",
            "[]",
            "null",
            r#"{"smart_status": 1}"#,
            r#"{"smart_status": {"passed": "no"}}"#,
            "\u{0}",
        ] {
            assert_eq!(failing(text.as_bytes()), None, "{text}");
        }
    }
}
