//! Command descriptor blocks to commands (SPC-4, SBC-3).

use super::sense::Sense;

/// Bytes of the longest CDB that is taken.
pub const CDB: usize = 16;

/// A range of logical blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// The first.
    pub lba: u64,
    /// Number of blocks.
    pub count: u64,
    /// FUA: writes are stable when the command is answered, reads come from stable storage.
    pub fua: bool,
}

/// How VERIFY compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The command only reads.
    Nothing,
    /// The initiator sends as many blocks as are verified.
    Each,
    /// The initiator sends one block, with which each is compared.
    One,
}

/// A parsed command. Lengths are bytes; `most` is the allocation length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "fields are named as the standard names them, or explained at the command")]
pub enum Command {
    TestUnitReady,
    RequestSense { descriptors: bool, most: usize },
    Inquiry { page: Option<u8>, most: usize },
    ReportLuns { select: u8, most: usize },
    ReadCapacity10,
    ReadCapacity16 { most: usize },
    LbaStatus { lba: u64, most: usize },
    ModeSense { ten: bool, no_descriptors: bool, control: u8, page: u8, subpage: u8, most: usize },
    ModeSelect { ten: bool, len: usize },
    LogSense { page: u8, subpage: u8, most: usize },
    Read(Blocks),
    Write(Blocks),
    WriteVerify { blocks: Blocks, compare: Compare },
    Verify { blocks: Blocks, compare: Compare },
    OrWrite(Blocks),
    CompareAndWrite(Blocks),
    WriteSame { blocks: Blocks, unmap: bool, no_data: bool },
    Unmap { len: usize },
    Prefetch(Blocks),
    Flush(Blocks),
    StartStop,
    Reserve,
    Release,
    ReserveIn { action: u8, most: usize },
    ReserveOut { action: u8, scope: u8, kind: u8, len: usize },
    TargetPorts { extended: bool, most: usize },
    Opcodes { options: u8, timeouts: bool, opcode: u8, action: u16, most: usize },
    TaskFunctions { extended: bool, most: usize },
    ExtendedCopy { len: usize },
    CopyResults { action: u8, list: u8, most: usize },
}

/// Operation codes.
pub(super) mod op {
    pub(crate) const TEST_UNIT_READY: u8 = 0x00;
    pub(crate) const REQUEST_SENSE: u8 = 0x03;
    pub(crate) const READ_6: u8 = 0x08;
    pub(crate) const WRITE_6: u8 = 0x0a;
    pub(crate) const INQUIRY: u8 = 0x12;
    pub(crate) const MODE_SELECT_6: u8 = 0x15;
    pub(crate) const RESERVE_6: u8 = 0x16;
    pub(crate) const RELEASE_6: u8 = 0x17;
    pub(crate) const MODE_SENSE_6: u8 = 0x1a;
    pub(crate) const START_STOP: u8 = 0x1b;
    pub(crate) const READ_CAPACITY_10: u8 = 0x25;
    pub(crate) const READ_10: u8 = 0x28;
    pub(crate) const WRITE_10: u8 = 0x2a;
    pub(crate) const WRITE_VERIFY_10: u8 = 0x2e;
    pub(crate) const VERIFY_10: u8 = 0x2f;
    pub(crate) const PREFETCH_10: u8 = 0x34;
    pub(crate) const SYNCHRONIZE_10: u8 = 0x35;
    pub(crate) const WRITE_SAME_10: u8 = 0x41;
    pub(crate) const UNMAP: u8 = 0x42;
    pub(crate) const LOG_SENSE: u8 = 0x4d;
    pub(crate) const MODE_SELECT_10: u8 = 0x55;
    pub(crate) const RESERVE_10: u8 = 0x56;
    pub(crate) const RELEASE_10: u8 = 0x57;
    pub(crate) const MODE_SENSE_10: u8 = 0x5a;
    pub(crate) const RESERVE_IN: u8 = 0x5e;
    pub(crate) const RESERVE_OUT: u8 = 0x5f;
    pub(crate) const EXTENDED_COPY: u8 = 0x83;
    pub(crate) const COPY_RESULTS: u8 = 0x84;
    pub(crate) const READ_16: u8 = 0x88;
    pub(crate) const COMPARE_AND_WRITE: u8 = 0x89;
    pub(crate) const WRITE_16: u8 = 0x8a;
    pub(crate) const ORWRITE_16: u8 = 0x8b;
    pub(crate) const WRITE_VERIFY_16: u8 = 0x8e;
    pub(crate) const VERIFY_16: u8 = 0x8f;
    pub(crate) const PREFETCH_16: u8 = 0x90;
    pub(crate) const SYNCHRONIZE_16: u8 = 0x91;
    pub(crate) const WRITE_SAME_16: u8 = 0x93;
    pub(crate) const SERVICE_IN_16: u8 = 0x9e;
    pub(crate) const REPORT_LUNS: u8 = 0xa0;
    pub(crate) const MAINTENANCE_IN: u8 = 0xa3;
    pub(crate) const READ_12: u8 = 0xa8;
    pub(crate) const WRITE_12: u8 = 0xaa;
    pub(crate) const WRITE_VERIFY_12: u8 = 0xae;
    pub(crate) const VERIFY_12: u8 = 0xaf;
}

