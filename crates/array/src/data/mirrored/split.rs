//! Large reads, split over the copies.

use brindle_io::Slice;
use brindle_io::sync::join_all;
use brindle_layout::Layout;
use brindle_members::door::{Done, MemberOps};
use brindle_volume::VolumeError;
use smallvec::{SmallVec, smallvec};

use super::read::PART;
use super::read_errors::{Suspects, suspects};
use super::{Mirror, Readable};
use crate::config::ReadPolicy;

/// A split read that is being put together.
struct Split<'a> {
    mirror: &'a Mirror,
    asked: SplitReads<'a>,
    loaded: Loaded<'a>,
}

/// The operations of a split read.
enum SplitReads<'a> {
    Together(MemberOps<'a>),
    /// Each role's by themselves, with their bytes, so that each role can be measured.
    Apart(Vec<(u16, usize, MemberOps<'a>)>),
}

// In line with the one caller that each has.
impl<'a> Split<'a> {
    #[inline(always)]
    fn new(mirror: &'a Mirror) -> Self {
        let apart = mirror.paces.is_split_due();
        let asked = if apart { SplitReads::Apart(Vec::new()) } else { SplitReads::Together(mirror.ask()) };
        let loaded = Loaded { mirror, costs: smallvec![0; mirror.load.len()] };
        Self { mirror, asked, loaded }
    }

    #[inline(always)]
    fn read(&mut self, copy: &Readable, into: &Slice) {
        let role = copy.extent.member;
        let cost = self.mirror.work(into.len());
        self.loaded.costs[usize::from(role)] += cost;
        let load = &self.mirror.load[usize::from(role)];
        load.set(load.get() + cost);
        let group = match &mut self.asked {
            SplitReads::Together(group) => group,
            SplitReads::Apart(groups) => {
                let at = groups.iter().position(|(of, ..)| *of == role).unwrap_or_else(|| {
                    groups.push((role, 0, self.mirror.ask()));
                    groups.len() - 1
                });
                groups[at].1 += into.len();
                &mut groups[at].2
            }
        };
        group.read(copy.device, copy.extent.offset, into);
    }
}

/// The load added to each role while the operations are in flight.
struct Loaded<'a> {
    mirror: &'a Mirror,
    costs: SmallVec<[u64; 4]>,
}

impl Drop for Loaded<'_> {
    fn drop(&mut self) {
        for (load, cost) in self.mirror.load.iter().zip(&self.costs) {
            load.set(load.get() - cost);
        }
    }
}

impl Mirror {
    /// Reads parts of a range from several copies. Rare paths have boxes of their own: the rest is small, and needs
    /// no memory but the request's.
    pub(super) async fn read_split(&self, offset: u64, into: &Slice) -> Result<(), VolumeError> {
        let Some(Split { asked, loaded, .. }) = self.split(offset, into)? else {
            return Box::pin(self.read_carefully(offset, into, &Suspects::new())).await;
        };
        let done = match asked {
            SplitReads::Together(group) => {
                let began = self.core.io.moment();
                let done = group.submit().await;
                self.paces.all_answered(into.len(), began, self.core.io.moment());
                done
            }
            SplitReads::Apart(groups) => Box::pin(self.submit_apart(groups)).await,
        };
        drop(loaded);
        if done.is_ok() {
            return Ok(());
        }
        match self.core.error_if_pinned(into, &done) {
            Some(error) => Err(error),
            None => Box::pin(self.read_carefully(offset, into, &suspects(&done))).await,
        }
    }

