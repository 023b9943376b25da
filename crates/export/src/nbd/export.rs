//! Exports as the protocol has them: with a description, and names that are not too long.

use brindle_volume::Volume;

use super::handshake::Offer;
use super::proto::MAX_STRING;
use crate::access::Client;
use crate::session::Export;

/// Why an export could not be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddExportError {
    /// Name or description is longer than the protocol allows.
    #[error("name or description of export {0:?} is longer than 4096 bytes: choose a shorter one")]
    TooLong(String),
    /// There is an export of that name already.
    #[error("there is an export named {0:?} already: choose another name")]
    Duplicate(String),
}

/// Whether the protocol has words for an export.
///
/// # Errors
/// [`AddExportError::TooLong`].
pub(crate) fn check(name: &str, description: &str) -> Result<(), AddExportError> {
    if name.len() > MAX_STRING || description.len() > MAX_STRING {
        return Err(AddExportError::TooLong(name.to_owned()));
    }
    Ok(())
}

/// The description of an export for a client; `None` if the client may not use it.
pub(crate) fn offer<V: Volume>(export: &Export<V>, is_default: bool, client: &Client) -> Option<Offer> {
    Some(Offer {
        number: export.number,
        is_default,
        name: export.name.clone(),
        description: export.description.clone(),
        limits: export.terms(client)?,
    })
}
