//! Disks of arrays as they were seen last: on record beside the server's other state, since a disk that is missing tells nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use brindle_host::status::DriveStatus;
use serde::{Deserialize, Serialize};

use super::changes::Facts;
use super::state::{Seen, Use};
use crate::base::host::state_folder;
use crate::base::path::real;
use crate::base::replace::replace;

/// The members of an array or a pool, by their roles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Members {
    uuid: String,
    name: String,
    members: BTreeMap<String, SeenDisk>,
}

/// A disk as it was seen last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct SeenDisk {
    path: String,
    model: Option<String>,
    serial: Option<String>,
    by_id: Option<String>,
    slot: Option<String>,
}

/// The records of all arrays.
pub(super) struct Kept {
    folder: PathBuf,
    all: BTreeMap<String, Members>,
    /// It was said that they can't be written.
    has_complained: bool,
}

impl Kept {
    /// Those of this user.
    pub(super) fn usual() -> Self {
        Self::of(&state_folder().join("disks"))
    }

    /// None, for tests of what is told.
    #[cfg(test)]
    pub(super) fn of_nothing() -> Self {
        Self { folder: PathBuf::from("/nonexistent"), all: BTreeMap::new(), has_complained: true }
    }

    fn of(folder: &Path) -> Self {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let read = |path: PathBuf| serde_json::from_slice::<Members>(&std::fs::read(path).ok()?).ok();
        let all = files.filter_map(|entry| read(entry.path()));
        let all = all.map(|members| (members.uuid.clone(), members)).collect();
        Self { folder: folder.to_owned(), all, has_complained: false }
    }

    /// Notes the members that an array has now.
    pub(super) fn note(&mut self, seen: &Seen) {
        let Some(file) = file(&seen.uuid) else { return };
        let before = self.all.get(&seen.uuid).cloned().unwrap_or_default();
        let mut now = Members { uuid: seen.uuid.clone(), name: seen.name.clone(), ..before.clone() };
        for (path, _) in seen.devices.iter().filter(|(_, usage)| **usage == Use::Active) {
            let Some(role) = seen.roles.get(path) else { continue };
            let known = before.members.get(role).filter(|known| known.path == *path);
            let disk = match (seen.identities.get(path), known) {
                (Some(identity), _) => SeenDisk::of(path, identity),
                (None, Some(known)) => known.clone(),
                (None, None) => SeenDisk::by_path(path),
            };
            now.members.insert(role.clone(), disk);
        }
        if now == before || now.members.is_empty() {
            return;
        }
        let written = serde_json::to_vec(&now).map_err(std::io::Error::from).and_then(|text| {
            std::fs::create_dir_all(&self.folder)?;
            replace(&self.folder.join(file), &text)
        });
        if let Err(why) = written
            && !std::mem::replace(&mut self.has_complained, true)
        {
            let folder = self.folder.display();
            eprintln!(
                "brindle: {folder}: disks can't be put on record, for the time when they are missing: {why}"
            );
        }
        self.all.insert(seen.uuid.clone(), now);
    }

    /// An array that is seen, with its disks that failed or are missing.
    pub(super) fn facts(&self, seen: &Seen) -> Facts {
        let mut disks = Vec::new();
        for (path, _) in seen.devices.iter().filter(|(_, usage)| **usage == Use::Failed) {
            let member = seen.roles.get(path).map_or_else(String::new, |role| format!("member {role}, "));
            let disk = match (seen.identities.get(path), self.disk(&seen.uuid, seen.roles.get(path))) {
                (Some(identity), _) => SeenDisk::of(path, identity),
                (None, Some(kept)) if kept.path == *path => kept.clone(),
                (None, _) => SeenDisk { path: path.clone(), ..SeenDisk::default() },
            };
            disks.push(format!("{member}{}, failed", disk.text()));
        }
        let has_failed = |role: &&String| {
            let failed = seen.devices.iter().filter(|(_, usage)| **usage == Use::Failed);
            failed.into_iter().any(|(path, _)| seen.roles.get(path) == Some(*role))
        };
        let missing = seen.missing.iter().filter(|role| !has_failed(role));
        disks.extend(missing.map(|role| self.missing(&seen.uuid, role)));
        Facts {
            state: seen.state.clone(),
            members: (seen.wanted > 0).then_some((seen.active, seen.wanted)),
            redundancy_left: seen.redundancy_left,
            disks,
            next: seen.next.clone(),
        }
    }

