//! A server's report for people.

mod clients;
mod pools;

use std::fmt::Write;

use brindle_host::status::{
    AbsentStatus, ArrayStatus, BitmapStatus, DeviceStatus, DriveStatus, EventStatus, ExportStatus, IoStatus,
    LeftOut, OtherStatus, Outcome, Report,
};

use crate::base::sync::{SyncReport, bytes_per_second};
use crate::base::text::shown;
use crate::base::units::{Bytes, Moment};
use crate::client::findings;

/// The most events that a status shows.
const SHOWN: usize = 5;

/// `brindle status`, of one server.
pub(crate) fn text(report: &Report) -> String {
    match report {
        Report::Array(status) => of_array(status),
        Report::Pool(status) => pools::text(status),
        Report::Absent(status) => absent(status),
        Report::Other(status) => other(status),
    }
}

/// The last events of something that is served.
pub(crate) fn text_of_events(of: &[EventStatus]) -> String {
    let mut text = String::new();
    events(&mut text, of);
    text
}

fn shares_spares(text: &mut String, group: &str) {
    push(text, format_args!("  shares spares with the arrays and pools of group {group}\n"));
}

fn of_array(status: &ExportStatus) -> String {
    let ExportStatus { name, pid, connections, requests, errors, .. } = status;
    let mut text =
        format!("{name}: {}\n  serves {} (pid {pid})\n", about(&status.array), status.doors.nbd.join(", "));
    if let Some(group) = &status.spare_group {
        shares_spares(&mut text, group);
    }
    if let Some(seconds) = status.stale_for {
        push(
            &mut text,
            format_args!("  the array's thread does not answer: this is as it was {seconds:.1} s ago\n"),
        );
    }
    let (read, written) = (Bytes(status.bytes_read), Bytes(status.bytes_written));
    push(
        &mut text,
        format_args!(
            "  {connections} connections; {requests} requests, {read} read, {written} written, {errors} errors\n"
        ),
    );
    clients::text(&mut text, status);
    clients::reactors(&mut text, &status.doors.reactors);
    left_out(&mut text, &status.left_out);
    array(&mut text, &status.array);
    for nested in &status.arrays {
        let label = nested.label.as_deref().unwrap_or("-");
        push(&mut text, format_args!("  {label}: {}\n", about(nested)));
        array(&mut text, nested);
    }
    if let Some(last) = &status.last_action {
        last_action(&mut text, last);
    }
    events(&mut text, &status.events);
    text
}

fn left_out(text: &mut String, left_out: &[LeftOut]) {
    left_out.iter().for_each(|left_out| push(text, format_args!("  left out: {}\n", left_out.why)));
}

fn events(text: &mut String, events: &[EventStatus]) {
    for event in &events[events.len().saturating_sub(SHOWN)..] {
        push(text, format_args!("  {}: {}\n", Moment(event.at), event.text));
    }
}

/// An array or a pool that is not served, though it should be.
fn absent(status: &AbsentStatus) -> String {
    let mut text = format!("{}: not served: {}\n", status.name, shown(&status.not_served));
    if let Some(command) = &status.next {
        push(&mut text, format_args!("  next: {}\n", shown(command)));
    }
    text
}

/// A content of a kind that has no report of its own.
fn other(status: &OtherStatus) -> String {
    let OtherStatus { name, kind, state, pid, .. } = status;
    let at = status.doors.nbd.join(", ");
    format!(
        "{}: {}, {}\n  serves {at} (pid {pid})\n",
        name.escape_debug(),
        shown(kind),
        shown(&state.join(", "))
    )
}

/// An array in a line.
fn about(array: &ArrayStatus) -> String {
    format!("{} of {}, {}", array.facts.level, Bytes(array.facts.size), array.state.join(", "))
}

