//! `brindle monitor`: looks at arrays again and again, and reports their events, as `mdadm --monitor` does.

mod changes;
mod conf;
mod damage;
mod notify;
mod overdue;
mod smart;
mod state;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use brindle_host::opening::MonitorConfig;

use crate::cli::{Monitor, Runtime};
use crate::failure::Failure;
use crate::units::Span;
use crate::world::seconds_since_1970;
use crate::{ask, runtime};
use changes::{Happened, changes};
pub(crate) use conf::{MdadmArray, MdadmConf};
use damage::Damage;
use notify::{Output, Ways};
use overdue::Overdue;
use smart::Smart;
use state::Seen;

/// The time after which an array that stays degraded is reported again.
const AGAIN: Duration = Duration::from_secs(24 * 60 * 60);

/// The kernel's arrays.
const MDSTAT: &str = "/proc/mdstat";

/// An array that is watched.
struct Watched {
    seen: Seen,
    /// When the array was last reported as degraded.
    reported: Option<Instant>,
    damage: Damage,
}

/// `brindle monitor`.
pub(crate) fn monitor(args: &Monitor) -> Result<(), Failure> {
    let folder = runtime::folder(args.runtime.folder())?;
    let mut conf = MdadmConf::read(args.config.as_deref())?;
    conf.mail_to = args.mail.clone().or(conf.mail_to);
    conf.program = args.program.clone().or(conf.program);
    conf.sendmail.clone_from(&args.sendmail);
    conf.webhook.clone_from(&args.webhook);
    let ways = Ways::new(conf, if args.json { Output::Json } else { Output::Text });
    let mut health = Health {
        smart: args.smart.then(|| Smart::by(args.smartctl.as_deref())),
        overdue: Overdue::after(args.scrub_overdue.unwrap_or(0)),
    };
    let mut watched: BTreeMap<String, Watched> = BTreeMap::new();
    loop {
        let all = look(&folder, args);
        let now = Instant::now();
        let more = health.turn(&all, now, args.oneshot);
        for happened in turn(&mut watched, all, args, now).into_iter().chain(more) {
            ways.tell(&happened)?;
        }
        if args.oneshot {
            ways.finish();
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(args.delay.0.max(100)));
    }
}

/// Things that show before a member fails.
struct Health {
    smart: Option<Smart>,
    overdue: Overdue,
}

impl Health {
    /// With `wait` all that is looked at is waited for.
    fn turn(&mut self, all: &[Seen], now: Instant, wait: bool) -> Vec<Happened> {
        let mut happened = self.smart.as_ref().map_or_else(Vec::new, |smart| smart.turn(all, now, wait));
        happened.extend(self.overdue.turn(all, now, seconds_since_1970()));
        happened
    }
}

/// Receivers of events, who may change while a daemon runs, and what is looked at for them.
pub(crate) struct Receivers {
    ways: Arc<Mutex<Option<(Ways, Health)>>>,
}

impl Receivers {
    /// Has these be told from now on; nobody, if there is no such table.
    pub(crate) fn replace(&self, table: Option<&MonitorConfig>) {
        *self.ways.lock().unwrap_or_else(PoisonError::into_inner) = table.map(ways);
    }
}

fn ways(table: &MonitorConfig) -> (Ways, Health) {
    let MonitorConfig { mail, mail_from, program, sendmail, webhook, .. } = table.clone();
    let conf = MdadmConf { mail_to: mail, mail_from, program, sendmail, webhook, arrays: Vec::new() };
    let smart = table.smart.then(|| Smart::by(table.smartctl.as_deref()));
    (Ways::new(conf, Output::None), Health { smart, overdue: Overdue::after(table.scrub_overdue) })
}