/// Fields of a CDB by their first byte.
struct Fields<'a>(&'a [u8; CDB]);

impl Fields<'_> {
    fn u8(&self, at: usize) -> u8 {
        self.0[at]
    }

    fn number(&self, at: usize, bytes: usize) -> u64 {
        self.0[at..at + bytes].iter().fold(0, |all, &byte| all << 8 | u64::from(byte))
    }

    fn len(&self, at: usize, bytes: usize) -> usize {
        self.number(at, bytes) as usize
    }

    /// LBA and count of commands of 10, 12 and 16 bytes that have them where READ has.
    fn blocks(&self) -> Blocks {
        let (lba, count) = match self.0[0] >> 5 {
            4 => (self.number(2, 8), self.number(10, 4)),
            5 => (self.number(2, 4), self.number(6, 4)),
            _ => (self.number(2, 4), self.number(7, 2)),
        };
        Blocks { lba, count, fua: self.0[1] & 0x08 != 0 }
    }

    /// The blocks of a command that must not ask for protection information, which units don't have.
    fn plain(&self) -> Result<Blocks, Sense> {
        if self.0[1] & 0xe0 != 0 { Err(Sense::cdb(1)) } else { Ok(self.blocks()) }
    }

    /// BYTCHK, of VERIFY and WRITE AND VERIFY.
    fn compare(&self) -> Result<Compare, Sense> {
        match self.0[1] >> 1 & 3 {
            0 => Ok(Compare::Nothing),
            1 => Ok(Compare::Each),
            3 => Ok(Compare::One),
            _ => Err(Sense::cdb(1)),
        }
    }
}

/// Bytes of the CDB of an operation code, of those that have a size.
pub(super) const fn cdb_len(opcode: u8) -> usize {
    match opcode >> 5 {
        0 => 6,
        4 => 16,
        5 => 12,
        _ => 10,
    }
}

