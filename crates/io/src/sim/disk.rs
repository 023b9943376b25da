//! What a modelled drive holds: what a reader sees, and what would survive a power cut.

use core::ops::Range;
use std::collections::BTreeMap;

use super::rng::Rng;
use crate::op::{OpError, Segment};

pub(super) const SECTOR: usize = 512;
type Sector = Box<[u8; SECTOR]>;

/// A sector's content that is not stable yet, and the number of the write that brought it.
struct Version {
    write: u64,
    bytes: Sector,
}

/// The bytes of one drive, by sector; a sector that was never written reads as zeroes.
#[derive(Default)]
pub(super) struct Disk {
    /// `None`: nothing is kept, for runs that only ask how long things take.
    sectors: Option<BTreeMap<u64, Sector>>,
    /// Newest last. What readers see is the newest; a power cut may leave any, or what was stable before.
    unstable: BTreeMap<u64, Vec<Version>>,
    writes: u64,
    pub(super) spoilt: Vec<Range<u64>>,
    pub(super) gone: bool,
    pub(super) refuses_writes: bool,
}

impl Disk {
    pub(super) fn new(keeps: bool) -> Self {
        Self { sectors: keeps.then(BTreeMap::new), ..Self::default() }
    }

    /// The newest content of a sector.
    fn newest(&self, sector: u64) -> Option<&Sector> {
        let unstable = self.unstable.get(&sector).and_then(|versions| versions.last()).map(|v| &v.bytes);
        unstable.or_else(|| self.sectors.as_ref()?.get(&sector))
    }

    pub(super) fn peek(&self, offset: u64, into: &mut [u8]) {
        for (at, byte) in into.iter_mut().enumerate() {
            let place = offset + at as u64;
            *byte = self.newest(place / SECTOR as u64).map_or(0, |s| s[(place % SECTOR as u64) as usize]);
        }
    }

    pub(super) fn is_spoilt(&self, offset: u64, len: u64) -> bool {
        self.spoilt.iter().any(|bad| bad.start < offset + len && offset < bad.end)
    }

    pub(super) fn read(&self, offset: u64, segments: &[Segment]) -> Result<(), OpError> {
        if self.sectors.is_none() {
            return Ok(());
        }
        for (sector, memory) in sectors_of(offset, segments)? {
            let zero = [0; SECTOR];
            let bytes = self.newest(sector).map_or(&zero, |s| s);
            // SAFETY: `memory` is a sector's worth of a segment that the op table keeps valid until the completion.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), memory, SECTOR) };
        }
        Ok(())
    }

    /// Takes a completed write. Without `stable` it stays in the drive's cache.
    pub(super) fn write(&mut self, offset: u64, segments: &[Segment], stable: bool) -> Result<(), OpError> {
        if self.sectors.is_none() {
            return Ok(());
        }
        self.writes += 1;
        for (sector, memory) in sectors_of(offset, segments)? {
            let mut bytes: Sector = Box::new([0; SECTOR]);
            // SAFETY: as in `read`; the sender keeps the bytes unchanged until the completion.
            unsafe { core::ptr::copy_nonoverlapping(memory, bytes.as_mut_ptr(), SECTOR) };
            self.put(sector, bytes, stable);
        }
        self.mend(offset, segments.iter().map(|s| s.len as u64).sum());
        Ok(())
    }

    pub(super) fn zero(&mut self, offset: u64, len: u64, stable: bool) {
        if self.sectors.is_none() {
            return;
        }
        self.writes += 1;
        for sector in offset / SECTOR as u64..(offset + len).div_ceil(SECTOR as u64) {
            if self.newest(sector).is_some() {
                self.put(sector, Box::new([0; SECTOR]), stable);
            }
        }
        self.mend(offset, len);
    }

    fn put(&mut self, sector: u64, bytes: Sector, stable: bool) {
        if stable {
            self.unstable.remove(&sector);
            if let Some(sectors) = &mut self.sectors {
                sectors.insert(sector, bytes);
            }
        } else {
            self.unstable.entry(sector).or_default().push(Version { write: self.writes, bytes });
        }
    }

    fn mend(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        let cut = |bad: Range<u64>| [bad.start..bad.end.min(offset), bad.start.max(end)..bad.end];
        self.spoilt = self.spoilt.drain(..).flat_map(cut).filter(|range| !range.is_empty()).collect();
    }

    /// The number of the newest write: what a flush that comes now will make stable, with all before it.
    pub(super) fn newest_write(&self) -> u64 {
        self.writes
    }

    /// Makes every write up to number `write` stable.
    pub(super) fn flush(&mut self, write: u64) {
        let Some(sectors) = &mut self.sectors else { return };
        self.unstable.retain(|&sector, versions| {
            let covered = versions.iter().take_while(|v| v.write <= write).count();
            if let Some(last) = versions.drain(..covered).next_back() {
                sectors.insert(sector, last.bytes);
            }
            !versions.is_empty()
        });
    }

    /// The power goes: of each sector in the cache any version, or the stable one, is what is left.
    pub(super) fn cut_power(&mut self, rng: &mut Rng) {
        let Some(sectors) = &mut self.sectors else { return };
        for (sector, mut versions) in core::mem::take(&mut self.unstable) {
            let pick = rng.below(versions.len() as u64 + 1) as usize;
            if pick > 0 {
                sectors.insert(sector, versions.swap_remove(pick - 1).bytes);
            }
        }
    }

    /// A write was under way when the power went: each of its sectors made it or did not.
    pub(super) fn tear(&mut self, offset: u64, segments: &[Segment], rng: &mut Rng) {
        let Ok(list) = sectors_of(offset, segments) else { return };
        let Some(sectors) = &mut self.sectors else { return };
        for (sector, memory) in list {
            if rng.below(2) == 1 {
                let mut bytes: Sector = Box::new([0; SECTOR]);
                // SAFETY: as in `write`: the operation has not completed.
                unsafe { core::ptr::copy_nonoverlapping(memory, bytes.as_mut_ptr(), SECTOR) };
                sectors.insert(sector, bytes);
            }
        }
    }
}

/// The sectors of an operation and the memory of each. Drives take whole sectors only.
fn sectors_of(offset: u64, segments: &[Segment]) -> Result<Vec<(u64, *mut u8)>, OpError> {
    const EINVAL: i32 = 22;
    let mut list = Vec::new();
    let mut sector = offset / SECTOR as u64;
    if !offset.is_multiple_of(SECTOR as u64) || segments.iter().any(|s| !s.len.is_multiple_of(SECTOR)) {
        return Err(OpError::Medium(EINVAL));
    }
    for segment in segments {
        for at in (0..segment.len).step_by(SECTOR) {
            list.push((sector, segment.base.wrapping_add(at)));
            sector += 1;
        }
    }
    Ok(list)
}
