//! PERSISTENT RESERVE IN (SPC-4, 6.15).

use super::{Kind, Nexus, Reservations};

/// READ KEYS.
pub(in crate::scsi) fn keys(of: &Reservations) -> Vec<u8> {
    let list = of.registrants.iter().flat_map(|registrant| registrant.key.to_be_bytes());
    with_header(of, list.collect())
}

/// READ RESERVATION.
pub(in crate::scsi) fn holder(of: &Reservations) -> Vec<u8> {
    let mut list = Vec::new();
    if let Some(held) = &of.held {
        let key = if held.kind.is_everybodys() { 0 } else { of.key_of(&held.nexus).unwrap_or(0) };
        list.extend(key.to_be_bytes());
        list.extend([0, 0, 0, 0, 0, held.kind as u8, 0, 0]);
    }
    with_header(of, list)
}

/// REPORT CAPABILITIES: what may be asked for, and the types that exist.
pub(in crate::scsi) fn capabilities(of: &Reservations) -> Vec<u8> {
    // PTPL_C; TMV, ALLOW COMMANDS 1 (TEST UNIT READY is), PTPL_A.
    let mut bytes = vec![0, 8, 0x01, 0x90 | u8::from(of.kept), 0, 0, 0, 0];
    for kind in Kind::ALL {
        let number = kind as usize;
        // Type 8 is the first bit of the second byte.
        bytes[4 + number / 8] |= 1 << (number % 8);
    }
    bytes
}

/// READ FULL STATUS.
pub(in crate::scsi) fn full_status(of: &Reservations) -> Vec<u8> {
    let mut list = Vec::new();
    for registrant in &of.registrants {
        let held = of.held.as_ref().filter(|held| of.holds(held, &registrant.nexus));
        list.extend(registrant.key.to_be_bytes());
        list.extend([0, 0, 0, 0, u8::from(held.is_some()), held.map_or(0, |held| held.kind as u8)]);
        list.extend([0, 0, 0, 0]);
        list.extend(registrant.nexus.port.to_be_bytes());
        let id = transport_id(&registrant.nexus);
        list.extend((id.len() as u32).to_be_bytes());
        list.extend(id);
    }
    with_header(of, list)
}

/// The TransportID of an iSCSI initiator port (SPC-4, 7.6.4.6): its name, a NUL, and zeroes up to a multiple of four.
fn transport_id(nexus: &Nexus) -> Vec<u8> {
    let mut name = nexus.initiator.as_bytes().to_vec();
    name.push(0);
    name.resize(name.len().next_multiple_of(4).max(20), 0);
    let mut id = vec![0x45, 0];
    id.extend((name.len() as u16).to_be_bytes());
    id.extend(name);
    id
}

fn with_header(of: &Reservations, list: Vec<u8>) -> Vec<u8> {
    let mut bytes = of.generation.to_be_bytes().to_vec();
    bytes.extend((list.len() as u32).to_be_bytes());
    bytes.extend(list);
    bytes
}
