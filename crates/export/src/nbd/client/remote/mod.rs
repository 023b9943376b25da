//! A client over a reactor's socket: what another server exports, as a volume of this executor.

mod replies;
mod volume;

use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use brindle_io::sync::Notify;
use brindle_io::{Buf, Io, OpError, PAGE, Pool, Slice, SocketId};
use brindle_volume::VolumeError;

use super::error::ClientError;
use super::handshake::{Agreed, Handshake, HandshakeStep};
use crate::nbd::proto::{Request, StatusExtent, command_code as code};
use crate::session::{INBOX, Inbox};
use replies::{broken, more, volume_error};

/// A connection to an export. A handle: cloning gives the same connection.
///
/// Requests are sent as they are asked for and answered in any order. Once the connection is broken, every request ends
/// with [`OpError::Disconnected`]; a caller that wants it back connects again.
#[derive(Clone)]
pub struct Remote(Rc<Shared>);

struct Shared {
    io: Io,
    socket: SocketId,
    agreed: Agreed,
    /// The header of the request that is being sent.
    header: Buf,
    sending: Cell<bool>,
    next_cookie: Cell<u64>,
    /// Indexed by cookie.
    open: RefCell<BTreeMap<u64, Open>>,
    closed: Cell<bool>,
    changed: Notify,
}

/// A request under way.
struct Open {
    command: u16,
    /// Where the data of a read go, one slice after the other.
    into: Rc<[Slice]>,
    ended: Option<Result<Vec<StatusExtent>, u32>>,
    /// The caller does not wait any more.
    abandoned: bool,
}

/// A caller that waits for its request.
struct Waiter<'a> {
    shared: &'a Shared,
    cookie: u64,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut open = self.shared.open.borrow_mut();
        match open.get_mut(&self.cookie) {
            // The reply is still to come, and its data must still go to the caller's memory.
            Some(request) if request.ended.is_none() && !self.shared.closed.get() => request.abandoned = true,
            _ => drop(open.remove(&self.cookie)),
        }
    }
}

/// The right to send. Where a send ends half-way nobody knows, so nothing can be sent after it.
struct Sending<'a> {
    shared: &'a Shared,
    whole: bool,
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.shared.sending.set(false);
        self.shared.changed.notify();
        if !self.whole {
            self.shared.close();
        }
    }
}

impl Remote {
    /// Chooses the export of that name, or the default one if it is empty, over a fresh connection, which is from now
    /// on this client's to close. Waits for 132 KiB of `pool`, and keeps them until the connection ends.
    ///
    /// # Errors
    /// As [`Handshake::next`]; [`ClientError::Io`] with `ConnectionReset` for what the socket says (an [`OpError`] within), or
    /// with `UnexpectedEof` where the stream ends. The socket is closed then.
    pub async fn connect(io: &Io, socket: SocketId, name: &str, pool: &Pool) -> Result<Self, ClientError> {
        let header = pool.alloc(PAGE).await;
        let mut inbox = Inbox::new(pool.alloc(INBOX).await);
        match haggle(io, socket, name, &mut inbox, &header).await {
            Ok(agreed) => Ok(Self::begin(io, socket, agreed, header, inbox)),
            Err(error) => {
                io.close(socket);
                Err(error)
            }
        }
    }

    /// A connection whose export was chosen before it came, as the kernel's are: its terms are known, and there is no handshake. Memory is
    /// as of [`Remote::connect`].
    pub async fn chosen(io: &Io, socket: SocketId, agreed: Agreed, pool: &Pool) -> Self {
        let header = pool.alloc(PAGE).await;
        let inbox = Inbox::new(pool.alloc(INBOX).await);
        Self::begin(io, socket, agreed, header, inbox)
    }

    fn begin(io: &Io, socket: SocketId, agreed: Agreed, header: Buf, mut inbox: Inbox) -> Self {
        let remote = Self(Rc::new(Shared {
            io: io.clone(),
            socket,
            agreed,
            header,
            sending: Cell::new(false),
            next_cookie: Cell::new(0),
            open: RefCell::default(),
            closed: Cell::new(false),
            changed: Notify::new(io),
        }));
        let shared = Rc::clone(&remote.0);
        io.spawn(async move {
            // Whatever the reason: nobody will hear any more.
            let _ = shared.listen(&mut inbox).await;
            shared.close();
        });
        remote
    }

