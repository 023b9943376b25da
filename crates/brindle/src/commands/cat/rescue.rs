//! `brindle cat --output`: an array or a volume of a pool into a file, with a map of what has been read, so that an interrupted copy goes on, and places that
//! can't be read don't end it.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use brindle_host::{ArrayDescription, DescribedDevice};
use brindle_io::device::Identity;
use brindle_io::{Io, Pool};
use brindle_volume::{Volume, VolumeError};
use indicatif::ProgressBar;

use super::map::{CopyState, Map, Of};
use super::output::Output;
use super::{AHEAD, PIECE, read};
use crate::base::failure::Failure;
use crate::base::progress;
use crate::base::replace::replace;
use crate::base::units::Bytes;

/// How often the map is written.
const KEEP: Duration = Duration::from_secs(5);
/// Where a piece can't be read, so much is tried at a time.
const BLOCK: u64 = 4096;
/// Unreadable bytes in a row after which the array itself counts as gone.
pub(super) const HOPELESS: u64 = 256 << 20;
/// The most unreadable places that are listed one by one.
const MAX_LISTED: usize = 20;

/// A copy that is asked for.
pub(super) struct Wanted<'a, V> {
    pub(super) array: &'a V,
    /// The array or volume that it is, at which event, and its bytes that are wanted.
    pub(super) of: Of,
    /// Unreadable bytes in a row after which the rest counts as gone.
    pub(super) hopeless: u64,
    /// Bytes of a chunk, if the array lacks more members than it can do without; 0 of one without chunks.
    pub(super) lacks: Option<u64>,
    pub(super) to: &'a Path,
    pub(super) map: Option<&'a Path>,
    pub(super) overwrite: bool,
    /// Devices that may not be written to.
    pub(super) members: &'a [Identity],
    /// Whatever was taken so without proof.
    pub(super) notes: Vec<String>,
}

struct Copying<'a, V> {
    io: &'a Io,
    pool: &'a Pool,
    array: &'a V,
    of: Of,
    hopeless: u64,
    lacks: Option<u64>,
    map: Map,
    /// Whatever was taken so without proof, for the map.
    notes: Vec<String>,
    /// Where the map is kept.
    at: PathBuf,
    output: Output,
    kept: Instant,
    bar: ProgressBar,
}

/// Copies the parts that have not been copied yet. Gives the report, and whether all could be read.
pub(super) fn copy<V: Volume + Clone + 'static>(
    io: &Io,
    pool: &Pool,
    wanted: &Wanted<'_, V>,
) -> Result<(String, bool), Failure> {
    let Range { start, end } = wanted.of.range;
    let size = end - start;
    let block = u64::from(wanted.array.limits().block);
    if !start.is_multiple_of(block) {
        return Err(Failure::Usage(format!("--offset has to be a multiple of {block} bytes with --output")));
    }
    let at = wanted.map.map_or_else(|| beside(wanted.to), Path::to_owned);
    let (of, hopeless) = (wanted.of.clone(), wanted.hopeless);
    let before = kept(&at, wanted.to, size, &of)?;
    let output = Output::open(wanted.to, size, wanted.overwrite || before.is_some(), wanted.members)?;
    let map = before.unwrap_or_else(|| Map::new(size));
    let bar = progress::bar("reading", size);
    bar.set_position(map.bytes(CopyState::Done));
    // A part that was read before says nothing of how fast it goes now.
    bar.reset_eta();
    let (array, lacks, notes) = (wanted.array, wanted.lacks, wanted.notes.clone());
    let kept = Instant::now();
    let mut copying = Copying { io, pool, array, of, hopeless, lacks, map, notes, at, output, kept, bar };
    // The map exists before the first byte, so that an interrupted copy can go on.
    copying.keep()?;
    let copied = io.block_on(copying.go(start));
    let kept = copying.keep();
    copying.bar.finish_and_clear();
    copied.and(kept)?;
    Ok(copying.summary(wanted.to))
}

