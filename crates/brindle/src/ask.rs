//! `brindle status`, `fail` and `stop`: they talk to a running server.

use serde_json::Value;

use crate::cli::{Fail, Status, Stop};
use crate::control::{self, Request};
use crate::failure::Failure;
use crate::{report, runtime};

pub(crate) fn status(args: &Status) -> Result<(), Failure> {
    let folder = runtime::folder(&args.runtime);
    let names = match &args.array {
        Some(name) => vec![name.clone()],
        None => runtime::servers(&folder),
    };
    let mut reports = Vec::new();
    for name in &names {
        match control::ask(&folder, name, &Request::Status) {
            Ok(report) => reports.push(report),
            // The socket of a server that was killed: worth a word, no reason to hide the others.
            Err(failure) if args.array.is_none() => eprintln!("brindle: {failure}"),
            Err(failure) => return Err(failure),
        }
    }
    if args.json {
        let value =
            if args.array.is_some() { reports.pop().unwrap_or(Value::Null) } else { Value::Array(reports) };
        return report::print_json(&value);
    }
    if reports.is_empty() {
        return report::print(&format!("no array is served (looked in {})\n", folder.display()));
    }
    let texts: Vec<String> = reports.iter().map(report::status_text).collect();
    report::print(&texts.join("\n"))
}

pub(crate) fn fail(args: &Fail) -> Result<(), Failure> {
    // The server may run in another folder. A number is a role, whatever files are called.
    let path = std::fs::canonicalize(&args.member).ok().filter(|_| args.member.parse::<u16>().is_err());
    let path = path.and_then(|path| path.into_os_string().into_string().ok());
    let request = Request::Fail { member: path.unwrap_or_else(|| args.member.clone()) };
    let answer = control::ask(&runtime::folder(&args.runtime), &args.array, &request)?;
    if args.json {
        return report::print_json(&answer);
    }
    report::print(&format!("{} of {} has failed and is out of service\n", args.member, args.array))
}

pub(crate) fn stop(args: &Stop) -> Result<(), Failure> {
    let folder = runtime::folder(&args.runtime);
    let answer = control::ask(&folder, &args.array, &Request::Stop)?;
    control::wait_until_gone(&folder, &args.array)?;
    if args.json {
        return report::print_json(&answer);
    }
    report::print(&format!("{} is stopped\n", args.array))
}
