//! A member by itself as a volume: a raw device or file, and what an array is compared with.

use brindle_io::{Group, Io, MemberId, Pool, Slice};

use crate::{Limits, Volume, VolumeError, ZeroOptions, stretches};

/// Bytes of zeroes that are sent at a time to a member that makes none by itself.
const ZEROES: u64 = 64 << 10;

/// A member by itself. A handle.
#[derive(Clone)]
pub struct LoneMember {
    io: Io,
    member: MemberId,
    limits: Limits,
    /// The member makes zeroes by itself.
    makes_zeroes: bool,
    /// Memory for zeroes that the member does not make by itself.
    pool: Pool,
}

impl LoneMember {
    /// The member, if the reactor has it.
    pub fn new(io: &Io, member: MemberId, read_only: bool) -> Option<Self> {
        let info = io.member_info(member)?;
        let block = info.logical_block;
        let limits = Limits {
            size: info.size / u64::from(block) * u64::from(block),
            block,
            preferred: info.physical_block,
            optimal: 0,
            read_only,
            discard: info.discard,
        };
        let pool = io.pool(ZEROES as usize);
        Some(Self { io: io.clone(), member, limits, makes_zeroes: info.write_zeroes, pool })
    }

    async fn send(&self, add: impl FnOnce(&mut Group)) -> Result<(), VolumeError> {
        let mut group = self.io.group();
        add(&mut group);
        group.submit().await.ok().map_err(VolumeError::of_some_member)
    }

    async fn send_zeroes(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        let zeroes = self.pool.alloc(ZEROES as usize).await;
        zeroes.bytes_mut().fill(0);
        for at in (0..len).step_by(ZEROES as usize) {
            let part = zeroes.slice(0..ZEROES.min(len - at) as usize);
            self.send(|group| {
                group.write(self.member, offset + at, &part, false);
            })
            .await?;
        }
        Ok(())
    }

    fn check_change(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.limits.check_change()?;
        self.limits.check(offset, len)
    }
}

impl Volume for LoneMember {
    fn limits(&self) -> Limits {
        self.limits
    }

    async fn read(&self, offset: u64, into: impl AsRef<[Slice]>) -> Result<(), VolumeError> {
        let into = into.as_ref();
        if self.limits.check_list(offset, into)? == 0 {
            return Ok(());
        }
        let add = |group: &mut Group| {
            stretches(offset, into).for_each(|(at, slice)| {
                group.read(self.member, at, slice);
            });
        };
        self.send(add).await
    }

    async fn write(&self, offset: u64, from: impl AsRef<[Slice]>, fua: bool) -> Result<(), VolumeError> {
        let from = from.as_ref();
        self.limits.check_change()?;
        if self.limits.check_list(offset, from)? == 0 {
            return Ok(());
        }
        let add = |group: &mut Group| {
            stretches(offset, from).for_each(|(at, slice)| {
                group.write(self.member, at, slice, fua);
            });
        };
        self.send(add).await
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.send(|group| {
            group.flush(self.member);
        })
        .await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), VolumeError> {
        self.check_change(offset, len)?;
        if len == 0 || !self.limits.discard {
            return Ok(());
        }
        self.send(|group| {
            group.discard(self.member, offset, len);
        })
        .await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, options: ZeroOptions) -> Result<(), VolumeError> {
        self.check_change(offset, len)?;
        if len == 0 {
            return Ok(());
        }
        if self.makes_zeroes {
            self.send(|group| {
                group.write_zeroes(self.member, offset, len, !options.keep_allocated);
            })
            .await?;
        } else if options.fast_only {
            return Err(VolumeError::Unsupported);
        } else {
            self.send_zeroes(offset, len).await?;
        }
        if options.fua { self.flush().await } else { Ok(()) }
    }
}
