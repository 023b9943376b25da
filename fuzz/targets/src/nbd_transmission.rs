//! The transmission phase of NBD as a state machine. Input: how the client speaks (1 byte), bytes to a piece (1), turns that the
//! volume dawdles (1), then steps: requests, bytes that are none, pauses.

use brindle_export::nbd::client::wire::{self, Reply};
use brindle_export::nbd::proto::{
    BASE_ALLOCATION, Request, StatusExtent, command_code as code, command_flags as flag, option_code,
};
use brindle_io::SocketId;

use crate::feed::Feed;
use crate::nbd::{Heard, MEMORY, SIZE, World};

/// Turns of the executor after which a server that is silent will not speak any more.
const PATIENCE: usize = 200_000;

/// Payload beyond this is announced, but not sent.
const LONGEST: u32 = 96 << 10;

/// How a client speaks.
#[derive(Clone, Copy)]
struct Manner {
    structured: bool,
    status: bool,
    /// Waits for each reply before the next request: then the data that it reads can be foretold.
    patient: bool,
}

/// One thing that a client does.
enum Step {
    Request(Request, Vec<u8>),
    /// Bytes that are no request, or the start of one: the stream is out of step from here.
    Noise(Vec<u8>),
    Pause(u8),
}

/// A client that has chosen the export, and says anything.
pub fn run(data: &[u8]) {
    let mut feed = Feed(data);
    let bits = feed.u8();
    let manner = Manner { structured: bits & 1 != 0, status: bits & 3 == 3, patient: bits & 4 != 0 };
    let piece = 1 + 64 * usize::from(feed.u8());
    let world = World::new(1 + usize::from(bits >> 4));
    world.volume.dawdle(u32::from(feed.u8() % 8));
    let steps = steps(&mut feed);
    let (socket, heard) = world.connect();
    world.io.block_on(async {
        world.send(socket, &handshake(manner), MEMORY).await;
        world.listen(&heard).await;
        heard.bytes.borrow_mut().clear();
        let mut client =
            Client { socket, manner, asked: Vec::new(), shadow: vec![0; SIZE as usize], seen: 0 };
        let mut in_step = true;
        for step in &steps {
            let bytes = match step {
                Step::Pause(turns) => {
                    for _ in 0..*turns {
                        world.io.yield_now().await;
                    }
                    continue;
                }
                Step::Noise(bytes) => bytes.clone(),
                Step::Request(request, payload) => [&request.encode()[..], payload].concat(),
            };
            match step {
                Step::Request(request, payload) if in_step => client.asked.push((*request, payload.clone())),
                _ => in_step = false,
            }
            if !world.send(socket, &bytes, piece).await {
                break;
            }
            if manner.patient && in_step {
                client.wait(&world, &heard).await;
            }
        }
        if in_step {
            client.leave(&world, &heard).await;
        } else {
            // Whatever the server makes of noise, it must let go of everything.
            world.listen(&heard).await;
        }
    });
    world.end(socket);
}

fn handshake(manner: Manner) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 3];
    if manner.structured {
        bytes.extend(wire::option(option_code::STRUCTURED_REPLY, b""));
    }
    if manner.status {
        let query = wire::meta_query(b"disk", &[BASE_ALLOCATION.as_bytes()]);
        bytes.extend(wire::option(option_code::SET_META_CONTEXT, &query));
    }
    bytes.extend(wire::option(option_code::GO, &wire::info_request(b"disk", &[])));
    bytes
}

fn steps(feed: &mut Feed<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    while !feed.is_empty() && steps.len() < 64 {
        match feed.u8() {
            0xf0..=0xf7 => steps.push(Step::Pause(feed.u8())),
            0xf8..=0xff => {
                let len = usize::from(feed.u8());
                steps.push(Step::Noise(feed.bytes(len).to_vec()));
            }
            kind => {
                let request = request(kind, feed, steps.len() as u64);
                let disconnects = request.command == code::DISC;
                steps.push(payload(request, feed.u8()));
                if disconnects {
                    break;
                }
            }
        }
    }
    steps
}

fn request(kind: u8, feed: &mut Feed<'_>, cookie: u64) -> Request {
    let command = u16::from(kind % 9);
    let flags = match feed.u8() {
        bits @ ..32 => u16::from(bits),
        255 => feed.u16(),
        _ => 0,
    };
    // Mostly on blocks and near the export; else anything.
    let (offset, len) = match kind >> 6 {
        0 | 1 => (u64::from(feed.u16() % 512) * 512, u32::from(feed.u8()) * 512),
        2 => (u64::from(feed.u32() % (SIZE as u32 * 2)), u32::from(feed.u16())),
        _ => (feed.u64(), feed.u32()),
    };
    let (offset, len) = if command == code::FLUSH && kind < 128 { (0, 0) } else { (offset, len) };
    Request { flags, command, cookie, offset, len }
}

fn payload(request: Request, fill: u8) -> Step {
    if request.command != code::WRITE {
        return Step::Request(request, Vec::new());
    }
    if request.len <= LONGEST {
        return Step::Request(request, vec![fill; request.len as usize]);
    }
    Step::Noise([&request.encode()[..], &[fill; 1000]].concat())
}

/// The state of a client.
struct Client {
    socket: SocketId,
    manner: Manner,
    /// Requests in the order in which they were sent, with the data of writes.
    asked: Vec<(Request, Vec<u8>)>,
    shadow: Vec<u8>,
    /// Replies looked at so far, by a patient client.
    seen: usize,
}

