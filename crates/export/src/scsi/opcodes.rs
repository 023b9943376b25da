//! REPORT SUPPORTED OPERATION CODES and TASK MANAGEMENT FUNCTIONS (SPC-4, 6.35 and 6.36).

use super::cdb::op;
use super::sense::Sense;

/// A command: its service action, if any, and the bits of its CDB that are used.
struct CommandEntry {
    action: Option<u16>,
    usage: &'static [u8],
}

const fn plain(usage: &'static [u8]) -> CommandEntry {
    CommandEntry { action: None, usage }
}

const fn action(action: u16, usage: &'static [u8]) -> CommandEntry {
    CommandEntry { action: Some(action), usage }
}

const TEN: [u8; 10] = [0, 0x18, 255, 255, 255, 255, 0, 255, 255, 4];
const TWELVE: [u8; 12] = [0, 0x18, 255, 255, 255, 255, 255, 255, 255, 255, 0, 4];
const SIXTEEN: [u8; 16] = [0, 0x18, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 4];

/// A usage map of the usual shape, with the operation code and the bits of byte 1.
const fn shaped<const N: usize>(mut shape: [u8; N], opcode: u8, flags: u8) -> [u8; N] {
    (shape[0], shape[1]) = (opcode, flags);
    shape
}

macro_rules! shaped {
    ($shape:ident, $opcode:expr, $flags:expr) => {
        plain(&const { shaped($shape, $opcode, $flags) })
    };
}

const fn reserve_out(service: u16) -> CommandEntry {
    const USAGE: [u8; 10] = [op::RESERVE_OUT, 0x1f, 255, 0, 0, 255, 255, 255, 255, 4];
    action(service, &USAGE)
}

const fn reserve_in(service: u16) -> CommandEntry {
    const USAGE: [u8; 10] = [op::RESERVE_IN, 0x1f, 0, 0, 0, 0, 0, 255, 255, 4];
    action(service, &USAGE)
}

const fn copy_results(service: u16) -> CommandEntry {
    const USAGE: [u8; 16] = [op::COPY_RESULTS, 0x1f, 255, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 4];
    action(service, &USAGE)
}

const ENTRIES: &[CommandEntry] = &[
    plain(&[op::TEST_UNIT_READY, 0, 0, 0, 0, 4]),
    plain(&[op::REQUEST_SENSE, 1, 0, 0, 255, 4]),
    plain(&[op::READ_6, 0x1f, 255, 255, 255, 4]),
    plain(&[op::WRITE_6, 0x1f, 255, 255, 255, 4]),
    plain(&[op::INQUIRY, 1, 255, 255, 255, 4]),
    plain(&[op::MODE_SELECT_6, 0x10, 0, 0, 255, 4]),
    plain(&[op::RESERVE_6, 0, 0, 0, 0, 4]),
    plain(&[op::RELEASE_6, 0, 0, 0, 0, 4]),
    plain(&[op::MODE_SENSE_6, 0x08, 255, 255, 255, 4]),
    plain(&[op::START_STOP, 1, 0, 0x0f, 0xf7, 4]),
    plain(&[op::READ_CAPACITY_10, 0, 0, 0, 0, 0, 0, 0, 0, 4]),
    shaped!(TEN, op::READ_10, 0x18),
    shaped!(TEN, op::WRITE_10, 0x18),
    shaped!(TEN, op::WRITE_VERIFY_10, 0x12),
    shaped!(TEN, op::VERIFY_10, 0x16),
    shaped!(TEN, op::PREFETCH_10, 0x02),
    shaped!(TEN, op::SYNCHRONIZE_10, 0x02),
    shaped!(TEN, op::WRITE_SAME_10, 0x08),
    plain(&[op::UNMAP, 0, 0, 0, 0, 0, 0, 255, 255, 4]),
    plain(&[op::LOG_SENSE, 0, 255, 255, 0, 0, 0, 255, 255, 4]),
    plain(&[op::MODE_SELECT_10, 0x10, 0, 0, 0, 0, 0, 255, 255, 4]),
    plain(&[op::RESERVE_10, 0, 0, 0, 0, 0, 0, 0, 0, 4]),
    plain(&[op::RELEASE_10, 0, 0, 0, 0, 0, 0, 0, 0, 4]),
    plain(&[op::MODE_SENSE_10, 0x08, 255, 255, 0, 0, 0, 255, 255, 4]),
    reserve_in(0),
    reserve_in(1),
    reserve_in(2),
    reserve_in(3),
    reserve_out(0),
    reserve_out(1),
    reserve_out(2),
    reserve_out(3),
    reserve_out(4),
    reserve_out(5),
    reserve_out(6),
    action(0, &[op::EXTENDED_COPY, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 4]),
    copy_results(0),
    copy_results(3),
    copy_results(4),
    shaped!(SIXTEEN, op::READ_16, 0x18),
    plain(&[op::COMPARE_AND_WRITE, 0x18, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 255, 0, 4]),
    shaped!(SIXTEEN, op::WRITE_16, 0x18),
    shaped!(SIXTEEN, op::ORWRITE_16, 0x18),
    shaped!(SIXTEEN, op::WRITE_VERIFY_16, 0x12),
    shaped!(SIXTEEN, op::VERIFY_16, 0x16),
    shaped!(SIXTEEN, op::PREFETCH_16, 0x02),
    shaped!(SIXTEEN, op::SYNCHRONIZE_16, 0x02),
    shaped!(SIXTEEN, op::WRITE_SAME_16, 0x09),
    action(0x10, &[op::SERVICE_IN_16, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 4]),
    action(0x12, &const { shaped(SIXTEEN, op::SERVICE_IN_16, 0x1f) }),
    plain(&[op::REPORT_LUNS, 0, 255, 0, 0, 0, 255, 255, 255, 255, 0, 4]),
    action(0x0a, &[op::MAINTENANCE_IN, 0xff, 0, 0, 0, 0, 255, 255, 255, 255, 0, 4]),
    action(0x0c, &[op::MAINTENANCE_IN, 0x1f, 0x87, 255, 255, 255, 255, 255, 255, 255, 0, 4]),
    action(0x0d, &[op::MAINTENANCE_IN, 0x1f, 0x80, 0, 0, 0, 255, 255, 255, 255, 0, 4]),
    shaped!(TWELVE, op::READ_12, 0x18),
    shaped!(TWELVE, op::WRITE_12, 0x18),
    shaped!(TWELVE, op::WRITE_VERIFY_12, 0x12),
    shaped!(TWELVE, op::VERIFY_12, 0x16),
];

