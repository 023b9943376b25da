//! Arrays and pools that the settings mean, with the reasons why they are not served.

use std::path::Path;

use brindle_host::Configured;
use brindle_host::opening::{Config, VolumeOpening};

use super::means;
use crate::client::ask;
use crate::devices::scan::{Findable, Scanned};

/// The reason why something is not served that was.
const STOPPED: &str = "it was stopped";

/// All arrays and pools that settings mean: each that they name, found or not, and each other that is found and that a rule of theirs covers.
pub(super) fn configured(
    config: &Config,
    scanned: &Scanned,
    is_meant: impl Fn(&Findable) -> bool,
) -> Vec<Configured> {
    let mut all: Vec<Configured> = scanned.all.iter().filter(|found| is_meant(found)).map(of).collect();
    for (volumes, is_pool) in [(&config.arrays, false), (&config.pools, true)] {
        let is_found = |volume: &VolumeOpening| scanned.all.iter().any(|found| means(volume, found));
        all.extend(volumes.iter().filter(|volume| !is_found(volume)).map(|volume| missing(volume, is_pool)));
    }
    all
}

/// An array or a pool that was found: it counts as served until a refusal is noted.
fn of(found: &Findable) -> Configured {
    let (name, uuid) = (Some(found.name.clone()), Some(found.uuid.clone()));
    Configured {
        volume: VolumeOpening { name, uuid, ..VolumeOpening::default() },
        is_pool: found.is_pool(),
        why: STOPPED.to_owned(),
        missing: Some(found.missing.clone()),
        next: None,
    }
}

/// One that was not found at all.
fn missing(volume: &VolumeOpening, is_pool: bool) -> Configured {
    let (name, uuid) = (volume.name.clone(), volume.uuid.clone());
    Configured {
        volume: VolumeOpening { name, uuid, ..VolumeOpening::default() },
        is_pool,
        why: "it was not found: no disk is there that has a part of it".to_owned(),
        missing: None,
        next: Some("brindle examine --scan".to_owned()),
    }
}

/// Notes why something that was found is not served.
pub(super) fn note(all: &mut Vec<Configured>, found: &Findable, why: &str) {
    let is_it = |one: &Configured| one.volume.uuid.as_ref() == Some(&found.uuid);
    all.retain(|one| !is_it(one));
    let forced = found.risks.is_some().then_some("brindle assemble --scan --force --dry-run");
    let lacks = || (!found.newly_missing.is_empty()).then_some("brindle examine --scan");
    // Once what is in the way has been put right.
    let next = forced.or_else(lacks).or(Some("brindle reload")).map(str::to_owned);
    all.push(Configured { why: why.to_owned(), next, ..of(found) });
}

/// Notes that something that was found is served.
pub(super) fn takes(all: &mut Vec<Configured>, found: &Findable) {
    all.retain(|one| !means(&one.volume, found));
    all.push(of(found));
}

/// The words for what another server has.
pub(super) fn elsewhere(folder: &Path, uuid: &str) -> String {
    let reports = ask::reports(folder);
    let Some(report) = reports.iter().find(|report| report.served_uuid() == Some(uuid)) else {
        return "another server has it".to_owned();
    };
    format!("another server has it: '{}' (process {})", report.server().escape_debug(), report.pid())
}
