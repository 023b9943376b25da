//! Each device's state in the array: a superblock alone says its state when it was written last, and an older one may say
//! "active" of a role that another device has. `detail` and `cat` go by the same.

use brindle_md::assembly::{AssembleOptions, Candidate, assemble};

use super::MemberReport;
use crate::base::failure::Failure;
use crate::base::report::ArrayReport;
use crate::commands::detail::is_reportable;

/// Sets the part of each device in the array that they form together, if they form one.
pub(super) fn tell(members: &mut [MemberReport], candidates: &[Candidate]) {
    let sound: Vec<Candidate> = candidates.iter().filter(|one| one.superblock().is_ok()).cloned().collect();
    let usual = AssembleOptions::default();
    let assembly = match assemble(&sound, usual).map_err(Failure::from) {
        // A set that needs force is an array nevertheless.
        Err(why) if is_reportable(&why) => {
            assemble(&sound, AssembleOptions { force: true }).map_err(Failure::from)
        }
        other => other,
    };
    let Ok(assembly) = assembly else { return };
    let array = ArrayReport::of(&assembly);
    for (path, state) in array.states() {
        if let Some(member) = members.iter_mut().find(|member| member.path == path) {
            member.in_array = Some(state);
        }
    }
}
