//! Reading the write-intent bitmap from the members of an array that is opened.

use core::cell::{Cell, RefCell};
use std::rc::Rc;

use brindle_format::md::Uuid;
use brindle_format::md::bitmap::{
    BITMAP_SUPER_BYTES, BitmapState, BitmapSuper, BitmapVersion, bits_needed, bytes_needed,
};
use brindle_format::md::defaults::MAX_WRITE_BEHIND;
use brindle_io::sync::Notify;
use brindle_io::{Io, MemberId, OpClass, OpError, Pool};
use brindle_layout::Geometry;
use brindle_members::patience::Patience;

use super::chunks::Chunks;
use super::counters::Counters;
use super::flight::TOGETHER;
use super::image::{Image, PAGE};
use super::space::is_free;
use super::{Bitmap, Counted, Target};
use crate::assembly::{AssembledDevice, Assembly, BitmapFault, DeviceUse, Limitation};
use brindle_array::bitmap::BitmapFile;
use brindle_array::sync_len::sync_len;

/// Bytes of the largest bitmap that is kept: 32 million chunks. It is in memory twice.
pub(super) const MOST: u64 = 4 << 20;

/// The bitmap of an array as its members have it: their bits joined; or all set where it is stale, as md does
/// (`md_bitmap_read_sb`).
pub(crate) struct Bits {
    superblock: BitmapSuper,
    bytes: Vec<u8>,
    /// All members have the same.
    everywhere: bool,
    targets: Vec<Target>,
    /// The file that has it, if no member does.
    file: Option<BitmapFile>,
    /// Data are being moved: all bits are set, and stay so.
    stays_set: bool,
}

impl Assembly {
    /// Reads the array's bitmap from a file of `len` bytes, of which `head` are the first bytes, as many as a
    /// superblock has. Nothing of the file is changed, now or until the array is.
    ///
    /// # Errors
    /// Why it can't be the array's: then nothing has changed.
    pub fn accept_bitmap(&mut self, file: BitmapFile, head: &[u8], len: u64) -> Result<(), BitmapFault> {
        self.bitmap = Some(self.check_file(head, len)?);
        self.bitmap_file = Some(file);
        Ok(())
    }

    /// Whether the bitmap in its file is stale: it missed changes of the array, so that all of its bits count as set.
    pub fn is_bitmap_file_stale(&self) -> bool {
        self.bitmap_file.is_some() && self.bitmap.as_ref().is_some_and(|own| self.is_stale(own))
    }

    /// A bitmap in a file missed something, or says so, or is of another size.
    fn is_stale(&self, own: &BitmapSuper) -> bool {
        // A bitmap with failed writes does not tell which bits it lacks.
        let says = BitmapState(own.state.0 & (BitmapState::STALE.0 | BitmapState::WRITE_ERROR.0));
        says.0 != 0 || own.events < self.events || own.sync_bytes != sync_len(&self.geometry)
    }

    fn check_file(&self, head: &[u8], len: u64) -> Result<BitmapSuper, BitmapFault> {
        let policy = self.limits.iter().find_map(|limit| match limit {
            Limitation::Ppl => Some("a partial parity log"),
            Limitation::Journal | Limitation::JournalMissing => Some("a journal"),
            _ => None,
        });
        let covered = sync_len(&self.geometry);
        match policy {
            Some(policy) => return Err(BitmapFault::Policy { policy }),
            None if covered == 0 => return Err(BitmapFault::NoRedundancy),
            None if self.recorded.bitmap_offset.is_some() => return Err(BitmapFault::Beside),
            None => {}
        }
        let uuid = self.devices.first().map_or(self.uuid, |device| device.superblock.bitmap_uuid());
        let own = check_head(head, uuid, covered)?;
        let need = bytes_needed(covered, own.chunk).unwrap_or(u64::MAX);
        // A cut may have come between the bitmap's superblock and the others.
        if own.events > self.events.saturating_add(1) {
            return Err(BitmapFault::Newer { events: own.events, of: self.events });
        }
        if len < need {
            return Err(BitmapFault::Short { have: len, need });
        }
        Ok(own)
    }

