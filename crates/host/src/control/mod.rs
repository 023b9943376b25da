//! The control socket: one JSON object a line, asked and answered. See docs/cli-json.md.

pub mod message;
mod peer;
mod server;

pub use message::{Answer, BitmapPlace, DeviceFlag, Ended, RateLimits, Request, VERSION, Word};
pub use server::{Control, Handler, Reply, listen};