/// The default name of the map's file.
fn beside(to: &Path) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push(".map");
    name.into()
}

/// Array and members that a map is of.
pub(super) fn of(array: &ArrayDescription, range: Range<u64>) -> Of {
    let member = |device: &DescribedDevice| match &device.uuid {
        Some(uuid) => uuid.clone(),
        None => format!("number {}", device.number),
    };
    let members: BTreeMap<String, u64> =
        array.devices.iter().map(|device| (member(device), device.events)).collect();
    Of { array: array.facts.uuid.clone(), events: array.events, range, members }
}

/// The map that an earlier copy has kept; refused if it is of something else.
fn kept(at: &Path, to: &Path, size: u64, of: &Of) -> Result<Option<Map>, Failure> {
    let text = match fs::read_to_string(at) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Failure::output(at.display(), source)),
    };
    let refused = |why: String| {
        Failure::Refused(format!(
            "{}: {why}; remove it, and {} with it, to begin anew, or choose another with --map",
            at.display(),
            to.display()
        ))
    };
    let (map, was) =
        Map::parse(&text, size).map_err(|why| refused(format!("it is not a map of this copy: {why}")))?;
    if was.array != of.array {
        return Err(refused(format!("it is of array {}, and this is {}", was.array, of.array)));
    }
    if was.range != of.range {
        let Range { start, end } = was.range;
        return Err(refused(format!("it is of bytes {start} to {end} of the array")));
    }
    let changed =
        |(member, events): &(&String, &u64)| of.members.get(*member).is_some_and(|now| now != *events);
    let other = was.members.iter().find(changed);
    if was.events != of.events || other.is_some() {
        return Err(refused(format!(
            "the members have changed since: they were at event {}, and are at {} now",
            was.events, of.events
        )));
    }
    if !to.exists() {
        return Err(refused(format!("{} is gone, into which a part was read", to.display())));
    }
    Ok(Some(map))
}

impl<V: Volume + Clone + 'static> Copying<'_, V> {
    /// Goes over all parts that are not in the file, unreadable ones last.
    async fn go(&mut self, base: u64) -> Result<(), Failure> {
        for wanted in [CopyState::Untried, CopyState::Bad] {
            for range in self.map.ranges(wanted) {
                self.range(base, range).await?;
            }
        }
        Ok(())
    }

    async fn range(&mut self, base: u64, range: Range<u64>) -> Result<(), Failure> {
        let block = u64::from(self.array.limits().block);
        let mut ahead = VecDeque::new();
        let mut next = range.start / block * block;
        let mut hopeless = 0;
        while next < range.end || !ahead.is_empty() {
            while ahead.len() < AHEAD as usize && next < range.end {
                let end = range.end.min(next + PIECE as u64);
                let len = (end - next).next_multiple_of(block) as usize;
                ahead.push_back((next..end, read(self.io, self.array, self.pool, base + next, len)));
                next = end;
            }
            let Some((piece, task)) = ahead.pop_front() else { break };
            let len = (piece.end - piece.start) as usize;
            match task.await {
                Ok(slice) => {
                    self.output.write(piece.start, &slice.bytes()[..len])?;
                    self.map.set(piece.clone(), CopyState::Done);
                    hopeless = 0;
                }
                Err(error) if is_of_a_place(error) => {
                    let last = self.blocks(base, piece.clone()).await?;
                    hopeless = if last.is_some() { hopeless + len as u64 } else { 0 };
                    if let Some(source) = last.filter(|_| hopeless >= self.hopeless) {
                        return Err(Failure::Volume { doing: "reading the array", source });
                    }
                }
                Err(source) => return Err(Failure::Volume { doing: "reading the array", source }),
            }
            self.bar.set_position(self.map.bytes(CopyState::Done));
            if self.kept.elapsed() >= KEEP {
                self.keep()?;
            }
        }
        Ok(())
    }

