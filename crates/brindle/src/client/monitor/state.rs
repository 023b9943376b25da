//! An array as the monitor sees it: one of a server of ours, or one of the kernel's.

use std::collections::BTreeMap;
use std::path::Path;

use brindle_host::status::{
    DamagedStatus, DeviceStatus, DriveStatus, EventStatus, ExportStatus, PoolDevice, PoolFacts, PoolStatus,
    Report, ScanState, ScanStatus,
};

use crate::base::scrubs::{FOLDER, Scrubbed};
use crate::client::next_step;

/// The word for what goes over all of a pool.
pub(super) const SCRUB: &str = "scrub";
/// Ranges of volumes that an event names.
const NAMED: usize = 8;

/// The use of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Fills a role.
    Active,
    /// Is being rebuilt into a role.
    Recovering,
    Spare,
    Failed,
}

/// A process over an array, and how much of it is done.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Process {
    /// `recovery`, `resync`, `check`, `repair`, `reshape`: mdadm's words; or `scrub`.
    pub(super) action: String,
    pub(super) percent: f64,
}

/// Lost blocks of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LostBlocks {
    /// As often as blocks came to be lost.
    pub(super) count: u64,
    /// Where they are.
    pub(super) places: String,
}

/// An array at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// The name in events.
    pub(super) name: String,
    /// Roles.
    pub(super) wanted: usize,
    /// Roles that are filled by a whole member.
    pub(super) active: usize,
    /// Its UUID, if that is known.
    pub(super) uuid: String,
    /// The name in its superblocks: `host:name`.
    pub(super) full_name: String,
    /// In words.
    pub(super) state: Vec<String>,
    /// Members that may still be lost without loss of data, if that is known.
    pub(super) redundancy_left: Option<u64>,
    /// Roles that no device fills; of pools `VDEV.ROLE`.
    pub(super) missing: Vec<String>,
    /// Roles of devices, by the names of these.
    pub(super) roles: BTreeMap<String, String>,
    /// The identities of drives, by the names of devices.
    pub(super) identities: BTreeMap<String, DriveStatus>,
    /// Spares that it should have.
    pub(super) wanted_spares: usize,
    /// The command to go on with, and why.
    pub(super) next: Option<String>,
    /// Failures of members in this run of its server: the number of the event, and the device.
    pub(super) failures: Vec<(u64, String)>,
    /// The process that serves it.
    pub(super) pid: u64,
    /// The last process was a check.
    pub(super) has_checked: bool,
    /// By their names.
    pub(super) devices: BTreeMap<String, Use>,
    /// Words about devices that are more than their names: serial numbers and the like.
    pub(super) drives: BTreeMap<String, String>,
    pub(super) process: Option<Process>,
    /// The last process ended with so many sectors that disagreed; of a pool with so many blocks that are wrong still.
    pub(super) mismatches: Option<u64>,
    /// It is a pool.
    pub(super) is_pool: bool,
    /// More is lost than the array can do without.
    pub(super) broken: bool,
    /// When all of its redundancy was compared last, in seconds since 1970; when it was made, if it never was. None if it has none, or
    /// that is not known.
    pub(super) compared: Option<u64>,
    /// Blocks of devices that were put right, of those that have errors which count still.
    pub(super) corrected: BTreeMap<String, u64>,
    /// Blocks that are lost now.
    pub(super) lost: Option<LostBlocks>,
}

impl Seen {
    /// Devices that wait to be needed.
    pub(super) fn spares(&self) -> usize {
        self.devices.values().filter(|usage| **usage == Use::Spare).count()
    }

    /// It has fewer than it should.
    pub(super) fn lacks_spares(&self) -> bool {
        self.spares() < self.wanted_spares
    }

    /// Some roles lack a whole member.
    pub(super) fn is_degraded(&self) -> bool {
        self.active < self.wanted
    }

    /// The state by a server's report (docs/cli-json.md); `None` of what is not served.
    pub(super) fn of_report(report: &Report) -> Option<Self> {
        let next = next_step::line(report, "");
        let next = next.trim().strip_prefix("next: ").map(str::to_owned);
        let seen = match report {
            Report::Array(status) => Self::of_array(status),
            Report::Pool(status) => Self::of_pool(status),
            Report::Absent(_) | Report::Other(_) => return None,
        };
        Some(Self {
            uuid: report.uuid().to_owned(),
            failures: failures(report.events()),
            pid: report.pid().into(),
            next,
            ..seen
        })
    }

