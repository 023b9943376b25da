//! Metrics of arrays, of their members, exports and clients.

use std::collections::BTreeMap;

use super::family::{Families, Labels};
use crate::status::{
    ArrayStatus, ClientStatus, DeviceStatus, DoorStatus, ExportStatus, IoStatus, SyncStatus,
};

/// States of members: all of them are always reported.
const MEMBER_STATES: [&str; 9] =
    ["in-sync", "recovering", "replacement", "spare", "journal", "failed", "faulty", "stale", REMOVED];

/// The state of a role for which there is no device at all.
const REMOVED: &str = "removed";

/// States of arrays; several may be true at once.
const STATES: [&str; 8] =
    ["clean", "active", "degraded", "broken", "needs resync", "resyncing", "reshaping", "read-only"];

/// Processes over arrays, as the kernel calls them.
const ACTIONS: [&str; 4] = ["check", "recover", "repair", "resync"];

/// Events at which all redundancy has been compared.
const COMPARED: [&str; 2] = ["check-ended", "repair-ended"];

/// Members that are reported by their names where not all is asked for; the others of an array are reported as one.
const MOST_MEMBERS: usize = 24;

/// All members that are not reported by their names, and all clients that are not by their addresses.
const OTHERS: &str = "others";

/// Clients that are reported by their address; all others of an array are reported as one.
const MOST_CLIENTS: usize = 64;

/// Writes the metrics of an export, its array and the arrays nested in it. All are served since `since`, in seconds
/// since 1970. With `full` histograms are among them, clients, and all that is counted of each member.
pub(super) fn export(to: &mut Families, export: &ExportStatus, since: f64, full: bool) {
    array(to, &export.name, &export.array, full);
    for nested in &export.arrays {
        let label = nested.label.as_deref().unwrap_or_default();
        array(to, &format!("{}/{label}", export.name), nested, full);
    }
    let labels: Labels<'_> = &[("array", &export.name)];
    if let Some(last) = &export.last_action {
        let labels: Labels<'_> = &[("array", &export.name), ("action", &last.action)];
        let sectors = last.findings.mismatch_cnt as f64;
        to.gauge(
            "brindle_array_mismatch_sectors",
            "Sectors of 512 bytes that disagreed in the last process.",
            labels,
            sectors,
        );
        let bytes = last.findings.unreadable as f64;
        to.gauge(
            "brindle_array_unreadable_bytes",
            "Bytes that could not be read in the last process.",
            labels,
            bytes,
        );
    }
    let help = "When its server began, in seconds since 1970.";
    to.gauge("brindle_array_served_since_timestamp_seconds", help, labels, since);
    let compared =
        export.events.iter().rev().find(|event| event.array.is_none() && COMPARED.contains(&&*event.kind));
    if let Some(event) = compared {
        let help = "When all redundancy was compared last in this run, in seconds since 1970.";
        to.gauge("brindle_array_last_check_timestamp_seconds", help, labels, event.at as f64);
    }
    let offered = f64::from(u8::from(export.exported));
    to.gauge(
        "brindle_export_offered",
        "1 if clients may come, 0 if the array was unexported.",
        labels,
        offered,
    );
    export.doors.uses.iter().for_each(|one| door(to, &export.name, one, full));
    if full {
        clients(to, &export.name, &export.clients);
    }
}

fn door(to: &mut Families, array: &str, one: &DoorStatus, full: bool) {
    let labels: Labels<'_> = &[("array", array), ("protocol", &one.protocol)];
    to.gauge("brindle_export_connections", "Connections of clients.", labels, one.connections as f64);
    to.counter("brindle_export_requests_total", "Requests of clients.", labels, one.requests);
    to.counter("brindle_export_read_bytes_total", "Bytes that clients have read.", labels, one.bytes_read);
    let help = "Bytes that clients have written.";
    to.counter("brindle_export_written_bytes_total", help, labels, one.bytes_written);
    to.counter("brindle_export_errors_total", "Requests that failed.", labels, one.errors);
    if !full {
        return;
    }
    let help = "Time that some requests took that read.";
    to.latencies("brindle_export_read_latency_seconds", help, labels, &one.read_latency);
    let help = "Time that some other requests took.";
    to.latencies("brindle_export_write_latency_seconds", help, labels, &one.write_latency);
}

