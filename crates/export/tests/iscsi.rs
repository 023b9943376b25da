//! A scripted initiator over in-process sockets: what a server answers, and what it does not let itself be told.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_export::iscsi::login::{Chap, Credentials, Hash};
use brindle_export::iscsi::pdu::{BHS, FINAL, Header, digest, request, response};
use brindle_export::iscsi::{IscsiConfig, Keep, Server, TargetSpec};
use brindle_export::scsi::Identity;
use brindle_export::scsi::reservation::Reservations;
use brindle_export::{Config, Gate};
use brindle_io::memory::Memory;
use brindle_io::sync::join_all;
use brindle_io::{Buf, Duration, Io, Pool, SocketId};
use brindle_testkit::ram::RamVolume;

const TARGET: &str = "iqn.2026-11.dev.brindle:t";
const SECRET: &str = "a secret of 20 bytes";

struct World {
    memory: Memory,
    io: Io,
    server: Server<RamVolume>,
    listener: SocketId,
    volume: Rc<RamVolume>,
    gate: Rc<Gate>,
    pool: Pool,
    kept: Rc<RefCell<Option<String>>>,
    refuses: Rc<Cell<bool>>,
}

impl World {
    fn new(chap: Option<Chap>, requests: usize) -> Self {
        let memory = Memory::new();
        let (io, listener) = (Io::new(Box::new(memory.clone())), memory.listen());
        let session = Config {
            memory: 8 << 20,
            connections: 8,
            requests,
            handshake: Duration::from_secs(60),
            grace: Duration::from_secs(60),
            ..Config::default()
        };
        let counter = Cell::new(0_u8);
        let random = Box::new(move |bytes: &mut [u8]| {
            counter.set(counter.get().wrapping_add(1));
            bytes.fill(counter.get());
        });
        let server = Server::new(&io, IscsiConfig { session, chap, random });
        let volume = RamVolume::new(&io, 4 << 20);
        let (kept, refuses) = (Rc::<RefCell<Option<String>>>::default(), Rc::<Cell<bool>>::default());
        let keep: Keep = {
            let (kept, refuses) = (Rc::clone(&kept), Rc::clone(&refuses));
            Rc::new(move |text| {
                let (kept, refuses) = (Rc::clone(&kept), Rc::clone(&refuses));
                Box::pin(async move {
                    if refuses.get() {
                        return Err(());
                    }
                    *kept.borrow_mut() = text;
                    Ok(())
                })
            })
        };
        let gate = Rc::<Gate>::default();
        let identity = Identity { uuid: [1; 16], product: "t".into(), target: TARGET.into() };
        server.add_target(TargetSpec {
            identity,
            volume: Rc::clone(&volume),
            reservations: Reservations::default(),
            keep: Some(keep),
            gate: Rc::clone(&gate),
        });
        server.serve(listener, Some("127.0.0.1:3260".into()));
        let pool = io.pool(64 << 20);
        Self { memory, io, server, listener, volume, gate, pool, kept, refuses }
    }

    fn connect(&self, name: u8) -> Client {
        let socket = self.memory.connect(self.listener);
        let buf = self.pool.try_alloc(2 << 20).expect("few clients");
        let inbox = Vec::new();
        Client { io: self.io.clone(), socket, buf, inbox, name, next: 1, status: 0, digests: false }
    }

    async fn client(&self, name: u8) -> Client {
        let mut client = self.connect(name);
        let reply = client.login(&[]).await;
        assert_eq!(reply.0[36], 0, "login");
        // POWER ON, or what became of the session before.
        assert_eq!(client.command(&[0; 16], &[], 0).await.status, 2);
        client
    }

    /// Stops the server and checks that nothing of it is left.
    fn end(&self) {
        self.io.block_on(async {
            self.server.stop().await;
            for _ in 0..8 {
                self.io.yield_now().await;
            }
        });
        assert_eq!(self.io.tasks_alive(), 0, "tasks are left");
        assert_eq!(self.server.memory_in_use(), 0, "buffers are left");
        assert_eq!(Rc::strong_count(&self.volume), 1, "the volume is still held");
    }
}

