//! Reads of ranges of volumes.

use core::ops::Range;

use brindle_format::pool::{BLOCK, checksum};
use brindle_io::Slice;
use brindle_io::sync::join_all;
use brindle_volume::{VolumeError, stretches};

use super::Pin;
use super::fetch::Wanted;
use crate::core::Core;
use crate::store::leaf::Located;

/// Blocks of a window that are read into memory of the pool; several windows are in flight side by side.
const WINDOW: usize = 64;
/// Blocks that are read into memory of the request in one go.
const IN_PLACE: usize = 8192;
/// A window takes at most such a part of the memory of batches.
const PART: usize = 8;
/// Windows of a request that are in flight at a time.
const SIDE_BY_SIDE: usize = 16;

const BLOCK_BYTES: u64 = BLOCK as u64;

/// Memory of a request, and how much of it has been filled.
struct Filled<'a> {
    into: &'a [Slice],
    slice: usize,
    within: usize,
}

impl<'a> Filled<'a> {
    fn new(into: &'a [Slice]) -> Self {
        Self { into, slice: 0, within: 0 }
    }

    /// Puts bytes behind those that are there.
    fn put(&mut self, mut from: &[u8]) -> Result<(), VolumeError> {
        while !from.is_empty() {
            let slice = &self.into[self.slice];
            if slice.is_pinned() {
                return Err(VolumeError::Again);
            }
            let count = (slice.len() - self.within).min(from.len());
            slice.put(self.within, &from[..count]);
            from = &from[count..];
            self.within += count;
            if self.within == slice.len() {
                (self.slice, self.within) = (self.slice + 1, 0);
            }
        }
        Ok(())
    }
}

/// A part of a list, as slices.
pub(crate) fn cut(list: &[Slice], from: u64, len: usize) -> impl Iterator<Item = Slice> {
    let (from, to) = (from as usize, from as usize + len);
    stretches(0, list).filter_map(move |(at, slice)| {
        let at = at as usize;
        let (begin, end) = (from.max(at), to.min(at + slice.len()));
        (begin < end).then(|| slice.slice(begin - at..end - at))
    })
}

/// Whole blocks go into memory that nobody but the pool looks at meanwhile.
fn takes_blocks(offset: u64, into: &[Slice]) -> bool {
    let is_whole = |slice: &Slice| slice.len().is_multiple_of(BLOCK) && !slice.is_shared();
    offset.is_multiple_of(BLOCK_BYTES)
        && into.iter().all(|slice| is_whole(slice) && slice.try_bytes_mut().is_some())
}

impl Core {
    /// Fills a list of slices from a byte of a volume on.
    pub(crate) async fn read(&self, volume: u32, offset: u64, into: &[Slice]) -> Result<(), VolumeError> {
        let end = offset + brindle_volume::bytes(into);
        if offset / BLOCK_BYTES == (end - 1) / BLOCK_BYTES {
            return self.read_within(volume, offset, into).await;
        }
        if takes_blocks(offset, into) {
            return self.read_in_place(volume, offset..end, into).await;
        }
        // Memory that a guest may change meanwhile can't be verified where it is.
        let blocks = WINDOW.min(self.batches.capacity() / PART / BLOCK).max(1) as u64;
        let step = blocks * BLOCK_BYTES;
        let windows: Vec<u64> = (offset / step..(end - 1) / step + 1).collect();
        for some in windows.chunks(SIDE_BY_SIDE) {
            let windows = some.iter().map(async |&n| {
                let at = offset.max(n * step)..end.min((n + 1) * step);
                let part: Vec<Slice> = cut(into, at.start - offset, (at.end - at.start) as usize).collect();
                self.read_window(volume, at, &part).await
            });
            join_all(windows).await.into_iter().collect::<Result<(), _>>()?;
        }
        Ok(())
    }

    /// Reads within one block, as most requests do: with as few copies and as little memory as can be.
    async fn read_within(&self, volume: u32, offset: u64, into: &[Slice]) -> Result<(), VolumeError> {
        let key = (volume, offset / BLOCK_BYTES);
        let begin = (offset % BLOCK_BYTES) as usize;
        let range = begin..begin + brindle_volume::bytes(into) as usize;
        let mut filled = Filled::new(into);
        let (located, _pin) = self.locate(key).await?;
        let (address, sum) = match located {
            Located::Zeroes => return filled.put(&[0; BLOCK][range]),
            Located::Lost => return Err(self.is_lost(key)),
            Located::At(address, sum) => (address, sum),
        };
        let spot = self.space.borrow().source(address);
        if let Some((role, offset)) = spot.filter(|(role, _)| !self.set.members.is_slow(*role))
            && let Some(device) = self.set.members.readable(role, u64::MAX)
        {
            let buf = self.reads.alloc(BLOCK).await;
            let mut reading = self.set.door(None).ask();
            reading.read(device, offset, &buf.all());
            let done = reading.submit().await;
            if !done.is_ok() {
                self.judge_reads(&done).await;
            } else if checksum(&buf.bytes()) == sum {
                return filled.put(&buf.bytes()[range]);
            }
        }
        filled.put(&self.block(address, sum, Some(key)).await?[range])
    }

