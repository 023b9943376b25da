//! A scripted initiator over in-process sockets, and a world for it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_export::iscsi::login::{Chap, Hash};
use brindle_export::iscsi::pdu::{BHS, FINAL, Header, digest, request, response};
use brindle_export::iscsi::{IscsiConfig, Keep, Server, TargetSpec};
use brindle_export::scsi::Identity;
use brindle_export::scsi::reservation::Reservations;
use brindle_export::{Config, Gate};
use brindle_io::memory::Memory;
use brindle_io::{Buf, Duration, Io, Pool, SocketId};
use brindle_testkit::ram::RamVolume;

pub(crate) const TARGET: &str = "iqn.2026-11.dev.brindle:t";
pub(crate) const SECRET: &str = "a secret of 20 bytes";

pub(crate) struct World {
    pub(crate) memory: Memory,
    pub(crate) io: Io,
    pub(crate) server: Server<RamVolume>,
    pub(crate) listener: SocketId,
    pub(crate) volume: Rc<RamVolume>,
    pub(crate) gate: Rc<Gate>,
    pub(crate) pool: Pool,
    pub(crate) kept: Rc<RefCell<Option<String>>>,
    pub(crate) refuses: Rc<Cell<bool>>,
}

impl World {
    pub(crate) fn new(chap: Option<Chap>, requests: usize) -> Self {
        Self::guarded(chap, requests, Gate::default())
    }

