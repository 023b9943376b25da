//! Mounts by ports in memory: what a kernel agrees on and asks, and what it is answered.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_export::Config;
use brindle_export::fuse::proto::{ANSWER_HEADER, ability, error};
use brindle_export::fuse::{MountError, Mounting, Server};
use brindle_export::nbd;
use brindle_io::memory::Memory;
use brindle_io::{Io, Pool, SocketId};
use brindle_testkit::ram::{RamRequest, RamVolume};
use brindle_volume::VolumeError;

/// Bytes of the volume.
const SIZE: u64 = 1 << 20;
/// The node of its file.
const FILE: u64 = 2;

type Answers = Rc<RefCell<BTreeMap<u64, (i32, Vec<u8>)>>>;

/// A mount, and what stands for its kernel.
struct Stage {
    io: Io,
    volume: Rc<RamVolume>,
    sessions: nbd::Server<RamVolume>,
    server: Server<RamVolume>,
    memory: Memory,
    pool: Pool,
}

/// A kernel.
struct Kernel {
    io: Io,
    port: SocketId,
    pool: Pool,
    answers: Answers,
    next: RefCell<u64>,
}

impl Stage {
    fn new() -> Self {
        let memory = Memory::new();
        let io = Io::new(Box::new(memory.clone()));
        let volume = RamVolume::with(&io, |limits| limits.size = SIZE);
        let sessions = nbd::Server::new(&io, Config::default());
        let server = Server::beside(&io, sessions.sessions());
        server.add_guarded("tank/disk", "a disk in RAM", Rc::clone(&volume), Rc::default());
        let pool = io.pool(16 << 20);
        Self { io, volume, sessions, server, memory, pool }
    }

    async fn mount(&self, writable: bool) -> Result<Kernel, MountError> {
        let [own, port] = self.memory.ports();
        let mounting = Mounting { owner: (1, 2), writable, partitions: vec![(3, 4096..8192)] };
        let mounted = self.server.mount("tank/disk", own, mounting).await?;
        self.io.spawn(mounted);
        let answers = Answers::default();
        let (io, pool, ears) = (self.io.clone(), self.pool.clone(), Rc::clone(&answers));
        self.io.spawn(async move {
            let buf = pool.alloc(2 << 20).await;
            while let Ok(count @ 1..) = io.recv(port, &buf.all()).await {
                let bytes = buf.bytes()[..count].to_vec();
                let number = i32::from_ne_bytes(bytes[4..8].try_into().unwrap());
                let unique = u64::from_ne_bytes(bytes[8..16].try_into().unwrap());
                ears.borrow_mut().insert(unique, (-number, bytes[ANSWER_HEADER..].to_vec()));
            }
        });
        let (io, pool) = (self.io.clone(), self.pool.clone());
        Ok(Kernel { io, port, pool, answers, next: RefCell::new(2) })
    }

    fn end(self) {
        self.io.block_on(async {
            self.server.stop().await;
            self.sessions.stop().await;
            assert_eq!(self.sessions.memory_in_use(), 0);
        });
        drop((self.server, self.sessions, self.volume));
        self.io.shutdown();
    }
}

impl Kernel {
    /// Sends a call; gives its number.
    async fn send(&self, code: u32, node: u64, body: &[u8]) -> u64 {
        let unique = self.next.replace_with(|next| *next + 2);
        let mut bytes = Vec::new();
        bytes.extend((40 + body.len() as u32).to_ne_bytes());
        bytes.extend(code.to_ne_bytes());
        bytes.extend(unique.to_ne_bytes());
        bytes.extend(node.to_ne_bytes());
        bytes.extend([0; 16]);
        bytes.extend(body);
        let buf = self.pool.alloc(bytes.len()).await;
        buf.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
        self.io.send(self.port, &[buf.slice(0..bytes.len())]).await.unwrap();
        unique
    }