struct Client {
    io: Io,
    socket: SocketId,
    buf: Buf,
    inbox: Vec<u8>,
    name: u8,
    next: u32,
    status: u32,
    digests: bool,
}

/// The end of a command.
#[derive(Debug)]
struct Came {
    status: u8,
    sense: Vec<u8>,
    data: Vec<u8>,
    residual: (u8, u32),
}

impl Client {
    async fn send(&self, header: Header, data: &[u8]) {
        let mut bytes = header.with_data(data.len()).0.to_vec();
        if self.digests {
            bytes.extend(digest([&bytes[..]]));
        }
        let from = bytes.len();
        bytes.extend(data);
        bytes.resize(from + data.len().next_multiple_of(4), 0);
        if self.digests && !data.is_empty() {
            bytes.extend(digest([&bytes[from..]]));
        }
        self.raw(&bytes).await;
    }

    async fn raw(&self, bytes: &[u8]) {
        for part in bytes.chunks(1 << 20) {
            self.buf.slice(1 << 20..(1 << 20) + part.len()).put(0, part);
            let _ = self.io.send(self.socket, &[self.buf.slice(1 << 20..(1 << 20) + part.len())]).await;
        }
    }

    /// The next bytes; `None` at the end.
    async fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        while self.inbox.len() < len {
            let room = self.buf.slice(0..1 << 20);
            match self.io.recv(self.socket, &room).await {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.inbox.extend(&room.bytes()[..count]),
            }
        }
        Some(self.inbox.drain(..len).collect())
    }

    async fn receive(&mut self) -> Option<(Header, Vec<u8>)> {
        let header = Header(self.take(BHS).await?.try_into().ok()?);
        if self.digests {
            assert_eq!(self.take(4).await?, digest([&header.0[..]]));
        }
        let mut data = self.take(header.padded()).await?;
        if self.digests && !data.is_empty() {
            assert_eq!(self.take(4).await?, digest([&data[..]]));
        }
        data.truncate(header.data());
        Some((header, data))
    }

    fn login_header(&self, flags: u8) -> Header {
        let mut header = Header::new(request::LOGIN, 1).byte(1, flags);
        header.0[0] |= 0x40;
        (header.0[8], header.0[13]) = (0x80, self.name);
        header.with(24, self.next)
    }

    fn introduction(&self) -> String {
        format!("InitiatorName=iqn.2026-11.example:{}\0TargetName={TARGET}\0", self.name)
    }

    /// Logs in with these keys, without any proof.
    async fn login(&mut self, keys: &[&str]) -> Header {
        let mut text = self.introduction();
        keys.iter().for_each(|key| text.extend([key, "\0"]));
        self.send(self.login_header(0x87), text.as_bytes()).await;
        let (header, data) = self.receive().await.expect("an answer");
        self.digests = String::from_utf8_lossy(&data).contains("HeaderDigest=CRC32C");
        header
    }

    /// A command that sends or is sent data.
    async fn command(&mut self, cdb: &[u8; 16], out: &[u8], most: usize) -> Came {
        let immediate = out.len().min(512);
        let expected = if out.is_empty() { most } else { out.len() };
        let flags = FINAL | if out.is_empty() { 0x40 } else { 0x20 };
        let mut header = Header::new(request::COMMAND, self.next).byte(1, flags);
        header.0[32..48].copy_from_slice(cdb);
        let header = header.with(20, expected as u32).with(24, self.next);
        self.next += 1;
        self.send(header, &out[..immediate]).await;
        let mut data = vec![0; most];
        loop {
            let (header, part) = self.receive().await.expect("an answer");
            match header.opcode() {
                response::R2T => self.give(&header, out).await,
                response::DATA => {
                    let at = header.word(40) as usize;
                    data[at..at + part.len()].copy_from_slice(&part);
                    if header.flags() & 1 != 0 {
                        let residual = (header.flags() & 6, header.word(44));
                        return Came { status: header.0[3], sense: Vec::new(), data, residual };
                    }
                }
                response::COMMAND => {
                    let residual = (header.flags() & 6, header.word(44));
                    let sense = part.get(2..).unwrap_or_default().to_vec();
                    assert!(header.word(24) >= self.status);
                    self.status = header.word(24);
                    return Came { status: header.0[3], sense, data, residual };
                }
                other => panic!("{other:#x}"),
            }
        }
    }

    /// Answers an R2T, in two PDUs.
    async fn give(&self, asked: &Header, out: &[u8]) {
        let (at, len) = (asked.word(40) as usize, asked.word(44) as usize);
        for (number, part) in [at..at + len / 2, at + len / 2..at + len].into_iter().enumerate() {
            let last = part.end == at + len;
            let header = Header::new(request::DATA, asked.task()).byte(1, if last { FINAL } else { 0 });
            let header = header.with(20, asked.word(20)).with(36, number as u32).with(40, part.start as u32);
            self.send(header, &out[part]).await;
        }
    }

    async fn write(&mut self, lba: u32, data: &[u8]) -> Came {
        let [a, b] = ((data.len() / 512) as u16).to_be_bytes();
        self.command(&cdb(&[0x2a, 0], lba, &[0, a, b]), data, 0).await
    }

    async fn read(&mut self, lba: u32, len: usize) -> Came {
        let [a, b] = ((len / 512) as u16).to_be_bytes();
        self.command(&cdb(&[0x28, 0], lba, &[0, a, b]), &[], len).await
    }

    async fn reserve(&mut self, action: u8, kind: u8, key: u64, other: u64, keep: bool) -> Came {
        let mut list = [0; 24];
        list[..8].copy_from_slice(&key.to_be_bytes());
        list[8..16].copy_from_slice(&other.to_be_bytes());
        list[20] = u8::from(keep);
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[2], cdb[8]) = (0x5f, action, kind, 24);
        self.command(&cdb, &list, 0).await
    }
}

