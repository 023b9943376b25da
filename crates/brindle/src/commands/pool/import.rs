//! `brindle pool import`: pools that could be this host's, and one that becomes it.

use std::path::{Path, PathBuf};

use brindle_host::Changed;
use brindle_host::status::PoolFacts;
use brindle_pool::{MemberHead, Role, youngest_of};
use serde::Serialize;
use serde_json::json;

use super::tree::{self, Row};
use crate::base::failure::Failure;
use crate::base::text::{shell, shown};
use crate::base::units::Moment;
use crate::base::{report, runtime};
use crate::client::ask;
use crate::client::choice;
use crate::client::control::Ask;
use crate::devices::pools::holder::host_text;
use crate::devices::pools::{self, Alone};
use crate::devices::scan::{Belongs, Findable, scan};
use crate::flags::cli::PoolImport;
use crate::server::assemble::start;

/// The output of `brindle pool import --json` without a name: one for each pool.
#[derive(Debug, Serialize)]
struct Importable {
    name: String,
    uuid: String,
    /// `ONLINE`, `DEGRADED` or `UNAVAIL`.
    state: &'static str,
    /// The host that had it last.
    host: Option<String>,
    exported: bool,
    /// It is that of another host, which has not exported it.
    foreign: bool,
    /// Seconds since 1970 when it was written to last.
    at: Option<u64>,
    members: Vec<FoundMember>,
    problem: Option<String>,
    /// The command that imports it.
    next: Option<String>,
}

#[derive(Debug, Serialize)]
struct FoundMember {
    /// `VDEV.ROLE`.
    member: String,
    /// The kind of its vdev.
    kind: String,
    /// None of one that was not found.
    path: Option<String>,
    /// The pool was written to without it.
    outdated: bool,
    /// It was in use, and is not here.
    #[serde(skip)]
    lacks: bool,
}

/// `brindle pool import`.
pub(super) fn import(args: &PoolImport) -> Result<(), Failure> {
    let is_read_only = is_read_only(&args.properties)?;
    if let Some((place, why)) = args.places.iter().find_map(|place| Some((place, place.metadata().err()?))) {
        return Err(Failure::Refused(format!("-d {}: it can't be looked at: {why}", place.display())));
    }
    let folder = runtime::folder(args.runtime.folder())?;
    let scanned = scan(&args.places);
    scanned.tell_refused();
    let served = choice::served(&folder);
    let is_free = |found: &&Findable| found.is_pool() && !served.contains(&found.uuid);
    let Some(name) = &args.name else {
        let of = |found: &Findable| Importable::of(found, &args.places);
        let all: Vec<Importable> = scanned.all.iter().filter(is_free).map(of).collect();
        if args.json {
            return report::print_json(&all);
        }
        return report::print(&match &all[..] {
            [] => "no pools available to import\n".to_owned(),
            all => all.iter().map(Importable::text).collect::<Vec<_>>().join("\n"),
        });
    };
    let is_it = |found: &&Findable| found.is_pool() && (found.name == *name || found.uuid == *name);
    let mut meant = scanned.all.iter().filter(is_it);
    let (found, other) = (meant.next(), meant.next());
    let found = found.ok_or_else(|| {
        Failure::Refused(format!(
            "no pool '{name}' was found: `brindle pool import` lists what there is; -d names other places"
        ))
    })?;
    if let Some(other) = other {
        return Err(Failure::Usage(format!(
            "two pools are called '{name}': give the UUID of one, {} or {}",
            found.uuid, other.uuid
        )));
    }
    if served.contains(&found.uuid) {
        return Err(Failure::Refused(format!(
            "the pool '{name}' is served already: `brindle pool status` shows it"
        )));
    }
    let told = if is_read_only { read(args, found)? } else { take(args, found, &folder)? };
    if args.json {
        let (name, uuid) = (&found.name, &found.uuid);
        return report::print_json(
            &json!({"name": name, "uuid": uuid, "read_only": is_read_only, "changed": told}),
        );
    }
    report::print(&told.iter().map(|line| format!("{line}\n")).collect::<String>())
}

