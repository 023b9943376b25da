//! A scripted client over in-process sockets, and a world for it.
#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod ram;

use std::rc::Rc;

use brindle_export::nbd::proto::{
    CHUNK_DONE, ChunkHeader, Extent, OptionHeader, OptionReplyHeader, Request, SimpleReply, chunk_type,
    command_code, info_code, option_code,
};
use brindle_export::nbd::{Config, Server};
use brindle_io::memory::Memory;
use brindle_io::{Buf, Duration, Io, OpError, SocketId};
use ram::RamVolume;

/// A server with one export in RAM, and a listener for clients.
pub(crate) struct World {
    pub(crate) memory: Memory,
    pub(crate) io: Io,
    pub(crate) server: Server<RamVolume>,
    pub(crate) listener: SocketId,
    pub(crate) volume: Rc<RamVolume>,
    pub(crate) client_pool: brindle_io::Pool,
}

/// Bounds that tests can reach.
pub(crate) fn small() -> Config {
    Config {
        memory: 4 << 20,
        connections: 8,
        requests: 16,
        handshake: Duration::from_secs(60),
        stall: Duration::from_secs(60),
        grace: Duration::from_secs(60),
    }
}

impl World {
    pub(crate) fn new(config: Config, size: u64) -> Self {
        Self::with(config, |io| RamVolume::new(io, size))
    }

    pub(crate) fn with(config: Config, volume: impl FnOnce(&Io) -> Rc<RamVolume>) -> Self {
        let memory = Memory::new();
        let io = Io::new(Box::new(memory.clone()));
        let volume = volume(&io);
        let server = Server::new(&io, config);
        server.add_export("disk", "a disk in RAM", Rc::clone(&volume)).expect("a fresh name");
        let listener = memory.listen();
        server.serve(listener);
        let client_pool = io.pool(64 << 20);
        Self { memory, io, server, listener, volume, client_pool }
    }

    /// A connection on which nothing has been said.
    pub(crate) fn connect(&self) -> Client {
        let socket = self.memory.connect(self.listener);
        let buf = self.client_pool.try_alloc(256 << 10).expect("few clients");
        Client { io: self.io.clone(), socket, buf, inbox: Vec::new(), structured: false }
    }

    /// A connection in the transmission phase with structured replies and block status.
    pub(crate) async fn client(&self) -> Client {
        let mut client = self.connect();
        client.greet().await;
        client.structured().await;
        client.choose_context().await;
        let replies = client.option(option_code::GO, &go(b"disk", &[info_code::BLOCK_SIZE])).await;
        assert_eq!(replies.last().expect("a reply").0, 1);
        client
    }

    /// Waits until so many connections are left, and what the others held has been let go.
    pub(crate) async fn settle(&self, connections: usize) {
        let settled = || self.server.connection_stats().len() == connections;
        let mut turns = 0;
        while !settled() {
            self.io.yield_now().await;
            turns += 1;
            assert!(turns < 100_000, "{:?} are still there", self.server.connection_stats());
        }
        for _ in 0..4 {
            self.io.yield_now().await;
        }
    }

    /// Stops the server and checks that nothing of it is left.
    pub(crate) fn end(&self) {
        self.io.block_on(async {
            self.server.stop().await;
            for _ in 0..4 {
                self.io.yield_now().await;
            }
        });
        assert_eq!(self.io.tasks_alive(), 0, "tasks are left");
        assert_eq!(self.server.pool().free_bytes(), self.server.pool().capacity(), "buffers are left");
        assert_eq!(self.volume.busy.get(), 0, "requests are left");
        assert_eq!(Rc::strong_count(&self.volume), 1, "the volume is still held");
    }
}

/// Data of `INFO` and `GO`.
pub(crate) fn go(name: &[u8], wants: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name);
    data.extend((wants.len() as u16).to_be_bytes());
    wants.iter().for_each(|info| data.extend(info.to_be_bytes()));
    data
}

/// Data of the metadata context options.
pub(crate) fn meta(name: &[u8], queries: &[&[u8]]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend(name);
    data.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend((query.len() as u32).to_be_bytes());
        data.extend(*query);
    }
    data
}

