//! Replays partial parity logs in memory: RAID 5 that lacks a member and was not stopped cleanly.
//!
//! Before md writes to a part of a row, the member that has the row's parity gets the parity of what stays (feature ppl). With
//! the data that were written, as far as they came, that is the parity which agrees with all of the row: what the missing member
//! holds can be worked out. md writes it when it starts such an array (`raid5-ppl.c`, `ppl_recover_entry`); here it takes the
//! place of what is read. Where the missing member's own data were being written, the log does not help, and md leaves parity
//! as it is.
//!
//! All is md's: which header counts, which parts of a row an entry stands for, and that nothing else is in doubt afterwards.
//! A log that is not as md writes it is an error, unless it was forced: then entries that can't be used are left out.

use std::ops::Range;

use brindle_array::ledger::{LoggedParity, Nothing};
use brindle_array::{Array, Opening};
use brindle_format::SECTOR;
use brindle_format::md::ppl::{self, PPL_HEADER_BYTES, PplEntry, PplHeader};
use brindle_format::md::{Ppl, Superblock};
use brindle_io::{Io, MemberId, OpClass, OpError, Pool};
use brindle_layout::{Family, ParityRows};
use brindle_volume::VolumeError;

use crate::assembly::{Assembly, DeviceUse, Limitation, PplFault};
use crate::refusal::OpenError;
use crate::reshape_sides::members;

const HEADER: u64 = PPL_HEADER_BYTES as u64;

/// Bytes that are read at a time.
const PIECE: u64 = 64 << 10;

/// Bytes of parity that are kept in memory at most: as much as the logs of many members hold.
const MOST: u64 = 256 << 20;

impl Assembly {
    /// Replays the array's partial parity logs in memory, if that tells what a missing member holds. `devices` are the
    /// reactor's numbers of the assembly's devices, in their order. Forced, what is wrong with the logs becomes a
    /// limitation; the second time there is nothing to do.
    ///
    /// # Errors
    /// [`OpenError::Ppl`] if a log can't be replayed.
    pub(crate) async fn replay_parity(&mut self, io: &Io, devices: &[MemberId]) -> Result<(), OpenError> {
        if !self.replays || self.logged.is_some() {
            return Ok(());
        }
        let mut logged = LoggedParity::default();
        let Family::Parity(map) = self.geometry.family() else { return Ok(()) };
        let map = map.clone();
        let (geometry, own) = (self.geometry.clone(), members(io, self, devices));
        let array =
            Array::to_read(io, Opening { geometry, border: None, members: own, ledger: Box::new(Nothing) });
        let mut faults = Vec::new();
        for (device, &id) in self.devices.iter().zip(devices) {
            let DeviceUse::Active { role } = device.usage else { continue };
            let log = Log { io, pool: io.pool(PIECE as usize), id, array: &array, map: &map, role };
            let found = match place(&device.superblock) {
                Ok((start, area)) => log.replay(start, area, &device.superblock, &mut logged).await,
                Err(fault) => vec![fault],
            };
            faults.extend(found.into_iter().map(|why| (device.label.clone(), why)));
        }
        if let Some((label, why)) = faults.first().filter(|_| !self.forced) {
            return Err(OpenError::Ppl { label: label.clone(), why: why.clone() });
        }
        let limits = faults.into_iter().map(|(label, why)| Limitation::PplDamaged { label, why });
        self.limits.extend(limits);
        self.logged = Some(logged);
        Ok(())
    }
}

/// Byte of a member at which its log begins, and its bytes.
fn place(sb: &Superblock) -> Result<(u64, u64), PplFault> {
    let Ppl { offset, size } = sb.ppl.ok_or(PplFault::Place)?;
    let start = sb.super_offset.checked_add_signed(offset).ok_or(PplFault::Place)?;
    if size < HEADER || start.checked_add(size).is_none() { Err(PplFault::Place) } else { Ok((start, size)) }
}

/// The log of the member of one role.
struct Log<'a> {
    io: &'a Io,
    pool: Pool,
    id: MemberId,
    array: &'a Array,
    map: &'a ParityRows,
    role: u16,
}

/// Parity that agrees with as many data blocks of a row as were written, and what stays.
struct Part {
    row: u64,
    /// Bytes within the chunks.
    cols: Range<u64>,
    /// The indices of the data that were written.
    written: Range<u16>,
    /// Bytes of the entry's parity that are for this, if it has any.
    logged: Option<Range<usize>>,
}

