//! `brindle monitor`: looks at arrays again and again, and reports their events, as `mdadm --monitor` does.

mod absent;
mod changes;
mod conf;
mod damage;
mod kept;
mod listed;
mod mail;
mod notify;
mod of_md;
mod overdue;
mod programs;
mod queue;
mod smart;
mod state;
mod watched;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use brindle_host::FailingDrives;
use brindle_host::opening::MonitorConfig;
use brindle_host::status::Report;

use crate::base::failure::Failure;
use crate::base::runtime;
use crate::base::units::Span;
use crate::client::ask;
use crate::client::control::Response;
use crate::devices::world::seconds_since_1970;
use crate::flags::cli::{Monitor, Runtime};
use absent::Absent;
use changes::Happened;
pub(crate) use conf::{MdadmArray, MdadmConf};
pub(crate) use notify::programs_lacking;
use notify::{Output, Ways};
pub(crate) use of_md::is_named;
use overdue::Overdue;
use smart::Smart;
use state::Seen;
use watched::Watched;

/// The kernel's arrays.
const MDSTAT: &str = "/proc/mdstat";

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
    let mut watched = Watched::new();
    loop {
        let looked = look(&folder, args);
        let now = Instant::now();
        let mut happened = health.turn(&looked.arrays, now, args.oneshot);
        happened.extend(watched.turn(looked, &lines(args), args, now));
        ways.tell(&watched.with_facts(happened))?;
        if args.oneshot {
            ways.finish();
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(args.delay.0.max(100)));
    }
}

/// The arrays that mdadm.conf lists, unless those are named that are to be watched.
fn lines(args: &Monitor) -> Vec<MdadmArray> {
    if !args.arrays.is_empty() {
        return Vec::new();
    }
    // A file that can't be read names nothing; its head was read before.
    MdadmConf::read(args.config.as_deref()).unwrap_or_default().arrays
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
    ways: Arc<Mutex<Noted>>,
}

/// The receivers, and whether they were not told yet what holds.
struct Noted {
    ways: Option<(Ways, Health)>,
    is_new: bool,
}

impl Receivers {
    /// Has these be told from now on, and of what holds now; nobody, if there is no such table.
    pub(crate) fn replace(&self, table: Option<&MonitorConfig>) {
        let noted = Noted { ways: table.map(ways), is_new: true };
        *self.ways.lock().unwrap_or_else(PoisonError::into_inner) = noted;
    }
}

fn ways(table: &MonitorConfig) -> (Ways, Health) {
    let MonitorConfig { mail, mail_from, program, sendmail, webhook, .. } = table.clone();
    let conf = MdadmConf { mail_to: mail, mail_from, program, sendmail, webhook, ..MdadmConf::default() };
    let smart = table.smart.then(|| Smart::by(table.smartctl.as_deref()));
    (Ways::new(conf, Output::None), Health { smart, overdue: Overdue::after(table.scrub_overdue) })
}

/// Looks at arrays beside a daemon, on a thread of its own, and tells of what happens to them; drives that are called failing go to
/// `failing` besides.
pub(crate) fn beside(
    folder: &Path,
    table: &MonitorConfig,
    failing: FailingDrives,
) -> Result<Receivers, Failure> {
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
    let noted = Noted { ways: Some(ways(table)), is_new: false };
    let receivers = Receivers { ways: Arc::new(Mutex::new(noted)) };
    let (noted, folder) = (Arc::clone(&receivers.ways), folder.to_owned());
    let work = move || {
        let mut watched = Watched::new();
        loop {
            std::thread::sleep(Duration::from_millis(args.delay.0.max(100)));
            let looked = look(&folder, &args);
            // Nothing is known before the daemon serves.
            let lines = if looked.is_answered { lines(&args) } else { Vec::new() };
            let now = Instant::now();
            let mut noted = noted.lock().unwrap_or_else(PoisonError::into_inner);
            if std::mem::take(&mut noted.is_new) {
                watched.forget_what_was_told();
            }
            let health = noted.ways.as_mut().map(|(_, health)| health);
            let smart = health.as_ref().and_then(|health| health.smart.as_ref());
            failing.replace(smart.map(Smart::failing).unwrap_or_default());
            let mut happened = health.map_or_else(Vec::new, |health| health.turn(&looked.arrays, now, false));
            happened.extend(watched.turn(looked, &lines, &args, now));
            let happened = watched.with_facts(happened);
            if let Some((ways, _)) = &noted.ways {
                // The result is ignored: these ways print nothing, and can't fail.
                let _ = ways.tell(&happened);
            }
        }
    };
    let started = std::thread::Builder::new().name("monitor".into()).spawn(work);
    started
        .map(|_| receivers)
        .map_err(|source| Failure::system("the thread of the monitor can't start", source))
}

/// All that is there at one moment.
struct Looked {
    /// Arrays of our servers and the kernel's, as far as they are meant.
    arrays: Vec<Seen>,
    /// Those that a server should serve, and does not.
    absent: Vec<Absent>,
    /// A server of ours has answered.
    is_answered: bool,
}

fn look(folder: &Path, args: &Monitor) -> Looked {
    let answers = ask::status_of_all(folder).into_iter().filter_map(|(_, answer)| match answer {
        Ok(Response::Report(reported)) => Some(reported.into_read().into_all()),
        _ => None,
    });
    let answers: Vec<Vec<Report>> = answers.collect();
    let ours = || answers.iter().flatten();
    let kernels = state::of_mdstat(&std::fs::read_to_string(MDSTAT).unwrap_or_default());
    let meant = |name: &String| args.arrays.is_empty() || args.arrays.contains(name);
    let arrays: Vec<Seen> =
        ours().filter_map(Seen::of_report).chain(kernels).filter(|seen| meant(&seen.name)).collect();
    // One that another server has is there.
    let is_there = |absent: &Absent| arrays.iter().any(|seen| absent.is(seen));
    let absent = ours().filter_map(Absent::of_report);
    let absent = absent.filter(|absent| meant(&absent.name) && !is_there(absent)).collect();
    Looked { arrays, absent, is_answered: !answers.is_empty() }
}
