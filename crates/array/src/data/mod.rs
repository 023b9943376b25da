//! The data path: it carries requests from the volume above to the members below.

pub(crate) mod allocation;
pub(crate) mod list;
pub(crate) mod mend;
pub(crate) mod mirrored;
pub(crate) mod parity;
pub(crate) mod report;
pub(crate) mod striped;

use brindle_io::OpError;

/// A member that gave this error has lost what it held: there is nothing to mend.
pub(crate) fn is_lost(error: OpError) -> bool {
    matches!(error, OpError::Gone | OpError::Truncated)
}
