//! Paths that must cost the same whether few or many operations are in flight, and whether few or many members are there.

use super::callgrind::Count;

/// The ending of a path's name that marks it as the same path with many operations in flight.
const DEEP: &str = ", 2048 in flight";
/// Per cent of what the path takes otherwise, at most.
const MOST: u64 = 130;
/// In the sim the model of the drives is counted with the array: what that grows by is taken from these two.
const SIM: (&str, &str) = ("in the sim", "RAID 0 x12 in the sim, 4K write");

/// A write that touches three members of an array, by how many it has.
const NARROW: &str = "RAID 6 x10, 4K write of a few columns";
const WIDE: &str = "RAID 6 x100, 4K write of a few columns";
/// Instructions that each further member may add.
const A_MEMBER: u64 = 5;

/// The paths whose cost grows with the number in flight, or of members, in words.
pub(crate) fn complaints(counts: &[Count]) -> Vec<String> {
    let of = |name: &str| counts.iter().find(|count| count.name == name).map(|count| count.instructions);
    let growth = |name: &str| Some((of(&format!("{name}{DEEP}"))?, of(name)?));
    let grown = |count: &Count| {
        let name = count.name.strip_suffix(DEEP)?;
        let Some((deep, few)) = growth(name) else {
            return Some(format!("{name}: counted with many in flight only"));
        };
        let (more, less) = if name.contains(SIM.0) { growth(SIM.1).unwrap_or((1, 1)) } else { (1, 1) };
        let grows =
            u128::from(deep) * u128::from(less) * 100 > u128::from(few) * u128::from(more) * u128::from(MOST);
        grows.then(|| format!("{name}: {few}, and {deep} with 2048 in flight: more than {MOST} % of it"))
    };
    let wide = of(NARROW).zip(of(WIDE)).filter(|&(narrow, wide)| wide > narrow + 90 * A_MEMBER);
    let wide = wide.map(|(narrow, wide)| {
        format!("{WIDE}: {wide}, and {narrow} with 10: more than {A_MEMBER} for each member more")
    });
    counts.iter().filter_map(grown).chain(wide).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(counts: &[(&str, u64)]) -> Vec<String> {
        let counts = counts.iter().map(|&(name, instructions)| Count { name: name.to_owned(), instructions });
        complaints(&counts.collect::<Vec<_>>())
    }

    #[test]
    fn many_in_flight_may_cost_a_third_more_at_most() {
        assert!(reported(&[("a", 100), ("a, 2048 in flight", 130), ("b", 7)]).is_empty());
        assert_eq!(reported(&[("a", 100), ("a, 2048 in flight", 131)]).len(), 1);
        assert_eq!(reported(&[("a, 2048 in flight", 131)]).len(), 1);
    }

    #[test]
    fn a_member_more_may_cost_five_instructions() {
        assert!(reported(&[(NARROW, 8_000), (WIDE, 8_450)]).is_empty());
        assert_eq!(reported(&[(NARROW, 8_000), (WIDE, 8_451)]).len(), 1);
    }

    #[test]
    fn what_the_drives_of_the_sim_grow_by_is_not_held_against_the_array() {
        let sim = |few, deep| {
            reported(&[
                ("RAID 0 x12 in the sim, 4K write", 100),
                ("RAID 0 x12 in the sim, 4K write, 2048 in flight", 120),
                ("RAID 6 x12 in the sim, 4K write", few),
                ("RAID 6 x12 in the sim, 4K write, 2048 in flight", deep),
            ])
        };
        assert!(sim(1000, 1560).is_empty());
        assert_eq!(sim(1000, 1561).len(), 1);
    }
}
