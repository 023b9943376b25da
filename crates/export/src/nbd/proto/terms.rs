//! Requests that a client may send to an export, and the errors for others.

use brindle_volume::{Limits, ZeroOptions};

use super::{Errno, Request, command_code as code, command_flags as flag, transmission_flags as can};

/// The agreement of an export and a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The volume's size, block and abilities.
    pub limits: Limits,
    /// The largest read or write. Bytes.
    pub max_payload: u32,
    /// Replies to reads are structured.
    pub structured: bool,
    /// The client has chosen `base:allocation`.
    pub status: bool,
}

/// A request that is allowed. Ranges lie within the export and on its blocks; bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Send the range's content.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes, not 0.
        len: u32,
    },
    /// Take the data that follow.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes, not 0.
        len: u32,
        /// Reply when stable.
        fua: bool,
    },
    /// Make stable what was replied to.
    Flush,
    /// Discard.
    Trim {
        /// First byte.
        offset: u64,
        /// Bytes, not 0.
        len: u32,
        /// Reply when stable.
        fua: bool,
    },
    /// Make zeroes.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Bytes, not 0.
        len: u32,
        /// How.
        options: ZeroOptions,
    },
    /// Tell which parts are allocated.
    BlockStatus {
        /// First byte.
        offset: u64,
        /// Bytes, not 0.
        len: u32,
        /// One extent only.
        one: bool,
    },
    /// Finish and close.
    Disconnect,
}

impl Terms {
    /// The transmission flags that a client gets in the handshake.
    pub fn transmission_flags(&self) -> u16 {
        let mut flags = can::HAS_FLAGS | can::SEND_FLUSH | can::CAN_MULTI_CONN;
        if self.structured {
            flags |= can::SEND_DF;
        }
        if self.limits.read_only {
            return flags | can::READ_ONLY;
        }
        if self.limits.discard {
            flags |= can::SEND_TRIM;
        }
        flags | can::SEND_FUA | can::SEND_WRITE_ZEROES | can::SEND_FAST_ZERO
    }

    /// The preferred size of requests: the power of two, at least 4096, that costs the volume no detour.
    pub fn preferred(&self) -> u32 {
        // A preferred size beyond the maximum would be a lie, and some clients round their buffers up to it.
        let largest = 1 << self.max_payload.max(1).ilog2();
        self.limits.preferred.max(4096).checked_next_power_of_two().unwrap_or(largest).min(largest)
    }

    /// Sorts out a request.
    ///
    /// # Errors
    /// Checks a request, and gives the error for the client if it is refused; the data of a refused write still
    /// follow its header.
    /// - [`Errno::Perm`]: a change of a read-only export.
    /// - [`Errno::Overflow`]: a longer read than was agreed upon, of a client that takes structured replies.
    /// - [`Errno::NoSpace`]: a write or write-zeroes ends beyond the export.
    /// - [`Errno::Invalid`]: any other command, flag, length or range that is not agreed upon.
    pub fn check(&self, request: &Request) -> Result<Command, Errno> {
        let Request { offset, len, flags, .. } = *request;
        let fua = flags & flag::FUA != 0;
        let allowed = match request.command {
            code::DISC => return Ok(Command::Disconnect),
            code::READ if self.structured => flag::DF,
            code::READ | code::WRITE | code::FLUSH | code::TRIM => 0,
            code::WRITE_ZEROES => flag::NO_HOLE | flag::FAST_ZERO,
            code::BLOCK_STATUS => flag::REQ_ONE,
            _ => return Err(Errno::Invalid),
        };
        // Known clients set FUA on commands that write nothing, and the protocol asks to bear with it.
        if flags & !(allowed | flag::FUA) != 0 {
            return Err(Errno::Invalid);
        }
        match request.command {
            code::READ => {
                self.range(request, Errno::Invalid)?;
                if len > self.max_payload {
                    return Err(if self.structured { Errno::Overflow } else { Errno::Invalid });
                }
                Ok(Command::Read { offset, len })
            }
            code::WRITE => {
                self.writable()?;
                if len > self.max_payload {
                    return Err(Errno::Invalid);
                }
                self.range(request, Errno::NoSpace)?;
                Ok(Command::Write { offset, len, fua })
            }
            code::FLUSH if offset == 0 && len == 0 => Ok(Command::Flush),
            code::TRIM => {
                self.writable()?;
                self.range(request, Errno::Invalid)?;
                Ok(Command::Trim { offset, len, fua })
            }
            code::WRITE_ZEROES => {
                self.writable()?;
                self.range(request, Errno::NoSpace)?;
                let options = ZeroOptions {
                    fua,
                    keep_allocated: flags & flag::NO_HOLE != 0,
                    fast_only: flags & flag::FAST_ZERO != 0,
                };
                Ok(Command::WriteZeroes { offset, len, options })
            }
            code::BLOCK_STATUS if self.status => {
                self.range(request, Errno::Invalid)?;
                Ok(Command::BlockStatus { offset, len, one: flags & flag::REQ_ONE != 0 })
            }
            _ => Err(Errno::Invalid),
        }
    }

    fn writable(&self) -> Result<(), Errno> {
        if self.limits.read_only { Err(Errno::Perm) } else { Ok(()) }
    }

    /// The range is not empty, on blocks and within the export; `beyond` says what to answer if it is not within.
    fn range(&self, request: &Request, beyond: Errno) -> Result<(), Errno> {
        let len = u64::from(request.len);
        let block = u64::from(self.limits.block.max(1));
        if len == 0 || !request.offset.is_multiple_of(block) || !len.is_multiple_of(block) {
            return Err(Errno::Invalid);
        }
        match request.offset.checked_add(len) {
            Some(end) if end <= self.limits.size => Ok(()),
            _ => Err(beyond),
        }
    }
}