fn array(to: &mut Families, name: &str, array: &ArrayStatus, full: bool) {
    let labels: Labels<'_> = &[("array", name)];
    let facts = &array.facts;
    let about: Labels<'_> = &[
        ("array", name),
        ("uuid", &facts.uuid),
        ("level", &facts.level),
        ("layout", facts.layout.as_deref().unwrap_or_default()),
        ("metadata", &facts.metadata),
    ];
    to.gauge("brindle_array_info", "1, of an array that is served, with what it is.", about, 1.0);
    to.gauge("brindle_array_size_bytes", "Bytes of the array.", labels, facts.size as f64);
    let members = facts.raid_devices as f64;
    to.gauge("brindle_array_members_required", "Members of the array when it is whole.", labels, members);
    let states = count(&MEMBER_STATES, states_of_members(array));
    to.states("brindle_array_members", "Devices of the array by their state.", (labels, "state"), states);
    let states = count(&STATES, array.state.iter().map(|state| &**state));
    to.states("brindle_array_state", "1 for each state that the array is in.", (labels, "state"), states);
    // A broken array has less than no redundancy left.
    let left = array.redundancy_left.map_or(-1.0, f64::from);
    let help = "Members that may still be lost, whichever they are; -1 if data are lost.";
    to.gauge("brindle_array_redundancy_left", help, labels, left);
    let exposed = f64::from(u8::from(array.exposed));
    let help = "1 if a crash in mid-write would leave blocks of lost members in doubt.";
    to.gauge("brindle_array_exposed", help, labels, exposed);
    to.gauge(
        "brindle_array_superblock_events",
        "The event count of the superblocks.",
        labels,
        array.events as f64,
    );
    if let Some(bitmap) = &array.bitmap {
        let dirty = bitmap.dirty as f64 * bitmap.chunk as f64;
        to.gauge(
            "brindle_array_bitmap_dirty_bytes",
            "Bytes that the write-intent bitmap has set.",
            labels,
            dirty,
        );
        let failed = f64::from(u8::from(bitmap.failed));
        to.gauge("brindle_array_bitmap_failed", "1 if the file of the bitmap is out of use.", labels, failed);
    }
    process(to, labels, array.sync.as_ref());
    if full {
        array.devices.iter().for_each(|device| member(to, name, device));
    } else {
        errors(to, name, &array.devices);
    }
}

fn process(to: &mut Families, labels: Labels<'_>, sync: Option<&SyncStatus>) {
    let running = count(&ACTIONS, sync.map(|sync| &*sync.action));
    let help = "1 for the process that goes over the array.";
    to.states("brindle_array_process", help, (labels, "action"), running);
    let of = |value: fn(&SyncStatus) -> f64| sync.map_or(0.0, value);
    to.gauge("brindle_array_process_done_bytes", "Where it is.", labels, of(|sync| sync.position as f64));
    to.gauge("brindle_array_process_total_bytes", "Where it ends.", labels, of(|sync| sync.total as f64));
    let speed = of(|sync| sync.speed.unwrap_or_default() as f64);
    to.gauge("brindle_array_process_speed_bytes", "Bytes a second that it goes over.", labels, speed);
    let paused = of(|sync| f64::from(u8::from(sync.paused)));
    to.gauge("brindle_array_process_paused", "1 if it waits to be resumed.", labels, paused);
    if let Some(left) = sync.and_then(|sync| sync.seconds_left) {
        to.gauge("brindle_array_process_left_seconds", "Time that it still takes.", labels, left as f64);
    }
}

