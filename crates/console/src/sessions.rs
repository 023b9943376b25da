//! Browsers that have signed in: a token is given once, and a cookie stands for it from then on.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use subtle::ConstantTimeEq;

/// The most at once: the oldest ends for a new one.
const MOST: usize = 64;

/// Shortest token that is taken.
const SHORTEST: usize = 32;

/// A browser that has signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// For the log.
    pub(crate) number: u64,
    /// The value of its cookie.
    pub(crate) secret: String,
    /// A secret that its pages send with each order.
    pub(crate) page_token: String,
}

/// All that have signed in.
pub(crate) struct Sessions {
    token: String,
    open: Mutex<(u64, VecDeque<Session>)>,
}

impl Sessions {
    /// # Errors
    /// The token is too short to keep anybody out.
    pub(crate) fn new(token: &str) -> Result<Self, String> {
        if token.len() < SHORTEST {
            return Err(format!(
                "the token has {} signs, and has to have {SHORTEST}: remove its file, and `brindle console --token` makes another",
                token.len()
            ));
        }
        Ok(Self { token: token.to_owned(), open: Mutex::default() })
    }

    fn open(&self) -> MutexGuard<'_, (u64, VecDeque<Session>)> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signs in who has the token.
    pub(crate) fn sign_in(&self, token: &str) -> Option<Session> {
        if !is_same(&self.token, token) {
            return None;
        }
        let (secret, page_token) = (random()?, random()?);
        let mut open = self.open();
        open.0 += 1;
        let session = Session { number: open.0, secret, page_token };
        open.1.push_back(session.clone());
        if open.1.len() > MOST {
            open.1.pop_front();
        }
        Some(session)
    }

    /// The session whose cookie has this.
    pub(crate) fn of(&self, secret: &str) -> Option<Session> {
        self.open().1.iter().find(|session| is_same(&session.secret, secret)).cloned()
    }

    /// Signs out.
    pub(crate) fn sign_out(&self, number: u64) {
        self.open().1.retain(|session| session.number != number);
    }
}

/// Whether two secrets are the same, in a time that does not tell where they differ.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

fn random() -> Option<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}"); // a string takes everything
        text
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_opens_and_the_oldest_of_many_ends() {
        assert!(Sessions::new("short").is_err());
        let token = "0123456789abcdef0123456789abcdef";
        let sessions = Sessions::new(token).unwrap();
        assert!(sessions.sign_in("").is_none() && sessions.sign_in(&token[1..]).is_none());
        let first = sessions.sign_in(token).unwrap();
        assert_eq!(sessions.of(&first.secret), Some(first.clone()));
        assert_ne!(first.secret, first.page_token);
        (0..MOST).for_each(|_| drop(sessions.sign_in(token)));
        assert_eq!(sessions.of(&first.secret), None);
        let last = sessions.sign_in(token).unwrap();
        sessions.sign_out(last.number);
        assert_eq!(sessions.of(&last.secret), None);
    }
}
