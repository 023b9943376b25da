//! A volume of home as a reactor beside it has it: reads and changes in a channel, as far as it can be, and all else at home.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use brindle_io::{Io, Slice};
use brindle_volume::{Allocation, Distant, Forwarded, Limits, Volume, VolumeError, Wanted, ZeroOptions};

use super::state::Channel;
use super::table::ChannelTable;

/// The number of home in a crew.
const HOME: usize = 0;

/// A volume of another reactor, which is read and written here as far as it can be.
#[derive(Clone)]
pub struct Channeled {
    home: Forwarded,
    /// Home has to let each request through.
    paced: Arc<AtomicBool>,
    /// Home refuses changes.
    closed: Arc<AtomicBool>,
    channel: Option<Rc<Channel>>,
}

impl Channeled {
    /// The volume that the first executor of the crew hands to the one of this table.
    pub fn new(io: &Io, distant: Distant, table: &ChannelTable) -> Self {
        let Distant { number, limits, ticket, paced, closed } = distant;
        let channel = ticket.and_then(|ticket| table.open(&ticket));
        Self { home: Forwarded::new(io, HOME, number, limits), paced, closed, channel }
    }
}

impl Channeled {
    #[inline]
    fn channel(&self) -> Option<&Rc<Channel>> {
        self.channel.as_ref().filter(|_| !self.paced.load(Ordering::Relaxed))
    }

    /// The channel, unless home refuses changes.
    #[inline]
    fn changing(&self) -> Option<&Rc<Channel>> {
        self.channel().filter(|_| !self.closed.load(Ordering::Relaxed))
    }
}

impl Volume for Channeled {
    fn limits(&self) -> Limits {
        self.home.limits()
    }

    async fn read(&self, offset: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        let into = into.as_ref();
        if let Some(channel) = self.channel()
            && channel.read(offset, into).await?
        {
            return Ok(());
        }
        self.home.read(offset, into).await
    }

    async fn write(&self, offset: u64, from: impl AsRef<[Slice]>, fua: bool) -> Result<(), VolumeError> {
        let from = from.as_ref();
        if let Some(channel) = self.changing()
            && channel.write(offset, from, fua).await
        {
            return Ok(());
        }
        self.home.write(offset, from, fua).await
    }

    fn comes(&self, offset: u64, len: u64) -> Option<usize> {
        self.channel()?.comes(offset, len)
    }

    fn came(&self, stream: usize) {
        self.channel.iter().for_each(|channel| channel.came(stream));
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.home.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        if let Some(channel) = self.changing()
            && Box::pin(channel.discard(offset, len)).await
        {
            return Ok(());
        }
        self.home.discard(offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError> {
        if let Some(channel) = self.changing()
            && Box::pin(channel.write_zeroes(offset, len, options)).await
        {
            return Ok(());
        }
        self.home.write_zeroes(offset, len, options).await
    }

    async fn compare_and_write(
        &self,
        offset: u64,
        expected: &Slice,
        new: &Slice,
        scratch: &Slice,
        fua: bool,
        wanted: &Wanted,
    ) -> Result<Option<u64>, VolumeError> {
        self.home.compare_and_write(offset, expected, new, scratch, fua, wanted).await
    }

    async fn allocation(
        &self,
        offset: u64,
        len: u64,
        found: &mut Vec<Allocation>,
    ) -> Result<(), VolumeError> {
        self.home.allocation(offset, len, found).await
    }
}
