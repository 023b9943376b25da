//! Moves the data of an array of rows with parity into rows of more members, while it is used.
//!
//! md's way, so that either can go on where the other has stopped (`reshape_request` in the kernel's `raid5.c`). On each member the data
//! begin earlier afterwards, by a shift that is the same on all. A row is moved onto bytes that nothing needs any more: those before the
//! old data, or old rows that have moved, as far as that is on record. So there is no moment at which a byte stands nowhere.
//!
//! 1. The array is opened anew with two geometries, between two requests (`grow`): nothing has moved.
//! 2. Window by window (`moving`): changes of its range wait, reads go on where the bytes were. New rows are written and flushed, then the
//!    position is recorded, then the border passes the window, and reads and changes go to the new rows.
//!    A place of which no member has anything left is bad in the new rows, and its parity is (`lost`).
//! 3. Rows of zeroes follow, up to the end of the members: no byte of the array is of unknown redundancy then.
//! 4. At the end the starts of the data are recorded with the reshape still standing, then its end: superblocks that a cut leaves a record
//!    apart say the same of where bytes are. The array is opened anew with the new geometry alone.

mod estimate;
mod lost;
mod moving;
mod window;

use brindle_layout::{Family as Map, Geometry, Level, ParityRows};
use brindle_members::members::RoleState;

use crate::array::Array;
use crate::ledger::{Begin, Form, GrowError};
use crate::placement::Placement;

/// Least bytes by which data may move: blocks of any device.
const LEAST_UNIT: u64 = 4096;
/// Most bytes by which data begin earlier, which is what a window moves on each member: more makes nothing faster.
const MOST_SHIFT: u64 = 32 << 20;
/// A reshape takes this part of the room before the data, where that is enough: another disk will want some.
const PART_OF_ROOM: u64 = 4;

impl Array {
    /// Data are being moved, and a process can go on with that: see [`Array::reshape`].
    pub fn is_moving(&self) -> bool {
        matches!(self.0.placement, Placement::Split(_)) && !self.0.core.config.is_read_only()
    }

    /// The present rows with more members, and what the record needs for that.
    pub(crate) fn widened(&self, count: u16, coming: usize) -> Result<(Form, Begin), GrowError> {
        let (geometry, form) = (&self.0.geometry, self.form());
        let (level, now) = (geometry.level(), geometry.members());
        match () {
            () if !matches!(level, Level::Raid4 | Level::Raid5 | Level::Raid6) => {
                return Err(GrowError::Members { level });
            }
            () if count == now => return Err(GrowError::SameMembers { count }),
            () if count < now => return Err(GrowError::Fewer { level }),
            () => {}
        }
        let core = &self.0.core;
        for role in 0..now {
            if core.members.state(role) != RoleState::InSync {
                return Err(GrowError::Missing { role });
            }
        }
        self.check_spares(usize::from(count - now), coming)?;
        let spares = self.free_spares();
        let devices = spares.into_iter().take((count - now).into()).collect();
        let roles = form.roles.into_iter().chain((now..count).map(|_| None)).collect();
        let form = Form { roles, ..form };
        let shift = self.shift(geometry)?;
        Ok((form, Begin { devices, shift }))
    }

    /// Bytes by which data are to begin earlier.
    fn shift(&self, geometry: &Geometry) -> Result<u64, GrowError> {
        let unit = geometry.chunk().max(LEAST_UNIT);
        let room = self.0.core.keeper.ledger().room_before()?;
        let part = (room.bytes / PART_OF_ROOM).min(MOST_SHIFT);
        let shift = (part - part % unit).max(unit);
        if shift > room.bytes {
            return Err(GrowError::NoRoomBefore { label: room.label, room: room.bytes, need: unit });
        }
        Ok(shift)
    }
}

/// The rows of a geometry.
fn rows(geometry: &Geometry) -> Option<&ParityRows> {
    match geometry.family() {
        Map::Parity(rows) => Some(rows),
        Map::Striped(_) | Map::Mirrored(_) => None,
    }
}