fn member(to: &mut Families, array: &str, device: &DeviceStatus) {
    let role = device.role.map_or_else(String::new, |role| role.to_string());
    let labels: Labels<'_> = &[("array", array), ("member", &device.path), ("role", &role)];
    io(to, "brindle_member", labels, &device.io);
    if let Some(errors) = device.read_errors {
        to.gauge("brindle_member_read_errors", "Read errors that count now.", labels, f64::from(errors));
    }
    let bad = device.bad_blocks.as_ref().map_or(0, |bad| bad.bytes);
    to.gauge(
        "brindle_member_bad_bytes",
        "Bytes that can't be read until they are written anew.",
        labels,
        bad as f64,
    );
}

/// Counts that tell a member which goes bad from the others. Of many members the last ones are counted as one.
fn errors(to: &mut Families, array: &str, devices: &[DeviceStatus]) {
    let named = if devices.len() > MOST_MEMBERS { MOST_MEMBERS - 1 } else { devices.len() };
    let (named, others) = devices.split_at(named);
    let mut count = |member: &str, role: &str, all: &[DeviceStatus]| {
        let labels: Labels<'_> = &[("array", array), ("member", member), ("role", role)];
        let sum = |of: fn(&IoStatus) -> u64| all.iter().map(|device| of(&device.io)).sum();
        to.counter("brindle_member_errors_total", ERRORS, labels, sum(|io| io.errors));
        to.counter("brindle_member_corrected_total", CORRECTED, labels, sum(|io| io.corrected));
    };
    for device in named {
        let role = device.role.map_or_else(String::new, |role| role.to_string());
        count(&device.path, &role, std::slice::from_ref(device));
    }
    if !others.is_empty() {
        count(OTHERS, "", others);
    }
}

/// The meaning of counters that are always reported.
const ERRORS: &str = "Operations that failed.";
const CORRECTED: &str = "Places that were written anew after they could not be read.";

/// Counters of operations of a member.
pub(super) fn io(to: &mut Families, prefix: &str, labels: Labels<'_>, io: &IoStatus) {
    let counters = [
        ("reads_total", "Reads.", io.reads),
        ("writes_total", "Writes.", io.writes),
        ("flushes_total", "Flushes.", io.flushes),
        ("read_bytes_total", "Bytes read.", io.bytes_read),
        ("written_bytes_total", "Bytes written.", io.bytes_written),
        ("errors_total", ERRORS, io.errors),
        ("corrected_total", CORRECTED, io.corrected),
        ("slow_total", "Times at which the others began to answer for it.", io.slow),
        ("given_up_total", "Operations that were given up.", io.given_up),
        ("late_total", "Operations that were answered after they were given up.", io.late),
    ];
    for (name, help, value) in counters {
        to.counter(&format!("{prefix}_{name}"), help, labels, value);
    }
    to.gauge(
        &format!("{prefix}_in_flight"),
        "Operations that have no answer yet.",
        labels,
        io.in_flight as f64,
    );
    let oldest = io.oldest.unwrap_or_default();
    to.gauge(&format!("{prefix}_oldest_seconds"), "How long the oldest of them waits.", labels, oldest);
    to.latencies(
        &format!("{prefix}_read_latency_seconds"),
        "Time that reads took.",
        labels,
        &io.read_latency,
    );
    to.latencies(
        &format!("{prefix}_write_latency_seconds"),
        "Time that writes took.",
        labels,
        &io.write_latency,
    );
}

/// Clients by protocol and address, without ports: clients of one address count as one, and so do all beyond the first ones.
fn clients(to: &mut Families, array: &str, clients: &[ClientStatus]) {
    let mut all: BTreeMap<(&str, &str), [u64; 5]> = BTreeMap::new();
    for client in clients.iter().filter(|client| !client.discovery) {
        let address = without_port(&client.address);
        let known = all.contains_key(&(&*client.protocol, address));
        let address = if known || all.len() < MOST_CLIENTS { address } else { OTHERS };
        let counts = all.entry((&*client.protocol, address)).or_default();
        let more = [1, client.requests, client.bytes_read, client.bytes_written, client.errors];
        counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
    }
    for ((protocol, address), [connections, requests, read, written, errors]) in all {
        let labels: Labels<'_> = &[("array", array), ("protocol", protocol), ("address", address)];
        let gauges = [
            ("brindle_client_connections", "Connections of a client.", connections),
            ("brindle_client_requests", "Requests of its connections of now.", requests),
            ("brindle_client_read_bytes", "Bytes that they have read.", read),
            ("brindle_client_written_bytes", "Bytes that they have written.", written),
            ("brindle_client_errors", "Requests of theirs that failed.", errors),
        ];
        for (name, help, value) in gauges {
            to.gauge(name, help, labels, value as f64);
        }
    }
}

