//! Arrays of md, by superblocks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use brindle_format::md::{DeviceRole, Superblock, display_uuid, split_name};
use brindle_io::device::DeviceAccess;
use brindle_md::assembly::Candidate;

use super::{Findable, Head, Heads};
use crate::base::failure::Failure;
use crate::base::{look, runtime};
use crate::devices::world::{self, place};

/// The kind.
pub(super) struct Superblocks;

impl Heads for Superblocks {
    fn look(&self, device: &Path) -> Result<Option<Head>, Failure> {
        let Some(candidate) = candidate(device)? else { return Ok(None) };
        let set =
            candidate.superblock().ok().map(|(superblock, _)| display_uuid(superblock.set_uuid).to_string());
        Ok(Some(Head { device: device.to_owned(), set, seen: Box::new(candidate) }))
    }

    fn form(&self, set: Vec<Head>) -> Option<Findable> {
        array(&Head::split(set).1)
    }
}

/// A member of an array of md; nothing if it is none as it is.
fn candidate(path: &Path) -> Result<Option<Candidate>, Failure> {
    let device = place::open(path, DeviceAccess::Examine)?;
    let label = path.display().to_string();
    let candidate = look::candidate(&label, device.info(), look::reader(&device))?;
    Ok(Some(candidate).filter(|candidate| !look::is_unfit(candidate)))
}

fn array(candidates: &[Candidate]) -> Option<Findable> {
    let newest =
        candidates.iter().filter_map(|one| Some(one.superblock().ok()?.0)).max_by_key(|sb| sb.events)?;
    let (host, own) = split_name(&newest.name);
    let uuid = display_uuid(newest.set_uuid).to_string();
    let twins = twins(candidates);
    let is_twin = twins.is_some();
    let assembled = match twins {
        Some(why) => Err(why),
        None => world::describe(candidates, false).map_err(|failure| failure.to_string()),
    };
    let forced = || world::describe(candidates, true).ok();
    let forced = if is_twin || assembled.is_ok() { None } else { forced() };
    let risks = forced.map(|forced| forced.limits.iter().map(ToString::to_string).collect());
    let missing = match &assembled {
        Ok(described) => described.missing.clone(),
        Err(_) => absent(newest, candidates),
    };
    let filled = |role: &u16| newest.roles.contains(&DeviceRole::Active(*role));
    let newly = missing.iter().filter(|role| filled(role)).map(ToString::to_string).collect();
    let level = brindle_layout::Level::from_md(newest.level).ok().map(|level| level.name());
    let is_spare = |one: &&Candidate| one.superblock().is_ok_and(|(sb, _)| sb.role() == DeviceRole::Spare);
    Some(Findable {
        name: runtime::name_or_uuid(own, &uuid),
        full_name: newest.name.clone(),
        homehost: host.map(str::to_owned),
        metadata: newest.version.to_string(),
        level,
        members: candidates.iter().map(|one| PathBuf::from(&one.label)).collect(),
        missing: missing.iter().map(ToString::to_string).collect(),
        newly_missing: newly,
        spares: candidates.iter().filter(is_spare).count(),
        problem: assembled.err(),
        risks,
        belongs: None,
        uuid,
    })
}

/// Roles that none of these devices has: they form no array.
fn absent(newest: &Superblock, candidates: &[Candidate]) -> Vec<u16> {
    let role = |one: &Candidate| one.superblock().ok().and_then(|(sb, _)| sb.role().active());
    let there: Vec<u16> = candidates.iter().filter_map(role).collect();
    (0..newest.raid_disks as u16).filter(|role| !there.contains(role)).collect()
}

/// Two devices that say that they are the same one: nothing tells which is the member and which its copy.
fn twins(candidates: &[Candidate]) -> Option<String> {
    let mut seen = BTreeMap::new();
    for one in candidates {
        let Ok((superblock, _)) = one.superblock() else { continue };
        let identity = (superblock.device_uuid, superblock.device_number);
        if let Some(first) = seen.insert(identity, &one.label) {
            return Some(format!(
                "{first} and {} say that they are the same member: take one away, or erase its superblock",
                one.label
            ));
        }
    }
    None
}
