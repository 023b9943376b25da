//! The display of `brindle watch`, from two reports: pure. A report comes over the control socket, so anything may be missing from it.

use serde_json::Value;

use super::history::{History, bars};
use super::members;
use super::rates::{Pair, Snapshot, items, word};
use super::style::{Line, Style, wrapped};
use super::view::View;
use crate::base::sync::{SyncReport, bytes_per_second};
use crate::base::text::shown;
use crate::base::units::Bytes;

/// Characters of the bar that tells how far something is.
const BAR: usize = 30;
/// Characters before the bars of a history, and behind them.
const CAPTIONS: usize = 30;

/// Said below tables that show latencies, and with the keys.
const LATENCY: &str = "64us/8ms: of the answers since the last look half came within 64 us, 99 of 100 within 8 ms (powers of two).";

/// The lines to be shown of what is `now`; rates are of the time since `before`.
pub(super) fn frame(before: Option<&Snapshot>, now: &Snapshot, history: &History, view: &View) -> Vec<Line> {
    if view.help {
        return help(view);
    }
    if now.reports.is_empty() {
        return vec![Line::of(Style::Plain, "no array is served")];
    }
    let mut lines = Vec::new();
    let mut latencies = false;
    for report in &now.reports {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        latencies |= served(&mut lines, Pair::of(report, before, now), history, view);
    }
    if latencies {
        lines.push(Line::default());
        push_text(&mut lines, Style::Quiet, "", LATENCY, view);
    }
    lines
}

fn help(view: &View) -> Vec<Line> {
    let mut lines = vec![Line::of(Style::Title, "brindle watch")];
    for text in [
        "q  end",
        "s  sort members by role, state, requests/s, bytes/s or latency",
        "?  this, and back",
        "arrows, j, k, space, b  scroll",
        "Columns that have no room leave from the right: a wider terminal shows errors and latencies, too.",
        LATENCY,
        "The bars are the rates of the last looks, the newest at the right; the tallest is the most of them.",
    ] {
        push_text(&mut lines, Style::Plain, "", text, view);
    }
    lines
}

/// Text in as many lines as it needs.
fn push_text(lines: &mut Vec<Line>, style: Style, indent: &str, text: &str, view: &View) {
    let parts = wrapped(text, view.width.saturating_sub(indent.len()));
    lines.extend(parts.into_iter().map(|part| Line::of(style, format!("{indent}{part}"))));
}

/// An array or a pool that is served, and arrays that are its members; whether latencies are shown.
fn served(lines: &mut Vec<Line>, report: Pair<'_>, history: &History, view: &View) -> bool {
    if let Some(why) = report.now["not_served"].as_str() {
        let text = format!("{}: not served: {}", word(&report.now["name"]), shown(why));
        push_text(lines, Style::Bad, "", &text, view);
        return false;
    }
    let is_pool = report.now["pool"].is_object();
    let owner = report.part(|report| if is_pool { &report["pool"] } else { &report["array"] });
    title(lines, &word(&report.now["name"]), owner.now, &kind(report.now), view);
    if let Some(seconds) = report.now["stale_for"].as_f64() {
        let text = format!("does not answer: this is as it was {seconds:.1} s ago");
        push_text(lines, Style::Bad, "  ", &text, view);
    }
    // Figures stay with their words.
    let text = format!(
        "{}\u{a0}clients: {}\u{a0}requests/s, {}\u{a0}read, {}\u{a0}written, {}\u{a0}errors",
        word(&report.now["connections"]),
        report.per_second("requests"),
        report.bytes_per_second("bytes_read").replace(' ', "\u{a0}"),
        report.bytes_per_second("bytes_written").replace(' ', "\u{a0}"),
        word(&report.now["errors"]),
    );
    push_text(lines, Style::Plain, "  ", &text, view);
    past(lines, report.now, history, view);
    if is_pool {
        let room = ["stored", "sold", "capacity"].map(|field| Bytes(owner.now[field].as_u64().unwrap_or(0)));
        let [stored, sold, capacity] = room;
        push_text(lines, Style::Plain, "  ", &format!("{stored} stored, {sold} sold of {capacity}"), view);
    }
    let mut latencies = of_array(lines, owner, view);
    for (at, nested) in items(&report.now["arrays"]).iter().enumerate() {
        title(lines, &format!("  {}", word(&nested["label"])), nested, &about(nested), view);
        latencies |= of_array(lines, report.part(|report| &report["arrays"][at]), view);
    }
    latencies
}

/// A title line: a name, its state in colour, and a description.
fn title(lines: &mut Vec<Line>, name: &str, owner: &Value, about: &str, view: &View) {
    let states: Vec<String> = items(&owner["state"]).iter().map(word).collect();
    let all = format!("{name}: {}; {about}", states.join(", "));
    if all.chars().count() > view.width {
        let worst = states.iter().map(|state| Style::of_state(state)).find(|style| *style != Style::Good);
        return push_text(lines, worst.unwrap_or(Style::Good), "", &all, view);
    }
    let mut line = Line::of(Style::Title, format!("{name}: "));
    for (number, state) in states.iter().enumerate() {
        if number > 0 {
            line.push(Style::Plain, ", ");
        }
        line.push(Style::of_state(state), state.clone());
    }
    line.push(Style::Plain, format!("; {about}"));
    lines.push(line);
}

fn kind(report: &Value) -> String {
    if !report["pool"].is_object() {
        return about(&report["array"]);
    }
    let volumes: Vec<String> = items(&report["volumes"]).iter().map(|volume| word(&volume["name"])).collect();
    if volumes.is_empty() { "pool".to_owned() } else { format!("pool, volumes {}", volumes.join(", ")) }
}

fn about(array: &Value) -> String {
    format!("{} of {}", word(&array["level"]), Bytes(array["size"].as_u64().unwrap_or(0)))
}

/// The last rates, once there are some.
fn past(lines: &mut Vec<Line>, report: &Value, history: &History, view: &View) {
    let room = view.width.saturating_sub(CAPTIONS).min(60);
    for (which, name) in ["read", "written"].into_iter().enumerate() {
        let rates = history.of(report, which, room);
        let most = rates.iter().copied().fold(0.0, f64::max);
        if rates.len() < 2 || most == 0.0 {
            continue;
        }
        let mut line = Line::of(Style::Quiet, format!("  {name:<8}"));
        line.push(Style::Plain, bars(&rates, view.ascii));
        line.push(Style::Quiet, format!(" most {}", bytes_per_second(most)));
        lines.push(line);
    }
}

/// The lines of an array: its process, and its members.
fn of_array(lines: &mut Vec<Line>, array: Pair<'_>, view: &View) -> bool {
    if let Some(text) = work(&array.now["sync"], view.width) {
        push_text(lines, Style::Warn, "  ", &text, view);
    }
    members::table(lines, array, view)
}

/// The line of a process that runs over the array: progress, speed, and time left.
fn work(sync: &Value, width: usize) -> Option<String> {
    let progress = SyncReport::of(sync)?;
    let (action, percent) = (progress.action().escape_debug(), progress.share() * 100.0);
    let reported = format!("{percent:.1}%{}", progress.pace());
    let room = width.saturating_sub(reported.len() + 16).min(BAR);
    let full = (progress.share() * room as f64) as usize;
    let bar: String = (0..room).map(|at| if at < full { '=' } else { '.' }).collect();
    Some(if room < 8 { format!("{action} {reported}") } else { format!("{action} [{bar}] {reported}") })
}

#[cfg(test)]
mod tests;
