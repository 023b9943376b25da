//! A pool's report for people.

use serde_json::Value;

use super::{SHOWN, bytes, counters, items, list, push, word};
use crate::units::Moment;

/// A pool that is served, or one whose members were given.
pub(super) fn text(report: &Value) -> String {
    let (name, pool) = (word(report, "name"), &report["pool"]);
    let mut text = format!("{name}: pool, {}\n", list(&pool["state"]));
    if !report["pid"].is_null() {
        push(&mut text, format_args!("  serves {} (pid {})\n", list(&report["nbd"]), word(report, "pid")));
        push(
            &mut text,
            format_args!(
                "  {} connections; {} requests, {} read, {} written, {} errors\n",
                word(report, "connections"),
                word(report, "requests"),
                bytes(report, "bytes_read"),
                bytes(report, "bytes_written"),
                word(report, "errors")
            ),
        );
    }
    if let Some(seconds) = report["stale_for"].as_f64() {
        push(&mut text, format_args!("  the thread does not answer: this is as it was {seconds:.1} s ago\n"));
    }
    let room = [bytes(pool, "capacity"), bytes(pool, "sold"), bytes(pool, "stored"), bytes(pool, "thin")];
    let [capacity, sold, stored, thin] = room;
    push(&mut text, format_args!("  {capacity} to be sold, {sold} sold, {stored} stored"));
    if thin.0 > 0 {
        push(&mut text, format_args!(", {thin} of it with less redundancy than its vdev is to give"));
    }
    text.push('\n');
    let wrong =
        ["blocks_wrong", "blocks_mended", "blocks_lost"].map(|field| pool[field].as_u64().unwrap_or(0));
    if wrong != [0; 3] {
        let [found, mended, lost] = wrong;
        push(&mut text, format_args!("  {found} blocks were found wrong: {mended} mended, {lost} lost\n"));
    }
    if !items(&report["waits_for"]).is_empty() {
        let missing = list(&report["waits_for"]);
        push(
            &mut text,
            format_args!(
                "  members that were in use are missing: {missing}; it is read-only until they are here, unless its settings say \
                 degraded = true\n"
            ),
        );
    }
    for left_out in items(&report["left_out"]) {
        push(&mut text, format_args!("  left out: {}\n", word(left_out, "why")));
    }
    for device in items(&pool["devices"]) {
        let (member, kind, state) = (word(device, "member"), word(device, "kind"), word(device, "state"));
        push(&mut text, format_args!("  {member:>5}  {kind:<8}  {state:<8}  {}\n", word(device, "path")));
        if device["io"].is_object() {
            push(&mut text, format_args!("{:27}{}\n", "", counters(&device["io"])));
        }
    }
    for volume in items(&report["volumes"]) {
        push(&mut text, format_args!("  {name}/{}  {}\n", word(volume, "name"), bytes(volume, "size")));
    }
    let events = items(&report["events"]);
    for event in &events[events.len().saturating_sub(SHOWN)..] {
        let at = Moment(event["at"].as_u64().unwrap_or(0));
        push(&mut text, format_args!("  {at}: {}\n", word(event, "text")));
    }
    text
}
