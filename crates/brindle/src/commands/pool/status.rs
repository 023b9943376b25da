//! `brindle pool status`: in zpool's shape what is wrong, what to do next, and each member with its errors.

use brindle_host::status::{
    AbsentStatus, DamagedStatus, HolderStatus, PoolDevice, PoolFacts, PoolStatus, ScanState, ScanStatus,
};

use super::tree;
use crate::base::sync::bytes_per_second;
use crate::base::text::{shell, shown};
use crate::base::units::{Bytes, Moment};
use crate::client::status::text_of_events;

/// Damaged ranges that are listed.
const RANGES: usize = 1024;

/// A pool that is to be shown.
pub(super) struct Seen<'a> {
    pub(super) name: &'a str,
    pub(super) pool: &'a PoolFacts,
    /// Devices that were named and are done without, and why.
    pub(super) left_out: Vec<&'a str>,
    /// The server's report, of one that is served.
    pub(super) served: Option<&'a PoolStatus>,
}

/// The fault of a pool, and the next step.
struct Fault {
    status: String,
    action: String,
}

impl Fault {
    fn new(status: impl Into<String>, action: impl Into<String>) -> Self {
        Self { status: status.into(), action: action.into() }
    }
}

/// The state of a pool in zpool's words.
pub(super) fn state(pool: &PoolFacts) -> &'static str {
    if pool.is("broken") {
        "SUSPENDED"
    } else if pool.is("degraded") || pool.is("thin") {
        "DEGRADED"
    } else {
        "ONLINE"
    }
}

