//! The login of iSCSI as a state machine: with CHAP or without (1 byte), then PDUs: flags (1 byte), bytes of text (1), text, of
//! which some keys stand for what a good initiator says.

use brindle_export::iscsi::login::{Chap, Credentials, Door, Login, LoginStep, Refusal};
use brindle_export::iscsi::pdu::{Header, request};

use crate::feed::Feed;

struct Server(Option<Chap>);

impl Door for Server {
    fn target(&self, name: &str, _: &str, proved: Option<&str>) -> Result<usize, Refusal> {
        assert!(self.0.is_none() || proved == Some("i"), "it is asked for one who has proved nothing");
        if name == "iqn.t" { Ok(0) } else { Err(Refusal::NotFound) }
    }
    fn chap(&self) -> Option<&Chap> {
        self.0.as_ref()
    }
    fn random(&self, bytes: &mut [u8]) {
        bytes.fill(0x5a);
    }
    fn group(&self) -> u16 {
        1
    }
}

/// Keys by number.
const KEYS: [&str; 12] = [
    "InitiatorName=iqn.i\0",
    "TargetName=iqn.t\0",
    "SessionType=Discovery\0",
    "AuthMethod=CHAP,None\0",
    "AuthMethod=None\0",
    "CHAP_A=7,5\0",
    "CHAP_N=i\0CHAP_R=0x00\0",
    "CHAP_I=1\0CHAP_C=0x5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a\0",
    "HeaderDigest=CRC32C,None\0DataDigest=None\0",
    "MaxRecvDataSegmentLength=512\0",
    "MaxBurstLength=1024\0FirstBurstLength=16777215\0",
    "ImmediateData=No\0InitialR2T=No\0",
];

/// Nobody comes in who has not proved himself, and what was agreed on is within its bounds.
pub fn run(data: &[u8]) {
    let mut feed = Feed(data);
    let secret = |name: &str, byte| Credentials { name: name.to_owned(), secret: vec![byte; 16] };
    let chap = Chap::new(vec![secret("i", 1)], Some(secret("t", 2))).expect("good secrets");
    let server = Server((feed.u8() & 1 == 0).then_some(chap));
    let mut login = Login::default();
    while !feed.is_empty() {
        let mut header = Header::new(request::LOGIN, 1).byte(1, feed.u8());
        let odd = feed.u8();
        header.0[14] = u8::from(odd == 0xff);
        header.0[3] = u8::from(odd == 0xfe);
        let mut text = Vec::new();
        for _ in 0..odd % 5 {
            match usize::from(feed.u8()) {
                known if known < KEYS.len() => text.extend(KEYS[known].as_bytes()),
                len => text.extend(feed.bytes(len)),
            }
        }
        match login.step(&header, &text, &server) {
            LoginStep::More(reply, text) => assert_eq!(reply.data(), text.len()),
            LoginStep::Refused(reply, refusal) => {
                assert_eq!(reply.0[36..38], refusal.code());
                assert_ne!(refusal, Refusal::Unavailable);
                return;
            }
            LoginStep::Done(_, _, logged_in) => {
                // The answer to the challenge is not among what a fuzzer finds.
                assert!(server.0.is_none(), "it has proved nothing");
                let agreed = logged_in.agreed;
                assert!((512..1 << 24).contains(&agreed.most_sent));
                assert!(agreed.first_burst <= agreed.burst && agreed.burst <= 1 << 20);
                return;
            }
        }
    }
}