    /// Disks of something that is not served: those in the roles that are missing, or all that it had.
    pub(super) fn of_absent(
        &self,
        uuid: Option<&str>,
        name: &str,
        missing: Option<&[String]>,
    ) -> Vec<String> {
        let by_name = || self.all.values().find(|members| members.name == name);
        let Some(members) = uuid.and_then(|uuid| self.all.get(uuid)).or_else(by_name) else {
            let missing = missing.unwrap_or_default();
            return missing.iter().map(|role| format!("member {role}, missing")).collect();
        };
        let roles: Vec<&String> =
            missing.map_or_else(|| members.members.keys().collect(), |roles| roles.iter().collect());
        roles.into_iter().map(|role| self.missing(&members.uuid, role)).collect()
    }

    fn missing(&self, uuid: &str, role: &String) -> String {
        match self.disk(uuid, Some(role)) {
            Some(disk) => format!("member {role}, missing, last seen as {}", disk.text()),
            None => format!("member {role}, missing"),
        }
    }

    fn disk(&self, uuid: &str, role: Option<&String>) -> Option<&SeenDisk> {
        self.all.get(uuid)?.members.get(role?)
    }
}

impl SeenDisk {
    /// By a server's report.
    fn of(path: &str, drive: &DriveStatus) -> Self {
        let DriveStatus { model, serial, by_id, slot } = drive.clone();
        Self { path: path.to_owned(), model, serial, by_id, slot }
    }

    /// By the device itself.
    fn by_path(path: &str) -> Self {
        let file = real(Path::new(path));
        let path = path.to_owned();
        match DriveStatus::of(&file) {
            Some(DriveStatus { model, serial, by_id, slot }) => Self { path, model, serial, by_id, slot },
            None => Self { path, ..Self::default() },
        }
    }

    /// For people: names of drives may hold anything.
    fn text(&self) -> String {
        let Self { path, model, serial, by_id, slot } = self.clone();
        let drive = DriveStatus { model, serial, by_id, slot }.text();
        if drive.is_empty() { path } else { format!("{path} ({drive})") }
    }
}

/// The file of an array: its UUID, if it is one.
fn file(uuid: &str) -> Option<String> {
    let is_uuid =
        !uuid.is_empty() && uuid.chars().all(|letter| letter.is_ascii_hexdigit() || ":-".contains(letter));
    is_uuid.then(|| format!("{}.json", uuid.replace(':', "-")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(second: Option<Use>) -> Seen {
        let drive = |serial: &str| DriveStatus {
            model: Some("M".into()),
            serial: Some(serial.into()),
            by_id: Some(format!("ata-M_{serial}")),
            slot: None,
        };
        let mut seen = Seen { uuid: "1:2".into(), name: "data".into(), wanted: 2, ..Seen::default() };
        for (role, path, usage) in [("0", "/dev/a", Some(Use::Active)), ("1", "/dev/b", second)] {
            let Some(usage) = usage else {
                seen.missing.push(role.to_owned());
                continue;
            };
            seen.devices.insert(path.into(), usage);
            seen.roles.insert(path.into(), role.into());
            seen.identities.insert(path.into(), drive(&path.replace("/dev/", "S")));
        }
        seen.active = seen.devices.values().filter(|usage| **usage == Use::Active).count();
        seen
    }

    #[test]
    fn a_disk_that_is_missing_is_known_from_when_it_was_there() {
        let folder = std::env::temp_dir().join(format!("brindle-kept-{}", std::process::id()));
        let mut kept = Kept::of(&folder);
        kept.note(&seen(Some(Use::Active)));
        // Another process.
        let mut kept = Kept::of(&folder);
        let gone = seen(None);
        kept.note(&gone);
        let facts = kept.facts(&gone);
        assert_eq!(facts.disks, ["member 1, missing, last seen as /dev/b (M, serial Sb, ata-M_Sb)"]);
        assert_eq!(facts.members, Some((1, 2)));
        let failed = kept.facts(&seen(Some(Use::Failed))).disks;
        assert_eq!(failed, ["member 1, /dev/b (M, serial Sb, ata-M_Sb), failed"]);
        let absent = kept.of_absent(None, "data", None);
        assert!(absent.len() == 2 && absent[0].contains("serial Sa"), "{absent:?}");
        assert_eq!(kept.of_absent(Some("3:4"), "other", Some(&["2".into()])), ["member 2, missing"]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
