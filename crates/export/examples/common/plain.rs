//! A file or block device as a volume, as it is.

use brindle_io::{Group, Io, MemberId, MemberInfo, Slice};
use brindle_volume::{Limits, Volume, VolumeError, ZeroOptions, stretches};

/// One member, byte for byte.
pub(crate) struct Plain {
    pub(crate) io: Io,
    pub(crate) member: MemberId,
    pub(crate) info: MemberInfo,
}

impl Plain {
    async fn one(&self, add: impl FnOnce(&mut Group)) -> Result<(), VolumeError> {
        let mut group = self.io.group();
        add(&mut group);
        group.submit().await.ok().map_err(VolumeError::of_some_member)
    }
}

impl Volume for Plain {
    fn limits(&self) -> Limits {
        Limits {
            size: self.info.size,
            block: self.info.logical_block,
            preferred: self.info.physical_block,
            optimal: 0,
            read_only: false,
            discard: self.info.discard,
        }
    }

    async fn read(&self, offset: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        let into = stretches(offset, into.as_ref());
        self.one(|group| into.for_each(|(at, slice)| _ = group.read(self.member, at, slice))).await
    }

    async fn write(&self, offset: u64, from: impl AsRef<[Slice]>, fua: bool) -> Result<(), VolumeError> {
        let from = stretches(offset, from.as_ref());
        self.one(|group| from.for_each(|(at, slice)| _ = group.write(self.member, at, slice, fua))).await
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.one(|group| _ = group.flush(self.member)).await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.one(|group| _ = group.discard(self.member, offset, len)).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError> {
        if options.fast_only && !self.info.write_zeroes {
            return Err(VolumeError::Unsupported);
        }
        self.one(|group| _ = group.write_zeroes(self.member, offset, len, !options.keep_allocated)).await?;
        if options.fua { self.flush().await } else { Ok(()) }
    }
}
