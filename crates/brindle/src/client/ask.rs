//! `brindle status`, `fail`, `flag` and `stop`: they talk to a running server.

mod resolve;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use brindle_io::uring;
use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde_json::Value;

use crate::base::deadline::within;
use crate::base::failure::Failure;
use crate::base::{log, report, runtime};
use crate::client::control::{self, DeviceFlag, Request, Response};
use crate::client::health::Health;
use crate::client::next_step;
use crate::devices::world::attach;
use crate::flags::cli::{Flag, Runtime, Said, Status, Stop};
pub(crate) use resolve::Meant;

/// Time that a file's name may take to be looked up.
const RESOLVING: Duration = Duration::from_millis(300);

/// A server, and one of its arrays; `None` for all.
pub(crate) struct Target {
    pub(crate) server: String,
    pub(crate) array: Option<String>,
}

impl Target {
    /// The array of that name; without one, whatever the only server has.
    pub(crate) fn meant(folder: &Path, wanted: Option<&str>) -> Result<Self, Failure> {
        wanted.map_or_else(|| Self::only(folder), |wanted| Ok(Self::find(folder, wanted)))
    }

    /// The array of that name, or with that UUID or member; if no server has one, the server of that name, which is then
    /// missed.
    pub(crate) fn find(folder: &Path, wanted: &str) -> Self {
        let named = || Self { server: wanted.to_owned(), array: Some(wanted.to_owned()) };
        // The server knows its own names, and those of its arrays.
        if runtime::is_name(wanted) && runtime::control_socket(folder, wanted).exists() {
            return named();
        }
        let real = real_name(wanted);
        for (server, answer) in status_of_all(folder) {
            let Ok(Response::Report(reported)) = answer else { continue };
            if let Some(report) = report::find(&reported, wanted).or_else(|| report::find(&reported, &real)) {
                return Self { server, array: report["name"].as_str().map(str::to_owned) };
            }
        }
        named()
    }

