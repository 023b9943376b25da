//! The arrays and pools of a server that share their spares.

use brindle_host::opening::SpareGroup;

use crate::base::failure::Failure;

/// The group of an array or a pool, if it is in one.
pub(super) fn of<'a>(groups: &'a [SpareGroup], array: &str) -> Option<&'a str> {
    groups.iter().find(|group| group.has(array)).map(|group| &*group.name)
}

/// Refuses groups with arrays that are not served, unless more of these may come, and arrays in several groups.
pub(super) fn check(groups: &[SpareGroup], arrays: &[&str], more_may_come: bool) -> Result<(), Failure> {
    for group in groups.iter().filter(|_| !more_may_come) {
        if let Some(unknown) = group.arrays.iter().find(|name| !arrays.contains(&&***name)) {
            return Err(Failure::Usage(format!(
                "--spare-group {}: there is no array or pool '{unknown}' among those that are to be served: {}",
                group.name,
                arrays.join(", ")
            )));
        }
    }
    for array in arrays {
        let mut having = groups.iter().filter(|group| group.has(array));
        if let (Some(one), Some(other)) = (having.next(), having.next()) {
            return Err(Failure::Usage(format!(
                "--spare-group: '{array}' can be in one group only, and is named in {} and {}",
                one.name, other.name
            )));
        }
    }
    Ok(())
}

/// Remarks on groups in which nothing is shared: other servers' arrays have no part in them.
pub(super) fn lone(groups: &[SpareGroup], arrays: &[&str]) -> Vec<String> {
    let count = |group: &SpareGroup| arrays.iter().filter(|array| group.has(array)).count();
    let lone = groups.iter().filter(|group| count(group) < 2);
    let said = |group: &SpareGroup| {
        format!(
            "--spare-group {}: it has fewer than two; spares are shared by arrays and pools of one server: serve them together",
            group.name
        )
    };
    lone.map(said).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::cli::Said;

    #[test]
    fn an_array_is_in_one_group_of_those_that_are_served() {
        let group = |word: &&str| word.parse::<Said<SpareGroup>>().unwrap().0;
        let groups = |words: &[&str]| words.iter().map(group).collect::<Vec<_>>();
        let two = groups(&["fast=a,b", "slow=c"]);
        check(&two, &["a", "b", "c", "d"], false).unwrap();
        assert_eq!(
            ["a", "b", "c", "d"].map(|name| of(&two, name)),
            [Some("fast"), Some("fast"), Some("slow"), None]
        );
        assert_eq!(of(&groups(&["all"]), "a"), Some("all"));
        let unknown = check(&groups(&["g=a,x"]), &["a", "b"], false).unwrap_err().to_string();
        assert!(unknown.contains("no array or pool 'x'") && unknown.contains("a, b"), "{unknown}");
        check(&groups(&["g=a,x"]), &["a", "b"], true).unwrap();
        let twice = check(&groups(&["all", "g=b"]), &["a", "b"], true).unwrap_err().to_string();
        assert!(twice.contains("'b'") && twice.contains("all and g"), "{twice}");
        let lone = |words: &[&str], arrays: &[&str]| super::lone(&groups(words), arrays).len();
        assert_eq!(
            [lone(&["all"], &["a"]), lone(&["all"], &["a", "b"]), lone(&["g=b"], &["a", "b"])],
            [1, 0, 1]
        );
        for wrong in ["", "=a", "g=", "g=a,,b"] {
            wrong.parse::<Said<SpareGroup>>().unwrap_err();
        }
    }
}
