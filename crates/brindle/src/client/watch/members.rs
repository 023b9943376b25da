//! The table of an array's or a pool's members: state first, as many columns as there is room for.

use brindle_host::status::{ArrayStatus, DeviceStatus, IoStatus, PoolDevice, PoolFacts};

use super::rates::{Count, Pair, READ, READS, WRITES, WRITTEN, word};
use super::style::{Line, Style, wrapped};
use super::view::{Sort, View};
use crate::base::units::Bytes;

/// A column behind the names, with its width; those at the right leave first.
const COLUMNS: [(&str, usize); 7] = [
    ("reads/s", 8),
    ("writes/s", 8),
    ("read", 11),
    ("written", 11),
    ("errors", 6),
    ("read in", 12),
    ("written in", 12),
];
/// Where the latencies begin.
const LATENCIES: usize = 5;
const STATE: usize = 10;
const ROLE: usize = 4;

pub(super) struct MemberRow<'a> {
    state: String,
    role: String,
    name: String,
    /// None of a member that is not there.
    io: Option<Pair<'a, IoStatus>>,
    notes: String,
}

/// The lines of all members of an array or a pool, and whether latencies are shown.
pub(super) fn table(lines: &mut Vec<Line>, mut members: Vec<MemberRow<'_>>, view: &View) -> bool {
    if members.is_empty() {
        return false;
    }
    sort(&mut members, view.sort);
    let fixed = 2 + STATE + 1 + ROLE + 1;
    let mut longest = names(&members);
    let room = |longest: usize| columns(view.width.saturating_sub(fixed + longest));
    if room(longest) < COLUMNS.len()
        && let Some(folder) = folder(&members)
        && (folder.len() > "/dev/".len() || room(longest) < 2)
    {
        // The folder that all names begin with is printed once.
        let reported = format!("members in {folder}");
        lines.extend(
            wrapped(&reported, view.width.saturating_sub(2))
                .into_iter()
                .map(|part| Line::of(Style::Quiet, format!("  {part}"))),
        );
        members.iter_mut().for_each(|member| {
            if let Some(rest) = member.name.strip_prefix(&folder) {
                member.name = rest.to_owned();
            }
        });
        longest = names(&members);
    }
    // A name that does not fit beside its state stands below it.
    let beside = fixed + longest <= view.width;
    let width = if beside { longest.max(6) } else { 6 };
    let columns = columns(view.width.saturating_sub(fixed + width));
    lines.push(head(columns, width));
    for member in &members {
        row(lines, member, columns, beside.then_some(width), view);
    }
    columns > LATENCIES
}

