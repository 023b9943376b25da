//! Re-adds members that come back together. Each is compared with the record as it is before the first one is
//! re-added.

use std::path::PathBuf;

use brindle_array::{AddError, Array, DeviceDetail, DeviceState, Joined, Removal};
use brindle_io::MemberId;

use super::super::ServedArray;
use crate::answers::Effects;
use crate::content::Host;
use crate::error::HostError;
use crate::status::JoinedStatus;
use crate::world::Newcomer;

/// A device that is to come back: its number and its name.
pub type Again = (MemberId, String);

/// Whether a device of an array was a member of it and is not in use.
pub fn is_out(device: &DeviceDetail) -> bool {
    use brindle_array::LeftOut::{Faulty, Stale};
    let out = matches!(device.state, DeviceState::Failed | DeviceState::LeftOut(Stale { .. } | Faulty));
    out && device.role.is_some()
}

/// Devices that an array has and does not use, as far as they are there; and the names of the others.
pub async fn those_there(array: &Array) -> (Vec<Again>, Vec<PathBuf>) {
    let away = array.detached().await;
    let out = array.detail().devices.into_iter().filter(is_out);
    let (elsewhere, there): (Vec<_>, Vec<_>) = out.partition(|device| away.contains(&device.id));
    let there = there.into_iter().map(|device| (device.id, device.label));
    (there.collect(), elsewhere.into_iter().map(|device| PathBuf::from(device.label)).collect())
}

/// Takes devices again as far as that is possible, and gives for each its role, or why not.
pub async fn take_each_again(array: &Array, devices: &[Again]) -> Vec<Result<u16, AddError>> {
    let mut all = array.judge_together(devices).await.into_iter();
    let mut done = Vec::with_capacity(devices.len());
    for (id, label) in devices {
        done.push(match all.next() {
            Some(Err(why)) => Err(why),
            _ => array.add_again(*id, label).await,
        });
    }
    done
}

/// Takes devices into an array again that were named together, and gives the first ones, which are back, and why the
/// others are not. If one of them is known not to qualify, none is re-added.
pub async fn take_all_again(array: &Array, devices: &[Again]) -> (Vec<JoinedStatus>, Option<AddError>) {
    let judged = array.judge_together(devices).await;
    if let Some(why) = judged.into_iter().find_map(Result::err) {
        return (Vec::new(), Some(why));
    }
    let mut back = Vec::with_capacity(devices.len());
    for (id, label) in devices {
        match array.add_again(*id, label).await {
            Ok(role) => back.push(JoinedStatus::of(label, &Joined::Member { role })),
            Err(why) => return (back, Some(why)),
        }
    }
    (back, None)
}

/// Removes from an array the devices for which another has come: one of the same name, and one that is `away` and filled the same
/// role. Gives all that are to be closed.
pub(crate) async fn forget_old(
    array: &Array,
    path: &str,
    role: Option<u16>,
    away: &[MemberId],
) -> Vec<MemberId> {
    let is_old = |old: &DeviceDetail| {
        let is_its = old.label == path || role.is_some() && old.role == role && away.contains(&old.id);
        is_its && is_out(old)
    };
    let mut gone = Vec::new();
    for old in array.detail().devices.into_iter().filter(is_old) {
        gone.extend(array.remove(Removal::Device(old.id)).await.unwrap_or_default());
    }
    gone
}

impl ServedArray {
    /// Takes devices again that a command named together: devices that the array has, and newcomers.
    pub(crate) async fn take_again_those_named(
        &self,
        host: &dyn Host,
        known: Vec<Again>,
        newcomers: Vec<Newcomer>,
    ) -> Result<Effects, HostError> {
        let mut devices = known;
        devices.extend(newcomers.iter().map(|newcomer| (newcomer.id, newcomer.label.clone())));
        let away = self.array().detached().await;
        let (joined, not) = take_all_again(self.array(), &devices).await;
        let (mut left, mut old) = (Vec::new(), Vec::new());
        for newcomer in newcomers {
            let is_it = |joined: &&JoinedStatus| joined.path == newcomer.label;
            if let Some(joined) = joined.iter().find(is_it) {
                self.came(&newcomer.label, newcomer.file);
                old.extend(forget_old(self.array(), &newcomer.label, joined.role, &away).await);
            } else {
                left.push(newcomer.id);
            }
        }
        host.publish();
        host.devices().close(&old).await;
        if let Some(why) = not {
            host.devices().close(&left).await;
            let added = JoinedStatus::paths(&joined);
            return Err(HostError::NotAdded { why: why.to_string(), added });
        }
        Ok(Effects { joined: Some(joined), ..Effects::default() })
    }
}
