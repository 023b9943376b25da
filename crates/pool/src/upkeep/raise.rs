//! Full parity for what lies on members that are out of use. A loss moves nothing at once: a member that comes back or is replaced gets what
//! it lacks in place, at a fraction of the cost. Only if nobody comes for some time blocks are moved, as far as there is room for that.

use brindle_format::pool::{MemberRecord, MemberState};
use brindle_io::Duration;

use crate::core::Core;
use crate::upkeep::cleaner::Raise;

impl Core {
    /// Members are out of use, or others than before: decides when what lies on them is moved.
    pub(crate) fn plan_raise(&self) {
        let before = self.cleaner.raise();
        let next = match (self.lost_members().is_empty(), before) {
            (true, _) => Raise::Never,
            (false, Raise::Never) => Raise::At(self.set.io.now().after(self.config.raise_after)),
            (false, planned) => planned,
        };
        self.cleaner.set_raise(next);
        self.raise_lost();
        self.begin_sparing();
        match next {
            same if same == before => {}
            Raise::At(_) if self.config.raise_after.is_zero() => self.raise_now(),
            Raise::At(at) => {
                let (core, io) = (self.me.clone(), self.set.io.clone());
                drop(self.set.io.spawn(async move {
                    io.sleep_until(at).await;
                    if let Some(core) = core.upgrade().filter(|core| core.cleaner.raise() == Raise::At(at)) {
                        core.raise_now();
                    }
                }));
            }
            Raise::Never | Raise::Now => {}
        }
    }

    /// A member was taken out by order.
    pub(crate) fn is_offline(&self, member: u16) -> bool {
        let label = self.label.get();
        label.members.get(usize::from(member)).is_some_and(|record| record.state == MemberState::Offline)
    }

    /// A number is of no member any more, or of none yet.
    pub(crate) fn is_gone(&self, member: u16) -> bool {
        let label = self.label.get();
        label.members.get(usize::from(member)).is_none_or(|record| record.state == MemberState::Gone)
    }

    /// The time after which what lies on members that are out of use is moved.
    pub(crate) fn raises_in(&self) -> Option<Duration> {
        match self.cleaner.raise() {
            Raise::At(at) => Some(at.since(self.set.io.now())),
            Raise::Never | Raise::Now => None,
        }
    }

    fn raise_now(&self) {
        self.cleaner.set_raise(Raise::Now);
        self.raise_lost();
        self.see_to_parity();
    }

    /// Members that are out of use, and not by order.
    pub(crate) fn lost_members(&self) -> Vec<u16> {
        let label = self.label.get();
        let is_lost = |&(member, record): &(u16, &MemberRecord)| {
            record.state == MemberState::InUse && self.set.members.writable(member).is_none()
        };
        (0..).zip(&label.members).filter(is_lost).map(|(member, _)| member).collect()
    }

    /// Has blocks on members that are lost moved, if the time has come; those on members that are out by order wait for these.
    fn raise_lost(&self) {
        let mut space = self.space.borrow_mut();
        space.raises_none();
        if self.cleaner.raise() == Raise::Now {
            let roles = self.lost_members().into_iter().map(|member| self.role_of(member));
            roles.for_each(|role| space.raises(role.vdev, role.index));
        }
    }

    /// Has what is to have more parity moved, if there is any.
    pub(crate) fn see_to_parity(&self) {
        self.cleaner.set_thin(self.space.borrow().has_weak());
        self.look_around();
    }
}
