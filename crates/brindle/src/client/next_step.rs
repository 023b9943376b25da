//! The next step with an array that lacks something, with its command. The report comes over the control socket, so anything may be
//! missing from it.

use serde_json::Value;

/// The last line of the status of an array that is degraded; nothing of others. `flags` stand in each command that asks the server.
pub(crate) fn line(report: &Value, flags: &str) -> String {
    let array = &report["array"];
    let is = |word: &str| array["state"].as_array().into_iter().flatten().any(|state| *state == *word);
    if !is("degraded") && !is("broken") {
        return String::new();
    }
    let name = quoted(report["name"].as_str().unwrap_or_default());
    let (why, command) = if is("broken") {
        (
            "too many members are lost; stop it, and serve it again with all that can be found",
            format!("stop{flags} {name}"),
        )
    } else if is("read-only") {
        (
            "nothing is rebuilt while it is served read-only; stop it, and serve it to be written to",
            format!("stop{flags} {name}"),
        )
    } else {
        rebuild(array, flags, &name)
    };
    format!("  next: {why}: brindle {command}\n")
}

/// The step that makes a writable array whole again.
fn rebuild(array: &Value, flags: &str, name: &str) -> (&'static str, String) {
    let any = |states: &[&str]| {
        let devices = array["devices"].as_array().into_iter().flatten();
        devices
            .into_iter()
            .any(|device| device["state"].as_str().is_some_and(|state| states.contains(&state)))
    };
    let sync = &array["sync"];
    if sync["paused"] == true {
        return ("it is paused, and goes on with", format!("action{flags} {name} resume"));
    }
    if sync.is_object() {
        return ("wait for the end", format!("wait{flags} {name}"));
    }
    if any(&["recovering", "spare"]) {
        return ("a device waits to be rebuilt", format!("action{flags} {name} resume"));
    }
    let can_return = array["bitmap"].is_object() && array["metadata"] != "0.90";
    if can_return && any(&["failed", "stale", "faulty"]) {
        return (
            "take the members again that are well (or add other devices in the place of 'missing', without --re-add)",
            format!("add --re-add{flags} {name} missing"),
        );
    }
    ("add a device in the place of each member that is lost", format!("add{flags} {name} DEVICE"))
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@%+=,".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reported(array: &Value) -> String {
        let line = line(&json!({"name": "it's a", "array": array}), " --runtime-dir /r");
        line.rsplit(": ").next().unwrap_or_default().trim_end().to_owned()
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
