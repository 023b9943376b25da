//! Devices that take members' places.
//!
//! A member that is still there is copied first. Its successor is on record all that time: the config names it by a number of its own, as it does a
//! spare, and the role that it is to take. Segments that it has a copy of are on record as well, so that an opening goes on where the one
//! before was. Nothing says that of a role without a successor: that is stable before a config names another.

use std::rc::Rc;

use brindle_format::pool::{DATA_START, Label, MemberRecord, MemberState};
use brindle_io::Duration;
use brindle_members::events::Cause;
use brindle_members::members::Device;
use brindle_members::set::Owner as _;

use crate::core::Core;
use crate::events::PoolEvent;
use crate::opening::grow::{Comer, number_for, put};
use crate::opening::returned::{MemberError, Replacement};
use crate::record::join::Joining;
use crate::role::Role;
use crate::spares::{SpareDevice, leaves_spares, leaves_successors};
use crate::upkeep::checkpoint::Why;
use crate::upkeep::copying::Copying;
use crate::upkeep::resilver::Successor;

/// The time after which it is looked again whether the pool can do without a member that was copied.
const PAUSE: Duration = Duration::from_secs(1);

impl Core {
    /// Copies go on that were under way when the pool was closed, or its server was killed.
    pub(crate) fn begin_succession(&self) {
        let label = self.label.get();
        for (number, role) in label.successors() {
            let member = label.holder_of(role);
            let Some((spare, member)) = self.spares.device(number).zip(member) else { continue };
            let Some(core) = self.kept().filter(|core| !core.read_only) else { return };
            let uuid = label.members.get(usize::from(number)).map(|record| record.id).unwrap_or_default();
            drop(self.set.io.spawn(async move {
                let SpareDevice { id, name, .. } = spare;
                // It is told by an event and by the status.
                let _told = core.go_on(member, number, Replacement { name, id, uuid }).await;
            }));
        }
    }

    async fn go_on(self: &Rc<Self>, member: u16, number: u16, with: Replacement) -> Result<(), MemberError> {
        let _change = self.change(member)?;
        self.take_over(member, number, with).await
    }

    /// Whether a number is that of a member's successor.
    pub(crate) fn is_successor(&self, number: u16, member: u16) -> bool {
        let label = self.label.get();
        label.successors().any(|(of, role)| of == number && label.holder_of(role) == Some(member))
    }

    /// The member whose role a number is to take.
    pub(crate) fn predecessor_of(&self, number: u16) -> Option<u16> {
        let label = self.label.get();
        let (_, role) = label.successors().find(|(of, _)| *of == number)?;
        label.holder_of(role)
    }

    /// Segments say of no role without a successor that something has a copy for it.
    pub(crate) fn forget_void_copies(&self) {
        let label = self.label.get();
        for vdev in 0..label.vdevs.len() {
            let of = |(_, role): (u16, (u16, u16))| (usize::from(role.0) == vdev).then_some(role.1);
            let kept = label.successors().filter_map(of).fold(0, |mask, index| mask | 1 << index);
            self.space.borrow_mut().forgets_copies(vdev, !kept);
        }
    }

    /// Has a member in use copied to a device, which takes its role then. The caller has the change of the member.
    ///
    /// # Errors
    /// [`MemberError`]; the member has its role as before. A pool that stops meanwhile goes on with it when it is opened next.
    pub(super) async fn replace_by_copy(
        self: &Rc<Self>,
        member: u16,
        with: Replacement,
    ) -> Result<(), MemberError> {
        let named = self.name_successor(member, &with).await;
        if named.is_err() {
            self.happened(PoolEvent::NotReplaced, Some(member), None);
        }
        self.take_over(member, named?, with).await
    }

