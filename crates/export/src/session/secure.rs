//! TLS on a connection: bytes of the socket to bytes of the protocol, and back. rustls has no socket; here it is given one.

use core::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::sync::Arc;

use brindle_io::{Buf, Io, OpError, Pool, Slice, SocketId};
use rustls::ServerConnection;

use crate::access::Proof;
use crate::tls::{Tls, names};

/// Bytes of the buffer for what has come and is not read yet.
const INCOMING: usize = 64 * 1024;
/// Bytes of the buffer for what is sent.
const OUTGOING: usize = 64 * 1024;
/// The most plaintext that is enciphered before it is sent: with what TLS adds it fits in the buffer.
const STEP: usize = 48 * 1024;

/// Bytes of the buffers of a connection.
pub(crate) const BUFFERS: usize = INCOMING + OUTGOING;

/// Whether clients have to speak TLS, and the means.
#[derive(Clone, Debug)]
pub struct Security {
    /// The server's side.
    pub tls: Arc<Tls>,
    /// Clients without TLS are refused.
    pub demanded: bool,
}

/// Why a connection has not become secure.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecureError {
    #[error("{0}")]
    Tls(#[from] rustls::Error),
    #[error("{0}")]
    Socket(#[from] OpError),
    #[error("it has closed the connection in the handshake of TLS")]
    Ended,
    #[error("TLS can't begin")]
    Unprepared,
}

/// A connection that speaks TLS.
pub(crate) struct Secure {
    connection: RefCell<ServerConnection>,
    incoming: Buf,
    /// The part of the buffer that has not been deciphered.
    pending: Cell<(usize, usize)>,
    outgoing: Buf,
}

impl Secure {
    /// Agrees with the client on keys; tells what that has proved.
    pub(super) async fn begin(
        io: &Io,
        socket: SocketId,
        tls: &Tls,
        buffers: &Pool,
    ) -> Result<(Self, Option<Proof>), SecureError> {
        let mut connection = tls.begin().ok_or(SecureError::Unprepared)?;
        connection.set_buffer_limit(Some(OUTGOING));
        let this = Self {
            connection: RefCell::new(connection),
            incoming: buffers.alloc(INCOMING).await,
            pending: Cell::default(),
            outgoing: buffers.alloc(OUTGOING).await,
        };
        loop {
            this.flush(io, socket).await?;
            if !this.connection.borrow().is_handshaking() {
                break;
            }
            if let Err(error) = this.digest() {
                // The client gets the reason, if it can be sent.
                let _ = this.flush(io, socket).await;
                return Err(error.into());
            }
            if this.is_digested() && this.connection.borrow().is_handshaking() {
                this.flush(io, socket).await?;
                if this.receive(io, socket).await? == 0 {
                    return Err(SecureError::Ended);
                }
            }
        }
        let proof =
            this.connection.borrow().peer_certificates().and_then(|chain| Some(names(chain.first()?)));
        Ok((this, proof.map(Proof::Certificate)))
    }

    fn is_digested(&self) -> bool {
        let (from, to) = self.pending.get();
        from == to
    }

    async fn receive(&self, io: &Io, socket: SocketId) -> Result<usize, OpError> {
        let count = io.recv(socket, &self.incoming.slice(0..INCOMING)).await?.min(INCOMING);
        self.pending.set((0, count));
        Ok(count)
    }

    /// Deciphers some of the bytes that have come.
    fn digest(&self) -> Result<(), rustls::Error> {
        let (from, to) = self.pending.get();
        if from == to {
            return Ok(());
        }
        let mut connection = self.connection.borrow_mut();
        let bytes = self.incoming.bytes();
        let mut rest = &bytes[from..to];
        let full = |_: io::Error| {
            rustls::Error::General("a TLS record is longer than the protocol allows".to_owned())
        };
        if connection.read_tls(&mut rest).map_err(full)? == 0 {
            return Err(rustls::Error::General("it goes on after it has said that it would not".to_owned()));
        }
        self.pending.set((to - rest.len(), to));
        connection.process_new_packets().map(|_| ())
    }

    /// Receives, as [`Io::recv`] does without TLS.
    pub(super) async fn recv(&self, io: &Io, socket: SocketId, into: &Slice) -> Result<usize, OpError> {
        let mut got = 0;
        loop {
            let read = {
                let mut connection = self.connection.borrow_mut();
                connection.reader().read(&mut into.bytes_mut()[got..])
            };
            match read {
                // The end, or `into` is full.
                Ok(0) => return Ok(got),
                Ok(count) => {
                    got += count;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) if got > 0 => return Ok(got),
                Err(_) => return Ok(0),
            }
            if !self.is_digested() {
                // Bytes that can't be read as TLS end it: nothing after it can be believed.
                self.digest().map_err(|_| OpError::Disconnected)?;
            } else if got > 0 {
                return Ok(got);
            } else if self.receive(io, socket).await? == 0 {
                return Ok(0);
            }
        }
    }

    /// Sends all bytes, as [`Io::send`] does without TLS.
    pub(super) async fn send(&self, io: &Io, socket: SocketId, from: &[Slice]) -> Result<(), OpError> {
        let mut room = STEP;
        for slice in from {
            let mut at = 0;
            while at < slice.len() {
                let len = room.min(slice.len() - at);
                let taken = {
                    let mut connection = self.connection.borrow_mut();
                    connection.writer().write(&slice.bytes()[at..at + len])
                };
                let taken = taken.map_err(|_| OpError::Disconnected)?;
                at += taken;
                room -= taken;
                if room == 0 || taken == 0 {
                    self.flush(io, socket).await?;
                    room = STEP;
                }
            }
        }
        self.flush(io, socket).await
    }

    /// Says that nothing more will be sent.
    pub(super) async fn take_leave(&self, io: &Io, socket: SocketId) {
        self.connection.borrow_mut().send_close_notify();
        // A client that is gone need not be told.
        let _ = self.flush(io, socket).await;
    }

    /// Sends the enciphered bytes.
    async fn flush(&self, io: &Io, socket: SocketId) -> Result<(), OpError> {
        loop {
            let len = {
                let mut connection = self.connection.borrow_mut();
                if !connection.wants_write() {
                    return Ok(());
                }
                let mut bytes = self.outgoing.bytes_mut();
                let mut room = &mut bytes[..];
                connection.write_tls(&mut room).map_err(|_| OpError::Disconnected)?
            };
            if len == 0 {
                return Ok(());
            }
            io.send(socket, &[self.outgoing.slice(0..len)]).await?;
        }
    }
}