fn cdb(head: &[u8], lba: u32, tail: &[u8]) -> [u8; 16] {
    let mut cdb = [0; 16];
    let all = [head, &lba.to_be_bytes(), tail].concat();
    cdb[..all.len()].copy_from_slice(&all);
    cdb
}

#[test]
fn data_go_both_ways_with_digests_and_without() {
    for keys in [&["HeaderDigest=CRC32C", "DataDigest=CRC32C", "MaxBurstLength=65536"][..], &[]] {
        let world = World::new(None, 16);
        world.io.block_on(async {
            let mut client = world.connect(1);
            assert_eq!(client.login(keys).await.0[36], 0);
            assert_eq!(client.digests, !keys.is_empty());
            assert_eq!(client.command(&[0; 16], &[], 0).await.sense[12], 0x29, "POWER ON");
            let bytes: Vec<u8> = (0..300_032).map(|n| (n % 251) as u8).collect();
            assert_eq!(client.write(3, &bytes).await.status, 0);
            let came = client.read(3, bytes.len()).await;
            assert!(came.status == 0 && came.data == bytes && came.residual == (0, 0), "{:?}", came.sense);
            assert_eq!(world.volume.content(3 * 512, 512), bytes[..512]);
            assert_eq!(client.read(8192, 512).await.sense[12], 0x21, "beyond the end");
        });
        world.end();
    }
}

#[test]
fn a_window_of_one_never_closes_for_good() {
    let world = World::new(None, 1);
    world.io.block_on(async {
        let mut client = world.client(1).await;
        for n in 0..50 {
            assert_eq!(client.write(n, &[n as u8; 2048]).await.status, 0);
            assert_eq!(client.read(n, 2048).await.data[2047], n as u8);
        }
    });
    world.end();
}