    /// Looks whether the array has a write-intent bitmap that can't be kept up to date; if so, the array is read-only.
    /// `devices` are the reactor's numbers of the assembly's devices, in their order.
    pub async fn look_into_bitmap(&mut self, io: &Io, devices: &[MemberId]) {
        match Bits::read(io, self, devices).await {
            Ok(bits) => self.bitmap = bits.map(|bits| bits.superblock),
            Err(limit) if self.limits.contains(&limit) => {}
            Err(limit) => self.limits.push(limit),
        }
    }
}

/// One member's copy.
struct Copy {
    target: Target,
    superblock: BitmapSuper,
}

impl Bits {
    /// A bitmap that is on no device yet: all bits are set.
    pub(super) fn unwritten(
        superblock: BitmapSuper,
        len: usize,
        targets: Vec<Target>,
        file: Option<BitmapFile>,
    ) -> Self {
        Self { superblock, bytes: vec![0xff; len], everywhere: false, targets, file, stays_set: false }
    }

    /// A bitmap beside superblocks that is on no device yet, with these bits.
    pub(super) fn of(superblock: BitmapSuper, bytes: Vec<u8>, targets: Vec<Target>) -> Self {
        Self { superblock, bytes, everywhere: false, targets, file: None, stays_set: false }
    }

    /// All bits are set from now on, whatever stands on members: data are being moved.
    pub(super) fn all_set(mut self) -> Self {
        self.bytes.fill(0xff);
        (self.everywhere, self.stays_set) = (false, true);
        self
    }

    /// Reads the bitmap that an assembled array has in a file.
    ///
    /// # Errors
    /// Why it can't be kept up to date.
    pub(crate) async fn read_file(
        io: &Io,
        assembly: &Assembly,
        file: &BitmapFile,
    ) -> Result<Self, BitmapFault> {
        let id = file.id.ok_or(OpError::Gone)?;
        let info = io.member_info(id).ok_or(OpError::Gone)?;
        let (pool, mut head) = (io.pool(PAGE), Vec::new());
        piece(io, &pool, id, 0, info.size.min(PAGE as u64) as usize, &mut head).await?;
        let mut superblock = assembly.check_file(&head, info.size)?;
        let covered = sync_len(&assembly.geometry);
        let target = Target { id, offset: 0 };
        let need = bytes_needed(covered, superblock.chunk).unwrap_or(u64::MAX);
        let need = need.next_multiple_of(info.logical_block.into());
        if need > info.size {
            return Err(BitmapFault::Short { have: info.size, need });
        }
        let (len, fresh) = (need as usize, !assembly.is_stale(&superblock));
        let copy = Copy { target, superblock: superblock.clone() };
        let bytes = if fresh { whole(io, &pool, &copy, len).await? } else { vec![0xff; len] };
        superblock.renew(assembly, fresh);
        let everywhere = fresh;
        let (targets, file) = (vec![target], Some(file.clone()));
        Ok(Self { superblock, bytes, everywhere, targets, file, stays_set: false })
    }

