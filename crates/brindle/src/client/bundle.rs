//! `brindle report`: one file that says how a machine's arrays are, for whoever is asked for help. It holds no data of arrays and no
//! secret, and neither clients nor serial numbers unless these are asked for.

use std::path::Path;

use brindle_host::Volumes;
use serde::Serialize;
use serde_json::{Value, json};

use crate::base::failure::Failure;
use crate::base::{report, runtime};
use crate::client::ask;
use crate::client::control::Response;
use crate::devices::scan::{Findable, scan};
use crate::flags::cli::Bundle;

/// Lines of a server's log that are kept, and bytes of them at most.
const LOG_LINES: usize = 200;
const LOG_BYTES: usize = 64 << 10;

/// Fields of reports that say who uses an array.
const CLIENTS: [&str; 4] = ["clients", "initiators", "iscsi", "nbd"];
/// Names of devices by their identity.
const BY_ID: &str = "/dev/disk/by-id/";
/// Fields that tell one drive from all others.
const SERIALS: [&str; 2] = ["serial", "by_id"];

/// Everything of a report.
#[derive(Serialize)]
struct Everything {
    /// Seconds since 1970.
    at: u64,
    version: &'static str,
    kernel: String,
    machine: String,
    processors: usize,
    memory: Option<String>,
    mdstat: Option<String>,
    /// Answers of servers, by name.
    servers: Vec<Value>,
    /// Arrays and pools on devices.
    found: Vec<Value>,
    silent: Vec<String>,
    /// The end of each server's log.
    logs: Vec<Value>,
}

/// `brindle report`.
pub(crate) fn bundle(args: &Bundle) -> Result<(), Failure> {
    let folder = runtime::folder(args.runtime.folder())?;
    let scanned = scan(&args.places);
    let mut servers: Vec<Value> = ask::status_of_all(&folder).into_iter().map(server).collect();
    let mut hidden: Vec<&str> = if args.clients { Vec::new() } else { CLIENTS.to_vec() };
    if !args.serials {
        hidden.extend(SERIALS);
    }
    servers.iter_mut().for_each(|server| hide(server, &hidden));
    // Lines of logs name clients and drives.
    let logs = if args.clients && args.serials { runtime::logs(&folder) } else { Vec::new() };
    let name = rustix::system::uname();
    let all = Everything {
        at: crate::devices::world::seconds_since_1970(),
        version: env!("CARGO_PKG_VERSION"),
        kernel: name.release().to_string_lossy().into_owned(),
        machine: name.machine().to_string_lossy().into_owned(),
        processors: std::thread::available_parallelism().map_or(1, Into::into),
        memory: first_line("/proc/meminfo"),
        mdstat: std::fs::read_to_string("/proc/mdstat").ok(),
        found: scanned.all.iter().map(found).collect(),
        silent: scanned.silent.iter().map(|path| path.display().to_string()).collect(),
        logs: logs.iter().map(|path| log(path)).collect(),
        servers,
    };
    let mut all = serde_json::to_value(all).map_err(|error| Failure::output("the report", error.into()))?;
    if !args.serials {
        shorten(&mut all);
    }
    if args.output == Path::new("-") {
        return report::print_json(&all);
    }
    let text = serde_json::to_string_pretty(&all)
        .map_err(|error| Failure::output(args.output.display(), error.into()))?;
    std::fs::write(&args.output, text + "\n")
        .map_err(|source| Failure::output(args.output.display(), source))?;
    let without = match (args.clients, args.serials) {
        (true, true) => "",
        (false, true) => "; clients and logs are left out",
        (true, false) => "; serial numbers and logs are left out",
        (false, false) => "; clients, serial numbers and logs are left out",
    };
    report::print(&format!("{}: read it before you give it away{without}\n", args.output.display()))
}

fn server((name, answer): (String, Result<Response<Volumes>, Failure>)) -> Value {
    match answer {
        Ok(Response::Report(reported)) => json!({"name": name, "status": reported}),
        Ok(Response::Stale) => json!({"name": name, "error": "its socket is there, and nobody answers"}),
        Err(why) => json!({"name": name, "error": why.to_string()}),
    }
}

fn found(found: &Findable) -> Value {
    json!({
        "name": found.full_name,
        "uuid": found.uuid,
        "metadata": found.metadata,
        "level": found.level,
        "members": found.members,
        "missing": found.missing,
        "spares": found.spares,
        "problem": found.problem,
    })
}

/// Takes fields away, wherever they stand.
fn hide(value: &mut Value, fields: &[&str]) {
    match value {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                match fields.contains(&&**key) {
                    true if !value.is_null() => *value = json!("left out"),
                    _ => hide(value, fields),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(|value| hide(value, fields)),
        _ => {}
    }
}

/// Names devices as the kernel does: names by identity hold serial numbers.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.starts_with(BY_ID) => {
            let real = std::fs::canonicalize(&*text).ok();
            *text = real.map_or_else(|| format!("{BY_ID}left-out"), |real| real.display().to_string());
        }
        Value::Object(object) => object.values_mut().for_each(shorten),
        Value::Array(all) => all.iter_mut().for_each(shorten),
        _ => {}
    }
}

/// The last lines of a log.
fn log(path: &Path) -> Value {
    let text = std::fs::read(path).unwrap_or_default();
    let end = String::from_utf8_lossy(&text[text.len().saturating_sub(LOG_BYTES)..]).into_owned();
    let lines: Vec<&str> = end.lines().collect();
    let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
    json!({"file": path.display().to_string(), "lines": last})
}

fn first_line(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()?.lines().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_hold_serial_numbers_are_the_kernels() {
        let mut value = json!({"a": [{"path": "/dev/disk/by-id/ata-NO_SUCH_S3R1AL"}, "/dev/sda"]});
        shorten(&mut value);
        assert_eq!(value, json!({"a": [{"path": "/dev/disk/by-id/left-out"}, "/dev/sda"]}));
    }

    #[test]
    fn fields_are_hidden_wherever_they_stand() {
        let mut value = json!({"a": [{"serial": "S1", "model": "M"}], "serial": null, "clients": [1]});
        hide(&mut value, &["serial", "clients"]);
        assert_eq!(
            value,
            json!({"a": [{"serial": "left out", "model": "M"}], "serial": null, "clients": "left out"})
        );
    }
}
