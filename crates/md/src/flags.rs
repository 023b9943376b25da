//! The flags of a member: as md's superblocks have them, and as the engine honours them.

use brindle_format::md::DeviceFlags;
use brindle_members::members::Flags;

/// How a member with these flags is treated.
pub fn treatment(of: DeviceFlags) -> Flags {
    Flags { write_mostly: of.write_mostly, failfast: of.failfast }
}

/// The flags on record of a member that is treated so.
pub fn recorded(of: Flags) -> DeviceFlags {
    DeviceFlags { write_mostly: of.write_mostly, failfast: of.failfast }
}
