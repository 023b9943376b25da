//! Opens a volume of a container as an array that is only read.

use std::future::ready;

use brindle_array::ledger::{Bears, Description, Failed, KnownDevice, Ledger, Recording, Refusals, State};
use brindle_array::{Access, Array, DeviceUse, OpenConfig, Opening};
use brindle_io::{Io, MemberId};
use brindle_members::members::{Device, Flags, Members};

use super::assembly::ContainerSet;
use super::describe::uuid_of;
use super::volume::VolumePlan;

/// Opens a volume. `ids` are the reactor's numbers of the container's members, in their order. Nothing is written, whatever `config` says.
pub fn open_volume(
    io: &Io,
    set: &ContainerSet,
    plan: &VolumePlan,
    ids: &[MemberId],
    config: &OpenConfig,
) -> Array {
    let io = io.owned();
    let id = |at: Option<usize>| at.and_then(|at| ids.get(at)).copied();
    let device = |at: Option<usize>| Some(Device { id: id(at)?, data_offset: plan.offset });
    let members = Members::new(&io, plan.roles.iter().map(|role| device(role.member)));
    let mut devices = Vec::new();
    for (number, role) in (0u16..).zip(&plan.roles) {
        let Some((at, id)) = role.member.zip(id(role.member)) else { continue };
        if role.is_rebuilt {
            members.recovered_to(number, 0);
        }
        if plan.geometry.level().is_redundant() {
            members.set_bad(number, role.bad.clone());
        }
        let usage = if role.is_rebuilt {
            DeviceUse::Recovering { role: number, upto: 0 }
        } else {
            DeviceUse::Active { role: number }
        };
        let label = set.members[at].label.clone();
        devices.push(KnownDevice { label, id, usage, failure: None, flags: Flags::default() });
    }
    let ledger = Box::new(ContainerRecord {
        in_doubt: plan.in_doubt,
        described: Description {
            uuid: uuid_of(set, plan),
            name: plan.name.clone(),
            format: "imsm".to_owned(),
            component_size: plan.used,
            events: set.newest.generation.into(),
            limits: plan.limits.clone(),
            devices,
            ..Description::default()
        },
    });
    let config = OpenConfig { access: Access::ReadOnly, ..config.clone() };
    Array::begin(&io, Opening { geometry: plan.geometry.clone(), border: None, members, ledger }, &config)
}

/// The record of a volume that is only read: what its container says, and nothing is added to that.
struct ContainerRecord {
    in_doubt: bool,
    described: Description,
}

impl Ledger for ContainerRecord {
    fn in_doubt(&self) -> Option<u64> {
        self.in_doubt.then_some(0)
    }

    fn record<'a>(&'a self, _: State, _: Bears<'a>) -> Recording<'a> {
        Box::pin(ready(Refusals::new()))
    }

    fn lose(&self, _: MemberId, _: Failed) {}

    fn label(&self, device: MemberId) -> Option<String> {
        let known = self.described.devices.iter().find(|known| known.id == device)?;
        Some(known.label.clone())
    }

    fn describe(&self) -> Description {
        self.described.clone()
    }
}
