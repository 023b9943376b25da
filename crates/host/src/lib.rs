//! Named volumes that are served: the supervisor as a library, on any reactor.
//!
//! - [`Service`]: the volumes and their exports by name, and the requests of the control protocol.
//! - [`status`]: the state of all of it, typed.
//! - [`opening`]: all of it as data, before it runs.
//! - [`control`]: the protocol of the control socket, and the thread that speaks it.
//! - [`metrics`]: the same for Prometheus.
//! - `attach`, `attaching`: volumes as devices of the kernel.
//! - [`Devices`]: the world in which devices are found, opened and closed, and [`Attacher`] its kernel.
//! - `policy`: decisions that a server takes by itself: spares that are shared, members that return.
//!
//! It opens no file, asks the kernel for no device, and reads no flag and no environment.

mod absent;
mod admission;
mod answers;
mod any;
mod attach;
mod attaching;
mod background;
mod bitmap_file;
pub mod control;
mod devices;
mod error;
mod events;
mod exported;
mod handler;
mod hosted;
mod limits;
pub mod mailbox;
pub mod metrics;
mod names;
pub mod opening;
mod orders;
mod policy;
mod pooled;
mod pools;
mod reports;
mod running;
mod servers;
mod service;
mod snapshot;
pub mod status;
mod world;
mod written;

pub use absent::Configured;
pub use answers::{RequestOutcome, Served, Volumes};
pub use any::Any;
pub use attach::{Attached, DEAD_TIMEOUT, MOST_CONNECTIONS};
pub use brindle_layout::Size;
pub use devices::{DETACHED, FAILED, not_replaced, removal};
pub use error::{HostError, not_stopped};
pub use events::{Listener, News};
pub use exported::{Exported, Placed};
pub use handler::{ControlHandler, HeldSettings, Reload, Takeover};
pub use hosted::{Hosted, Nested, stop_stack};
pub use orders::{Message, Order};
pub use policy::former::{MISSING, are_meant};
pub use policy::readd::{Again, is_out, take_all_again, take_each_again, those_there};
pub use pooled::{Addresses, HostedPool, MadeTarget, Pooled, TargetMaker, TargetNames, VolumeTargets};
pub use servers::Doors;
pub use service::Service;
pub use snapshot::Snapshot;
pub use world::{
    Attacher, Coming, Devices, Found, Made, Naming, NewBitmapFile, Newcomer, Pending, Refused, Search,
    Serving, Source, Terms, WantedDevice,
};
