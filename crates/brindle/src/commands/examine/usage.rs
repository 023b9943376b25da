//! Each device's state in the array: a superblock alone says its state when it was written last, and an older one may say
//! "active" of a role that another device has. `detail` and `cat` go by the same.

use brindle_md::assembly::Candidate;

use super::MemberReport;
use crate::base::report::ArrayReport;
use crate::devices::world::describe_any;

/// Sets the part of each device in the array that they form together, if they form one.
pub(super) fn tell(members: &mut [MemberReport], candidates: &[Candidate]) {
    let sound: Vec<Candidate> = candidates.iter().filter(|one| one.superblock().is_ok()).cloned().collect();
    // A set that needs force is an array nevertheless.
    let Ok(described) = describe_any(&sound) else { return };
    let array = ArrayReport::of(described);
    for (path, state) in array.states() {
        if let Some(member) = members.iter_mut().find(|member| member.path == path) {
            member.in_array = Some(state);
        }
    }
}
