//! The receiver: bytes to requests.

use core::convert::Infallible;
use std::rc::Rc;

use brindle_volume::{Limits, Volume};

use super::Transmission;
use super::send::{Answer, Body};
use super::slot::Admitted;
use crate::nbd::proto::{Command, Errno, Request, Terms, command_code};
use crate::session::{Coming, End, Inbox, Moves, dispatch};

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
            self.link.more(inbox).await?;
        }
    }

    /// Checks one request and dispatches it.
    async fn take(self: &Rc<Self>, request: &Request, inbox: &mut Inbox) -> Result<(), End> {
        let command = match self.terms.check(request) {
            Ok(command) => command,
            // The export may have grown since they were agreed upon.
            Err(error) => match self.terms_now().check(request) {
                Ok(command) => command,
                Err(_) => return self.refuse(request, error, inbox).await,
            },
        };
        let holds = match command {
            Command::Disconnect => return Err(End::Orderly),
            Command::Read { len, .. } | Command::Write { len, .. } => len as usize,
            Command::BlockStatus { .. } => STATUS,
            _ => 0,
        };
        if self.export.gate.is_paced() {
            // Zeroes that have to be sent are charged as they are.
            let moves = if matches!(command, Command::BlockStatus { .. }) { 0 } else { holds };
            self.link.due(&self.export.gate, moves as u64).await?;
        }
        let ticket = self.memory.admit(&self.link.account, holds).await?;
        let coming = match command {
            Command::Write { offset, len, .. } => {
                // The volume need not know of data that are here already.
                let is_here = inbox.len() >= len as usize;
                let coming = (!is_here).then(|| Coming::new(&*self.export.volume, offset, len.into()));
                self.link.fill(ticket.memory(), inbox, true).await?;
                coming
            }
            _ => None,
        };
        dispatch(self, Admitted { cookie: request.cookie, command, ticket });
        drop(coming);
        Ok(())
    }

    /// The terms with the size that the export has now.
    #[cold]
    fn terms_now(&self) -> Terms {
        let size = self.export.volume.limits().size;
        Terms { limits: Limits { size, ..self.terms.limits }, ..self.terms }
    }

    /// Answers with an error; the data of a write are skipped, so that the next request is found.
    async fn refuse(&self, request: &Request, error: Errno, inbox: &mut Inbox) -> Result<(), End> {
        let ticket = self.memory.admit(&self.link.account, 0).await?;
        if request.command == command_code::WRITE {
            self.link.skip(request.len as usize, inbox).await?;
        }
        self.export.count(&self.link, Moves::default(), true);
        self.replies.push(Answer { cookie: request.cookie, body: Body::Failed(error), ticket });
        Ok(())
    }
}
