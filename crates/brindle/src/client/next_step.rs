//! The next step with an array that lacks something, with its command.

use std::path::Path;

use brindle_host::status::{NextStep, Report};

use crate::base::text::shell;

/// The last line of the status of an array that is degraded; nothing of others. `flags` stand in each command that asks the server.
pub(crate) fn line(report: &Report, flags: &str) -> String {
    let step = report.array().and_then(|status| Some((NextStep::of_degraded(status)?, shell(&status.name))));
    let Some((step, name)) = step else { return String::new() };
    format!("  next: {}: brindle {}\n", step.why(), step.command(flags, &name, "DEVICE"))
}

/// The step by which a served array or pool gets a device of its own back that it does without; nothing if it uses the device. `is_it` knows
/// the device by the name that the report has for it, and `restart` has all served anew.
pub(crate) fn back(
    report: &Report,
    (flags, restart): (&str, &str),
    device: &str,
    is_it: impl Fn(&str) -> bool,
) -> Option<String> {
    const IN_USE: [&str; 5] = ["in-sync", "recovering", "replacement", "spare", "journal"];
    match report {
        Report::Pool(status) => {
            let pool = &status.pool;
            let mut used = pool
                .devices
                .iter()
                .filter(|device| ["online", "resilvering", "spare"].contains(&&*device.state));
            if used.any(|device| device.path.as_deref().is_some_and(&is_it)) {
                return None;
            }
            // One that can't be written to takes members when it is opened.
            if pool.is("read-only") {
                return Some(restart.to_owned());
            }
            // The device says itself which member it is.
            Some(format!("brindle pool online{flags} {} {}", shell(&status.name), shell(device)))
        }
        Report::Array(status) => {
            let array = &status.array;
            let mut used = array.devices.iter().filter(|device| IN_USE.contains(&&*device.state));
            if used.any(|device| is_it(&device.path)) {
                return None;
            }
            // So does an array that can't be written to.
            if array.is("read-only") {
                return Some(restart.to_owned());
            }
            let name = shell(&status.name);
            let re_add = if array.can_return() { " --re-add" } else { "" };
            Some(format!("brindle add{re_add}{flags} {name} {}", shell(device)))
        }
        Report::Absent(_) | Report::Other(_) => None,
    }
}

/// The flag for commands that ask the servers of this runtime folder, behind a space; empty without a folder.
pub(crate) fn runtime_flag(folder: Option<&Path>) -> String {
    folder.map_or_else(String::new, |folder| format!(" --runtime-dir {}", shell(&folder.to_string_lossy())))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(report: Value) -> Report {
        serde_json::from_value(report).unwrap()
    }

    fn reported(array: &Value) -> String {
        let line = line(&read(json!({"name": "it's a", "array": array})), " --runtime-dir /r");
        line.rsplit(": ").next().unwrap_or_default().trim_end().to_owned()
    }

    #[test]
    fn a_device_in_use_has_no_next_step_and_one_that_is_back_has_its_command() {
        let of = |state: &str, bitmap: Value| {
            let devices = json!([{"path": "/dev/a", "state": "in-sync"}, {"path": "/dev/b", "state": state}]);
            let array = json!({"state": ["active"], "metadata": "1.2", "bitmap": bitmap, "devices": devices});
            back(&read(json!({"name": "data", "array": array})), ("", "restart"), "/dev/b", |path| {
                path == "/dev/b"
            })
        };
        for state in ["in-sync", "spare", "recovering", "journal"] {
            assert_eq!(of(state, json!({})), None, "{state}");
        }
        for state in ["failed", "faulty", "stale"] {
            assert_eq!(of(state, json!({})).as_deref(), Some("brindle add --re-add data /dev/b"), "{state}");
        }
        assert_eq!(of("failed", Value::Null).as_deref(), Some("brindle add data /dev/b"));
        let pool = |state: &str, access: &str| {
            let devices = json!([{"path": "/dev/b", "state": state}, {"path": null, "state": "missing"}]);
            let report = read(json!({"name": "tank", "pool": {"state": [access], "devices": devices}}));
            back(&report, ("", "restart"), "/dev/b", |path| path == "/dev/b")
        };
        for state in ["online", "resilvering"] {
            assert_eq!(pool(state, "online"), None, "{state}");
        }
        assert_eq!(pool("failed", "online").as_deref(), Some("brindle pool online tank /dev/b"));
        assert_eq!(pool("failed", "read-only").as_deref(), Some("restart"));
    }

    #[test]
    fn each_state_of_a_degraded_array_has_its_command() {
        assert_eq!(reported(&json!({"state": ["clean"], "devices": [{"state": "failed"}]})), "");
        let with = |more: &Value| {
            let mut array =
                json!({"state": ["active", "degraded"], "metadata": "1.2", "bitmap": null, "sync": null});
            more.as_object().unwrap().iter().for_each(|(name, value)| array[name] = value.clone());
            reported(&array)
        };
        let flags = "--runtime-dir /r 'it'\\''s a'";
        let failed = json!([{"state": "in-sync"}, {"state": "failed"}]);
        assert_eq!(with(&json!({"devices": failed})), format!("brindle add {flags} DEVICE"));
        let bitmap = json!({"devices": failed, "bitmap": {}});
        assert_eq!(with(&bitmap), format!("brindle add --re-add {flags} missing"));
        let old = json!({"devices": failed, "bitmap": {}, "metadata": "0.90"});
        assert_eq!(with(&old), format!("brindle add {flags} DEVICE"));
        assert_eq!(with(&json!({"devices": [{"state": "spare"}]})), format!("brindle action {flags} resume"));
        assert_eq!(with(&json!({"sync": {"paused": false}})), format!("brindle wait {flags}"));
        assert_eq!(with(&json!({"sync": {"paused": true}})), format!("brindle action {flags} resume"));
        assert_eq!(
            with(&json!({"state": ["clean", "degraded", "read-only"]})),
            format!("brindle stop {flags}")
        );
        assert_eq!(with(&json!({"state": ["broken", "degraded"]})), format!("brindle stop {flags}"));
    }
}
