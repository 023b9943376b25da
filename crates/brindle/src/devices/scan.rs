//! Arrays and pools among many devices.

use brindle_host::status::Report;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brindle_format::md::{DeviceRole, Superblock, display_uuid, split_name};
use brindle_io::device::DeviceAccess;
use brindle_md::assembly::Candidate;

use crate::base::deadline::within;
use crate::base::path::real;
use crate::base::{look, runtime};
use crate::devices::world::place;
use crate::devices::{pools, world};

/// Time that a device has to be identified.
const PATIENCE: Duration = Duration::from_secs(5);

/// Something that can be served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findable {
    pub(crate) uuid: String,
    /// The name as an export, unless another has it.
    pub(crate) name: String,
    /// The name in its superblocks: `host:name`.
    pub(crate) full_name: String,
    /// The host in that.
    pub(crate) homehost: Option<String>,
    /// `1.2` and so on; `pool` of a pool.
    pub(crate) metadata: String,
    pub(crate) level: Option<&'static str>,
    /// Its members, as they were found.
    pub(crate) members: Vec<PathBuf>,
    /// Roles that none of these fills; of a pool `VDEV.ROLE`.
    pub(crate) missing: Vec<String>,
    /// Roles that are missing now and had a device when the array was last used.
    pub(crate) newly_missing: Vec<String>,
    pub(crate) spares: usize,
    /// The reason why the array can't be assembled.
    pub(crate) problem: Option<String>,
    /// The risks of assembling it by force, if it can be.
    pub(crate) risks: Option<Vec<String>>,
}

/// All that was found.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    pub(crate) all: Vec<Findable>,
    /// Devices that could not be identified.
    pub(crate) silent: Vec<PathBuf>,
}

/// Looks at the devices that are named, at all files of folders that are named, or, without names, at all disks and partitions of this machine.
pub(crate) fn scan(places: &[PathBuf]) -> Scanned {
    let mut scanned = Scanned::default();
    let (mut arrays, mut labels) = (BTreeMap::<_, Vec<Candidate>>::new(), BTreeMap::<_, Vec<PathBuf>>::new());
    for path in devices(places) {
        let own = path.clone();
        let seen = within(PATIENCE, move || {
            let label = pools::label_of(&own);
            (label, candidate(&own))
        });
        match seen.ok().flatten() {
            None => scanned.silent.push(path),
            Some((Some(label), _)) => labels.entry(label.pool).or_default().push(path),
            Some((None, Some(candidate))) => {
                let uuid = candidate.superblock().ok().map(|(superblock, _)| superblock.set_uuid);
                arrays.entry(uuid.unwrap_or_default()).or_default().push(candidate);
            }
            Some((None, None)) => {}
        }
    }
    scanned.all.extend(arrays.into_values().filter_map(|candidates| array(&candidates)));
    scanned.all.extend(labels.into_values().filter_map(|members| pool(&members)));
    scanned
}

/// Each device once, by the first of its names.
fn devices(places: &[PathBuf]) -> Vec<PathBuf> {
    let mut named: Vec<PathBuf> = Vec::new();
    let all = if places.is_empty() {
        world::block_devices().iter().map(|device| by_id(device)).collect()
    } else {
        places.to_vec()
    };
    for place in all {
        match std::fs::read_dir(&place) {
            Ok(entries) => {
                let mut inside: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
                inside.retain(|path| !path.is_dir());
                inside.sort();
                named.extend(inside);
            }
            Err(_) => named.push(place),
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    named.retain(|path| seen.insert(real(path)));
    named
}

/// Whether members are looked for at a device where they are looked for at this place: the device itself, or its folder.
pub(crate) fn covers(place: &Path, device: &Path) -> bool {
    let own = real(device);
    let mut inside = std::fs::read_dir(place).into_iter().flatten().flatten();
    real(place) == own || inside.any(|entry| real(&entry.path()) == own)
}

/// The name of a device that stays when disks are put in other slots, if it has one.
fn by_id(device: &Path) -> PathBuf {
    let links =
        std::fs::read_dir("/dev/disk/by-id").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut own: Vec<PathBuf> =
        links.filter(|link| std::fs::canonicalize(link).is_ok_and(|file| file == device)).collect();
    // Names with a model and a serial number are for people; names of numbers alone are not.
    own.sort_by_key(|link| {
        let name = link.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (name.starts_with("wwn-") || name.starts_with("nvme-eui"), name)
    });
    own.into_iter().next().unwrap_or_else(|| device.to_owned())
}

/// A member of an array of md; nothing if it is none as it is.
fn candidate(path: &Path) -> Option<Candidate> {
    let device = place::open(path, DeviceAccess::Examine).ok()?;
    let label = path.display().to_string();
    let candidate = look::candidate(&label, device.info(), look::reader(&device)).ok()?;
    (!look::is_unfit(&candidate)).then_some(candidate)
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
        name: if runtime::is_name(own) { own.to_owned() } else { uuid.replace(':', "-") },
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
        uuid,
    })
}

