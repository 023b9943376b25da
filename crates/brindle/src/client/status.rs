//! A server's report for people. It comes over the control socket, so anything may be missing from it.

mod clients;
mod pools;

use std::fmt::Write;

use brindle_host::status::DriveStatus;
use serde_json::Value;

use crate::base::sync::{SyncReport, bytes_per_second};
use crate::base::text::shown;
use crate::base::units::{Bytes, Moment};
use crate::client::findings;

/// The most events that a status shows.
const SHOWN: usize = 5;

/// `brindle status`, of one server.
pub(crate) fn text(report: &Value) -> String {
    if report["pool"].is_object() {
        return pools::text(report);
    }
    if let Some(why) = report["not_served"].as_str() {
        return absent(report, why);
    }
    let mut text = format!(
        "{}: {}\n  serves {} (pid {})\n",
        word(report, "name"),
        about(&report["array"]),
        list(&report["nbd"]),
        word(report, "pid")
    );
    if let Some(group) = report["spare_group"].as_str() {
        push(&mut text, format_args!("  shares spares with the arrays of group {group}\n"));
    }
    if let Some(seconds) = report["stale_for"].as_f64() {
        push(
            &mut text,
            format_args!("  the array's thread does not answer: this is as it was {seconds:.1} s ago\n"),
        );
    }
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
    clients::text(&mut text, report);
    for left_out in items(&report["left_out"]) {
        push(&mut text, format_args!("  left out: {}\n", word(left_out, "why")));
    }
    array(&mut text, &report["array"]);
    for nested in items(&report["arrays"]) {
        push(&mut text, format_args!("  {}: {}\n", word(nested, "label"), about(nested)));
        array(&mut text, nested);
    }
    last_action(&mut text, &report["last_action"]);
    let events = items(&report["events"]);
    for event in &events[events.len().saturating_sub(SHOWN)..] {
        let at = Moment(event["at"].as_u64().unwrap_or(0));
        push(&mut text, format_args!("  {at}: {}\n", word(event, "text")));
    }
    text
}

/// An array or a pool that is not served, though it should be.
fn absent(report: &Value, why: &str) -> String {
    let mut text = format!("{}: not served: {}\n", word(report, "name"), shown(why));
    if let Some(command) = report["next"].as_str() {
        push(&mut text, format_args!("  next: {}\n", shown(command)));
    }
    text
}

/// An array in a line.
fn about(array: &Value) -> String {
    format!("{} of {}, {}", word(array, "level"), bytes(array, "size"), list(&array["state"]))
}

/// How much a write-intent bitmap says is not known to agree, and how many writes lag behind that it bears.
fn bitmap(text: &mut String, bitmap: &Value) {
    let Some(chunk) = bitmap["chunk"].as_u64() else { return };
    let place = bitmap["file"].as_str().map_or_else(String::new, |file| format!(" in {file}"));
    let failed =
        if bitmap["failed"] == true { ", which has failed: after a crash all is resynced" } else { "" };
    let (dirty, bits) = (word(bitmap, "dirty"), word(bitmap, "bits"));
    push(
        text,
        format_args!(
            "  write-intent bitmap{place}{failed}: {dirty} of {bits} bits set, each of {}\n",
            Bytes(chunk)
        ),
    );
    if let Some(most @ 1..) = bitmap["write_behind"].as_u64() {
        let lagging = word(bitmap, "lagging");
        push(text, format_args!("  {lagging} of {most} writes lag behind on write-mostly members\n"));
    }
}

/// How far a process is, and the members.
fn array(text: &mut String, array: &Value) {
    if array["exposed"] == true {
        text.push_str(
            "  exposed: if this server is killed while the array is written to, it starts again only with --force\n",
        );
    }
    bitmap(text, &array["bitmap"]);
    let speeds = [("at most", "max_speed"), ("at least", "min_speed")];
    let speeds = speeds.iter().filter_map(|(words, name)| Some((words, array[*name].as_u64()?)));
    let speeds: Vec<String> =
        speeds.map(|(words, speed)| format!("{words} {}", bytes_per_second(speed as f64))).collect();
    if !speeds.is_empty() {
        push(text, format_args!("  checks, repairs and recoveries run {}\n", speeds.join(", ")));
    }
    if let Some(progress) = SyncReport::of(&array["sync"]) {
        push(text, format_args!("  {}\n", progress.text()));
    }
    for device in items(&array["devices"]) {
        let (role, state, path) = (word(device, "role"), word(device, "state"), word(device, "path"));
        let flags = list(&device["flags"]);
        let flags = if flags.is_empty() { flags } else { format!("  ({flags})") };
        push(text, format_args!("  {role:>4}  {state:<10}  {path}{flags}\n"));
        if let Some(drive) = drive_text(&device["drive"]) {
            push(text, format_args!("{:20}{drive}\n", ""));
        }
        push(text, format_args!("{:20}{}\n", "", counters(&device["io"])));
        if let Some(times) = device["slower"].as_u64() {
            push(text, format_args!("{:20}slow: takes {times} times as long as the others\n", ""));
        }
        let bad = &device["bad_blocks"];
        if !bad.is_null() {
            let bytes = bytes(bad, "bytes");
            push(text, format_args!("{:20}{bytes} can't be read: it could not be rebuilt\n", ""));
        }
        let failure = &device["failure"];
        if let Some(at) = failure["at"].as_u64() {
            push(text, format_args!("{:20}{}: {}\n", "", Moment(at), word(failure, "why")));
        }
    }
}

/// The result of the last process that ran over the array.
fn last_action(text: &mut String, reported: &Value) {
    let Some(found) = findings::text(reported) else { return };
    let mut lines = found.lines();
    let first = lines.next().unwrap_or_default();
    push(text, format_args!("  last action, {}: {first}\n", word(reported, "action")));
    lines.for_each(|line| push(text, format_args!("  {line}\n")));
}

/// The counters of a member in this run.
fn counters(io: &Value) -> String {
    let mut text = format!(
        "{} reads of {}, {} writes of {}, {} errors, {} corrected",
        word(io, "reads"),
        bytes(io, "bytes_read"),
        word(io, "writes"),
        bytes(io, "bytes_written"),
        word(io, "errors"),
        word(io, "corrected")
    );
    if io["slow"].as_u64().is_some_and(|times| times > 0) {
        push(&mut text, format_args!(", {} times slow", word(io, "slow")));
    }
    text
}

fn push(text: &mut String, line: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(line); // a string takes everything
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn list(list: &Value) -> String {
    items(list).iter().map(plain).collect::<Vec<_>>().join(", ")
}

fn word(of: &Value, name: &str) -> String {
    plain(&of[name])
}

fn bytes(of: &Value, name: &str) -> Bytes {
    Bytes(of[name].as_u64().unwrap_or(0))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".into(),
        other => other.to_string(),
    }
}
/// The drive that a device is, if the server says it.
fn drive_text(drive: &Value) -> Option<String> {
    let text = |name: &str| drive[name].as_str().map(str::to_owned);
    let drive = DriveStatus { model: text("model"), serial: text("serial"), by_id: text("by_id") };
    Some(drive.text()).filter(|text| !text.is_empty())
}
