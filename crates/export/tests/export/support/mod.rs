//! A scripted client over in-process sockets, and a world for it.

pub(crate) mod initiator;
pub(crate) mod slow;

use std::rc::Rc;

use brindle_export::nbd::client::wire;
pub(crate) use brindle_export::nbd::client::wire::{Reply, info_request as go, meta_query as meta};
use brindle_export::nbd::proto::{OptionReplyHeader, Request, command_code, info_code, option_code};
use brindle_export::nbd::{Config, Server};
use brindle_io::memory::Memory;
use brindle_io::sim::Sim;
use brindle_io::{Buf, Duration, Io, OpError, SocketId};
use brindle_testkit::ram::RamVolume;

/// Where the sockets are.
pub(crate) enum Net {
    /// In real time.
    Memory(Memory),
    /// In virtual time.
    Sim(Sim),
}

/// A server with one export in RAM, and a listener for clients.
pub(crate) struct World {
    pub(crate) net: Net,
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
        deadline: Duration::from_secs(600),
        grace: Duration::from_secs(60),
    }
}

impl World {
    pub(crate) fn new(config: Config, size: u64) -> Self {
        Self::with(config, |io| RamVolume::new(io, size))
    }

    pub(crate) fn with(config: Config, volume: impl FnOnce(&Io) -> Rc<RamVolume>) -> Self {
        let memory = Memory::new();
        let (io, listener) = (Io::new(Box::new(memory.clone())), memory.listen());
        Self::over(Net::Memory(memory), io, listener, config, volume)
    }

    /// A world in virtual time.
    pub(crate) fn sim(config: Config, size: u64) -> Self {
        let sim = Sim::new(1);
        let (io, listener) = (Io::new(Box::new(sim.clone())), sim.listen());
        Self::over(Net::Sim(sim), io, listener, config, |io| RamVolume::new(io, size))
    }

    fn over(
        net: Net,
        io: Io,
        listener: SocketId,
        config: Config,
        volume: impl FnOnce(&Io) -> Rc<RamVolume>,
    ) -> Self {
        let volume = volume(&io);
        let server = Server::new(&io, config);
        server.add_export("disk", "a disk in RAM", Rc::clone(&volume)).expect("a fresh name");
        server.serve(listener);
        let client_pool = io.pool(64 << 20);
        Self { net, io, server, listener, volume, client_pool }
    }

    pub(crate) fn connect_socket(&self) -> SocketId {
        match &self.net {
            Net::Memory(memory) => memory.connect(self.listener),
            Net::Sim(sim) => sim.connect(self.listener),
        }
    }

    /// One more listener.
    pub(crate) fn add_listener(&self) -> SocketId {
        match &self.net {
            Net::Memory(memory) => memory.listen(),
            Net::Sim(sim) => sim.listen(),
        }
    }

    /// A connection on which nothing has been said.
    pub(crate) fn connect(&self) -> Client {
        let socket = self.connect_socket();
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
        assert_eq!(self.server.memory_in_use(), 0, "buffers are left");
        assert_eq!(self.volume.busy.get(), 0, "requests are left");
        assert_eq!(Rc::strong_count(&self.volume), 1, "the volume is still held");
    }
}

/// All that a client sends in a good session.
pub(crate) fn session() -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 3];
    let mut option = |option, data: &[u8]| bytes.extend(wire::option(option, data));
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

    /// Waits for more bytes; `false` at the end.
    async fn hear(&mut self) -> bool {
        let got = self.io.recv(self.socket, &self.buf.all()).await.unwrap_or(0);
        self.inbox.extend(&self.buf.bytes()[..got]);
        got > 0
    }

    /// The next bytes, or `None` if the server closes before they have come.
    pub(crate) async fn try_recv(&mut self, count: usize) -> Option<Vec<u8>> {
        while self.inbox.len() < count {
            if !self.hear().await {
                return None;
            }
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

    /// The server has closed the connection; what had been sent before is of no interest.
    pub(crate) async fn assert_hung_up(&mut self) {
        while self.try_recv(1).await.is_some() {
            self.inbox.clear();
        }
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
        self.send(&wire::option(option, data)).await.expect("open");
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
        loop {
            let decoded = Reply::decode(&self.inbox, |_| Some(read)).expect("a reply by the book");
            let Some((reply, len)) = decoded else {
                assert!(self.hear().await, "the server closed the connection");
                continue;
            };
            self.inbox.drain(..len);
            let by_chunk = matches!(&reply, Reply::Error { .. } | Reply::Status { .. });
            let by_chunk = by_chunk || matches!(&reply, Reply::Data { offset: Some(_), .. });
            let simple_data = matches!(&reply, Reply::Data { offset: None, .. });
            assert!(if self.structured { !simple_data } else { !by_chunk }, "chunks only when agreed");
            if let Reply::Error { message, .. } = &reply {
                assert!(!message.is_empty());
            }
            return reply;
        }
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
