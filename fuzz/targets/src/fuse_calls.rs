//! A mount's kernel, which says anything. Input: whether it may write (1 byte), turns that the volume dawdles (1), then messages: good
//! ones by a byte that says which, and bytes that are none.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_export::fuse::proto::{ANSWER_HEADER, WRITTEN_AT, error, parse};
use brindle_export::fuse::{Mounting, Server};
use brindle_export::nbd::{self, Config};
use brindle_io::memory::Memory;
use brindle_io::{Duration, Io, SocketId};
use brindle_testkit::ram::RamVolume;
use brindle_volume::Volume;

use crate::feed::Feed;

/// Bytes of the volume: no power of two, no multiple of a page.
const SIZE: u64 = 48 * 4096 + 512;
/// Bytes of requests' buffers.
const MEMORY: usize = 4 << 20;
/// The part of the volume that has a file of its own.
const PART: core::ops::Range<u64> = 1024..9 * 4096 + 100;
/// Turns of the executor after which a server that says nothing has nothing to say.
const SILENCE: usize = 2_000;

/// Numbers of the files.
const WHOLE: u64 = 2;

/// A message that a kernel sends.
fn message(code: u32, unique: u64, node: u64, body: &[u8]) -> Vec<u8> {
    let len = (40 + body.len()) as u32;
    let mut bytes = [len.to_ne_bytes(), code.to_ne_bytes()].concat();
    bytes.extend(unique.to_ne_bytes());
    bytes.extend(node.to_ne_bytes());
    bytes.extend([0; 16]);
    bytes.extend(body);
    bytes
}

fn words(parts: &[u64]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.to_ne_bytes()).collect()
}

/// One thing that a kernel says, and what is to come of it where that is known.
enum Said {
    Read { file: u64, offset: u64, len: u32 },
    Write { file: u64, offset: u64, data: Vec<u8> },
    Zero { file: u64, offset: u64, len: u64 },
    Other(Vec<u8>),
}

impl Said {
    fn bytes(&self, unique: u64) -> Vec<u8> {
        match self {
            Self::Read { file, offset, len } => {
                message(15, unique, *file, &words(&[0, *offset, u64::from(*len), 0, 0]))
            }
            Self::Write { file, offset, data } => {
                let mut body = words(&[0, *offset, data.len() as u64, 0, 0]);
                body.extend(data);
                message(16, unique, *file, &body)
            }
            Self::Zero { file, offset, len } => message(43, unique, *file, &words(&[0, *offset, *len, 3])),
            Self::Other(bytes) => bytes.clone(),
        }
    }
}

fn said(feed: &mut Feed<'_>, unique: u64) -> Said {
    let kind = feed.u8();
    let file = WHOLE + u64::from(kind & 1);
    // Mostly within the files; else anything.
    let offset = if kind & 2 == 0 { u64::from(feed.u32()) % (SIZE + 600) } else { feed.u64() };
    match kind >> 4 {
        0..=3 => Said::Read { file, offset, len: u32::from(feed.u16()) },
        4..=7 => {
            let (fill, len) = (feed.u8(), usize::from(feed.u16()) % 9000);
            Said::Write { file, offset, data: vec![fill; len] }
        }
        8 | 9 => Said::Zero { file, offset, len: u64::from(feed.u16()) * 3 },
        10..=13 => {
            let (code, node) = (u32::from(feed.u8() % 54), u64::from(feed.u8() % 5));
            let len = usize::from(feed.u8() % 100);
            Said::Other(message(code, unique, node, feed.bytes(len)))
        }
        _ => {
            let len = usize::from(feed.u8());
            let mut bytes = feed.bytes(len).to_vec();
            if parse(&bytes).is_ok() {
                // Numbers are the kernel's own, and it takes none twice.
                bytes[8..16].copy_from_slice(&unique.to_ne_bytes());
            }
            Said::Other(bytes)
        }
    }
}

/// The bytes of the volume that a request to a file means.
fn place(file: u64, offset: u64, len: u64) -> core::ops::Range<usize> {
    let bytes = if file == WHOLE { 0..SIZE } else { PART };
    let start = bytes.start.saturating_add(offset).min(bytes.end);
    let end = start.saturating_add(len).min(bytes.end);
    start as usize..end as usize
}

/// Answers by the numbers of their calls.
type Answers = Rc<RefCell<BTreeMap<u64, (i32, Vec<u8>)>>>;

