//! `brindle assemble --scan`: finds arrays and pools among many devices, and starts a server for each that is this host's.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use serde::Serialize;

use crate::base::failure::Failure;
use crate::base::text::shell;
use crate::base::{executable, report, runtime};
use crate::client::choice::{Choice, Hosts};
use crate::devices::scan::{Belongs, Findable};
use crate::flags::cli::Assemble;

/// The end of something that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    /// A server was there already.
    Served,
    /// The array was started.
    Started,
    /// The array would have been started.
    WouldStart,
    /// The array is another host's, or no host's.
    Foreign,
    /// The array can't be put together.
    Refused,
    /// The array's server did not start.
    Failed,
}

/// The output of `brindle assemble --json`.
#[derive(Debug, Serialize)]
struct Report {
    found: Vec<One>,
    /// Devices that could not be identified in time.
    silent: Vec<String>,
}

#[derive(Debug, Serialize)]
struct One {
    name: String,
    uuid: String,
    homehost: Option<String>,
    metadata: String,
    level: Option<&'static str>,
    members: Vec<String>,
    missing: Vec<String>,
    outcome: Outcome,
    why: Option<String>,
    /// The risks of its being served by force, which it is with `--force`.
    risks: Option<Vec<String>>,
    /// The host that has not exported it, of a pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(skip)]
    is_pool: bool,
}

/// `brindle assemble`.
pub(crate) fn assemble(args: &Assemble) -> Result<ExitCode, Failure> {
    let folder = runtime::folder(args.runtime.folder())?;
    let hosts = Hosts::said(args.homehost.as_deref());
    let is_named = |found: &Findable| {
        args.array.iter().any(|name| *name == found.name || *name == found.uuid || *name == found.full_name)
    };
    let choice = Choice {
        places: &args.places,
        named: &is_named,
        own: args.array.is_empty().then_some(&hosts),
        wait: if args.dry_run { Duration::ZERO } else { Duration::from_millis(args.wait.0) },
    };
    let (scanned, served) = choice.wait_for_members(&folder);
    scanned.tell_refused();
    let names = names(&scanned.all);
    let mut report = Report {
        found: Vec::new(),
        silent: scanned.silent.iter().map(|path| path.display().to_string()).collect(),
    };
    for (found, name) in scanned.all.iter().zip(names) {
        let (outcome, why) = if served.contains(&found.uuid) {
            (Outcome::Served, None)
        } else if !choice.is_meant(found) {
            (Outcome::Foreign, None)
        } else if let Some(why) = found.problem.as_ref().filter(|_| !args.force || found.risks.is_none()) {
            (Outcome::Refused, Some(why.clone()))
        } else if args.dry_run {
            (Outcome::WouldStart, found.problem.clone())
        } else {
            let forced = found.problem.is_some().then_some("--force");
            let degraded = args.degraded.then_some("--degraded");
            let flags: Vec<&str> = forced.into_iter().chain(degraded).collect();
            match start(args.runtime.folder(), &name, &flags, &found.members) {
                Ok(()) => (Outcome::Started, found.problem.clone()),
                Err(why) => (Outcome::Failed, Some(why.to_string())),
            }
        };
        report.found.push(One::of(found, name, outcome, why));
    }
    if args.json {
        report::print_json(&report)?;
    } else {
        report::tell(&report.text())?;
    }
    let bad = |one: &One| matches!(one.outcome, Outcome::Refused | Outcome::Failed);
    Ok(if report.found.iter().any(bad) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Names of servers: each its own, and of one name the UUIDs.
fn names(all: &[Findable]) -> Vec<String> {
    let is_alone = |name: &str| all.iter().filter(|found| found.name == name).count() == 1;
    let name = |found: &Findable| match is_alone(&found.name) && runtime::is_name(&found.name) {
        true => found.name.clone(),
        false => runtime::uuid_name(&found.uuid),
    };
    all.iter().map(name).collect()
}

/// Starts a server in the background, and waits until its exports answer.
pub(crate) fn start(
    runtime: Option<&Path>,
    name: &str,
    flags: &[&str],
    members: &[PathBuf],
) -> Result<(), Failure> {
    let program =
        executable::program().map_err(|source| Failure::system("the program's own file", source))?;
    let mut command = Command::new(&program);
    command.args(["serve", "--background", "--name", name]);
    if let Some(folder) = runtime {
        command.arg("--runtime-dir").arg(folder);
    }
    command.args(flags).arg("--").args(members);
    command.stdin(executable::nothing()).stdout(Stdio::null()).stderr(Stdio::piped());
    let ended = command.output().map_err(|source| Failure::system(program.display().to_string(), source))?;
    let said = String::from_utf8_lossy(&ended.stderr);
    if ended.status.success() {
        eprint!("{said}");
        return Ok(());
    }
    let last = said.lines().last().unwrap_or("its server ended without a result");
    Err(Failure::Refused(last.trim_start_matches("brindle: ").to_owned()))
}

impl One {
    fn of(found: &Findable, name: String, outcome: Outcome, why: Option<String>) -> Self {
        Self {
            name,
            uuid: found.uuid.clone(),
            homehost: found.homehost.clone(),
            metadata: found.metadata.clone(),
            level: found.level,
            members: found.members.iter().map(|path| path.display().to_string()).collect(),
            missing: found.missing.clone(),
            outcome,
            why,
            risks: found.risks.clone(),
            host: match &found.belongs {
                Some(Belongs::Elsewhere(host)) => Some(host.clone()),
                _ => None,
            },
            is_pool: found.is_pool(),
        }
    }

    fn text(&self) -> String {
        let kind = self.level.unwrap_or("pool");
        let lacks = match self.missing.len() {
            0 => String::new(),
            1 => format!(", without member {}", self.missing[0]),
            _ => format!(", without members {}", self.missing.join(", ")),
        };
        let outcome = match (self.outcome, &self.homehost) {
            (Outcome::Served, _) => "is served already".to_owned(),
            (Outcome::Started, _) => "is served".to_owned(),
            (Outcome::WouldStart, _) => "would be served".to_owned(),
            (Outcome::Foreign, Some(host)) => {
                format!("belongs to host {host}: --homehost {host} or --array {} starts it", self.name)
            }
            (Outcome::Foreign, None) if self.is_pool => match &self.host {
                Some(host) => format!("is a pool of host {host}, which has not exported it"),
                None => format!(
                    "is a pool of no host: `brindle pool import {}` makes it this one's",
                    shell(&self.name)
                ),
            },
            (Outcome::Foreign, None) => format!("names no host: --array {} starts it", self.name),
            (Outcome::Refused, _) => "can't be put together".to_owned(),
            (Outcome::Failed, _) => "could not be served".to_owned(),
        };
        let by = match (self.outcome, &self.risks) {
            (Outcome::Started | Outcome::WouldStart, Some(_)) => " by force",
            _ => "",
        };
        let why = self.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        let count = self.members.len();
        let mut text = format!("{} ({kind}, {count} devices{lacks}) {outcome}{by}{why}\n", self.name);
        let given = if by.is_empty() { "risk of --force" } else { "risk" };
        text.extend(self.risks.iter().flatten().map(|risk| format!("  {given}: {risk}\n")));
        text
    }
}

impl Report {
    fn text(&self) -> String {
        let mut text: String = self.found.iter().map(One::text).collect();
        if self.found.is_empty() {
            text.push_str("no array and no pool was found\n");
        }
        text.extend(self.silent.iter().map(|path| format!("{path} does not answer\n")));
        text
    }
}
