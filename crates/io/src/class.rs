//! The purpose of an operation.

/// The purpose of an operation. A reactor may schedule one class behind another; the operation itself is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpClass {
    /// A client waits for the operation.
    #[default]
    Client,
    /// Background work: a resync, check, repair or recovery.
    Repair,
    /// Metadata of the array: superblocks, logs, probes of a device.
    Metadata,
}

impl OpClass {
    /// The class of this number, as `as` gives it.
    pub(crate) fn of_number(number: u64) -> Self {
        [Self::Client, Self::Repair, Self::Metadata]
            .into_iter()
            .find(|class| *class as u64 == number)
            .unwrap_or_default()
    }
}
