//! A pool's report for people.

use serde_json::Value;

use super::{SHOWN, bytes, clients, counters, items, list, push, word};
use crate::base::units::Moment;

/// Ranges of volumes that are listed.
const RANGES: usize = 16;

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
        clients::connections(&mut text, report);
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
        push(
            &mut text,
            format_args!(
                "  {found} blocks were found wrong: {mended} mended; {lost} blocks of volumes are or were lost\n"
            ),
        );
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
    damaged(&mut text, pool);
    for left_out in items(&report["left_out"]) {
        push(&mut text, format_args!("  left out: {}\n", word(left_out, "why")));
    }
    for device in items(&pool["devices"]) {
        let (member, kind, state) = (word(device, "member"), word(device, "kind"), word(device, "state"));
        push(&mut text, format_args!("  {member:>5}  {kind:<8}  {state:<8}  {}\n", word(device, "path")));
        if device["io"].is_object() {
            push(&mut text, format_args!("{:27}{}\n", "", counters(&device["io"])));
        }
        if device["wrong"].as_u64().is_some_and(|wrong| wrong > 0) {
            let [wrong, mended] = ["wrong", "mended"].map(|field| word(device, field));
            push(
                &mut text,
                format_args!(
                    "{:27}{wrong} blocks of it were wrong or could not be read: {mended} mended\n",
                    ""
                ),
            );
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

/// Where volumes are beyond repair.
fn damaged(text: &mut String, pool: &Value) {
    let ranges = items(&pool["damaged"]);
    for range in ranges.iter().take(RANGES) {
        let [volume, offset, length] = ["volume", "offset", "length"].map(|field| word(range, field));
        push(text, format_args!("  lost: {volume}: {length} bytes from byte {offset} on\n"));
    }
    if ranges.len() > RANGES {
        let more = ranges.len() - RANGES;
        push(text, format_args!("  lost: {more} ranges more, which `brindle status --json` lists\n"));
    }
    if let Some(beyond @ 1..) = pool["damaged_beyond"].as_u64() {
        push(
            text,
            format_args!("  lost: {beyond} blocks more, which are not listed: `brindle check` finds all\n"),
        );
    }
}