/// Parses a CDB.
///
/// # Errors
/// There is no such command, or a field has a value that is not taken.
pub fn parse(cdb: &[u8; CDB]) -> Result<Command, Sense> {
    let fields = Fields(cdb);
    // NACA: there is no auto contingent allegiance here.
    if cdb[cdb_len(cdb[0]) - 1] & 0x04 != 0 {
        return Err(Sense::cdb(cdb_len(cdb[0]) as u16 - 1));
    }
    if let Some(moved) = transfer(&fields) {
        return moved;
    }
    Ok(match cdb[0] {
        op::TEST_UNIT_READY => Command::TestUnitReady,
        op::REQUEST_SENSE => Command::RequestSense { descriptors: cdb[1] & 1 != 0, most: fields.len(4, 1) },
        op::INQUIRY => return inquiry(&fields),
        op::REPORT_LUNS => Command::ReportLuns { select: cdb[2], most: fields.len(6, 4) },
        op::READ_CAPACITY_10 => return capacity(&fields),
        op::SERVICE_IN_16 => return service_in(&fields),
        op::MODE_SENSE_6 | op::MODE_SENSE_10 => {
            let ten = cdb[0] == op::MODE_SENSE_10;
            Command::ModeSense {
                ten,
                no_descriptors: cdb[1] & 0x08 != 0,
                control: cdb[2] >> 6,
                page: cdb[2] & 0x3f,
                subpage: cdb[3],
                most: if ten { fields.len(7, 2) } else { fields.len(4, 1) },
            }
        }
        op::MODE_SELECT_6 | op::MODE_SELECT_10 => {
            let ten = cdb[0] == op::MODE_SELECT_10;
            // PF is to be set, and nothing is kept over a restart (SP).
            if cdb[1] & 0x11 != 0x10 {
                return Err(Sense::cdb(1));
            }
            Command::ModeSelect { ten, len: if ten { fields.len(7, 2) } else { fields.len(4, 1) } }
        }
        op::LOG_SENSE => Command::LogSense { page: cdb[2] & 0x3f, subpage: cdb[3], most: fields.len(7, 2) },
        op::START_STOP => return start_stop(&fields),
        op::RESERVE_6 | op::RESERVE_10 => return reserve(&fields, Command::Reserve),
        op::RELEASE_6 | op::RELEASE_10 => return reserve(&fields, Command::Release),
        op::RESERVE_IN => Command::ReserveIn { action: cdb[1] & 0x1f, most: fields.len(7, 2) },
        op::RESERVE_OUT => Command::ReserveOut {
            action: cdb[1] & 0x1f,
            scope: cdb[2] >> 4,
            kind: cdb[2] & 0x0f,
            len: fields.len(5, 4),
        },
        op::MAINTENANCE_IN => return maintenance_in(&fields),
        // Only LID1: service action 0.
        op::EXTENDED_COPY if cdb[1] & 0x1f == 0 => Command::ExtendedCopy { len: fields.len(10, 4) },
        op::COPY_RESULTS => {
            Command::CopyResults { action: cdb[1] & 0x1f, list: cdb[2], most: fields.len(10, 4) }
        }
        op::EXTENDED_COPY => return Err(Sense::cdb(1)),
        _ => return Err(Sense::NO_SUCH_COMMAND),
    })
}

/// Commands on ranges of blocks.
fn transfer(fields: &Fields<'_>) -> Option<Result<Command, Sense>> {
    let plain = |make: fn(Blocks) -> Command| fields.plain().map(make);
    Some(match fields.u8(0) {
        op::READ_6 => Ok(Command::Read(six(fields))),
        op::WRITE_6 => Ok(Command::Write(six(fields))),
        op::READ_10 | op::READ_12 | op::READ_16 => plain(Command::Read),
        op::WRITE_10 | op::WRITE_12 | op::WRITE_16 => plain(Command::Write),
        op::ORWRITE_16 => plain(Command::OrWrite),
        op::WRITE_VERIFY_10 | op::WRITE_VERIFY_12 | op::WRITE_VERIFY_16 => write_verify(fields),
        op::VERIFY_10 | op::VERIFY_12 | op::VERIFY_16 => verify(fields),
        op::COMPARE_AND_WRITE => {
            let count = u64::from(fields.u8(13));
            plain(Command::CompareAndWrite).map(|command| match command {
                Command::CompareAndWrite(blocks) => Command::CompareAndWrite(Blocks { count, ..blocks }),
                other => other,
            })
        }
        op::WRITE_SAME_10 | op::WRITE_SAME_16 => write_same(fields),
        op::UNMAP if fields.u8(1) & 1 != 0 => Err(Sense::cdb(1)),
        op::UNMAP => Ok(Command::Unmap { len: fields.len(7, 2) }),
        op::PREFETCH_10 | op::PREFETCH_16 => Ok(Command::Prefetch(fields.blocks())),
        op::SYNCHRONIZE_10 | op::SYNCHRONIZE_16 => Ok(Command::Flush(fields.blocks())),
        _ => return None,
    })
}

