//! The map of an array, by the family of its level.

use crate::{Mirrored, ParityRows, Striped};

/// The owned form of [`crate::Family`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Map {
    Striped(Striped),
    Mirrored(Mirrored),
    Parity(ParityRows),
}
