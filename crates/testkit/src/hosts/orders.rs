//! Orders and accidents: one at a time, within what the arrays can bear.

use std::path::PathBuf;

use brindle_array::{Array, DeviceState};
use brindle_host::control::{Ask, Request, Word};
use brindle_host::{HostError, MISSING, take_again};
use brindle_io::Duration;

use super::{Broken, HostedArray, Hosts, Running};
use crate::random::Random;
use crate::storm::Scene;

/// Time that an array may take to stop.
const STOPPING: Duration = Duration::from_secs(30);

impl Hosts {
    /// One order or accident.
    pub(super) async fn order(
        &self,
        open: &Running,
        scene: &Scene,
        random: &mut Random,
    ) -> Result<(), Broken> {
        let kept = random.pick(&self.arrays);
        let Some(served) = open.served(kept) else { return Ok(()) };
        let array = served.array();
        // Nothing more is taken from an array than it can bear: one device at a time.
        let is_whole = open.is_whole(array);
        match random.below(12) {
            0 | 1 if is_whole => open.lose_one(array, scene, random),
            2 if is_whole => open.fail_one(kept, array, random).await?,
            3 if is_whole => open.replace_one(kept, array, random).await?,
            4 => open.bring_back(scene),
            5 => open.add_missing(kept.name).await,
            6 => open.ask(Ask::Remove { devices: vec!["failed".to_owned()] }.of(named(kept))).await,
            7 if is_whole => self.start_again(kept, open, scene, random).await?,
            8..=10 => self.change_devices(kept, open, random).await?,
            11 if self.all_are_whole(open) => self.hand_over(open, scene).await?,
            _ => {
                let action = *random.pick(&[Word::Check, Word::Resume, Word::Repair]);
                let (max_speed, min_speed) = (None, None);
                open.ask(Ask::Action { action, max_speed, min_speed }.of(named(kept))).await;
            }
        }
        Ok(())
    }

    fn all_are_whole(&self, open: &Running) -> bool {
        self.arrays.iter().all(|kept| open.array(kept).is_ok_and(|array| open.is_whole(&array)))
    }

    /// Stops an array by its name, beside an order for its device, and starts it again from its drives. One whose device is in use goes on.
    async fn start_again(
        &self,
        kept: &HostedArray,
        open: &Running,
        scene: &Scene,
        random: &mut Random,
    ) -> Result<(), Broken> {
        let service = open.service();
        let content = service.content(kept.name).ok_or(Broken::NotServed(kept.name))?;
        let stopped = self.beside_a_device(kept, open, random, service.stop_one(&content, STOPPING)).await;
        match stopped {
            Ok(()) if !open.kernel.numbers(&kept.key()).is_empty() => {
                return Err(Broken::Devices(kept.name, "it was stopped, and has a device".to_owned()));
            }
            Ok(()) => {}
            Err(HostError::Refused { why, .. }) if why.contains("in use") => return self.judge_devices(open),
            Err(why) => return Err(Broken::Order("stop", why.into())),
        }
        self.start(kept, open, scene).await?;
        take_again(open.service()).await;
        Ok(())
    }
}

fn named(kept: &HostedArray) -> Option<String> {
    Some(kept.name.to_owned())
}

impl Running {
    fn is_whole(&self, array: &Array) -> bool {
        array.detail().in_sync() == array.detail().roles.len()
            && array.process().is_none()
            && array.state_change().is_none()
            // One that is gone may not have been missed yet.
            && self.away.borrow().is_empty()
    }

    /// A member goes away, and comes back some time.
    fn lose_one(&self, array: &Array, scene: &Scene, random: &mut Random) {
        let Some(label) = member(array, random) else { return };
        let Some(number) = self.drives.number_of(&label) else { return };
        self.drives.set_gone(&scene.sim, number, true);
        self.away.borrow_mut().push(number);
    }

    async fn fail_one(&self, kept: &HostedArray, array: &Array, random: &mut Random) -> Result<(), Broken> {
        let Some(member) = member(array, random) else { return Ok(()) };
        match self.service().ask(Ask::Fail { member }.of(named(kept))).await {
            // It has failed by itself meanwhile, or is not on record yet.
            Ok(_) | Err(HostError::Stays { .. } | HostError::StillInService(_)) => Ok(()),
            Err(why) => Err(Broken::Order("fail", why.into())),
        }
    }

    /// A spare takes the place of a member that works.
    async fn replace_one(
        &self,
        kept: &HostedArray,
        array: &Array,
        random: &mut Random,
    ) -> Result<(), Broken> {
        let spare = array.detail().devices.into_iter().find(|device| device.state == DeviceState::Spare);
        let (Some(member), Some(spare)) = (member(array, random), spare) else { return Ok(()) };
        let with = PathBuf::from(spare.label);
        self.ask(Ask::Replace { member, with, force: false }.of(named(kept))).await;
        Ok(())
    }

    /// All former members of an array that can be found are re-added.
    pub(super) async fn add_missing(&self, array: &str) {
        let devices = vec![PathBuf::from(MISSING)];
        self.ask(Ask::Add { devices, force: false, re_add: true }.of(array.to_owned())).await;
    }

    /// Asks for something that may be refused.
    async fn ask(&self, request: Request) {
        drop(self.service().ask(request).await);
    }
}

/// The name of a member in use.
fn member(array: &Array, random: &mut Random) -> Option<String> {
    let mut devices = array.detail().devices;
    devices.retain(|device| device.state == DeviceState::InSync);
    (!devices.is_empty()).then(|| random.pick(&devices).label.clone())
}
