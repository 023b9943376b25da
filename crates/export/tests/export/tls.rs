//! NBD with TLS: who is let in, what is said before, and what is not believed.

use std::io::{Read, Write};
use std::rc::Rc;
use std::sync::Arc;

use crate::support::{World, go, small};
use brindle_export::Gate;
use brindle_export::Security;
use brindle_export::access::{AccessList, Proof};
use brindle_export::nbd::proto::{OptionReplyHeader, Request, command_code, option_code as code};
use brindle_export::tls::{Pems, Tls, TlsError};
use brindle_io::{Buf, Io, SocketId};
use brindle_testkit::certificates::{self as certificates, Certificate};
use brindle_testkit::ram::RamVolume;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

const TLS_REQUIRED: u32 = 1 << 31 | 5;

fn pems(server: Certificate) -> Pems<'static> {
    Pems {
        chain: server.chain.as_bytes(),
        key: server.key.as_bytes(),
        clients: Some(certificates::AUTHORITY.as_bytes()),
        revoked: None,
    }
}

/// A world whose listener has TLS, with a second export that `one.example` may write to and others may read.
fn world(demanded: bool) -> (World, Arc<Tls>) {
    let (world, tls, _) = gated(demanded);
    (world, tls)
}

/// The same, with the gate of that export.
fn gated(demanded: bool) -> (World, Arc<Tls>, Rc<Gate>) {
    let world = World::new(small(), 1 << 20);
    let tls = Arc::new(Tls::new(pems(certificates::SERVER)).expect("good certificates"));
    let rules = ["cert:one.example write", "cert:other read"].map(|rule| rule.parse().expect("a rule"));
    let gate = Rc::new(Gate::default().for_those(Some(AccessList(rules.to_vec()))));
    let volume = RamVolume::new(&world.io, 1 << 20);
    world.server.add_guarded("named", "", volume, Rc::clone(&gate)).expect("a fresh name");
    let security = Security { tls: Arc::clone(&tls), demanded };
    let listener = world.add_listener();
    world.server.serve_securely(listener, Some(security));
    (World { listener, ..world }, tls, gate)
}

/// A client's end.
struct Client {
    io: Io,
    socket: SocketId,
    buf: Buf,
    tls: Option<ClientConnection>,
    inbox: Vec<u8>,
    /// The server has said that nothing more will come.
    left: bool,
}

impl Client {
    fn connect(world: &World) -> Self {
        let (io, socket) = (world.io.clone(), world.connect_socket());
        let buf = world.client_pool.try_alloc(256 << 10).expect("few clients");
        Self { io, socket, buf, tls: None, inbox: Vec::new(), left: false }
    }

    async fn send_raw(&self, bytes: &[u8]) -> bool {
        let (at, mut sent) = (128 << 10, true);
        for part in bytes.chunks(64 << 10) {
            self.buf.slice(at..at + part.len()).put(0, part);
            sent &= self.io.send(self.socket, &[self.buf.slice(at..at + part.len())]).await.is_ok();
        }
        sent
    }

    async fn flush(&mut self) -> bool {
        let mut bytes = Vec::new();
        let Some(tls) = &mut self.tls else { return true };
        while tls.wants_write() {
            tls.write_tls(&mut bytes).expect("memory");
        }
        self.send_raw(&bytes).await
    }

    async fn say(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(16 << 10) {
            match &mut self.tls {
                None => drop(self.send_raw(part).await),
                Some(tls) => {
                    tls.writer().write_all(part).expect("memory");
                    self.flush().await;
                }
            }
        }
    }