#[test]
fn four_initiators_count_by_compare_and_write() {
    let world = World::new(None, 16);
    world.volume.dawdle(3);
    let world = Rc::new(world);
    world.io.block_on(async {
        let count = async |name: u8| {
            let mut client = world.client(name).await;
            for _ in 0..50 {
                loop {
                    let old = client.read(0, 512).await.data;
                    let number = u32::from_le_bytes([old[0], old[1], old[2], old[3]]) + 1;
                    let mut both = [&old[..], &old].concat();
                    both[512..516].copy_from_slice(&number.to_le_bytes());
                    let mut cdb = [0; 16];
                    (cdb[0], cdb[13]) = (0x89, 1);
                    let came = client.command(&cdb, &both, 0).await;
                    if came.status == 0 {
                        break;
                    }
                    assert_eq!((came.status, came.sense[2] & 0xf), (2, 0xe), "MISCOMPARE");
                }
            }
        };
        join_all((1..=4).map(count)).await;
    });
    assert_eq!(world.volume.content(0, 4), 200_u32.to_le_bytes());
    world.end();
}

#[test]
fn registrations_are_kept_before_they_are_acknowledged() {
    let world = World::new(None, 16);
    world.io.block_on(async {
        let (mut one, mut two) = (world.client(1).await, world.client(2).await);
        world.refuses.set(true);
        let came = one.reserve(0, 0, 0, 7, true).await;
        assert_eq!((came.status, came.sense[12], came.sense[13]), (2, 0x55, 0x04), "no resources");
        // It has not registered: to reserve is a conflict.
        assert_eq!(one.reserve(1, 1, 7, 0, false).await.status, 0x18);
        world.refuses.set(false);
        assert_eq!(one.reserve(0, 0, 0, 7, true).await.status, 0);
        assert!(!world.gate.is_closed());
        assert_eq!(one.reserve(1, 1, 7, 0, false).await.status, 0);
        assert!(world.gate.is_closed(), "other doors may not write");
        let kept = Reservations::from_kept(world.kept.borrow().as_ref().unwrap()).unwrap();
        assert_eq!((kept.registrants(), kept.held().map(|kind| kind as u8)), (1, Some(1)));
        assert_eq!(two.write(0, &[1; 512]).await.status, 0x18, "RESERVATION CONFLICT");
        assert_eq!(two.read(0, 512).await.status, 0);
        assert_eq!(one.write(0, &[1; 512]).await.status, 0);
        assert_eq!(one.reserve(3, 0, 7, 0, false).await.status, 0);
        assert!(!world.gate.is_closed());
        assert_eq!(two.write(0, &[1; 512]).await.status, 0);
    });
    world.end();
}

#[test]
fn a_session_begins_anew_and_loses_what_it_had_reserved() {
    let world = World::new(None, 16);
    world.io.block_on(async {
        let (mut one, mut two) = (world.client(1).await, world.client(2).await);
        assert_eq!(one.command(&cdb(&[0x16], 0, &[]), &[], 0).await.status, 0, "RESERVE (6)");
        assert_eq!(two.read(0, 512).await.status, 0x18);
        let mut again = world.connect(1);
        assert_eq!(again.login(&[]).await.0[36], 0);
        assert_eq!(again.command(&[0; 16], &[], 0).await.sense[13], 0x07, "NEXUS LOSS");
        assert!(one.receive().await.is_none(), "the old one is closed");
        assert_eq!(two.read(0, 512).await.status, 0);
        assert_eq!(world.server.target_stats()[0].initiators.len(), 2);
    });
    world.end();
}

