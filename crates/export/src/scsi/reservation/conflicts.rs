//! Commands allowed to each nexus while the unit is reserved (SPC-4, table 66; SBC-3, table 13).

use super::{Nexus, Reservations};

/// How a command fares where another nexus holds a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflicts {
    /// The command may always be given.
    Never,
    /// The command reads the medium: refused by types that exclude conflicts.
    Read,
    /// The command changes the medium or the unit: refused by all types.
    Write,
}

impl Reservations {
    /// Whether a nexus may give such a command.
    pub fn allows(&self, nexus: &Nexus, conflicts: Conflicts) -> bool {
        let Some(held) = &self.held else { return true };
        if conflicts == Conflicts::Never || conflicts == Conflicts::Read && !held.kind.excludes_reads() {
            return true;
        }
        if held.kind.is_holders() { held.nexus == *nexus } else { self.key_of(nexus).is_some() }
    }
}