    fn of_array(status: &ExportStatus) -> Self {
        let array = &status.array;
        let (mut devices, mut drives) = (BTreeMap::new(), BTreeMap::new());
        let (mut roles, mut identities) = (BTreeMap::new(), BTreeMap::new());
        for DeviceStatus { path, role, state, drive, .. } in &array.devices {
            let usage = match &**state {
                "in-sync" => Use::Active,
                "recovering" => Use::Recovering,
                "failed" | "faulty" => Use::Failed,
                "spare" | "replacement" => Use::Spare,
                _ => continue,
            };
            if let Some(words) = drive.as_ref().and_then(drive_words) {
                drives.insert(path.clone(), words);
            }
            if let Some(role) = role {
                roles.insert(path.clone(), role.to_string());
            }
            if let Some(drive) = drive {
                identities.insert(path.clone(), drive.clone());
            }
            devices.insert(path.clone(), usage);
        }
        let missing = array.missing.iter().map(ToString::to_string).collect();
        let active = devices.values().filter(|usage| **usage == Use::Active).count();
        let process = array.sync.as_ref();
        let process = process.map(|sync| Process { action: action(&sync.action), percent: sync.percent });
        let of = |device: &DeviceStatus| Errs {
            name: device.path.clone(),
            wrong: device.io.corrected,
            read_errors: device.read_errors.unwrap_or(0),
        };
        Self {
            name: status.name.clone(),
            full_name: array.facts.name.clone(),
            state: array.state.iter().map(ToString::to_string).collect(),
            redundancy_left: array.redundancy_left.map(u64::from),
            has_checked: status.last_action.as_ref().is_some_and(|last| last.action == "check"),
            wanted: array.facts.raid_devices,
            active,
            devices,
            drives,
            process,
            mismatches: status.last_action.as_ref().map(|last| last.findings.mismatch_cnt),
            broken: array.is("broken"),
            compared: compared(status),
            corrected: corrected(array.devices.iter().map(of)),
            missing,
            roles,
            identities,
            ..Self::default()
        }
    }

    fn of_pool(status: &PoolStatus) -> Self {
        let pool = &status.pool;
        let (mut devices, mut roles, mut missing) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let name_of = |device: &PoolDevice| device.path.as_ref().unwrap_or(&device.member).clone();
        let mut exchanged = 0;
        for device in &pool.devices {
            roles.insert(name_of(device), device.member.clone());
            // The device that takes its place lacks no more than what was written meanwhile: nothing has failed.
            if ["failed", "resilvering"].contains(&&*device.state)
                && is_exchanged(&status.events, device.number)
            {
                devices.insert(name_of(device), Use::Recovering);
                exchanged += 1;
                continue;
            }
            if !device.is_spare() && !["online", "resilvering"].contains(&&*device.state) {
                missing.push(device.member.clone());
            }
            match &*device.state {
                "online" => drop(devices.insert(name_of(device), Use::Active)),
                "resilvering" => drop(devices.insert(name_of(device), Use::Recovering)),
                "spare" => drop(devices.insert(name_of(device), Use::Spare)),
                "failed" => drop(devices.insert(name_of(device), Use::Failed)),
                _ => {}
            }
        }
        let active = devices.values().filter(|usage| **usage == Use::Active).count() + exchanged;
        let of = |device: &PoolDevice| Errs {
            name: name_of(device),
            wrong: device.wrong,
            read_errors: device.read_errors,
        };
        Self {
            name: status.name.clone(),
            full_name: pool.name.clone(),
            state: pool.state.iter().map(ToString::to_string).collect(),
            wanted: pool.devices.iter().filter(|device| !device.is_spare()).count(),
            active,
            devices,
            broken: pool.is("broken"),
            roles,
            missing,
            corrected: corrected(pool.devices.iter().map(of)),
            lost: lost(pool),
            process: process_of(pool),
            mismatches: errors_left(pool),
            has_checked: true,
            is_pool: true,
            compared: gone_over(pool),
            ..Self::default()
        }
    }
}

/// Errors of a device.
struct Errs {
    name: String,
    /// Blocks that were put right.
    wrong: u64,
    /// Errors that count still.
    read_errors: u32,
}

/// Blocks of each device that were put right, of those that have errors which count still.
fn corrected(devices: impl Iterator<Item = Errs>) -> BTreeMap<String, u64> {
    let counts = devices.filter(|device| device.read_errors > 0 && device.wrong > 0);
    counts.map(|device| (device.name, device.wrong)).collect()
}

/// Blocks of a pool that are lost now.
fn lost(pool: &PoolFacts) -> Option<LostBlocks> {
    let (ranges, beyond) = (&pool.damaged, pool.damaged_beyond);
    if ranges.is_empty() && beyond == 0 {
        return None;
    }
    let of = |DamagedStatus { volume, offset, length }: &DamagedStatus| {
        format!("{volume}: {length} bytes from byte {offset} on")
    };
    let mut places: Vec<String> = ranges.iter().take(NAMED).map(of).collect();
    if ranges.len() > NAMED || beyond > 0 {
        places.push("more in other places, which `brindle status` lists".to_owned());
    }
    Some(LostBlocks { count: pool.blocks_lost, places: places.join("; ") })
}

