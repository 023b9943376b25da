//! Whether an array can be read and written in channels, and by what.

use core::ops::Range;
use core::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use brindle_io::{MemberId, PAGE};
use brindle_layout::Level;
use brindle_members::door::Done;
use brindle_members::members::{Members, RoleState};
use brindle_members::set::Owner;
use brindle_volume::Ticket;

use crate::array::{Array, Running};
use crate::channels::rows::BesideChannels;
use crate::channels::settling::RefusedWrite;
use crate::channels::shared::{ChannelPlan, Given, PlannedMember, PlannedWrites, Unit, units};
use crate::channels::{ChannelSource, Lack};
use crate::config::ReadPolicy;
use crate::core::Core;
use crate::lineage::WeakLineage;
use crate::placement::{Family, Placement};

/// Memory for parity is the array's at home; a channel has as much again divided by this. One in which its widest step would have no room
/// writes nothing.
const SCRATCH_SHARE: usize = 4;

/// The part of an array's memory for parity that home has where other reactors have channels: theirs are the rest.
pub fn scratch_at_home(bytes: u64, reactors: usize) -> u64 {
    let others = reactors.saturating_sub(1) as u64;
    bytes * SCRATCH_SHARE as u64 / (SCRATCH_SHARE as u64 + others)
}

impl Running {
    /// The members that the array lacks, which is on record, if every byte of the others can be read as it is, and home does nothing else for
    /// such a read either. Most of it are counts, since this is asked with each change of a member.
    fn lacks(&self) -> Option<Lack> {
        let core = &self.core;
        let members = &core.members;
        // No member is slow or lags; none has a second device, bad blocks, or writes that may still land.
        let all_well = !members.is_any_slow() && !members.slow_writes() && !members.is_change_pending();
        let runs =
            !core.keeper.is_stopping() && core.keeper.refuse_if_closed().is_ok() && !self.growing.get();
        let is_read = all_well
            && runs
            && core.config.logs.is_empty()
            && !core.keeper.awaits_space()
            && self.is_read_anywhere();
        is_read.then(|| Lack { lost: members.lost(), rebuilt: self.rebuilt() })
    }

    /// The number of members that are being rebuilt: they get what is written, too.
    fn rebuilt(&self) -> u16 {
        let members = &self.core.members;
        let is_rebuilt =
            |role: &u16| members.state(*role) != RoleState::InSync && members.writable(*role).is_some();
        if members.lost() == 0 { 0 } else { (0..members.len()).filter(is_rebuilt).count() as u16 }
    }

    /// One family has all of the array, and of mirrors any copy may answer.
    fn is_read_anywhere(&self) -> bool {
        match &self.placement {
            Placement::Split(_) => false,
            Placement::One(Family::Stripes(_) | Family::Parity(_)) => true,
            Placement::One(Family::Mirror(mirror)) => mirror.may_be_read_by_place(),
        }
    }

    /// All that channels go by; `None` if a member can't be asked by other reactors.
    fn plan(&self) -> Option<ChannelPlan> {
        let core = &self.core;
        let planned = |role| {
            // A member that is being rebuilt has no bytes yet that another reactor could tell from others.
            let is_there = core.members.state(role) == RoleState::InSync;
            let Some(device) = core.members.device(role).filter(|_| is_there) else { return Some(None) };
            let handed = core.io.hand_member(device.id)?;
            Some(Some(PlannedMember { handed, id: device.id, data_offset: device.data_offset }))
        };
        let members = (0..core.members.len()).map(planned).collect::<Option<_>>()?;
        let (geometry, redundant) = (self.geometry.clone(), core.dependence().redundant);
        // Home judges the member by a read of its own: its patience is to be over before a client's is.
        let (patience, early) = (core.patience.answer / 4, redundant.then_some(core.patience.read));
        let slow_for = core.patience.flush.saturating_sub(core.patience.answer);
        let writes = self.planned_writes();
        let first_copy = core.config.read_policy == ReadPolicy::First && geometry.level() != Level::Raid0;
        Some(ChannelPlan {
            geometry,
            limits: core.limits,
            members,
            first_copy,
            writes,
            patience,
            slow_for,
            early,
        })
    }
}

impl Running {
    /// Whether and how channels write: while the array lacks nothing, or is a mirror of which nothing is rebuilt, and no observer is to see what
    /// members get. A write with parity that failed where blocks are lost could not be carried out once more by home.
    fn planned_writes(&self) -> Option<PlannedWrites> {
        let core = &self.core;
        if core.config.is_read_only() || core.intent.is_observed() {
            return None;
        }
        let family = self.placement.one().ok()?;
        let is_enough = matches!(family, Family::Mirror(_)) && self.rebuilt() == 0;
        if core.members.lost() > 0 && !is_enough {
            return None;
        }
        let buckets = || Arc::clone(core.keeper.channels.leases.buckets());
        let buckets = family.locks().map(|_| buckets());
        let scratch = match family {
            Family::Parity(_) => core.scratch.capacity() / SCRATCH_SHARE / PAGE * PAGE,
            _ => 0,
        };
        if Family::scratch_bytes(&self.geometry, scratch) > scratch && matches!(family, Family::Parity(_)) {
            return None;
        }
        Some(PlannedWrites { part: leased_part(core)?, buckets, scratch })
    }

