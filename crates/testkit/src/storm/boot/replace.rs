//! Members that still work, replaced by spares while clients write.

use brindle_array::{Array, RoleState};
use brindle_io::Duration;

use super::super::work::Work;
use super::Run;
use crate::random::Random;

impl Run {
    /// A spare may have to replace a member that still works: one that something happens to in some boot, so that the array
    /// can bear it if that happens to the spare.
    pub(super) fn replace_some(&self, array: &Array) {
        let mut random = Random::stream(self.stage.plan.seed, self.boot.number * 1000 + 999);
        let does = self.stage.plan.does(Work::Replace, random.one_in(2));
        let in_sync = |role: &u16| array.state(*role) == RoleState::InSync;
        let roles: Vec<u16> = self.boot.struck.iter().copied().filter(in_sync).collect();
        if roles.is_empty() || array.spares().is_empty() || !does {
            return;
        }
        let role = *random.pick(&roles);
        let (array, io) = (array.clone(), self.io.clone());
        drop(self.io.spawn(async move {
            io.sleep(Duration::from_micros(random.below(2000))).await;
            let detail = array.detail();
            let member = detail.roles[usize::from(role)].device.map(|at| detail.devices[at].id);
            if let (Some(member), Some(spare)) = (member, array.spares().first()) {
                // Either may have failed by then: the array judges.
                let _begun = array.replace(member, spare.id).await;
            }
        }));
    }
}
