//! Members as pages draw them: in their roles, of pools by vdev.

use brindle_host::status::{DeviceStatus, DriveStatus, ExportStatus, PoolDevice, PoolStatus};
use serde::Serialize;

use crate::words::{bytes, file, plain};

/// Longest name of a slot in a sentence.
const MOST_OF_SLOT: usize = 32;

/// How a member fares, by which it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Shape {
    /// In use.
    Well,
    /// In use, with something to look at.
    Watch,
    /// It gets what it lacks.
    Filling,
    /// It waits for its use.
    Spare,
    /// Out of use.
    Lost,
    /// No device fills the role.
    Missing,
}

/// A member, or a role without one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Member {
    /// The number of the role, of pools `VDEV.ROLE`; `-` of spares.
    pub(crate) place: String,
    /// The vdev, of pools.
    pub(crate) group: Option<String>,
    pub(crate) shape: Shape,
    /// The state, as `status` has it.
    pub(crate) state: String,
    /// As it was named; none where there is no device.
    pub(crate) path: Option<String>,
    /// The last part of that.
    pub(crate) file: String,
    /// Words that are printed on the drive.
    pub(crate) drive: Option<DriveStatus>,
    /// Remarks on it, in sentences.
    pub(crate) notes: Vec<String>,
    /// Seconds since 1970 when it failed.
    pub(crate) since: Option<u64>,
    pub(crate) errors: u64,
    pub(crate) corrected: u64,
}

/// The members of an array: by role, then what has none.
pub(crate) fn of_array(status: &ExportStatus) -> Vec<Member> {
    let array = &status.array;
    let mut all: Vec<(u32, Member)> =
        array.devices.iter().map(|one| (rank(one.role), of_device(one))).collect();
    let roles = 0..u16::try_from(array.facts.raid_devices).unwrap_or(u16::MAX);
    for role in roles.take(1024) {
        if !array.devices.iter().any(|device| device.role == Some(role)) {
            all.push((rank(Some(role)), missing(role.to_string(), None)));
        }
    }
    all.sort_by_key(|(rank, _)| *rank);
    all.into_iter().map(|(_, member)| member).collect()
}

fn rank(role: Option<u16>) -> u32 {
    role.map_or(u32::MAX, u32::from)
}

pub(crate) fn missing(place: String, group: Option<String>) -> Member {
    Member {
        place,
        group,
        shape: Shape::Missing,
        state: "missing".to_owned(),
        path: None,
        file: "no device".to_owned(),
        drive: None,
        notes: Vec::new(),
        since: None,
        errors: 0,
        corrected: 0,
    }
}

fn of_device(device: &DeviceStatus) -> Member {
    let mut notes = Vec::new();
    notes.extend(device.failure.as_ref().map(|failure| plain(&failure.why)));
    notes.extend(device.failing.as_ref().map(|why| format!("SMART calls its drive failing: {}", plain(why))));
    notes.extend(device.slower.map(|times| format!("slow: it takes {times} times as long as the others")));
    let errors = device.read_errors.filter(|errors| *errors > 0);
    notes.extend(errors.map(|errors| format!("{errors} read errors count now")));
    let bad = device.bad_blocks.as_ref();
    notes.extend(bad.map(|bad| format!("{} can't be read: they could not be rebuilt", bytes(bad.bytes))));
    if !device.flags.is_empty() {
        notes.push(device.flags.join(", "));
    }
    let shape = match &*device.state {
        "in-sync" | "journal"
            if device.slower.is_some() || errors.is_some() || bad.is_some() || device.failing.is_some() =>
        {
            Shape::Watch
        }
        "in-sync" | "journal" => Shape::Well,
        "recovering" | "replacement" => Shape::Filling,
        "spare" => Shape::Spare,
        _ => Shape::Lost,
    };
    Member {
        place: device.role.map_or_else(|| "-".to_owned(), |role| role.to_string()),
        group: None,
        shape,
        state: plain(&device.state),
        path: Some(device.path.clone()),
        file: file(&device.path),
        drive: device.drive.clone(),
        notes,
        since: device.failure.as_ref().map(|failure| failure.at),
        errors: device.io.errors,
        corrected: device.io.corrected,
    }
}