impl Seen<'_> {
    /// Whether something is wrong with it.
    pub(super) fn is_faulty(&self) -> bool {
        state(self.pool) != "ONLINE" || self.fault().is_some()
    }

    /// The worst fault.
    fn fault(&self) -> Option<Fault> {
        let (pool, name) = (self.pool, shell(self.name));
        let members = pool.devices.iter().filter(|device| !device.is_spare());
        let of = |state: &str| members.clone().find(|device| device.state == state);
        let waits_for = self.served.map(|served| &served.waits_for[..]).unwrap_or_default();
        if pool.is("broken") {
            return Some(Fault::new(
                "more members are lost than the pool can do without: requests are refused",
                format!("brindle stop {name}; then serve it with all members that can be found"),
            ));
        }
        if !waits_for.is_empty() {
            return Some(Fault::new(
                format!(
                    "members that were in use are missing: {}; it is read-only until they are here",
                    waits_for.join(", ")
                ),
                "bring them back; or set degraded = true below [[pools]] in the settings, and brindle reload",
            ));
        }
        if pool.is("damaged") {
            return Some(Fault::new(
                "blocks of volumes are lost: no member has them any more",
                format!(
                    "brindle pool status -v {name} lists them; write them anew from a copy, which makes these places whole"
                ),
            ));
        }
        if let Some(device) = of("failed") {
            let member = device.path.as_deref().unwrap_or(&device.member);
            return Some(Fault::new(
                format!("a member failed: {}; its place is done without", shown(member)),
                replaces(&name, member),
            ));
        }
        if let Some(device) = of("missing") {
            return Some(Fault::new(
                format!("a member is missing, {}: its place is done without", device.member),
                replaces(&name, &device.member),
            ));
        }
        if let Some(device) = of("offline") {
            let member = device.path.as_deref().unwrap_or(&device.member);
            return Some(Fault::new(
                format!("a member is offline: {}; its place is done without", shown(member)),
                format!("brindle pool online {name} {}", shell(member)),
            ));
        }
        self.smaller_fault()
    }

    /// The worst fault of a pool whose members are all there.
    fn smaller_fault(&self) -> Option<Fault> {
        let (pool, name) = (self.pool, shell(self.name));
        let wait = || format!("brindle wait {name}");
        let called =
            |device: &PoolDevice| shown(device.path.as_deref().unwrap_or(&device.member)).into_owned();
        if let Some(device) = pool.devices.iter().find(|device| device.state == "resilvering") {
            return Some(Fault::new(format!("a member gets what it lacks: {}", called(device)), wait()));
        }
        let replaced = |device: &PoolDevice| Some((called(device), device.replaced_by.clone()?));
        if let Some((old, new)) = pool.devices.iter().find_map(replaced) {
            return Some(Fault::new(
                format!(
                    "a member is copied to the device that replaces it, and is in use until then: {old}, by {}",
                    shown(&new)
                ),
                wait(),
            ));
        }
        let lost_spare = |device: &&PoolDevice| device.is_spare() && device.state != "spare";
        if let Some(spare) = pool.devices.iter().find(lost_spare) {
            let member = &spare.member;
            return Some(Fault::new(
                format!("a spare is missing: {}", called(spare)),
                format!("serve {name} with it, or brindle pool detach {name} {member} and add another"),
            ));
        }
        if !self.left_out.is_empty() {
            return Some(Fault::new(
                self.left_out.join("; "),
                format!("brindle pool status {name} once these devices are well"),
            ));
        }
        if pool.thin > 0 {
            let thin = Bytes(pool.thin);
            let action = if pool.raising || pool.resilver.is_some() {
                wait()
            } else {
                "none: it is raised where room is".to_owned()
            };
            return Some(Fault::new(
                format!("{thin} have less redundancy than their vdev is to give"),
                action,
            ));
        }
        let wrong = pool.devices.iter().filter(|device| device.wrong > 0 || device.read_errors > 0);
        let wrong: Vec<&str> = wrong.map(|device| device.path.as_deref().unwrap_or(&device.member)).collect();
        if !wrong.is_empty() {
            return Some(Fault::new(
                format!(
                    "members gave blocks that were wrong, or could not read them: {}; no data is lost",
                    shown(&wrong.join(", "))
                ),
                "replace a member whose counts go on growing",
            ));
        }
        None
    }

    /// All that is told of it.
    pub(super) fn text(&self, verbose: bool) -> String {
        let (pool, name, state) = (self.pool, self.name, state(self.pool));
        let mut text = format!("  pool: {}\n state: {state}\n", shown(name));
        // One that is not served is only looked at.
        if pool.is("read-only") && self.served.is_some() {
            text.push_str("        it is for reading alone\n");
        }
        if let Some(Fault { status, action }) = self.fault() {
            text.push_str(&format!("status: {status}\naction: {action}\n"));
        }
        if let Some(seconds) = self.served.and_then(|served| served.stale_for) {
            text.push_str(&format!(
                "        the server's thread does not answer: this is as it was {seconds:.1} s ago\n"
            ));
        }
        text.push_str(&format!("  scan: {}\n", scan(pool.scan.as_ref())));
        text.push_str("config:\n\n");
        text.push_str(&tree::text(&tree::rows(name, state, pool), true));
        text.push('\n');
        text.push_str(&errors(pool, verbose));
        if verbose {
            text.push_str(&self.more());
        }
        text
    }

    /// All that only people ask for who look into it.
    fn more(&self) -> String {
        let pool = self.pool;
        let [capacity, sold, stored] = [pool.capacity, pool.sold, pool.stored].map(Bytes);
        let mut text = format!("  room: {capacity} to be sold, {sold} sold, {stored} stored\n");
        if let Some(each) = written_for_each(pool) {
            text.push_str(&format!("        {each:.2} bytes written to members for each of a client\n"));
        }
        text.push_str(&match &pool.host {
            Some(HolderStatus { id, host_name }) => format!("  host: {} ({id})\n", shown(host_name)),
            None => "  host: none, it is exported\n".to_owned(),
        });
        let Some(served) = self.served else { return text };
        let (at, pid) = (served.doors.nbd.join(", "), served.pid);
        text.push_str(&format!("served: {at} (pid {pid}), {} connections\n", served.connections));
        text + &text_of_events(&served.events)
    }
}

/// Bytes written to members for each that clients wrote since it was opened.
pub(super) fn written_for_each(pool: &PoolFacts) -> Option<f64> {
    let written = &pool.written;
    let all = written.client + written.moved + written.summaries + written.pages + written.parity;
    (written.client > 0).then(|| all as f64 / written.client as f64)
}