impl Log<'_> {
    /// Adds the parity of a log in an area of `size` bytes at `start` of the device; gives what is wrong with it.
    async fn replay(
        &self,
        start: u64,
        size: u64,
        sb: &Superblock,
        logged: &mut LoggedParity,
    ) -> Vec<PplFault> {
        let (header, mut at) = match self.newest(start, size, sb).await {
            Ok(newest) => newest,
            Err(fault) => return vec![fault],
        };
        let mut faults = Vec::new();
        at += HEADER;
        for (n, entry) in header.entries.iter().enumerate() {
            let next = at.saturating_add(entry.parity_bytes.into());
            if next > size {
                faults.push(outside(n, entry));
                break;
            }
            if let Err(fault) = self.replay_entry(start + at, n, entry, logged).await {
                faults.push(fault);
            }
            at = next;
        }
        faults
    }

    /// The newest header, and where it stands in the area: md writes them one behind the other, and begins anew.
    async fn newest(&self, start: u64, size: u64, sb: &Superblock) -> Result<(PplHeader, u64), PplFault> {
        let (mut newest, mut at) = (None::<(PplHeader, u64)>, 0);
        while at == 0 || at + HEADER < size {
            let header = PplHeader::parse(&self.read(start + at, HEADER).await?, sb.set_uuid);
            let header = match (header, newest.is_some()) {
                (Ok(header), _) => header,
                (Err(_), true) => break,
                (Err(why), false) => return Err(why.into()),
            };
            if newest.as_ref().is_some_and(|(before, _)| before.generation > header.generation) {
                break;
            }
            let parity = header.entries.iter().map(|entry| u64::from(entry.parity_bytes)).sum::<u64>();
            newest = Some((header, at));
            at = at.saturating_add(HEADER).saturating_add(parity);
        }
        newest.ok_or(PplFault::Place)
    }

    async fn replay_entry(
        &self,
        at: u64,
        n: usize,
        entry: &PplEntry,
        logged: &mut LoggedParity,
    ) -> Result<(), PplFault> {
        let partial = self.read(at, entry.parity_bytes.into()).await?;
        if ppl::parity_checksum(&partial) != entry.checksum {
            return Err(PplFault::Checksum { entry: n });
        }
        for part in self.parts(entry).ok_or_else(|| outside(n, entry))? {
            let Some(mut parity) = self.sum(&part).await? else { continue };
            if let Some(range) = part.logged {
                let own = partial.get(range).unwrap_or_default();
                parity.iter_mut().zip(own).for_each(|(to, from)| *to ^= from);
            }
            if logged.bytes() + parity.len() as u64 > MOST {
                return Err(PplFault::TooMuch);
            }
            if !logged.add(self.map.row_offset(part.row) + part.cols.start, &parity) {
                return Err(PplFault::Overlap { entry: n });
            }
        }
        Ok(())
    }

    /// The parts of a row that an entry is of, as md has it; `None` if there is no such row, or its parity is elsewhere.
    fn parts(&self, entry: &PplEntry) -> Option<Vec<Part>> {
        let (chunk, all) = (self.map.chunk(), u64::from(self.map.data_members()));
        let (data, partial) = (u64::from(entry.data_bytes), u64::from(entry.parity_bytes));
        let end = entry.data_offset.checked_add(data).filter(|_| data > 0)?;
        let size = self.map.rows().checked_mul(self.map.row_data_bytes())?;
        if end > size || [entry.data_offset, data, partial].iter().any(|bytes| !bytes.is_multiple_of(SECTOR))
        {
            return None;
        }
        let first = self.map.position(entry.data_offset);
        let is_own = self.map.row(first.row).p() == self.role && entry.parity_role == u32::from(self.role);
        // Bytes of each block, and how many blocks; of the last one there may be less.
        let (height, count, last) = match partial {
            0 if data.is_multiple_of(all * SECTOR) => (data / all, all, data / all),
            0 => return None,
            partial if partial >= chunk => {
                let left = data % chunk;
                (chunk, data.div_ceil(chunk), if left == 0 { chunk } else { left })
            }
            partial if data.is_multiple_of(partial) => (partial, data / partial, partial),
            _ => return None,
        };
        let fits = first.column + height <= chunk && u64::from(first.data_index) + count <= all;
        if !is_own || !fits || count == 0 || height == 0 || partial > height {
            return None;
        }
        let part = |from: u64, to: u64, count: u64| Part {
            row: first.row,
            cols: first.column + from..first.column + to,
            written: first.data_index..first.data_index + count as u16,
            logged: (partial > 0).then_some(from as usize..to as usize),
        };
        let parts = [part(0, last, count), part(last, height, count - 1)].into_iter();
        Some(parts.filter(|part| !part.cols.is_empty() && !part.written.is_empty()).collect())
    }

    /// The sum of the data that were written; `None` if a member that has some is missing.
    async fn sum(&self, part: &Part) -> Result<Option<Vec<u8>>, PplFault> {
        let row = self.map.row(part.row);
        let mut sum = vec![0; (part.cols.end - part.cols.start) as usize];
        for index in part.written.clone() {
            let offset = self.map.row_offset(part.row) + part.cols.start;
            for (at, piece) in (offset..).step_by(PIECE as usize).zip(sum.chunks_mut(PIECE as usize)) {
                let buf = self.pool.alloc(piece.len()).await;
                let into = buf.slice(0..piece.len());
                match self.array.read_member(row.data_member(index), at, &into).await {
                    None => return Ok(None),
                    Some(Err(VolumeError::Member { error, .. })) => return Err(error.into()),
                    Some(Err(_)) => return Err(OpError::Gone.into()),
                    Some(Ok(())) => {}
                }
                piece.iter_mut().zip(into.bytes().iter()).for_each(|(to, from)| *to ^= from);
            }
        }
        Ok(Some(sum))
    }

    /// Bytes of the device.
    async fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>, OpError> {
        let (mut bytes, end) = (Vec::with_capacity(len as usize), offset + len);
        let mut at = offset;
        while at < end {
            let part = PIECE.min(end - at) as usize;
            let buf = self.pool.alloc(part).await;
            let mut group = self.io.group_of(OpClass::Metadata);
            group.read(self.id, at, &buf.slice(0..part));
            group.submit().await.ok()?;
            bytes.extend_from_slice(&buf.bytes()[..part]);
            at += part as u64;
        }
        Ok(bytes)
    }
}

fn outside(entry: usize, of: &PplEntry) -> PplFault {
    PplFault::Outside { entry, offset: of.data_offset, bytes: of.data_bytes.into() }
}