/// All that a client sends in a good session.
pub(crate) fn session() -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 3];
    let mut option = |option, data: &[u8]| {
        bytes.extend(OptionHeader { option, len: data.len() as u32 }.encode());
        bytes.extend(data);
    };
    option(option_code::LIST, b"");
    option(option_code::STRUCTURED_REPLY, b"");
    option(option_code::SET_META_CONTEXT, &meta(b"disk", &[b"base:allocation"]));
    option(option_code::GO, &go(b"disk", &[3]));
    let mut request = |command, len: u32, data: &[u8]| {
        bytes.extend(Request { command, cookie: 1, len, ..Request::default() }.encode());
        bytes.extend(data);
    };
    request(command_code::WRITE, 1024, &[7; 1024]);
    request(command_code::READ, 4096, b"");
    request(command_code::WRITE, 100, &[7; 100]); // refused, skipped
    request(command_code::BLOCK_STATUS, 8192, b"");
    request(command_code::WRITE_ZEROES, 512, b"");
    request(command_code::TRIM, 512, b"");
    request(command_code::FLUSH, 0, b"");
    request(command_code::DISC, 0, b"");
    bytes
}

/// A reply in the transmission phase.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Simple { cookie: u64, error: u32 },
    Data { cookie: u64, offset: u64, data: Vec<u8> },
    Error { cookie: u64, error: u32 },
    Status { cookie: u64, extents: Vec<Extent> },
}

impl Reply {
    pub(crate) fn cookie(&self) -> u64 {
        match *self {
            Self::Simple { cookie, .. }
            | Self::Data { cookie, .. }
            | Self::Error { cookie, .. }
            | Self::Status { cookie, .. } => cookie,
        }
    }

    pub(crate) fn error(&self) -> u32 {
        match *self {
            Self::Simple { error, .. } | Self::Error { error, .. } => error,
            _ => 0,
        }
    }
}

/// One end of a connection that says what it is told to.
pub(crate) struct Client {
    pub(crate) io: Io,
    pub(crate) socket: SocketId,
    buf: Buf,
    inbox: Vec<u8>,
    structured: bool,
}

impl Client {
    pub(crate) async fn send(&self, bytes: &[u8]) -> Result<(), OpError> {
        for part in bytes.chunks(self.buf.len() / 2) {
            self.buf.bytes_mut()[..part.len()].copy_from_slice(part);
            self.io.send(self.socket, &[self.buf.slice(0..part.len())]).await?;
        }
        Ok(())
    }

    /// The next bytes, or `None` if the server closes before they have come.
    pub(crate) async fn try_recv(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.inbox.len() < count {
            let got = self.io.recv(self.socket, &self.buf.all()).await.ok()?;
            if got == 0 {
                return None;
            }
            self.inbox.extend(&self.buf.bytes()[..got]);
        }
        let rest = self.inbox.split_off(count);
        Some(core::mem::replace(&mut self.inbox, rest))
    }

    pub(crate) async fn recv<const N: usize>(&mut self) -> [u8; N] {
        let bytes = self.try_recv(N).await.expect("the server closed the connection");
        bytes.try_into().expect("N bytes")
    }

    /// The server has closed the connection, and nothing more came before it did.
    pub(crate) async fn assert_closed(&mut self) {
        assert_eq!(self.try_recv(1).await, None);
    }

    pub(crate) async fn greet(&mut self) {
        assert_eq!(&self.recv::<18>().await, b"NBDMAGICIHAVEOPT\0\x03");
        self.send(&[0, 0, 0, 3]).await.expect("open");
    }

    /// Sends an option and takes all its replies: code and data.
    pub(crate) async fn option(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send_option(option, data).await;
        let mut replies = Vec::new();
        loop {
            let header = OptionReplyHeader::decode(&self.recv().await).expect("a reply's magic");
            assert_eq!(header.option, option);
            let data = self.try_recv(header.len as usize).await.expect("the reply's data");
            replies.push((header.reply, data));
            if !(2..=4).contains(&header.reply) {
                return replies;
            }
        }
    }

