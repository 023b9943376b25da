//! An open channel: the ports of an array's members, and the plan by which they are asked.

use core::cell::Cell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use brindle_io::{Duration, Io, MemberId, MemberKind};
use brindle_layout::Family;
use brindle_members::direct::Stretch;
use brindle_members::events::Cause;
use brindle_members::flushes::Flushes;
use brindle_members::lock::RangeLock;
use brindle_members::members::{Dependence, Device, Members};
use brindle_members::patience::Patience;
use brindle_members::set::{MemberSet, Owner, Recording, Treatment};
use brindle_volume::VolumeError;

use super::leases::HeldLeases;
use crate::channels::shared::{ChannelPlan, Given, PlannedMember};
use crate::data::{mirrored, parity, striped};

/// An open channel.
pub(super) struct OpenChannel {
    pub(super) set: MemberSet,
    pub(super) plan: Arc<ChannelPlan>,
    pub(super) ports: Vec<Port>,
    /// `None`: home writes.
    pub(super) leases: Option<HeldLeases>,
    /// Bytes that writes of this reactor have.
    pub(super) rows: RangeLock,
    is_closed: Cell<bool>,
    io: Io,
}

/// A port of a member.
pub(super) struct Port {
    pub(super) id: MemberId,
    /// The number by which home knows the device.
    pub(super) device: MemberId,
    /// The requests that it has carried out and that are counted already.
    pub(super) counted: Cell<Given>,
    /// Writes that were given up may still land: the number under which home was told.
    pub(super) orphans: Cell<Option<u64>>,
    /// Home knows that a write waits.
    pub(super) waits: Cell<bool>,
}

impl Port {
    /// The number of the device, as home is told.
    pub(super) fn number(&self) -> u32 {
        match self.device.kind() {
            MemberKind::Device(number) => number,
            MemberKind::Served(_) => u32::MAX,
        }
    }
}

impl OpenChannel {
    /// `None` if a port can't be had: home does all then.
    pub(super) fn new(io: &Io, plan: Arc<ChannelPlan>) -> Option<Self> {
        let mut ports: Vec<Port> = Vec::new();
        for member in &plan.members {
            let Some(id) = io.open_port(&member.handed) else {
                ports.iter().for_each(|port| io.close_port(port.id));
                return None;
            };
            let counted = Cell::new(Given::of(&io.counters(id)));
            let (orphans, waits) = (Cell::default(), Cell::default());
            ports.push(Port { id, device: member.id, counted, orphans, waits });
        }
        let device = |(port, member): (&Port, &PlannedMember)| {
            Some(Device { id: port.id, data_offset: member.data_offset })
        };
        let members = Members::new(io, ports.iter().zip(&plan.members).map(device));
        let how = Treatment {
            dependence: Dependence { redundant: false, coupled: false },
            patience: Patience::default(),
            waits_for_space: false,
            observed: false,
            scratch: 0,
        };
        let nobody: Weak<dyn Owner> = Weak::<Nobody>::new();
        let set = MemberSet::new(io, Rc::new(members), Flushes::new(io), &how, nobody);
        let leases = plan.writes.as_ref().and_then(|writes| HeldLeases::new(plan.limits.size, writes.part));
        let (rows, is_closed) = (RangeLock::new(io), Cell::new(false));
        Some(Self { set, plan, ports, leases, rows, is_closed, io: io.clone() })
    }

    /// Has ports end once what they were asked has completed.
    pub(super) fn close(&self) {
        if !self.is_closed.replace(true) {
            self.ports.iter().for_each(|port| self.io.close_port(port.id));
        }
    }

    /// The member and offset that hold a byte of the array.
    #[inline(always)]
    pub(super) fn place(&self, at: u64) -> Option<Stretch> {
        let members = &self.set.members;
        match self.plan.geometry.family() {
            Family::Striped(map) => striped::place(map, members, at),
            Family::Mirrored(map) => {
                mirrored::place(map, &self.plan.geometry, members, at, self.plan.first_copy)
            }
            Family::Parity(map) => parity::place(map, members, at),
        }
    }

    /// The patience that the oldest read of a port is beyond, by the ages of those of all.
    pub(super) fn overdue(&self, ages: &[Option<Duration>], at: usize) -> Option<Duration> {
        let (age, plan) = (ages[at]?, &self.plan);
        let others = || ages.iter().enumerate().filter(|(other, _)| *other != at).filter_map(|(_, age)| *age);
        let early = plan.early.filter(|&early| age >= early && others().all(|other| other * 2 < age));
        early.or(Some(plan.patience).filter(|&patience| age >= patience))
    }

    pub(super) fn tick(&self) -> Duration {
        (self.plan.early.unwrap_or(self.plan.patience) / 4)
            .clamp(Duration::from_millis(10), Duration::from_millis(250))
    }
}

impl Drop for OpenChannel {
    fn drop(&mut self) {
        self.close();
    }
}

/// Owns no members: nothing is decided in a channel.
enum Nobody {}

impl Owner for Nobody {
    fn set(&self) -> &MemberSet {
        match *self {}
    }

    fn can_lose(&self, _: &[u16]) -> bool {
        match *self {}
    }

    fn begin_failing(&self, _: u16, _: Cause) -> Result<Recording, VolumeError> {
        match *self {}
    }

    fn unrecorded(&self) -> Option<Recording> {
        match *self {}
    }

    fn answers_for_members(&self) -> bool {
        match *self {}
    }
}