/// The members of a pool, vdev by vdev.
pub(crate) fn of_pool(status: &PoolStatus) -> Vec<Member> {
    status.pool.devices.iter().map(of_pool_device).collect()
}

fn of_pool_device(device: &PoolDevice) -> Member {
    let vdev = device.member.split('.').next().unwrap_or_default();
    let group = Some(format!("{} {}", plain(&device.kind), plain(vdev)));
    if device.state == "missing" {
        return missing(plain(&device.member), group);
    }
    let mut notes = Vec::new();
    notes.extend(device.failing.as_ref().map(|why| format!("SMART calls its drive failing: {}", plain(why))));
    if device.wrong > 0 {
        let (wrong, mended) = (device.wrong, device.mended);
        notes.push(format!("{wrong} blocks of it were wrong or could not be read: {mended} mended"));
    }
    if device.lacks > 0 {
        notes.push(format!("it lacks something of {} segments", device.lacks));
    }
    if device.read_errors > 0 {
        notes.push(format!("{} read errors count now", device.read_errors));
    }
    let shape = match &*device.state {
        "online" if device.wrong > device.mended || device.read_errors > 0 || device.failing.is_some() => {
            Shape::Watch
        }
        "online" => Shape::Well,
        "resilvering" => Shape::Filling,
        _ => Shape::Lost,
    };
    let path = device.path.as_deref();
    Member {
        place: plain(&device.member),
        group,
        shape,
        state: plain(&device.state),
        path: device.path.clone(),
        file: path.map_or_else(|| "no device".to_owned(), file),
        drive: device.drive.clone(),
        notes,
        since: None,
        errors: device.failed_reads + device.failed_writes,
        corrected: device.mended,
    }
}

impl Member {
    /// For a sentence: `sdc (serial WD-WX42, Slot 03)`.
    pub(crate) fn called(&self) -> String {
        let Some(drive) = &self.drive else { return self.file.clone() };
        let serial = drive.serial.as_ref().map(|serial| format!("serial {}", plain(serial)));
        // A name in /dev/disk/by-path is no word of a sentence: the member's card has it.
        let slot = drive.slot.as_ref().filter(|slot| slot.len() <= MOST_OF_SLOT && !slot.starts_with("pci-"));
        let known: Vec<String> = serial.into_iter().chain(slot.map(|slot| plain(slot))).collect();
        if known.is_empty() { self.file.clone() } else { format!("{} ({})", self.file, known.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_role_is_there_and_spares_stand_last() {
        let devices = json!([
            {"role": null, "path": "/dev/s", "state": "spare"},
            {"role": 2, "path": "/dev/c", "state": "failed", "failure": {"at": 7, "why": "a write failed"}},
            {"role": 0, "path": "/dev/a", "state": "in-sync", "slower": 9}
        ]);
        let array = json!({"raid_devices": 4, "devices": devices});
        let status = serde_json::from_value(json!({"name": "d", "array": array})).unwrap();
        let all = of_array(&status);
        let drawn: Vec<(&str, Shape)> = all.iter().map(|member| (&*member.place, member.shape)).collect();
        let expected = [
            ("0", Shape::Watch),
            ("1", Shape::Missing),
            ("2", Shape::Lost),
            ("3", Shape::Missing),
            ("-", Shape::Spare),
        ];
        assert_eq!(drawn, expected);
        assert_eq!((all[2].since, &*all[2].notes[0]), (Some(7), "a write failed"));
    }

    #[test]
    fn members_of_a_pool_stand_by_vdev() {
        let devices = json!([
            {"member": "0.0", "kind": "mirror", "path": "/dev/a", "state": "online", "wrong": 2, "mended": 2},
            {"member": "1.0", "kind": "raidz2", "path": null, "state": "missing"},
            {"member": "1.1", "kind": "raidz2", "path": "/dev/b", "state": "offline"}
        ]);
        let status = serde_json::from_value(json!({"name": "t", "pool": {"devices": devices}})).unwrap();
        let all = of_pool(&status);
        let drawn: Vec<(&str, Shape)> =
            all.iter().map(|member| (member.group.as_deref().unwrap(), member.shape)).collect();
        assert_eq!(
            drawn,
            [("mirror 0", Shape::Well), ("raidz2 1", Shape::Missing), ("raidz2 1", Shape::Lost)]
        );
    }
}
