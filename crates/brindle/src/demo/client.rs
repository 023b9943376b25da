//! A small NBD client: the demo talks to the server as any other client would, through the socket.
//!
//! Messages as in the NBD protocol document; docs/protocols/nbd.md draws them.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

const IHAVEOPT: u64 = 0x4948_4156_454F_5054;
const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
const OPT_REPLY: u64 = 0x0003_e889_0455_65a9;
const OPT_GO: u32 = 7;
const REP_ACK: u32 = 1;
const REP_INFO: u32 = 3;
const INFO_EXPORT: u16 = 0;
const REQUEST: u32 = 0x2560_9513;
const SIMPLE_REPLY: u32 = 0x6744_6698;
const CMD_READ: u16 = 0;
const CMD_WRITE: u16 = 1;
const CMD_DISC: u16 = 2;
const CMD_FLUSH: u16 = 3;

/// Bytes of one request.
const PIECE: usize = 1 << 20;
/// Requests sent ahead of their replies.
const DEPTH: usize = 8;

/// A connection in its transmission phase.
pub(super) struct Client {
    stream: UnixStream,
    /// Bytes of the export.
    pub(super) size: u64,
    handle: u64,
}

fn broken(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

impl Client {
    /// Connects and asks for the default export.
    pub(super) fn connect(path: &Path) -> io::Result<Self> {
        let mut stream = UnixStream::connect(path)?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        if greeting[..8] != NBDMAGIC.to_be_bytes() || greeting[8..16] != IHAVEOPT.to_be_bytes() {
            return Err(broken("the server does not greet in fixed newstyle"));
        }
        stream.write_all(&3u32.to_be_bytes())?; // fixed newstyle, no zeroes
        let mut option = IHAVEOPT.to_be_bytes().to_vec();
        option.extend(OPT_GO.to_be_bytes());
        option.extend(6u32.to_be_bytes());
        option.extend([0; 6]); // the default export, no special wishes
        stream.write_all(&option)?;
        let mut size = None;
        loop {
            let mut head = [0; 20];
            stream.read_exact(&mut head)?;
            let kind = be32(&head[12..16]);
            let mut body = vec![0; be32(&head[16..20]).min(1 << 16) as usize];
            stream.read_exact(&mut body)?;
            match kind {
                _ if head[..8] != OPT_REPLY.to_be_bytes() => return Err(broken("not an option reply")),
                REP_INFO if body.len() >= 12 && body[..2] == INFO_EXPORT.to_be_bytes() => {
                    size = Some(be64(&body[2..10]));
                }
                REP_INFO => {}
                REP_ACK => break,
                other => return Err(broken(format!("the server refuses: reply {other:#x}"))),
            }
        }
        let size = size.ok_or_else(|| broken("the server did not tell the export's size"))?;
        Ok(Self { stream, size, handle: 0 })
    }

    fn send(&mut self, command: u16, offset: u64, len: usize) -> io::Result<()> {
        let mut message = [0; 28];
        message[..4].copy_from_slice(&REQUEST.to_be_bytes());
        message[6..8].copy_from_slice(&command.to_be_bytes());
        message[8..16].copy_from_slice(&self.handle.to_be_bytes());
        message[16..24].copy_from_slice(&offset.to_be_bytes());
        message[24..28].copy_from_slice(&(len as u32).to_be_bytes());
        self.handle += 1;
        self.stream.write_all(&message)
    }

    /// The next reply's handle; replies may come in any order.
    fn reply(&mut self) -> io::Result<u64> {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head)?;
        match (be32(&head[..4]), be32(&head[4..8])) {
            (SIMPLE_REPLY, 0) => Ok(be64(&head[8..16])),
            (SIMPLE_REPLY, error) => Err(io::Error::from_raw_os_error(error as i32)),
            _ => Err(broken("not a simple reply")),
        }
    }

    /// Fills `into` from the export's bytes at `offset`, several requests at a time.
    pub(super) fn read(&mut self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let pieces = into.len().div_ceil(PIECE);
        let first = self.handle;
        let mut sent = 0;
        for done in 0..pieces {
            while sent < pieces && sent < done + DEPTH {
                let len = PIECE.min(into.len() - sent * PIECE);
                self.send(CMD_READ, offset + (sent * PIECE) as u64, len)?;
                sent += 1;
            }
            let at = (self.reply()? - first) as usize * PIECE;
            let end = (at + PIECE).min(into.len());
            let part = into.get_mut(at..end).ok_or_else(|| broken("a reply to no request"))?;
            self.stream.read_exact(part)?;
        }
        Ok(())
    }

    /// Writes `from` to the export at `offset`, several requests at a time.
    pub(super) fn write(&mut self, offset: u64, from: &[u8]) -> io::Result<()> {
        let pieces: Vec<&[u8]> = from.chunks(PIECE).collect();
        let mut sent = 0;
        for done in 0..pieces.len() {
            while sent < pieces.len() && sent < done + DEPTH {
                self.send(CMD_WRITE, offset + (sent * PIECE) as u64, pieces[sent].len())?;
                self.stream.write_all(pieces[sent])?;
                sent += 1;
            }
            self.reply()?;
        }
        Ok(())
    }

    /// Makes all that was written stable.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.send(CMD_FLUSH, 0, 0)?;
        self.reply().map(drop)
    }

    /// Says good-bye.
    pub(super) fn close(mut self) -> io::Result<()> {
        self.send(CMD_DISC, 0, 0)
    }
}

fn be32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |word, &byte| word << 8 | u32::from(byte))
}

fn be64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |word, &byte| word << 8 | u64::from(byte))
}
