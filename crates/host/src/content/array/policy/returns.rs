//! Members that were away and come back are re-added automatically, if the server was started with --re-add-returned.

use std::path::PathBuf;
use std::rc::Rc;

use brindle_array::{AddError, DeviceDetail, DeviceState};
use brindle_io::device::Identity;
use brindle_io::{Duration, MemberId, OpError};

use super::super::ServedArray;
use super::former::Back;
use crate::content::{Content, Host, all_of};

/// The time between two looks for members that come back.
const EVERY: Duration = Duration::from_secs(1);

/// Devices of an array that came back and can't be members again: each is reported once, and not tried again.
#[derive(Default)]
struct Refused {
    reported: Vec<String>,
    /// Devices that were opened again.
    found: Vec<Identity>,
    /// Devices that have been open all the while.
    open: Vec<MemberId>,
}

impl Refused {
    fn tell(&mut self, array: &ServedArray, why: String) {
        if !self.reported.contains(&why) {
            tracing::warn!("{}: {why}", array.name());
            self.reported.push(why);
        }
    }
}

/// Takes members again that failed by themselves, went away and come back under their names, as long as arrays are served
/// (`action=re-add` of mdadm's policies). One that was failed by command stays failed.
pub fn take_those_that_return(host: Rc<dyn Host>) {
    for array in all_of::<ServedArray>(&*host) {
        let host = Rc::clone(&host);
        // A look that hangs holds up no other array.
        drop(host.io().clone().spawn(async move {
            let mut refused = Refused::default();
            while array.has_stopped_well().is_none() {
                host.io().sleep(EVERY).await;
                array.look_for_returns(&*host, &mut refused).await;
            }
        }));
    }
}

impl ServedArray {
    async fn look_for_returns(&self, host: &dyn Host, refused: &mut Refused) {
        let engine = self.array();
        let mut lost = engine.detail().devices;
        lost.retain(failed_by_itself);
        if lost.is_empty() {
            return;
        }
        let away = engine.detached().await;
        let (gone, here): (Vec<_>, Vec<_>) = lost.into_iter().partition(|device| away.contains(&device.id));
        for device in here.into_iter().filter(was_gone) {
            if refused.open.contains(&device.id) {
                continue;
            }
            match engine.add_again(device.id, &device.label).await {
                Ok(_) => host.publish(),
                // It is not back yet.
                Err(AddError::Device { .. }) => {}
                Err(why) => {
                    refused.open.push(device.id);
                    refused.tell(self, why.to_string());
                }
            }
        }
        if gone.is_empty() {
            return;
        }
        let names: Vec<PathBuf> = gone.into_iter().map(|device| device.label.into()).collect();
        let mut back = Back::default();
        let search = self.search(names, false, &refused.found);
        self.add_found(host, Vec::new(), search, &mut back).await;
        refused.found.append(&mut back.strangers);
        for why in back.refused {
            refused.tell(self, why.why);
        }
        if !back.joined.is_empty() {
            host.publish();
        }
    }
}

/// Whether a member failed by itself, not by command.
fn failed_by_itself(device: &DeviceDetail) -> bool {
    let by_itself = device.failure.is_some_and(|failed| failed.cause.error.is_some());
    device.state == DeviceState::Failed && device.role.is_some() && by_itself
}

/// Whether a member failed since its device was gone. A file that was made shorter is another matter: it may be as long as before
/// now, with a hole where something stood.
fn was_gone(device: &DeviceDetail) -> bool {
    device.failure.is_some_and(|failed| failed.cause.error == Some(OpError::Gone))
}
