//! Volumes of several kinds behind one type: an export serves any of them.

use brindle_array::{Array, Channeled};
use brindle_io::Slice;
use brindle_pool::PoolVolume;
use brindle_volume::{Allocation, Limits, Ticket, Volume, VolumeError, Wanted, ZeroOptions};

/// A volume that a host can serve. Matched where a request comes in: no `dyn`, and no future of its own on the heap.
#[derive(Clone)]
pub enum Any {
    /// An array of md's.
    Array(Array),
    /// A volume of a pool.
    Pool(PoolVolume),
    /// A volume of another reactor.
    Away(Channeled),
}

impl Volume for Any {
    fn limits(&self) -> Limits {
        match self {
            Self::Array(array) => array.limits(),
            Self::Pool(volume) => volume.limits(),
            Self::Away(volume) => volume.limits(),
        }
    }

    async fn read(&self, offset: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        match self {
            Self::Array(array) => array.read(offset, into).await,
            Self::Pool(volume) => volume.read(offset, into).await,
            Self::Away(volume) => volume.read(offset, into).await,
        }
    }

    async fn write(&self, offset: u64, from: impl AsRef<[Slice]>, fua: bool) -> Result<(), VolumeError> {
        match self {
            Self::Array(array) => array.write(offset, from, fua).await,
            Self::Pool(volume) => volume.write(offset, from, fua).await,
            Self::Away(volume) => volume.write(offset, from, fua).await,
        }
    }

    fn comes(&self, offset: u64, len: u64) -> Option<usize> {
        match self {
            Self::Array(array) => array.comes(offset, len),
            Self::Pool(volume) => volume.comes(offset, len),
            Self::Away(volume) => volume.comes(offset, len),
        }
    }

    fn came(&self, stream: usize) {
        match self {
            Self::Array(array) => array.came(stream),
            Self::Pool(volume) => volume.came(stream),
            Self::Away(volume) => volume.came(stream),
        }
    }

    fn ticket(&self, to: usize) -> Option<Ticket> {
        match self {
            Self::Array(array) => array.ticket(to),
            Self::Pool(volume) => volume.ticket(to),
            Self::Away(volume) => volume.ticket(to),
        }
    }

    async fn others_ended(&self) {
        match self {
            Self::Array(array) => array.others_ended().await,
            Self::Pool(volume) => volume.others_ended().await,
            Self::Away(volume) => volume.others_ended().await,
        }
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        match self {
            Self::Array(array) => array.flush().await,
            Self::Pool(volume) => volume.flush().await,
            Self::Away(volume) => volume.flush().await,
        }
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        match self {
            Self::Array(array) => array.discard(offset, len).await,
            Self::Pool(volume) => volume.discard(offset, len).await,
            Self::Away(volume) => volume.discard(offset, len).await,
        }
    }

    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError> {
        match self {
            Self::Array(array) => array.write_zeroes(offset, len, options).await,
            Self::Pool(volume) => volume.write_zeroes(offset, len, options).await,
            Self::Away(volume) => volume.write_zeroes(offset, len, options).await,
        }
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
        match self {
            Self::Array(array) => array.compare_and_write(offset, expected, new, scratch, fua, wanted).await,
            Self::Pool(volume) => volume.compare_and_write(offset, expected, new, scratch, fua, wanted).await,
            Self::Away(volume) => volume.compare_and_write(offset, expected, new, scratch, fua, wanted).await,
        }
    }

    async fn allocation(
        &self,
        offset: u64,
        len: u64,
        found: &mut Vec<Allocation>,
    ) -> Result<(), VolumeError> {
        match self {
            Self::Array(array) => array.allocation(offset, len, found).await,
            Self::Pool(volume) => volume.allocation(offset, len, found).await,
            Self::Away(volume) => volume.allocation(offset, len, found).await,
        }
    }
}