/// How much a write-intent bitmap says is not known to agree, and how many writes lag behind that it bears.
fn bitmap(text: &mut String, bitmap: &BitmapStatus) {
    let BitmapStatus { chunk, dirty, bits, lagging, .. } = bitmap;
    let place = bitmap.file.as_ref().map_or_else(String::new, |file| format!(" in {file}"));
    let failed = if bitmap.failed { ", which has failed: after a crash all is resynced" } else { "" };
    push(
        text,
        format_args!(
            "  write-intent bitmap{place}{failed}: {dirty} of {bits} bits set, each of {}\n",
            Bytes(*chunk)
        ),
    );
    if let most @ 1.. = bitmap.write_behind {
        push(text, format_args!("  {lagging} of {most} writes lag behind on write-mostly members\n"));
    }
}

/// How far a process is, and the members.
fn array(text: &mut String, array: &ArrayStatus) {
    if array.exposed {
        text.push_str(
            "  exposed: if this server is killed while the array is written to, it starts again only with --force\n",
        );
    }
    if let Some(kept) = &array.bitmap {
        bitmap(text, kept);
    }
    let speeds = [("at most", array.max_speed), ("at least", array.min_speed)];
    let speeds = speeds.into_iter().filter_map(|(words, speed)| Some((words, speed?)));
    let speeds: Vec<String> =
        speeds.map(|(words, speed)| format!("{words} {}", bytes_per_second(speed as f64))).collect();
    if !speeds.is_empty() {
        push(text, format_args!("  checks, repairs and recoveries run {}\n", speeds.join(", ")));
    }
    if let Some(progress) = SyncReport::of(&array.sync) {
        push(text, format_args!("  {}\n", progress.text()));
    }
    array.devices.iter().for_each(|one| device(text, one));
}

fn device(text: &mut String, device: &DeviceStatus) {
    let DeviceStatus { state, path, .. } = device;
    let role = device.role.map_or_else(|| "-".to_owned(), |role| role.to_string());
    let flags = device.flags.join(", ");
    let flags = if flags.is_empty() { flags } else { format!("  ({flags})") };
    push(text, format_args!("  {role:>4}  {state:<10}  {path}{flags}\n"));
    if let Some(drive) = device.drive.as_ref().map(DriveStatus::text).filter(|text| !text.is_empty()) {
        push(text, format_args!("{:20}{drive}\n", ""));
    }
    push(text, format_args!("{:20}{}\n", "", counters(&device.io)));
    if let Some(why) = &device.failing {
        push(text, format_args!("{:20}SMART calls its drive failing: {}\n", "", why.escape_debug()));
    }
    if let Some(times) = device.slower {
        push(text, format_args!("{:20}slow: takes {times} times as long as the others\n", ""));
    }
    if let Some(bad) = &device.bad_blocks {
        let bytes = Bytes(bad.bytes);
        push(text, format_args!("{:20}{bytes} can't be read: it could not be rebuilt\n", ""));
    }
    if let Some(failure) = &device.failure {
        push(text, format_args!("{:20}{}: {}\n", "", Moment(failure.at), failure.why));
    }
}

/// The result of the last process that ran over the array.
fn last_action(text: &mut String, last: &Outcome) {
    let found = findings::text(last);
    let mut lines = found.lines();
    let first = lines.next().unwrap_or_default();
    push(text, format_args!("  last action, {}: {first}\n", last.action));
    lines.for_each(|line| push(text, format_args!("  {line}\n")));
}

/// The counters of a member in this run.
fn counters(io: &IoStatus) -> String {
    let mut text = format!(
        "{} reads of {}, {} writes of {}, {} errors, {} corrected",
        io.reads,
        Bytes(io.bytes_read),
        io.writes,
        Bytes(io.bytes_written),
        io.errors,
        io.corrected
    );
    if io.slow > 0 {
        push(&mut text, format_args!(", {} times slow", io.slow));
    }
    text
}

fn push(text: &mut String, line: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(line); // a string takes everything
}
