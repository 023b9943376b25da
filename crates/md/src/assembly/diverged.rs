//! Detects members that were not written together: copies of an array's members beside the originals.
//!
//! An update writes the same time into all superblocks, and the next update begins only after it. So members in use
//! with one event count have one time (`md_update_sb` and `super_1_sync` in the kernel's `md.c`). The same holds for
//! Brindle, members that were brought up to date later included. Where the times differ, each count was reached in
//! another history, and what the members hold does not fit together. Nothing follows from equal times, which are in
//! seconds. Nor can a member that is one event behind be distinguished from one that a crash left so.
//!
//! Spares may sleep through updates, and what was left out does not count. A torn superblock has the count of an update
//! that may be rewritten, with another time.

use std::collections::BTreeMap;

use brindle_format::md::Timestamp;

use super::choose::{Chosen, Picked, filled};

/// Members of one event count that were not written together, by the time of their last update: the largest group first.
/// Empty if there are none.
pub(super) fn groups(picked: &[Picked<'_>], chosen: &Chosen<'_>) -> Vec<Vec<String>> {
    let mut counts: BTreeMap<u64, BTreeMap<Timestamp, Vec<String>>> = BTreeMap::new();
    for (device, usage) in picked.iter().zip(&chosen.usage) {
        if filled(usage).is_some() && !device.torn {
            let together = counts.entry(device.superblock.events).or_default();
            together.entry(device.superblock.updated).or_default().push(device.label.to_owned());
        }
    }
    let Some(apart) = counts.into_values().find(|together| together.len() > 1) else { return Vec::new() };
    let mut groups: Vec<Vec<String>> = apart.into_values().collect();
    for group in &mut groups {
        group.sort();
    }
    groups.sort_by_key(|group| (core::cmp::Reverse(group.len()), group.clone()));
    groups
}
