//! Messages to the kernel's NBD driver, as bytes: generic netlink (linux/genetlink.h) with the driver's own commands and attributes
//! (linux/nbd-netlink.h). docs/protocols/nbd-netlink.md draws them.

use brindle_host::WantedDevice;

/// The family that answers for all others, and its question for a family's number.
const CONTROLLER: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// Types and flags of netlink's own header.
const ERROR: u16 = 2;
const REQUEST: u16 = 1;
const ACK: u16 = 4;

/// Commands of the driver.
const CONNECT: u8 = 1;
const DISCONNECT: u8 = 2;
const RECONFIGURE: u8 = 3;

/// Its attributes.
const INDEX: u16 = 1;
const SIZE_BYTES: u16 = 2;
const BLOCK_SIZE_BYTES: u16 = 3;
const SERVER_FLAGS: u16 = 5;
const SOCKETS: u16 = 7;
const DEAD_CONN_TIMEOUT: u16 = 8;
const BACKEND_IDENTIFIER: u16 = 10;
/// In each socket's place.
const SOCK_ITEM: u16 = 1;
const SOCK_FD: u16 = 1;
/// The attribute holds others.
const NESTED: u16 = 0x8000;

/// Bytes of netlink's header, and of generic netlink's behind it.
const HEADER: usize = 16;
const GENERIC: usize = 4;

/// A device that the kernel is to make, or to have new sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Its number: /dev/nbdN. None for the first that is free.
    pub(super) index: Option<u32>,
    /// Its size, abilities, patience and identifier.
    pub(super) device: WantedDevice,
    /// The kernel's ends of connections, as numbers of this process.
    pub(super) sockets: Vec<u32>,
}

/// Asks for the number of the driver's family.
pub(super) fn family() -> Vec<u8> {
    let mut message = begin(CONTROLLER, GET_FAMILY, 1);
    attribute(&mut message, FAMILY_NAME, b"nbd\0");
    end(message)
}

/// Makes a device.
pub(super) fn connect(family: u16, wanted: &Wanted) -> Vec<u8> {
    let mut message = begin(family, CONNECT, 1);
    if let Some(index) = wanted.index {
        attribute(&mut message, INDEX, &index.to_ne_bytes());
    }
    attribute(&mut message, SIZE_BYTES, &wanted.device.size.to_ne_bytes());
    attribute(&mut message, BLOCK_SIZE_BYTES, &wanted.device.block.to_ne_bytes());
    attribute(&mut message, SERVER_FLAGS, &u64::from(wanted.device.flags).to_ne_bytes());
    rest(&mut message, wanted);
    end(message)
}

/// Gives a device new sockets in the place of those that are dead.
pub(super) fn reconfigure(family: u16, index: u32, wanted: &Wanted) -> Vec<u8> {
    let mut message = begin(family, RECONFIGURE, 1);
    attribute(&mut message, INDEX, &index.to_ne_bytes());
    rest(&mut message, wanted);
    end(message)
}

/// Gives a device another size.
pub(super) fn resize(family: u16, index: u32, size: u64, identifier: &str) -> Vec<u8> {
    let mut message = begin(family, RECONFIGURE, 1);
    attribute(&mut message, INDEX, &index.to_ne_bytes());
    attribute(&mut message, SIZE_BYTES, &size.to_ne_bytes());
    attribute(&mut message, BACKEND_IDENTIFIER, format!("{identifier}\0").as_bytes());
    end(message)
}

/// Ends a device.
pub(super) fn disconnect(family: u16, index: u32) -> Vec<u8> {
    let mut message = begin(family, DISCONNECT, 1);
    attribute(&mut message, INDEX, &index.to_ne_bytes());
    end(message)
}

fn rest(message: &mut Vec<u8>, wanted: &Wanted) {
    attribute(message, DEAD_CONN_TIMEOUT, &wanted.device.dead_timeout.to_ne_bytes());
    attribute(message, BACKEND_IDENTIFIER, format!("{}\0", wanted.device.identifier).as_bytes());
    let mut sockets = Vec::new();
    for socket in &wanted.sockets {
        let mut item = Vec::new();
        attribute(&mut item, SOCK_FD, &socket.to_ne_bytes());
        attribute(&mut sockets, SOCK_ITEM | NESTED, &item);
    }
    attribute(message, SOCKETS | NESTED, &sockets);
}

fn begin(kind: u16, command: u8, version: u8) -> Vec<u8> {
    let mut message = vec![0; 4];
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&(REQUEST | ACK).to_ne_bytes());
    // A number of its own for each message is not needed: a socket asks once at a time. The sender is the kernel's to fill in.
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(&[command, version, 0, 0]);
    message
}

