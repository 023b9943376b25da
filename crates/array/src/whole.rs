//! Whether an array can be read in channels, and by what.

use std::rc::Rc;
use std::sync::Arc;

use brindle_io::MemberId;
use brindle_layout::Level;
use brindle_volume::Ticket;

use crate::array::{Array, Running};
use crate::channels::ChannelSource;
use crate::channels::shared::{ChannelPlan, Given, PlannedMember};
use crate::config::ReadPolicy;
use crate::lineage::WeakLineage;
use crate::placement::{Family, Placement};

impl Running {
    /// Every byte can be read from its member as it is, and home does nothing else for a read either. Most of it are counts, since this is
    /// asked with each change of a member.
    fn is_whole(&self) -> bool {
        let core = &self.core;
        let members = &core.members;
        // No member is lost, slow or lags; none has a second device, bad blocks, or writes that may still land.
        let all_well = members.all_answer() && !members.slow_writes() && !members.is_change_pending();
        let runs =
            !core.keeper.is_stopping() && core.keeper.refuse_if_closed().is_ok() && !self.growing.get();
        all_well
            && runs
            && core.config.logs.is_empty()
            && !core.keeper.awaits_space()
            && self.is_read_anywhere()
    }

    /// One family has all of the array, and of mirrors any copy may answer.
    fn is_read_anywhere(&self) -> bool {
        match &self.placement {
            Placement::Split(_) => false,
            Placement::One(Family::Stripes(_) | Family::Parity(_)) => true,
            Placement::One(Family::Mirror(mirror)) => mirror.may_be_read_by_place(),
        }
    }

    /// All that channels read by; `None` if a member can't be asked by other reactors.
    fn plan(&self) -> Option<ChannelPlan> {
        let core = &self.core;
        let planned = |role| {
            let device = core.members.device(role)?;
            let handed = core.io.hand_member(device.id)?;
            Some(PlannedMember { handed, id: device.id, data_offset: device.data_offset })
        };
        let members = (0..core.members.len()).map(planned).collect::<Option<_>>()?;
        let (geometry, redundant) = (self.geometry.clone(), core.dependence().redundant);
        // Home judges the member by a read of its own: its patience is to be over before a client's is.
        let (patience, early) = (core.patience.answer / 4, redundant.then_some(core.patience.read));
        let first_copy = core.config.read_policy == ReadPolicy::First && geometry.level() != Level::Raid0;
        Some(ChannelPlan { geometry, limits: core.limits, members, first_copy, patience, early })
    }
}

impl ChannelSource for WeakLineage<Running> {
    fn is_whole(&self) -> bool {
        self.upgrade().is_some_and(|array| array.is_whole())
    }

    fn plan(&self) -> Option<ChannelPlan> {
        self.upgrade()?.plan()
    }
}

impl Array {
    /// A ticket with which another reactor of the crew opens a channel of the array.
    pub(crate) fn seed(&self, to: usize) -> Option<Ticket> {
        let channels = &self.0.core.keeper.channels;
        channels.of(self.0.downgrade());
        self.tell_channels();
        let seed = channels.seed(to);
        channels.look(true);
        Some(Arc::new(seed))
    }

    /// Channels hear of changes of the members from now on, if there are some.
    pub(crate) fn tell_channels(&self) {
        let core = &self.0.core;
        if core.keeper.channels.is_any() {
            let channels = Rc::downgrade(&core.keeper.channels);
            core.members.watch_with(move || {
                channels.upgrade().iter().for_each(|channels| channels.look(false));
            });
        }
    }

    /// Reads that a device has given channels so far, and their bytes: home's own counters have them not.
    pub fn given_channels(&self, device: MemberId) -> Given {
        self.0.core.keeper.channels.given(device)
    }
}
