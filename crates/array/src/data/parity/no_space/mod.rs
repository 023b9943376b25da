//! Writes to rows with lost blocks for which a member has no space: they leave the row with its old content, or with
//! parity that agrees with the data.

pub(super) mod parity_first;
mod undo;