    /// Receives something; `false` at the end, or if it can't be read.
    async fn receive(&mut self) -> bool {
        let room = self.buf.slice(0..128 << 10);
        let count = self.io.recv(self.socket, &room).await.unwrap_or(0);
        if count == 0 {
            return false;
        }
        let bytes = room.bytes()[..count].to_vec();
        let Some(tls) = &mut self.tls else {
            self.inbox.extend(bytes);
            return true;
        };
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            tls.read_tls(&mut rest).expect("memory");
            match tls.process_new_packets() {
                Err(_) => return false,
                Ok(state) => self.left |= state.peer_has_closed(),
            }
            let mut plain = vec![0; 64 << 10];
            while let Ok(count @ 1..) = tls.reader().read(&mut plain) {
                self.inbox.extend(&plain[..count]);
            }
        }
        true
    }

    /// The next bytes; `None` at the end.
    async fn take(&mut self, len: usize) -> Option<Vec<u8>> {
        while self.inbox.len() < len {
            if !self.receive().await {
                return None;
            }
        }
        Some(self.inbox.drain(..len).collect())
    }

    async fn greet(&mut self) {
        assert!(self.take(18).await.expect("a greeting").starts_with(b"NBDMAGICIHAVEOPT"));
        self.say(&[0, 0, 0, 3]).await;
    }

    async fn option(&mut self, option: u32, data: &[u8]) -> Option<Vec<(u32, Vec<u8>)>> {
        let head = [&b"IHAVEOPT"[..], &option.to_be_bytes(), &(data.len() as u32).to_be_bytes()].concat();
        self.say(&[&head[..], data].concat()).await;
        let mut replies = Vec::new();
        loop {
            let header = self.take(OptionReplyHeader::BYTES).await?.try_into().expect("as many");
            let header = OptionReplyHeader::decode(&header).expect("a header");
            assert_eq!(header.option, option);
            replies.push((header.reply, self.take(header.len as usize).await?));
            if header.reply == 1 || header.reply >> 31 == 1 {
                return Some(replies);
            }
        }
    }

    /// Begins TLS; whether the server is still there after it.
    async fn secure(&mut self, with: Option<Certificate>) -> bool {
        assert_eq!(self.option(code::STARTTLS, b"").await, Some(vec![(1, vec![])]));
        self.handshake(with).await
    }

    async fn handshake(&mut self, with: Option<Certificate>) -> bool {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(certificates::AUTHORITY.as_bytes()).expect("PEM");
        roots.add(authority).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("a version")
            .with_root_certificates(roots);
        let config = match with {
            None => builder.with_no_client_auth(),
            Some(with) => {
                let chain = CertificateDer::from_pem_slice(with.chain.as_bytes()).expect("PEM");
                let key = PrivateKeyDer::from_pem_slice(with.key.as_bytes()).expect("PEM");
                builder.with_client_auth_cert(vec![chain], key).expect("they fit")
            }
        };
        let name = "localhost".try_into().expect("a name");
        self.tls = Some(ClientConnection::new(Arc::new(config), name).expect("a client"));
        loop {
            self.flush().await;
            let tls = self.tls.as_ref().expect("it has just been made");
            if !tls.is_handshaking() {
                break;
            }
            if !self.receive().await {
                return false;
            }
        }
        // A server tells only after its own handshake what it thinks of the client.
        self.option(code::LIST, b"").await.is_some()
    }

    fn server(&self) -> Option<&[u8]> {
        Some(self.tls.as_ref()?.peer_certificates()?.first()?)
    }

    fn close(self) {
        self.io.close(self.socket);
    }
}

#[test]
fn nothing_is_told_before_tls_is_spoken() {
    let (world, _) = world(true);
    world.io.block_on(async {
        let mut client = Client::connect(&world);
        client.greet().await;
        for option in [code::LIST, code::INFO, code::GO, code::STRUCTURED_REPLY, 99] {
            let replies = client.option(option, &go(b"disk", &[])).await.expect("an answer");
            assert_eq!((replies.len(), replies[0].0), (1, TLS_REQUIRED));
        }
        assert_eq!(client.option(code::STARTTLS, b"x").await.expect("an answer")[0].0, 1 << 31 | 3);
        assert!(client.secure(Some(certificates::CLIENT)).await);
        assert_eq!(client.option(code::STARTTLS, b"").await.expect("an answer")[0].0, 1 << 31 | 3);
        client.close();
        let mut client = Client::connect(&world);
        client.greet().await;
        let name = [&b"IHAVEOPT"[..], &code::EXPORT_NAME.to_be_bytes(), &[0, 0, 0, 4], b"disk"].concat();
        client.say(&name).await;
        assert_eq!(client.take(1).await, None, "it is closed");
        client.close();
        world.settle(0).await;
    });
    world.end();
}

