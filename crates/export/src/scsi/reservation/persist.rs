//! Registrations kept over a loss of power: text of lines, so that people can read it.
//!
//! ```text
//! brindle reservations 1
//! reserved 5 1 iqn.2026-11.example:one,i,0x80123456789a
//! registered 00000000deadbeef 1 iqn.2026-11.example:one,i,0x80123456789a
//! end
//! ```

use core::fmt::Write as _;

use super::{HeldReservation, Kind, MOST_REGISTRANTS, Nexus, Registrant, Reservations};

const HEAD: &str = "brindle reservations 1";
/// An iSCSI name with the rest of a port's.
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

impl Reservations {
    /// The text to keep: none, unless it was asked for.
    pub fn to_file_text(&self) -> Option<String> {
        if !self.kept {
            return None;
        }
        let mut text = format!("{HEAD}\n");
        if let Some(held) = &self.held {
            let Nexus { initiator, port } = &held.nexus;
            let _ = writeln!(text, "reserved {} {port} {initiator}", held.kind as u8);
        }
        for Registrant { nexus: Nexus { initiator, port }, key } in &self.registrants {
            let _ = writeln!(text, "registered {key:016x} {port} {initiator}");
        }
        text.push_str("end\n");
        Some(text)
    }

    /// Reads reservations from the text of their file.
    ///
    /// # Errors
    /// [`ReservationFileError`].
    pub fn from_file_text(text: &str) -> Result<Self, ReservationFileError> {
        let mut kept = Self { kept: true, ..Self::default() };
        let mut ended = false;
        let count = text.lines().count();
        for (at, line) in text.lines().enumerate() {
            let taken = match at {
                0 => (line == HEAD).then_some(()),
                _ if at + 1 == count => (line == "end").then(|| ended = true),
                _ => kept.take(line),
            };
            taken.ok_or(ReservationFileError::Damaged { line: at + 1 })?;
        }
        let held_by_none = kept.held.as_ref().is_some_and(|held| !kept.holds(held, &held.nexus));
        if !ended || held_by_none && kept.registrants.is_empty() {
            return Err(ReservationFileError::Damaged { line: count });
        }
        Ok(kept)
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let (what, rest) = line.split_once(' ')?;
        let (first, rest) = rest.split_once(' ')?;
        let (port, initiator) = rest.split_once(' ')?;
        if initiator.is_empty() || initiator.len() > LONGEST_NAME {
            return None;
        }
        let nexus = Nexus { initiator: initiator.to_owned(), port: port.parse().ok()? };
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