    /// One block of a volume.
    pub(crate) async fn read_block(&self, volume: u32, block: u64) -> Result<Vec<u8>, VolumeError> {
        let key = (volume, block);
        let (located, _pin) = self.locate(key).await?;
        match located {
            Located::Zeroes => Ok(vec![0; BLOCK]),
            Located::Lost => Err(self.is_lost(key)),
            Located::At(address, sum) => Ok(self.block(address, sum, Some(key)).await?.to_vec()),
        }
    }

    /// Whole blocks, right into the memory of the request.
    async fn read_in_place(&self, volume: u32, range: Range<u64>, into: &[Slice]) -> Result<(), VolumeError> {
        let mut at = range.start;
        while at < range.end {
            let stop = range.end.min(at + (IN_PLACE * BLOCK) as u64);
            let places = self.places(volume, at..stop).await?;
            let mut memory = Vec::with_capacity(places.len());
            for slice in cut(into, at - range.start, (stop - at) as usize) {
                memory.extend((0..slice.len()).step_by(BLOCK).map(|at| slice.slice(at..at + BLOCK)));
            }
            let wanted = wanted(volume, at / BLOCK_BYTES, &places, &memory);
            let others = self.fetch(&wanted).await?;
            for (n, block) in others {
                Filled::new(core::slice::from_ref(&wanted[n].into)).put(&block?)?;
            }
            for (_, into) in places.iter().zip(&memory).filter(|((place, _), _)| *place == Located::Zeroes) {
                Filled::new(core::slice::from_ref(into)).put(&[0; BLOCK])?;
            }
            at = stop;
        }
        Ok(())
    }

    /// Some bytes, by way of memory of the pool.
    async fn read_window(&self, volume: u32, range: Range<u64>, into: &[Slice]) -> Result<(), VolumeError> {
        let places = self.places(volume, range.clone()).await?;
        let first = range.start / BLOCK_BYTES;
        // A device that was given up may keep the memory. Where others make up for it, it is not asked the second time.
        for _ in 0..2 {
            let buf = self.batches.alloc(places.len() * BLOCK).await;
            let memory: Vec<Slice> =
                (0..places.len()).map(|n| buf.slice(n * BLOCK..(n + 1) * BLOCK)).collect();
            let wanted = wanted(volume, first, &places, &memory);
            let others = match self.fetch(&wanted).await {
                Err(VolumeError::Again) => continue,
                fetched => fetched?,
            };
            for (n, block) in others {
                wanted[n].into.put(0, &block?);
            }
            for (_, into) in places.iter().zip(&memory).filter(|((place, _), _)| *place == Located::Zeroes) {
                into.put(0, &[0; BLOCK]);
            }
            let skip = (range.start - first * BLOCK_BYTES) as usize;
            return Filled::new(into).put(&buf.bytes()[skip..][..(range.end - range.start) as usize]);
        }
        Err(VolumeError::Again)
    }

    /// Where the blocks of a range are. A lost one is the error of all.
    async fn places(
        &self,
        volume: u32,
        range: Range<u64>,
    ) -> Result<Vec<(Located, Option<Pin<'_>>)>, VolumeError> {
        let blocks = range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES);
        let mut places = Vec::with_capacity((blocks.end - blocks.start) as usize);
        for block in blocks {
            let place = self.locate((volume, block)).await?;
            if place.0 == Located::Lost {
                return Err(self.is_lost((volume, block)));
            }
            places.push(place);
        }
        Ok(places)
    }
}

/// The blocks of a range that stand somewhere, and their memory.
fn wanted(volume: u32, first: u64, places: &[(Located, Option<Pin<'_>>)], memory: &[Slice]) -> Vec<Wanted> {
    let blocks = (first..).zip(places).zip(memory);
    let wanted = blocks.filter_map(|((block, (located, _)), into)| match *located {
        Located::At(address, sum) => {
            Some(Wanted { key: Some((volume, block)), address, sum, into: into.clone() })
        }
        Located::Zeroes | Located::Lost => None,
    });
    wanted.collect()
}
