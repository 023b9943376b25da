//! TLS on an NBD connection, as far as a client that has no key gets. Input: bytes to a piece (1 byte), what comes before (1), and what
//! the client says for TLS, byte for byte.

use std::cell::OnceCell;
use std::sync::Arc;

use brindle_export::Security;
use brindle_export::nbd::client::wire;
use brindle_export::nbd::proto::option_code as code;
use brindle_export::tls::{Pems, Tls};
use brindle_testkit::certificates::{AUTHORITY, SERVER};

use crate::feed::Feed;
use crate::nbd::World;

thread_local! {
    static SIDE: OnceCell<Arc<Tls>> = const { OnceCell::new() };
}

fn side() -> Arc<Tls> {
    let make = || {
        let clients = Some(AUTHORITY.as_bytes());
        let pems =
            Pems { chain: SERVER.chain.as_bytes(), key: SERVER.key.as_bytes(), clients, revoked: None };
        Arc::new(Tls::new(pems).expect("good certificates"))
    };
    SIDE.with(|side| Arc::clone(side.get_or_init(make)))
}

/// Nothing of any export is told to one who has proved nothing, and nothing of it is left.
pub fn run(data: &[u8]) {
    let mut feed = Feed(data);
    let piece = 1 + 16 * usize::from(feed.u8());
    let mut said = vec![0, 0, 0, 3];
    let bits = feed.u8();
    for (bit, option) in [(1, code::LIST), (2, code::STRUCTURED_REPLY), (4, code::STARTTLS), (8, code::LIST)]
    {
        if bits & bit != 0 {
            said.extend(wire::option(option, b""));
        }
    }
    let world = World::secured(4, Some(Security { tls: side(), demanded: true }));
    let (socket, heard) = world.connect();
    world.io.block_on(async {
        if world.send(socket, &said, said.len()).await {
            world.listen(&heard).await;
            world.send(socket, feed.0, piece).await;
        }
        world.listen(&heard).await;
    });
    world.end(socket);
    let reported = heard.bytes.borrow();
    assert!(!reported.windows(4).any(|bytes| bytes == b"disk"), "it is told of an export");
}