    pub(crate) async fn send_option(&self, option: u32, data: &[u8]) {
        let mut bytes = OptionHeader { option, len: data.len() as u32 }.encode().to_vec();
        bytes.extend(data);
        self.send(&bytes).await.expect("open");
    }

    pub(crate) async fn structured(&mut self) {
        assert_eq!(self.option(option_code::STRUCTURED_REPLY, b"").await, [(1, vec![])]);
        self.structured = true;
    }

    pub(crate) async fn choose_context(&mut self) {
        let data = meta(b"disk", &[b"base:allocation"]);
        let replies = self.option(option_code::SET_META_CONTEXT, &data).await;
        assert_eq!(replies, [(4, [&[0, 0, 0, 1], b"base:allocation".as_slice()].concat()), (1, vec![])]);
    }

    pub(crate) async fn request(&self, request: Request, data: &[u8]) {
        let mut bytes = request.encode().to_vec();
        bytes.extend(data);
        self.send(&bytes).await.expect("open");
    }

    /// Takes one reply; `read` is the length of the data if it is a simple reply to a read.
    pub(crate) async fn reply(&mut self, read: usize) -> Reply {
        let magic = self.peek_magic().await;
        if magic == [0x67, 0x44, 0x66, 0x98] {
            let SimpleReply { error, cookie } = SimpleReply::decode(&self.recv().await).expect("magic");
            if read == 0 || error != 0 {
                return Reply::Simple { cookie, error };
            }
            assert!(!self.structured, "reads are answered with chunks once that is agreed");
            let data = self.try_recv(read).await.expect("data");
            return Reply::Data { cookie, offset: 0, data };
        }
        assert!(self.structured, "chunks only when agreed");
        let chunk = ChunkHeader::decode(&self.recv().await).expect("a reply's magic");
        assert_eq!(chunk.flags, CHUNK_DONE, "this server sends one chunk per reply");
        let payload = self.try_recv(chunk.len as usize).await.expect("payload");
        let cookie = chunk.cookie;
        match chunk.kind {
            chunk_type::OFFSET_DATA => {
                let (offset, data) = payload.split_first_chunk().expect("an offset");
                Reply::Data { cookie, offset: u64::from_be_bytes(*offset), data: data.to_vec() }
            }
            chunk_type::ERROR => {
                let (error, rest) = payload.split_first_chunk().expect("an error");
                let (len, message) = rest.split_first_chunk().expect("a message length");
                assert_eq!(usize::from(u16::from_be_bytes(*len)), message.len());
                assert!(core::str::from_utf8(message).is_ok_and(|message| !message.is_empty()));
                Reply::Error { cookie, error: u32::from_be_bytes(*error) }
            }
            chunk_type::BLOCK_STATUS => {
                assert_eq!(payload[..4], [0, 0, 0, 1], "the context's id");
                let extents = payload[4..].chunks(8);
                let extents = extents.map(|e| Extent::decode(e.try_into().expect("8 bytes"))).collect();
                Reply::Status { cookie, extents }
            }
            other => panic!("a chunk of type {other}"),
        }
    }

    async fn peek_magic(&mut self) -> [u8; 4] {
        let magic = self.recv().await;
        self.inbox.splice(0..0, magic);
        magic
    }

    /// Sends one request and takes its reply.
    pub(crate) async fn ask(&mut self, request: Request, data: &[u8]) -> Reply {
        self.request(request, data).await;
        let read = if request.command == command_code::READ { request.len as usize } else { 0 };
        let reply = self.reply(read).await;
        assert_eq!(reply.cookie(), request.cookie);
        reply
    }

    pub(crate) async fn read(&mut self, offset: u64, len: u32) -> Vec<u8> {
        match self.ask(Request { command: command_code::READ, offset, len, ..Request::default() }, b"").await
        {
            Reply::Data { data, .. } => data,
            other => panic!("{other:?} to a read"),
        }
    }

    pub(crate) async fn write(&mut self, offset: u64, data: &[u8]) {
        let len = data.len() as u32;
        let request = Request { command: command_code::WRITE, offset, len, ..Request::default() };
        let reply = self.ask(request, data).await;
        assert_eq!(reply.error(), 0);
    }

    pub(crate) fn close(&self) {
        self.io.close(self.socket);
    }
}