    pub(crate) fn guarded(chap: Option<Chap>, requests: usize, gate: Gate) -> Self {
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
        let gate = Rc::new(gate);
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

    pub(crate) fn connect(&self, name: u8) -> Client {
        let socket = self.memory.connect(self.listener);
        let buf = self.pool.try_alloc(2 << 20).expect("few clients");
        let inbox = Vec::new();
        Client { io: self.io.clone(), socket, buf, inbox, name, next: 1, status: 0, digests: false }
    }

    pub(crate) async fn client(&self, name: u8) -> Client {
        let mut client = self.connect(name);
        let reply = client.login(&[]).await;
        assert_eq!(reply.0[36], 0, "login");
        // POWER ON, or what became of the session before.
        assert_eq!(client.command(&[0; 16], &[], 0).await.status, 2);
        client
    }

    /// Stops the server and checks that nothing of it is left.
    pub(crate) fn end(&self) {
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

pub(crate) struct Client {
    pub(crate) io: Io,
    pub(crate) socket: SocketId,
    pub(crate) buf: Buf,
    pub(crate) inbox: Vec<u8>,
    pub(crate) name: u8,
    pub(crate) next: u32,
    pub(crate) status: u32,
    pub(crate) digests: bool,
}

/// The end of a command.
#[derive(Debug)]
pub(crate) struct Came {
    pub(crate) status: u8,
    pub(crate) sense: Vec<u8>,
    pub(crate) data: Vec<u8>,
    pub(crate) residual: (u8, u32),
}

impl Client {
    pub(crate) async fn send(&self, header: Header, data: &[u8]) {
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

    pub(crate) async fn raw(&self, bytes: &[u8]) {
        for part in bytes.chunks(1 << 20) {
            self.buf.slice(1 << 20..(1 << 20) + part.len()).put(0, part);
            let _ = self.io.send(self.socket, &[self.buf.slice(1 << 20..(1 << 20) + part.len())]).await;
        }
    }

    /// The next bytes; `None` at the end.
    pub(crate) async fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        while self.inbox.len() < len {
            let room = self.buf.slice(0..1 << 20);
            match self.io.recv(self.socket, &room).await {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.inbox.extend(&room.bytes()[..count]),
            }
        }
        Some(self.inbox.drain(..len).collect())
    }

    pub(crate) async fn receive(&mut self) -> Option<(Header, Vec<u8>)> {
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

    pub(crate) fn login_header(&self, flags: u8) -> Header {
        let mut header = Header::new(request::LOGIN, 1).byte(1, flags);
        header.0[0] |= 0x40;
        (header.0[8], header.0[13]) = (0x80, self.name);
        header.with(24, self.next)
    }

    pub(crate) fn introduction(&self) -> String {
        format!("InitiatorName=iqn.2026-11.example:{}\0TargetName={TARGET}\0", self.name)
    }

    /// Logs in with these keys, without any proof.
    pub(crate) async fn login(&mut self, keys: &[&str]) -> Header {
        let mut text = self.introduction();
        keys.iter().for_each(|key| text.extend([key, "\0"]));
        self.send(self.login_header(0x87), text.as_bytes()).await;
        let (header, data) = self.receive().await.expect("an answer");
        self.digests = String::from_utf8_lossy(&data).contains("HeaderDigest=CRC32C");
        header
    }

    /// A command that sends or is sent data.
    pub(crate) async fn command(&mut self, cdb: &[u8; 16], out: &[u8], most: usize) -> Came {
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
    pub(crate) async fn give(&self, asked: &Header, out: &[u8]) {
        let (at, len) = (asked.word(40) as usize, asked.word(44) as usize);
        for (number, part) in [at..at + len / 2, at + len / 2..at + len].into_iter().enumerate() {
            let last = part.end == at + len;
            let header = Header::new(request::DATA, asked.task()).byte(1, if last { FINAL } else { 0 });
            let header = header.with(20, asked.word(20)).with(36, number as u32).with(40, part.start as u32);
            self.send(header, &out[part]).await;
        }
    }

    pub(crate) async fn write(&mut self, lba: u32, data: &[u8]) -> Came {
        let [a, b] = ((data.len() / 512) as u16).to_be_bytes();
        self.command(&cdb(&[0x2a, 0], lba, &[0, a, b]), data, 0).await
    }

    pub(crate) async fn read(&mut self, lba: u32, len: usize) -> Came {
        let [a, b] = ((len / 512) as u16).to_be_bytes();
        self.command(&cdb(&[0x28, 0], lba, &[0, a, b]), &[], len).await
    }

    pub(crate) async fn reserve(&mut self, action: u8, kind: u8, key: u64, other: u64, keep: bool) -> Came {
        let mut list = [0; 24];
        list[..8].copy_from_slice(&key.to_be_bytes());
        list[8..16].copy_from_slice(&other.to_be_bytes());
        list[20] = u8::from(keep);
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[2], cdb[8]) = (0x5f, action, kind, 24);
        self.command(&cdb, &list, 0).await
    }
}

pub(crate) fn cdb(head: &[u8], lba: u32, tail: &[u8]) -> [u8; 16] {
    let mut cdb = [0; 16];
    let all = [head, &lba.to_be_bytes(), tail].concat();
    cdb[..all.len()].copy_from_slice(&all);
    cdb
}

/// Says its answer to a challenge; the last reply's class, and its text.
pub(crate) async fn prove(client: &mut Client, name: &str, secret: &[u8], reflect: bool) -> (u8, String) {
    let introduction = client.introduction();
    let theirs = if reflect { None } else { Some("0102030405060708") };
    prove_for(client, &introduction, name, secret, theirs).await
}

/// The same for a session that is introduced so, with a challenge to the target: its own, if none is given, or none at all.
pub(crate) async fn prove_for(
    client: &mut Client,
    introduction: &str,
    name: &str,
    secret: &[u8],
    theirs: Option<&str>,
) -> (u8, String) {
    let (header, text) = verdict(client, introduction, name, secret, theirs).await;
    (header.0[36], String::from_utf8(text).unwrap())
}

/// The same; the last answer as it comes.
pub(crate) async fn verdict(
    client: &mut Client,
    introduction: &str,
    name: &str,
    secret: &[u8],
    theirs: Option<&str>,
) -> (Header, Vec<u8>) {
    let text = format!("{introduction}AuthMethod=CHAP,None\0");
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
    let theirs = match theirs {
        Some("") => String::new(),
        theirs => format!("CHAP_I=9\0CHAP_C=0x{}\0", theirs.unwrap_or(hex)),
    };
    let text = format!("CHAP_N={name}\0CHAP_R=0x{answer}\0{theirs}");
    client.send(client.login_header(0x83), text.as_bytes()).await;
    client.receive().await.expect("a verdict")
}
