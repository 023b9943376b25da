//! Gives a running array another shape. No byte moves by that: where data are to be, `reshape` moves them afterwards.
//!
//! 1. Changes of clients wait, and those under way come to their end. So do reads that ask members more than once; other reads go on.
//! 2. Members are flushed, and the array is recorded as clean.
//! 3. The new shape is recorded (`keeper/form.rs`).
//! 4. The array is opened anew with it over the same devices: [`Lineage`](crate::lineage::Lineage) has requests that begin or wait go on there.
//!
//! A member that fails meanwhile is one that fails in any change of the record.

use std::rc::Rc;

use brindle_io::MemberId;
use brindle_layout::{Geometry, Layout, Level, MIN_CHUNK as LEAST_CHUNK, ParityLayout};
use brindle_members::door::Moved;
use brindle_members::members::{Device, Members, RoleState};
use brindle_volume::VolumeError;

use crate::array::{Array, Beginning, Border, Running};
use crate::keeper::Recast;
use crate::ledger::{Begin, Form, GrowError, Room};
use crate::placement::{Family, Placement};
use crate::sync_len::sync_len;

/// Members of a mirror that leaves its size to be found give whole units of this, as mdadm has it.
const MIRROR_UNIT: u64 = 64 << 10;
/// A size that was named is rounded down to whole ones of these.
const NAMED_UNIT: u64 = 1024;

/// The shape that an array is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrowSpec {
    /// Members give more bytes each, or fewer.
    Size {
        /// Bytes of each; `None` for as many as the smallest has room for.
        component: Option<u64>,
        /// Redundancy of the new part counts as in sync.
        assume_clean: bool,
        /// The array may become smaller.
        force: bool,
    },
    /// An array of rows with parity has so many members more, and its data are [moved](Array::reshape) into rows of all of them. Or
    /// a mirror has so many members. New ones are rebuilt on spares; roles without a member go first, then the last ones, whose members
    /// become spares.
    Members {
        /// Roles.
        count: u16,
        /// Devices that are about to be added, as far as only a plan is asked for.
        coming: usize,
    },
    /// The array has another level, by which each byte stays where it is: RAID 1 of two members is RAID 5 of two, and RAID 5 is RAID 6
    /// whose Q is on a member more.
    Level {
        /// The level.
        level: Level,
        /// As of members.
        coming: usize,
    },
}

/// A change of an array's shape: what it was, and what it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrowPlan {
    /// The present shape.
    pub from: Geometry,
    /// The next one.
    pub to: Geometry,
    /// From where on redundancy is to be brought in sync, as [`Array::sync_len`] counts.
    pub in_doubt: Option<u64>,
    form: Form,
    begin: Option<Begin>,
}

impl GrowPlan {
    /// Bytes that are to be brought in sync.
    pub fn resynced(&self) -> u64 {
        self.in_doubt.map_or(0, |from| sync_len(&self.to).saturating_sub(from))
    }

    /// Bytes of data that are to be moved by [`Array::reshape`], which is to follow. Until its end the array has its present size.
    pub fn moved(&self) -> u64 {
        if self.begin.is_some() { self.from.size() } else { 0 }
    }
}

/// A guard: the array is being given another shape until it is dropped.
struct Growing(Array);

impl Drop for Growing {
    fn drop(&mut self) {
        self.0.0.growing.set(false);
        self.0.0.core.members.changed().notify();
    }
}

impl Array {
    /// Works out what becomes of the array. Nothing changes.
    ///
    /// # Errors
    /// A [`GrowError`]: [`Array::grow`] would refuse it.
    pub fn plan_growth(&self, spec: GrowSpec) -> Result<GrowPlan, GrowError> {
        self.check_shape_may_change()?;
        self.planned(spec)
    }

    /// Gives the array another shape, which is on record when this returns. Requests of clients wait for as long as that takes, and
    /// none fails. What is in doubt afterwards is for a [resync](Array::resync).
    ///
    /// # Errors
    /// A [`GrowError`]. After [`GrowError::Volume`] a member may have failed, or the array has been stopped: then it has either shape.
    pub async fn grow(&self, spec: GrowSpec) -> Result<GrowPlan, GrowError> {
        let plan = self.plan_growth(spec)?;
        let running = &*self.0;
        if running.growing.replace(true) {
            return Err(GrowError::Growing);
        }
        let _growing = Growing(self.clone());
        let core = &running.core;
        // The record waits until none reads by the present shape.
        core.keeper.channels.look(false);
        let hurry = core.io.hurrying();
        let _claim = core.claim(0..u64::MAX).await;
        self.caught_up().await;
        let _quiet = running.placement.quiet().await;
        drop(hurry);
        let (array, planner) = (self.clone(), self.clone());
        let check = move || {
            planner.check_members()?;
            let GrowPlan { form, to, in_doubt, begin, .. } = planner.planned(spec)?;
            Ok(Recast { form, geometry: to, in_doubt, begin })
        };
        core.keeper.recast(check, move |recast| array.go_on_with(recast)).await?;
        Ok(plan)
    }

