//! iSCSI: SCSI disks over TCP (RFC 7143); `docs/protocols/iscsi.md` draws the messages.
//!
//! | part | does |
//! |---|---|
//! | [`pdu`] | headers of PDUs, digests |
//! | [`login`] | from the first PDU to a session, or a refusal; CHAP, text keys, what is agreed on |
//! | `connection` | commands: one receiver, some slots, one sender per connection |
//! | `target`, `nexuses` | the disks that are served; who uses them, and whose commands are aborted |
//! | [`Server`] | targets and portals; memory, limits and patience are those of every protocol (`crate::session`) |
//!
//! A session has one connection, and error recovery level 0: what goes wrong ends the connection, and the initiator comes
//! again. Data come with their command or when they are asked for (InitialR2T=Yes).

mod connection;
pub mod login;
mod nexuses;
pub mod pdu;
mod server;
mod shared;
mod target;

pub use server::{DISCOVERY, Server, TargetStats};
pub use shared::{Chance, IscsiConfig};
pub use target::{Keep, Keeping, TargetSpec};
