//! The protocol's messages: no bytes make the parsers panic, and what is written is read back.

use brindle_export::nbd::proto::*;
use brindle_volume::Limits;
use proptest::prelude::*;

fn limits() -> Limits {
    Limits { size: 1 << 30, block: 512, preferred: 65536, optimal: 0, read_only: false, discard: true }
}

fn terms() -> Terms {
    Terms { limits: limits(), max_payload: 32 << 20, structured: true, status: true }
}

fn request(command: u16, flags: u16, offset: u64, len: u32) -> Request {
    Request { flags, command, cookie: 7, offset, len }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = InfoRequest::decode(&bytes);
        let _ = MetaQuery::decode(&bytes);
        if let Some(bytes) = bytes.first_chunk() {
            let _ = Request::decode(bytes);
        }
        if let Some(bytes) = bytes.first_chunk() {
            let _ = OptionHeader::decode(bytes);
        }
        if let Some(bytes) = bytes.first_chunk() {
            let _ = ChunkHeader::decode(bytes);
        }
    }

    #[test]
    fn hostile_lengths_never_panic(len: u32, count: u32, tail in prop::collection::vec(any::<u8>(), 0..40)) {
        let mut bytes = len.to_be_bytes().to_vec();
        bytes.extend(count.to_be_bytes());
        bytes.extend(&tail);
        let _ = InfoRequest::decode(&bytes);
        let _ = MetaQuery::decode(&bytes);
        let mut bytes = 0u32.to_be_bytes().to_vec();
        bytes.extend(count.to_be_bytes());
        bytes.extend(tail);
        let _ = MetaQuery::decode(&bytes);
    }

    #[test]
    fn what_is_written_is_read_back(
        flags: u16, command: u16, cookie: u64, offset: u64, len: u32, error: u32, hole: bool, zero: bool,
    ) {
        let request = Request { flags, command, cookie, offset, len };
        prop_assert_eq!(Request::decode(&request.encode()), Some(request));
        let reply = SimpleReply { error, cookie };
        prop_assert_eq!(SimpleReply::decode(&reply.encode()), Some(reply));
        let chunk = ChunkHeader { flags, kind: command, cookie, len };
        prop_assert_eq!(ChunkHeader::decode(&chunk.encode()), Some(chunk));
        let option = OptionHeader { option: error, len };
        prop_assert_eq!(OptionHeader::decode(&option.encode()), Some(option));
        let extent = StatusExtent { len, hole, zero };
        prop_assert_eq!(StatusExtent::decode(&extent.encode()), extent);
    }

    #[test]
    fn another_magic_is_no_message(at in 0usize..4, bit in 0u8..8) {
        let mut bytes = request(0, 0, 0, 0).encode();
        bytes[at] ^= 1 << bit;
        prop_assert_eq!(Request::decode(&bytes), None);
    }

    #[test]
    fn what_passes_the_check_lies_within_the_export(command in 0u16..10, flags in 0u16..64, offset: u64, len: u32,
                                                    near: bool, read_only: bool) {
        let offset = if near { offset % (2 << 30) / 512 * 512 } else { offset };
        let mut terms = terms();
        terms.limits.read_only = read_only;
        match terms.check(&request(command, flags, offset, len)) {
            Ok(Command::Read { offset, len } | Command::Write { offset, len, .. }) => {
                prop_assert!(len > 0 && len <= 32 << 20 && offset + u64::from(len) <= 1 << 30);
                prop_assert!(offset % 512 == 0 && len % 512 == 0);
            }
            Ok(Command::Trim { offset, len, .. } | Command::WriteZeroes { offset, len, .. }
               | Command::BlockStatus { offset, len, .. }) => {
                prop_assert!(len > 0 && offset + u64::from(len) <= 1 << 30 && offset % 512 == 0);
            }
            Ok(Command::Flush | Command::Disconnect) | Err(_) => {}
        }
    }
}

#[test]
fn bytes_on_the_wire_are_the_documents() {
    let bytes = Request { flags: 1, command: 6, cookie: 0x0102_0304_0506_0708, offset: 9, len: 10 }.encode();
    assert_eq!(
        bytes,
        [0x25, 0x60, 0x95, 0x13, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 10]
    );
    let bytes = SimpleReply { error: 22, cookie: 1 }.encode();
    assert_eq!(bytes, [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 22, 0, 0, 0, 0, 0, 0, 0, 1]);
    let bytes = ChunkHeader { flags: 1, kind: 0x8001, cookie: 2, len: 3 }.encode();
    assert_eq!(bytes, [0x66, 0x8e, 0x33, 0xef, 0, 1, 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3]);
    assert_eq!(&greeting(), b"NBDMAGICIHAVEOPT\0\x03");
}