/// An address without its port.
fn without_port(address: &str) -> &str {
    match address.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => {
            host.trim_start_matches('[').trim_end_matches(']')
        }
        _ => address,
    }
}

/// How often each of the words stands in `found`.
pub(super) fn count<'a>(
    words: &[&'static str],
    found: impl IntoIterator<Item = &'a str>,
) -> Vec<(&'static str, usize)> {
    let found: Vec<&str> = found.into_iter().collect();
    words.iter().map(|word| (*word, found.iter().filter(|other| *other == word).count())).collect()
}

/// The states of all devices of an array, and of each role that has none.
fn states_of_members(array: &ArrayStatus) -> Vec<&str> {
    let has = |role: &&u16| array.devices.iter().any(|device| device.role == Some(**role));
    let empty = array.missing.iter().filter(|role| !has(role)).count();
    let states = array.devices.iter().map(|device| &*device.state);
    states.chain(std::iter::repeat_n(REMOVED, empty)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> ClientStatus {
        ClientStatus {
            protocol: "nbd".into(),
            address: address.to_owned(),
            tls: false,
            proved: Vec::new(),
            volume: None,
            discovery: false,
            initiator: None,
            seconds: 1.0,
            outstanding: 0,
            requests: 1,
            bytes_read: 2,
            bytes_written: 3,
            errors: 0,
        }
    }

    #[test]
    fn addresses_are_told_without_their_ports() {
        for (address, plain) in [("10.0.0.1:7", "10.0.0.1"), ("[::1]:7", "::1"), ("local", "local")] {
            assert_eq!(without_port(address), plain);
        }
    }

    #[test]
    fn many_clients_are_few_labels() {
        let mut many: Vec<_> = (0..100).map(|n| client(&format!("10.0.0.{n}:1"))).collect();
        many.extend((0..100).map(|port| client(&format!("10.0.0.0:{port}"))));
        let mut families = Families::default();
        clients(&mut families, "data", &many);
        let requests = families.0.iter().find(|family| family.name == "brindle_client_requests").unwrap();
        assert_eq!(requests.samples.len(), MOST_CLIENTS + 1);
        let sum: f64 = requests.samples.iter().map(|sample| sample.value).sum();
        assert!((sum - 200.0).abs() < 0.5);
        assert!(requests.samples.iter().any(|sample| sample.labels[2].1 == OTHERS));
    }

    #[test]
    fn many_members_are_few_series_and_none_is_left_out() {
        let member = |n: u64| {
            let io = IoStatus { errors: n, corrected: 1, ..IoStatus::default() };
            DeviceStatus { path: format!("/dev/sd{n}"), io, ..DeviceStatus::default() }
        };
        for (count, series) in [(3, 3), (24, 24), (25, 24), (200, 24)] {
            let mut families = Families::default();
            errors(&mut families, "data", &(0..count).map(member).collect::<Vec<_>>());
            let of = |name| families.0.iter().find(|family| family.name == name).unwrap();
            let errors = &of("brindle_member_errors_total").samples;
            assert_eq!(errors.len(), series, "{count} members");
            assert_eq!(errors.iter().map(|one| one.value as u64).sum::<u64>(), (0..count).sum::<u64>());
            assert_eq!(errors.iter().any(|one| one.labels[1].1 == OTHERS), count > 24);
            let corrected = &of("brindle_member_corrected_total").samples;
            assert_eq!(corrected.iter().map(|one| one.value as u64).sum::<u64>(), count);
        }
    }
}
