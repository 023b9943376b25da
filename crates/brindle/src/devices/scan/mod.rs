//! Contents among many devices: each kind knows its members by what stands on them. Another kind adds a file beside these, and a row to
//! [`KINDS`].

mod md;
mod pool;

use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brindle_format::md::split_name;
use brindle_format::pool::PoolError;
use brindle_host::status::Report;

use crate::base::deadline::within;
use crate::base::failure::Failure;
use crate::base::path::real;
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
    /// The host that has it, of kinds that say so themselves; arrays only name one.
    pub(crate) belongs: Option<Belongs>,
}

/// The host that has something, as that says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Belongs {
    /// This one.
    Here,
    /// Another one, of this name, which has not given it away.
    Elsewhere(String),
    /// None.
    Nowhere,
}

/// All that was found.
#[derive(Debug, Default)]
pub(crate) struct Scanned {
    pub(crate) all: Vec<Findable>,
    /// Devices that could not be identified.
    pub(crate) silent: Vec<PathBuf>,
    /// Members of what this release does not read.
    pub(crate) refused: Vec<RefusedMember>,
}

/// A member of what this release does not read.
#[derive(Debug)]
pub(crate) struct RefusedMember {
    /// The sentence about it, with the device, fit to be shown.
    pub(crate) why: String,
    /// The UUIDs of the sets that it may be of, as reports write them.
    sets: Vec<String>,
}

impl RefusedMember {
    fn of(device: &Path, why: &PoolError) -> Self {
        let name = device.display().to_string();
        Self { why: format!("{}: {why}", name.escape_debug()), sets: pools::named_on(device) }
    }
}

impl Scanned {
    /// Tells on standard error of members that are passed over.
    pub(crate) fn tell_refused(&self) {
        self.refused.iter().for_each(|one| eprintln!("brindle: {}; it is passed over", one.why));
    }

    /// Members that are refused are there: nothing is opened without them as if they were missing.
    fn keep_whole(&mut self) {
        let Self { all, refused, .. } = self;
        for found in all.iter_mut().filter(|found| found.problem.is_none()) {
            let Some(own) = refused.iter().find(|one| one.sets.contains(&found.uuid)) else { continue };
            found.problem = Some(format!("{}; it is of this pool, which is not served without it", own.why));
            // Nothing that comes yet would change that.
            found.newly_missing.clear();
        }
    }
}

/// All kinds, in the order in which their contents are listed. A device is of the last that knows it.
const KINDS: [&dyn Heads; 2] = [&md::Superblocks, &pool::Labels];

/// A kind of content, whose members are known by what stands on them.
trait Heads: Sync {
    /// Looks at a device, which may hang; `None` if it is no member of this kind.
    fn look(&self, device: &Path) -> Result<Option<Head>, Failure>;

    /// The content that all members of one set form that were found.
    fn form(&self, set: Vec<Head>) -> Option<Findable>;
}

/// A device that is a member of something.
struct Head {
    device: PathBuf,
    /// The UUID of the set that it belongs to, as reports write it, if it says that.
    set: Option<String>,
    /// The record that stands on it, as its kind reads it.
    seen: Box<dyn Any + Send>,
}

impl Head {
    /// The devices of a set, with what its kind has seen on them.
    fn split<T: 'static>(set: Vec<Self>) -> (Vec<PathBuf>, Vec<T>) {
        let seen = |head: Self| Some((head.device, *head.seen.downcast().ok()?));
        set.into_iter().filter_map(seen).unzip()
    }
}

/// Looks at the devices that are named, at all files of folders that are named, or, without names, at all disks and partitions of this machine.
pub(crate) fn scan(places: &[PathBuf]) -> Scanned {
    let mut scanned = Scanned::default();
    let mut found = KINDS.map(|kind| (kind, BTreeMap::<String, Vec<Head>>::new()));
    for path in devices(places) {
        let own = path.clone();
        let look = move || {
            let known = |(at, kind): (usize, &&dyn Heads)| match kind.look(&own) {
                Ok(head) => Some(Ok((at, head?))),
                Err(why) => why.of_another_version().map(|why| Err(RefusedMember::of(&own, why))),
            };
            KINDS.iter().enumerate().rev().find_map(known)
        };
        match within(PATIENCE, look).ok().flatten() {
            None => scanned.silent.push(path),
            Some(None) => {}
            Some(Some(Err(why))) => scanned.refused.push(why),
            Some(Some(Ok((at, head)))) => {
                found[at].1.entry(head.set.clone().unwrap_or_default()).or_default().push(head);
            }
        }
    }
    for (kind, sets) in found {
        scanned.all.extend(sets.into_values().filter_map(|set| kind.form(set)));
    }
    scanned.keep_whole();
    scanned
}

/// The UUID of the set that a device is a member of, if it is one.
///
/// # Errors
/// It can't be read.
pub(crate) fn set_of(device: &Path) -> Result<Option<String>, Failure> {
    for kind in KINDS.iter().rev() {
        if let Some(head) = kind.look(device)? {
            return Ok(head.set);
        }
    }
    Ok(None)
}

/// Each device at these places once, by the first of its names; without places, all disks and partitions of this machine.
pub(crate) fn devices(places: &[PathBuf]) -> Vec<PathBuf> {
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

impl Findable {
    /// Whether it is a pool.
    pub(crate) fn is_pool(&self) -> bool {
        self.metadata == "pool"
    }

    /// Whether this host has it, as it says itself.
    pub(crate) fn is_here(&self) -> bool {
        self.belongs == Some(Belongs::Here)
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
            belongs: None,
        };
        let line = "ARRAY /dev/md/data metadata=1.2 UUID=01234567:89abcdef:01234567:89abcdef name=host:data spares=1";
        assert_eq!(found.array_line().as_deref(), Some(line));
        found.full_name = "a\nARRAY x".into();
        assert!(!found.array_line().unwrap().contains('\n'));
        found.metadata = "pool".into();
        assert_eq!(found.array_line(), None);
    }
}
