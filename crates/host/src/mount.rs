//! A mount as it is asked for.

use std::path::PathBuf;

/// How a volume is mounted.
#[derive(Clone, Debug)]
pub struct Mount {
    /// Where, from the root.
    pub folder: PathBuf,
    /// Its files can be written to.
    pub write: bool,
    /// User and group of its files.
    pub owner: (u32, u32),
}
