//! The lines that tell where arrays and pools are served, and what becomes of them.

use std::path::Path;
use std::rc::Rc;

use brindle_host::{Listener, News, Service};
use brindle_volume::Volume;
use serde_json::json;

use super::detached::Detached;
use crate::base::failure::Failure;
use crate::base::{log, report};

/// Tells people and programs that the exports answer.
pub(super) fn announce(
    (folder, json): (Option<&Path>, bool),
    service: &Service,
    scrapes: &[String],
    detached: Option<&Detached>,
) -> Result<(), Failure> {
    let (mut text, arrays) = (String::new(), service.arrays());
    for array in &arrays {
        let (name, addresses) = (array.name(), array.addresses());
        if json {
            let mut serving = json!({"event": "serving", "name": name, "nbd": addresses, "iscsi": array.targets(), "pid": std::process::id()});
            if let Some(detached) = &detached {
                serving["log"] = json!(detached.log());
            }
            text.push_str(&format!("{serving}\n"));
            continue;
        }
        let state = if array.array().limits().read_only { ", read-only" } else { "" };
        text.extend(
            addresses.iter().chain(array.targets()).map(|at| format!("{name} serves on {at}{state}\n")),
        );
    }
    if arrays.is_empty() && service.pools().is_empty() && json {
        let waiting = json!({"event": "waiting", "name": service.name(), "pid": std::process::id()});
        text.push_str(&format!("{waiting}\n"));
    } else if arrays.is_empty() && service.pools().is_empty() {
        text.push_str("nothing is served yet: what the settings mean is taken when it comes\n");
    }
    for pooled in service.pools() {
        let (name, exports) = (pooled.name().to_owned(), pooled.exports());
        if json {
            let exports = || exports.iter().map(|(export, _)| export);
            let nbd: Vec<String> = exports().flat_map(|export| pooled.addresses(export)).collect();
            let iscsi: Vec<String> = exports().flat_map(|export| pooled.uris(export)).collect();
            let mut serving = json!({"event": "serving", "name": name, "nbd": nbd, "iscsi": iscsi, "pid": std::process::id()});
            if let Some(detached) = &detached {
                serving["log"] = json!(detached.log());
            }
            text.push_str(&format!("{serving}\n"));
            continue;
        }
        for (export, _) in &exports {
            let places = [pooled.addresses(export), pooled.uris(export)].concat();
            text.extend(places.iter().map(|at| format!("{export} serves on {at}\n")));
        }
        if exports.is_empty() {
            text.push_str(&format!(
                "{name} is served, and has no volumes: brindle volume create {name}/NAME SIZE\n"
            ));
        }
    }
    if json && !scrapes.is_empty() {
        text.push_str(&format!("{}\n", json!({"event": "metrics", "at": scrapes})));
    } else {
        text.extend(scrapes.iter().map(|at| format!("metrics are at {at}\n")));
    }
    if let Some(detached) = detached.filter(|_| !json) {
        text.push_str(&detached.text(folder, service.name(), arrays.len() > 1));
    }
    match report::print(&text) {
        // A server in the background has a parent that waits for this line.
        Err(why) if detached.is_none() && !why.is_broken_pipe() => {
            tracing::warn!("{why}: it serves all the same");
            Ok(())
        }
        printed => printed,
    }
}

/// Prints events as they happen: with `--json` all of it, else the end of arrays. The log has the rest.
pub(super) fn listener(json: bool) -> Listener {
    Rc::new(move |news| {
        let line = match news {
            News::Event { name, event } if json => {
                let mut object = json!(event);
                object["event"] = json!(event.kind);
                if let Some(name) = name {
                    object["name"] = json!(name);
                }
                object.to_string()
            }
            News::Stopped { name, several: true, .. } if json => {
                json!({"event": "stopped", "name": name}).to_string()
            }
            News::Stopped { name, words, .. } if !json => format!("{name}: {words}"),
            News::Event { .. } | News::Stopped { .. } => return,
        };
        log::print(format!("{line}\n"));
    })
}
