//! The clients of an array or a pool, for people.

use serde_json::Value;

use super::{bytes, items, list, push, word};
use crate::base::sync::bytes_per_second;

/// Connections that are listed one by one.
const SHOWN: usize = 16;

/// Whether and how it is offered, and to whom.
pub(super) fn text(text: &mut String, report: &Value) {
    if report["exported"] == false {
        text.push_str("  offered to no client: `brindle export` offers it again\n");
    }
    let limits = &report["limits"];
    let iops = limits["iops"].as_u64().map(|iops| format!("{iops} requests a second"));
    let bandwidth = limits["bandwidth"].as_u64().map(|speed| bytes_per_second(speed as f64));
    let limits: Vec<String> = iops.into_iter().chain(bandwidth).collect();
    if !limits.is_empty() {
        push(text, format_args!("  clients are granted {}\n", limits.join(" and ")));
    }
    let target = &report["iscsi"];
    if target.is_object() {
        let reserved = if target["reserved"] == true { "reserved" } else { "not reserved" };
        push(
            text,
            format_args!(
                "  iSCSI target {}, unit {}: {reserved}, {} registered; {} commands, {} read, {} written, {} errors\n",
                word(target, "target"),
                word(target, "unit"),
                word(target, "registrants"),
                word(target, "requests"),
                bytes(target, "bytes_read"),
                bytes(target, "bytes_written"),
                word(target, "errors")
            ),
        );
    }
    connections(text, report);
}

/// The number of clients that were refused, and the others one by one.
pub(super) fn connections(text: &mut String, report: &Value) {
    if let Some(refused @ 1..) = report["refused"].as_u64() {
        push(text, format_args!("  {refused} clients were refused by this server\n"));
    }
    let clients = items(&report["clients"]);
    for client in clients.iter().take(SHOWN) {
        let names = list(&client["proved"]);
        let proved = if names.is_empty() { "proved nothing".to_owned() } else { format!("proved {names}") };
        let port = client["initiator"].as_str().map_or_else(String::new, |port| format!(", {port}"));
        let volume = client["volume"].as_str().map_or_else(String::new, |volume| format!(" to {volume}"));
        let only = if client["discovery"] == true { " (discovery)" } else { "" };
        let tls = if client["tls"] == true { " with TLS" } else { "" };
        push(
            text,
            format_args!(
                "    {}{only}{volume} from {}{tls}{port}, {proved}: {} requests, {} read, {} written\n",
                word(client, "protocol"),
                word(client, "address"),
                word(client, "requests"),
                bytes(client, "bytes_read"),
                bytes(client, "bytes_written")
            ),
        );
    }
    if clients.len() > SHOWN {
        push(text, format_args!("    and {} more\n", clients.len() - SHOWN));
    }
}
