//! Sockets of an executor: operations that wait for their other ends.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use super::Io;
use crate::buf::Slice;
use crate::group::Pending;
use crate::op::{OpError, OpKind, SocketId};
use crate::reactor::HandedSocket;

impl Io {
    /// Waits for a connection on a listening socket.
    ///
    /// # Errors
    /// [`OpError::Cancelled`] once the listener is closed; [`OpError::Medium`] for lack of memory or descriptors,
    /// [`OpError::Disconnected`] for other errors: the next connection may be taken all the same.
    pub async fn accept(&self, listener: SocketId) -> Result<SocketId, OpError> {
        let value = self.socket_op(OpKind::Accept { socket: listener }, &[]).await?;
        Ok(SocketId(value as u32))
    }

    /// Receives what has come, at most the slice's length; 0 at the end of the stream.
    ///
    /// # Errors
    /// [`OpError::Disconnected`] if the other end reset the connection, [`OpError::Cancelled`] if this end closed it,
    /// [`OpError::Medium`] for lack of memory.
    pub async fn recv(&self, socket: SocketId, into: &Slice) -> Result<usize, OpError> {
        let value = self.socket_op(OpKind::Recv { socket }, core::slice::from_ref(into)).await?;
        Ok(value as usize)
    }

    /// Sends all bytes of all slices (at most [`crate::MAX_SEGMENTS`]), in order. Two sends on one socket must not overlap.
    ///
    /// # Errors
    /// [`OpError::Disconnected`] if the other end is gone, [`OpError::Cancelled`] if this end closed it, [`OpError::Medium`] for lack of memory.
    pub async fn send(&self, socket: SocketId, from: &[Slice]) -> Result<(), OpError> {
        self.socket_op(OpKind::Send { socket }, from).await.map(|_| ())
    }

    /// Sends each of these messages, of one stretch of memory or several, to a port: side by side. One that nobody wants any more, whose
    /// request was called off, is dropped by the other end with an error, which is none here.
    pub async fn send_messages<'a>(&self, port: SocketId, messages: impl Iterator<Item = &'a [Slice]>) {
        let mut group = self.group();
        for message in messages {
            group.socket(OpKind::Send { socket: port }, message);
        }
        if !group.is_empty() {
            let _refused = group.submit().await;
        }
    }

    fn socket_op(&self, kind: OpKind, memory: &[Slice]) -> SocketPending {
        let mut group = self.group();
        group.socket(kind, memory);
        SocketPending(group.submit())
    }

    /// Closes a socket: operations that wait on it complete, with an error or as the end of the stream.
    pub fn close(&self, socket: SocketId) {
        self.0.core.reactor.borrow_mut().close_socket(socket);
    }

    /// Lets go of a connection, for another executor of this process to [take over](Io::adopt). `None`, and it stays, if something is
    /// under way on it, or this world can't hand connections over.
    pub fn release(&self, socket: SocketId) -> Option<HandedSocket> {
        self.0.core.reactor.borrow_mut().release_socket(socket)
    }

    /// Takes a connection over. `None` of one of another world.
    pub fn adopt(&self, handed: HandedSocket) -> Option<SocketId> {
        self.0.core.reactor.borrow_mut().adopt_socket(handed)
    }

    /// Bytes sent on a connection that its other end has not taken, to compare with an earlier value; `None` if unknown. A
    /// send under way may count with the part that the kernel has. For a Unix socket it is the kernel's memory for it, in
    /// steps of at most 36 KiB. For TCP it is unacknowledged data: data waiting there for its program counts as taken.
    pub fn untaken(&self, socket: SocketId) -> Option<u64> {
        self.0.core.reactor.borrow().untaken(socket)
    }

    /// The address of the other end of a connection over a network; `None` of a Unix socket, and where nothing tells.
    pub fn peer(&self, socket: SocketId) -> Option<core::net::IpAddr> {
        self.0.core.reactor.borrow().peer(socket)
    }

    /// The address of this end of a connection over a network, or of a listener; `None` as of a peer.
    pub fn local(&self, socket: SocketId) -> Option<core::net::SocketAddr> {
        self.0.core.reactor.borrow().local(socket)
    }
}

struct SocketPending(Pending);

impl Future for SocketPending {
    type Output = Result<u64, OpError>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|outcome| outcome.value())
    }
}
