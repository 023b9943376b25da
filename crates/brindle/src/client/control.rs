//! The client's end of the control socket. See docs/cli-json.md.

mod client;
#[cfg(test)]
mod tests;

pub(crate) use brindle_host::control::{Ask, BitmapPlace, DeviceFlag, Request, Word};
pub(crate) use client::{Response, ask, stop, takeover};
