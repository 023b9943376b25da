//! `brindle status`, `fail` and `stop`: they talk to a running server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::cli::{Fail, Status, Stop};
use crate::control::{self, Asked, Request};
use crate::failure::Failure;
use crate::within::within;
use crate::{report, runtime};

/// How long a file's name may take to be looked up.
const RESOLVING: Duration = Duration::from_millis(300);

pub(crate) fn status(args: &Status) -> Result<(), Failure> {
    let folder = runtime::folder(&args.runtime)?;
    if let Some(name) = &args.array {
        let report = ask(&folder, name, &Request::Status)?;
        return if args.json {
            report::print_json(&report)
        } else {
            report::print(&crate::status::text(&report))
        };
    }
    let (reports, silent) = all(&folder);
    if args.json {
        return report::print_json(&Value::Array(reports));
    }
    if reports.is_empty() {
        let none = if silent { "no server answers" } else { "no array is served" };
        return report::print(&format!("{none} (looked in {})\n", folder.display()));
    }
    let texts: Vec<String> = reports.iter().map(crate::status::text).collect();
    report::print(&texts.join("\n"))
}

/// The reports of all servers that answer, and whether there are others.
fn all(folder: &Path) -> (Vec<Value>, bool) {
    let (mut reports, mut silent) = (Vec::new(), false);
    for (name, answer) in status_of_all(folder) {
        match answer {
            Ok(Asked::Report(report)) => reports.push(report),
            Ok(Asked::Stale) => eprintln!("brindle: {}", runtime::clear_stale(folder, &name)),
            Err(failure) => {
                silent = true;
                eprintln!("brindle: {failure}");
            }
        }
    }
    (reports, silent)
}

/// What each server that has a socket here answers. All are asked at once: one that is silent holds up no other.
pub(crate) fn status_of_all(folder: &Path) -> Vec<(String, Result<Asked, Failure>)> {
    std::thread::scope(|scope| {
        let ask = |name: String| {
            scope.spawn(move || {
                let answer = control::ask(folder, &name, &Request::Status);
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

fn ask(folder: &Path, name: &str, request: &Request) -> Result<Value, Failure> {
    match control::ask(folder, name, request)? {
        Asked::Report(report) => Ok(report),
        Asked::Stale => Err(Failure::NoServer(runtime::clear_stale(folder, name))),
    }
}

pub(crate) fn fail(args: &Fail) -> Result<(), Failure> {
    let folder = runtime::folder(&args.runtime)?;
    let member = name_of_member(&folder, args)?;
    let answer = ask(&folder, &args.array, &Request::Fail { member })?;
    if args.json {
        return report::print_json(&answer);
    }
    report::print(&format!("{} of {} has failed and is out of service\n", args.member, args.array))
}

/// How the server knows the member: by the number of its role, whatever files are called; by the name it was given; else
/// by the real name of the file.
fn name_of_member(folder: &Path, args: &Fail) -> Result<String, Failure> {
    let member = &args.member;
    if member.parse::<u16>().is_ok() {
        return Ok(member.clone());
    }
    // Nothing is asked of a file whose name is known: it may hang.
    let report = ask(folder, &args.array, &Request::Status)?;
    let known = report::devices(&report).any(|device| device["path"] == **member);
    Ok(if known { member.clone() } else { real_name(member) })
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

pub(crate) fn stop(args: &Stop) -> Result<(), Failure> {
    let folder = runtime::folder(&args.runtime)?;
    let waiting = || {
        if !args.json {
            // Nobody who reads it is no reason not to wait.
            let _ = report::print(&format!("{} is stopping\n", args.array));
        }
    };
    let Some(answer) = control::stop(&folder, &args.array, waiting)? else {
        return Err(Failure::NoServer(runtime::clear_stale(&folder, &args.array)));
    };
    if args.json {
        return report::print_json(&answer);
    }
    report::print(&format!("{} is stopped\n", args.array))
}
