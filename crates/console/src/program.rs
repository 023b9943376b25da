//! Reports that the program makes, so that answers are those of `brindle plan --json` and `brindle detail --json`. It is told numbers and
//! words, and members by the paths that servers tell.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Time that a report may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longest value of a flag.
const LONGEST: usize = 64;

/// The flags that a page may give: none of them names a file.
const FLAGS: [&str; 11] =
    ["drives", "drive", "size", "iops", "mb-s", "price", "min-capacity", "levels", "sort", "limit", "years"];

/// States of devices that have a superblock to be read.
const READ: [&str; 5] = ["in-sync", "recovering", "spare", "journal", "replacement"];

/// One report at a time.
static PLACE: Semaphore = Semaphore::const_new(1);

/// The reason why there is no such report.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unreported {
    /// The question is none.
    Asked(String),
    /// It is not made.
    Made(String),
}

/// The flags of a query such as `drives=4&size=12TB`.
///
/// # Errors
/// Why it is none, for people.
pub(crate) fn flags(query: &str) -> Result<Vec<String>, String> {
    let mut all: Vec<String> = Vec::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        if !FLAGS.contains(&name) {
            return Err(format!(
                "'{}' is not planned by: it is one of {}",
                name.escape_debug(),
                FLAGS.join(", ")
            ));
        }
        let value = value.replace("%2C", ",").replace("%2F", "/");
        // A model is one of the program's own: anything else would be the name of a file.
        let may_be_path = name != "drive";
        let is_plain =
            |sign: u8| sign.is_ascii_alphanumeric() || b",.-".contains(&sign) || sign == b'/' && may_be_path;
        if value.is_empty() || value.len() > LONGEST || !value.bytes().all(is_plain) {
            return Err(format!("'{name}' has letters, digits and ,.-/ as value, at most {LONGEST} of them"));
        }
        let flag = format!("--{name}");
        if all.iter().any(|other| other.starts_with(&format!("{flag}="))) {
            return Err(format!("'{name}' stands there twice"));
        }
        all.push(format!("{flag}={value}"));
    }
    Ok(all)
}

/// The plan, as the program prints it.
pub(crate) async fn plan(program: &Path, query: &str) -> Result<Vec<u8>, Unreported> {
    let flags = flags(query).map_err(Unreported::Asked)?;
    let plan = run(program, "plan", flags).await?;
    plan.map_err(Unreported::Asked)
}

/// All that the members of an array have on record, as the program prints it. Only they have it: the console must be able to read them.
pub(crate) async fn detail(program: &Path, report: &Value) -> Result<Vec<u8>, Unreported> {
    let members = members(report).map_err(Unreported::Asked)?;
    let detail = run(program, "detail", members).await?;
    detail.map_err(|why| {
        let way_out = "as the unit's never may: `brindle detail` in a shell tells";
        Unreported::Made(format!("this console can't read the members, {way_out}: {why}"))
    })
}

/// The members of a served array whose superblocks count, by absolute paths.
fn members(report: &Value) -> Result<Vec<String>, String> {
    let Some(devices) = report["array"]["devices"].as_array() else {
        return Err("only arrays of md have more on record than their status tells".to_owned());
    };
    let folder = Path::new(report["folder"].as_str().unwrap_or("/"));
    let is_read = |device: &&Value| READ.iter().any(|state| device["state"] == *state);
    let path = |device: &Value| Some(folder.join(device["path"].as_str()?).to_str()?.to_owned());
    let all: Vec<String> = devices.iter().filter(is_read).filter_map(path).collect();
    if all.is_empty() || all.iter().any(|path| !path.starts_with('/')) {
        return Err("its server names no members that can be read".to_owned());
    }
    Ok(all)
}

/// Has the program report; an error of its own if it refuses, in its words.
async fn run(program: &Path, word: &str, more: Vec<String>) -> Result<Result<Vec<u8>, String>, Unreported> {
    let failed = |why: String| Unreported::Made(format!("no {word} can be made: {why}"));
    let _place = PLACE.acquire().await.map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new(program);
    command.args([word, "--json"]).args(more).current_dir("/").stdin(Stdio::null()).kill_on_drop(true);
    let ran = timeout(PATIENCE, command.output()).await;
    let ran = ran.map_err(|_| failed(format!("it takes longer than {} s", PATIENCE.as_secs())))?;
    let ran = ran.map_err(|error| failed(format!("{}: {error}", program.display())))?;
    let is_told = ran.status.success() || (ran.status.code() == Some(1) && !ran.stdout.is_empty());
    Ok(if is_told { Ok(ran.stdout) } else { Err(String::from_utf8_lossy(&ran.stderr).trim().to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_told_numbers_and_words_alone() {
        let told = flags("drives=4-8&size=12TB&iops=100%2F200&drive=hdd-7200").unwrap();
        assert_eq!(told, ["--drives=4-8", "--size=12TB", "--iops=100/200", "--drive=hdd-7200"]);
        assert_eq!(flags("").unwrap(), [""; 0]);
        for wrong in [
            "output=/etc/x",
            "workload=x",
            "drive=/etc/passwd",
            "drive=%2Fetc%2Fpasswd",
            "drives",
            "drives=4&drives=5",
            "drives=4;x",
            "size=%00",
            &format!("size={}", "1".repeat(65)),
            "--json=1",
        ] {
            assert!(flags(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn members_are_named_by_absolute_paths_or_not_at_all() {
        let of = |folder: Value, devices: Value| {
            members(&serde_json::json!({"folder": folder, "array": {"devices": devices}}))
        };
        let devices = serde_json::json!([
            {"path": "--force", "state": "in-sync"},
            {"path": "/dev/b", "state": "spare"},
            {"path": "/dev/c", "state": "failed"},
            {"state": "in-sync"},
        ]);
        assert_eq!(of("/srv".into(), devices.clone()).unwrap(), ["/srv/--force", "/dev/b"]);
        assert!(of("srv".into(), devices).is_err());
        assert!(of(Value::Null, serde_json::json!([])).is_err());
        assert!(members(&serde_json::json!({"pool": {}})).is_err());
    }
}