/// No timeouts are promised.
const TIMEOUTS: [u8; 12] = [0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The answer to REPORT SUPPORTED OPERATION CODES.
///
/// # Errors
/// A combination of fields that makes no sense.
pub(super) fn report(options: u8, timeouts: bool, opcode: u8, service: u16) -> Result<Vec<u8>, Sense> {
    if options == 0 {
        return Ok(all(timeouts));
    }
    let of = || ENTRIES.iter().filter(|entry| entry.usage[0] == opcode);
    let has_actions = of().any(|entry| entry.action.is_some());
    let found = match options {
        1 if has_actions => return Err(Sense::cdb(2)),
        1 => of().next(),
        2 if of().next().is_some() && !has_actions => return Err(Sense::cdb(2)),
        2 => of().find(|entry| entry.action == Some(service)),
        3 if has_actions => of().find(|entry| entry.action == Some(service)),
        3 => of().next().filter(|_| service == 0),
        _ => return Err(Sense::cdb(2)),
    };
    Ok(one(found, timeouts))
}

fn all(timeouts: bool) -> Vec<u8> {
    let mut list = vec![0; 4];
    for entry in ENTRIES {
        list.extend([entry.usage[0], 0]);
        list.extend(entry.action.unwrap_or(0).to_be_bytes());
        list.extend([0, u8::from(entry.action.is_some()) | u8::from(timeouts) << 1]);
        list.extend((entry.usage.len() as u16).to_be_bytes());
        if timeouts {
            list.extend(TIMEOUTS);
        }
    }
    let len = list.len() as u32 - 4;
    list[..4].copy_from_slice(&len.to_be_bytes());
    list
}

fn one(entry: Option<&CommandEntry>, timeouts: bool) -> Vec<u8> {
    let Some(entry) = entry else { return vec![0, 1, 0, 0] };
    let mut one = vec![0, 3 | u8::from(timeouts) << 7];
    one.extend((entry.usage.len() as u16).to_be_bytes());
    one.extend(entry.usage);
    if let Some(action) = entry.action {
        // The byte with the service action names the action.
        one[5] = one[5] & !0x1f | action as u8;
    }
    if timeouts {
        one.extend(TIMEOUTS);
    }
    one
}

/// The answer to REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS: ABORT TASK, ABORT TASK SET, CLEAR TASK SET, LOGICAL UNIT RESET.
pub(super) fn task_functions(extended: bool) -> Vec<u8> {
    let mut functions = vec![0xd8, 0, 0, 0];
    if extended {
        functions[3] = 12;
        functions.resize(16, 0);
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::super::cdb::{CDB, cdb_len, parse};
    use super::*;

    #[test]
    fn every_command_that_is_named_is_taken() {
        for entry in ENTRIES {
            let opcode = entry.usage[0];
            assert_eq!(entry.usage.len(), cdb_len(opcode), "{opcode:02x}");
            let mut cdb = [0; CDB];
            (cdb[0], cdb[1]) = (opcode, entry.action.unwrap_or(0) as u8);
            if matches!(opcode, op::MODE_SELECT_6 | op::MODE_SELECT_10) {
                cdb[1] = 0x10;
            }
            assert!(parse(&cdb).is_ok(), "{opcode:02x}");
        }
    }

    #[test]
    fn no_other_command_is_taken() {
        for opcode in 0..=255 {
            let mut cdb = [0; CDB];
            cdb[0] = opcode;
            let known = ENTRIES.iter().any(|entry| entry.usage[0] == opcode);
            assert_eq!(parse(&cdb) == Err(Sense::NO_SUCH_COMMAND), !known, "{opcode:02x}");
        }
    }
}