/// Says its answer to a challenge; the last reply's class, and its text.
async fn prove(client: &mut Client, name: &str, secret: &[u8], reflect: bool) -> (u8, String) {
    let text = format!("{}AuthMethod=CHAP,None\0", client.introduction());
    client.send(client.login_header(0), text.as_bytes()).await;
    client.receive().await.expect("the method");
    client.send(client.login_header(0), b"CHAP_A=5,7\0").await;
    let asked = String::from_utf8(client.receive().await.expect("a challenge").1).unwrap();
    let value = |key: &str| asked.split('\0').find_map(|pair| pair.strip_prefix(key)).unwrap();
    assert_eq!(value("CHAP_A="), "7", "SHA-256 goes before MD5");
    let hex = value("CHAP_C=0x");
    let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap());
    let answer = Hash::Sha256.answer(value("CHAP_I=").parse().unwrap(), secret, &bytes.collect::<Vec<_>>());
    let answer: String = answer.iter().map(|byte| format!("{byte:02x}")).collect();
    let theirs = if reflect { hex.to_owned() } else { "0102030405060708".to_owned() };
    let text = format!("CHAP_N={name}\0CHAP_R=0x{answer}\0CHAP_I=9\0CHAP_C=0x{theirs}\0");
    client.send(client.login_header(0x83), text.as_bytes()).await;
    let (header, text) = client.receive().await.expect("a verdict");
    (header.0[36], String::from_utf8(text).unwrap())
}

#[test]
fn only_those_come_in_that_prove_themselves() {
    let own = Credentials { name: "target".into(), secret: b"the target's own secret".to_vec() };
    let theirs = Credentials { name: "one".into(), secret: SECRET.as_bytes().to_vec() };
    let world = World::new(Some(Chap::new(vec![theirs], Some(own)).unwrap()), 16);
    world.io.block_on(async {
        let (class, text) = prove(&mut world.connect(1), "one", SECRET.as_bytes(), false).await;
        let right = Hash::Sha256.answer(9, b"the target's own secret", &[1, 2, 3, 4, 5, 6, 7, 8]);
        let right: String = right.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(class, 0);
        assert!(text.contains(&format!("CHAP_N=target\0CHAP_R=0x{right}")), "{text}");
        assert_eq!(prove(&mut world.connect(2), "one", b"another secret ...", false).await.0, 2);
        assert_eq!(prove(&mut world.connect(2), "two", SECRET.as_bytes(), false).await.0, 2);
        assert_eq!(prove(&mut world.connect(2), "one", SECRET.as_bytes(), true).await.0, 2, "reflected");
        // Logins that skip the security stage, or offer no proof, are refused.
        assert_eq!(world.connect(3).login(&[]).await.0[36], 2);
        let client = &mut world.connect(3);
        let text = format!("{}AuthMethod=None\0", client.introduction());
        client.send(client.login_header(0x81), text.as_bytes()).await;
        assert_eq!(client.receive().await.expect("a verdict").0.0[36], 2);
    });
    world.end();
}

#[test]
fn what_comes_damaged_or_in_another_order_fails_its_command_only() {
    let world = World::new(None, 16);
    world.io.block_on(async {
        let mut client = world.client(1).await;
        let mut header = Header::new(request::COMMAND, 77).byte(1, FINAL | 0x20);
        header.0[32..48].copy_from_slice(&cdb(&[0x2a, 0], 0, &[0, 0, 8]));
        client.send(header.with(20, 4096).with(24, client.next), &[]).await;
        client.next += 1;
        let (asked, _) = client.receive().await.expect("R2T");
        let data = Header::new(request::DATA, 77).with(20, asked.word(20)).with(36, 5);
        client.send(data, &[9; 4096]).await;
        let (came, sense) = client.receive().await.expect("a status");
        assert_eq!((came.0[3], sense[2 + 12]), (2, 0x4b), "DATA PHASE ERROR");
        assert_eq!(world.volume.content(0, 1), [0]);
        assert_eq!(client.write(0, &[3; 4096]).await.status, 0);
    });
    world.end();
}

#[test]
fn the_silent_and_the_half_open_make_room() {
    let world = World::new(None, 16);
    world.io.block_on(async {
        let mut good = world.client(1).await;
        for n in 0..1000 {
            let client = world.connect(9);
            client.raw(&client.login_header(0x87).with_data(200).0[..n % 48]).await;
            if n % 50 == 0 {
                assert_eq!(good.write(0, &[n as u8; 512]).await.status, 0);
            }
        }
        assert_eq!(good.read(0, 512).await.status, 0);
        assert!(world.server.connection_stats().len() <= 8);
    });
    world.end();
}
