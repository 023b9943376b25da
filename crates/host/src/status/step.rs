//! The next step with an array or a pool that lacks something: `brindle status` and the console tell the same.

use super::{ArrayStatus, ExportStatus, PoolDevice, PoolFacts, PoolStatus, Report};

/// A step that helps, with its command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// More members are lost than the array can do without: it is stopped, and served again with all that can be found.
    Restart,
    /// Nothing is rebuilt in an array that is served read-only: it is stopped, and served to be written to.
    ServeWritable,
    /// Work that is paused goes on.
    Resume,
    /// Work is under way.
    Wait,
    /// A device waits to be rebuilt.
    Rebuild,
    /// Members that were away are taken again.
    ReAdd,
    /// A device comes in the place of each member that is lost.
    Add,
    /// The last check found what disagrees.
    Repair,
    /// A member in use, of this role, is on a drive that SMART calls failing: another device gets what it has, then takes its role.
    Replace(u16),
    /// A member of a pool that was taken out is brought back.
    PoolOnline(String),
    /// A member of a pool that is lost gets another device.
    PoolReplace(String),
    /// The same of a member of a pool.
    PoolReplaceFailing(String),
    /// A pool waits for members that were in use.
    PoolAttach,
    /// Blocks of a pool are lost: they are written anew, from a copy.
    PoolRestore,
    /// A pool lacks more than it can do without.
    PoolRestart,
}

impl NextStep {
    /// The step with an array that is degraded or broken; none with others.
    pub fn of_degraded(status: &ExportStatus) -> Option<Self> {
        let array = &status.array;
        let is = |word: &str| array.is(word);
        if !is("degraded") && !is("broken") {
            return None;
        }
        Some(match (is("broken"), is("read-only")) {
            (true, _) => Self::Restart,
            (false, true) => Self::ServeWritable,
            (false, false) => Self::rebuild(array),
        })
    }

    /// The step with anything that is served: also with what is paused, and with what a check found.
    pub fn of(report: &Report) -> Option<Self> {
        match report {
            Report::Array(status) => Self::of_degraded(status).or_else(|| Self::of_whole(status)),
            Report::Pool(status) => Self::of_pool(status),
            Report::Absent(_) | Report::Other(_) => None,
        }
    }

    fn of_whole(status: &ExportStatus) -> Option<Self> {
        match &status.array.sync {
            Some(sync) if sync.paused => return Some(Self::Resume),
            Some(_) => return Some(Self::Wait),
            None => {}
        }
        if status.array.is("read-only") {
            return None;
        }
        // Without redundancy a member has no second device.
        let can_replace = status.array.redundancy_left.is_some_and(|left| left > 0);
        let mut failing = status.array.devices.iter().filter(|device| device.failing.is_some());
        let role = failing.find_map(|device| device.role.filter(|_| device.state == "in-sync"));
        role.filter(|_| can_replace).map(Self::Replace).or_else(|| {
            let last = status.last_action.as_ref()?;
            // A repair writes what it finds.
            let disagrees = last.action == "check" && last.findings.mismatch_cnt > 0 && last.error.is_none();
            disagrees.then_some(Self::Repair)
        })
    }

    fn of_pool(status: &PoolStatus) -> Option<Self> {
        let pool: &PoolFacts = &status.pool;
        if pool.is("broken") {
            return Some(Self::PoolRestart);
        }
        if !status.waits_for.is_empty() {
            return Some(Self::PoolAttach);
        }
        let member = |word: &str| {
            let found = pool.devices.iter().find(|device| device.state == word);
            found.map(|device| device.member.clone())
        };
        let scan = pool.scan.as_ref().and_then(super::ScanStatus::sync);
        let lost = || member("failed").or_else(|| member("missing")).map(Self::PoolReplace);
        if pool.resilver.is_some() || pool.raising {
            return Some(Self::Wait);
        }
        member("offline").map(Self::PoolOnline).or_else(lost).or_else(|| match scan {
            Some(sync) if sync.paused => Some(Self::Resume),
            Some(_) => Some(Self::Wait),
            None => pool.is("damaged").then_some(Self::PoolRestore).or_else(|| Self::of_failing(pool)),
        })
    }

