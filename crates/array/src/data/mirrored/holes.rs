//! Unreadable places of a window: mended from other copies, or left out of the comparison.

use brindle_io::OpError;
use brindle_volume::VolumeError;
use smallvec::SmallVec;

use super::Mirror;
use super::window::CopyWindow;
use crate::data::mend::ReadFailures;
use crate::data::report::{BadPlace, SyncReport};

/// A place of the array that a copy can't give.
struct Hole {
    copy: u16,
    at: u64,
    len: u64,
}

/// The holes of a window.
#[derive(Default)]
pub(super) struct Holes(Vec<Hole>);

impl Holes {
    fn over(&self, at: u64, len: u64) -> impl Iterator<Item = &Hole> {
        self.0.iter().filter(move |hole| hole.at < at + len && at < hole.at + hole.len)
    }

    /// All copies of the range are in memory.
    pub(super) fn is_whole(&self, at: u64, len: u64) -> bool {
        self.over(at, len).next().is_none()
    }

    /// Whether some of this copy of the range is missing.
    pub(super) fn has(&self, copy: u16, at: u64, len: u64) -> bool {
        self.over(at, len).any(|hole| hole.copy == copy)
    }
}

/// The state of the search for unreadable places of a window.
struct Search<'a> {
    window: &'a CopyWindow,
    read_failures: ReadFailures,
    holes: Holes,
    report: &'a mut SyncReport,
}

impl Mirror {
    /// Reads a window block by block, and mends what copies can't give from others that can; gives what stays so.
    ///
    /// # Errors
    /// If a member is gone that the array can't do without.
    pub(super) async fn find_holes(
        &self,
        window: &CopyWindow,
        report: &mut SyncReport,
    ) -> Result<Holes, VolumeError> {
        let mut search =
            Search { window, read_failures: ReadFailures::default(), holes: Holes::default(), report };
        let mut gone: SmallVec<[(u16, u32); 4]> = SmallVec::new();
        for (at, len) in window.blocks(&self.map) {
            let mut bad: SmallVec<[u16; 4]> = SmallVec::new();
            for copy in 0..self.map.copies() {
                let extent = self.map.locate(at, copy);
                let asked = (extent.member, self.core.members.joined(extent.member));
                match self.read_copy(window, copy, (at, len)).await {
                    Some(Err(OpError::Gone)) => {
                        let place = extent.offset..extent.offset + len;
                        let (door, failures) = (self.door(), &mut search.read_failures);
                        self.core.note_unread(door, failures, extent.member, OpError::Gone, place);
                        gone.push(asked);
                        search.holes.0.push(Hole { copy, at, len });
                    }
                    Some(Err(_)) => bad.push(copy),
                    _ => {}
                }
            }
            let block = if bad.is_empty() { len } else { u64::from(self.core.limits.block) };
            for start in (at..at + len).step_by(block as usize).filter(|_| !bad.is_empty()) {
                self.mend_copies(&mut search, (start, block.min(at + len - start)), &bad).await;
            }
        }
        self.core.judge(self.door(), search.read_failures).await;
        // Unless a spare has come into the role since it was asked.
        let stays = |&(role, joined): &(u16, u32)| {
            self.core.members.writable(role).is_some() && self.core.members.joined(role) == joined
        };
        match gone.iter().find(|gone| stays(gone)) {
            Some(&(role, _)) => Err(VolumeError::of_member(role, OpError::Gone)),
            None => Ok(search.holes),
        }
    }

    /// Reads a range of a copy into its place; `None` if the copy is not there to be read.
    async fn read_copy(
        &self,
        window: &CopyWindow,
        copy: u16,
        (at, len): (u64, u64),
    ) -> Option<Result<(), OpError>> {
        let copy = self.readable_copies(at, len).find(|there| there.copy == copy)?;
        let mut group = self.ask();
        group.read(copy.device, copy.extent.offset, &window.slice(copy.copy, at, len));
        Some(group.submit().await.ok())
    }

    /// Reads those copies of a block that are `bad` somewhere near it, and mends them from the first that can be read.
    async fn mend_copies(&self, search: &mut Search<'_>, range: (u64, u64), bad: &[u16]) {
        let (window, (at, len)) = (search.window, range);
        let mut unread: SmallVec<[(u16, OpError); 4]> = SmallVec::new();
        for &copy in bad {
            if let Some(Err(error)) = self.read_copy(window, copy, range).await {
                unread.push((copy, error));
            }
        }
        let is_there =
            |copy: u16| !search.holes.has(copy, at, len) && unread.iter().all(|(unread, _)| *unread != copy);
        let good = self.copies_in_doubt(at, len).into_iter().find(|copy| is_there(copy.copy));
        for (copy, why) in unread {
            let extent = self.map.locate(at, copy);
            let place = window.slice(copy, at, len);
            let mended = match &good {
                Some(good) => {
                    let good = window.slice(good.copy, at, len);
                    self.mend_copy(&extent, why, &good, &place, &mut search.read_failures).await
                }
                None => {
                    let place = extent.offset..extent.offset + len;
                    let (door, failures) = (self.door(), &mut search.read_failures);
                    self.core.note_unread(door, failures, extent.member, why, place);
                    false
                }
            };
            if !mended {
                search.holes.0.push(Hole { copy, at, len });
            }
            search.report.note_bad(BadPlace { role: extent.member, offset: extent.offset, len, mended });
        }
    }
}