/// When the redundancy of an array was compared last.
fn compared(status: &ExportStatus) -> Option<u64> {
    let facts = &status.array.facts;
    if ["raid0", "linear", ""].contains(&&*facts.level) {
        return None;
    }
    let is_check = |event: &&EventStatus| {
        ["check-ended", "repair-ended"].contains(&&*event.kind) && event.array.is_none()
    };
    let seen = status.events.iter().filter(is_check).map(|event| event.at).max();
    let kept = Scrubbed::last(Path::new(FOLDER), &facts.uuid).map(|last| last.ended);
    [seen, kept, Some(facts.created)].into_iter().flatten().max()
}

/// The process that goes over a pool.
fn process_of(pool: &PoolFacts) -> Option<Process> {
    let scan = pool.scan.as_ref()?;
    let action = match scan {
        ScanStatus::Scrub(_) => SCRUB,
        ScanStatus::Resilver(_) => "recovery",
    };
    Some(Process { action: action.to_owned(), percent: scan.sync()?.percent })
}

/// Blocks that the last scrub of a pool left wrong.
fn errors_left(pool: &PoolFacts) -> Option<u64> {
    match pool.scan.as_ref()? {
        ScanStatus::Scrub(ScanState::Finished { errors, .. }) => Some(*errors),
        _ => None,
    }
}

/// When all of a pool was gone over last, by its own report and by records that outlive servers; when it was made, if it never was.
fn gone_over(pool: &PoolFacts) -> Option<u64> {
    let kept = Scrubbed::last(Path::new(FOLDER), &pool.uuid).map(|last| last.ended);
    [pool.scrubbed, kept, Some(pool.created)].into_iter().flatten().max()
}

/// Another device has taken the member's place.
fn is_replaced(event: &EventStatus) -> bool {
    event.operation.as_deref() == Some("replacement")
}

/// Whether a member was out of use last since another device takes its place.
fn is_exchanged(events: &[EventStatus], member: u16) -> bool {
    let mut failed =
        events.iter().rev().filter(|event| event.kind == "member-failed" && event.role == Some(member));
    failed.next().is_some_and(is_replaced)
}

/// Failures among the last events, but for those of arrays that are members, and for members whose place another device has taken.
fn failures(events: &[EventStatus]) -> Vec<(u64, String)> {
    let failed = events
        .iter()
        .filter(|event| event.kind == "member-failed" && event.array.is_none() && !is_replaced(event));
    failed.filter_map(|event| Some((event.number, event.member.clone()?))).collect()
}

/// mdadm's word for the kernel's `recover`.
fn action(word: &str) -> String {
    if word == "recover" { "recovery".to_owned() } else { word.to_owned() }
}

