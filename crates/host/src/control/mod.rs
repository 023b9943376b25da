//! The control socket: requests and answers are JSON objects, one a line. See docs/cli-json.md.

pub mod message;
mod new_vdev;
mod peer;
mod rights;
mod server;

pub use message::{
    Answer, Ask, Author, BitmapPlace, DeviceFlag, Ended, NewVdev, RateLimits, Request, VERSION, Word,
};
pub use rights::ControlRights;
pub use server::{Control, Handler, Reply, listen};
