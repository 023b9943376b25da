//! An open channel: the ports of an array's members, and the plan by which they are asked.

use core::cell::Cell;
use core::ops::Range;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use brindle_io::{Duration, Io, MemberId, MemberKind};
use brindle_layout::Family;
use brindle_members::direct::Stretch;
use brindle_members::lock::RangeLock;
use brindle_members::members::{Dependence, Device, Members};

use super::leases::HeldLeases;
use crate::channels::Channels;
use crate::channels::shared::{ChannelPlan, Given, Unit, units};
use crate::config::{Access, OpenConfig};
use crate::core::Core;
use crate::data::parity::Parity;
use crate::data::{mirrored, parity, striped};
use crate::events::Events;
use crate::home::Home;
use crate::intent::Intent;
use crate::keeper::{Keeper, KeptRecord, SyncMap};
use crate::ledger::{Nothing, State};

/// An open channel.
pub(super) struct OpenChannel {
    pub(super) core: Rc<Core>,
    /// Writes rows with parity.
    pub(super) parity: Option<Parity>,
    pub(super) plan: Arc<ChannelPlan>,
    pub(super) ports: Vec<Port>,
    /// `None`: home writes.
    pub(super) leases: Option<HeldLeases>,
    /// Bytes that writes of this reactor have, where there are copies.
    pub(super) rows: RangeLock,
    /// No other of the channel has it.
    pub(super) number: usize,
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
    pub(super) fn new(
        io: &Io,
        plan: Arc<ChannelPlan>,
        number: usize,
        home: impl FnOnce(Weak<Self>) -> Rc<dyn Home>,
    ) -> Option<Rc<Self>> {
        let (mut ports, mut devices): (Vec<Port>, Vec<Option<Device>>) = Default::default();
        for member in &plan.members {
            let Some(member) = member else {
                devices.push(None);
                continue;
            };
            let Some(id) = io.open_port(&member.handed) else {
                ports.iter().for_each(|port| io.close_port(port.id));
                return None;
            };
            let counted = Cell::new(Given::of(&io.counters(id)));
            let (orphans, waits) = (Cell::default(), Cell::default());
            ports.push(Port { id, device: member.id, counted, orphans, waits });
            devices.push(Some(Device { id, data_offset: member.data_offset }));
        }
        let members = Members::new(io, devices);
        let leases = plan.writes.as_ref().and_then(|writes| HeldLeases::new(plan.limits.size, writes.part));
        let (rows, is_closed) = (RangeLock::new(io), Cell::new(false));
        Some(Rc::new_cyclic(|open| {
            let core = channel_core(io, &plan, members, home(open.clone()));
            let parity = match plan.geometry.family() {
                Family::Parity(map) if plan.writes.is_some() => Some(Parity::new(&core, map, None)),
                _ => None,
            };
            Self { core, parity, plan, ports, leases, rows, number, is_closed, io: io.clone() }
        }))
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
        let members = &self.core.members;
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

    /// The units of buckets that a range which is not empty is in; `None` if it is too wide.
    #[inline]
    pub(super) fn units(&self, range: &Range<u64>) -> Option<Range<u64>> {
        match &self.parity {
            Some(parity) => units(&parity.rows(range), Unit::Row),
            None => units(range, Unit::Bytes),
        }
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

/// The core of a channel, of an array that is in sync and whose state is kept by home.
fn channel_core(io: &Io, plan: &ChannelPlan, members: Members, home: Rc<dyn Home>) -> Rc<Core> {
    let members = Rc::new(members);
    // Home makes up for members, and puts on record that the array changes.
    let dependence = Dependence { redundant: false, coupled: false };
    let config = OpenConfig::new(Access::ReadWrite, || 0);
    let record = KeptRecord {
        ledger: Rc::new(Nothing),
        found: State::default(),
        sync_map: SyncMap::of(&plan.geometry, None),
        events: Rc::new(Events::new(io)),
        channels: Channels::new(io),
        home: Some(home),
    };
    let can_lose = Box::new(|_: &[u16]| false);
    let keeper = Keeper::new(io, Rc::clone(&members), can_lose, dependence, record, config.clone());
    let intent = Intent::new(None, Vec::new(), Vec::new());
    let scratch = plan.writes.as_ref().map_or(0, |writes| writes.scratch);
    Core::new(io, members, keeper, intent, config, plan.limits, dependence, scratch)
}