    /// Reads the bitmap of an assembled array; `None` if it has none.
    ///
    /// # Errors
    /// Why it can't be kept up to date: what is said of the first member, if no member has one that can.
    pub(crate) async fn read(
        io: &Io,
        assembly: &Assembly,
        ids: &[MemberId],
    ) -> Result<Option<Self>, Limitation> {
        let targets: Vec<(&AssembledDevice, Target)> = targets(assembly, ids).collect();
        let Some((first, _)) = targets.first() else { return Ok(None) };
        let limit = |label: &str, why| Limitation::Bitmap { label: label.to_owned(), why };
        let covered = sync_len(&assembly.geometry);
        if covered == 0 {
            return Err(limit(&first.label, BitmapFault::NoRedundancy));
        }
        let pool = io.pool(PAGE);
        let (mut copies, mut refused, mut all) = (Vec::new(), None, true);
        for &(device, target) in &targets {
            if !matches!(device.usage, DeviceUse::Active { .. }) {
                all = false;
                continue;
            }
            match head(io, &pool, device, target, covered).await {
                Ok(superblock) => copies.push(Copy { target, superblock }),
                // A bitmap of an unknown version, such as a cluster's, must not be used by a program that does not
                // share it properly.
                Err(why @ BitmapFault::Version { .. }) => return Err(limit(&device.label, why)),
                Err(why) => refused = refused.or(Some(limit(&device.label, why))),
            }
        }
        // The newest says how large chunks are: they may have been changed.
        let Some(newest) = copies.iter().max_by_key(|copy| copy.superblock.events) else {
            return refused.map_or(Ok(None), Err);
        };
        let mut superblock = newest.superblock.clone();
        let len = len(io, &targets, covered, superblock.chunk);
        // As far as their own superblocks tell, all have room for it.
        let too_small = |&&(device, target): &&(&AssembledDevice, Target)| {
            len.is_none_or(|len| !is_free(&device.superblock, target.offset, len as u64, device.bytes))
        };
        let bits = superblock.bits();
        if let Some((device, _)) = targets.iter().find(too_small) {
            return Err(limit(&device.label, BitmapFault::Extent { bits }));
        }
        let len = len.unwrap_or(0);
        let fresh = |copy: &&Copy| {
            let own = &copy.superblock;
            let stale = own.state.contains(BitmapState::STALE) || own.events < assembly.events;
            !stale && own.chunk == superblock.chunk
        };
        let mut joined: Option<Vec<u8>> = None;
        let mut differ = copies.len() < targets.len() || !all;
        for copy in copies.iter().filter(fresh) {
            let Ok(bytes) = whole(io, &pool, copy, len).await else {
                differ = true;
                continue;
            };
            let Some(joined) = &mut joined else {
                joined = Some(bytes);
                continue;
            };
            let bits = joined.iter_mut().zip(&bytes).skip(BITMAP_SUPER_BYTES);
            for (one, other) in bits {
                differ |= *one != *other;
                *one |= other;
            }
        }
        differ |= joined.is_none() || copies.iter().filter(fresh).count() < copies.len();
        superblock.renew(assembly, joined.is_some());
        let found = Self {
            superblock,
            bytes: joined.unwrap_or_else(|| vec![0xff; len]),
            everywhere: !differ,
            targets: targets.into_iter().map(|(_, target)| target).collect(),
            file: None,
            stays_set: false,
        };
        Ok(Some(if assembly.reshaping.is_some() { found.all_set() } else { found }))
    }

    /// The bitmap of a run of the array.
    pub(crate) fn keep(self, io: &Io, geometry: &Geometry, patience: Patience) -> Rc<Bitmap> {
        let chunks = Chunks::new(geometry, self.superblock.chunk);
        let counters = Counters::new(chunks.count());
        let image = Image::new(self.superblock, chunks.count(), self.bytes, self.everywhere);
        // Memory for a flight, and for flights that were given up on members that have failed since.
        let pool = io.pool(TOGETHER * PAGE * (self.targets.len() + 2));
        Rc::new_cyclic(|me| Bitmap {
            me: me.clone(),
            io: io.clone(),
            pool,
            patience,
            flushes_first: Cell::new(false),
            chunks,
            state: RefCell::new(Counted { counters, image }),
            targets: RefCell::new(self.targets),
            file: self.file,
            refusal: Cell::new(None),
            flying: Cell::new(false),
            called: Cell::new(false),
            landed: Notify::new(io),
            whole: Cell::new(self.everywhere),
            absent: Cell::new(false),
            pinned: RefCell::default(),
            written: Cell::new(0),
            retired: Cell::new(false),
            stays_set: self.stays_set,
        })
    }
}

/// The bitmap's content at the start of a run.
trait Renewed {
    fn renew(&mut self, assembly: &Assembly, fresh: bool);
}