fn names(members: &[MemberRow<'_>]) -> usize {
    members.iter().map(|member| member.name.chars().count()).max().unwrap_or(0)
}

/// How many columns have room.
fn columns(mut room: usize) -> usize {
    COLUMNS
        .iter()
        .take_while(|(_, width)| {
            let fits = width < &room;
            room = room.saturating_sub(width + 1);
            fits
        })
        .count()
}

fn head(columns: usize, width: usize) -> Line {
    let mut text = format!("  {:<STATE$} {:>ROLE$} {:<width$}", "state", "role", "member");
    for (name, wide) in &COLUMNS[..columns] {
        text.push_str(&format!(" {name:>wide$}"));
    }
    Line::of(Style::Title, text)
}

fn row(lines: &mut Vec<Line>, member: &MemberRow<'_>, columns: usize, beside: Option<usize>, view: &View) {
    let mut line = Line::of(Style::Plain, "  ");
    line.push(Style::of_state(&member.state), format!("{:<STATE$}", member.state));
    let width = beside.unwrap_or(6);
    let name = if beside.is_some() { member.name.as_str() } else { "" };
    line.push(Style::Plain, format!(" {:>ROLE$} {name:<width$}", member.role));
    for (at, (_, wide)) in COLUMNS[..columns].iter().enumerate() {
        let cell = cell(member, at);
        let style = if at == 4 && cell.bytes().any(|digit| matches!(digit, b'1'..=b'9')) {
            Style::Bad
        } else {
            Style::Plain
        };
        line.push(style, format!(" {cell:>wide$}"));
    }
    let below = |lines: &mut Vec<Line>, style: Style, text: &str| {
        let parts = wrapped(text, view.width.saturating_sub(4));
        lines.extend(parts.into_iter().map(|part| Line::of(style, format!("    {part}"))));
    };
    let notes = &member.notes;
    if !notes.is_empty() && beside.is_some() && line.width() + 2 + notes.chars().count() <= view.width {
        line.push(Style::Warn, format!("  {notes}"));
        lines.push(line);
        return;
    }
    lines.push(line);
    if beside.is_none() && member.name != "-" {
        below(lines, Style::Plain, &member.name);
    }
    if !notes.is_empty() {
        below(lines, Style::Warn, notes);
    }
}

fn cell(member: &MemberRow<'_>, column: usize) -> String {
    let Some(io) = member.io else { return "-".to_owned() };
    match column {
        0 => io.per_second(READS),
        1 => io.per_second(WRITES),
        2 => io.bytes_per_second(READ),
        3 => io.bytes_per_second(WRITTEN),
        4 => io.now.errors.to_string(),
        5 => io.latency(|io| &io.read_latency),
        _ => io.latency(|io| &io.write_latency),
    }
}

/// The members of an array, then roles without one.
pub(super) fn of_array(array: Pair<'_, ArrayStatus>) -> Vec<MemberRow<'_>> {
    let of = |(at, device): (usize, &DeviceStatus)| MemberRow {
        state: word(&device.state),
        role: device.role.map_or_else(|| "-".to_owned(), |role| role.to_string()),
        name: word(&device.path),
        io: array.part(|array| Some(&array.devices.get(at)?.io)),
        notes: notes(device),
    };
    let missing = array.now.missing.iter().map(|role| MemberRow {
        state: "missing".to_owned(),
        role: role.to_string(),
        name: "-".to_owned(),
        io: None,
        notes: String::new(),
    });
    array.now.devices.iter().enumerate().map(of).chain(missing).collect()
}

pub(super) fn of_pool(pool: Pair<'_, PoolFacts>) -> Vec<MemberRow<'_>> {
    let of = |(at, device): (usize, &PoolDevice)| MemberRow {
        state: word(&device.state),
        role: word(&device.member),
        name: device.path.as_deref().map_or_else(|| "-".to_owned(), word),
        io: pool.part(|pool| pool.devices.get(at)?.io.as_ref()),
        notes: notes_of_pools(device),
    };
    pool.now.devices.iter().enumerate().map(of).collect()
}

fn sort(members: &mut [MemberRow<'_>], by: Sort) {
    let most = |member: &MemberRow<'_>, counts: [Count<IoStatus>; 2]| -> f64 {
        counts.into_iter().filter_map(|count| member.io?.rate(count)).sum()
    };
    let slowest = |member: &MemberRow<'_>| {
        let read = member.io.and_then(|io| io.latencies(|io| &io.read_latency));
        let written = member.io.and_then(|io| io.latencies(|io| &io.write_latency));
        let answers = [read, written].into_iter().flatten();
        answers.map(|[_, most]| most).max().unwrap_or(0)
    };
    match by {
        Sort::Role => {}
        Sort::State => members.sort_by_key(|member| match Style::of_state(&member.state) {
            Style::Bad => 0,
            Style::Warn => 1,
            Style::Quiet => 3,
            _ => 2,
        }),
        Sort::Requests => busiest_first(members, |member| most(member, [READS, WRITES])),
        Sort::Bytes => busiest_first(members, |member| most(member, [READ, WRITTEN])),
        Sort::Latency => members.sort_by_key(|member| std::cmp::Reverse(slowest(member))),
    }
}

fn busiest_first(members: &mut [MemberRow<'_>], rate: impl Fn(&MemberRow<'_>) -> f64) {
    members.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
}

/// The folder that all members are in, with the slash at its end.
fn folder(members: &[MemberRow<'_>]) -> Option<String> {
    let mut names = members.iter().map(|member| &member.name).filter(|name| name.contains('/'));
    let first = names.next()?;
    let folder = &first[..=first.rfind('/')?];
    (folder.len() > 1 && names.all(|name| name.starts_with(folder))).then(|| folder.to_owned())
}

/// Remarks about a member: everything out of the ordinary.
fn notes(device: &DeviceStatus) -> String {
    let flags = device.flags.iter().map(|flag| word(flag));
    let bad = device.bad_blocks.as_ref().map(|bad| format!("{} unreadable", Bytes(bad.bytes)));
    let slower = device.slower.map(|times| format!("{times} times as slow as the others"));
    let why = device.failure.as_ref().map(|failure| word(&failure.why));
    joined(flags.chain(slower).chain(bad).chain(waits(&device.io)).chain(why))
}

fn notes_of_pools(device: &PoolDevice) -> String {
    let wrong = Some(device.wrong).filter(|places| *places > 0);
    let wrong = wrong.map(|places| format!("{places} places found wrong"));
    joined(wrong.into_iter().chain(device.io.as_ref().and_then(waits)))
}

fn waits(io: &IoStatus) -> Option<String> {
    let waits = io.oldest.filter(|&seconds| seconds >= 1.0);
    waits.map(|seconds| format!("no answer for {seconds:.0} s"))
}

fn joined(notes: impl Iterator<Item = String>) -> String {
    let notes: Vec<String> = notes.collect();
    if notes.is_empty() { String::new() } else { format!("({})", notes.join(", ")) }
}
