//! Spares that go to another content of the group, or come from one.

use brindle_format::md::Uuid;
use brindle_io::MemberId;
use brindle_pool::{MemberError, Replacement};

use super::ServedPool;
use crate::content::SharesSpares;
use crate::content::spares::{Given, Work};
use crate::error::HostError;

impl SharesSpares for ServedPool {
    fn group(&self) -> Option<&str> {
        self.hosted.spare_group.as_deref()
    }

    fn lacks_a_spare(&self) -> bool {
        self.pool().lacks_a_spare()
    }

    fn spares_to_give(&self) -> Vec<MemberId> {
        self.pool().spares_to_give().into_iter().map(|spare| spare.id).collect()
    }

    fn has_use_for(&self, device: MemberId) -> bool {
        self.pool().has_use_for(device)
    }

    fn give(&self, spare: MemberId) -> Work<'_, Result<Given, HostError>> {
        Box::pin(async move {
            // Another order may take it meanwhile.
            let _turn = self.changes.turn().await;
            let known = self.pool().spares_to_give().into_iter().find(|known| known.id == spare);
            let known = known.ok_or_else(|| MemberError::InUse(spare.to_string()))?;
            let number = known.member;
            self.pool().detach(number).await?;
            let label = self.members.borrow_mut().get_mut(usize::from(number)).and_then(Option::take);
            self.devices.borrow_mut().retain(|(_, own)| *own != spare);
            let label = label.unwrap_or(known.name);
            let file = self.placed.folder.as_ref().map(|folder| folder.join(&label));
            Ok(Given { id: spare, label, file })
        })
    }

    fn take<'a>(&'a self, spare: &'a Given, uuid: Uuid) -> Work<'a, Result<(), HostError>> {
        Box::pin(async move {
            let _turn = self.changes.turn().await;
            let Given { id, label, .. } = spare;
            self.devices.borrow_mut().push((label.clone(), *id));
            let taken = self.pool().add_spare(Replacement { name: label.clone(), id: *id, uuid }).await;
            if taken.is_err() {
                self.devices.borrow_mut().retain(|(_, own)| own != id);
            }
            self.name_members();
            Ok(taken?)
        })
    }
}
