//! Texts that say who may do what: rules of access, kept reservations, certificates and lists of those that were taken back. Input: kind
//! (1 byte), the text.

use brindle_export::access::{Client, Rule, Who};
use brindle_export::scsi::reservation::Reservations;
use brindle_export::tls::{Pems, Tls};
use brindle_testkit::certificates::{AUTHORITY, SERVER};

/// Takes the bytes as one of them.
pub fn run(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    match kind % 4 {
        0 => rule(&text),
        1 => reservations(&text),
        2 => pems(Pems { chain: rest, key: SERVER.key.as_bytes(), clients: None, revoked: None }),
        _ => {
            let clients = Some(AUTHORITY.as_bytes());
            let (chain, key) = (SERVER.chain.as_bytes(), SERVER.key.as_bytes());
            pems(Pems { chain, key, clients, revoked: Some(rest) });
            pems(Pems { chain, key, clients: Some(rest), revoked: None });
        }
    }
}

/// A rule says the same when it is said again, and nobody whose address is unknown fits a network.
fn rule(text: &str) {
    match text.parse::<Rule>() {
        Ok(rule) => {
            assert_eq!(rule.who.to_string().parse::<Who>().as_ref(), Ok(&rule.who), "{text:?}");
            let unknown = Client::default();
            let fits = matches!(rule.who, Who::Anyone | Who::Local);
            assert_eq!(rule.who.is(&unknown), fits, "{text:?}");
        }
        Err(why) => assert!(why.to_string().len() < 6 * text.len() + 300),
    }
}

/// Reservations that are taken are kept as they were taken.
fn reservations(text: &str) {
    let Ok(taken) = Reservations::from_file_text(text) else { return };
    let kept = taken.to_file_text().expect("it was kept before");
    let again = Reservations::from_file_text(&kept).expect("what is kept is taken").to_file_text();
    assert_eq!(again.as_ref(), Some(&kept), "{text:?}");
}

/// Checks that a key is taken, or refused in words that hold nothing of it.
fn pems(pems: Pems<'_>) {
    if let Err(why) = Tls::new(pems) {
        let secret = SERVER.key.lines().nth(1).expect("a key has lines");
        assert!(!why.to_string().contains(secret));
    }
}