fn end(mut message: Vec<u8>) -> Vec<u8> {
    let length = message.len() as u32;
    message[..4].copy_from_slice(&length.to_ne_bytes());
    message
}

/// Length, kind, value, and zeroes up to the next multiple of four.
fn attribute(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    to.extend_from_slice(&((4 + value.len()) as u16).to_ne_bytes());
    to.extend_from_slice(&kind.to_ne_bytes());
    to.extend_from_slice(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

/// The content of one datagram of the kernel.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// The end of the answer: 0, or the number of an error.
    pub(super) ended: Option<i32>,
    /// The number of a family.
    pub(super) family: Option<u16>,
    /// The number of a device.
    pub(super) index: Option<u32>,
}

/// Reads a datagram; attributes that it does not know are passed over.
pub(super) fn hear(mut bytes: &[u8], asked_controller: bool) -> Heard {
    let mut heard = Heard::default();
    while let Some(header) = bytes.get(..HEADER) {
        let length = number(&header[..4]) as usize;
        let Some(message) = bytes.get(HEADER..length) else { break };
        match number(&header[4..6]) as u16 {
            ERROR => {
                let code = message.get(..4).map(|code| number(code).cast_signed());
                heard.ended = Some(code.unwrap_or(-22).wrapping_neg());
            }
            _ => attributes(message.get(GENERIC..).unwrap_or_default(), |kind, value| match kind {
                FAMILY_ID if asked_controller && value.len() >= 2 => {
                    heard.family = Some(number(&value[..2]) as u16);
                }
                INDEX if !asked_controller && value.len() >= 4 => heard.index = Some(number(&value[..4])),
                _ => {}
            }),
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    heard
}

fn attributes(mut bytes: &[u8], mut each: impl FnMut(u16, &[u8])) {
    while let Some(header) = bytes.get(..4) {
        let length = number(&header[..2]) as usize;
        let Some(value) = bytes.get(4..length) else { return };
        each(number(&header[2..4]) as u16 & !NESTED, value);
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
}

/// A number of at most four bytes, in the machine's order.
fn number(bytes: &[u8]) -> u32 {
    match *bytes {
        [a, b] => u32::from(u16::from_ne_bytes([a, b])),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn messages_have_the_bytes_that_the_kernels_headers_say() {
        assert_eq!(
            family(),
            [
                28, 0, 0, 0, 0x10, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 1, 0, 0, // headers
                8, 0, 2, 0, b'n', b'b', b'd', 0, // the name
            ]
        );
        assert_eq!(disconnect(0x1c, 3)[16..], [2, 1, 0, 0, 8, 0, 1, 0, 3, 0, 0, 0]);
        let device = WantedDevice {
            size: 4096,
            block: 512,
            flags: 0x105,
            dead_timeout: 300,
            identifier: "x".to_owned(),
            connections: 2,
        };
        let wanted = Wanted { index: None, device, sockets: vec![7, 9] };
        let message = connect(0x1c, &wanted);
        assert_eq!(message.len(), message[0] as usize);
        let nest =
            [36, 0, 7, 0x80, 12, 0, 1, 0x80, 8, 0, 1, 0, 7, 0, 0, 0, 12, 0, 1, 0x80, 8, 0, 1, 0, 9, 0, 0, 0];
        let nest = [&[nest.len() as u8][..], &nest[1..]].concat();
        assert!(message.ends_with(&nest), "{message:?}");
        assert_eq!(reconfigure(0x1c, 2, &wanted)[16..28], [3, 1, 0, 0, 8, 0, 1, 0, 2, 0, 0, 0]);
        let sized = [12, 0, 2, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 6, 0, 10, 0, b'x', 0, 0, 0];
        assert_eq!(resize(0x1c, 2, 8192, "x")[28..], sized);
    }

    #[test]
    fn answers_are_read_and_what_is_none_is_passed_over() {
        let mut answer = begin(0x1c, CONNECT, 1);
        attribute(&mut answer, INDEX, &5u32.to_ne_bytes());
        let mut both = end(answer);
        let mut ended = begin(ERROR, 0, 0);
        ended.truncate(HEADER);
        ended.extend_from_slice(&(-16i32).to_ne_bytes());
        both.extend(end(ended));
        assert_eq!(hear(&both, false), Heard { ended: Some(16), family: None, index: Some(5) });
        for cut in 0..both.len() {
            hear(&both[..cut], false);
            hear(&both[cut..], true);
        }
        let lies = [[255; 64], [0; 64]].concat();
        assert_eq!(hear(&lies, false), Heard::default());
    }
}
