//! Volumes as devices of the kernel: /dev/nbdN, on connections of the server to itself.
//!
//! The kernel has one end of each connection. The other is a client of the NBD server that has chosen its export already. Each device
//! carries an identifier, so that a server that starts anew finds it: requests wait in the kernel until it has new connections, up to a
//! time. The world asks the kernel, as an [`Attacher`](crate::world::Attacher).

mod attachments;

use brindle_export::nbd::proto::Terms;

use crate::world::WantedDevice;
pub(crate) use attachments::{Attachments, Bar, Scope};

/// The most connections of a device.
pub const MOST_CONNECTIONS: u8 = 8;

/// A device of the kernel that has a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The export.
    pub export: String,
    /// Its number: /dev/nbdN.
    pub index: u32,
}

impl Attached {
    /// Its name.
    pub fn device(&self) -> String {
        format!("/dev/nbd{}", self.index)
    }
}

/// A device that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attaching {
    pub(crate) index: Option<u32>,
    pub(crate) connections: u8,
    /// Seconds.
    pub(crate) dead_timeout: u64,
}

/// Seconds for which requests of a device wait when its server is gone, by default.
pub const DEAD_TIMEOUT: u64 = 300;

/// The device of an export that is to be made, or to have new connections.
pub(crate) fn wanted(terms: &Terms, how: Attaching, identifier: String) -> WantedDevice {
    WantedDevice {
        size: terms.limits.size,
        block: u64::from(terms.limits.block.clamp(512, 4096)),
        flags: terms.transmission_flags(),
        dead_timeout: how.dead_timeout,
        identifier,
        connections: how.connections.clamp(1, MOST_CONNECTIONS),
    }
}

/// The identifier that a device carries: by its first word a server finds it again, by its second udev names it below /dev/brindle.
///
/// Names come from disks: all but letters, digits and `+-_.` is replaced, so that no name leads out of that folder.
pub(crate) fn identifier(key: &str, export: &str) -> String {
    let safe = |part: &str| -> String {
        let harmless = |c: char| c.is_ascii_alphanumeric() || "+-_.".contains(c);
        let part: String = part.chars().map(|c| if harmless(c) { c } else { '_' }).collect();
        if part.is_empty() || part.starts_with('.') { format!("_{part}") } else { part }
    };
    let name = match export.split_once('/') {
        Some((pool, volume)) => format!("{}/{}", safe(pool), safe(volume)),
        None => safe(export),
    };
    format!("{key} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_its_folder() {
        for (export, name) in [
            ("data", "data"),
            ("tank/vm 1", "tank/vm_1"),
            ("../../sda", "_../_.._sda"),
            ("tank/../x", "tank/_.._x"),
            ("a\nb\" $(x)", "a_b____x_"),
            ("", "_"),
        ] {
            assert_eq!(identifier("brindle:1", export), format!("brindle:1 {name}"));
        }
    }
}
