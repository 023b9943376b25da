//! Arrays that nothing tells of but members that were cut: `detail` names them, and how they are read.

use std::path::PathBuf;

use super::broken::BrokenReport;
use crate::base::failure::Failure;
use crate::base::text::shell;
use crate::devices::world::{Cut, Set, World, WorldOptions};

/// The arrays that these devices are cut members of.
pub(super) fn arrays(names: &[PathBuf]) -> Result<Vec<(BrokenReport, Failure)>, Failure> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut world = World::new(WorldOptions { cut: Cut::Known, ..WorldOptions::LOOK })?;
    let sets = world.open_fit(names)?.by_array();
    let told = |set: &Set| {
        let why = Failure::Refused(way(set));
        BrokenReport::of(set, &why, Vec::new()).map(|report| (report, why))
    };
    Ok(sets.iter().filter_map(told).collect())
}

/// The reason that it can't be had as it is, with the command that reads it as far as it goes.
fn way(set: &Set) -> String {
    let names: Vec<&str> = set.members.iter().map(|named| named.label.as_str()).collect();
    let words: Vec<String> = names.iter().map(|name| shell(name)).collect();
    format!(
        "{}: cut before the end of the data, and no whole member was named; brindle cat --force -o FILE {} reads as far as that goes",
        names.join(", "),
        words.join(" ")
    )
}
