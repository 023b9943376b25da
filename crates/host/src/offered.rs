//! Exports, as doors offer them to clients.

use std::rc::Rc;

use crate::any::Any;

/// An export of a content.
#[derive(Clone)]
pub struct Offered {
    /// Its name.
    pub name: String,
    /// The volume in words, for clients that ask for a list.
    pub description: String,
    /// The volume's UUID.
    pub uuid: [u8; 16],
    /// The identity of the volume on this machine, by which devices of the kernel are found again.
    pub identity: String,
    /// The volume.
    pub volume: Rc<Any>,
}