/// Looks at arrays beside a daemon, on a thread of its own, and tells of what happens to them.
pub(crate) fn beside(folder: &Path, table: &MonitorConfig) -> Result<Receivers, Failure> {
    let args = Monitor {
        scan: true,
        oneshot: false,
        delay: Span(table.delay),
        increment: table.increment,
        test: false,
        mail: None,
        sendmail: None,
        program: None,
        webhook: None,
        smart: false,
        smartctl: None,
        scrub_overdue: None,
        config: None,
        runtime: Runtime { runtime_dir: Some(folder.to_owned()) },
        json: false,
        arrays: Vec::new(),
    };
    let receivers = Receivers { ways: Arc::new(Mutex::new(Some(ways(table)))) };
    let (noted, folder) = (Arc::clone(&receivers.ways), folder.to_owned());
    let work = move || {
        let mut watched = BTreeMap::new();
        loop {
            std::thread::sleep(Duration::from_millis(args.delay.0.max(100)));
            let all = look(&folder, &args);
            let now = Instant::now();
            let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
            let more = noted.as_mut().map_or_else(Vec::new, |(_, health)| health.turn(&all, now, false));
            for happened in turn(&mut watched, all, &args, now).into_iter().chain(more) {
                if let Some((ways, _)) = &*noted {
                    // The result is ignored: these ways print nothing, and can't fail.
                    let _ = ways.tell(&happened);
                }
            }
        }
    };
    let started = std::thread::Builder::new().name("monitor".into()).spawn(work);
    started
        .map(|_| receivers)
        .map_err(|source| Failure::system("the thread of the monitor can't start", source))
}

/// All arrays that are there, of our servers and the kernel's, as far as they are meant.
fn look(folder: &Path, args: &Monitor) -> Vec<Seen> {
    let ours = ask::reports(folder);
    let ours = ours.iter().filter_map(Seen::of_report);
    let kernels = state::of_mdstat(&std::fs::read_to_string(MDSTAT).unwrap_or_default());
    let meant = |seen: &Seen| args.arrays.is_empty() || args.arrays.contains(&seen.name);
    ours.chain(kernels).filter(meant).collect()
}

/// The events between the last look and this one.
fn turn(
    watched: &mut BTreeMap<String, Watched>,
    all: Vec<Seen>,
    args: &Monitor,
    now: Instant,
) -> Vec<Happened> {
    let mut happened = Vec::new();
    let gone = |name: &String| !all.iter().any(|seen| seen.name == *name);
    for name in watched.keys().filter(|name| gone(name)).cloned().collect::<Vec<_>>() {
        watched.remove(&name);
        happened.push(Happened::new("DeviceDisappeared", &name));
    }
    for seen in all {
        let before = watched.remove(&seen.name);
        let mut events = changes(before.as_ref().map(|before| &before.seen), &seen, args.increment);
        if args.oneshot {
            events.retain(Happened::is_alert);
        }
        if args.test && before.is_none() {
            events.push(Happened::new("TestMessage", &seen.name));
        }
        let (mut reported, mut damage) =
            before.map_or_else(Default::default, |before| (before.reported, before.damage));
        events.extend(damage.turn(&seen, now));
        let says =
            |events: &[Happened]| events.iter().any(|one| matches!(&*one.event, "DegradedArray" | "Fail"));
        if says(&events) {
            reported = Some(now);
        } else if seen.is_degraded() && reported.is_none_or(|reported| now.duration_since(reported) >= AGAIN)
        {
            events.push(Happened::new("DegradedArray", &seen.name));
            reported = Some(now);
        }
        if !seen.is_degraded() {
            reported = None;
        }
        happened.append(&mut events);
        watched.insert(seen.name.clone(), Watched { seen, reported, damage });
    }
    happened
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    #[test]
    fn an_array_that_stays_degraded_is_reported_daily_and_one_that_goes_once() {
        let Command::Monitor(args) = Cli::parse_from(["brindle", "monitor", "--scan"]).command else {
            panic!("monitor")
        };
        let md =
            |active: usize| state::of_mdstat(&format!("md0 : active raid1 a[0]\n 1 blocks [2/{active}]\n"));
        let (mut watched, start) = (BTreeMap::new(), Instant::now());
        let mut names = |all, hours: u64| -> Vec<String> {
            let at = start + Duration::from_secs(hours * 3600);
            turn(&mut watched, all, &args, at).into_iter().map(|one| one.event).collect()
        };
        assert_eq!(names(md(1), 0), ["NewArray", "DegradedArray"]);
        assert!(names(md(1), 23).is_empty());
        assert_eq!(names(md(1), 24), ["DegradedArray"]);
        assert!(names(md(1), 47).is_empty());
        assert!(names(md(2), 48).is_empty());
        assert_eq!(names(md(1), 49), ["DegradedArray"]);
        assert_eq!(names(Vec::new(), 50), ["DeviceDisappeared"]);
        assert!(names(Vec::new(), 51).is_empty());
    }
}
