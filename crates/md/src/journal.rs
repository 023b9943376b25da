//! Checks whether a journal holds writes that have not reached the members.
//!
//! md acknowledges a write when the journal has it (write-back), and a flush when the journal is flushed (both modes):
//! the blocks behind the journal's tail may be the only copy of it. Nothing in a superblock tells whether it is: with
//! a journal a running array counts as clean, and after a clean stop the last write still stands at the tail. So the
//! log is walked as md does to replay it (`r5c_recovery_flush_log` in the kernel's `raid5-cache.c`), and every block
//! in it is compared with the one on the members that it is meant for.

use std::collections::BTreeMap;

use brindle_format::md::journal::{self, JOURNAL_BLOCK_BYTES, JournalError, MetaBlock, Payload};
use brindle_format::md::{Superblock, Uuid};
use brindle_io::{Io, MemberId, OpClass, OpError, Pool};
use brindle_layout::{Family, ParityRows};
use brindle_volume::Volume;

use crate::assembly::{AssembledDevice, Assembly, DeviceUse, Limitation};
use crate::refusal::OpenError;
use crate::reshape_sides::members;
use brindle_array::ledger::Nothing;
use brindle_array::{Array, Opening};

const BLOCK: u64 = JOURNAL_BLOCK_BYTES as u64;

/// Blocks that are read at a time.
const PIECE: u64 = 16;

impl Assembly {
    /// Looks whether the array's journal holds writes that its members don't, and replays partial parity logs in memory where
    /// they tell what a missing member holds. `devices` are the reactor's numbers of the assembly's devices, in their
    /// order. Forced, what it finds becomes a limitation; without logs, or the second time, there is nothing to do.
    ///
    /// # Errors
    /// [`OpenError::Journal`] if the journal holds such writes, or can't be understood; [`OpenError::Ppl`] if a partial
    /// parity log can't be replayed.
    pub async fn look_into_logs(&mut self, io: &Io, devices: &[MemberId]) -> Result<(), OpenError> {
        self.replay_parity(io, devices).await?;
        if self.journal_seen {
            return Ok(());
        }
        self.journal_seen = true;
        let journal = |device: &AssembledDevice| device.usage == DeviceUse::Journal;
        let Some(at) = self.devices.iter().position(journal) else { return Ok(()) };
        let (Some(device), Some(&id)) = (self.devices.get(at), devices.get(at)) else { return Ok(()) };
        let label = device.label.clone();
        let log = Log::new(io, id, &device.superblock);
        if is_settled(io, &log, device.superblock.journal_tail, self, devices).await {
            Ok(())
        } else if self.forced {
            self.limits.push(Limitation::JournalPending { label });
            Ok(())
        } else {
            Err(OpenError::Journal { label })
        }
    }
}

/// Replaying the log would change no member.
async fn is_settled(
    io: &Io,
    log: &Log,
    tail: Option<u64>,
    assembly: &Assembly,
    devices: &[MemberId],
) -> bool {
    let Family::Parity(map) = assembly.geometry.family() else { return false };
    let Ok(logged) = log.walk(tail.unwrap_or(0)).await else { return false };
    if logged.is_empty() {
        return true;
    }
    let (geometry, members) = (assembly.geometry.clone(), members(io, assembly, devices));
    let array = Array::to_read(io, Opening { geometry, border: None, members, ledger: Box::new(Nothing) });
    log.holds_data_of(&array, &logged).await && log.holds_parity_of(&array, map, &logged).await
}

/// The content that members should have by a log: for each block the copy logged last.
#[derive(Default)]
struct Logged {
    /// By byte of the array.
    data: BTreeMap<u64, u32>,
    /// By byte of the members' data area: P, or P and Q.
    parity: BTreeMap<u64, Vec<u32>>,
}

impl Logged {
    fn is_empty(&self) -> bool {
        self.data.is_empty() && self.parity.is_empty()
    }

    fn add(&mut self, payloads: Vec<Payload>) {
        for payload in payloads {
            match payload {
                Payload::Data { offset, checksums, .. } => {
                    let offsets = (0u64..).map(|n| offset.saturating_add(n * BLOCK));
                    self.data.extend(offsets.zip(checksums));
                }
                Payload::Parity { offset, checksums, .. } => {
                    self.parity.insert(offset, checksums);
                }
                // Such stripes have reached the members, as they will show.
                Payload::Flush { .. } => {}
            }
        }
    }
}

/// The checksums of the blocks that follow a meta block, in their order.
fn checksums(payloads: &[Payload]) -> impl Iterator<Item = u32> {
    payloads
        .iter()
        .flat_map(|payload| match payload {
            Payload::Data { checksums, .. } | Payload::Parity { checksums, .. } => checksums.as_slice(),
            Payload::Flush { .. } => &[],
        })
        .copied()
}

