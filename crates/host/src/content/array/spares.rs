//! Spares that go to another content of the group, or come from one.

use brindle_format::md::Uuid;
use brindle_io::MemberId;

use super::ServedArray;
use crate::content::SharesSpares;
use crate::content::spares::{Given, Work};
use crate::error::HostError;

impl SharesSpares for ServedArray {
    fn group(&self) -> Option<&str> {
        self.hosted.spare_group.as_deref()
    }

    fn lacks_a_spare(&self) -> bool {
        self.array().lacks_a_spare()
    }

    fn spares_to_give(&self) -> Vec<MemberId> {
        self.array().spares_to_give()
    }

    fn has_use_for(&self, device: MemberId) -> bool {
        self.array().has_use_for(device)
    }

    fn give(&self, spare: MemberId) -> Work<'_, Result<Given, HostError>> {
        Box::pin(async move {
            let label = self.array().give_spare(spare).await?;
            let file = self.file(&label);
            Ok(Given { id: spare, label, file })
        })
    }

    fn take<'a>(&'a self, spare: &'a Given, uuid: Uuid) -> Work<'a, Result<(), HostError>> {
        Box::pin(async move {
            self.array().take_spare(spare.id, &spare.label, uuid).await?;
            self.came(&spare.label, spare.file.clone());
            Ok(())
        })
    }
}