#[test]
fn requests_of_any_size_go_through_tls() {
    let (world, _) = world(true);
    world.io.block_on(async {
        let mut client = Client::connect(&world);
        client.greet().await;
        assert!(client.secure(Some(certificates::CLIENT)).await);
        assert_eq!(
            client.option(code::GO, &go(b"disk", &[])).await.expect("an answer").last().expect("one").0,
            1
        );
        let bytes: Vec<u8> = (0..800_256).map(|n| (n % 251) as u8).collect();
        for (offset, len) in [(0, 512), (512, 700_416), (4096, 65_536), (0, 800_256)] {
            let mut request = Request {
                command: command_code::WRITE,
                cookie: 7,
                offset,
                len: len as u32,
                ..Request::default()
            };
            client.say(&[&request.encode()[..], &bytes[..len]].concat()).await;
            assert_eq!(client.take(16).await.expect("a reply")[4..8], [0; 4]);
            assert_eq!(world.volume.content(offset as usize, len), bytes[..len]);
            request.command = command_code::READ;
            client.say(&request.encode()).await;
            assert_eq!(client.take(16).await.expect("a reply")[4..8], [0; 4]);
            assert!(client.take(len).await.expect("data") == bytes[..len], "{offset} {len}");
        }
        client.close();
        world.settle(0).await;
    });
    world.end();
}

#[test]
fn only_clients_that_the_authority_knows_come_in_and_each_is_who_it_proves_to_be() {
    let (world, _) = world(true);
    world.io.block_on(async {
        for with in [None, Some(certificates::CLIENT_EXPIRED), Some(certificates::STRANGER)] {
            let mut client = Client::connect(&world);
            client.greet().await;
            assert!(!client.secure(with).await, "{with:?}");
            client.close();
        }
        world.settle(0).await;
        assert_eq!(world.server.refused(), 3);
        // has-flags, flush, fua and so on; read-only is 2.
        for (with, read_only) in [(certificates::CLIENT, 0), (certificates::CLIENT_OTHER, 2)] {
            let mut client = Client::connect(&world);
            client.greet().await;
            assert!(client.secure(Some(with)).await);
            let replies = client.option(code::GO, &go(b"named", &[])).await.expect("an answer");
            assert_eq!(replies[0].1[11] & 2, read_only);
            client.close();
        }
        world.settle(0).await;
    });
    world.end();
}

#[test]
fn who_has_proved_nothing_does_not_see_what_is_for_names() {
    let (world, _) = world(false);
    world.io.block_on(async {
        let mut client = Client::connect(&world);
        client.greet().await;
        let list = client.option(code::LIST, b"").await.expect("an answer");
        assert_eq!(list.len(), 2, "one export, and the end: {list:?}");
        assert!(client.secure(Some(certificates::CLIENT)).await);
        assert_eq!(client.option(code::LIST, b"").await.expect("an answer").len(), 3);
        client.close();
        world.settle(0).await;
    });
    world.end();
}