/// The commands for a member that is out of use, by order or not.
fn replaces(pool: &str, member: &str) -> String {
    let member = shell(member);
    format!(
        "brindle pool replace {pool} {member} NEW; or brindle pool online {pool} {member}, if it is well again"
    )
}

fn scan(scan: Option<&ScanStatus>) -> String {
    let Some(scan) = scan else { return "none requested".to_owned() };
    let word = scan.kind();
    match scan.state() {
        ScanState::Running { done, total, speed, eta, paused, .. } => {
            let percent = *done as f64 * 100.0 / (*total).max(1) as f64;
            let speed = speed.map(|speed| format!(", {}", bytes_per_second(speed as f64)));
            let left =
                eta.map(|left| format!(", {}:{:02}:{:02} to go", left / 3600, left / 60 % 60, left % 60));
            format!(
                "{word} {}\n        {} of {}, {percent:.2}% done{}{}",
                if *paused { "paused" } else { "in progress" },
                Bytes(*done),
                Bytes(*total),
                speed.unwrap_or_default(),
                left.unwrap_or_default()
            )
        }
        ScanState::Finished { at, stopped: Some(why), .. } => {
            format!("{word} ended early on {}: {}", Moment(*at), shown(why))
        }
        ScanState::Finished { at, errors, healed, unverified, .. } => {
            let left_out = match unverified {
                0 => String::new(),
                blocks => format!(", {blocks} blocks not looked at"),
            };
            format!("{word} repaired {healed} blocks with {errors} errors on {}{left_out}", Moment(*at))
        }
    }
}

fn errors(pool: &PoolFacts, verbose: bool) -> String {
    let ranges = pool.damaged.len();
    if ranges == 0 && pool.damaged_beyond == 0 {
        return match &pool.scan {
            Some(scan) if scan.says_whole() => "errors: No known data errors\n".to_owned(),
            Some(_) => "errors: none known\n".to_owned(),
            None => "errors: none known; no scrub has run\n".to_owned(),
        };
    }
    let beyond = match pool.damaged_beyond {
        0 => String::new(),
        beyond => format!(", and {beyond} blocks that are not listed"),
    };
    if !verbose {
        return format!("errors: {ranges} ranges of volumes are lost{beyond}; -v lists them\n");
    }
    let mut text = format!("errors: {ranges} ranges of volumes are lost{beyond}:\n\n");
    for DamagedStatus { volume, offset, length } in pool.damaged.iter().take(RANGES) {
        text.push_str(&format!("        {}: {length} bytes from byte {offset} on\n", shown(volume)));
    }
    text.push('\n');
    text
}

