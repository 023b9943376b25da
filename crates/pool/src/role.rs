//! Roles: the places that members have in a pool. Labels, uberblocks and the set of members count all members of a pool in one row; a role
//! says which vdev a member is of, and which of its members it is there, by the member's record in the config. No other place of this crate knows how one follows from the other. The set of members calls
//! its numbers roles: so does code that speaks to it.

use core::fmt;

use brindle_format::pool::{Label, MemberRecord, Vdev};

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
    /// The role of a member, by its number in the pool. One without a role has that number in no vdev.
    pub fn of(label: &Label, member: u16) -> Self {
        let role = label.members.get(usize::from(member)).and_then(|record| record.role);
        let (vdev, index) = role.unwrap_or((u16::MAX, member));
        Self { vdev: vdev.into(), index }
    }
}

/// The members of a vdev, in the order of their roles.
pub(crate) fn members_of(label: &Label, vdev: usize) -> Vec<u16> {
    let of = |(member, record): (u16, &MemberRecord)| {
        record.role.filter(|(of, _)| usize::from(*of) == vdev).map(|(_, role)| (role, member))
    };
    let mut roles: Vec<(u16, u16)> = (0..).zip(&label.members).filter_map(of).collect();
    roles.sort_unstable();
    roles.into_iter().map(|(_, member)| member).collect()
}

/// Of the members of a vdev, in the order of their roles, those that a test holds for, a bit each.
pub(crate) fn mask_of(members: &[u16], holds: impl Fn(u16) -> bool) -> u64 {
    (0..).zip(members).filter(|&(_, &member)| holds(member)).fold(0, |mask, (n, _)| mask | 1 << n)
}

/// Roles of a vdev that no member has, a bit each.
pub(crate) fn vacant_of(label: &Label, vdev: usize) -> u64 {
    let vacant: Vec<u16> = label.vacant_of(vdev as u16).collect();
    mask_of(&members_of(label, vdev), |member| vacant.contains(&member))
}

/// All roles of a vdev, a bit each.
pub(crate) fn all_of(vdev: &Vdev) -> u64 {
    (0..vdev.members).fold(0, |mask, n| mask | 1 << n)
}

#[cfg(test)]
mod tests {
    use brindle_format::pool::{Features, MemberState, Run, VdevKind};

    use super::*;

    #[test]
    fn roles_and_numbers_follow_from_the_records_of_members_in_any_order() {
        let vdev = |members| Vdev { kind: VdevKind::Mirror, parity: 1, unit: 20, members, units: 64 };
        let run = |vdev: u16| Run { first_segment: u32::from(vdev) * 64, units: 64, first_unit: 0, vdev };
        let member = |role: Option<(u16, u16)>| MemberRecord {
            id: uuid::Uuid::nil(),
            size: 0,
            role,
            units: 64,
            state: if role.is_some() { MemberState::InUse } else { MemberState::Gone },
        };
        let label = Label {
            pool: uuid::Uuid::nil(),
            name: "tank".to_owned(),
            created: 0,
            features: Features::default(),
            generation: 1,
            member: 0,
            vdevs: vec![vdev(3), vdev(2)],
            members: [Some((1, 1)), Some((0, 2)), None, Some((0, 0)), Some((1, 0)), Some((0, 1))]
                .map(member)
                .into(),
            runs: vec![run(0), run(1)],
        };
        let names: Vec<String> = (0..6).map(|member| Role::of(&label, member).to_string()).collect();
        assert_eq!(names, ["1.1", "0.2", "65535.2", "0.0", "1.0", "0.1"]);
        assert_eq!(members_of(&label, 0), [3, 5, 1]);
        assert_eq!(members_of(&label, 1), [4, 0]);
        assert_eq!(mask_of(&members_of(&label, 1), |member| member == 0), 0b10);
        assert_eq!(all_of(&label.vdevs[0]), 0b111);
    }
}