#[test]
fn what_was_said_before_tls_counts_no_more() {
    let (world, _) = world(false);
    world.io.block_on(async {
        // Structured replies, agreed on by nobody knows whom.
        let mut client = Client::connect(&world);
        client.greet().await;
        assert_eq!(client.option(code::STRUCTURED_REPLY, b"").await, Some(vec![(1, vec![])]));
        assert!(client.secure(Some(certificates::CLIENT)).await);
        client.option(code::GO, &go(b"disk", &[])).await.expect("an answer");
        let read = Request { command: command_code::READ, len: 512, ..Request::default() };
        client.say(&read.encode()).await;
        assert_eq!(client.take(4).await.expect("a reply"), [0x67, 0x44, 0x66, 0x98], "a simple reply");
        client.close();
        // An option in the same packet as STARTTLS.
        let mut client = Client::connect(&world);
        client.greet().await;
        let option = |option: u32| [&b"IHAVEOPT"[..], &option.to_be_bytes(), &[0; 4]].concat();
        client.say(&[option(code::STARTTLS), option(code::LIST)].concat()).await;
        client.take(OptionReplyHeader::BYTES).await.expect("it is agreed");
        assert_eq!(client.take(1).await, None, "it is closed");
        client.close();
        world.settle(0).await;
    });
    world.end();
}

#[test]
fn what_is_no_tls_ends_the_connection() {
    let (world, _) = world(true);
    world.io.block_on(async {
        for bytes in
            [&[0; 100][..], b"GET / HTTP/1.1\r\n\r\n", &[22, 3, 1, 0, 1, 99], &[22, 3, 3, 0xff, 0xff]]
        {
            let mut client = Client::connect(&world);
            client.greet().await;
            client.option(code::STARTTLS, b"").await.expect("it is agreed");
            client.send_raw(bytes).await;
            client.send_raw(&[0x55; 70_000]).await;
            while client.receive().await {}
            client.close();
        }
        world.settle(0).await;
        // In the transmission phase, too.
        let mut client = Client::connect(&world);
        client.greet().await;
        assert!(client.secure(Some(certificates::CLIENT)).await);
        client.option(code::GO, &go(b"disk", &[])).await.expect("an answer");
        client.send_raw(&[23, 3, 3, 0, 32]).await;
        client.send_raw(&[0x55; 32]).await;
        while client.receive().await {}
        client.close();
        world.settle(0).await;
        assert_eq!(world.server.refused(), 4);
    });
    world.end();
}

#[test]
fn certificates_are_replaced_as_a_pair_or_not_at_all() {
    let (world, tls) = world(true);
    let wrong = Certificate { key: certificates::SERVER_NEXT.key, ..certificates::SERVER };
    assert!(matches!(tls.replace(pems(wrong)), Err(TlsError::WrongKey(_))));
    assert!(
        matches!(tls.replace(pems(certificates::SERVER_EXPIRED)), Err(TlsError::Expired(days)) if days > 365)
    );
    let none = |chain: &'static str, key: &'static str| Certificate { chain, key };
    assert!(matches!(tls.replace(pems(none("", certificates::SERVER.key))), Err(TlsError::NoCertificate(_))));
    assert_eq!(tls.replace(pems(none(certificates::SERVER.chain, ""))), Err(TlsError::NoKey));
    let no_authority = Pems { clients: Some(b"nothing"), ..pems(certificates::SERVER) };
    assert!(matches!(tls.replace(no_authority), Err(TlsError::NoCertificate(_))));
    world.io.block_on(async {
        let mut old = Client::connect(&world);
        old.greet().await;
        assert!(old.secure(Some(certificates::CLIENT)).await);
        let der = |of: Certificate| CertificateDer::from_pem_slice(of.chain.as_bytes()).expect("PEM");
        assert_eq!(old.server(), Some(&*der(certificates::SERVER)));
        tls.replace(pems(certificates::SERVER_NEXT)).expect("they fit");
        let mut new = Client::connect(&world);
        new.greet().await;
        assert!(new.secure(Some(certificates::CLIENT)).await);
        assert_eq!(new.server(), Some(&*der(certificates::SERVER_NEXT)));
        // The one that stands is not disturbed.
        assert!(old.option(code::LIST, b"").await.is_some());
        new.close();
        old.close();
        world.settle(0).await;
    });
    world.end();
}

