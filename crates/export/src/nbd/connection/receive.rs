//! The receiver: bytes to requests, data of writes to their buffers.

use core::convert::Infallible;
use std::rc::Rc;

use brindle_io::sync::{Either, race};
use brindle_io::{OpError, Slice};
use brindle_volume::Volume;

use super::Transmission;
use super::admitted::Admitted;
use super::send::{Answer, Body, PIECE};
use crate::nbd::proto::{Command, Errno, Request, command_code};
use crate::pieces::Charge;
use crate::session::{End, Inbox};

/// The least length at which the rest of a write's data is received straight into its buffer. Below, one receive into
/// the inbox brings the next requests too, and the copy costs less than a second receive.
const DIRECT: usize = 32 * 1024;

/// Bytes of the buffer for extents: 2047 of them.
const STATUS: usize = 16 * 1024;

impl<V: Volume + 'static> Transmission<V> {
    /// Takes requests until there is a reason not to.
    pub(super) async fn receive(self: &Rc<Self>, mut inbox: Inbox) -> End {
        match self.requests(&mut inbox).await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn requests(self: &Rc<Self>, inbox: &mut Inbox) -> Result<Infallible, End> {
        loop {
            while let Some(header) = inbox.peek::<{ Request::BYTES }>() {
                let request = Request::decode(&header).ok_or(End::Garbage)?;
                inbox.consume(Request::BYTES);
                self.take(&request, inbox).await?;
            }
            self.more(inbox).await?;
        }
    }

    /// Checks one request and dispatches it.
    async fn take(self: &Rc<Self>, request: &Request, inbox: &mut Inbox) -> Result<(), End> {
        let command = match self.terms.check(request) {
            Ok(command) => command,
            Err(error) => return self.refuse(request, error, inbox).await,
        };
        let holds = match command {
            Command::Disconnect => return Err(End::Orderly),
            Command::Read { len, .. } | Command::Write { len, .. } => len as usize,
            Command::BlockStatus { .. } => STATUS,
            _ => 0,
        };
        if self.export.gate.is_paced() {
            // Limits apply before the request has memory, so that no other request waits for that memory. Zeroes that have to be sent are
            // charged as they are.
            let moves = if matches!(command, Command::BlockStatus { .. }) { 0 } else { holds };
            let due = self.export.gate.pace(Charge::request(moves as u64));
            if let Either::Second(end) = race(due, self.link.interruption()).await {
                return Err(end);
            }
        }
        let ticket = self.memory.admit(&self.link, holds).await?;
        if let Command::Write { .. } = command {
            let filled = self.fill(ticket.memory(), inbox).await;
            self.link.giving.ends();
            filled?;
        }
        self.dispatch(Admitted { cookie: request.cookie, command, ticket });
        Ok(())
    }

    /// Answers with an error; the data of a write are skipped, so that the next request is found.
    async fn refuse(&self, request: &Request, error: Errno, inbox: &mut Inbox) -> Result<(), End> {
        let ticket = self.memory.admit(&self.link, 0).await?;
        if request.command == command_code::WRITE {
            let mut left = request.len as usize;
            while left > 0 {
                if inbox.len() == 0 {
                    self.more(inbox).await?;
                }
                let now = left.min(inbox.len());
                inbox.consume(now);
                left -= now;
            }
        }
        for tally in self.tallies() {
            tally.add(|t| (t.requests, t.errors) = (t.requests + 1, t.errors + 1));
        }
        self.replies.push(Answer { cookie: request.cookie, body: Body::Failed(error), ticket });
        Ok(())
    }

    /// Fills a write's buffer from bytes that have arrived, and then from the socket.
    async fn fill(&self, memory: &Slice, inbox: &mut Inbox) -> Result<(), End> {
        let got = inbox.move_to(memory);
        let mut rest = memory.slice(got..memory.len());
        let mut since_sign = 0;
        self.link.giving.begins();
        while !rest.is_empty() {
            let got = if rest.len() < DIRECT {
                self.more(inbox).await?;
                inbox.move_to(&rest)
            } else {
                self.straight(&rest).await?
            };
            since_sign += got;
            if since_sign >= PIECE {
                self.link.giving.moved();
                since_sign = 0;
            }
            rest = rest.slice(got..rest.len());
        }
        Ok(())
    }

    async fn more(&self, inbox: &mut Inbox) -> Result<(), End> {
        self.received(inbox.receive(&self.link)).await.map(|_| ())
    }

    async fn straight(&self, into: &Slice) -> Result<usize, End> {
        self.received(self.link.recv(into)).await
    }

    /// Receives, or learns that it is of no use any more. In the latter case the reactor may still write to the
    /// buffer until the socket is closed.
    async fn received(&self, receiving: impl Future<Output = Result<usize, OpError>>) -> Result<usize, End> {
        match race(receiving, self.link.interruption()).await {
            // A client that closes its side may still want the replies to its earlier requests, but for those that take long.
            Either::First(Ok(0)) => {
                self.link.hangs_up();
                Err(End::Orderly)
            }
            Either::First(Ok(count)) => Ok(count),
            Either::First(Err(_)) => Err(End::Broken),
            Either::Second(end) => Err(end),
        }
    }
}
