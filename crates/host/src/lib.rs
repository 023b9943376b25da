//! Named volumes that are served, and what happens to them: the supervisor as a library, on any reactor.
//!
//! - [`Service`]: the volumes and their exports by name, and the requests of the control protocol.
//! - [`status`]: the state of all of it, typed.
//! - [`control`]: the protocol of the control socket, and the thread that speaks it.
//! - [`metrics`]: the same for Prometheus.
//! - [`Devices`]: the world in which devices are found, opened and closed.
//! - `policy`: decisions that nobody asks for: spares that are shared, members that return.
//!
//! It opens no file and reads no flag and no environment.

mod answers;
mod any;
mod background;
pub mod control;
mod desk;
mod devices;
mod doors;
mod error;
mod events;
mod exported;
mod filed;
mod hosted;
mod limits;
pub mod mailbox;
pub mod metrics;
mod names;
mod orders;
mod policy;
mod pooled;
mod pools;
mod service;
mod size;
mod snapshot;
mod standing;
pub mod status;
mod world;

pub use answers::{Served, Told, Volumes};
pub use any::Any;
pub use desk::Desk;
pub use devices::{DETACHED, FAILED, not_replaced, removal};
pub use doors::Doors;
pub use error::{HostError, not_stopped};
pub use events::{Listener, News};
pub use exported::{Exported, Placed};
pub use hosted::{Hosted, Nested, stop_stack};
pub use orders::{Message, Order};
pub use policy::again::{Again, is_out, take_all_again, take_each_again, those_there};
pub use policy::former::{MISSING, are_meant};
pub use pooled::{Addresses, HostedPool, Pooled};
pub use service::Service;
pub use size::Size;
pub use snapshot::Snapshot;
pub use world::{Coming, Devices, Found, Made, NewBitmapFile, Newcomer, Pending, Refused, Search, Terms};
