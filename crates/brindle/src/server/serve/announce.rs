//! The lines that tell where arrays and pools are served, and what becomes of them.

use std::path::Path;
use std::rc::Rc;

use brindle_host::{Content, Host as _, Listener, News, Service, by_protocol};
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
    let (mut text, contents) = (String::new(), service.contents());
    for content in &contents {
        let places = service.places(&**content);
        if json {
            let mut serving = json!({"event": "serving", "name": content.name(), "pid": std::process::id()});
            for (protocol, addresses) in by_protocol(&places) {
                serving[protocol] = json!(addresses);
            }
            if let Some(detached) = &detached {
                serving["log"] = json!(detached.log());
            }
            text.push_str(&format!("{serving}\n"));
            continue;
        }
        let state = if is_read_only(&**content) { ", read-only" } else { "" };
        for place in &places {
            let serves = |at: &String| format!("{} serves on {at}{state}\n", place.export);
            text.extend(place.addresses().map(serves));
        }
        if places.is_empty() {
            let name = content.name();
            text.push_str(&format!(
                "{name} is served, and has no volumes: brindle volume create {name}/NAME SIZE\n"
            ));
        }
    }
    if contents.is_empty() && json {
        let waiting = json!({"event": "waiting", "name": service.name(), "pid": std::process::id()});
        text.push_str(&format!("{waiting}\n"));
    } else if contents.is_empty() {
        text.push_str("nothing is served yet: what the settings mean is taken when it comes\n");
    }
    if json && !scrapes.is_empty() {
        text.push_str(&format!("{}\n", json!({"event": "metrics", "at": scrapes})));
    } else {
        text.extend(scrapes.iter().map(|at| format!("metrics are at {at}\n")));
    }
    if let Some(detached) = detached.filter(|_| !json) {
        let several = contents.iter().filter(|content| content.is_one_export()).count() > 1;
        text.push_str(&detached.text(folder, service.name(), several));
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

/// Whether a content that is one export refuses writes. A pool that does has said so when it was opened.
fn is_read_only(content: &dyn Content) -> bool {
    content.is_one_export() && content.exports().iter().any(|offered| offered.volume.limits().read_only)
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