/// zpool's property.
fn is_read_only(properties: &[String]) -> Result<bool, Failure> {
    let mut is_read_only = false;
    for property in properties {
        is_read_only = match property.as_str() {
            "readonly=on" => true,
            "readonly=off" => false,
            other => {
                return Err(Failure::Usage(format!(
                    "-o {other}: there is no such property: readonly=on and readonly=off are taken"
                )));
            }
        };
    }
    Ok(is_read_only)
}

/// Serves it for reading alone, by a server of its own: its members stay as they are.
fn read(args: &PoolImport, found: &Findable) -> Result<Vec<String>, Failure> {
    let name = match runtime::is_name(&found.name) {
        true => found.name.clone(),
        false => runtime::uuid_name(&found.uuid),
    };
    start(args.runtime.folder(), &name, &["--read-only"], &found.members)?;
    Ok(vec![format!("{} is served for reading alone: it is that of the host that it was", found.name)])
}

/// Makes it this host's, and has the daemon serve it, if one runs.
fn take(args: &PoolImport, found: &Findable, folder: &Path) -> Result<Vec<String>, Failure> {
    if let Some(problem) = found.problem.as_ref().filter(|_| found.risks.is_none()) {
        return Err(Failure::Refused(problem.clone()));
    }
    let alone = Alone::open_to_import(&found.members, (args.degraded, args.force))?;
    alone.finish(async |_| Ok(()))?;
    let mut told = vec![format!("{} is this host's", found.name)];
    match by_daemon(folder, &found.uuid) {
        Some(Ok(changed)) => told.extend(changed),
        Some(Err(why)) => eprintln!("brindle: {why}"),
        None => told.push(format!(
            "no daemon runs: brindle assemble --scan --array {} serves it",
            shell(&found.name)
        )),
    }
    Ok(told)
}

/// Has a daemon serve it; none if none runs. The reason, if it does not.
fn by_daemon(folder: &Path, uuid: &str) -> Option<Result<Vec<String>, Failure>> {
    let mut refused = None;
    for server in runtime::servers(folder) {
        let request = Ask::Incremental { uuid: uuid.to_owned() }.into();
        match ask::ask::<Changed>(folder, &server, &request) {
            Ok(answer) => return Some(Ok(answer.into_read().changed)),
            // A server without settings takes nothing.
            Err(why) if why.to_string().contains("without settings") => {}
            Err(why) => refused = Some(why),
        }
    }
    refused.map(Err)
}

impl Importable {
    fn of(found: &Findable, places: &[PathBuf]) -> Self {
        let named: Vec<(String, MemberHead)> = found
            .members
            .iter()
            .filter_map(|path| Some((path.display().to_string(), pools::member_head(path).ok()??)))
            .collect();
        let head = youngest_of(named.iter().filter_map(|(_, one)| one.head.as_ref())).cloned();
        let label = named.iter().map(|(_, one)| &one.label).max_by_key(|label| label.generation).cloned();
        let members = label.as_ref().map_or_else(Vec::new, |label| {
            let of = |number: u16| {
                let (path, _) = named.iter().find(|(_, one)| one.label.member == number).cloned().unzip();
                let (role, is_out) =
                    (Role::of(label, number), head.as_ref().is_some_and(|head| head.is_out(number)));
                FoundMember {
                    kind: PoolFacts::kind_of(label, role.vdev),
                    member: role.to_string(),
                    outdated: path.is_some() && is_out,
                    lacks: path.is_none() && !is_out,
                    path,
                }
            };
            (0..label.members.len() as u16)
                .filter(|&number| label.members[usize::from(number)].role.is_some())
                .map(of)
                .collect()
        });
        let foreign = matches!(found.belongs, Some(Belongs::Elsewhere(_)));
        let state = state(&members);
        let force = if foreign { "--force " } else { "" };
        let degraded = if members.iter().any(|member| member.lacks) { "--degraded " } else { "" };
        let places: String =
            places.iter().map(|place| format!("-d {} ", shell(&place.display().to_string()))).collect();
        let can_be = state != "UNAVAIL" && (found.problem.is_none() || foreign);
        Self {
            next: can_be
                .then(|| format!("brindle pool import {places}{force}{degraded}{}", shell(&found.name))),
            name: found.name.clone(),
            uuid: found.uuid.clone(),
            state,
            host: head
                .as_ref()
                .map(|head| head.host)
                .filter(|host| *host != brindle_format::pool::Host::NONE)
                .map(|host| host_text(&host)),
            exported: found.belongs == Some(Belongs::Nowhere),
            foreign,
            at: head.as_ref().map(|head| head.time),
            members,
            problem: found.problem.clone(),
        }
    }