    fn of_failing(pool: &PoolFacts) -> Option<Self> {
        let is_failing = |device: &&PoolDevice| {
            device.failing.is_some() && device.state == "online" && device.replaced_by.is_none()
        };
        let failing = pool.devices.iter().find(is_failing)?;
        (!pool.is("read-only")).then(|| Self::PoolReplaceFailing(failing.member.clone()))
    }

    /// The step that makes a writable array whole again.
    fn rebuild(array: &ArrayStatus) -> Self {
        let any = |states: &[&str]| array.devices.iter().any(|device| states.contains(&&*device.state));
        match &array.sync {
            Some(sync) if sync.paused => Self::Resume,
            Some(_) => Self::Wait,
            None if any(&["recovering", "spare"]) => Self::Rebuild,
            None if array.can_return() && any(&["failed", "stale", "faulty"]) => Self::ReAdd,
            None => Self::Add,
        }
    }

    /// The reason, which stands before the command.
    pub fn why(&self) -> &'static str {
        match self {
            Self::Restart => {
                "too many members are lost; stop it, and serve it again with all that can be found"
            }
            Self::ServeWritable => {
                "nothing is rebuilt while it is served read-only; stop it, and serve it to be written to"
            }
            Self::Resume => "it is paused, and goes on with",
            Self::Wait => "wait for the end",
            Self::Rebuild => "a device waits to be rebuilt",
            Self::ReAdd => {
                "take the members again that are well (or add other devices in the place of 'missing', without --re-add)"
            }
            Self::Add => "add a device in the place of each member that is lost",
            Self::Repair => "the last check found sectors that disagree; write redundancy anew",
            Self::Replace(_) | Self::PoolReplaceFailing(_) => {
                "SMART calls the drive of a member failing; have another device take its place while it still answers"
            }
            Self::PoolOnline(_) => "a member was taken out; bring it back, and it gets what it lacks",
            Self::PoolReplace(_) => "a member is lost; give its place to another device",
            Self::PoolAttach => {
                "members that were in use are missing; connect them, or go on without them by degraded = true"
            }
            Self::PoolRestore => "blocks are lost; write them anew from a copy, these places are listed by",
            Self::PoolRestart => {
                "too many members are lost; stop it, and serve it again with all that can be found"
            }
        }
    }

    /// The command without the program's name. `flags` stand behind its words, each behind a blank; `name` is quoted for a shell, and so is
    /// `device`, which is another word for a device that is yet to be chosen.
    pub fn command(&self, flags: &str, name: &str, device: &str) -> String {
        match self {
            Self::Restart | Self::ServeWritable | Self::PoolRestart => format!("stop{flags} {name}"),
            Self::Resume | Self::Rebuild => format!("action{flags} {name} resume"),
            Self::Wait => format!("wait{flags} {name}"),
            Self::ReAdd => format!("add --re-add{flags} {name} missing"),
            Self::Add => format!("add{flags} {name} {device}"),
            Self::Repair => format!("action{flags} {name} repair"),
            Self::PoolOnline(member) => format!("pool online{flags} {name} {member}"),
            Self::Replace(role) => format!("replace{flags} --with {device} {name} {role}"),
            Self::PoolReplace(member) | Self::PoolReplaceFailing(member) => {
                format!("pool replace{flags} {name} {member} {device}")
            }
            Self::PoolAttach | Self::PoolRestore => format!("pool status{flags} {name}"),
        }
    }
}

impl ArrayStatus {
    /// Whether members that were away are taken again as what they were.
    pub fn can_return(&self) -> bool {
        self.bitmap.is_some() && self.facts.metadata != "0.90"
    }
}

