//! A device in a role, and what it can do there.

use brindle_io::MemberId;

/// The use that the array can make of a role's member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleState {
    /// The member has all of its data.
    InSync,
    /// No member has this role.
    Missing,
    /// Failed in this run: no operation is sent to it any more.
    Failed,
    /// Being rebuilt: takes every write; its bytes below this offset of the data area can be read.
    Recovering(u64),
}

/// How a member is to be treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags {
    /// The device is read only when no other can answer.
    pub write_mostly: bool,
    /// Requests that it does not carry out at once are not tried again.
    pub failfast: bool,
}

/// A member of the running array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// The reactor's number.
    pub id: MemberId,
    /// Where the array's data begins on it, in bytes.
    pub data_offset: u64,
}

/// A second device in a role: takes every change that the role's member takes.
#[derive(Clone, Copy, Debug)]
pub struct Second {
    /// The device.
    pub device: Device,
    /// Below this offset of the data area it holds what the member holds; `u64::MAX` when that is everywhere.
    pub good: u64,
}

/// The relation of the members' bytes to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependence {
    /// Whether other members make up for a lost one.
    pub redundant: bool,
    /// Whether members' bytes have a meaning only together, as data and parity do. A write that one member missed
    /// makes others' bytes wrong.
    pub coupled: bool,
}