/// A pool that is not served, though settings mean it.
pub(super) fn absent(status: &AbsentStatus) -> String {
    let mut text = format!(
        "  pool: {}\n state: UNAVAIL\nstatus: it is not served: {}\n",
        shown(&status.name),
        shown(&status.not_served)
    );
    if let Some(next) = &status.next {
        text.push_str(&format!("action: {}\n", shown(next)));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pool(facts: Value) -> PoolFacts {
        serde_json::from_value(facts).unwrap()
    }

    fn device(member: &str, state: &str, wrong: u64) -> Value {
        json!({"member": member, "kind": "raidz1", "path": format!("/dev/{member}"), "state": state, "wrong": wrong,
            "failed_reads": 1, "failed_writes": 2})
    }

    fn seen(pool: &PoolFacts) -> Seen<'_> {
        Seen { name: "tank", pool, left_out: Vec::new(), served: None }
    }

    #[test]
    fn a_pool_is_shown_in_zpools_shape() {
        let devices =
            json!([device("0.0", "online", 0), device("0.1", "failed", 5), device("1.0", "online", 0)]);
        let degraded = pool(json!({"state": ["online", "degraded"], "devices": devices}));
        let text = seen(&degraded).text(false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "  pool: tank",
                " state: DEGRADED",
                "status: a member failed: /dev/0.1; its place is done without",
                "action: brindle pool replace tank /dev/0.1 NEW; or brindle pool online tank /dev/0.1, if it is well again",
                "  scan: none requested",
                "config:",
                "",
                "        NAME          STATE     READ WRITE CKSUM",
                "        tank          DEGRADED     0     0     0",
                "          raidz1-0    DEGRADED     0     0     0",
                "            /dev/0.0  ONLINE       1     2     0",
                "            /dev/0.1  FAULTED      1     2     4",
                "          raidz1-1    ONLINE       0     0     0",
                "            /dev/1.0  ONLINE       1     2     0",
                "",
                "errors: none known; no scrub has run",
            ]
        );
        assert!(seen(&degraded).is_faulty());
    }

    #[test]
    fn no_error_is_known_only_if_a_scrub_says_so() {
        let of = |scan: Value| seen(&pool(json!({"state": ["online"], "scan": scan}))).text(false);
        let finished = |scan: &str, errors: u64, healed: u64, unverified: u64, stopped: Option<&str>| {
            json!({"scan": scan, "state": "finished", "action": "repair", "began": 0, "at": 0, "errors": errors, "lost": 0,
                "healed": healed, "unverified": unverified, "stopped": stopped})
        };
        let running = json!({"scan": "scrub", "state": "running", "action": "repair", "done": 1024, "total": 2048,
            "paused": false, "speed": 4096, "eta": 61});
        let whole = of(finished("scrub", 0, 3, 0, None));
        assert!(whole.contains("errors: No known data errors"), "{whole}");
        assert!(
            whole.contains("  scan: scrub repaired 3 blocks with 0 errors on 1970-01-01 00:00:00 UTC\n"),
            "{whole}"
        );
        for scan in [
            Value::Null,
            finished("scrub", 1, 0, 0, None),
            finished("scrub", 0, 0, 7, None),
            finished("scrub", 0, 0, 0, Some("stopped")),
            finished("resilver", 0, 9, 0, None),
            running.clone(),
        ] {
            let text = of(scan);
            assert!(!text.contains("No known data errors") && text.contains("errors: none known"), "{text}");
        }
        let runs = of(running);
        assert!(runs.contains("1 KiB of 2 KiB, 50.00% done, 4.0 KiB/s, 0:01:01 to go"), "{runs}");
    }

    #[test]
    fn each_fault_has_its_next_command() {
        let of = |facts: Value| {
            let pool = pool(facts);
            let fault = seen(&pool).fault();
            fault.map(|fault| fault.action)
        };
        let with = |state: &str| {
            of(json!({"state": ["online"], "devices": [device("0.0", "online", 0), device("0.1", state, 0)]}))
        };
        assert_eq!(of(json!({"state": ["online"], "devices": [{"state": "online"}]})), None);
        assert!(with("failed").unwrap().starts_with("brindle pool replace tank /dev/0.1 NEW"));
        assert!(with("missing").unwrap().starts_with("brindle pool replace tank 0.1 NEW"));
        assert_eq!(with("offline").unwrap(), "brindle pool online tank /dev/0.1");
        assert_eq!(with("resilvering").unwrap(), "brindle wait tank");
        let spare = |state: &str| json!({"member": "3", "kind": "spare", "state": state});
        let spared = |state: &str| of(json!({"state": ["online"], "devices": [spare(state)]}));
        assert_eq!(spared("spare"), None);
        assert!(spared("missing").unwrap().contains("brindle pool detach tank 3"));
        let copied = json!({"state": "online", "path": "a", "replaced_by": "b"});
        assert_eq!(of(json!({"state": ["online"], "devices": [copied]})).unwrap(), "brindle wait tank");
        let thin = json!({"state": ["online", "thin"], "thin": 1, "resilver": {"position": 0}});
        assert_eq!(of(thin).unwrap(), "brindle wait tank");
        assert!(of(json!({"state": ["broken"]})).unwrap().starts_with("brindle stop tank"));
        let lost = of(json!({"state": ["online", "damaged"]})).unwrap();
        assert!(lost.starts_with("brindle pool status -v tank"));
        assert_eq!(
            of(json!({"state": ["online"], "thin": 1, "raising": true})).unwrap(),
            "brindle wait tank"
        );
    }
}
