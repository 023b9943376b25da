//! Members that leave while clients write, and come back.

use std::rc::Rc;

use brindle_array::{Array, DeviceDetail, DeviceState, RoleState};
use brindle_format::md::Uuid;
use brindle_host::take_each_again;
use brindle_io::{Duration, MemberId};

use super::super::work::Work;
use super::Run;
use crate::random::Random;

/// How often something leaves or comes back in a boot.
const ROUNDS: u64 = 6;

impl Run {
    /// Lets members of an array with a bitmap leave and come back: members that faults may strike in some boot, so
    /// that the array can bear it. Those too that were left out when the boot began.
    pub(super) fn have_some_leave_and_return(&self, array: &Array) {
        let plan = &self.stage.plan;
        let mut random = Random::stream(plan.seed, self.boot.number * 1000 + 998);
        let struck = self.boot.struck.clone();
        let marked = plan.shape.bitmap.is_some() && !plan.container;
        if !marked || struck.is_empty() || self.boot.reads_only || !plan.does(Work::Leave, !random.one_in(4))
        {
            return;
        }
        let (array, io, oracle) = (array.clone(), self.io.clone(), Rc::clone(&self.stage.oracle));
        drop(self.io.spawn(async move {
            for _ in 0..ROUNDS {
                io.sleep(Duration::from_micros(random.below(1500))).await;
                let out = |device: &DeviceDetail| {
                    let is_out = matches!(device.state, DeviceState::Failed | DeviceState::LeftOut(_));
                    is_out && device.role.is_some_and(|role| struck.contains(&role))
                };
                let mut devices = array.detail().devices;
                devices.retain(out);
                let in_sync = |role: &u16| array.state(*role) == RoleState::InSync;
                let roles: Vec<u16> = struck.iter().copied().filter(in_sync).collect();
                // It may be dead, or another may have its place: the array judges.
                if devices.len() > 1 && random.one_in(2) {
                    let named: Vec<_> = devices.iter().map(|it| (it.id, it.id.to_string())).collect();
                    let _again = take_each_again(&array, &named).await;
                } else if !devices.is_empty() && !random.one_in(4) {
                    let _again = array.add_again(random.pick(&devices).id, "it").await;
                } else if !roles.is_empty() {
                    // Sectors in doubt may have been read from the member that fails here: another member may answer
                    // differently.
                    oracle.borrow_mut().upset();
                    let _failed = array.fail(*random.pick(&roles)).await;
                }
            }
        }));
    }

    /// Devices that the array does not know are added, one after the other.
    pub(super) fn have_spares_come(&self, array: &Array) {
        let plan = &self.stage.plan;
        if !plan.late || self.boot.reads_only {
            return;
        }
        let mut random = Random::stream(plan.seed, self.boot.number * 1000 + 997);
        let known: Vec<MemberId> = array.detail().devices.iter().map(|device| device.id).collect();
        let mut new = self.stage.drives[plan.shape.members..].to_vec();
        new.retain(|drive| !known.contains(drive));
        let (array, io) = (array.clone(), self.io.clone());
        drop(self.io.spawn(async move {
            for drive in new {
                io.sleep(Duration::from_micros(random.below(1000))).await;
                // It may be dead: the array judges.
                let uuid = Uuid::from_u128(u128::from(random.below(u64::MAX)));
                let _added = array.add(drive, "late", uuid, true).await;
            }
        }));
    }
}