    fn planned(&self, spec: GrowSpec) -> Result<GrowPlan, GrowError> {
        let ledger = self.0.core.keeper.ledger();
        let mut begin = None;
        let (form, in_doubt) = match spec {
            GrowSpec::Size { component, assume_clean, force } => {
                let form = self.sized(component, force)?;
                let from = Some(sync_len(&self.0.geometry)).filter(|_| !assume_clean);
                (form, from)
            }
            GrowSpec::Members { count, coming } if self.0.geometry.level() != Level::Raid1 => {
                let (form, moves) = self.widened(count, coming)?;
                begin = Some(moves);
                (form, None)
            }
            GrowSpec::Members { count, coming } => (self.mirrored(count, coming)?, None),
            GrowSpec::Level { level, coming } => (self.levelled(level, coming)?, None),
        };
        self.check_kept(&form)?;
        let to = form.geometry()?;
        match &begin {
            Some(begin) => ledger.check_begin(&form, begin)?,
            None => ledger.check_form(&form)?,
        }
        let in_doubt = in_doubt.filter(|&from| from < sync_len(&to));
        Ok(GrowPlan { from: self.0.geometry.clone(), to, in_doubt, form, begin })
    }

    /// The present shape with members of another size.
    fn sized(&self, wanted: Option<u64>, force: bool) -> Result<Form, GrowError> {
        let geometry = &self.0.geometry;
        let ledger = self.0.core.keeper.ledger();
        let block = u64::from(self.0.core.limits.block);
        let unit = match (geometry.level(), wanted) {
            (Level::Raid1, None) => MIRROR_UNIT,
            (Level::Raid1, Some(_)) => NAMED_UNIT.max(block),
            (Level::Raid4 | Level::Raid5 | Level::Raid6, _) => geometry.chunk(),
            (level, _) => return Err(GrowError::Level { level }),
        };
        let rooms = ledger.rooms()?;
        let Some(Room { label, bytes: room }) = rooms.into_iter().min_by_key(|room| room.bytes) else {
            return Err(GrowError::Unrecorded);
        };
        let now = ledger.describe().component_size;
        let component = wanted.unwrap_or(room).min(room);
        let component = component - component % unit;
        let form = Form { component, ..self.form() };
        match wanted {
            None if component <= now => Err(GrowError::Largest { component: now, label }),
            Some(wanted) if wanted > room => Err(GrowError::Small { label, room, wanted }),
            Some(wanted) if component == 0 => Err(GrowError::Tiny { wanted, unit }),
            Some(_) if component == now => Err(GrowError::Same { component }),
            Some(wanted) if component < now && !force => {
                let lost = geometry.size().saturating_sub(form.geometry()?.size());
                Err(GrowError::Shrinks { wanted, lost })
            }
            _ => Ok(form),
        }
    }

    /// The present mirror with more members, or fewer.
    fn mirrored(&self, count: u16, coming: usize) -> Result<Form, GrowError> {
        let now = self.0.geometry.members();
        match () {
            () if count == now => return Err(GrowError::SameMembers { count }),
            () if count < 2 => return Err(GrowError::TooFew { count }),
            () => {}
        }
        let mut roles: Vec<Option<u16>> = (0..now).map(Some).collect();
        let is_lost = |role: &Option<u16>| role.is_some_and(|role| self.state(role) != RoleState::InSync);
        while roles.len() > count.into() {
            match roles.iter().rposition(is_lost) {
                Some(at) => drop(roles.remove(at)),
                None => drop(roles.pop()),
            }
        }
        roles.resize(count.into(), None);
        self.check_spares(usize::from(count.saturating_sub(now)), coming)?;
        Ok(Form { roles, ..self.form() })
    }

