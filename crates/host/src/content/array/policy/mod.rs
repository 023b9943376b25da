//! Decisions that a server takes by itself, as long as arrays are served.

pub(crate) mod former;
pub(crate) mod readd;
mod returns;

use std::rc::Rc;

use brindle_array::{DeviceDetail, DeviceState};

use super::ServedArray;
use crate::content::{Host, all_of};
use readd::{Again, is_out, take_each_again};

pub use returns::take_those_that_return;

/// Takes members again that arrays were started without: those that can't be are only reported.
pub async fn take_again(host: Rc<dyn Host>) {
    for served in all_of::<ServedArray>(&*host) {
        let array = served.array();
        let out = |device: &DeviceDetail| device.state != DeviceState::Failed && is_out(device);
        let devices = array.detail().devices.into_iter().filter(out);
        let devices: Vec<Again> = devices.map(|device| (device.id, device.label)).collect();
        for why in take_each_again(array, &devices).await.into_iter().filter_map(Result::err) {
            tracing::warn!("{}: {why}", served.name());
        }
    }
    host.publish();
}