    async fn answer(&self, unique: u64) -> (i32, Vec<u8>) {
        for _ in 0..100_000 {
            if let Some(answer) = self.answers.borrow_mut().remove(&unique) {
                return answer;
            }
            self.io.yield_now().await;
        }
        panic!("no answer to {unique}");
    }

    async fn ask(&self, code: u32, node: u64, body: &[u8]) -> (i32, Vec<u8>) {
        let unique = self.send(code, node, body).await;
        self.answer(unique).await
    }

    async fn read(&self, node: u64, offset: u64, len: u64) -> Vec<u8> {
        let (number, data) = self.ask(15, node, &words(&[0, offset, len, 0, 0])).await;
        assert_eq!(number, 0);
        data
    }

    async fn write(&self, node: u64, offset: u64, data: &[u8], flags: u64) -> (i32, Vec<u8>) {
        self.ask(16, node, &written(offset, data, flags)).await
    }
}

fn words(parts: &[u64]) -> Vec<u8> {
    parts.iter().flat_map(|part| part.to_ne_bytes()).collect()
}

fn written(offset: u64, data: &[u8], flags: u64) -> Vec<u8> {
    let mut body = words(&[0, offset, data.len() as u64, 0, flags]);
    body.extend(data);
    body
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn what_both_can_is_agreed_on() {
    let stage = Stage::new();
    stage.io.block_on(async {
        let kernel = stage.mount(true).await.unwrap();
        let offered =
            ability::ASYNC_DIO | ability::MAX_PAGES | ability::BIG_WRITES | 1 << 16 | ability::INIT_EXT;
        let mut body = [7, 41, 1 << 17, offered as u32, 1 << 4].map(u32::to_ne_bytes).concat();
        body.extend([0; 44]);
        let (number, data) = kernel.ask(26, 0, &body).await;
        assert_eq!((number, data.len()), (0, 64));
        assert_eq!((u32_at(&data, 0), u32_at(&data, 12)), (7, (offered & ability::WANTED) as u32));
        assert_eq!((u32_at(&data, 20), data[28]), (1 << 20, 0), "writes of a MiB, 256 pages");
        let old = [7, 12, 0, 0].map(u32::to_ne_bytes).concat();
        assert_eq!(kernel.ask(26, 0, &old).await.0, error::PROTOCOL);
    });
    stage.end();
}

#[test]
fn files_are_found_listed_and_described() {
    let stage = Stage::new();
    stage.io.block_on(async {
        let kernel = stage.mount(false).await.unwrap();
        let (number, entry) = kernel.ask(1, 1, b"disk-part3\0").await;
        assert_eq!((number, entry.len(), u64_at(&entry, 0)), (0, 128, 3));
        assert_eq!((u64_at(&entry, 48), u32_at(&entry, 100) & 0o777), (4096, 0o400), "size and mode");
        assert_eq!((u32_at(&entry, 108), u32_at(&entry, 112)), (1, 2), "owner and group");
        assert_eq!(kernel.ask(1, 1, b"other\0").await.0, error::NO_ENTRY);
        let (_, list) = kernel.ask(28, 1, &words(&[0, 0, 4096, 0, 0])).await;
        let names = ["disk", "disk-part3"];
        assert!(names.iter().all(|name| list.windows(name.len()).any(|part| part == name.as_bytes())));
        assert_eq!(kernel.ask(28, 1, &words(&[0, 4, 4096, 0, 0])).await.1.len(), 0, "the end");
        // Nothing of it is to be changed.
        assert_eq!(kernel.ask(14, FILE, &[2, 0, 0, 0, 0, 0, 0, 0]).await.0, error::READ_ONLY);
        assert_eq!(kernel.write(FILE, 0, &[1; 512], 0).await.0, error::READ_ONLY);
        assert_eq!(kernel.ask(10, 1, b"disk\0").await.0, error::PERMISSION);
        assert_eq!(kernel.ask(21, FILE, &[0; 16]).await.0, error::UNKNOWN);
        assert!(stage.volume.asked.borrow().is_empty());
    });
    stage.end();
}

#[test]
fn parts_of_blocks_that_several_write_at_a_time_are_all_there() {
    let stage = Stage::new();
    stage.volume.dawdle(5);
    stage.io.block_on(async {
        let (one, other) = (stage.mount(true).await.unwrap(), stage.mount(true).await.unwrap());
        let mut sent = Vec::new();
        for at in 0..64u64 {
            let kernel = if at % 2 == 0 { &one } else { &other };
            // Each writes its own bytes of the same few blocks.
            sent.push((
                kernel,
                kernel.send(16, FILE, &written(4096 + at * 20, &[at as u8 + 1; 20], 0)).await,
            ));
        }
        for (kernel, unique) in sent {
            assert_eq!(kernel.answer(unique).await.0, 0);
        }
        let data = one.read(3, 0, 1280).await;
        assert!(data.iter().enumerate().all(|(at, byte)| *byte == (at / 20) as u8 + 1));
    });
    stage.end();
}

#[test]
fn order_and_errors_are_those_of_the_volume() {
    let stage = Stage::new();
    stage.io.block_on(async {
        let kernel = stage.mount(true).await.unwrap();
        // O_DSYNC.
        assert_eq!(kernel.write(FILE, 4096, &[1; 4096], 0o10000).await.0, 0);
        assert_eq!(kernel.ask(20, FILE, &[0; 16]).await.0, 0);
        let asked = stage.volume.asked.take();
        assert_eq!(asked, [RamRequest::Write(4096, 4096, true), RamRequest::Flush]);
        for (why, number) in [
            (VolumeError::TooManyLost, error::IO),
            (VolumeError::NoSpace, error::NO_SPACE),
            (VolumeError::ReadOnly, error::READ_ONLY),
        ] {
            stage.volume.error.set(Some(why));
            assert_eq!(kernel.write(FILE, 0, &[1; 4096], 0).await.0, number);
            stage.volume.error.set(None);
        }
        assert_eq!(kernel.write(FILE, SIZE, &[1], 0).await.0, error::NO_SPACE);
        let (number, data) = kernel.write(FILE, SIZE - 512, &[1; 1024], 0).await;
        assert_eq!((number, u32_at(&data, 0)), (0, 512), "as far as there is room");
        // Seeks.
        assert_eq!(u64_at(&kernel.ask(46, FILE, &words(&[0, 0, 3])).await.1, 0), 4096);
        assert_eq!(u64_at(&kernel.ask(46, FILE, &words(&[0, 4100, 4])).await.1, 0), 8192);
        assert_eq!(u64_at(&kernel.ask(46, FILE, &words(&[0, 5000, 3])).await.1, 0), 5000);
        assert_eq!(kernel.ask(46, FILE, &words(&[0, SIZE, 3])).await.0, error::NO_DATA);
        let stats = stage.server.connection_stats();
        assert_eq!((stats.len(), stats[0].export.as_deref()), (1, Some("tank/disk")));
        assert!(stats[0].total.errors == 3 && stats[0].total.written_bytes == 4096 + 512, "{stats:?}");
    });
    stage.end();
}

#[test]
fn a_mount_ends_with_its_kernel_its_export_and_its_server() {
    let stage = Stage::new();
    stage.io.block_on(async {
        let kernel = stage.mount(false).await.unwrap();
        stage.io.close(kernel.port);
        while !stage.server.connection_stats().is_empty() {
            stage.io.yield_now().await;
        }
        let _kernel = stage.mount(false).await.unwrap();
        assert_eq!(stage.server.disconnect("tank/disk", |_, _| true), 1);
        while !stage.server.connection_stats().is_empty() {
            stage.io.yield_now().await;
        }
        let _kernel = stage.mount(false).await.unwrap();
        stage.server.remove_export("tank/disk").await;
        assert!(stage.server.connection_stats().is_empty());
        let why = stage.mount(false).await.err().unwrap();
        assert_eq!(why, MountError::NotOffered("tank/disk".to_owned()));
    });
    stage.end();
}