#[test]
fn each_bad_request_has_its_error() {
    use command_code::*;
    use command_flags::*;
    let size = 1u64 << 30;
    let cases = [
        (request(READ, 0, 1, 512), Errno::Invalid),
        (request(READ, 0, 0, 511), Errno::Invalid),
        (request(READ, 0, 0, 0), Errno::Invalid),
        (request(READ, 0, size, 512), Errno::Invalid),
        (request(READ, 0, u64::MAX - 511, 512), Errno::Invalid),
        (request(READ, DF, 0, (32 << 20) + 512), Errno::Overflow),
        (request(READ, REQ_ONE, 0, 512), Errno::Invalid),
        (request(WRITE, 0, size - 512, 1024), Errno::NoSpace),
        (request(WRITE, 0, u64::MAX - 511, 1024), Errno::NoSpace),
        (request(WRITE, 0, 0, (32 << 20) + 512), Errno::Invalid),
        (request(WRITE, NO_HOLE, 0, 512), Errno::Invalid),
        (request(FLUSH, 0, 0, 512), Errno::Invalid),
        (request(TRIM, 0, size, 512), Errno::Invalid),
        (request(WRITE_ZEROES, 0, size, 512), Errno::NoSpace),
        (request(WRITE_ZEROES, DF, 0, 512), Errno::Invalid),
        (request(BLOCK_STATUS, 0, size, 512), Errno::Invalid),
        (request(5, 0, 0, 512), Errno::Invalid),
        (request(8, 0, 0, 512), Errno::Invalid),
        (request(READ, 1 << 15, 0, 512), Errno::Invalid),
    ];
    for (request, error) in cases {
        assert_eq!(terms().check(&request), Err(error), "{request:?}");
    }
    let mut read_only = terms();
    read_only.limits.read_only = true;
    for command in [WRITE, TRIM, WRITE_ZEROES] {
        assert_eq!(read_only.check(&request(command, 0, 0, 512)), Err(Errno::Perm));
    }
    let plain = Terms { structured: false, status: false, ..terms() };
    assert_eq!(plain.check(&request(READ, DF, 0, 512)), Err(Errno::Invalid));
    assert_eq!(plain.check(&request(READ, 0, 0, (32 << 20) + 512)), Err(Errno::Invalid));
    assert_eq!(plain.check(&request(BLOCK_STATUS, 0, 0, 512)), Err(Errno::Invalid));
}

#[test]
fn fua_is_borne_with_everywhere() {
    for command in [0, 1, 3, 4, 6, 7] {
        let len = if command == command_code::FLUSH { 0 } else { 512 };
        assert!(terms().check(&request(command, command_flags::FUA, 0, len)).is_ok(), "command {command}");
    }
}

#[test]
fn flags_tell_what_the_volume_can() {
    use transmission_flags::*;
    let all = HAS_FLAGS
        | SEND_FLUSH
        | SEND_FUA
        | SEND_TRIM
        | SEND_WRITE_ZEROES
        | SEND_DF
        | CAN_MULTI_CONN
        | SEND_FAST_ZERO;
    assert_eq!(terms().transmission_flags(), all);
    let mut other = terms();
    (other.limits.discard, other.structured) = (false, false);
    assert_eq!(other.transmission_flags(), all & !SEND_TRIM & !SEND_DF);
    other.limits.read_only = true;
    assert_eq!(other.transmission_flags(), HAS_FLAGS | READ_ONLY | SEND_FLUSH | CAN_MULTI_CONN);
}

#[test]
fn the_preferred_size_is_a_power_of_two_within_bounds() {
    for (preferred, reported) in [(512, 4096), (65536, 65536), (393_216, 524_288), (64 << 20, 32 << 20)] {
        let mut terms = terms();
        terms.limits.preferred = preferred;
        assert_eq!(terms.preferred(), reported);
    }
}

#[test]
fn extents_of_a_kind_are_joined() {
    let extent = |len, hole| StatusExtent { len, hole, zero: hole };
    let mut list = Vec::new();
    assert!(merge_extent(&mut list, extent(1, true), 2));
    assert!(merge_extent(&mut list, extent(2, true), 2));
    assert!(merge_extent(&mut list, extent(4, false), 2));
    assert!(merge_extent(&mut list, extent(u32::MAX - 4, false), 2));
    assert!(!merge_extent(&mut list, extent(1, false), 2), "no overflow of a length, and no third extent");
    assert_eq!(list, [extent(3, true), extent(u32::MAX, false)]);
}
