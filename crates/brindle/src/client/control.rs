//! The client's end of the control socket. See docs/cli-json.md.

mod answer;
mod client;
#[cfg(test)]
mod tests;

pub(crate) use answer::{Answer, AsTold, Told};
pub(crate) use brindle_host::control::{Ask, BitmapPlace, DeviceFlag, Request, Word};
pub(crate) use client::{Line, Response, ask, stop, takeover};