    fn text(&self) -> String {
        let mut text =
            format!("   pool: {}\n     id: {}\n  state: {}\n", shown(&self.name), self.uuid, self.state);
        let status = match (&self.problem, &self.host, self.at) {
            (Some(problem), ..) => Some(problem.clone()),
            (None, Some(host), Some(at)) if self.exported => {
                Some(format!("it is exported; host {host} had it last, until {}", Moment(at)))
            }
            (None, Some(host), Some(at)) => {
                Some(format!("it is of host {host}, which wrote to it last at {}", Moment(at)))
            }
            _ => None,
        };
        if let Some(status) = status {
            text.push_str(&format!(" status: {}\n", shown(&status)));
        }
        let action = match &self.next {
            Some(next) if self.foreign => format!("{next}, if that host is gone for good"),
            Some(next) => next.clone(),
            None => "find the other members, and name where they are with -d".to_owned(),
        };
        text.push_str(&format!(" action: {}\n config:\n\n", shown(&action)));
        text.push_str(&tree::text(&rows(&self.name, self.state, &self.members), false));
        text
    }
}

fn vdev_of(member: &FoundMember) -> &str {
    member.member.split('.').next().unwrap_or_default()
}

fn is_lost(member: &FoundMember) -> bool {
    member.path.is_none() || member.outdated
}

/// The state of a pool of these members.
fn state(members: &[FoundMember]) -> &'static str {
    let states = members.chunk_by(|one, next| vdev_of(one) == vdev_of(next)).map(|vdev| {
        let lost = vdev.iter().filter(|member| is_lost(member)).count();
        tree::vdev_state(&vdev[0].kind, vdev.len(), lost)
    });
    let states: Vec<&str> = states.collect();
    ["UNAVAIL", "DEGRADED"].into_iter().find(|state| states.contains(state)).unwrap_or("ONLINE")
}

fn rows(name: &str, state: &str, members: &[FoundMember]) -> Vec<Row> {
    let mut rows = vec![Row::new(0, name, state)];
    for vdev in members.chunk_by(|one, next| vdev_of(one) == vdev_of(next)) {
        let lost = vdev.iter().filter(|member| is_lost(member)).count();
        let is_one = vdev[0].kind == "plain";
        if !is_one {
            let name = tree::vdev_name(&vdev[0].kind, vdev_of(&vdev[0]));
            rows.push(Row::new(1, name, tree::vdev_state(&vdev[0].kind, vdev.len(), lost)));
        }
        for member in vdev {
            let state = match (&member.path, member.outdated) {
                (None, _) => "UNAVAIL",
                (Some(_), true) => "OUTDATED",
                (Some(_), false) => "ONLINE",
            };
            let name = member.path.as_ref().unwrap_or(&member.member);
            rows.push(Row::new(if is_one { 1 } else { 2 }, name, state));
        }
    }
    rows
}
