//! SCSI disks: commands, and their answers. Primary commands (SPC-4) and block commands (SBC-3), as initiators of
//! hypervisors and systems use them.
//!
//! No socket is known here, and no member: a command comes as the bytes of its CDB and becomes an [`Action`], which is done
//! on a volume by `perform`. Nothing of it waits but that.
//!
//! | part | does |
//! |---|---|
//! | `cdb`, `opcodes` | bytes to commands; which there are |
//! | [`Unit`] | the state of a disk that its initiators share: reservations, modes, what they are to be told |
//! | `reservation` | persistent reservations |
//! | `identity`, `mode`, `copy` | what a disk says of itself, what can be changed, third party copies |
//! | `sense` | how a command fails |

mod action;
mod answers;
mod cdb;
mod copy;
mod identity;
mod mode;
mod opcodes;
pub(crate) mod perform;
pub mod reservation;
mod sense;
mod third_party;
mod unit;
mod unit_sizes;

pub use action::{Action, Units};
pub use answers::absent;
pub use cdb::{CDB, Command, parse};
pub use copy::{CopyJob, Result as CopyResult, Segment};
pub use identity::Identity;
pub use mode::Modes;
pub use sense::{Attention, Field, LONGEST as LONGEST_SENSE, Sense, Status};
pub use unit::Unit;
pub use unit_sizes::Shape;
