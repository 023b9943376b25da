//! Containers of Intel's firmware RAID: read, never written to. Their volumes are arrays over disks that they share.

mod assembly;
mod describe;
mod error;
mod open;
mod volume;

pub use assembly::{ContainerMember, ContainerSet};
pub use error::ContainerError;
pub use open::open_volume;
pub use volume::{ContainerOptions, VolumePlan, VolumeRole};