fn drive_words(drive: &DriveStatus) -> Option<String> {
    let words =
        [&drive.model, &drive.serial, &drive.by_id, &drive.slot].into_iter().flatten().map(String::as_str);
    let words: Vec<&str> = words.collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// The kernel's arrays, of the text of /proc/mdstat.
pub(super) fn of_mdstat(text: &str) -> Vec<Seen> {
    let mut all: Vec<Seen> = Vec::new();
    for line in text.lines() {
        if line.starts_with(' ') || line.starts_with('\t') {
            if let Some(seen) = all.last_mut() {
                below(seen, line);
            }
            continue;
        }
        let Some((name, rest)) = line.split_once(" : ") else { continue };
        if name.contains(' ') || name == "Personalities" {
            continue;
        }
        all.push(first(name, rest));
    }
    all
}

/// `md0 : active raid1 sdb1[1] sda1[0](F)`.
fn first(name: &str, rest: &str) -> Seen {
    let mut devices = BTreeMap::new();
    for word in rest.split_whitespace() {
        let Some((device, rest)) = word.split_once('[') else { continue };
        let usage = match rest.split_once(']').map(|(_, flags)| flags).unwrap_or_default() {
            flags if flags.contains("(F)") => Use::Failed,
            flags if flags.contains("(S)") => Use::Spare,
            _ => Use::Active,
        };
        devices.insert(format!("/dev/{device}"), usage);
    }
    Seen { name: format!("/dev/{name}"), devices, ..Seen::default() }
}

/// `1046528 blocks super 1.2 [2/1] [U_]` and `[==>..] recovery = 12.6% (132096/1046528) ...`.
fn below(seen: &mut Seen, line: &str) {
    for word in line.split_whitespace() {
        let inside = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
        if let Some((wanted, active)) = inside.and_then(|inside| inside.split_once('/'))
            && let (Ok(wanted), Ok(active)) = (wanted.parse(), active.parse())
        {
            (seen.wanted, seen.active) = (wanted, active);
        }
    }
    for action in ["recovery", "resync", "check", "repair", "reshape"] {
        let Some(at) = line.find(action) else { continue };
        let rest = line[at + action.len()..].trim_start().trim_start_matches('=').trim_start();
        let percent = rest.split('%').next().and_then(|number| number.trim().parse().ok());
        seen.process = Some(Process { action: action.to_owned(), percent: percent.unwrap_or_default() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_arrays_are_read() {
        let text = "Personalities : [raid1] [raid6]\nmd1 : active raid1 sdc[2](S) sdb1[1] sda1[0](F)\n      1046528 blocks super 1.2 [2/1] [_U]\n      [==>..................]  recovery = 12.6% (132096/1046528) finish=0.9min speed=16512K/sec\n\nmd0 : active raid0 sdd[1] sde[0]\n      2093056 blocks super 1.2 512k chunks\n\nunused devices: <none>\n";
        let all = of_mdstat(text);
        let [first, second] = &all[..] else { panic!("{all:?}") };
        assert_eq!((&*first.name, first.wanted, first.active, first.is_degraded()), ("/dev/md1", 2, 1, true));
        assert_eq!(first.devices["/dev/sda1"], Use::Failed);
        assert_eq!(first.devices["/dev/sdc"], Use::Spare);
        assert_eq!(first.process, Some(Process { action: "recovery".into(), percent: 12.6 }));
        assert_eq!((second.devices.len(), second.is_degraded()), (2, false));
    }

    #[test]
    fn nothing_that_stands_in_mdstat_is_trusted() {
        for text in
            ["", "x", " : ", "md0 : [", "md0 : a[\n [/] recovery", "md0 : \n resync = % \n check", " [1/2]"]
        {
            of_mdstat(text);
        }
    }

    #[test]
    fn an_array_of_a_server_is_read() {
        let report = serde_json::json!({"name": "data", "last_action": {"mismatch_cnt": 8}, "array": {
            "raid_devices": 3, "state": ["clean", "degraded"], "sync": {"action": "recover", "percent": 50.0},
            "devices": [
                {"path": "a", "state": "in-sync"}, {"path": "b", "state": "failed", "drive": {"model": "M", "serial": "S", "by_id": null}},
                {"path": "c", "state": "recovering"}, {"path": "d", "state": "spare"}]}});
        let seen = Seen::of_report(&serde_json::from_value(report).unwrap()).unwrap();
        assert_eq!((seen.wanted, seen.active, seen.mismatches), (3, 1, Some(8)));
        assert_eq!(seen.process.unwrap().action, "recovery");
        assert_eq!(seen.drives["b"], "M, S");
    }

    #[test]
    fn a_member_that_gets_what_it_lacks_is_there_and_one_that_was_replaced_has_not_failed() {
        let device =
            |member: &str, state: &str| serde_json::json!({"member": member, "path": member, "state": state});
        let failed = |number: u64, operation: &str| serde_json::json!({"number": number, "kind": "member-failed", "member": "a", "operation": operation});
        let devices = [device("0.0", "online"), device("0.1", "resilvering"), device("0.2", "offline")];
        let report = serde_json::json!({"name": "tank", "pool": {"state": ["online", "degraded"], "devices": devices},
            "events": [failed(1, "replacement"), failed(2, "command")]});
        let seen = Seen::of_report(&serde_json::from_value(report).unwrap()).unwrap();
        assert_eq!((&seen.devices["0.1"], seen.missing), (&Use::Recovering, vec!["0.2".to_owned()]));
        assert_eq!(seen.failures, [(2, "a".to_owned())]);
    }

    #[test]
    fn a_pool_is_not_degraded_while_a_device_takes_the_place_of_a_member_that_worked() {
        let of = |state: &str, last: &str| {
            let failed = |operation: &str| serde_json::json!({"kind": "member-failed", "role": 1, "operation": operation});
            let devices = serde_json::json!([{"member": "0.0", "state": "online"}, {"number": 1, "member": "0.1", "state": state}]);
            let report = serde_json::json!({"name": "tank", "pool": {"state": ["online", "degraded"], "devices": devices},
                "events": [failed("write"), failed(last)]});
            Seen::of_report(&serde_json::from_value(report).unwrap()).unwrap()
        };
        for state in ["failed", "resilvering"] {
            let seen = of(state, "replacement");
            assert!(!seen.is_degraded() && seen.missing.is_empty(), "{seen:?}");
            assert!(of(state, "command").is_degraded());
        }
        assert!(of("offline", "replacement").is_degraded(), "it was taken out later");
    }
}