#[test]
fn a_certificate_that_was_taken_back_is_refused() {
    let (world, tls) = world(true);
    let with =
        |revoked: &'static str| Pems { revoked: Some(revoked.as_bytes()), ..pems(certificates::SERVER) };
    assert_eq!(tls.replace(with("nothing")), Err(TlsError::NoList));
    world.io.block_on(async {
        let let_in = async |with: Certificate| {
            let mut client = Client::connect(&world);
            client.greet().await;
            let came = client.secure(Some(with)).await;
            client.close();
            came
        };
        assert!(let_in(certificates::CLIENT_REVOKED).await, "nobody has a list");
        tls.replace(with(certificates::REVOKED)).expect("a list");
        assert!(!let_in(certificates::CLIENT_REVOKED).await);
        assert!(let_in(certificates::CLIENT).await);
        // A list that is out of date may lack the newest: no client is believed.
        tls.replace(with(certificates::REVOKED_EXPIRED)).expect("a list");
        assert!(!let_in(certificates::CLIENT).await);
        world.settle(0).await;
    });
    world.end();
}

#[test]
fn clients_are_told_that_nothing_more_will_come() {
    let (world, _) = world(true);
    world.io.block_on(async {
        let begin = async || {
            let mut client = Client::connect(&world);
            client.greet().await;
            assert!(client.secure(Some(certificates::CLIENT)).await);
            client
        };
        // One that ends the handshake, and one that disconnects.
        let mut client = begin().await;
        assert!(client.option(code::ABORT, b"").await.is_some());
        while client.receive().await {}
        assert!(client.left);
        client.close();
        let mut client = begin().await;
        client.option(code::GO, &go(b"disk", &[])).await.expect("an answer");
        client.say(&Request { command: command_code::DISC, ..Request::default() }.encode()).await;
        while client.receive().await {}
        assert!(client.left);
        client.close();
        world.settle(0).await;
    });
    world.end();
}

#[test]
fn sessions_that_stand_are_ended_by_the_name_that_was_proved() {
    let (world, _, gate) = gated(true);
    world.io.block_on(async {
        let begin = async |with| {
            let mut client = Client::connect(&world);
            client.greet().await;
            assert!(client.secure(Some(with)).await);
            assert_eq!(client.option(code::GO, &go(b"named", &[])).await.expect("an answer").last().expect("one").0, 1);
            client
        };
        let (mut one, mut other) = (begin(certificates::CLIENT).await, begin(certificates::CLIENT_OTHER).await);
        let is_one = |client: &brindle_export::access::Client| {
            matches!(&client.proved, Some(Proof::Certificate(names)) if names.iter().any(|name| name == "one.example"))
        };
        assert_eq!(world.server.disconnect("named", |_, client| is_one(client)), 1);
        assert_eq!(one.take(1).await, None, "it is closed");
        one.close();
        let read = Request { command: command_code::READ, len: 512, ..Request::default() };
        other.say(&read.encode()).await;
        assert_eq!(other.take(16 + 512).await.expect("a reply")[4..8], [0; 4]);
        // Another list: the other, who could read, may write from now on, and has to come again to be told.
        let rules = ["cert:other write"].map(|rule| rule.parse().expect("a rule"));
        let is_another = gate.set_access(AccessList(rules.to_vec()));
        assert_eq!(world.server.disconnect("named", |_, client| is_another(client)), 1);
        assert_eq!(other.take(1).await, None, "it is closed");
        other.close();
        let mut one = Client::connect(&world);
        one.greet().await;
        assert!(one.secure(Some(certificates::CLIENT)).await);
        assert_ne!(one.option(code::GO, &go(b"named", &[])).await.expect("an answer").last().expect("one").0, 1);
        one.close();
        let again = begin(certificates::CLIENT_OTHER).await;
        again.close();
        world.settle(0).await;
    });
    world.end();
}
