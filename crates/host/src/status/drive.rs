//! The drives behind members.

use std::path::Path;

use brindle_io::device::Drive;
use serde::{Deserialize, Serialize};

/// Words that are printed on a drive, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriveStatus {
    /// The model, as its maker names it.
    pub model: Option<String>,
    /// The drive's serial number.
    pub serial: Option<String>,
    /// The drive's name in `/dev/disk/by-id`.
    pub by_id: Option<String>,
    /// Where it is plugged in: the slot of its enclosure or of PCI, else its name in `/dev/disk/by-path`.
    pub slot: Option<String>,
}

impl DriveStatus {
    /// The drive behind a device of this name; `None` for files, and where nothing is known.
    pub fn of(device: &Path) -> Option<Self> {
        let Drive { model, serial, by_id, slot } = Drive::of(device)?;
        Some(Self { model, serial, by_id, slot })
    }

    /// For people, in one line: names of drives may hold anything.
    pub fn text(&self) -> String {
        let serial = self.serial.as_ref().map(|serial| format!("serial {}", serial.escape_debug()));
        let plain = |text: &String| text.escape_debug().to_string();
        let (model, by_id) = (self.model.as_ref().map(plain), self.by_id.as_ref().map(plain));
        let words = [model, serial, by_id, self.slot.as_ref().map(plain)];
        words.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_is_told_in_one_line() {
        let mut drive = DriveStatus {
            model: Some("A\u{1b}[1m\nB".into()),
            serial: Some("S5GX".into()),
            by_id: Some("ata-A_S5GX".into()),
            slot: Some("Slot 03".into()),
        };
        assert_eq!(drive.text(), "A\\u{1b}[1m\\nB, serial S5GX, ata-A_S5GX, Slot 03");
        drive.model = None;
        drive.by_id = None;
        drive.slot = None;
        assert_eq!(drive.text(), "serial S5GX");
    }
}