    /// Puts a device on record as the successor of a member. Gives its number.
    async fn name_successor(self: &Rc<Self>, member: u16, with: &Replacement) -> Result<u16, MemberError> {
        let role = self.role_of(member);
        self.space.borrow_mut().forgets_copies(role.vdev, 1 << role.index);
        self.checkpoint(Why::Due).await?;
        let _grows = self.grows()?;
        let label = self.label.get();
        // One that never came may be on record still.
        let before = label.successors().find(|(_, of)| Role::from((of.0.into(), of.1)) == role);
        let number = before.map_or_else(|| number_for(&label), |(number, _)| Ok(number))?;
        let size = self.size_of(with.id);
        let comer = Comer { member: number, size, device: with.clone() };
        let _asked = self.prepare_comers(core::slice::from_ref(&comer)).await?;
        let state = MemberState::Successor { vdev: role.vdev as u16, role: role.index };
        let record = MemberRecord { id: with.uuid, size, role: None, units: 0, state };
        self.change_config(move |label| {
            leaves_successors(label, role);
            put(label, number, record);
        })
        .await?;
        self.number_members();
        self.spares.forget(number);
        let device = Device { id: with.id, data_offset: DATA_START };
        if let Err(why) = self.label_spare(number, device, size).await {
            self.remove_spare(number).await?;
            return Err(why.into());
        }
        let (id, name) = (with.id, with.name.clone());
        self.spares.devices.borrow_mut().push(SpareDevice { member: number, id, name });
        Ok(number)
    }

    /// A successor that is on record is given a copy, and takes the role. One that does not is no successor any more, unless the pool stops.
    async fn take_over(
        self: &Rc<Self>,
        member: u16,
        number: u16,
        with: Replacement,
    ) -> Result<(), MemberError> {
        let succeeded = self.succeed(member, with, Some(number)).await;
        if succeeded.is_err() && !self.run.is_stopping() {
            if self.is_successor(number, member) {
                // A pool that can't record that goes on with it when it is opened next.
                let _recorded = self.remove_spare(number).await;
            }
            self.happened(PoolEvent::NotReplaced, Some(member), None);
        }
        succeeded
    }

    /// Gives the role of a member to a device: to its successor, if that has a number.
    ///
    /// # Errors
    /// [`MemberError`].
    pub(super) async fn succeed(
        self: &Rc<Self>,
        member: u16,
        with: Replacement,
        number: Option<u16>,
    ) -> Result<(), MemberError> {
        let Replacement { name, id, uuid } = with;
        let size = self.size_of(id);
        let device = Device { id, data_offset: DATA_START };
        self.set.recorded().await?;
        let _asked = self.newcomer(&name, id)?;
        let copying = match number {
            Some(number) => self.copied(Successor { member, number, device }, &name).await?,
            None => {
                self.clear_labels(member, id, size).await?;
                None
            }
        };
        self.check_replace(member, &name, size)?;
        if self.is_used(member) {
            // Should the other not come, it lacks next to nothing when it is brought back.
            self.checkpoint(Why::Due).await?;
            self.check_replace(member, &name, size)?;
            copying.as_ref().map_or(Ok(()), Copying::goes_on)?;
            self.begin_failing(member, Cause::REPLACED)?.await?;
        }
        let role = self.role_of(member);
        match number {
            Some(_) => self.space.borrow_mut().hands_over(role.vdev, role.index),
            None => self.space.borrow_mut().lacks_since(role.vdev, role.index, None),
        }
        self.checkpoint(Why::Due).await?;
        let (units, _) = self.needed(role.vdev);
        let change = move |label: &mut Label| {
            if let Some(record) = label.members.get_mut(usize::from(member)) {
                *record = MemberRecord { id: uuid, size, units, state: MemberState::InUse, ..*record };
            }
            leaves_spares(label, uuid);
            leaves_successors(label, role);
        };
        self.join(vec![Joining { member, device, places: [0, 0] }], Some(Box::new(change))).await?;
        self.forget_void_copies();
        drop(copying);
        if let Some(number) = number {
            self.spares.forget(number);
        }
        self.has_joined(member, PoolEvent::MemberReplaced);
        Ok(())
    }

    /// Has a member copied as long as it is in use, until the pool can do without it. Nothing is given of one that is lost.
    async fn copied(
        self: &Rc<Self>,
        successor: Successor,
        name: &str,
    ) -> Result<Option<Copying<'_>>, MemberError> {
        let Successor { member, device, .. } = successor;
        while self.is_used(member) {
            // From the first moment on, so that whoever waits for it finds it under way.
            let copying = self.begin_copying().await?;
            copying.copy_to(successor).await?;
            match self.check_replace(member, name, self.size_of(device.id)) {
                Err(MemberError::Needed(_)) => {
                    // Another member is out, or resilvered, which has its turn first.
                    drop(copying);
                    self.set.io.sleep(PAUSE).await;
                }
                checked => return checked.map(|()| Some(copying)),
            }
        }
        Ok(None)
    }
}
