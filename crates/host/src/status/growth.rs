//! A change of an array's shape, as reports tell it.

use brindle_array::GrowPlan;
use brindle_io::Duration;
use brindle_layout::Layout;
use serde::{Deserialize, Serialize};

/// The shape that an array had before a change, and the one that it has after it. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GrowthStatus {
    /// Its size before,
    pub size: u64,
    /// and after.
    pub new_size: u64,
    /// Bytes used of each member before,
    pub component_size: u64,
    /// and after.
    pub new_component_size: u64,
    /// Bytes whose redundancy is to be brought in sync: of each member, or of the array if it is a mirror.
    pub resync: u64,
    /// Bytes of data that are moved.
    pub moved: u64,
    /// Seconds that they are going to be moved, about; none where that is not asked for, or not known.
    pub seconds: Option<u64>,
    /// Its level before,
    pub level: String,
    /// and after.
    pub new_level: String,
    /// Its members before,
    pub raid_devices: u16,
    /// and after.
    pub new_raid_devices: u16,
    /// Its layout after, by mdadm's name.
    pub new_layout: Option<String>,
}

impl GrowthStatus {
    /// The change that a plan stands for.
    pub fn of(plan: &GrowPlan, time: Option<Duration>) -> Self {
        Self {
            size: plan.from.size(),
            new_size: plan.to.size(),
            component_size: plan.from.member_size(),
            new_component_size: plan.to.member_size(),
            resync: plan.resynced(),
            moved: plan.moved(),
            seconds: time.map(|time| time.as_secs().max(1)),
            level: plan.from.level().name().to_owned(),
            new_level: plan.to.level().name().to_owned(),
            raid_devices: plan.from.members(),
            new_raid_devices: plan.to.members(),
            new_layout: (plan.to.layout() != Layout::None).then(|| plan.to.layout().name()),
        }
    }
}