/// A kernel that waits for each answer before it asks more, so that what it reads can be foretold.
pub fn run(data: &[u8]) {
    let mut feed = Feed(data);
    let (writable, dawdles) = (feed.u8() & 1 == 0, u32::from(feed.u8() % 8));
    let memory = Memory::new();
    let io = Io::new(Box::new(memory.clone()));
    let hour = Duration::from_secs(3600);
    let config = Config {
        memory: MEMORY,
        connections: 1,
        requests: 8,
        handshake: hour,
        stall: hour,
        deadline: hour,
        grace: hour,
    };
    let volume = RamVolume::new(&io, SIZE);
    volume.dawdle(dawdles);
    let sessions = nbd::Server::<RamVolume>::new(&io, config);
    let server = Server::beside(&io, sessions.sessions());
    server.add_guarded("disk", "a disk in RAM", Rc::clone(&volume), Rc::default());
    let [port, kernel] = memory.ports();
    let answers = Answers::default();
    listen(&io, kernel, &answers);
    let mounting = Mounting { owner: (1, 2), writable, partitions: vec![(1, PART)] };
    io.block_on(async {
        let mounted = server.mount("disk", port, mounting).await.expect("it is offered");
        let memory = io.pool(64 << 10).try_alloc(64 << 10).expect("the first buffer");
        let memory_of_all = io.pool(256 << 10).try_alloc(256 << 10).expect("the first buffer");
        let mut shadow = vec![0; SIZE as usize];
        let mut unique = 2;
        while !feed.is_empty() {
            let said = said(&mut feed, unique);
            let bytes = said.bytes(unique);
            memory.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
            if io.send(kernel, &[memory.slice(0..bytes.len())]).await.is_err() {
                break;
            }
            for _ in 0..SILENCE {
                if answers.borrow().contains_key(&unique) {
                    break;
                }
                io.yield_now().await;
            }
            if matches!(said, Said::Other(_)) {
                // It may have been a change.
                let all = memory_of_all.slice(0..SIZE as usize);
                volume.read(0, all.clone()).await.expect("it can be read");
                shadow.copy_from_slice(&all.bytes());
            }
            judge(&said, &bytes, answers.borrow_mut().remove(&unique), (&mut shadow, writable));
            unique += 2;
        }
        io.close(kernel);
        mounted.await;
        assert!(server.connection_stats().is_empty(), "nothing of a mount is left");
        server.stop().await;
        sessions.stop().await;
        assert_eq!(sessions.memory_in_use(), 0);
    });
    drop((server, sessions, volume));
    io.shutdown();
}

fn listen(io: &Io, kernel: SocketId, answers: &Answers) {
    let (own, answers) = (io.clone(), Rc::clone(answers));
    let buf = io.pool(2 << 20).try_alloc(2 << 20).expect("the first buffer");
    io.spawn(async move {
        while let Ok(count @ 1..) = own.recv(kernel, &buf.all()).await {
            let bytes = buf.bytes()[..count].to_vec();
            let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
            assert_eq!(word(0) as usize, count, "an answer tells its length");
            let unique = u64::from_ne_bytes(bytes[8..16].try_into().expect("eight bytes"));
            let number = word(4) as i32;
            assert!((-4095..=0).contains(&number) && (number == 0 || count == ANSWER_HEADER), "{number}");
            let again = answers.borrow_mut().insert(unique, (number, bytes[ANSWER_HEADER..].to_vec()));
            assert!(again.is_none(), "each call has one answer");
        }
    });
}

/// Whether an answer is right, as far as that is known.
fn judge(
    said: &Said,
    bytes: &[u8],
    answer: Option<(i32, Vec<u8>)>,
    (shadow, writable): (&mut Vec<u8>, bool),
) {
    // The end of the mount, and calls without answer.
    let Some((number, data)) = answer else { return };
    assert!(parse(bytes).is_ok(), "bytes that are no message have no answer");
    match said {
        Said::Read { file, offset, len } => {
            assert_eq!(number, 0);
            assert!(data == shadow[place(*file, *offset, u64::from(*len))], "a read of {len} at {offset}");
        }
        Said::Write { file, offset, data: written } => {
            let place = place(*file, *offset, written.len() as u64);
            match number {
                0 => {
                    assert!(writable);
                    let count = u32::from_ne_bytes(data[..4].try_into().expect("a count"));
                    assert_eq!(count as usize, place.len());
                    shadow[place.clone()].copy_from_slice(&written[..place.len()]);
                }
                number if !writable => assert_eq!(-number, error::READ_ONLY),
                number => assert!(-number == error::NO_SPACE && place.is_empty() && bytes.len() > WRITTEN_AT),
            }
        }
        Said::Zero { file, offset, len } => match number {
            0 => shadow[place(*file, *offset, *len)].fill(0),
            number => assert!(!writable && -number == error::READ_ONLY),
        },
        Said::Other(_) => {}
    }
}
