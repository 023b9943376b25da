//! `brindle status`, `fail`, `flag` and `stop`: they talk to a running server.

mod order;
mod resolve;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use brindle_host::Volumes;
use brindle_host::status::Report;
use brindle_io::uring;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde::de::IgnoredAny;

use crate::base::deadline::within;
use crate::base::failure::Failure;
use crate::base::{log, report, runtime};
use crate::client::control::{self, Answer, AsTold, Ask, DeviceFlag, Line, Request, Response, Told};
use crate::client::health::Health;
use crate::client::next_step;
use crate::devices::mounts;
use crate::devices::world::attach;
use crate::flags::cli::{Flag, Runtime, Said, Status, Stop};
pub(crate) use order::{Order, known_as};
pub(crate) use resolve::Meant;

/// Time that a file's name may take to be looked up.
const RESOLVING: Duration = Duration::from_millis(300);

/// A server, and one of its arrays; `None` for all.
pub(crate) struct Target {
    pub(crate) server: String,
    pub(crate) array: Option<String>,
    /// The report by which the array was found.
    pub(crate) noted: Option<Report>,
}

impl Target {
    pub(crate) fn of(server: &str, array: Option<&str>) -> Self {
        Self { server: server.to_owned(), array: array.map(str::to_owned), noted: None }
    }

    /// The array of that name; without one, whatever the only server has.
    pub(crate) fn meant(folder: &Path, wanted: Option<&str>) -> Result<Self, Failure> {
        wanted.map_or_else(|| Self::only(folder), |wanted| Ok(Self::find(folder, wanted)))
    }

    /// The array of that name, or with that UUID or member; if no server has one, the server of that name, which is then
    /// missed.
    pub(crate) fn find(folder: &Path, wanted: &str) -> Self {
        let named = || Self::of(wanted, Some(wanted));
        // The server knows its own names, and those of its arrays.
        if runtime::is_name(wanted) && runtime::control_socket(folder, wanted).exists() {
            return named();
        }
        let having = |name: &str| {
            each_asked_for(folder, name)
                .into_iter()
                .find_map(|(server, reported)| Some((server, report::find(&reported, name)?.clone())))
        };
        let real = || Some(real_name(wanted)).filter(|real| real != wanted);
        match having(wanted).or_else(|| having(&real()?)) {
            Some((server, report)) => {
                Self { server, array: Some(report.name().to_owned()), noted: Some(report) }
            }
            None => named(),
        }
    }

    /// The only server.
    fn only(folder: &Path) -> Result<Self, Failure> {
        let mut servers = alive(folder);
        match (servers.pop(), servers.is_empty()) {
            (Some(server), true) => Ok(Self::of(&server, None)),
            (Some(last), false) => Err(Failure::Usage(format!(
                "several servers run: {}, {last}; name an array",
                servers.join(", ")
            ))),
            (None, _) => {
                Err(Failure::NoServer(format!("no array is served (looked in {})", folder.display())))
            }
        }
    }

    /// The server with an array of that member, or the only one, which then has to say that it is none of its own.
    pub(crate) fn with_member(folder: &Path, member: &str) -> Result<Self, Failure> {
        if alive(folder).len() < 2 {
            return Self::only(folder);
        }
        let having = |name: &str| -> Vec<String> {
            let has = |(server, reported): (String, Volumes)| {
                reported.all().iter().any(|report| report.has_device(name)).then_some(server)
            };
            each_asked_for(folder, name).into_iter().filter_map(has).collect()
        };
        let mut servers = having(member);
        let real = real_name(member);
        if real != member {
            servers.extend(having(&real));
            servers.sort();
            servers.dedup();
        }
        match &servers[..] {
            [server] => Ok(Self::of(server, None)),
            _ => Self::only(folder),
        }
    }
}

/// Servers that have a socket here; if there are several, without abandoned sockets.
fn alive(folder: &Path) -> Vec<String> {
    let mut servers = runtime::servers(folder);
    if servers.len() > 1 {
        servers.retain(|name| !uring::is_abandoned(&runtime::control_socket(folder, name)));
    }
    servers
}

/// The answers of all servers to the question for the array of that name or member. A server of several refuses a name that none of them
/// has; a server of one array answers with that, however it is called.
fn each_asked_for(folder: &Path, name: &str) -> Vec<(String, Volumes)> {
    let answers = ask_all::<Volumes>(folder, &Ask::Status.of(name.to_owned())).into_iter();
    let read = answers.filter_map(|(server, answer)| match answer {
        Ok(Response::Report(reported)) => Some((server, reported.into_read())),
        _ => None,
    });
    read.collect()
}

