//! The other side: a client, in three layers, so that whoever speaks NBD speaks it through the same code.
//!
//! | part | does |
//! |---|---|
//! | [`wire`] | what a client says and hears, as bytes; no I/O |
//! | [`Handshake`] | the client's part of the haggling, as steps to say and to hear; no I/O |
//! | [`Client`] | a client over anything that reads and writes, and blocks: a Unix or TCP stream of std |
//! | [`Remote`] | a client over a reactor's socket: the other side's export as a [`brindle_volume::Volume`] |

mod blocking;
mod error;
mod handshake;
mod remote;
pub mod wire;

pub use blocking::{Answer, Client};
pub use error::{Breach, ClientError};
pub use handshake::{Agreed, Handshake, HandshakeStep};
pub use remote::Remote;