fn six(fields: &Fields<'_>) -> Blocks {
    let count = fields.number(4, 1);
    Blocks { lba: fields.number(1, 3) & 0x1f_ffff, count: if count == 0 { 256 } else { count }, fua: false }
}

fn write_verify(fields: &Fields<'_>) -> Result<Command, Sense> {
    let compare = fields.compare()?;
    if compare == Compare::One {
        return Err(Sense::cdb(1));
    }
    // The write is stable, so that the written data are verified.
    Ok(Command::WriteVerify { blocks: Blocks { fua: true, ..fields.plain()? }, compare })
}

fn verify(fields: &Fields<'_>) -> Result<Command, Sense> {
    Ok(Command::Verify { blocks: Blocks { fua: false, ..fields.plain()? }, compare: fields.compare()? })
}

fn write_same(fields: &Fields<'_>) -> Result<Command, Sense> {
    let flags = fields.u8(1);
    let blocks = Blocks { fua: false, ..fields.plain()? };
    // Blocks can't be anchored. NDOB stands where WRITE SAME (10) has an obsolete bit.
    let no_data = fields.u8(0) == op::WRITE_SAME_16 && flags & 0x01 != 0;
    if flags & 0x10 != 0 || fields.u8(0) == op::WRITE_SAME_10 && flags & 0x07 != 0 {
        return Err(Sense::cdb(1));
    }
    Ok(Command::WriteSame { blocks, unmap: flags & 0x08 != 0, no_data })
}

fn inquiry(fields: &Fields<'_>) -> Result<Command, Sense> {
    let (vpd, page) = (fields.u8(1) & 1 != 0, fields.u8(2));
    if fields.u8(1) & 2 != 0 {
        return Err(Sense::cdb(1));
    }
    if !vpd && page != 0 {
        return Err(Sense::cdb(2));
    }
    Ok(Command::Inquiry { page: vpd.then_some(page), most: fields.len(3, 2) })
}

fn capacity(fields: &Fields<'_>) -> Result<Command, Sense> {
    // An LBA without PMI, or PMI, which is obsolete.
    if fields.u8(8) & 1 != 0 {
        return Err(Sense::cdb(8));
    }
    if fields.number(2, 4) != 0 {
        return Err(Sense::cdb(2));
    }
    Ok(Command::ReadCapacity10)
}

fn service_in(fields: &Fields<'_>) -> Result<Command, Sense> {
    let most = fields.len(10, 4);
    match fields.u8(1) & 0x1f {
        0x10 => Ok(Command::ReadCapacity16 { most }),
        0x12 => Ok(Command::LbaStatus { lba: fields.number(2, 8), most }),
        _ => Err(Sense::cdb(1)),
    }
}

fn start_stop(fields: &Fields<'_>) -> Result<Command, Sense> {
    // A disk without power states and removable medium has nothing to do. LOEJ without a medium to eject is refused.
    if fields.u8(4) & 0xf0 == 0 && fields.u8(4) & 0x02 != 0 {
        return Err(Sense::cdb(4));
    }
    Ok(Command::StartStop)
}

/// RESERVE and RELEASE of the whole unit: not for others, nor of extents.
fn reserve(fields: &Fields<'_>, command: Command) -> Result<Command, Sense> {
    if fields.u8(1) & 0x11 != 0 { Err(Sense::cdb(1)) } else { Ok(command) }
}

fn maintenance_in(fields: &Fields<'_>) -> Result<Command, Sense> {
    let most = fields.len(6, 4);
    match fields.u8(1) & 0x1f {
        0x0a => Ok(Command::TargetPorts { extended: fields.u8(1) >> 5 == 1, most }),
        0x0c => Ok(Command::Opcodes {
            options: fields.u8(2) & 7,
            timeouts: fields.u8(2) & 0x80 != 0,
            opcode: fields.u8(3),
            action: fields.number(4, 2) as u16,
            most,
        }),
        0x0d => Ok(Command::TaskFunctions { extended: fields.u8(2) & 0x80 != 0, most }),
        _ => Err(Sense::cdb(1)),
    }
}
