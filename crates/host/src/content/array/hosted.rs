//! An open array as a host gets it, with the devices that it was assembled from.

use std::path::PathBuf;

use brindle_array::Array;
use brindle_io::MemberId;
use brindle_volume::VolumeError;

use super::description::ArrayDescription;
use crate::status::LeftOut;

/// An array that is a member of a hosted one.
pub struct Nested {
    /// The name that was given: `a+b+c`.
    pub label: String,
    /// The array.
    pub array: Array,
    /// The array as its members describe it.
    pub description: ArrayDescription,
}

/// An array that runs, with its name.
pub struct Hosted {
    /// The name of its export and in messages.
    pub name: String,
    /// The array.
    pub array: Array,
    /// The array as its members describe it.
    pub description: ArrayDescription,
    /// The arrays nested in it.
    pub nested: Vec<Nested>,
    /// The group of arrays with which it shares spares.
    pub spare_group: Option<String>,
    /// Devices that were named and are done without.
    pub left_out: Vec<LeftOut>,
    /// All devices that were opened for it, those of arrays that are its members among them.
    pub devices: Vec<MemberId>,
    /// Names of these, and their files when all links are followed.
    pub files: Vec<(String, PathBuf)>,
}

impl Hosted {
    /// Ends the array and the arrays that are its members.
    pub(crate) async fn stop(&self) -> Result<(), VolumeError> {
        stop_stack(&self.array, self.nested.iter().map(|nested| (&*nested.label, &nested.array))).await
    }
}

/// Ends an array and the arrays that are its members, outermost first: each marks itself clean. A member that can't is the
/// array's affair as any other, and has been reported.
///
/// # Errors
/// As [`Array::stop`].
pub async fn stop_stack<'a>(
    array: &Array,
    nested: impl DoubleEndedIterator<Item = (&'a str, &'a Array)>,
) -> Result<(), VolumeError> {
    let stopped = array.stop().await;
    for (label, nested) in nested.rev() {
        if let Err(error) = nested.stop().await {
            tracing::warn!("{label}: not marked clean: {error}");
        }
    }
    stopped
}
