//! Devices that could come to an array or a pool: those among which members are looked for, looked at as `add` does it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use brindle_host::OtherDisks;
use brindle_host::status::{DiskStatus, DriveStatus};
use brindle_io::device::{DeviceAccess, OpenDevice};

use super::reload::Anew;
use crate::base::deadline::within;
use crate::base::look::{self, Look};
use crate::base::path::real;
use crate::devices::scan;
use crate::devices::unserved::of_the_kernel;

/// Time that a device has to answer; all are asked at once.
const PATIENCE: Duration = Duration::from_secs(4);

/// The most that are looked at.
const MOST: usize = 256;

/// Looks among the devices of a daemon's settings; of a server without settings among all disks and partitions.
pub(super) fn others(anew: &Arc<Anew>) -> OtherDisks {
    let anew = Arc::clone(anew);
    Arc::new(move |members| {
        let places = anew.settings.as_ref().map(|settings| settings.in_force().devices).unwrap_or_default();
        let members: Vec<PathBuf> = members.iter().map(|member| real(Path::new(member))).collect();
        let mut paths = scan::devices(&places);
        paths.retain(|path| !members.contains(&real(path)));
        paths.truncate(MOST);
        std::thread::scope(|scope| {
            let asked: Vec<_> = paths.iter().map(|path| scope.spawn(|| looked_at(path))).collect();
            asked.into_iter().filter_map(|one| one.join().ok().flatten()).collect()
        })
    })
}

/// The device of that name; `None` if there is none that could hold anything.
fn looked_at(path: &Path) -> Option<DiskStatus> {
    let own = path.to_owned();
    let name = path.to_string_lossy().into_owned();
    let refused =
        |why: String| DiskStatus { path: name.clone(), refused: Some(why), ..DiskStatus::default() };
    match within(PATIENCE, move || seen(&own)) {
        Ok(Some(seen)) => seen,
        Ok(None) => Some(refused(format!("it does not answer within {} s", PATIENCE.as_secs()))),
        Err(error) => Some(refused(format!("no thread can be started that looks at it: {error}"))),
    }
}

fn seen(path: &Path) -> Option<DiskStatus> {
    let mut disk = DiskStatus {
        path: path.to_string_lossy().into_owned(),
        drive: DriveStatus::of(path),
        ..DiskStatus::default()
    };
    let device = match OpenDevice::open(path, DeviceAccess::Examine) {
        Ok(device) => device,
        Err(why) => {
            disk.refused = Some(why.to_string());
            return Some(disk);
        }
    };
    // A drive without a medium, or a file of settings beside members.
    if device.info().size == 0 {
        return None;
    }
    disk.size = Some(device.info().size);
    let users = of_the_kernel(path);
    if !users.is_empty() {
        disk.refused = Some(format!("it is in use by {}", users.join(", ")));
    }
    match look::look(device.info().size, look::reader(&device)) {
        Ok(Look { found, blank }) => {
            disk.holds = found.iter().map(ToString::to_string).collect();
            disk.blank = blank;
        }
        Err(why) => disk.refused = Some(why.to_string()),
    }
    Some(disk)
}
