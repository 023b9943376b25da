//! Metrics of pools, their members and volumes.

use super::arrays::{count, io};
use super::family::{Families, Labels};
use crate::status::{PoolFacts, PoolStatus, ScanState, ScanStatus, SyncStatus};

/// States of members, all of them.
const MEMBER_STATES: [&str; 6] = ["online", "resilvering", "offline", "failed", "missing", "spare"];

/// States of pools; several may be true at once.
const STATES: [&str; 6] = ["online", "broken", "damaged", "degraded", "thin", "read-only"];

/// Kinds of what goes over a pool.
const SCANS: [&str; 2] = ["scrub", "resilver"];

pub(super) fn pool(to: &mut Families, status: &PoolStatus, full: bool) {
    let (name, pool) = (&*status.name, &status.pool);
    let labels: Labels<'_> = &[("pool", name)];
    to.gauge(
        "brindle_pool_info",
        "1, of a pool that is served.",
        &[("pool", name), ("uuid", &pool.uuid)],
        1.0,
    );
    let states = count(&STATES, pool.state.iter().map(|state| &**state));
    to.states("brindle_pool_state", "1 for each state that the pool is in.", (labels, "state"), states);
    // A spare that is not there is no member that is missing.
    let counted = pool.devices.iter().filter(|device| !device.is_spare() || device.state == "spare");
    let states = count(&MEMBER_STATES, counted.map(|device| &*device.state));
    to.states("brindle_pool_members", "Members of the pool by their state.", (labels, "state"), states);
    let gauges = [
        ("brindle_pool_capacity_bytes", "Bytes that volumes may have in all.", pool.capacity),
        ("brindle_pool_sold_bytes", "Bytes that volumes have.", pool.sold),
        ("brindle_pool_stored_bytes", "Bytes that are stored.", pool.stored),
        ("brindle_pool_thin_bytes", "Bytes with less redundancy than their vdev is to give.", pool.thin),
        ("brindle_pool_map_bytes", "Bytes of memory that the map takes.", pool.map.bytes),
        ("brindle_pool_map_limit_bytes", "The most that it may take.", pool.map.limit),
        ("brindle_pool_map_pages", "Pages that the map has.", pool.map.pages),
        ("brindle_pool_map_memory_pages", "Pages of the map that are in memory.", pool.map.in_memory),
    ];
    for (name, help, value) in gauges {
        to.gauge(name, help, labels, value as f64);
    }
    let counters = [
        (
            "brindle_pool_blocks_wrong_total",
            "Blocks that were found wrong, or could not be read.",
            pool.blocks_wrong,
        ),
        (
            "brindle_pool_blocks_repaired_total",
            "Of these those that were rebuilt in place.",
            pool.blocks_mended,
        ),
        ("brindle_pool_blocks_lost_total", "Blocks that no member has any more.", pool.blocks_lost),
        ("brindle_pool_map_lookups_total", "Blocks that were looked up in the map.", pool.map.lookups),
        ("brindle_pool_map_misses_total", "Of these those for which a page had to be read.", pool.map.misses),
        ("brindle_pool_requests_total", "Requests of clients.", status.requests),
        ("brindle_pool_read_bytes_total", "Bytes that clients have read.", status.bytes_read),
        ("brindle_pool_written_bytes_total", "Bytes that clients have written.", status.bytes_written),
        ("brindle_pool_errors_total", "Requests that failed.", status.errors),
    ];
    for (name, help, value) in counters {
        to.counter(name, help, labels, value);
    }
    let written = &pool.written;
    for (what, bytes) in [
        ("client", written.client),
        ("moved", written.moved),
        ("summaries", written.summaries),
        ("pages", written.pages),
        ("parity", written.parity),
    ] {
        let labels: Labels<'_> = &[("pool", name), ("for", what)];
        to.counter(
            "brindle_pool_log_written_bytes_total",
            "Bytes written to all members, by what for.",
            labels,
            bytes,
        );
    }
    scan(to, labels, pool);
    let help = "When the pool was made.";
    to.gauge("brindle_pool_created_timestamp_seconds", help, labels, pool.created as f64);
    for device in &pool.devices {
        let path = device.path.as_deref().unwrap_or_default();
        let labels: Labels<'_> = &[("pool", name), ("member", &device.member), ("path", path)];
        let help = "Blocks of it that were found wrong, or could not be read.";
        to.counter("brindle_pool_member_blocks_wrong_total", help, labels, device.wrong);
        let errors = f64::from(device.read_errors);
        to.gauge("brindle_pool_member_read_errors", "Read errors that count now.", labels, errors);
        if let Some(counters) = device.io.as_ref().filter(|_| full) {
            io(to, "brindle_pool_member", labels, counters);
        }
    }
    for volume in &status.volumes {
        let labels: Labels<'_> = &[("pool", name), ("volume", &volume.name)];
        to.gauge("brindle_volume_size_bytes", "Bytes of the volume.", labels, volume.size as f64);
        let own = format!("{}/{}", pool.name, volume.name);
        let damaged = pool.damaged.iter().filter(|range| range.volume == own).map(|range| range.length);
        let help = "Bytes of the volume that are known to be beyond repair.";
        to.gauge("brindle_volume_damaged_bytes", help, labels, damaged.sum::<u64>() as f64);
    }
}

/// The scan that goes over the pool, and the outcome of the last one.
fn scan(to: &mut Families, labels: Labels<'_>, pool: &PoolFacts) {
    let scan = pool.scan.as_ref();
    let sync = scan.and_then(ScanStatus::sync);
    let kind = |scan: &ScanStatus| match scan {
        ScanStatus::Scrub(_) => "scrub",
        ScanStatus::Resilver(_) => "resilver",
    };
    let running = count(&SCANS, scan.filter(|_| sync.is_some()).map(kind));
    let help = "1 for what goes over the pool now.";
    to.states("brindle_pool_scan", help, (labels, "scan"), running);
    let of = |value: fn(&SyncStatus) -> f64| sync.as_ref().map_or(0.0, value);
    let gauges = [
        ("brindle_pool_scan_done_bytes", "Where it is.", of(|sync| sync.position as f64)),
        ("brindle_pool_scan_total_bytes", "Where it ends.", of(|sync| sync.total as f64)),
        (
            "brindle_pool_scan_speed_bytes",
            "Bytes a second that it goes over.",
            of(|sync| sync.speed.unwrap_or_default() as f64),
        ),
        (
            "brindle_pool_scan_paused",
            "1 if it waits to be resumed.",
            of(|sync| f64::from(u8::from(sync.paused))),
        ),
    ];
    for (name, help, value) in gauges {
        to.gauge(name, help, labels, value);
    }
    if let Some(left) = sync.as_ref().and_then(|sync| sync.seconds_left) {
        to.gauge("brindle_pool_scan_left_seconds", "Time that it still takes.", labels, left as f64);
    }
    if let Some(at) = pool.scrubbed {
        let help = "When all of the pool was gone over last.";
        to.gauge("brindle_pool_last_scrub_timestamp_seconds", help, labels, at as f64);
    }
    if let Some(ScanState::Finished { errors, lost, healed, .. }) = scan.map(ScanStatus::state) {
        let gauges = [
            ("brindle_pool_last_scan_errors", "Blocks that its last scan left wrong.", *errors),
            ("brindle_pool_last_scan_lost_blocks", "Of these, blocks of volumes that are lost.", *lost),
            ("brindle_pool_last_scan_healed_blocks", "Blocks that it wrote anew.", *healed),
        ];
        for (name, help, value) in gauges {
            to.gauge(name, help, labels, value as f64);
        }
    }
}
