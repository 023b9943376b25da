//! Answers that depend on no state of a disk.

use super::action::{Action, Units};
use super::cdb::{self, CDB, Command};
use super::identity;
use super::sense::{Sense, Status};

/// Answers a command to a unit that is not there.
pub fn absent(cdb: &[u8; CDB], units: &dyn Units) -> Action {
    let gone = Action::End(Status::Check(Sense::NO_SUCH_UNIT));
    match cdb::parse(cdb) {
        Ok(Command::Inquiry { page: None, most }) => Action::Answer(cut(identity::standard(0x7f), most)),
        Ok(Command::RequestSense { descriptors, most }) => {
            Action::Answer(cut(Sense::NO_SUCH_UNIT.encode(descriptors), most))
        }
        Ok(Command::ReportLuns { select, most }) => match luns(select, most, units) {
            Ok(list) => Action::Answer(cut(list, most)),
            Err(sense) => Action::End(Status::Check(sense)),
        },
        _ => gone,
    }
}

pub(super) fn cut(mut bytes: Vec<u8>, most: usize) -> Vec<u8> {
    bytes.truncate(most);
    bytes
}

pub(super) fn luns(select: u8, most: usize, units: &dyn Units) -> Result<Vec<u8>, Sense> {
    if select > 2 {
        return Err(Sense::cdb(2));
    }
    if most < 16 {
        return Err(Sense::cdb(6));
    }
    // 1 asks for well known units: there are none.
    let list = if select == 1 { Vec::new() } else { units.luns() };
    let mut bytes = (list.len() as u32 * 8).to_be_bytes().to_vec();
    bytes.extend([0; 4]);
    bytes.extend(list.into_iter().flat_map(u64::to_be_bytes));
    Ok(bytes)
}

/// Log pages: only the list of them.
pub(super) fn log(page: u8, subpage: u8) -> Result<Vec<u8>, Sense> {
    match (page, subpage) {
        (0, 0) => Ok(vec![0, 0, 0, 1, 0]),
        (0, _) => Err(Sense::cdb(3)),
        _ => Err(Sense::cdb(2)),
    }
}

/// REPORT TARGET PORT GROUPS: one group, whose ports are all active and optimized.
pub(super) fn ports(extended: bool, ports: &[u16]) -> Vec<u8> {
    let mut body = if extended { vec![0x10, 0, 0, 0] } else { Vec::new() };
    // Active/optimized; that state only; group 1; nobody has changed it.
    body.extend([0x00, 0x01, 0, 1, 0, 0, 0, ports.len() as u8]);
    for port in ports {
        body.extend([0, 0]);
        body.extend(port.to_be_bytes());
    }
    [&(body.len() as u32).to_be_bytes()[..], &body].concat()
}
