//! A session of iSCSI in full feature phase. Input: digests (1 byte), bytes to a piece (1), then PDUs: kind (1 byte), flags (1), bytes
//! of data (1), expected length (2), CDB or words (16); now and then bytes that are none.

use std::rc::Rc;

use brindle_export::iscsi::pdu::{BHS, Header, digest, request, response};
use brindle_export::iscsi::{IscsiConfig, Server, TargetSpec};
use brindle_export::scsi::Identity;
use brindle_export::scsi::reservation::Reservations;
use brindle_export::{Config, Gate};
use brindle_io::memory::Memory;
use brindle_io::{Buf, Duration, Io, SocketId};
use brindle_testkit::ram::RamVolume;

use crate::feed::Feed;
use crate::nbd::{Heard, take};

/// Bytes of the disk.
const SIZE: u64 = 64 << 10;
/// Turns after which a server that says nothing has nothing to say.
const SILENCE: usize = 64;

struct World {
    io: Io,
    volume: Rc<RamVolume>,
    server: Server<RamVolume>,
    memory: Memory,
    listener: SocketId,
    buf: Buf,
}

impl World {
    fn new() -> Self {
        let hour = Duration::from_secs(3600);
        let session = Config {
            memory: 256 << 10,
            connections: 1,
            requests: 4,
            handshake: hour,
            stall: hour,
            deadline: hour,
            grace: hour,
        };
        let memory = Memory::new();
        let io = Io::new(Box::new(memory.clone()));
        let random = Box::new(|bytes: &mut [u8]| bytes.fill(1));
        let server = Server::new(&io, IscsiConfig { session, chap: None, random });
        let volume = RamVolume::new(&io, SIZE);
        server.add_target(TargetSpec {
            identity: Identity { uuid: [1; 16], product: "t".into(), target: "iqn.t".into() },
            volume: Rc::clone(&volume),
            reservations: Reservations::default(),
            keep: None,
            gate: Rc::<Gate>::default(),
        });
        let listener = memory.listen();
        server.serve(listener, Some("127.0.0.1:3260".into()));
        let buf = io.pool(32 << 10).try_alloc(16 << 10).expect("the first buffer");
        Self { io, volume, server, memory, listener, buf }
    }

    fn connect(&self) -> (SocketId, Heard) {
        let (socket, heard) = (self.memory.connect(self.listener), Heard::default());
        let (io, ears) = (self.io.clone(), heard.clone());
        let buf = io.pool(64 << 10).try_alloc(64 << 10).expect("the first buffer");
        self.io.spawn(async move {
            while let Ok(count @ 1..) = io.recv(socket, &buf.all()).await {
                ears.bytes.borrow_mut().extend_from_slice(&buf.bytes()[..count]);
            }
            ears.closed.set(true);
        });
        (socket, heard)
    }

    async fn send(&self, socket: SocketId, bytes: &[u8], piece: usize) -> bool {
        let piece = piece.max(bytes.len() / 128).clamp(1, self.buf.len());
        for part in bytes.chunks(piece) {
            self.buf.bytes_mut()[..part.len()].copy_from_slice(part);
            if self.io.send(socket, &[self.buf.slice(0..part.len())]).await.is_err() {
                return false;
            }
            self.io.yield_now().await;
        }
        true
    }

    async fn listen(&self, heard: &Heard) {
        let (mut silent, mut had) = (0, heard.bytes.borrow().len());
        while silent < SILENCE && !heard.closed.get() {
            self.io.yield_now().await;
            let has = heard.bytes.borrow().len();
            silent = if has == had { silent + 1 } else { 0 };
            had = has;
        }
    }

    fn end(&self, socket: SocketId) {
        self.io.block_on(async {
            self.io.close(socket);
            self.server.stop().await;
            for _ in 0..8 {
                self.io.yield_now().await;
            }
        });
        assert_eq!(self.io.tasks_alive(), 0, "tasks are left");
        assert_eq!(self.server.memory_in_use(), 0, "buffers are left");
        assert_eq!(Rc::strong_count(&self.volume), 1, "the volume is still held");
        self.io.shutdown();
    }
}

/// An initiator that has logged in and says anything: the server answers by the book, and lets go of everything.
pub fn run(data: &[u8]) {
    let mut feed = Feed(data);
    let bits = feed.u8();
    let digests = (bits & 1 != 0, bits & 2 != 0);
    let piece = 1 + 64 * usize::from(feed.u8());
    let pdus = pdus(&mut feed, digests);
    let world = World::new();
    let (socket, heard) = world.connect();
    world.io.block_on(async {
        world.send(socket, &login(digests), BHS).await;
        world.listen(&heard).await;
        assert_eq!(heard.bytes.borrow()[36], 0, "it is logged in");
        for pdu in pdus {
            if !world.send(socket, &pdu, piece).await {
                break;
            }
        }
        world.listen(&heard).await;
    });
    world.end(socket);
    check(&heard.bytes.borrow(), digests);
}

