//! Roles: the places that members have in a pool. Labels, uberblocks and the set of members count all members of a pool in one row; a role
//! says which vdev a member is of, and which of its members it is there. No other place of this crate knows how one follows from the other. The set of members calls
//! its numbers roles: so does code that speaks to it.

use core::fmt;
use core::ops::Range;

use brindle_format::pool::{Label, Vdev};

/// The place of a member in its pool, `VDEV.INDEX` in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Role {
    /// The number of its vdev.
    pub vdev: usize,
    /// Its place there.
    pub index: u16,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.vdev, self.index)
    }
}

impl From<(usize, u16)> for Role {
    fn from((vdev, index): (usize, u16)) -> Self {
        Self { vdev, index }
    }
}

impl Role {
    /// The role of a member, by its number in the pool.
    pub fn of(label: &Label, member: u16) -> Self {
        let vdev = label.vdevs.partition_point(|vdev| vdev.first_member <= member).saturating_sub(1);
        let first = label.vdevs.get(vdev).map_or(0, |vdev| vdev.first_member);
        Self { vdev, index: member - first }
    }
}

/// The number in the pool of a vdev's member.
pub(crate) fn member_of(vdev: &Vdev, index: u16) -> u16 {
    vdev.first_member + index
}

/// The members of a vdev, in the order of their roles.
pub(crate) fn members_of(vdev: &Vdev) -> Range<u16> {
    vdev.first_member..vdev.first_member + vdev.members
}

/// The members of a vdev that a test holds for, a bit each.
pub(crate) fn mask_of(vdev: &Vdev, holds: impl Fn(u16) -> bool) -> u64 {
    (0..).zip(members_of(vdev)).filter(|&(_, member)| holds(member)).fold(0, |mask, (n, _)| mask | 1 << n)
}

#[cfg(test)]
mod tests {
    use brindle_format::pool::{Features, VdevKind};

    use super::*;

    #[test]
    fn roles_and_numbers_follow_from_each_other() {
        let vdev = |first_member, members| Vdev {
            kind: VdevKind::Mirror,
            parity: 1,
            unit: 20,
            first_member,
            members,
            first_segment: 0,
            units: 64,
        };
        let label = Label {
            pool: uuid::Uuid::nil(),
            name: "tank".to_owned(),
            created: 0,
            features: Features::default(),
            member: 0,
            vdevs: vec![vdev(0, 3), vdev(3, 2)],
            members: Vec::new(),
        };
        let names: Vec<String> = (0..5).map(|member| Role::of(&label, member).to_string()).collect();
        assert_eq!(names, ["0.0", "0.1", "0.2", "1.0", "1.1"]);
        for (vdev, index) in [(0, 2), (1, 0), (1, 1)] {
            let member = member_of(&label.vdevs[vdev], index);
            assert_eq!(Role::of(&label, member), Role::from((vdev, index)));
        }
        assert_eq!(members_of(&label.vdevs[1]), 3..5);
        assert_eq!(mask_of(&label.vdevs[1], |member| member == 4), 0b10);
    }
}