/// The line for devices that form no array.
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

fn pool(members: &[PathBuf]) -> Option<Findable> {
    let labels: Vec<_> = members.iter().filter_map(|path| pools::label_of(path)).collect();
    let first = labels.first()?;
    let name = |member| brindle_pool::member_name(first, member);
    let there: Vec<_> = labels.iter().map(|label| label.member).collect();
    let mut sorted = there.clone();
    sorted.sort_unstable();
    let twice = sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    let problem = twice.map(|member| {
        let of = members.iter().zip(&labels).filter(|(_, label)| label.member == member);
        let named: Vec<String> = of.map(|(path, _)| path.display().to_string()).collect();
        format!("{} all say that they are member {}: leave one", named.join(" and "), name(member))
    });
    let missing: Vec<String> = (0..first.members.len())
        .filter_map(|member| u16::try_from(member).ok())
        .filter(|member| !there.contains(member))
        .map(name)
        .collect();
    Some(Findable {
        uuid: first.pool.to_string(),
        name: first.name.clone(),
        full_name: first.name.clone(),
        homehost: None,
        metadata: "pool".to_owned(),
        level: None,
        members: members.to_vec(),
        newly_missing: missing.clone(),
        missing,
        spares: 0,
        problem,
        risks: None,
    })
}

impl Findable {
    /// Whether it is a pool.
    pub(crate) fn is_pool(&self) -> bool {
        self.metadata == "pool"
    }

    /// The line of mdadm.conf(5) for an array of md.
    pub(crate) fn array_line(&self) -> Option<String> {
        if self.is_pool() {
            return None;
        }
        Some(array_line(&self.full_name, &self.metadata, &self.uuid, self.spares))
    }
}

/// The line of mdadm.conf(5) for an array of that name, `host:name` as a rule.
pub(crate) fn array_line(name: &str, metadata: &str, uuid: &str, spares: usize) -> String {
    let own = split_name(name).1;
    let mut line = format!("ARRAY /dev/md/{}", word(if own.is_empty() { uuid } else { own }));
    if metadata != "0.90" {
        line.push_str(&format!(" metadata={metadata}"));
    }
    line.push_str(&format!(" UUID={uuid}"));
    if !name.is_empty() {
        line.push_str(&format!(" name={}", word(name)));
    }
    if spares > 0 {
        line.push_str(&format!(" spares={spares}"));
    }
    line
}

/// The line for an array that is served.
pub(crate) fn served_line(report: &Report) -> Option<String> {
    let array = &report.array()?.array;
    let spares = array.devices.iter().filter(|device| device.state == "spare").count();
    Some(array_line(&array.facts.name, &array.facts.metadata, &array.facts.uuid, spares))
}

/// A name from a disk as one word of a configuration: mdadm's words end at blanks, and quotes keep them together.
fn word(name: &str) -> String {
    let shown: String = name.escape_debug().to_string().replace('"', "'");
    if shown.contains([' ', '#', '\'']) { format!("\"{shown}\"") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn array_lines_are_mdadms() {
        let mut found = Findable {
            uuid: "01234567:89abcdef:01234567:89abcdef".into(),
            name: "data".into(),
            full_name: "host:data".into(),
            homehost: Some("host".into()),
            metadata: "1.2".into(),
            level: Some("raid5"),
            members: Vec::new(),
            missing: Vec::new(),
            newly_missing: Vec::new(),
            spares: 1,
            problem: None,
            risks: None,
        };
        let line = "ARRAY /dev/md/data metadata=1.2 UUID=01234567:89abcdef:01234567:89abcdef name=host:data spares=1";
        assert_eq!(found.array_line().as_deref(), Some(line));
        found.full_name = "a\nARRAY x".into();
        assert!(!found.array_line().unwrap().contains('\n'));
        found.metadata = "pool".into();
        assert_eq!(found.array_line(), None);
    }
}