    /// The present array by another level.
    fn levelled(&self, level: Level, coming: usize) -> Result<Form, GrowError> {
        let (geometry, form) = (&self.0.geometry, self.form());
        let kept = Form { level, ..form.clone() };
        match (geometry.level(), level, geometry.layout()) {
            (now, to, _) if now == to => Err(GrowError::SameLevel { level }),
            (Level::Raid1, Level::Raid5, _) if geometry.members() == 2 => {
                let chunk = (LEAST_CHUNK.ilog2()..=MIRROR_UNIT.ilog2()).rev().map(|bits| 1_u64 << bits);
                let mut chunk = chunk.filter(|chunk| form.component.is_multiple_of(*chunk));
                let component = form.component;
                let chunk = chunk.next().ok_or(GrowError::NoChunk { component })?;
                Ok(Form { layout: Layout::Parity(ParityLayout::LeftSymmetric), chunk, ..kept })
            }
            (Level::Raid5, Level::Raid1, _) if geometry.members() == 2 => {
                Ok(Form { layout: Layout::None, chunk: 0, ..kept })
            }
            (Level::Raid5, Level::Raid6, Layout::Parity(layout)) => {
                let with_q =
                    layout.with_q_apart().ok_or(GrowError::Moves { from: Level::Raid5, to: level })?;
                self.check_spares(1, coming)?;
                let roles = form.roles.into_iter().chain([None]).collect();
                Ok(Form { layout: Layout::Parity(with_q), roles, ..kept })
            }
            (Level::Raid6, Level::Raid5, Layout::Parity(layout)) => {
                let without =
                    layout.without_q_apart().ok_or(GrowError::Moves { from: Level::Raid6, to: level })?;
                let mut roles = form.roles;
                roles.pop();
                Ok(Form { layout: Layout::Parity(without), roles, ..kept })
            }
            (from, to, _) => Err(GrowError::Moves { from, to }),
        }
    }

    /// Members that come have a device to be rebuilt on.
    pub(crate) fn check_spares(&self, wanted: usize, coming: usize) -> Result<(), GrowError> {
        let has = self.free_spares().len() + coming;
        if has < wanted { Err(GrowError::Spares { wanted, has }) } else { Ok(()) }
    }

    /// Members that stay hold all of their data, and so do those that go, or they are lost.
    fn check_kept(&self, form: &Form) -> Result<(), GrowError> {
        let members = &self.0.core.members;
        let mut kept = form.roles.iter().flatten();
        match kept.find(|&&role| members.state(role) != RoleState::InSync) {
            Some(&role) => Err(GrowError::Missing { role }),
            None => Ok(()),
        }
    }

    /// The present shape.
    pub(crate) fn form(&self) -> Form {
        let geometry = &self.0.geometry;
        Form {
            level: geometry.level(),
            layout: geometry.layout(),
            chunk: geometry.chunk(),
            component: self.0.core.keeper.ledger().describe().component_size,
            roles: (0..geometry.members()).map(Some).collect(),
        }
    }

    fn check_shape_may_change(&self) -> Result<(), GrowError> {
        let (core, level) = (&self.0.core, self.0.geometry.level());
        let limits = core.keeper.ledger().describe().limits;
        if core.config.is_read_only() && !limits.is_empty() {
            return Err(GrowError::ReadOnly { limits });
        }
        if let Placement::Split(_) | Placement::One(Family::Stripes(_)) = self.0.placement {
            return Err(GrowError::Level { level });
        }
        if !core.config.logs.is_empty() {
            return Err(GrowError::Logged);
        }
        match () {
            () if self.0.growing.get() => return Err(GrowError::Growing),
            () if core.config.is_read_only() => return Err(VolumeError::ReadOnly.into()),
            () if core.keeper.is_stopping() => return Err(VolumeError::Stopping.into()),
            () if core.keeper.is_broken() => return Err(VolumeError::TooManyLost.into()),
            () => {}
        }
        if let Some(process) = self.process() {
            return Err(GrowError::Busy { process: process.kind().to_string() });
        }
        self.check_members()
    }

    /// No member is about to be rebuilt or replaced, and nothing is to be brought in sync.
    fn check_members(&self) -> Result<(), GrowError> {
        let members = &self.0.core.members;
        let roles = || 0..members.len();
        let recovers = |role: &u16| matches!(members.state(*role), RoleState::Recovering(_));
        if let Some(role) = roles().find(recovers) {
            return Err(GrowError::Missing { role });
        }
        if let Some(role) = roles().find(|&role| members.second(role).is_some()) {
            return Err(GrowError::Replacing { role });
        }
        if self.needs_resync() { Err(GrowError::InDoubt) } else { Ok(()) }
    }