fn login((header, data): (bool, bool)) -> Vec<u8> {
    let word = |is: bool| if is { "CRC32C" } else { "None" };
    let text = format!(
        "InitiatorName=iqn.i\0TargetName=iqn.t\0HeaderDigest={}\0DataDigest={}\0InitialR2T=No\0",
        word(header),
        word(data)
    );
    let mut login = Header::new(request::LOGIN, 1).byte(1, 0x87).with(24, 1);
    (login.0[0], login.0[8]) = (login.0[0] | 0x40, 0x80);
    let mut bytes = login.with_data(text.len()).0.to_vec();
    bytes.extend(text.as_bytes());
    bytes.resize(BHS + text.len().next_multiple_of(4), 0);
    bytes
}

const KINDS: [u8; 8] = [
    request::COMMAND,
    request::COMMAND,
    request::COMMAND,
    request::DATA,
    request::TASK,
    request::TEXT,
    request::NOP,
    request::LOGOUT,
];

fn pdus(feed: &mut Feed<'_>, digests: (bool, bool)) -> Vec<Vec<u8>> {
    let (mut pdus, mut next, mut task) = (Vec::new(), 1_u32, 10);
    while !feed.is_empty() && pdus.len() < 64 {
        let kind = feed.u8();
        if kind >= 0xf8 {
            let len = usize::from(feed.u8());
            pdus.push(feed.bytes(len).to_vec());
            continue;
        }
        let opcode = if kind >= 0xf0 { feed.u8() } else { KINDS[usize::from(kind % 8)] };
        let (flags, odd) = (feed.u8(), feed.u8());
        let len = usize::from(odd) * 8;
        let mut header = Header::new(opcode, task).byte(1, flags).with(20, u32::from(feed.u16()));
        header.0[32..48].copy_from_slice(&feed.array::<16>());
        match opcode & 0x3f {
            // Data for the last command, with the tag of the first R2T, or unasked.
            request::DATA => {
                let tag = if flags & 1 != 0 { u32::MAX } else { u32::from(flags >> 1 & 3) };
                header = header.with(16, task - 1).with(20, tag);
            }
            request::COMMAND if flags & 0x40 == 0 => header = header.with(24, next),
            _ => header = header.with(20, u32::MAX).with(24, next),
        }
        // Now and then a number that is none, or a unit that is not there.
        match kind >> 3 & 0xf {
            15 => header = header.with(24, next.wrapping_add(7)),
            14 => header.0[9] = 1,
            13 => header.0[4] = 1,
            12 => header.0[0] |= 0x40,
            _ => {}
        }
        if header.opcode() != request::DATA && header.0[0] & 0x40 == 0 && header.word(24) == next {
            next = next.wrapping_add(1);
        }
        task += u32::from(header.opcode() != request::DATA);
        let text: &[u8] = if header.opcode() == request::TEXT { b"SendTargets=All\0" } else { &[] };
        let mut data = if text.is_empty() { feed.bytes(len).to_vec() } else { text.to_vec() };
        data.resize(if text.is_empty() { len } else { text.len() }, odd);
        pdus.push(pdu(header, &data, digests));
    }
    pdus
}

fn pdu(header: Header, data: &[u8], (header_digest, data_digest): (bool, bool)) -> Vec<u8> {
    let mut bytes = header.with_data(data.len()).0.to_vec();
    // Additional segments are part of the header, and of its digest.
    bytes.resize(BHS + header.additional(), 0);
    if header_digest {
        bytes.extend(digest([&bytes[..]]));
    }
    let from = bytes.len();
    bytes.extend(data);
    bytes.resize(from + data.len().next_multiple_of(4), 0);
    if data_digest && !data.is_empty() {
        bytes.extend(digest([&bytes[from..]]));
    }
    bytes
}

/// All that was said are whole PDUs of a target, but for the last, behind which the connection was closed.
fn check(mut said: &[u8], (header_digest, data_digest): (bool, bool)) {
    let mut first = true;
    while let Some(bytes) = take(&mut said, BHS) {
        let header = Header(bytes.try_into().expect("as many"));
        let known = matches!(
            header.opcode(),
            response::NOP
                | response::COMMAND
                | response::TASK
                | response::LOGIN
                | response::TEXT
                | response::DATA
                | response::LOGOUT
                | response::R2T
                | response::REJECT
        );
        assert!(known && (first == (header.opcode() == response::LOGIN)), "{:#x}", header.opcode());
        // Digests begin behind the login.
        let header_sum = if header_digest && !first { take(&mut said, 4) } else { Some(&[][..]) };
        let Some(header_sum) = header_sum else { return };
        assert!(header_sum.is_empty() || *header_sum == digest([bytes]));
        let Some(data) = take(&mut said, header.padded()) else { return };
        let summed = data_digest && !first && !data.is_empty();
        let data_sum = if summed { take(&mut said, 4) } else { Some(&[][..]) };
        let Some(data_sum) = data_sum else { return };
        assert!(data_sum.is_empty() || *data_sum == digest([data]));
        first = false;
    }
}
