//! `brindle wait`: until nothing goes over an array or a pool any more.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use brindle_host::Volumes;
use brindle_host::status::{EventStatus, Findings, Outcome, PoolDevice, PoolStatus, Report, ScanStatus};
use indicatif::ProgressBar;

use crate::base::failure::Failure;
use crate::base::sync::SyncReport;
use crate::base::text::shown;
use crate::base::units::Bytes;
use crate::base::{progress, report, runtime};
use crate::client::ask::{Target, ask};
use crate::client::control::Ask;
use crate::client::{findings, scan, scrub};
use crate::flags::cli::Wait;

/// How often the server is asked.
const LOOK: Duration = Duration::from_millis(300);

/// Looks in a row at which a member lacks something and nobody gives it that, before this counts as the end.
const IDLE: u32 = 20;

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
    /// Members of a pool get what they lack, or its parity is raised: where no scan says how far that is, it is told by how much is left.
    fn tell_of_pool(&mut self, report: &PoolStatus) {
        let scan = report.pool.scan.as_ref().filter(|scan| matches!(scan, ScanStatus::Resilver(_)));
        let sync = scan.and_then(ScanStatus::sync);
        if let Some(sync) = SyncReport::of(&sync) {
            return self.tell(&report.name, &sync);
        }
        let left = report.pool.thin;
        if std::io::stderr().is_terminal() {
            let bar = self.bar.get_or_insert_with(|| progress::byte_bar(left));
            bar.set_prefix(if report.pool.raising { "raising" } else { "resilver" });
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

/// Members of a pool that get what they lack, or blocks that get their parity, from a first look on.
pub(crate) struct PoolWatch {
    /// The number of the last event before.
    first: u64,
    /// Looks in a row at which a member lacks something, and gets nothing.
    idle: u32,
}

impl PoolWatch {
    pub(crate) fn since(status: &PoolStatus) -> Self {
        Self { first: status.events.iter().map(|event| event.number).max().unwrap_or(0), idle: 0 }
    }

    /// Whether there is something to be waited for.
    fn goes_on(&mut self, status: &PoolStatus) -> bool {
        let pool = &status.pool;
        let lacks = |device: &PoolDevice| device.state == "resilvering";
        if pool.raising || pool.resilver.is_some() || pool.devices.iter().any(|one| one.replaced_by.is_some())
        {
            self.idle = 0;
            return true;
        }
        self.idle += 1;
        !pool.is("broken") && self.idle <= IDLE && pool.devices.iter().any(lacks)
    }

    /// Waits until members have what they are to have, as far as they get it.
    pub(crate) fn wait(
        &mut self,
        folder: &Path,
        target: &Target,
        every: Duration,
    ) -> Result<PoolStatus, Failure> {
        let mut waiting = Waiting::new(every);
        loop {
            let status = scrub::pool_meant(folder, target)?;
            if !self.goes_on(&status) {
                return Ok(status);
            }
            waiting.tell_of_pool(&status);
            std::thread::sleep(LOOK);
        }
    }

    /// Devices that were to take members' places since the first look, and did not: in words.
    pub(crate) fn not_replaced(&self, status: &PoolStatus) -> Option<String> {
        let is_it = |event: &&EventStatus| event.number > self.first && event.kind == "not-replaced";
        let told = |event: &EventStatus| shown(&event.text).into_owned();
        let all: Vec<String> = status.events.iter().filter(is_it).map(told).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// All that is not as it was to be at the end.
    fn missed(&self, status: &PoolStatus) -> Option<String> {
        let out = status.pool.devices.iter().filter(|device| !device.is_spare() && device.state != "online");
        let out = out.map(|device| {
            let path = device.path.as_deref().map_or_else(String::new, |path| format!(" ({})", shown(path)));
            format!("member {}{path} is {}", device.member, device.state)
        });
        let all: Vec<String> = self.not_replaced(status).into_iter().chain(out).collect();
        (!all.is_empty()).then(|| {
            let name = shown(&status.name);
            format!("{name}: {}; `brindle pool status {name}` tells the next step", all.join("; "))
        })
    }
}

/// The last thing that was waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// A process of an array or a scrub, or nothing at all.
    Process,
    /// Redundancy for blocks of a pool, without members that are out of use.
    Raising,
    /// Members of a pool.
    Members,
}

/// `brindle wait`: its exit status is that of `check` or `repair`, if that or a recovery is what has ended.
pub(crate) fn wait(args: &Wait) -> Result<ExitCode, Failure> {
    let folder = runtime::folder(args.runtime.folder())?;
    let Target { server, array, .. } = Target::meant(&folder, args.array.as_deref())?;
    let mut waiting = Waiting::new(Duration::from_millis(args.interval.0));
    let (mut watch, mut awaited) = (None, Awaited::Process);
    let reported = loop {
        let reported = ask::<Volumes>(&folder, &server, &Ask::Status.of(array.clone()))?;
        match reported.all() {
            [] if matches!(*reported, Volumes::One(None)) => break reported,
            [Report::Array(status)] => match SyncReport::of(&status.array.sync) {
                Some(sync) => waiting.tell(&status.name, &sync),
                None => break reported,
            },
            [Report::Pool(status)] => {
                let watch = watch.get_or_insert_with(|| PoolWatch::since(status));
                let scan = status.pool.scan.as_ref();
                let sync = scan.and_then(ScanStatus::sync);
                match (SyncReport::of(&sync), scan) {
                    (Some(sync), Some(ScanStatus::Scrub(_))) => {
                        awaited = Awaited::Process;
                        waiting.tell(&status.name, &sync);
                    }
                    _ if watch.goes_on(status) => {
                        let is_raising = status.pool.raising && awaited != Awaited::Members;
                        awaited = if is_raising { Awaited::Raising } else { Awaited::Members };
                        waiting.tell_of_pool(status);
                    }
                    _ => break reported,
                }
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
    if let (Awaited::Raising | Awaited::Members, [Report::Pool(status)], Some(watch)) =
        (awaited, reported.all(), &watch)
    {
        let missed = watch.missed(status).filter(|_| awaited == Awaited::Members);
        if args.json {
            report::print_json(&reported)?;
        } else if missed.is_none() {
            report::print(match awaited {
                Awaited::Members => "all members have what they are to have\n",
                _ => "all blocks have the redundancy that they can have now\n",
            })?;
        }
        return missed.map_or(Ok(ExitCode::SUCCESS), |why| Err(Failure::Refused(why)));
    }
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tank(state: &str, more: &Value) -> PoolStatus {
        let device = json!({"member": "0.1", "path": "/dev/b", "state": state});
        let mut status = json!({"name": "tank", "events": [{"number": 3, "kind": "not-replaced", "text": "of before"}],
            "pool": {"state": ["online"], "devices": [{"member": "0.0", "state": "online"}, device]}});
        let more = more.as_object().unwrap();
        more.iter().for_each(|(name, value)| *status.pointer_mut(name).unwrap() = value.clone());
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn members_that_are_not_as_they_were_to_be_are_named() {
        let first = tank("online", &json!({}));
        let watch = PoolWatch::since(&first);
        assert_eq!(watch.missed(&first), None, "what happened before does not count");
        let failed = json!([{"number": 4, "kind": "not-replaced", "text": "/dev/b is in use as before"}]);
        let why = watch.missed(&tank("online", &json!({"/events": failed}))).unwrap();
        assert!(why.contains("/dev/b is in use as before"), "{why}");
        let why = watch.missed(&tank("offline", &json!({}))).unwrap();
        assert!(why.contains("member 0.1 (/dev/b) is offline") && why.contains("pool status tank"), "{why}");
    }

    #[test]
    fn a_member_that_lacks_something_which_nobody_gives_it_is_not_waited_for_for_ever() {
        let mut watch = PoolWatch::since(&tank("online", &json!({})));
        assert!(!watch.goes_on(&tank("online", &json!({}))));
        let copied = json!([{"member": "0.0", "state": "online", "replaced_by": "/dev/c"}]);
        for _ in 0..3 * IDLE {
            assert!(watch.goes_on(&tank("online", &json!({"/pool/devices": copied}))));
        }
        let lacks = tank("resilvering", &json!({}));
        assert_eq!((0..3 * IDLE).filter(|_| watch.goes_on(&lacks)).count(), IDLE as usize);
    }
}
