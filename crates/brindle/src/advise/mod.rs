//! `brindle advise`: how an existing array is set up, and what to change. Only reads.

mod array;
mod chunk;
mod drives;
mod files;
mod finding;
mod odds;
mod simulated;
mod sysfs;
mod tuning;

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::cli::Advise;
use crate::failure::Failure;
use crate::report;
use crate::units::Bytes;
use array::Facts;
use finding::Finding;
use simulated::Simulator;
use sysfs::{Md, Sysfs};

pub(crate) fn advise(args: &Advise) -> Result<(), Failure> {
    let sysfs = Sysfs::at(&args.sysfs);
    let members = members(&sysfs, &args.members)?;
    let facts = array::look(&members)?;
    let md = sysfs.array_of(&members);
    let drives = sysfs.drives(&facts);
    let simulator = Simulator::new(args, &facts, &drives)?;
    let simulator = simulator.as_ref();
    let mut findings =
        vec![tuning::state(&facts, &drives, simulator), chunk::judge(args, &facts, md.as_ref(), simulator)?];
    findings.extend(files::judge(&facts, md.as_ref(), simulator));
    findings.extend(files::members(&facts, &drives, simulator));
    findings.extend(tuning::judge(&facts, md.as_ref(), &drives, simulator));
    findings.extend(drives::judge(&drives, &facts, md.as_ref(), simulator));
    if args.json {
        return report::print_json(&as_json(&facts, md.as_ref(), &findings));
    }
    report::print(&text(&facts, md.as_ref(), &findings))
}

/// The members of an array that the kernel runs, or those that were named.
fn members(sysfs: &Sysfs, named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let [one] = named else { return Ok(named.to_vec()) };
    let is_md = one.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"md"));
    if is_md && !one.exists() && sysfs.members_of(one).is_none() {
        let why = "the kernel runs no array of that name (/proc/mdstat lists those that it runs): name the array's members";
        return Err(Failure::Refused(format!("{}: {why}", one.display())));
    }
    match sysfs.members_of(one) {
        None => Ok(named.to_vec()),
        Some(members) if members.is_empty() => {
            let why = "is an array that has no members now: name its members";
            Err(Failure::Usage(format!("{}: {why}", one.display())))
        }
        Some(members) => Ok(members),
    }
}

/// As JSON: `docs/cli-json.md` tells of each key.
fn as_json(facts: &Facts, md: Option<&Md>, findings: &[Finding]) -> Value {
    json!({
        "uuid": facts.uuid,
        "level": facts.level.name(),
        "layout": facts.layout,
        "chunk": facts.chunk(),
        "members": facts.members.len(),
        "row": facts.row(),
        "size": facts.size,
        "device": md.map(|md| format!("/dev/{}", md.name)),
        "findings": findings,
    })
}

/// For people.
fn text(facts: &Facts, md: Option<&Md>, findings: &[Finding]) -> String {
    let layout = facts.layout.as_ref().map_or_else(String::new, |layout| format!(" {layout}"));
    let chunk = facts.chunk().map_or_else(String::new, |chunk| format!(", chunk {}", Bytes(chunk)));
    let run = md.map_or_else(|| "not run by this kernel".to_owned(), |md| format!("run as /dev/{}", md.name));
    let mut text = format!(
        "{}{layout} of {} members{chunk}, {}, {run}\n",
        facts.level.name(),
        facts.raid_devices,
        Bytes(facts.size)
    );
    findings.iter().for_each(|finding| text.push_str(&finding.text()));
    text
}
