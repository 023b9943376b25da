//! The client of NBD and a server that says anything. Input: how far the server is honest (1 byte: not at all, or to the end
//! of a handshake with simple replies, structured ones, or block status too), then what it says.

use std::io::{self, Read, Write};

use brindle_export::nbd::client::{Answer, Client};
use brindle_export::nbd::proto::{
    BASE_ALLOCATION, BASE_ALLOCATION_ID, OptionReply, Request, command_code as code, greeting,
    info_block_size, info_export, meta_context, option_code, option_reply,
};

use crate::feed::Feed;

/// Bytes of the read that the client asks for.
const READ: usize = 96;

/// A server that says what it is told to, whatever it hears.
struct Script {
    says: io::Cursor<Vec<u8>>,
}

impl Read for Script {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.says.read(into)
    }
}

impl Write for Script {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        Ok(from.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A client that asks for one thing of each kind, and takes what it is told.
pub fn run(data: &[u8]) {
    let mut feed = Feed(data);
    let mut says = honest(feed.u8() % 4);
    says.extend(feed.0);
    let script = Script { says: io::Cursor::new(says) };
    let Ok(mut client) = Client::connect(script, "disk") else { return };
    assert!(client.agreed().block > 0);
    assert!(client.agreed().structured || !client.agreed().status);
    let asked = [(code::READ, READ), (code::WRITE, 8), (code::FLUSH, 0), (code::BLOCK_STATUS, 4096)];
    for (cookie, (command, len)) in (0u64..).zip(asked) {
        let request = Request { command, len: len as u32, ..Request::default() };
        let payload: &[u8] = if command == code::WRITE { &[1; 8] } else { &[] };
        assert_eq!(client.send(request, payload).expect("a script hears all"), cookie);
    }
    let mut left = asked.len();
    let mut into = [0; READ];
    while let Ok((cookie, answer)) = client.receive(|cookie| (cookie == 0).then_some(&mut into[..])) {
        left -= 1;
        assert_eq!(client.under_way(), left, "each request is answered once");
        match answer {
            Answer::Done => assert!(cookie < 4),
            Answer::Status(extents) => assert!(cookie == 3 && !extents.is_empty()),
            Answer::Failed(error) => assert!(error != 0),
        }
    }
}

/// The bytes of an honest server up to the end of the handshake: none, or those that a client of each kind expects.
fn honest(kind: u8) -> Vec<u8> {
    if kind == 0 {
        return Vec::new();
    }
    let mut says = greeting().to_vec();
    let mut reply = |option, reply, data: &[u8]| option_reply(&mut says, option, reply, data);
    let structured = if kind == 1 { OptionReply::ErrUnsup } else { OptionReply::Ack };
    reply(option_code::STRUCTURED_REPLY, structured, b"");
    if kind > 1 {
        let context = meta_context(BASE_ALLOCATION_ID, BASE_ALLOCATION);
        if kind > 2 {
            reply(option_code::SET_META_CONTEXT, OptionReply::MetaContext, &context);
        }
        reply(option_code::SET_META_CONTEXT, OptionReply::Ack, b"");
    }
    reply(option_code::GO, OptionReply::Info, &info_export(1 << 20, 1));
    reply(option_code::GO, OptionReply::Info, &info_block_size(1, 4096, 1 << 20));
    reply(option_code::GO, OptionReply::Ack, b"");
    says
}