    /// The array is opened anew with the shape that is on record, over the same devices.
    fn go_on_with(&self, recast: Recast) {
        let old = &*self.0;
        let (core, config) = (&old.core, &old.core.config);
        let Recast { form, geometry, in_doubt, begin } = recast;
        let beginning = Beginning {
            geometry,
            border: begin.as_ref().map(|_| old.border()),
            members: match &begin {
                Some(begin) => old.members_and(begin),
                None => old.members_of(&form),
            },
            ledger: Rc::clone(&core.keeper.ledger),
            in_doubt,
            events: Rc::clone(core.keeper.events()),
            channels: Rc::clone(&core.keeper.channels),
        };
        let mut new = Running::new(&core.io, beginning, config);
        new.shapes = old.shapes + 1;
        new.speeds.set(old.speeds.get());
        new.outcome.replace(old.outcome.borrow().clone());
        new.core.requests.set(core.requests.get());
        core.superseded.set(true);
        core.ended.set(true);
        self.0.succeed(new);
        core.intent.set_bitmap(None, 0);
        core.members.changed().notify();
        self.tell_channels();
        drop(self.clone().tried_again().watched().recovered().cleared_lazily());
    }
}

impl Array {
    /// All data have moved into the rows of the new shape: the array is opened anew with that alone. Where a crash left redundancy in
    /// doubt on the way, it is in doubt everywhere.
    pub(crate) async fn all_has_moved(&self) -> Result<(), GrowError> {
        let running = &*self.0;
        if running.growing.replace(true) {
            return Err(GrowError::Growing);
        }
        let _growing = Growing(self.clone());
        let core = &running.core;
        core.keeper.began_at_moved().await?;
        let hurry = core.io.hurrying();
        let _claim = core.claim(0..u64::MAX).await;
        let _quiet = running.placement.quiet().await;
        drop(hurry);
        let (array, planner) = (self.clone(), self.clone());
        let check = move || {
            let geometry = planner.0.geometry.clone();
            let in_doubt = planner.needs_resync().then_some(0);
            Ok(Recast { form: planner.form(), geometry, in_doubt, begin: None })
        };
        core.keeper.recast(check, move |recast| array.go_on_with(recast)).await
    }
}

impl Running {
    /// Where the data are that have not moved: all of them.
    fn border(&self) -> Border {
        let (members, ledger) = (&self.core.members, self.core.keeper.ledger());
        let device = |role| members.device(role).map(|device| device.id);
        let start = |id| ledger.starts(id).map(|(before, _)| (id, before));
        let moved = Moved::new((0..members.len()).filter_map(device).filter_map(start));
        Border { position: 0, before: false, geometry: self.geometry.clone(), moved }
    }

    /// The members, and devices that get new roles behind theirs, with their data where the reshape moves them.
    fn members_and(&self, begin: &Begin) -> Members {
        let (members, ledger) = (&self.core.members, self.core.keeper.ledger());
        let in_use = |role| {
            let device = members.device(role).filter(|_| members.state(role) == RoleState::InSync);
            device.map(|device| device.id)
        };
        let moved = |id: MemberId| ledger.starts(id).map(|(_, data_offset)| Device { id, data_offset });
        let ids = (0..members.len()).map(in_use).chain(begin.devices.iter().copied().map(Some));
        let new = Members::new(&self.core.io, ids.map(|id| id.and_then(moved)));
        for role in 0..members.len() {
            new.set_flags(role, members.flags(role));
            new.set_bad(role, members.bad(role).later(begin.shift));
        }
        new
    }

    /// The members by the roles of another shape.
    fn members_of(&self, form: &Form) -> Members {
        let members = &self.core.members;
        let in_use = |role: &Option<u16>| {
            let role = (*role)?;
            members.device(role).filter(|_| members.state(role) == RoleState::InSync)
        };
        let new = Members::new(&self.core.io, form.roles.iter().map(in_use));
        for (role, from) in (0..).zip(&form.roles) {
            if let Some(from) = from.filter(|_| new.device(role).is_some()) {
                new.set_flags(role, members.flags(from));
                new.set_bad(role, members.bad(from));
            }
        }
        new
    }
}
