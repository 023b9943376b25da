//! Registrations kept over a loss of power: text of lines, so that people can read it.
//!
//! ```text
//! brindle reservations 2
//! reserved 5 1 iqn.2026-11.example:one,i,0x80123456789a chap:one
//! registered 00000000deadbeef 1 iqn.2026-11.example:one,i,0x80123456789a chap:one
//! end
//! ```
//!
//! The last word of a line is the name that the initiator has proved. Where none has proved any, lines end before it, and the number
//! of the format is 1, as it was before there were such names.

use core::fmt;

use super::{HeldReservation, Kind, MOST_REGISTRANTS, Nexus, Registrant, Reservations};

const HEAD: &str = "brindle reservations 2";
const HEAD_WITHOUT_OWNERS: &str = "brindle reservations 1";
/// Stands before a name that was proved.
const PROVED: &str = "chap:";
/// An iSCSI name with the rest of a port's, or a name that was proved.
const LONGEST_NAME: usize = 256;

/// Reasons why a file of reservations can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReservationFileError {
    /// The file is damaged, or not of Brindle's format.
    #[error("line {line} is not as Brindle writes reservations: remove the file to begin without any")]
    Damaged {
        /// The first line that is wrong, from 1.
        line: usize,
    },
}

/// A nexus as lines end.
struct Shown<'a>(&'a Nexus);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Nexus { initiator, port, owner } = self.0;
        write!(f, "{port} {initiator}")?;
        owner.as_ref().map_or(Ok(()), |owner| write!(f, " {PROVED}{owner}"))
    }
}

impl Reservations {
    /// The text to keep: none, unless it was asked for.
    pub fn to_file_text(&self) -> Option<String> {
        if !self.kept {
            return None;
        }
        let held = self.held.iter().map(|HeldReservation { kind, nexus }| {
            (nexus, format!("reserved {} {}\n", *kind as u8, Shown(nexus)))
        });
        let registered = self
            .registrants
            .iter()
            .map(|Registrant { nexus, key }| (nexus, format!("registered {key:016x} {}\n", Shown(nexus))));
        let lines: Vec<(&Nexus, String)> = held.chain(registered).collect();
        let is_owned = lines.iter().any(|(nexus, _)| nexus.owner.is_some());
        let mut text = format!("{}\n", if is_owned { HEAD } else { HEAD_WITHOUT_OWNERS });
        lines.iter().for_each(|(_, line)| text.push_str(line));
        text.push_str("end\n");
        Some(text)
    }

    /// Reads reservations from the text of their file.
    ///
    /// # Errors
    /// [`ReservationFileError`].
    pub fn from_file_text(text: &str) -> Result<Self, ReservationFileError> {
        let mut kept = Self { kept: true, ..Self::default() };
        let (mut ended, mut has_owners) = (false, false);
        let count = text.lines().count();
        for (at, line) in text.lines().enumerate() {
            let taken = match at {
                0 => {
                    has_owners = line == HEAD;
                    (has_owners || line == HEAD_WITHOUT_OWNERS).then_some(())
                }
                _ if at + 1 == count => (line == "end").then(|| ended = true),
                _ => kept.take(line, has_owners),
            };
            taken.ok_or(ReservationFileError::Damaged { line: at + 1 })?;
        }
        let held_by_none = kept.held.as_ref().is_some_and(|held| !kept.holds(held, &held.nexus));
        if !ended || held_by_none && kept.registrants.is_empty() {
            return Err(ReservationFileError::Damaged { line: count });
        }
        Ok(kept)
    }

    fn take(&mut self, line: &str, has_owners: bool) -> Option<()> {
        let words: Vec<&str> = line.split(' ').collect();
        let (what, first, port, initiator, owner) = match words[..] {
            [what, first, port, initiator] => (what, first, port, initiator, None),
            [what, first, port, initiator, owner] if has_owners => {
                (what, first, port, initiator, Some(owner.strip_prefix(PROVED)?))
            }
            _ => return None,
        };
        let is_name =
            |name: &str| !name.is_empty() && name.len() <= LONGEST_NAME && !name.contains(char::is_control);
        if !is_name(initiator) || !owner.is_none_or(is_name) {
            return None;
        }
        let owner = owner.map(str::to_owned);
        let nexus = Nexus { initiator: initiator.to_owned(), port: port.parse().ok()?, owner };
        match what {
            "reserved" if self.held.is_none() => {
                self.held = Some(HeldReservation { kind: Kind::of(first.parse().ok()?)?, nexus });
            }
            "registered" if self.registrants.len() < MOST_REGISTRANTS && self.key_of(&nexus).is_none() => {
                self.registrants.push(Registrant { nexus, key: u64::from_str_radix(first, 16).ok()? });
            }
            _ => return None,
        }
        Some(())
    }
}
