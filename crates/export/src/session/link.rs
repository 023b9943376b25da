//! A connection: an account with a socket, or TLS on it, between the two.

use core::cell::{Cell, OnceCell};
use core::ops::Deref;
use std::rc::Rc;

use brindle_io::sync::race;
use brindle_io::{Duration, HandedSocket, Io, OpError, Pool, Slice, SocketId};

use crate::access::Client;
use crate::tls::Tls;

use super::account::{Account, Wire};
use super::secure::{Secure, SecureError};

pub(crate) struct Link {
    pub(crate) account: Rc<Account>,
    /// The reactor may give a closed socket's number to another connection: once the account is closed, it is not used.
    pub(crate) socket: SocketId,
    /// TLS, once it is spoken.
    secure: OnceCell<Box<Secure>>,
    /// Another reactor has the socket.
    is_away: Rc<Cell<bool>>,
}

/// The socket of an account.
struct Socket {
    io: Io,
    socket: SocketId,
    is_away: Rc<Cell<bool>>,
}

impl Wire for Socket {
    fn close(&self) {
        if !self.is_away.get() {
            self.io.close(self.socket);
        }
    }

    fn untaken(&self) -> Option<u64> {
        if self.is_away.get() { None } else { self.io.untaken(self.socket) }
    }
}

/// A connection is an account that has a socket.
impl Deref for Link {
    type Target = Account;

    #[inline]
    fn deref(&self) -> &Account {
        &self.account
    }
}

impl Link {
    pub(super) fn new(io: &Io, socket: SocketId) -> Rc<Self> {
        let client = Client { address: io.peer(socket), proved: None };
        let is_away = Rc::new(Cell::new(false));
        let wire = Socket { io: io.clone(), socket, is_away: Rc::clone(&is_away) };
        let account = Account::new(io, client, wire);
        Rc::new(Self { account, socket, secure: OnceCell::new(), is_away })
    }

    /// Lets another reactor have the socket: nothing is received or sent here any more. `None` if it can't be handed over.
    pub(crate) fn hand_over(&self) -> Option<HandedSocket> {
        let handed = self.io.release(self.socket)?;
        self.is_away.set(true);
        Some(handed)
    }

    /// Speaks TLS from now on.
    pub(crate) async fn secure(&self, tls: &Tls, buffers: &Pool) -> Result<(), SecureError> {
        let (secure, proof) = Secure::begin(&self.io, self.socket, tls, buffers).await?;
        self.proved(proof);
        // TLS begins once: callers check that before.
        let _ = self.secure.set(Box::new(secure));
        self.is_enciphered();
        Ok(())
    }

    /// Receives what has come, at most the slice's length; 0 at the end of the stream.
    pub(crate) async fn recv(&self, into: &Slice) -> Result<usize, OpError> {
        match self.secure.get() {
            None => self.io.recv(self.socket, into).await,
            Some(secure) => secure.recv(&self.io, self.socket, into).await,
        }
    }

    /// Sends all bytes of all slices, in order. Two sends must not overlap.
    pub(crate) async fn send(&self, from: &[Slice]) -> Result<(), OpError> {
        match self.secure.get() {
            None => self.io.send(self.socket, from).await,
            Some(secure) => secure.send(&self.io, self.socket, from).await,
        }
    }

    /// Sends replies. A client that does not take them is waited for, and noticed by the patrol; a socket that fails is closed.
    pub(crate) async fn reply(&self, with: &[Slice]) {
        self.taking.begins();
        let sent = self.send(with).await;
        self.taking.ends();
        if sent.is_err() {
            self.close();
        }
    }

    /// Tells a client that speaks TLS that nothing more will come, so that it knows that nobody on the way has cut the rest off. Does
    /// nothing while replies are under way; gives up after `patience`.
    pub(crate) async fn take_leave(&self, patience: Duration) {
        let Some(secure) = self.secure.get().filter(|_| !self.is_closed() && self.outstanding.get() == 0)
        else {
            return;
        };
        race(secure.take_leave(&self.io, self.socket), self.io.sleep(patience)).await;
    }
}