    /// The agreed size, block and abilities.
    pub fn agreed(&self) -> &Agreed {
        &self.0.agreed
    }

    /// The connection can't be used any more.
    pub fn is_closed(&self) -> bool {
        self.0.closed.get()
    }

    /// Ends the connection; requests under way fail.
    pub fn close(&self) {
        self.0.close();
    }

    /// Takes leave, so that the server need not find out.
    pub async fn leave(&self) {
        let goodbye = Request { command: code::DISC, ..Request::default() };
        let _ = self.0.send(goodbye, &[]).await; // it may have gone before
        self.close();
    }

    /// Sends a request with the data of a write, and waits for its reply. What has begun to be sent is sent to its end,
    /// also if nobody waits: the server would take the next request for the rest of this one.
    async fn ask(&self, request: Request, from: &[Slice], into: &[Slice]) -> BlockStatus {
        let shared = &self.0;
        let cookie = shared.next_cookie.get();
        shared.next_cookie.set(cookie + 1);
        let open = Open { command: request.command, into: into.into(), ended: None, abandoned: false };
        shared.open.borrow_mut().insert(cookie, open);
        let _waiter = Waiter { shared, cookie };
        let (sender, from) = (Rc::clone(shared), Vec::from(from));
        // A caller that waits for the reply gets an error when the connection breaks.
        drop(shared.io.spawn(async move { sender.send(Request { cookie, ..request }, &from).await }));
        let ended = || match &shared.open.borrow().get(&cookie)?.ended {
            None => shared.closed.get().then_some(Err(CONNECTION_LOST)),
            Some(Ok(extents)) => Some(Ok(extents.clone())),
            Some(Err(number)) => Some(Err(volume_error(*number))),
        };
        shared.changed.until(ended).await
    }
}

type BlockStatus = Result<Vec<StatusExtent>, VolumeError>;

const CONNECTION_LOST: VolumeError = VolumeError::of_some_member(OpError::Disconnected);

async fn haggle(
    io: &Io,
    socket: SocketId,
    name: &str,
    inbox: &mut Inbox,
    out: &Buf,
) -> Result<Agreed, ClientError> {
    let mut handshake = Handshake::new(name, true);
    let mut step = handshake.begin();
    loop {
        match step {
            HandshakeStep::Done(agreed) => return Ok(agreed),
            HandshakeStep::Exchange { say, hear } => {
                for part in say.chunks(out.len()) {
                    out.bytes_mut()[..part.len()].copy_from_slice(part);
                    io.send(socket, &[out.slice(0..part.len())]).await.map_err(broken)?;
                }
                while inbox.len() < hear {
                    more(io, socket, inbox).await?;
                }
                step = handshake.next(&inbox.bytes()[..hear])?;
                inbox.consume(hear);
            }
        }
    }
}

impl Shared {
    fn close(&self) {
        if !self.closed.replace(true) {
            self.io.close(self.socket);
            self.changed.notify();
        }
    }

    /// Sends a request and its data; one at a time.
    async fn send(&self, request: Request, from: &[Slice]) -> Result<(), VolumeError> {
        let turn = || (self.closed.get() || !self.sending.replace(true)).then_some(());
        self.changed.until(turn).await;
        if self.closed.get() {
            return Err(CONNECTION_LOST);
        }
        let mut sending = Sending { shared: self, whole: false };
        self.header.bytes_mut()[..Request::BYTES].copy_from_slice(&request.encode());
        let mut parts = vec![self.header.slice(0..Request::BYTES)];
        parts.extend(from.iter().filter(|slice| !slice.is_empty()).cloned());
        let sent = self.io.send(self.socket, &parts).await;
        sending.whole = sent.is_ok();
        sent.map_err(|_| CONNECTION_LOST)
    }
}
