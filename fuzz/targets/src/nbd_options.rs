//! The handshake of NBD as a state machine. Input: bytes to a piece (1 byte), then either (0) what the client says, byte for
//! byte, or (1) client flags (1 byte) and options: code (1 byte), kind of data (1), data.

use brindle_export::nbd::proto::{
    MAX_OPTION, OptionHeader, OptionReplyHeader, handshake_flags, option_code as code,
};

use crate::feed::Feed;
use crate::nbd::{World, take};

/// A client that haggles; the transmission phase, if it comes to that, is left at once.
pub fn run(data: &[u8]) {
    let mut feed = Feed(data);
    let piece = 1 + 16 * usize::from(feed.u8());
    let said = match feed.u8() {
        0 => feed.0.to_vec(),
        _ => options(&mut feed),
    };
    let world = World::new(4);
    let (socket, heard) = world.connect();
    world.io.block_on(async {
        world.send(socket, &said, piece).await;
        world.listen(&heard).await;
    });
    let (closed, answers) = (heard.closed.get(), heard.bytes.borrow().clone());
    world.end(socket);
    check(&said, &answers, closed);
}

fn options(feed: &mut Feed<'_>) -> Vec<u8> {
    let mut said = u32::from(feed.u8() & 7).to_be_bytes().to_vec();
    while !feed.is_empty() {
        let option = match feed.u8() {
            raw @ 0x80.. => u32::from(raw) << 24 | u32::from(feed.u16()),
            known => u32::from(known % 12),
        };
        let mut data = Vec::new();
        match feed.u8() % 8 {
            0 => {}
            1 => data.extend(b"disk"),
            kind @ 2..=5 => {
                let name: &[u8] = [b"disk".as_slice(), b""][usize::from(kind & 1)];
                string(&mut data, name);
                if kind < 4 {
                    let count = u16::from(feed.u8() % 8);
                    data.extend(count.to_be_bytes());
                    (0..count).for_each(|_| data.extend(u16::from(feed.u8() % 5).to_be_bytes()));
                } else {
                    queries(feed, &mut data);
                }
            }
            6 => data.resize(usize::from(feed.u16()), 0),
            _ => {
                let len = usize::from(feed.u8());
                data.extend(feed.bytes(len));
            }
        }
        // Now and then a length that lies.
        let len = match feed.u8() {
            0xff => feed.u32(),
            _ => data.len() as u32,
        };
        said.extend(OptionHeader { option, len }.encode());
        said.extend(data);
    }
    said
}

fn queries(feed: &mut Feed<'_>, data: &mut Vec<u8>) {
    let count = u32::from(feed.u8() % 4);
    data.extend(count.to_be_bytes());
    for _ in 0..count {
        match feed.u8() % 3 {
            0 => string(data, b"base:allocation"),
            1 => string(data, b"base:"),
            _ => {
                let len = usize::from(feed.u8());
                string(data, feed.bytes(len));
            }
        }
    }
}

fn string(data: &mut Vec<u8>, text: &[u8]) {
    data.extend((text.len() as u32).to_be_bytes());
    data.extend(text);
}

/// Every option that was sent whole has its replies, in order, and nothing else was said.
fn check(said: &[u8], answers: &[u8], closed: bool) {
    let (mut said, mut answers) = (said, answers);
    let greeting = take(&mut answers, 18).expect("a greeting");
    assert_eq!(greeting, b"NBDMAGICIHAVEOPT\0\x03");
    let Some(flags) = take(&mut said, 4) else { return nothing_more(answers) };
    let flags = u32::from_be_bytes(flags.try_into().expect("four bytes"));
    let known = handshake_flags::FIXED_NEWSTYLE | handshake_flags::NO_ZEROES;
    if flags & !u32::from(known) != 0 {
        return hung_up(answers, closed);
    }
    let no_zeroes = flags & u32::from(handshake_flags::NO_ZEROES) != 0;
    loop {
        let Some(header) = take(&mut said, OptionHeader::BYTES) else { return nothing_more(answers) };
        let Some(header) = OptionHeader::decode(header.try_into().expect("its length")) else {
            return hung_up(answers, closed);
        };
        if header.len > 1 << 20 {
            return hung_up(answers, closed);
        }
        let Some(data) = take(&mut said, header.len as usize) else { return nothing_more(answers) };
        if header.option == code::EXPORT_NAME {
            if data != b"disk" && !data.is_empty() {
                return hung_up(answers, closed);
            }
            let tail = if no_zeroes { 10 } else { 134 };
            take(&mut answers, tail).expect("size and flags");
            return; // what follows are requests
        }
        let last = replies(header, data.len(), &mut answers);
        if header.option == code::ABORT {
            return hung_up(answers, closed);
        }
        if header.option == code::GO && last == 1 {
            return;
        }
    }
}

/// Takes the replies to one option; returns the type of the last.
fn replies(asked: OptionHeader, len: usize, answers: &mut &[u8]) -> u32 {
    let mut said = 0;
    loop {
        let header = take(answers, OptionReplyHeader::BYTES).expect("a reply to each option");
        let header = OptionReplyHeader::decode(header.try_into().expect("its length")).expect("its magic");
        assert_eq!(header.option, asked.option);
        take(answers, header.len as usize).expect("the reply's data");
        said += OptionReplyHeader::BYTES + header.len as usize;
        assert!(said < 1024, "{said} bytes in answer to {len}");
        match header.reply {
            2..=4 => assert!(len <= MAX_OPTION, "what is too long is not looked at"),
            last => {
                assert!(last == 1 || last >> 31 == 1);
                return last;
            }
        }
    }
}

fn nothing_more(answers: &[u8]) {
    assert!(answers.is_empty(), "{} bytes to nothing", answers.len());
}

fn hung_up(answers: &[u8], closed: bool) {
    nothing_more(answers);
    assert!(closed, "the server is to hang up");
}
