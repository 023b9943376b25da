//! The clients of an array or a pool, for people.

use brindle_host::status::{ClientStatus, ExportStatus, ReactorStatus, TargetStatus};

use super::push;
use crate::base::sync::bytes_per_second;
use crate::base::units::Bytes;

/// Connections that are listed one by one.
const SHOWN: usize = 16;

/// Whether and how it is offered, and to whom.
pub(super) fn text(text: &mut String, status: &ExportStatus) {
    if !status.exported {
        text.push_str("  offered to no client: `brindle export` offers it again\n");
    }
    let iops = status.limits.and_then(|limits| limits.iops).map(|iops| format!("{iops} requests a second"));
    let bandwidth = status.limits.and_then(|limits| limits.bandwidth);
    let bandwidth = bandwidth.map(|speed| bytes_per_second(speed.get() as f64));
    let limits: Vec<String> = iops.into_iter().chain(bandwidth).collect();
    if !limits.is_empty() {
        push(text, format_args!("  clients are granted {}\n", limits.join(" and ")));
    }
    if let Some(of) = &status.doors.iscsi {
        let TargetStatus { target, unit, registrants, requests, errors, .. } = of;
        let (read, written) = (Bytes(of.bytes_read), Bytes(of.bytes_written));
        let reserved = if of.reserved { "reserved" } else { "not reserved" };
        push(
            text,
            format_args!(
                "  iSCSI target {target}, unit {unit}: {reserved}, {registrants} registered; {requests} commands, {read} read, {written} written, {errors} errors\n"
            ),
        );
    }
    connections(text, status.refused, &status.clients);
}

/// The number of clients that were refused, and the others one by one.
pub(super) fn connections(text: &mut String, refused: u64, clients: &[ClientStatus]) {
    if refused > 0 {
        push(text, format_args!("  {refused} clients were refused by this server\n"));
    }
    for client in clients.iter().take(SHOWN) {
        let ClientStatus { protocol, address, requests, .. } = client;
        let names = client.proved.join(", ");
        let proved = if names.is_empty() { "proved nothing".to_owned() } else { format!("proved {names}") };
        let port = client.initiator.as_ref().map_or_else(String::new, |port| format!(", {port}"));
        let volume = client.volume.as_ref().map_or_else(String::new, |volume| format!(" to {volume}"));
        let only = if client.discovery { " (discovery)" } else { "" };
        let tls = if client.tls { " with TLS" } else { "" };
        let (read, written) = (Bytes(client.bytes_read), Bytes(client.bytes_written));
        push(
            text,
            format_args!(
                "    {protocol}{only}{volume} from {address}{tls}{port}, {proved}: {requests} requests, {read} read, {written} written\n"
            ),
        );
    }
    if clients.len() > SHOWN {
        push(text, format_args!("    and {} more\n", clients.len() - SHOWN));
    }
}

/// The reactors of a server that has several.
pub(super) fn reactors(text: &mut String, reactors: &[ReactorStatus]) {
    let Some((home, others)) = reactors.split_first() else { return };
    let percent = |of: &ReactorStatus| of.busy * 100.0;
    push(text, format_args!("  {} reactors: home {:.0} % busy", reactors.len(), percent(home)));
    for one in others {
        let ReactorStatus { sessions, forwarded, carried_out, held_for, .. } = one;
        push(
            text,
            format_args!(
                "; {:.0} %, {sessions} sessions, {carried_out} requests of its own, {forwarded} handed to home",
                percent(one)
            ),
        );
        if *held_for > 0 {
            push(text, format_args!(", held for {held_for} s: others wait for its answers"));
        }
    }
    push(text, format_args!("\n"));
}
