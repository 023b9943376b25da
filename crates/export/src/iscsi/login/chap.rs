//! CHAP (RFC 7143, 12.1.3; RFC 1994): each side shows that it knows a secret without saying it.

use core::fmt;

use md5::Md5;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::is_name;

/// The shortest secret that is taken. Bytes.
pub const SHORTEST: usize = 12;
/// The longest name. Bytes.
const LONGEST_NAME: usize = 255;
/// The longest challenge that is answered. Bytes.
const LONGEST_CHALLENGE: usize = 1024;

/// A name, and the secret by which it is proved. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name.
    pub name: String,
    /// The secret.
    pub secret: Vec<u8>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why secrets are not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChapError {
    /// A secret that can be guessed.
    #[error("the secret of {0:?} is shorter than {SHORTEST} bytes: choose a longer one")]
    Short(String),
    /// Both sides would prove themselves by one secret: who hears one answer could give the other.
    #[error("the secret of {0:?} is the target's own, too: choose two that differ")]
    Same(String),
    /// Two secrets for one name.
    #[error("{0:?} has two secrets: leave out one")]
    Twice(String),
    /// A name that can't be written down in a line.
    #[error(
        "{0:?} can't be a name of CHAP: give one without spaces and control characters, of 255 bytes at most"
    )]
    Name(String),
    /// No initiator has a secret.
    #[error("there is no initiator with a secret: name one")]
    Nobody,
}

/// The secrets of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chap {
    initiators: Vec<Credentials>,
    own: Option<Credentials>,
}

/// The hash that answers a challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// Number 5.
    Md5,
    /// Number 7.
    Sha256,
}

impl Hash {
    /// The best of a list as initiators send it.
    pub fn choose(list: &str) -> Option<Self> {
        let has = |number: &str| list.split(',').any(|one| one.trim() == number);
        if has("7") { Some(Self::Sha256) } else { has("5").then_some(Self::Md5) }
    }

    /// Its number.
    pub const fn number(self) -> &'static str {
        match self {
            Self::Md5 => "5",
            Self::Sha256 => "7",
        }
    }

    /// Bytes of an answer, and of a challenge.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha256 => 32,
        }
    }

    /// The answer to a challenge.
    pub fn answer(self, id: u8, secret: &[u8], challenge: &[u8]) -> Vec<u8> {
        match self {
            Self::Md5 => hash::<Md5>(id, secret, challenge),
            Self::Sha256 => hash::<Sha256>(id, secret, challenge),
        }
    }
}

fn hash<D: Digest>(id: u8, secret: &[u8], challenge: &[u8]) -> Vec<u8> {
    D::new().chain_update([id]).chain_update(secret).chain_update(challenge).finalize().to_vec()
}

impl Chap {
    /// The secrets of initiators, and the target's own, by which it proves itself to those that ask.
    ///
    /// # Errors
    /// [`ChapError`].
    pub fn new(initiators: Vec<Credentials>, own: Option<Credentials>) -> Result<Self, ChapError> {
        if initiators.is_empty() {
            return Err(ChapError::Nobody);
        }
        for (at, one) in initiators.iter().enumerate() {
            let is_plain = !one.name.contains(|c: char| c.is_whitespace() || c.is_control());
            if !is_plain || one.name.is_empty() || one.name.len() > LONGEST_NAME {
                return Err(ChapError::Name(one.name.clone()));
            }
            if initiators[..at].iter().any(|other| other.name == one.name) {
                return Err(ChapError::Twice(one.name.clone()));
            }
            if own.as_ref().is_some_and(|own| own.secret == one.secret) {
                return Err(ChapError::Same(one.name.clone()));
            }
        }
        match initiators.iter().chain(&own).find(|one| one.secret.len() < SHORTEST) {
            Some(short) => Err(ChapError::Short(short.name.clone())),
            None => Ok(Self { initiators, own }),
        }
    }

    fn secret(&self, name: &str) -> Option<&[u8]> {
        self.initiators.iter().find(|one| one.name == name).map(|one| &*one.secret)
    }

    /// Whether a name has a secret.
    pub fn knows(&self, name: &str) -> bool {
        self.secret(name).is_some()
    }

    /// Whether a name is proved by the same secret there and here.
    pub(in crate::iscsi) fn agrees(&self, other: &Self, name: &str) -> bool {
        self.secret(name) == other.secret(name)
    }

    /// Whether an initiator may have its name by what it has proved. Names of secrets that are names of initiators are those of these alone.
    pub(in crate::iscsi) fn lets_be_called(&self, initiator: &str, proved: &str) -> bool {
        let is_it = |name: &str| name.eq_ignore_ascii_case(initiator);
        is_it(proved) || !is_name(proved) && !self.initiators.iter().any(|one| is_it(&one.name))
    }