/// A word as a shell takes it: in quotes, if it has anything in it that means something there.
pub fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn step(report: Value) -> Option<NextStep> {
        NextStep::of(&serde_json::from_value(report).unwrap())
    }

    #[test]
    fn each_state_of_a_pool_has_its_step() {
        let with = |state: &[&str], member: &str, more: Value| {
            let mut pool = json!({"state": state, "devices": [{"member": "0.0", "state": "online"}, {"member": "0.1", "state": member}]});
            more.as_object().unwrap().iter().for_each(|(name, value)| pool[name] = value.clone());
            step(json!({"name": "tank", "pool": pool}))
        };
        let none = || json!({});
        assert_eq!(with(&["online"], "online", none()), None);
        assert_eq!(
            with(&["online", "degraded"], "offline", none()),
            Some(NextStep::PoolOnline("0.1".into()))
        );
        for lost in ["failed", "missing"] {
            assert_eq!(
                with(&["online", "degraded"], lost, none()),
                Some(NextStep::PoolReplace("0.1".into()))
            );
        }
        assert_eq!(with(&["broken", "degraded"], "failed", none()), Some(NextStep::PoolRestart));
        let moves = json!({"resilver": {"position": 1, "total": 2, "speed": null, "left": null}});
        assert_eq!(with(&["online", "degraded"], "resilvering", moves), Some(NextStep::Wait));
        assert_eq!(with(&["online", "damaged"], "online", none()), Some(NextStep::PoolRestore));
        let waits = json!({"name": "tank", "pool": {"state": ["online", "degraded", "read-only"]}, "waits_for": ["0.1"]});
        assert_eq!(step(waits), Some(NextStep::PoolAttach));
    }

    #[test]
    fn a_whole_array_has_a_step_if_it_is_paused_or_disagrees() {
        let with = |sync: Value, last: Value| {
            step(json!({"name": "a", "array": {"state": ["clean"], "sync": sync}, "last_action": last}))
        };
        assert_eq!(with(Value::Null, Value::Null), None);
        assert_eq!(with(json!({"paused": true}), Value::Null), Some(NextStep::Resume));
        assert_eq!(with(json!({"paused": false}), Value::Null), Some(NextStep::Wait));
        let found = |count: u64| json!({"action": "check", "error": null, "mismatch_cnt": count});
        assert_eq!(with(Value::Null, found(8)), Some(NextStep::Repair));
        assert_eq!(with(Value::Null, found(0)), None);
        assert_eq!(with(Value::Null, json!({"action": "repair", "mismatch_cnt": 8})), None);
    }

    #[test]
    fn a_member_on_a_drive_that_fails_is_replaced_while_it_answers() {
        let array = |left: u16, more: Value| {
            let devices = json!([{"role": 0, "state": "in-sync"}, {"role": 1, "state": "in-sync", "failing": "SMART says that it fails"}]);
            let mut array = json!({"state": ["clean"], "redundancy_left": left, "devices": devices});
            more.as_object().unwrap().iter().for_each(|(name, value)| array[name] = value.clone());
            step(json!({"name": "a", "array": array}))
        };
        assert_eq!(array(1, json!({})), Some(NextStep::Replace(1)));
        assert_eq!(NextStep::Replace(1).command("", "a", "DEVICE"), "replace --with DEVICE a 1");
        assert_eq!(array(0, json!({})), None);
        assert_eq!(array(1, json!({"state": ["clean", "read-only"]})), None);
        assert_eq!(array(1, json!({"sync": {"action": "recover", "paused": false}})), Some(NextStep::Wait));
        let pool = |more: Value| {
            let mut device =
                json!({"member": "0.1", "state": "online", "failing": "its critical warning is 0x4"});
            more.as_object().unwrap().iter().for_each(|(name, value)| device[name] = value.clone());
            step(json!({"name": "tank", "pool": {"state": ["online"], "devices": [device]}}))
        };
        assert_eq!(pool(json!({})), Some(NextStep::PoolReplaceFailing("0.1".into())));
        assert_eq!(pool(json!({"replaced_by": "/dev/b"})), None);
    }

    #[test]
    fn a_shell_takes_words_as_they_are() {
        for (word, quoted) in [
            ("/dev/sda", "/dev/sda"),
            ("", "''"),
            ("my disk", "'my disk'"),
            ("it's", r"'it'\''s'"),
            ("$x", "'$x'"),
        ] {
            assert_eq!(shell(word), quoted);
        }
    }
}