    /// The only server.
    fn only(folder: &Path) -> Result<Self, Failure> {
        let mut servers = runtime::servers(folder);
        if servers.len() > 1 {
            servers.retain(|name| !uring::is_abandoned(&runtime::control_socket(folder, name)));
        }
        match (servers.pop(), servers.is_empty()) {
            (Some(server), true) => Ok(Self { server, array: None }),
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
        let real = real_name(member);
        let is_member = |device: &Value| device["path"] == *member || device["path"] == *real;
        let mut having = status_of_all(folder).into_iter().filter_map(|(server, answer)| match answer {
            Ok(Response::Report(reported)) if report::devices(&reported).any(is_member) => Some(server),
            _ => None,
        });
        match (having.next(), having.next()) {
            (Some(server), None) => Ok(Self { server, array: None }),
            _ => Self::only(folder),
        }
    }
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
    let (reports, reported, silent) = match &args.array {
        Some(name) => {
            let Target { server, array } = Target::find(&folder, name);
            let reported = ask(&folder, &server, &Request::Status { array })?;
            (report::of_arrays(&reported).to_vec(), reported, false)
        }
        None => {
            let (reports, silent) = all(&folder);
            (reports.clone(), Value::Array(reports), silent)
        }
    };
    let printed = if args.json {
        report::print_json(&reported)
    } else if reports.is_empty() {
        let none = if silent { "no server answers" } else { "no array is served" };
        report::print(&format!("{none} (looked in {})\n", folder.display()))
    } else {
        report::print(&text(&reports, &args.runtime))
    };
    match printed {
        // A reader of the status may not want the report.
        Err(why) if !args.test || !why.is_broken_pipe() => Err(why),
        _ => {
            let is_served = reported["not_served"].is_null();
            Ok((Health::of_reports(&reports).and_unknown_if(silent), is_served))
        }
    }
}

fn text(reports: &[Value], runtime: &Runtime) -> String {
    // Suggested commands find the server as this one did.
    let named = runtime.folder().filter(|_| std::env::var_os("BRINDLE_RUNTIME_DIR").is_none());
    let flags = next_step::runtime_flag(named);
    let text = |report| crate::client::status::text(report) + &next_step::line(report, &flags);
    reports.iter().map(text).collect::<Vec<_>>().join("\n")
}

/// The reports of all servers that answer; the others are passed over in silence.
pub(crate) fn reports(folder: &Path) -> Vec<Value> {
    let answers = status_of_all(folder).into_iter();
    let reported = answers.filter_map(|(_, answer)| match answer {
        Ok(Response::Report(reported)) => Some(reported),
        _ => None,
    });
    reported.flat_map(|reported| report::of_arrays(&reported).to_vec()).collect()
}

/// The reports of all servers that answer, and whether there are others.
fn all(folder: &Path) -> (Vec<Value>, bool) {
    let (mut reports, mut silent) = (Vec::new(), false);
    for (name, answer) in status_of_all(folder) {
        match answer {
            Ok(Response::Report(reported)) => reports.extend_from_slice(report::of_arrays(&reported)),
            Ok(Response::Stale) => eprintln!("brindle: {}", runtime::clear_stale(folder, &name)),
            Err(failure) => {
                silent = true;
                eprintln!("brindle: {failure}");
            }
        }
    }
    (reports, silent)
}

/// The answers of all servers that have a socket here. All are asked at once: one that is silent delays no other.
pub(crate) fn status_of_all(folder: &Path) -> Vec<(String, Result<Response, Failure>)> {
    ask_all(folder, &Request::Status { array: None })
}

/// The answers of all servers that have a socket here to the same request.
pub(crate) fn ask_all(folder: &Path, request: &Request) -> Vec<(String, Result<Response, Failure>)> {
    std::thread::scope(|scope| {
        let ask = |name: String| {
            scope.spawn(move || {
                let answer = control::ask(folder, &name, request);
                (name, answer)
            })
        };
        let asked: Vec<_> = runtime::servers(folder).into_iter().map(ask).collect();
        asked
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Asks a server; an error if there is none.
pub(crate) fn ask(folder: &Path, name: &str, request: &Request) -> Result<Value, Failure> {
    match control::ask(folder, name, request)? {
        Response::Report(report) => Ok(report),
        Response::Stale => Err(Failure::NoServer(runtime::clear_stale(folder, name))),
    }
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
    Meant::of(&folder, &target, Some(&args.array))?;
    let member = name_of_member(&folder, &target, &args.device)?;
    let (flag, clear) = (args.flag.0, args.clear);
    let request = Request::Flag { member, flag, clear, array: target.array };
    let answer = ask(&folder, &target.server, &request)?;
    if args.json {
        return report::print_json(&answer);
    }
    let is = if clear { "is not" } else { "is" };
    report::print(&format!("{} {is} {} from now on\n", args.device, flag.name()))
}

/// How the server knows the member: by the number of its role, whatever files are called; by the name it was given; else
/// by the real name of the file.
pub(crate) fn name_of_member(folder: &Path, target: &Target, member: &str) -> Result<String, Failure> {
    if member.parse::<u16>().is_ok() {
        return Ok(member.to_owned());
    }
    // A file whose name is known is not opened: it may hang.
    let report = ask(folder, &target.server, &Request::Status { array: target.array.clone() })?;
    let known = report::devices(&report).any(|device| device["path"] == *member);
    Ok(if known { member.to_owned() } else { real_name(member) })
}

/// The name of a file when all links are followed: the server may run in another folder. As it is, if there is no such
/// file; without following links, if its file system does not answer.
fn real_name(member: &str) -> String {
    let path = PathBuf::from(member);
    let real = match within(RESOLVING, || std::fs::canonicalize(path)) {
        Ok(Some(real)) => real.ok(),
        Ok(None) | Err(_) => std::path::absolute(member).ok(),
    };
    let real = real.and_then(|path| path.into_os_string().into_string().ok());
    real.unwrap_or_else(|| member.to_owned())
}

/// Refuses to stop an array whose kernel device is mounted, or open exclusively: its users would wait for a server
/// that is gone.
fn refuse_used_devices(folder: &Path, server: &str, array: Option<&str>) -> Result<(), Failure> {
    let Ok(Response::Report(noted)) =
        control::ask(folder, server, &Request::Status { array: array.map(str::to_owned) })
    else {
        return Ok(());
    };
    let own = |report: &Value| {
        let volumes = report["devices"].as_array().into_iter().flatten().map(|pair| pair[1].clone());
        let devices: Vec<Value> = std::iter::once(report["device"].clone()).chain(volumes).collect();
        devices.into_iter().filter_map(|device| device.as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let devices = report::of_arrays(&noted).iter().flat_map(own);
    let is_in_use = |device: &String| {
        let device = PathBuf::from(device);
        // A device that does not answer does not keep its server from being stopped.
        within(RESOLVING, move || attach::is_in_use(&device)).ok().flatten().unwrap_or(false)
    };
    let used: Vec<String> = devices.filter(is_in_use).map(|device| attach::in_use(&device)).collect();
    if used.is_empty() {
        return Ok(());
    }
    Err(Failure::Refused(format!("{}; nothing was stopped", used.join("; "))))
}

/// Stops the target, and waits until its members are free.
pub(crate) fn stop_here(folder: &Path, target: &Target) -> Result<(), Failure> {
    match control::stop(folder, &target.server, target.array.clone(), || ())? {
        Some(_) => Ok(()),
        None => Err(Failure::NoServer(runtime::clear_stale(folder, &target.server))),
    }
}

pub(crate) fn stop(args: &Stop) -> Result<(), Failure> {
    let folder = runtime::folder(args.runtime.folder())?;
    let target = Target::meant(&folder, args.array.as_deref())?;
    Meant::of(&folder, &target, args.array.as_deref())?;
    let Target { server, array } = target;
    let array = array.filter(|_| !args.all);
    refuse_used_devices(&folder, &server, array.as_deref())?;
    let name = args.array.as_ref().unwrap_or(&server);
    let waiting = || {
        if !args.json {
            // Nobody who reads it is no reason not to wait.
            let _ = report::print(&format!("{name} is stopping\n"));
        }
    };
    let Some(answer) = control::stop(&folder, &server, array, waiting)? else {
        return Err(Failure::NoServer(runtime::clear_stale(&folder, &server)));
    };
    if args.json {
        return report::print_json(&answer);
    }
    report::print(&format!("{name} is stopped\n"))
}
