//! Random identities from the system: the only source of chance outside a seed.

use brindle_format::md::Uuid;

use crate::base::failure::Failure;

/// The name of a new array, or of a new device.
pub(crate) fn random_uuid() -> Result<Uuid, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::system("the system has no random numbers for a UUID", std::io::Error::other(error))
    })?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid())
}
