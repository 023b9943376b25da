//! `brindle advise`: the set-up of an existing array, and changes that are worth it. Only reads.

mod array;
mod simulated;
mod sysfs;
mod workload;

use std::path::PathBuf;

use brindle_planner::advice::{Facts, Finding, Md, Simulator, advise as judge, text as words};
use serde_json::{Value, json};

use crate::base::failure::Failure;
use crate::base::report;
use crate::base::units::Bytes;
use crate::devices::containers;
use crate::flags::cli::Advise;
use simulated::Simulated;
use sysfs::Sysfs;

pub(crate) fn advise(args: &Advise) -> Result<(), Failure> {
    let sysfs = Sysfs::at(&args.sysfs);
    let members = members(&sysfs, &args.members)?;
    containers::refuse(
        &members,
        "its chunks and bitmaps are changed by the firmware's tool, and not by what is advised here",
    )?;
    let mut facts = array::look(&members)?;
    facts.md = sysfs.array_of(&members);
    facts.drives = sysfs.drives(&facts);
    let simulator = Simulated::new(args, &facts)?;
    let simulator = simulator.as_ref();
    let chunks = workload::predicted(args, &facts, simulator)?;
    let findings = judge(&facts, chunks, simulator.map(|simulator| simulator as &dyn Simulator));
    let md = facts.md.as_ref();
    if args.json {
        return report::print_json(&as_json(&facts, md, &findings));
    }
    report::print(&text(&facts, md, &findings))
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

/// As JSON: `docs/cli-json.md` describes each key.
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
    text.push_str(&words(findings));
    text
}