/// The log on a journal device.
struct Log {
    io: Io,
    pool: Pool,
    id: MemberId,
    set_uuid: Uuid,
    /// Byte of the device at which the log begins, and its bytes: it is a ring.
    start: u64,
    size: u64,
}

impl Log {
    fn new(io: &Io, id: MemberId, sb: &Superblock) -> Self {
        let pool = io.pool((PIECE * BLOCK) as usize);
        let size = sb.data_size / BLOCK * BLOCK;
        Self { io: io.clone(), pool, id, set_uuid: sb.set_uuid, start: sb.data_offset, size }
    }

    /// Reads the log from its tail to its end, which is where the next meta block is not one, or not the next.
    async fn walk(&self, tail: u64) -> Result<Logged, Unreadable> {
        // As md takes a tail that can't be one.
        let mut at = if tail < self.size && tail.is_multiple_of(BLOCK) { tail } else { 0 };
        let (mut logged, mut sequence, mut walked) = (Logged::default(), None, 0);
        while walked < self.size {
            let mut bytes = Vec::new();
            self.read(at, 1, |block| bytes.extend_from_slice(block)).await?;
            let meta = match MetaBlock::parse(&bytes, self.set_uuid) {
                Ok(meta) => meta,
                Err(JournalError::NoMagic | JournalError::Checksum { .. }) => break,
                Err(_) => return Err(Unreadable),
            };
            if meta.position != at || sequence.is_some_and(|next| next != meta.sequence) {
                break;
            }
            let blocks = checksums(&meta.payloads).count() as u64;
            let mut found = Vec::new();
            self.read(self.behind(at, 1), blocks, |block| {
                found.push(journal::checksum(self.set_uuid, block));
            })
            .await?;
            // A unit that was not written to its end was never acknowledged: md drops it, and goes on behind it.
            if checksums(&meta.payloads).eq(found) {
                logged.add(meta.payloads);
            }
            sequence = Some(meta.sequence.wrapping_add(1));
            at = self.behind(at, 1 + blocks);
            walked += (1 + blocks) * BLOCK;
        }
        Ok(logged)
    }

    fn behind(&self, at: u64, blocks: u64) -> u64 {
        (at + blocks * BLOCK) % self.size
    }

    /// Hands over `blocks` blocks from `at` on, one by one.
    async fn read(&self, mut at: u64, mut blocks: u64, mut take: impl FnMut(&[u8])) -> Result<(), OpError> {
        while blocks > 0 {
            let count = blocks.min(PIECE).min((self.size - at) / BLOCK);
            let buf = self.pool.alloc((count * BLOCK) as usize).await;
            let mut group = self.io.group_of(OpClass::Metadata);
            group.read(self.id, self.start + at, &buf.all());
            group.submit().await.ok()?;
            buf.bytes().chunks(JOURNAL_BLOCK_BYTES).for_each(&mut take);
            at = self.behind(at, count);
            blocks -= count;
        }
        Ok(())
    }

    /// The array has all data that were logged.
    async fn holds_data_of(&self, array: &Array, logged: &Logged) -> bool {
        let blocks: Vec<(u64, u32)> = logged.data.iter().map(|(&offset, &sum)| (offset, sum)).collect();
        for run in blocks
            .chunk_by(|a, b| a.0.checked_add(BLOCK) == Some(b.0))
            .flat_map(|run| run.chunks(PIECE as usize))
        {
            let Some(&(offset, _)) = run.first() else { continue };
            let buf = self.pool.alloc(run.len() * JOURNAL_BLOCK_BYTES).await;
            if array.read(offset, buf.all()).await.is_err() {
                return false;
            }
            let bytes = buf.bytes();
            let found =
                bytes.chunks(JOURNAL_BLOCK_BYTES).map(|block| journal::checksum(self.set_uuid, block));
            if !found.eq(run.iter().map(|&(_, sum)| sum)) {
                return false;
            }
        }
        true
    }

    /// The members that are here have all parity that was logged: what is lost may be worked out from it.
    async fn holds_parity_of(&self, array: &Array, map: &ParityRows, logged: &Logged) -> bool {
        for (&offset, sums) in &logged.parity {
            let number = offset / map.chunk();
            if number >= map.rows() || !offset.is_multiple_of(BLOCK) {
                return false;
            }
            let row = map.row(number);
            for (role, &sum) in [Some(row.p()), row.q()].into_iter().flatten().zip(sums) {
                let buf = self.pool.alloc(JOURNAL_BLOCK_BYTES).await;
                let Some(read) = array.read_member(role, offset, &buf.all()).await else { continue };
                if read.is_err() || journal::checksum(self.set_uuid, &buf.bytes()) != sum {
                    return false;
                }
            }
        }
        true
    }
}

/// The log can't be read or understood.
struct Unreadable;

impl From<OpError> for Unreadable {
    fn from(_: OpError) -> Self {
        Self
    }
}
