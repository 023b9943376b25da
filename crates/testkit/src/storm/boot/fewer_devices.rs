//! A clean array is clean with fewer devices, too.

use brindle_md::assembly::{AssembleOptions, Assembly, Candidate, assemble};

use super::super::judge::Failure;

/// Whichever device is lost, if the array can do without, the others are enough, and clean.
pub(super) fn judge_fewer(found: &mut Vec<Candidate>, assembly: &Assembly) -> Result<(), Failure> {
    for at in 0..found.len() {
        let mut lost = assembly.degraded();
        lost.extend((0..).zip(&assembly.roles).filter_map(|(role, &n)| (n == Some(at)).then_some(role)));
        if !assembly.level().is_redundant() || !assembly.geometry.can_lose(&lost) {
            continue;
        }
        let without = found.remove(at);
        let rest = assemble(found, AssembleOptions::default());
        found.insert(at, without);
        if !rest.is_ok_and(|rest| rest.is_clean()) {
            return Err(Failure::NotEnough(lost));
        }
    }
    Ok(())
}