    /// Reads a piece block by block; where members are missing, chunk by chunk first, since all of one is there or nothing. The last error,
    /// if none of it can be read.
    async fn blocks(&mut self, base: u64, piece: Range<u64>) -> Result<Option<VolumeError>, Failure> {
        let block = u64::from(self.array.limits().block).max(BLOCK);
        let step = self.lacks.unwrap_or(0).clamp(block, PIECE as u64);
        let (mut last, mut any) = (None, false);
        let mut start = piece.start;
        while start < piece.end {
            // Chunks are those of the array, wherever the copy begins.
            let end = piece.end.min(((base + start) / step + 1) * step - base);
            match self.block(base, start..end).await? {
                None => any = true,
                Some(VolumeError::Member { .. }) if step > block => {
                    for at in (start..end).step_by(block as usize) {
                        let error = self.block(base, at..end.min(at + block)).await?;
                        any |= error.is_none();
                        last = error.or(last);
                    }
                }
                error => last = error,
            }
            start = end;
        }
        Ok(last.filter(|_| !any))
    }

    /// Reads one block. The error, if that one can't be read.
    async fn block(&mut self, base: u64, piece: Range<u64>) -> Result<Option<VolumeError>, Failure> {
        let unit = u64::from(self.array.limits().block);
        let Range { start, end } = piece;
        let len = (end - start).next_multiple_of(unit) as usize;
        match read(self.io, self.array, self.pool, base + start, len).await {
            Ok(slice) => {
                self.output.write(start, &slice.bytes()[..(end - start) as usize])?;
                self.map.set(start..end, CopyState::Done);
                Ok(None)
            }
            Err(error) if is_of_a_place(error) => {
                self.map.set(start..end, CopyState::Bad);
                Ok(Some(error))
            }
            Err(source) => Err(Failure::Volume { doing: "reading the array", source }),
        }
    }

    /// Writes the map, after the data that it lists are stable, so that it never claims too much.
    fn keep(&mut self) -> Result<(), Failure> {
        self.output.sync()?;
        let moved = replace(&self.at, self.map.text(&self.of, &self.notes).as_bytes());
        self.kept = Instant::now();
        moved.map_err(|source| Failure::output(self.at.display(), source))
    }

    fn summary(&self, to: &Path) -> (String, bool) {
        let bad = self.map.ranges(CopyState::Bad);
        let done = Bytes(self.map.bytes(CopyState::Done));
        let to = to.display();
        if bad.is_empty() {
            return (format!("{to}: {done}, all of it read; {} may go\n", self.at.display()), true);
        }
        let lost = Bytes(self.map.bytes(CopyState::Bad));
        if self.lacks.is_some() {
            let percent = self.map.bytes(CopyState::Done) as f64 * 100.0 / self.map.size().max(1) as f64;
            let (places, map) = (bad.len(), self.at.display());
            let text = format!(
                "{to}: {done} read, {percent:.1} % of it; {lost} in {places} places are not there, since members are missing: they are zeroes, and {map} \
                 names them; the same command reads more of them with more members\n"
            );
            return (text, false);
        }
        let mut text = format!("{to}: {done} read; {lost} can't be read, and are zeroes there:\n");
        for range in bad.iter().take(MAX_LISTED) {
            text.push_str(&format!("  bytes {} to {}\n", range.start, range.end));
        }
        if bad.len() > MAX_LISTED {
            text.push_str(&format!(
                "  and {} places more, which {} has\n",
                bad.len() - MAX_LISTED,
                self.at.display()
            ));
        }
        text.push_str("the same command tries them again\n");
        (text, false)
    }
}

/// Whether the error concerns one place, so that other bytes may be readable.
fn is_of_a_place(error: VolumeError) -> bool {
    matches!(error, VolumeError::Member { .. } | VolumeError::TooManyLost)
}
