//! The display of `brindle watch`, from two reports: pure.

use brindle_host::status::{ArrayStatus, PoolStatus, Report, ScanStatus};

use super::history::{History, bars};
use super::members;
use super::rates::{BYTES_READ, BYTES_WRITTEN, Pair, REQUESTS, Snapshot, word};
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
fn served(lines: &mut Vec<Line>, report: Pair<'_, Report>, history: &History, view: &View) -> bool {
    let name = word(report.now.name());
    match report.now {
        Report::Absent(status) => {
            let text = format!("{name}: not served: {}", shown(&status.not_served));
            push_text(lines, Style::Bad, "", &text, view);
            false
        }
        Report::Other(status) => {
            title(lines, &name, &status.state, &word(&status.kind), view);
            false
        }
        Report::Array(status) => {
            title(lines, &name, &status.array.state, &about(&status.array), view);
            clients(lines, report, status.connections, status.errors, view);
            past(lines, report.now, history, view);
            let mut latencies = array(lines, report.part(|report| Some(&report.array()?.array)), view);
            for (at, nested) in status.arrays.iter().enumerate() {
                let label = nested.label.as_deref().map_or_else(|| "-".to_owned(), word);
                title(lines, &format!("  {label}"), &nested.state, &about(nested), view);
                latencies |= array(lines, report.part(|report| report.array()?.arrays.get(at)), view);
            }
            latencies
        }
        Report::Pool(status) => {
            title(lines, &name, &status.pool.state, &volumes(status), view);
            clients(lines, report, status.connections, status.errors, view);
            past(lines, report.now, history, view);
            let [stored, sold, capacity] =
                [status.pool.stored, status.pool.sold, status.pool.capacity].map(Bytes);
            push_text(
                lines,
                Style::Plain,
                "  ",
                &format!("{stored} stored, {sold} sold of {capacity}"),
                view,
            );
            let scan = status.pool.scan.as_ref().and_then(ScanStatus::sync);
            if let Some(text) = SyncReport::of(&scan).map(|progress| work(&progress, view.width)) {
                push_text(lines, Style::Warn, "  ", &text, view);
            }
            let pool = report.part(|report| Some(&report.pool()?.pool));
            pool.is_some_and(|pool| members::table(lines, members::of_pool(pool), view))
        }
    }
}

/// The lines about the clients of an array or a pool.
fn clients(lines: &mut Vec<Line>, report: Pair<'_, Report>, connections: usize, errors: u64, view: &View) {
    if let Some(seconds) = report.now.stale_for() {
        let text = format!("does not answer: this is as it was {seconds:.1} s ago");
        push_text(lines, Style::Bad, "  ", &text, view);
    }
    // Figures stay with their words.
    let text = format!(
        "{connections}\u{a0}clients: {}\u{a0}requests/s, {}\u{a0}read, {}\u{a0}written, {errors}\u{a0}errors",
        report.per_second(REQUESTS),
        report.bytes_per_second(BYTES_READ).replace(' ', "\u{a0}"),
        report.bytes_per_second(BYTES_WRITTEN).replace(' ', "\u{a0}"),
    );
    push_text(lines, Style::Plain, "  ", &text, view);
}

/// A title line: a name, its state in colour, and a description.
fn title(lines: &mut Vec<Line>, name: &str, states: &[impl AsRef<str>], about: &str, view: &View) {
    let states: Vec<String> = states.iter().map(|state| word(state.as_ref())).collect();
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

fn volumes(status: &PoolStatus) -> String {
    let volumes: Vec<String> = status.volumes.iter().map(|volume| word(&volume.name)).collect();
    if volumes.is_empty() { "pool".to_owned() } else { format!("pool, volumes {}", volumes.join(", ")) }
}

fn about(array: &ArrayStatus) -> String {
    format!("{} of {}", word(&array.facts.level), Bytes(array.facts.size))
}

/// The last rates, once there are some.
fn past(lines: &mut Vec<Line>, report: &Report, history: &History, view: &View) {
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
fn array(lines: &mut Vec<Line>, array: Option<Pair<'_, ArrayStatus>>, view: &View) -> bool {
    let Some(array) = array else { return false };
    if let Some(text) = SyncReport::of(&array.now.sync).map(|progress| work(&progress, view.width)) {
        push_text(lines, Style::Warn, "  ", &text, view);
    }
    members::table(lines, members::of_array(array), view)
}

/// The line of a process that runs over the array: progress, speed, and time left.
fn work(progress: &SyncReport<'_>, width: usize) -> String {
    let (action, percent) = (progress.action().escape_debug(), progress.share() * 100.0);
    let reported = format!("{percent:.1}%{}", progress.pace());
    let room = width.saturating_sub(reported.len() + 16).min(BAR);
    let full = (progress.share() * room as f64) as usize;
    let bar: String = (0..room).map(|at| if at < full { '=' } else { '.' }).collect();
    if room < 8 { format!("{action} {reported}") } else { format!("{action} [{bar}] {reported}") }
}

#[cfg(test)]
mod tests;
