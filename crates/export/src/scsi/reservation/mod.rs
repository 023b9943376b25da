//! Persistent reservations (SPC-4, 5.12): who has registered, who holds the unit, and what others may do meanwhile.
//!
//! Pure: a change is made to a copy, which takes the place of what there was once it has been kept where it has to be.

mod conflicts;
mod persist;
mod report;
mod reserve_out;
#[cfg(test)]
mod tests;

pub use conflicts::Conflicts;
pub use persist::ReservationFileError;
pub(super) use report::{capabilities, full_status, holder, keys};
pub(super) use reserve_out::PARAMETERS;
pub use reserve_out::{Effects, Out, Parameters};

/// An initiator port and the target port by which it comes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nexus {
    /// The initiator port's name: of iSCSI `NAME,i,0xISID`.
    pub initiator: String,
    /// The relative identifier of the target port.
    pub port: u16,
    /// The name that the initiator has proved, if it had to: a port that one has made is not another's, though it is called the same.
    pub owner: Option<String>,
}

impl Nexus {
    /// The initiator's name, without what tells its ports apart.
    pub fn initiator_name(&self) -> &str {
        self.initiator.split(",i,0x").next().unwrap_or_default()
    }
}

/// The types of reservations, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as the standard names them")]
pub enum Kind {
    WriteExclusive = 1,
    ExclusiveAccess = 3,
    WriteExclusiveRegistrants = 5,
    ExclusiveAccessRegistrants = 6,
    WriteExclusiveAll = 7,
    ExclusiveAccessAll = 8,
}

impl Kind {
    /// All types.
    pub const ALL: [Self; 6] = [
        Self::WriteExclusive,
        Self::ExclusiveAccess,
        Self::WriteExclusiveRegistrants,
        Self::ExclusiveAccessRegistrants,
        Self::WriteExclusiveAll,
        Self::ExclusiveAccessAll,
    ];

    /// The type of a number.
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Whether every registrant holds the reservation.
    const fn is_everybodys(self) -> bool {
        matches!(self, Self::WriteExclusiveAll | Self::ExclusiveAccessAll)
    }

    /// Only the holder may do what the type excludes; others may not, whether registered or not.
    const fn is_holders(self) -> bool {
        matches!(self, Self::WriteExclusive | Self::ExclusiveAccess)
    }

    /// The type of reservation excludes reads, too.
    const fn excludes_reads(self) -> bool {
        matches!(self, Self::ExclusiveAccess | Self::ExclusiveAccessRegistrants | Self::ExclusiveAccessAll)
    }
}

/// A nexus that has registered.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Registrant {
    nexus: Nexus,
    key: u64,
}

/// A reservation that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HeldReservation {
    kind: Kind,
    /// The holder; of reservations that all registrants hold, the nexus that made it.
    nexus: Nexus,
}

/// Registrations and reservation of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservations {
    generation: u32,
    registrants: Vec<Registrant>,
    held: Option<HeldReservation>,
    /// Reservations are kept over a loss of power (APTPL).
    kept: bool,
}

/// The most nexuses that may be registered at a time.
pub const MOST_REGISTRANTS: usize = 256;

impl Reservations {
    /// Somebody has registered: RESERVE (6) is refused then.
    pub fn has_registrants(&self) -> bool {
        !self.registrants.is_empty()
    }

    /// The type of the reservation, if there is one.
    pub fn held(&self) -> Option<Kind> {
        self.held.as_ref().map(|held| held.kind)
    }

    /// Number of registered initiators.
    pub fn registrants(&self) -> usize {
        self.registrants.len()
    }

    /// Reservations are kept over a loss of power.
    pub const fn is_kept(&self) -> bool {
        self.kept
    }

    /// Whether one who has proved this name, or none, may come as an initiator: what that has registered is its own, or nobody's.
    pub fn belong_to(&self, initiator: &str, proved: Option<&str>) -> bool {
        let own = |owner: &Option<String>| owner.is_none() || owner.as_deref() == proved;
        let mut those = self.registrants.iter().filter(|one| one.nexus.initiator_name() == initiator);
        those.all(|one| own(&one.nexus.owner))
    }

    /// Gives what an initiator has registered to one who has proved a name, as far as it is nobody's; `false` if none of it is.
    pub fn adopt(&mut self, initiator: &str, proved: &str) -> bool {
        let registered = self.registrants.iter_mut().map(|one| &mut one.nexus);
        let all = registered.chain(self.held.as_mut().map(|held| &mut held.nexus));
        let mut adopted = false;
        for nexus in all.filter(|one| one.owner.is_none() && one.initiator_name() == initiator) {
            nexus.owner = Some(proved.to_owned());
            adopted = true;
        }
        adopted
    }

    fn key_of(&self, nexus: &Nexus) -> Option<u64> {
        self.registrants.iter().find(|registrant| registrant.nexus == *nexus).map(|registrant| registrant.key)
    }

    /// Whether a nexus holds the present reservation.
    fn holds(&self, held: &HeldReservation, nexus: &Nexus) -> bool {
        if held.kind.is_everybodys() { self.key_of(nexus).is_some() } else { held.nexus == *nexus }
    }
}
