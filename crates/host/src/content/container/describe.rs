//! Descriptions of a container's volumes, in the words of arrays.

use brindle_array::{DeviceUse, Flags, LeftOut};
use brindle_format::md::Uuid;
use brindle_layout::{Layout, Level};

use super::assembly::ContainerSet;
use super::volume::VolumePlan;
use crate::content::array::{ArrayDescription, DescribedDevice};
use crate::status::ArrayFacts;

/// The UUID of a volume, as reports of arrays write UUIDs: mdadm writes words of its own order.
pub(super) fn uuid_of(set: &ContainerSet, plan: &VolumePlan) -> Uuid {
    let Some(uuid) = set.newest.volume_uuid(plan.number) else { return Uuid::nil() };
    let mut bytes = uuid.0;
    bytes.chunks_exact_mut(4).for_each(<[u8]>::reverse);
    Uuid::from_bytes(bytes)
}

impl VolumePlan {
    /// The volume in the words of arrays.
    pub fn description(&self, set: &ContainerSet) -> ArrayDescription {
        let level = self.geometry.level();
        let missing = (0u16..).zip(&self.roles).filter(|(_, role)| role.member.is_none());
        let missing: Vec<u16> = missing.map(|(number, _)| number).collect();
        let is_degraded = self.roles.iter().any(|role| role.member.is_none() || role.is_rebuilt);
        let words = [(is_degraded, "degraded"), (self.in_doubt, "needs resync"), (true, "read-only")];
        let first = if self.in_doubt { "active" } else { "clean" };
        let words = words.into_iter().filter_map(|(is, word)| is.then_some(word));
        let uuid = set.newest.volume_uuid(self.number).map(|uuid| uuid.to_string());
        ArrayDescription {
            facts: ArrayFacts {
                uuid: uuid.unwrap_or_default(),
                name: self.name.clone(),
                metadata: "imsm".to_owned(),
                level: level.name().into(),
                layout: (self.geometry.layout() != Layout::None).then(|| self.geometry.layout().name()),
                chunk: (level != Level::Raid1).then(|| self.geometry.chunk()),
                size: self.size,
                component_size: level.is_redundant().then_some(self.used),
                raid_devices: self.roles.len(),
                limits: self.limits.iter().map(ToString::to_string).collect(),
                ..ArrayFacts::default()
            },
            uuid: uuid_of(set, self),
            geometry: self.geometry.clone(),
            component_size: self.used,
            events: set.newest.generation.into(),
            state: std::iter::once(first).chain(words).collect(),
            consistency_policy: if level.is_redundant() { "resync" } else { "none" },
            bitmap: None,
            in_doubt: self.in_doubt.then_some(0),
            resync_offset: self.in_doubt.then_some(0),
            missing,
            limits: self.limits.clone(),
            devices: self.devices(set),
        }
    }

    fn devices(&self, set: &ContainerSet) -> Vec<DescribedDevice> {
        let role = |at: usize| (0u16..).zip(&self.roles).find(|(_, role)| role.member == Some(at));
        let usage = |at: usize, generation: u32| match role(at) {
            Some((number, role)) if role.is_rebuilt => DeviceUse::Recovering { role: number, upto: 0 },
            Some((number, _)) => DeviceUse::Active { role: number },
            None if set.members[at].metadata.is_spare() => DeviceUse::Spare,
            None if generation.saturating_add(1) < set.newest.generation => {
                DeviceUse::LeftOut { role: None, why: LeftOut::Stale { events: generation.into() } }
            }
            None => DeviceUse::LeftOut { role: None, why: LeftOut::Faulty },
        };
        let device = |(at, member): (usize, &super::ContainerMember)| DescribedDevice {
            label: member.label.clone(),
            number: role(at).map_or(u32::MAX, |(_, role)| role.disk as u32),
            usage: usage(at, member.metadata.generation),
            events: member.metadata.generation.into(),
            size: member.size,
            data_offset: self.offset,
            super_offset: member.anchor,
            uuid: None,
            flags: Flags::default(),
        };
        set.members.iter().enumerate().map(device).collect()
    }
}