    /// Channels can hold the rows of a range that is not empty.
    fn is_narrow(&self, range: &Range<u64>) -> bool {
        match self.placement.one() {
            Ok(Family::Stripes(_)) => true,
            Ok(Family::Mirror(_)) => units(range, Unit::Bytes).is_some(),
            Ok(Family::Parity(parity)) => units(&parity.rows(range), Unit::Row).is_some(),
            Err(_) => false,
        }
    }

    /// Every write is one that goes to all members which have the bytes or their parity, and to nothing else.
    fn may_be_leased(&self) -> bool {
        let Placement::One(family) = &self.placement else { return false };
        let is_shared = family.locks().is_none_or(|(locks, _)| locks.is_shared());
        is_shared
            && match family {
                Family::Stripes(_) => true,
                Family::Mirror(mirror) => mirror.may_be_read_by_place(),
                // Elsewhere parity is made anew by each write, which home does.
                Family::Parity(_) => self.core.keeper.resync_offset().is_none(),
            }
    }
}

/// Bytes of a part of the array of which channels have leases: as much as one bit of the bitmap is about; else all of it.
fn leased_part(core: &Core) -> Option<u64> {
    let part = core.intent.bitmap().map_or(u64::MAX, |bitmap| bitmap.tell().0);
    Some(part.min(core.limits.size)).filter(|&part| part > 0)
}

impl ChannelSource for WeakLineage<Running> {
    fn lacks(&self) -> Option<Lack> {
        self.upgrade()?.lacks()
    }

    fn plan(&self) -> Option<ChannelPlan> {
        self.upgrade()?.plan()
    }

    fn members(&self) -> Option<Rc<Members>> {
        Some(Rc::clone(&self.upgrade()?.core.members))
    }

    fn differs(&self, range: Range<u64>) {
        if let Some(array) = self.upgrade() {
            let core = &array.core;
            // As where a write has found no space on some members, none of which is to be reported here.
            core.note_no_space(range.start..range.end.min(core.limits.size), &[]);
        }
    }

    fn settle(&self, refused: Vec<RefusedWrite>, range: Range<u64>) -> Pin<Box<dyn Future<Output = bool>>> {
        let array = self.upgrade();
        Box::pin(async move {
            let Some(array) = array else { return false };
            let outcome = Done::of_ports(&array.core, refused);
            array.core.settle_range(&outcome, true, range).await.is_ok()
        })
    }

    fn lend(&self, part: u64, lease: Pin<Box<dyn Future<Output = ()>>>) -> Pin<Box<dyn Future<Output = ()>>> {
        let array = self.upgrade();
        let core = array.and_then(|array| Some((Rc::clone(&array.core), leased_part(&array.core)?)));
        Box::pin(async move {
            let Some((core, len)) = core else { return };
            let (start, end) = (part.saturating_mul(len), part.saturating_add(1).saturating_mul(len));
            let range = start.min(core.limits.size)..end.min(core.limits.size);
            let _passage = core.claims.pass(range.clone()).await;
            if let Ok(_writing) = core.begin(range.start, range.end - range.start).await {
                lease.await;
            }
        })
    }

    fn may_be_leased(&self) -> bool {
        let array = self.upgrade().filter(|array| array.lacks().is_some());
        array.is_some_and(|array| array.planned_writes().is_some() && array.may_be_leased())
    }
}

impl Array {
    /// A ticket with which another reactor of the crew opens a channel of the array; `None` if its members are arrays of this process, which have no
    /// ports.
    pub(crate) fn seed(&self, to: usize) -> Option<Ticket> {
        let members = &self.0.core.members;
        let is_served = |role| members.device(role).is_some_and(|device| device.id.is_served());
        if (0..members.len()).any(is_served) {
            return None;
        }
        let channels = &self.0.core.keeper.channels;
        channels.of(self.0.downgrade());
        self.tell_channels();
        let seed = channels.seed(to);
        channels.look(true);
        Some(Arc::new(seed))
    }

    /// Whether channels carry out a read, or a write, of a range that is not empty, as the array is now; else its home does, of an array that
    /// lacks something all that needs the lost bytes. A write needs a lease besides, which home lends.
    pub fn is_for_channels(&self, range: Range<u64>, writes: bool) -> bool {
        let running = &self.0;
        let is_written = || running.planned_writes().is_some() && running.is_narrow(&range);
        let is_read = || running.lacks().is_some_and(|lack| lack.lost == 0);
        if writes { running.lacks().is_some() && is_written() } else { is_read() }
    }

    /// Channels hear of changes of the members from now on, if there are some.
    pub(crate) fn tell_channels(&self) {
        let core = &self.0.core;
        if core.keeper.channels.is_any() {
            self.share_rows();
            let channels = Rc::downgrade(&core.keeper.channels);
            core.members.watch_with(move || {
                channels.upgrade().iter().for_each(|channels| channels.look(false));
            });
        }
    }

    /// Requests of home hold rows against channels from now on.
    fn share_rows(&self) {
        let mut locks = self.0.placement.families().filter_map(Family::locks);
        if locks.all(|(locks, _)| locks.is_shared()) {
            return;
        }
        let array = self.clone();
        drop(self.0.core.io.spawn(async move {
            for (locks, unit) in array.0.placement.families().filter_map(Family::locks) {
                let beside = BesideChannels::new(&array.0.core.keeper.channels, unit);
                locks.share(Rc::new(beside)).await;
            }
        }));
    }

    /// Reads that a device has given channels so far, and their bytes: home's own counters have them not.
    pub fn given_channels(&self, device: MemberId) -> Given {
        self.0.core.keeper.channels.given(device)
    }
}