pub(crate) fn status(args: &Status) -> Result<ExitCode, Failure> {
    match show_status(args) {
        Ok((health, _)) if args.test => Ok(health.exit_code()),
        Ok((_, is_served)) => Ok(if is_served { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
        Err(why) if args.test => {
            log::complain(&why);
            Ok(Health::unknown().exit_code())
        }
        Err(why) => Err(why),
    }
}

/// Prints the status of arrays, and returns their health, and whether the one that was named is served.
fn show_status(args: &Status) -> Result<(Health, bool), Failure> {
    let folder = runtime::folder(args.runtime.folder())?;
    if let Some(name) = &args.array {
        let Target { server, array, .. } = Target::find(&folder, name);
        let reported = ask::<Volumes>(&folder, &server, &Ask::Status.of(array))?;
        let printed = if args.json {
            report::print_json(&reported)
        } else {
            print_text(reported.all(), &folder, false, args)
        };
        let is_served = !matches!(&*reported, Volumes::One(Some(report)) if report.is_absent());
        return judged(args, printed, Health::of_reports(reported.all()), is_served);
    }
    let Everything { told, reports, silent } = all(&folder);
    let printed =
        if args.json { report::print_json(&told) } else { print_text(&reports, &folder, silent, args) };
    judged(args, printed, Health::of_reports(&reports).and_unknown_if(silent), true)
}

fn print_text(reports: &[Report], folder: &Path, silent: bool, args: &Status) -> Result<(), Failure> {
    if reports.is_empty() {
        let none = if silent { "no server answers" } else { "no array is served" };
        return report::print(&format!("{none} (looked in {})\n", folder.display()));
    }
    report::print(&text(reports, &args.runtime))
}

/// A reader of the status may not want the report.
fn judged(
    args: &Status,
    printed: Result<(), Failure>,
    health: Health,
    is_served: bool,
) -> Result<(Health, bool), Failure> {
    match printed {
        Err(why) if !args.test || !why.is_broken_pipe() => Err(why),
        _ => Ok((health, is_served)),
    }
}

fn text(reports: &[Report], runtime: &Runtime) -> String {
    // Suggested commands find the server as this one did.
    let named = runtime.folder().filter(|_| std::env::var_os("BRINDLE_RUNTIME_DIR").is_none());
    let flags = next_step::runtime_flag(named);
    let text = |report| crate::client::status::text(report) + &next_step::line(report, &flags);
    reports.iter().map(text).collect::<Vec<_>>().join("\n")
}

/// The reports of all servers that answer; the others are passed over in silence.
pub(crate) fn reports(folder: &Path) -> Vec<Report> {
    let answers = status_of_all(folder).into_iter();
    let reported = answers.filter_map(|(_, answer)| match answer {
        Ok(Response::Report(reported)) => Some(reported.into_read()),
        _ => None,
    });
    reported.flat_map(Volumes::into_all).collect()
}

/// Reports of all servers.
struct Everything {
    /// As they were told.
    told: Vec<AsTold>,
    reports: Vec<Report>,
    /// Some server does not answer.
    silent: bool,
}

fn all(folder: &Path) -> Everything {
    let mut all = Everything { told: Vec::new(), reports: Vec::new(), silent: false };
    for (name, answer) in status_of_all(folder) {
        match answer {
            Ok(Response::Report(reported)) => {
                all.told.extend(reported.each_told());
                all.reports.extend(reported.into_read().into_all());
            }
            Ok(Response::Stale) => eprintln!("brindle: {}", runtime::clear_stale(folder, &name)),
            Err(failure) => {
                all.silent = true;
                eprintln!("brindle: {failure}");
            }
        }
    }
    all
}

/// The answers of all servers that have a socket here. All are asked at once: one that is silent delays no other.
pub(crate) fn status_of_all(folder: &Path) -> Vec<(String, Result<Response<Volumes>, Failure>)> {
    ask_all(folder, &Ask::Status.into())
}

/// The same, but for one server.
fn status_of_others(folder: &Path, own: Option<&str>) -> Vec<(String, Result<Response<Volumes>, Failure>)> {
    let others = runtime::servers(folder).into_iter().filter(|server| Some(&**server) != own);
    ask_each(folder, others, &Ask::Status.into())
}

/// The answers of all servers that have a socket here to the same request.
pub(crate) fn ask_all<T: Told + Send>(
    folder: &Path,
    request: &Request,
) -> Vec<(String, Result<Response<T>, Failure>)> {
    ask_each(folder, runtime::servers(folder), request)
}

fn ask_each<T: Told + Send>(
    folder: &Path,
    servers: impl IntoIterator<Item = String>,
    request: &Request,
) -> Vec<(String, Result<Response<T>, Failure>)> {
    std::thread::scope(|scope| {
        let ask = |name: String| {
            scope.spawn(move || {
                let answer = control::ask(folder, &name, request);
                (name, answer)
            })
        };
        let asked: Vec<_> = servers.into_iter().map(ask).collect();
        asked
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Asks a server; an error if there is none.
pub(crate) fn ask<T: Told>(folder: &Path, name: &str, request: &Request) -> Result<Answer<T>, Failure> {
    reach(folder, name)?.ask(request)
}

/// A connection to a server; an error if there is none.
pub(crate) fn reach(folder: &Path, name: &str) -> Result<Line, Failure> {
    Line::open(folder, name)?.ok_or_else(|| Failure::NoServer(runtime::clear_stale(folder, name)))
}

impl ValueEnum for Said<DeviceFlag> {
    fn value_variants<'a>() -> &'a [Self] {
        &[Said(DeviceFlag::WriteMostly), Said(DeviceFlag::Failfast)]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(match self.0 {
            DeviceFlag::WriteMostly => "Read it only when no other can answer (RAID 1)",
            DeviceFlag::Failfast => "Give it up sooner, and fail it at its first read error (RAID 1 and 10)",
        }))
    }
}

/// `brindle flag`.
pub(crate) fn flag(args: &Flag) -> Result<(), Failure> {
    let folder = runtime::folder(args.runtime.folder())?;
    let target = Target::find(&folder, &args.array);
    let (flag, clear) = (args.flag.0, args.clear);
    let order = Order::of(&folder, &target, Some(&args.array))?;
    let answer: Answer<IgnoredAny> =
        order.of_member(&args.device, |member| Ask::Flag { member, flag, clear })?;
    if args.json {
        return report::print_json(&answer);
    }
    let is = if clear { "is not" } else { "is" };
    report::print(&format!("{} {is} {} from now on\n", args.device, flag.name()))
}

/// The name of a file when all links are followed: the server may run in another folder. As it is, if there is no such
/// file; without following links, if its file system does not answer.
pub(crate) fn real_name(member: &str) -> String {
    let path = PathBuf::from(member);
    let real = match within(RESOLVING, || std::fs::canonicalize(path)) {
        Ok(Some(real)) => real.ok(),
        Ok(None) | Err(_) => std::path::absolute(member).ok(),
    };
    let real = real.and_then(|path| path.into_os_string().into_string().ok());
    real.unwrap_or_else(|| member.to_owned())
}

/// Refuses to stop an array whose kernel device is mounted, or open exclusively: its users would wait for a server
/// that is gone. A server is asked for its devices only where some device of that kind is in use.
fn refuse_used_devices(folder: &Path, server: &str, array: Option<&str>) -> Result<(), Failure> {
    let is_in_use = |device: &Path| {
        let device = device.to_owned();
        // A device that does not answer does not keep its server from being stopped.
        within(RESOLVING, move || attach::is_in_use(&device)).ok().flatten().unwrap_or(false)
    };
    if kernels_devices().is_some_and(|devices| !devices.iter().any(|device| is_in_use(device))) {
        return Ok(());
    }
    let noted = control::ask::<Volumes>(folder, server, &Ask::Status.of(array.map(str::to_owned)));
    let Ok(Response::Report(noted)) = noted else { return Ok(()) };
    let devices = noted.all().iter().flat_map(Report::kernels_devices);
    let used = devices.filter(|device| is_in_use(Path::new(device)));
    let used: Vec<String> = used.map(attach::in_use).collect();
    if used.is_empty() {
        return Ok(());
    }
    Err(Failure::Refused(format!("{}; nothing was stopped", used.join("; "))))
}

/// Devices of the kernel that have a server; `None` where the kernel does not say.
fn kernels_devices() -> Option<Vec<PathBuf>> {
    let folders = std::fs::read_dir("/sys/block").ok()?.flatten();
    let is_served = |folder: &std::fs::DirEntry| {
        folder.file_name().to_string_lossy().starts_with("nbd") && folder.path().join("pid").exists()
    };
    Some(folders.filter(is_served).map(|folder| Path::new("/dev").join(folder.file_name())).collect())
}

/// Stops the target, and waits until its members are free.
pub(crate) fn stop_here(folder: &Path, target: &Target) -> Result<(), Failure> {
    control::stop(reach(folder, &target.server)?, target.array.clone(), || ()).map(drop)
}

pub(crate) fn stop(args: &Stop) -> Result<(), Failure> {
    let folder = runtime::folder(args.runtime.folder())?;
    let target = Target::meant(&folder, args.array.as_deref())?;
    let array = target.array.clone().filter(|_| !args.all);
    let order = Order::of(&folder, &target, args.array.as_deref())?;
    refuse_used_devices(&folder, &target.server, array.as_deref())?;
    let name = args.array.as_ref().unwrap_or(&target.server);
    let waiting = || {
        if !args.json {
            // A reader that is gone is no reason not to wait.
            let _ = report::print(&format!("{name} is stopping\n"));
        }
    };
    let answer = control::stop(order.line()?, array, waiting)?;
    mounts::clear();
    if args.json {
        return report::print_json(&answer);
    }
    report::print(&format!("{name} is stopped\n"))
}
