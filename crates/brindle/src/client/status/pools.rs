//! A pool's report for people.

use brindle_host::status::{DamagedStatus, PoolDevice, PoolFacts, PoolStatus, ResilverStatus, ScanStatus};

use super::{clients, counters, push, shares_spares};
use crate::base::units::Bytes;
use crate::client::scan;

/// Ranges of volumes that are listed.
const RANGES: usize = 16;

/// A pool that is served.
pub(super) fn text(status: &PoolStatus) -> String {
    let PoolStatus { name, pid, connections, requests, errors, .. } = status;
    let mut text = format!("{name}: pool, {}\n", status.pool.state.join(", "));
    push(&mut text, format_args!("  serves {} (pid {pid})\n", status.doors.nbd.join(", ")));
    let (read, written) = (Bytes(status.bytes_read), Bytes(status.bytes_written));
    push(
        &mut text,
        format_args!(
            "  {connections} connections; {requests} requests, {read} read, {written} written, {errors} errors\n"
        ),
    );
    clients::connections(&mut text, status.refused, &status.clients);
    clients::reactors(&mut text, &status.doors.reactors);
    if let Some(seconds) = status.stale_for {
        push(&mut text, format_args!("  the thread does not answer: this is as it was {seconds:.1} s ago\n"));
    }
    amounts(&mut text, &status.pool);
    if let Some(group) = &status.spare_group {
        shares_spares(&mut text, group);
    }
    if !status.waits_for.is_empty() {
        let missing = status.waits_for.join(", ");
        push(
            &mut text,
            format_args!(
                "  members that were in use are missing: {missing}; it is read-only until they are here, unless its settings say \
                 degraded = true\n"
            ),
        );
    }
    if let Some(scan) = &status.pool.scan {
        push(&mut text, format_args!("  {}", scan::text(scan)));
    }
    repair(&mut text, &status.pool);
    damaged(&mut text, &status.pool);
    super::left_out(&mut text, &status.left_out);
    status.pool.devices.iter().for_each(|one| device(&mut text, one));
    for volume in &status.volumes {
        push(&mut text, format_args!("  {name}/{}  {}\n", volume.name, Bytes(volume.size)));
    }
    super::events(&mut text, &status.events);
    text
}

/// How much there is of it, and how much of that was wrong.
fn amounts(text: &mut String, pool: &PoolFacts) {
    let [capacity, sold, stored] = [pool.capacity, pool.sold, pool.stored].map(Bytes);
    push(text, format_args!("  {capacity} to be sold, {sold} sold, {stored} stored"));
    if pool.thin > 0 {
        let thin = Bytes(pool.thin);
        push(text, format_args!(", {thin} of it with less redundancy than its vdev is to give"));
    }
    text.push('\n');
    push(
        text,
        format_args!(
            "  map {} of {}, {:.1} % misses\n",
            Bytes(pool.map.bytes),
            Bytes(pool.map.limit),
            100.0 * pool.map.missed()
        ),
    );
    let wrong = [pool.blocks_wrong, pool.blocks_mended, pool.blocks_lost];
    if wrong != [0; 3] {
        let [found, mended, lost] = wrong;
        push(
            text,
            format_args!(
                "  {found} blocks were found wrong: {mended} mended; {lost} blocks of volumes are or were lost\n"
            ),
        );
    }
}

/// The work for members that are or were out of use, and when it is done.
fn repair(text: &mut String, pool: &PoolFacts) {
    // As a scan it is told already.
    let is_scan = matches!(pool.scan, Some(ScanStatus::Resilver(_)));
    let resilver = pool.resilver.as_ref().filter(|_| !is_scan);
    if let Some(ResilverStatus { position, total, speed, left }) = resilver {
        let (position, total) = (Bytes(*position), Bytes(*total));
        push(text, format_args!("  resilver: {position} of {total}"));
        if let Some(speed) = speed {
            push(text, format_args!(", {}/s", Bytes(*speed)));
        }
        if let Some(left) = left {
            push(text, format_args!(", {left} s left"));
        }
        text.push('\n');
    }
    if let Some(left) = pool.raises_in {
        push(
            text,
            format_args!(
                "  a member is lost: `brindle pool online` or `replace` it; in {left} s what lies on it is moved, as far as there is room\n"
            ),
        );
    }
}

fn device(text: &mut String, device: &PoolDevice) {
    let PoolDevice { member, kind, state, wrong, mended, .. } = device;
    let path = device.path.as_deref().unwrap_or("-");
    push(text, format_args!("  {member:>5}  {kind:<8}  {state:<8}  {path}\n"));
    if let Some(new) = &device.replaced_by {
        push(text, format_args!("{:27}is copied to {new}, which is to replace it\n", ""));
    }
    if let Some(io) = &device.io {
        push(text, format_args!("{:27}{}\n", "", counters(io)));
    }
    if *wrong > 0 {
        push(
            text,
            format_args!("{:27}{wrong} blocks of it were wrong or could not be read: {mended} mended\n", ""),
        );
    }
}

/// Where volumes are beyond repair.
fn damaged(text: &mut String, pool: &PoolFacts) {
    for DamagedStatus { volume, offset, length } in pool.damaged.iter().take(RANGES) {
        push(text, format_args!("  lost: {volume}: {length} bytes from byte {offset} on\n"));
    }
    if pool.damaged.len() > RANGES {
        let more = pool.damaged.len() - RANGES;
        push(text, format_args!("  lost: {more} ranges more, which `brindle status --json` lists\n"));
    }
    if let beyond @ 1.. = pool.damaged_beyond {
        push(
            text,
            format_args!("  lost: {beyond} blocks more, which are not listed: `brindle check` finds all\n"),
        );
    }
}