impl Client {
    /// Waits for the reply to the last request, and takes its effect on.
    async fn wait(&mut self, world: &World, heard: &Heard) {
        let (request, payload) = self.asked.last().cloned().expect("there is one");
        if request.command == code::DISC {
            return;
        }
        for turn in 0.. {
            if self.whole_replies(&heard.bytes.borrow()) > self.seen {
                break;
            }
            assert!(turn < PATIENCE && !heard.closed.get(), "no reply to {request:?}");
            world.io.yield_now().await;
        }
        self.seen += 1;
        let (at, len) = (request.offset as usize, request.len as usize);
        if self.allowed(&request) {
            match request.command {
                code::READ => {
                    let bytes = heard.bytes.borrow();
                    assert_eq!(bytes[bytes.len() - len..], self.shadow[at..at + len], "{request:?}");
                }
                code::WRITE => self.shadow[at..at + len].copy_from_slice(&payload),
                code::WRITE_ZEROES | code::TRIM => self.shadow[at..at + len].fill(0),
                _ => {}
            }
        }
    }

    /// Takes leave, and hears every reply before the server closes.
    async fn leave(&self, world: &World, heard: &Heard) {
        let goodbye = Request { command: code::DISC, ..Request::default() };
        if self.asked.last().is_none_or(|(last, _)| last.command != code::DISC) {
            world.send(self.socket, &goodbye.encode(), MEMORY).await;
        }
        for turn in 0.. {
            if heard.closed.get() {
                break;
            }
            assert!(turn < PATIENCE, "the server does not close");
            world.io.yield_now().await;
        }
        self.hear(&heard.bytes.borrow());
    }

    fn whole_replies(&self, mut bytes: &[u8]) -> usize {
        let mut count = 0;
        while self.reply(&mut bytes).is_some() {
            count += 1;
        }
        count
    }

    /// Each request has one reply, and there is nothing else.
    fn hear(&self, mut bytes: &[u8]) {
        let mut open: Vec<&Request> = self.asked.iter().map(|(request, _)| request).collect();
        open.retain(|request| request.command != code::DISC);
        while let Some(cookie) = self.reply(&mut bytes) {
            let at = open.iter().position(|request| request.cookie == cookie);
            open.swap_remove(at.expect("a reply to an open request"));
        }
        assert!(bytes.is_empty(), "{} bytes of no reply", bytes.len());
        assert!(open.is_empty(), "without reply: {open:?}");
    }

    /// Takes a whole reply, checks it and returns its cookie; `None` if the reply is incomplete.
    fn reply(&self, bytes: &mut &[u8]) -> Option<u64> {
        let read = |cookie| {
            let request = self.asked(cookie);
            Some(if request.command == code::READ { request.len as usize } else { 0 })
        };
        let (reply, len) = Reply::decode(bytes, read).expect("a reply by the book")?;
        *bytes = &bytes[len..];
        self.judge(&reply);
        Some(reply.cookie())
    }

    fn asked(&self, cookie: u64) -> &Request {
        let mut asked = self.asked.iter().map(|(request, _)| request);
        asked.find(|request| request.cookie == cookie).expect("a reply to a request")
    }

    /// Checks that a reply answers its request, within the export's limits and in the negotiated form.
    fn judge(&self, reply: &Reply) {
        let request = self.asked(reply.cookie());
        assert_eq!(reply.error() == 0, self.allowed(request), "{reply:?} to {request:?}");
        let structured = self.manner.structured;
        match reply {
            Reply::Simple { error, .. } => {
                assert!(!structured || *error == 0, "an error is told by a chunk");
                assert!(*error != 0 || !matches!(request.command, code::READ | code::BLOCK_STATUS));
            }
            Reply::Data { offset, data, .. } => {
                assert_eq!((request.command, request.len as usize), (code::READ, data.len()));
                assert_eq!(*offset, structured.then_some(request.offset));
            }
            Reply::Error { message, .. } => assert!(structured && (1..128).contains(&message.len())),
            Reply::Status { extents: list, .. } => {
                assert_eq!(request.command, code::BLOCK_STATUS);
                extents(request, list);
            }
        }
    }

    /// Whether the protocol and the export allow what was asked.
    fn allowed(&self, request: &Request) -> bool {
        let Request { flags, command, offset, len, .. } = *request;
        let known = match command {
            code::READ if self.manner.structured => flag::DF,
            code::READ | code::WRITE | code::FLUSH | code::TRIM => 0,
            code::WRITE_ZEROES => flag::NO_HOLE | flag::FAST_ZERO,
            code::BLOCK_STATUS if self.manner.status => flag::REQ_ONE,
            _ => return false,
        };
        if flags & !(known | flag::FUA) != 0 {
            return false;
        }
        if command == code::FLUSH {
            return offset == 0 && len == 0;
        }
        let within = offset.checked_add(u64::from(len)).is_some_and(|end| end <= SIZE);
        let on_blocks = len != 0 && len % 512 == 0 && offset % 512 == 0;
        let moves = matches!(command, code::READ | code::WRITE);
        within && on_blocks && (!moves || len as usize <= MEMORY)
    }
}

fn extents(request: &Request, extents: &[StatusExtent]) {
    assert!(!extents.is_empty() && extents.iter().all(|extent| extent.len > 0));
    let total: u64 = extents.iter().map(|extent| u64::from(extent.len)).sum();
    assert!(total <= u64::from(request.len), "told of {total} bytes for {request:?}");
    assert!(request.flags & flag::REQ_ONE == 0 || extents.len() == 1);
}
