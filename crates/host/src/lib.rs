//! Named volumes that are served: the supervisor as a library, on any reactor.
//!
//! - [`Service`]: contents and their exports by name, and the requests of the control protocol.
//! - [`Content`]: a kind of content; arrays and pools are in `content`, with the decisions that a server takes by itself.
//! - [`Door`]: a server of one protocol, by which clients reach exports; NBD's and iSCSI's are in `doors`.
//! - [`status`]: the state of all of it, typed.
//! - [`opening`]: all of it as data, before it runs.
//! - [`control`]: the protocol of the control socket, and the thread that speaks it.
//! - [`metrics`]: the same for Prometheus.
//! - `attach`, `attaching`: volumes as devices of the kernel; `mounting`: as files.
//! - [`Devices`]: the world in which devices are found, opened and closed, and [`Attacher`] its kernel.
//!
//! It opens no file, asks the kernel for no device, and reads no flag and no environment.

mod absent;
mod admission;
mod answers;
mod any;
mod attach;
mod attaching;
mod content;
pub mod control;
mod doors;
mod error;
mod events;
mod failing;
mod handler;
mod limits;
pub mod mailbox;
pub mod metrics;
mod mount;
mod mounting;
mod names;
mod offered;
pub mod opening;
mod orders;
mod renamed;
mod reports;
mod service;
mod snapshot;
pub mod status;
mod world;
mod written;

pub use absent::Configured;
pub use answers::{
    Changed, Done, Effects, KernelDevice, Looked, MountedVolume, Protocol, RequestOutcome, Served, Volumes,
};
pub use any::Any;
pub use attach::{Attached, DEAD_TIMEOUT, MOST_CONNECTIONS};
pub use brindle_layout::Size;
pub use content::array::policy::former::{MISSING, are_meant};
pub use content::array::policy::readd::{Again, is_out, take_all_again, take_each_again, those_there};
pub use content::array::{
    ArrayDescription, BitmapDescription, DETACHED, DescribedDevice, FAILED, Hosted, Nested, ServedArray,
    not_replaced, removal, stop_stack, take_again, take_those_that_return,
};
pub use content::container::{
    ContainerError, ContainerMember, ContainerOptions, ContainerSet, VolumePlan, VolumeRole, open_volume,
};
pub use content::pool::{HostedPool, ServedPool};
pub use content::{Content, Given, Host, Placed, Seen, SharesSpares, Work, all_of, not_for, share_spares};
pub use doors::{
    Addresses, Door, DoorClient, Doors, ExportPlace, ExportUse, FuseDoor, IscsiDoor, MadeTarget, NbdDoor,
    Reactors, TargetMaker, TargetNames, TargetUris, VolumeTargets, by_protocol,
};
pub use error::{HostError, not_stopped};
pub use events::{Listener, News};
pub use failing::FailingDrives;
pub use handler::{ControlHandler, HeldSettings, OtherDisks, Reload, Takeover};
pub use mount::Mount;
pub use names::{Names, OnRenamed, Renamed};
pub use offered::Offered;
pub use orders::{Message, Order};
pub use service::Service;
pub use snapshot::Snapshot;
pub use world::{
    Attacher, Coming, Devices, Found, Made, Naming, NewBitmapFile, Newcomer, Pending, Refused, Search,
    Serving, Source, Terms, WantedDevice,
};
