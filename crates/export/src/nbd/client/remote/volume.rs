//! The other side's export as a volume.

use brindle_io::Slice;
use brindle_volume::{Allocation, Limits, Volume, VolumeError, ZeroOptions};

use super::Remote;
use crate::nbd::proto::{Request, command_code as code, command_flags as flag, transmission_flags as can};

/// The longest range of a block status request. Bytes, a multiple of any block.
const LONGEST_STATUS: u32 = 1 << 31;

impl Remote {
    /// Asks for a change of a range without data.
    async fn change(&self, command: u16, flags: u16, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.limits().check_change()?;
        self.limits().check(offset, len)?;
        self.transfer(command, flags, offset, len, &[], &[]).await
    }

    /// Asks for something about a range that has been checked; of no bytes nothing is asked.
    async fn transfer(
        &self,
        command: u16,
        flags: u16,
        offset: u64,
        len: u64,
        from: &[Slice],
        into: &[Slice],
    ) -> Result<(), VolumeError> {
        if len == 0 {
            return Ok(());
        }
        let len = u32::try_from(len).map_err(|_| VolumeError::OutOfRange)?;
        self.ask(Request { command, flags, offset, len, cookie: 0 }, from, into).await.map(drop)
    }
}

impl Volume for Remote {
    fn limits(&self) -> Limits {
        let agreed = self.agreed();
        Limits {
            size: agreed.size,
            block: agreed.block,
            preferred: agreed.preferred,
            optimal: 0,
            read_only: agreed.can(can::READ_ONLY),
            discard: agreed.can(can::SEND_TRIM),
        }
    }

    async fn read(&self, offset: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        let into = into.as_ref();
        let len = self.limits().check_list(offset, into)?;
        let flags = if self.agreed().structured { flag::DF } else { 0 };
        self.transfer(code::READ, flags, offset, len, &[], into).await
    }

    async fn write(&self, offset: u64, from: impl AsRef<[Slice]>, fua: bool) -> Result<(), VolumeError> {
        let from = from.as_ref();
        self.limits().check_change()?;
        let len = self.limits().check_list(offset, from)?;
        let flags = if fua { flag::FUA } else { 0 };
        self.transfer(code::WRITE, flags, offset, len, from, &[]).await
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        let request = Request { command: code::FLUSH, ..Request::default() };
        self.ask(request, &[], &[]).await.map(drop)
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.change(code::TRIM, 0, offset, len).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError> {
        let set = [
            (options.fua, flag::FUA),
            (options.keep_allocated, flag::NO_HOLE),
            (options.fast_only, flag::FAST_ZERO),
        ];
        let flags = set.iter().filter(|(is_set, _)| *is_set).fold(0, |flags, (_, flag)| flags | flag);
        self.change(code::WRITE_ZEROES, flags, offset, len).await
    }

    async fn allocation(
        &self,
        offset: u64,
        len: u64,
        found: &mut Vec<Allocation>,
    ) -> Result<(), VolumeError> {
        self.limits().check(offset, len)?;
        let (mut at, end) = (offset, offset + len);
        while at < end {
            if !self.agreed().status {
                found.push(Allocation { len: end - at, hole: false, zero: false });
                return Ok(());
            }
            let len = u32::try_from(end - at).unwrap_or(LONGEST_STATUS);
            let request = Request { command: code::BLOCK_STATUS, offset: at, len, ..Request::default() };
            let extents = self.ask(request, &[], &[]).await?;
            if extents.iter().all(|extent| extent.len == 0) {
                return Err(VolumeError::Unsupported); // it tells nothing, and would the next time
            }
            for extent in extents {
                let len = u64::from(extent.len).min(end - at);
                found.push(Allocation { len, hole: extent.hole, zero: extent.zero });
                at += len;
            }
        }
        Ok(())
    }
}