    /// Whether an answer proves a name. It takes as long whether there is that name or not.
    pub(super) fn proves(&self, name: &str, answer: &[u8], hash: Hash, id: u8, challenge: &[u8]) -> bool {
        let found = self.initiators.iter().find(|one| one.name == name);
        let secret = found.map_or(&[0; SHORTEST][..], |one| &one.secret);
        let right = hash.answer(id, secret, challenge);
        bool::from(right.ct_eq(answer)) && found.is_some()
    }

    /// The target's name, and its answer to an initiator's challenge; `None` where it has no secret, or must not say
    /// that: the challenge is its own one (`ours`), which comes back so that it answers for the initiator.
    pub(super) fn prove(&self, hash: Hash, id: u8, challenge: &[u8], ours: &[u8]) -> Option<(&str, Vec<u8>)> {
        let own = self.own.as_ref()?;
        if challenge.is_empty() || challenge.len() > LONGEST_CHALLENGE || challenge == ours {
            return None;
        }
        Some((&own.name, hash.answer(id, &own.secret, challenge)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(name: &str, secret: &str) -> Credentials {
        Credentials { name: name.to_owned(), secret: secret.as_bytes().to_vec() }
    }

    #[test]
    fn secrets_that_prove_nothing_are_refused() {
        let (long, other) = ("a secret of 20 bytes", "another secret ......");
        let new = |initiators: &[(&str, &str)], own: Option<&str>| {
            let initiators = initiators.iter().map(|(name, secret)| credentials(name, secret)).collect();
            Chap::new(initiators, own.map(|secret| credentials("target", secret)))
        };
        assert!(new(&[("a", long)], None).is_ok());
        assert!(new(&[("a", long)], Some(other)).is_ok());
        assert_eq!(new(&[], None), Err(ChapError::Nobody));
        assert_eq!(new(&[("a", "elevenbytes")], None), Err(ChapError::Short("a".into())));
        assert_eq!(new(&[("a", long)], Some("elevenbytes")), Err(ChapError::Short("target".into())));
        assert_eq!(new(&[("b", other), ("a", long)], Some(long)), Err(ChapError::Same("a".into())));
        assert_eq!(new(&[("a", long), ("a", other)], None), Err(ChapError::Twice("a".into())));
        let too_long = "a".repeat(256);
        for wrong in ["", "a b", "a\n", &too_long] {
            assert_eq!(new(&[(wrong, long)], None), Err(ChapError::Name(wrong.into())));
        }
        assert!(!format!("{:?}", new(&[("a", long)], None)).contains(long));
    }

    #[test]
    fn a_name_of_an_initiator_is_proved_by_its_own_secret_alone() {
        let known = ["iqn.x:one", "iqn.x:two", "three"].map(|name| credentials(name, "a secret of 20 bytes"));
        let chap = Chap::new(known.to_vec(), None).unwrap();
        for (initiator, proved, may) in [
            ("iqn.x:one", "iqn.x:one", true),
            ("iqn.x:ONE", "iqn.x:one", true),
            ("iqn.x:one", "iqn.x:two", false),
            ("iqn.x:other", "iqn.x:two", false),
            ("iqn.x:one", "three", false),
            ("iqn.x:other", "three", true),
        ] {
            assert_eq!(chap.lets_be_called(initiator, proved), may, "{initiator} {proved}");
        }
    }

    #[test]
    fn the_best_hash_is_chosen() {
        assert_eq!(Hash::choose("5,6,7"), Some(Hash::Sha256));
        assert_eq!(Hash::choose("6,5"), Some(Hash::Md5));
        assert_eq!(Hash::choose("6,8"), None);
        assert_eq!(Hash::Md5.answer(1, b"secret", b"challenge").len(), Hash::Md5.bytes());
        assert_eq!(Hash::Sha256.answer(1, b"secret", b"challenge").len(), Hash::Sha256.bytes());
    }

    #[test]
    fn a_challenge_that_comes_back_is_not_answered() {
        let chap = Chap::new(
            vec![credentials("a", "a secret of 20 bytes")],
            Some(credentials("t", "another secret ....")),
        );
        let chap = chap.unwrap();
        assert!(chap.prove(Hash::Sha256, 1, b"theirs", b"ours").is_some());
        assert!(chap.prove(Hash::Sha256, 1, b"ours", b"ours").is_none());
        assert!(chap.prove(Hash::Sha256, 1, b"", b"ours").is_none());
    }
}
