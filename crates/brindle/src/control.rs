//! The control socket: one JSON object a line, asked and answered. See docs/cli-json.md.

mod client;
pub(crate) mod message;
mod peer;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use client::{Asked, ask, stop};
pub(crate) use message::{Answer, BitmapPlace, DeviceFlag, Ended, Request, Word};
pub(crate) use server::{Control, Handler, Reply, listen};