    /// Sends the operations of each role, measures it, and waits for the last.
    async fn submit_apart(&self, groups: Vec<(u16, usize, MemberOps<'_>)>) -> Done {
        let began = self.core.io.moment();
        let each = groups.into_iter().map(|(role, len, group)| async move {
            let done = group.submit().await;
            if done.is_ok() {
                self.note_pace(role, len, began);
            }
            done
        });
        Done::of_all(join_all(each).await)
    }

    /// Splits a large read into contiguous parts, each with another near copy as its first choice: near copies of
    /// neighbouring chunks lie side by side, so that each member reads one contiguous range. Far copies need no such
    /// help, since the first of them is spread over all members already. Slow members get no part.
    ///
    /// `None` if a member that was given up would keep the memory, or one lags behind: there is no other copy, or none that may be
    /// read.
    fn split(&self, offset: u64, into: &Slice) -> Result<Option<Split<'_>>, VolumeError> {
        let pinned =
            self.core.config.read_policy == ReadPolicy::First || self.is_pinned(offset, into.len() as u64);
        let as_md = self.chooses_as_md();
        let parts = if pinned || as_md { 1 } else { self.parts(offset, into.len()) };
        let turn = self.turn.get();
        self.turn.set((turn + 1) % self.map.copies());
        let unit =
            if self.map.locate(offset, 0).len < into.len() as u64 { self.geometry.chunk() } else { 4096 };
        let part = (into.len() as u64).div_ceil(parts.into()).next_multiple_of(unit);

        let mut split = Split::new(self);
        let mut at = 0;
        while at < into.len() {
            let here = offset + at as u64;
            let number = at as u64 / part;
            let left = (part * (number + 1) - at as u64).min((into.len() - at) as u64);
            let len = self.map.locate(here, 0).len.min(left) as usize;
            let preferred = if pinned { None } else { Some((number as u16 + turn) % parts) };
            let copy =
                if as_md { self.choose(here, len) } else { self.copy_for_part(here, len, preferred, parts) };
            let copy = copy.ok_or(VolumeError::TooManyLost)?;
            if self.core.members.is_avoided(copy.extent.member) {
                return Ok(None);
            }
            split.read(&copy, &into.slice(at..at + len));
            at += len;
        }
        Ok(Some(split))
    }

    /// The readable copies of a range that are not slow, nor write-mostly.
    fn quick_copies<'a>(&'a self, offset: u64, len: u64) -> impl Iterator<Item = Readable> + 'a {
        let least = if self.paces.are_even() { 0 } else { self.least_latency(offset, len) };
        let quick = move |copy: &Readable| {
            let role = copy.extent.member;
            let asked = !self.core.members.is_slow(role) && !self.paces.is_write_mostly(role);
            asked && (least == 0 || self.paces.weight(role, least) == 1)
        };
        self.readable_copies(offset, len).filter(quick)
    }

    /// Into how many parts a read is split: as many as there are near copies to read.
    fn parts(&self, offset: u64, len: usize) -> u16 {
        let near = match self.geometry.layout() {
            Layout::Raid10(layout) => u16::from(layout.near),
            _ if self.any_copy_answers() => self.map.copies(),
            _ => self.quick_copies(offset, len as u64).count() as u16,
        };
        near.min((len / PART).min(usize::from(u16::MAX)) as u16).max(1)
    }

    /// The readable copy of the preferred rank; where that one is lost or slow, the least busy.
    fn copy_for_part(&self, offset: u64, len: usize, preferred: Option<u16>, parts: u16) -> Option<Readable> {
        let Some(preferred) = preferred else {
            return self.copies_in_doubt(offset, len as u64).first().copied();
        };
        if self.any_copy_answers() {
            let copy = self.copy_of_rank(preferred, parts, self.map.copies());
            return self.readable_copy(offset, len as u64, copy);
        }
        if !self.paces.are_even()
            && let Some(again) = self.copy_to_ask_again(offset, len)
        {
            return Some(again);
        }
        let mut copies = self.quick_copies(offset, len as u64);
        let count = self.quick_copies(offset, len as u64).count().max(1);
        let rank = self.copy_of_rank(preferred, parts, count as u16);
        let copy = match self.geometry.layout() {
            Layout::Raid10(_) => copies.find(|copy| copy.copy == rank),
            _ => copies.nth(rank.into()),
        };
        copy.or_else(|| self.choose(offset, len))
    }

    /// The copy of a preferred rank: its number in RAID 10, else its place among the `count` that can answer.
    #[inline]
    fn copy_of_rank(&self, preferred: u16, parts: u16, count: u16) -> u16 {
        if let Layout::Raid10(layout) = self.geometry.layout() {
            return preferred * u16::from(layout.far);
        }
        // Fewer parts than copies: let successive reads begin with different ones.
        let rotation = if parts < count { self.turn.get() } else { 0 };
        (preferred + rotation) % count
    }
}
