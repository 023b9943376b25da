//! Requests to an array over NBD, by sockets within the process.

use std::rc::Rc;

use brindle_array::{Array, Volume};
use brindle_export::nbd::proto::{OPTION_MAGIC, Request, command_code, option_code};
use brindle_export::nbd::{Config, Server};
use brindle_io::memory::Memory;
use brindle_io::{Buf, Io, SocketId};

use crate::arrays::{STRIPED, array};
use crate::{HotPath, next};

const COUNT: usize = 1024;
/// Requests that the client sends at once; it waits for all their replies.
const DEPTH: usize = 32;
const LEN: usize = 4 << 10;
/// Bytes of a simple reply without data.
const REPLY: usize = 16;

/// Reads and writes of an array over NBD.
pub(crate) fn paths() -> Vec<HotPath> {
    let path = |what, command| HotPath {
        name: format!("NBD, 4K {what} of {}", STRIPED.name),
        count: COUNT,
        world: Box::new(move || {
            let client = Client::new();
            Box::new(move |count| client.run(command, count))
        }),
    };
    vec![path("read", command_code::READ), path("write", command_code::WRITE)]
}

/// The server, and who asks it.
struct Client {
    io: Io,
    _server: Server<Array>,
    socket: SocketId,
    buf: Buf,
    /// Requests that the export has room for.
    places: u64,
}

impl Client {
    /// Connected, and the export chosen.
    fn new() -> Self {
        let memory = Memory::new();
        let (io, array) = array(&memory, STRIPED, None);
        let places = array.limits().size / LEN as u64;
        let server = Server::new(&io, Config::default());
        server.add_export("", "", Rc::new(array)).expect("the first name");
        let listener = memory.listen();
        server.serve(listener);
        let socket = memory.connect(listener);
        let buf = io.pool(1 << 20).try_alloc(256 << 10).expect("nobody else has any");
        let client = Self { io, _server: server, socket, buf, places };
        client.io.block_on(client.greet());
        client
    }

    /// The shortest handshake: no zeroes, no structured replies.
    async fn greet(&self) {
        self.receive(18).await;
        let mut said = vec![0, 0, 0, 3];
        said.extend(OPTION_MAGIC.to_be_bytes());
        said.extend(option_code::EXPORT_NAME.to_be_bytes());
        said.extend([0; 4]);
        self.send(&said).await;
        self.receive(10).await;
    }

    fn run(&self, command: u16, count: usize) -> usize {
        let rounds = count / DEPTH;
        let mut state = 1;
        self.io.block_on(async {
            for _ in 0..rounds {
                self.round(command, &mut state).await;
            }
        });
        rounds * DEPTH
    }

    /// Sends [`DEPTH`] requests, and takes their replies.
    async fn round(&self, command: u16, state: &mut u64) {
        let write = command == command_code::WRITE;
        let mut said = Vec::with_capacity(DEPTH * (28 + LEN));
        for cookie in 0..DEPTH as u64 {
            let offset = next(state, self.places) * LEN as u64;
            said.extend(Request { command, cookie, offset, len: LEN as u32, flags: 0 }.encode());
            if write {
                said.resize(said.len() + LEN, 0);
            }
        }
        self.send(&said).await;
        self.receive(DEPTH * if write { REPLY } else { REPLY + LEN }).await;
    }

    async fn send(&self, bytes: &[u8]) {
        self.buf.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        self.io.send(self.socket, &[self.buf.slice(0..bytes.len())]).await.expect("the server listens");
    }

    /// Takes `count` bytes, and does not look at them.
    async fn receive(&self, count: usize) {
        let mut got = 0;
        while got < count {
            let some = self.io.recv(self.socket, &self.buf.slice(0..count - got)).await;
            let some = some.expect("the server speaks");
            assert!(some > 0, "the server has gone");
            got += some;
        }
    }
}