impl Renewed for BitmapSuper {
    /// `fresh`: its bits were read; else all are set.
    fn renew(&mut self, assembly: &Assembly, fresh: bool) {
        self.state = BitmapState(self.state.0 & !BitmapState::STALE.0);
        if !fresh {
            self.events_cleared = assembly.events;
        }
        // A cut may have come before superblocks of the bitmap's count: it is the present one that bits are cleared at.
        self.events = assembly.events;
        self.sync_bytes = sync_len(&assembly.geometry);
    }
}

/// The members that have a bitmap, and where: those too that the update has not reached which gave it to the array.
fn targets<'a>(
    assembly: &'a Assembly,
    ids: &'a [MemberId],
) -> impl Iterator<Item = (&'a AssembledDevice, Target)> {
    assembly.devices.iter().zip(ids).filter_map(|(device, &id)| {
        let common = assembly.recorded.bitmap_offset?;
        let offset = device.superblock.bitmap_offset.unwrap_or(common);
        let member = matches!(
            device.usage,
            DeviceUse::Active { .. } | DeviceUse::Recovering { .. } | DeviceUse::Replacement { .. }
        );
        let offset = device.super_offset.checked_add_signed(offset)?;
        member.then_some((device, Target { id, offset }))
    })
}

/// The superblock of a member's copy, if it is one of the array's that can be kept.
async fn head(
    io: &Io,
    pool: &Pool,
    device: &AssembledDevice,
    target: Target,
    covered: u64,
) -> Result<BitmapSuper, BitmapFault> {
    let mut bytes = Vec::new();
    piece(io, pool, target.id, target.offset, PAGE, &mut bytes).await?;
    check_head(&bytes, device.superblock.bitmap_uuid(), covered)
}

/// The superblock of a bitmap, if it is one of this array's that can be kept.
fn check_head(bytes: &[u8], uuid: Uuid, covered: u64) -> Result<BitmapSuper, BitmapFault> {
    let superblock = BitmapSuper::parse(bytes)?;
    if superblock.version != BitmapVersion::LittleEndian {
        return Err(BitmapFault::Version { version: superblock.version });
    }
    if superblock.uuid != uuid {
        return Err(BitmapFault::Foreign { uuid: superblock.uuid });
    }
    let bits = bits_needed(covered, superblock.chunk).unwrap_or(u64::MAX);
    let bytes = bytes_needed(covered, superblock.chunk).unwrap_or(u64::MAX);
    if bytes > MOST || superblock.daemon_sleep == 0 || superblock.write_behind > MAX_WRITE_BEHIND {
        return Err(BitmapFault::Extent { bits });
    }
    Ok(superblock)
}

/// Bytes of the bitmap in whole blocks of all members; `None` if it does not begin at a block of each.
fn len(io: &Io, targets: &[(&AssembledDevice, Target)], covered: u64, chunk: u64) -> Option<usize> {
    let blocks = targets.iter().filter_map(|(_, target)| io.member_info(target.id));
    let block = blocks.map(|info| u64::from(info.logical_block)).max().unwrap_or(512);
    let aligned = targets.iter().all(|(_, target)| target.offset.is_multiple_of(block));
    let len = bytes_needed(covered, chunk)?.checked_next_multiple_of(block)?;
    usize::try_from(len).ok().filter(|_| aligned)
}

/// All of a member's copy.
async fn whole(io: &Io, pool: &Pool, copy: &Copy, len: usize) -> Result<Vec<u8>, OpError> {
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let (at, left) = (bytes.len(), len - bytes.len());
        piece(io, pool, copy.target.id, copy.target.offset + at as u64, left.min(PAGE), &mut bytes).await?;
    }
    Ok(bytes)
}

/// Appends bytes of a member, a page at most.
async fn piece(
    io: &Io,
    pool: &Pool,
    id: MemberId,
    offset: u64,
    len: usize,
    into: &mut Vec<u8>,
) -> Result<(), OpError> {
    let buf = pool.alloc(PAGE).await;
    let mut group = io.group_of(OpClass::Metadata);
    group.read(id, offset, &buf.slice(0..len));
    group.submit_by(io.now().after(Patience::default().answer)).await.ok()?;
    into.extend_from_slice(&buf.bytes()[..len]);
    Ok(())
}
