//! For what operations are.

/// For what an operation is. It changes nothing of what the operation does: a reactor may put some of them behind others.
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
