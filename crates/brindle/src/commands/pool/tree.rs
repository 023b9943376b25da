//! Vdevs and devices as a tree of lines, in zpool's columns.

use brindle_host::status::{PoolDevice, PoolFacts};

use crate::base::text::shown;

/// A line of the tree.
pub(super) struct Row {
    /// 0 of the pool, 1 of its vdevs.
    depth: usize,
    name: String,
    state: String,
    /// Errors of reads and writes, and wrong blocks.
    counts: [u64; 3],
    remark: String,
}

impl Row {
    pub(super) fn new(depth: usize, name: impl Into<String>, state: impl Into<String>) -> Self {
        Self { depth, name: name.into(), state: state.into(), counts: [0; 3], remark: String::new() }
    }
}

/// A vdev's name: its kind, and its number.
pub(super) fn vdev_name(kind: &str, number: &str) -> String {
    format!("{kind}-{number}")
}

/// The state of a vdev of which so many of its members are not in use.
pub(super) fn vdev_state(kind: &str, members: usize, lost: usize) -> &'static str {
    let spare = match kind {
        "mirror" => members.saturating_sub(1),
        kind => kind.strip_prefix("raidz").and_then(|parity| parity.parse().ok()).unwrap_or(0),
    };
    match lost {
        0 => "ONLINE",
        lost if lost > spare => "UNAVAIL",
        _ => "DEGRADED",
    }
}

/// The word for a member's state, as zpool has it.
pub(super) fn device_state(state: &str) -> String {
    match state {
        "failed" => "FAULTED".to_owned(),
        "missing" => "UNAVAIL".to_owned(),
        "spare" => "AVAIL".to_owned(),
        other => other.to_uppercase(),
    }
}

/// A pool with its vdevs and devices.
pub(super) fn rows(name: &str, state: &str, pool: &PoolFacts) -> Vec<Row> {
    let own = Row { counts: [0, 0, pool.blocks_lost], ..Row::new(0, name, state) };
    let vdev_of = |device: &PoolDevice| device.member.split('.').next().unwrap_or_default().to_owned();
    let (spares, members): (Vec<_>, Vec<_>) = pool.devices.iter().cloned().partition(PoolDevice::is_spare);
    let vdevs = members.chunk_by(|one, next| vdev_of(one) == vdev_of(next));
    let of = |members: &[PoolDevice]| -> Vec<Row> {
        let Some(first) = members.first() else { return Vec::new() };
        let lost = members.iter().filter(|device| device.state != "online").count();
        // A device that stands for itself is its own vdev.
        let is_one = first.kind == "plain";
        let state = vdev_state(&first.kind, members.len(), lost);
        let vdev = (!is_one).then(|| Row::new(1, vdev_name(&first.kind, &vdev_of(first)), state));
        let depth = if is_one { 1 } else { 2 };
        vdev.into_iter().chain(members.iter().map(|device| row(depth, device))).collect()
    };
    let mut rows: Vec<Row> = std::iter::once(own).chain(vdevs.flat_map(of)).collect();
    if !spares.is_empty() {
        rows.push(Row::new(0, "spares", ""));
        rows.extend(spares.iter().map(|spare| row(1, spare)));
    }
    rows
}

fn row(depth: usize, device: &PoolDevice) -> Row {
    let name = device.path.clone().unwrap_or_else(|| device.member.clone());
    // One that could not be read is none that was wrong.
    let wrong = device.wrong.saturating_sub(device.failed_reads);
    let counts = [device.failed_reads, device.failed_writes, wrong];
    let remark = match (&device.io, device.mended) {
        (_, mended @ 1..) => format!("  ({mended} mended)"),
        (Some(io), 0) if io.slow > 0 => format!("  ({} times slow)", io.slow),
        _ => String::new(),
    };
    Row { counts, remark, ..Row::new(depth, name, device_state(&device.state)) }
}

/// The lines, below their heads.
pub(super) fn text(rows: &[Row], counted: bool) -> String {
    let named = |row: &Row| format!("{}{}", "  ".repeat(row.depth), shown(&row.name));
    let width = rows.iter().map(|row| named(row).chars().count()).max().unwrap_or(0).max(4);
    let mut text = match counted {
        true => {
            format!("        {:width$}  {:<9}{:>5}{:>6}{:>6}\n", "NAME", "STATE", "READ", "WRITE", "CKSUM")
        }
        false => String::new(),
    };
    for row in rows {
        if row.state.is_empty() {
            text.push_str(&format!("        {}\n", named(row)));
            continue;
        }
        let (name, state, [reads, writes, sums]) = (named(row), &row.state, row.counts);
        let line = match counted {
            true => format!("        {name:width$}  {state:<9}{reads:>5}{writes:>6}{sums:>6}{}", row.remark),
            false => format!("        {name:width$}  {state}"),
        };
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
