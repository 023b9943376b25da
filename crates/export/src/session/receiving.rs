//! Requests and data are received: from what has come already, and then from the socket.

use brindle_io::sync::{Either, race};
use brindle_io::{OpError, Slice};
use brindle_volume::Volume;

use super::account::End;
use super::inbox::Inbox;
use super::link::Link;
use super::replies::PIECE;

/// The least length at which the rest of announced data is received straight into its memory. Below, one receive into
/// the inbox brings the next requests too, and the copy costs less than a second receive.
const DIRECT: usize = 32 * 1024;

/// A write that is being received, until this is dropped.
pub(crate) struct Coming<'a, V: Volume> {
    volume: &'a V,
    stream: Option<usize>,
}

impl<'a, V: Volume> Coming<'a, V> {
    pub(crate) fn new(volume: &'a V, offset: u64, len: u64) -> Self {
        Self { volume, stream: volume.comes(offset, len) }
    }
}

impl<V: Volume> Drop for Coming<'_, V> {
    fn drop(&mut self) {
        self.stream.into_iter().for_each(|stream| self.volume.came(stream));
    }
}

impl Link {
    /// Receives more requests.
    pub(crate) async fn more(&self, inbox: &mut Inbox) -> Result<(), End> {
        self.received(inbox.receive(self)).await.map(|_| ())
    }

    /// Drops bytes that come.
    pub(crate) async fn skip(&self, mut len: usize, inbox: &mut Inbox) -> Result<(), End> {
        while len > 0 {
            if inbox.len() == 0 {
                self.more(inbox).await?;
            }
            let now = len.min(inbox.len());
            inbox.consume(now);
            len -= now;
        }
        Ok(())
    }

    /// Fills memory with announced data: from bytes that have arrived, and then from the socket. `alone`: the client is waited for, for
    /// nothing else.
    pub(crate) async fn fill(&self, into: &Slice, inbox: &mut Inbox, alone: bool) -> Result<(), End> {
        let got = inbox.move_to(into);
        if got == into.len() {
            return Ok(());
        }
        if alone {
            self.giving.begins();
        }
        let filled = self.fill_rest(into.slice(got..into.len()), inbox).await;
        if alone {
            self.giving.ends();
        }
        filled
    }

    async fn fill_rest(&self, mut rest: Slice, inbox: &mut Inbox) -> Result<(), End> {
        let mut since_sign = 0;
        while !rest.is_empty() {
            let got = if rest.len() < DIRECT {
                self.more(inbox).await?;
                inbox.move_to(&rest)
            } else {
                self.received(self.recv(&rest)).await?
            };
            since_sign += got;
            if since_sign >= PIECE {
                self.giving.moved();
                since_sign = 0;
            }
            rest = rest.slice(got..rest.len());
        }
        Ok(())
    }

    /// Receives, or learns that it is of no use any more. In the latter case the reactor may still write to the
    /// buffer until the socket is closed.
    async fn received(&self, receiving: impl Future<Output = Result<usize, OpError>>) -> Result<usize, End> {
        match race(receiving, self.interruption()).await {
            // A client that closes its side may still want the replies to its earlier requests, but for those that take long.
            Either::First(Ok(0)) => {
                self.hangs_up();
                Err(End::Orderly)
            }
            Either::First(Ok(count)) => Ok(count),
            Either::First(Err(_)) => Err(End::Broken),
            Either::Second(end) => Err(end),
        }
    }
}
