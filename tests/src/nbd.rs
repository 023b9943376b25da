//! A client that does what others cannot be told to: several connections, each with many requests under way, whose
//! ranges overlap as the test wants. Others' clients prove the protocol (`cli`, crate `export`); this one proves content.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use brindle_export::nbd::proto::{
    OptionHeader, OptionReplyHeader, Request, SimpleReply, command_code, command_flags, greeting, info_code,
    option_code,
};

/// Requests that a connection has under way at most.
const DEPTH: usize = 16;

/// Longest read.
const PIECE: u64 = 1 << 20;

/// What a request makes of its range.
#[derive(Debug, Clone)]
pub enum Work {
    /// These bytes.
    Write {
        /// The bytes.
        data: Vec<u8>,
        /// Reply when stable.
        fua: bool,
    },
    /// Zeroes.
    Zeroes {
        /// Keep the range allocated.
        no_hole: bool,
    },
    /// Nothing that counts: zeroes or what was there.
    Trim,
    /// What it was; all that was acknowledged before becomes stable.
    Flush,
}

/// A request that changes content.
#[derive(Debug, Clone)]
pub struct Change {
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// What becomes of them.
    pub work: Work,
}

impl Change {
    fn request(&self, cookie: u64) -> Request {
        let (command, flags) = match &self.work {
            Work::Write { fua, .. } => (command_code::WRITE, if *fua { command_flags::FUA } else { 0 }),
            Work::Zeroes { no_hole: true } => (command_code::WRITE_ZEROES, command_flags::NO_HOLE),
            Work::Zeroes { no_hole: false } => (command_code::WRITE_ZEROES, 0),
            Work::Trim => (command_code::TRIM, 0),
            Work::Flush => return Request { command: command_code::FLUSH, cookie, ..Request::default() },
        };
        Request { flags, command, cookie, offset: self.offset, len: self.len as u32 }
    }
}

/// A connection in its transmission phase.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    /// Bytes of the export.
    pub size: u64,
    /// What offsets and lengths must be multiples of.
    pub block: u64,
}

impl Client {
    /// Connects to the default export at an address of the form `nbd+unix:///?socket=PATH`.
    ///
    /// # Panics
    /// If the server refuses or does not speak the protocol.
    pub fn connect(uri: &str) -> Self {
        let path = uri.split_once("?socket=").unwrap_or_else(|| panic!("{uri} names no socket")).1;
        let stream = UnixStream::connect(path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let mut client = Self { stream, size: 0, block: 1 };
        assert_eq!(client.take::<18>(), greeting());
        client.send(&[0, 0, 0, 3]);
        client.choose();
        client
    }

    fn choose(&mut self) {
        // An empty name, one wish.
        let mut data = vec![0, 0, 0, 0, 0, 1];
        data.extend(info_code::BLOCK_SIZE.to_be_bytes());
        self.send(&OptionHeader { option: option_code::GO, len: data.len() as u32 }.encode());
        self.send(&data);
        loop {
            let header = OptionReplyHeader::decode(&self.take()).expect("a reply's magic");
            let mut data = vec![0; header.len as usize];
            self.stream.read_exact(&mut data).expect("the reply's data");
            let number = |from: usize, len: usize| {
                data[from..from + len].iter().fold(0, |n, &byte| n << 8 | u64::from(byte))
            };
            match (header.reply, if data.len() < 2 { 0 } else { number(0, 2) as u16 }) {
                (1, _) => return,
                (3, info_code::EXPORT) => self.size = number(2, 8),
                (3, info_code::BLOCK_SIZE) => self.block = number(2, 4),
                (3, _) => {}
                (other, _) => panic!("the server refuses: {other:#x}"),
            }
        }
    }

    /// Sends all changes, not waiting for one before the next, and takes all replies.
    ///
    /// # Panics
    /// If one fails.
    pub fn all_at_once<'a>(&mut self, changes: impl IntoIterator<Item = &'a Change>) {
        let mut under_way = 0;
        for (cookie, change) in (0u64..).zip(changes) {
            if under_way == DEPTH {
                self.reply();
                under_way -= 1;
            }
            self.send(&change.request(cookie).encode());
            if let Work::Write { data, .. } = &change.work {
                self.send(data);
            }
            under_way += 1;
        }
        (0..under_way).for_each(|_| self.reply());
    }

    /// Reads.
    ///
    /// # Panics
    /// If that fails.
    pub fn read(&mut self, offset: u64, len: u64) -> Vec<u8> {
        let mut content = vec![0; len as usize];
        for (piece, at) in content.chunks_mut(PIECE as usize).zip((offset..).step_by(PIECE as usize)) {
            let (command, len) = (command_code::READ, piece.len() as u32);
            self.send(&Request { command, offset: at, len, ..Request::default() }.encode());
            self.reply();
            self.stream.read_exact(piece).expect("the data of a read");
        }
        content
    }

    /// Says good-bye.
    pub fn close(mut self) {
        self.send(&Request { command: command_code::DISC, ..Request::default() }.encode());
    }

    fn reply(&mut self) {
        let reply = SimpleReply::decode(&self.take()).expect("a reply's magic");
        assert_eq!(reply.error, 0, "request {}", reply.cookie);
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the server takes requests");
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).expect("the server answers");
        bytes
    }
}
