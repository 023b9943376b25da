//! A bitmap in a file: its failures, and its replacement by another.

use brindle_io::OpError;

use super::Bitmap;
use brindle_array::bitmap::{IntentBitmap, Refusals};

impl Bitmap {
    /// The name in messages of the file that has it, if one does.
    pub(crate) fn file_label(&self) -> Option<String> {
        self.file.as_ref().map(|file| file.label.clone())
    }

    /// Remembers the file's error, if these refusals have one.
    pub(super) fn refused(&self, refusals: Refusals) -> Refusals {
        let own = refusals.iter().find(|(id, _)| self.is_file(*id));
        own.into_iter().for_each(|(_, error)| self.refusal.set(Some(*error)));
        refusals
    }

    /// Truncated if the bitmap file has become shorter than it was. A write would make it as long again, with clear
    /// bits where bits had been set.
    pub(super) async fn cut_short(&self) -> Refusals {
        let file = self.file.as_ref().and_then(|file| file.id).filter(|&id| self.is_target(id));
        let Some(id) = file else { return Refusals::new() };
        let until = self.until();
        let known = self.io.member_info(id).map_or(0, |info| info.size);
        match self.io.probe(id, until).await {
            Ok(probe) if probe.size < known => vec![(id, OpError::Truncated)],
            Err(OpError::TimedOut) => vec![(id, OpError::TimedOut)],
            // Whatever else is wrong with it, the write meets.
            _ => Refusals::new(),
        }
    }

    /// It stands for the array from now on in the place of another, with all bits set: those are cleared that the other has clear, but
    /// for the first writes. Not if bits were cleared meanwhile at an event count that this one does not know of.
    pub(crate) fn takes_over(&self, other: &Self) {
        if self.stays_set
            || self.events_cleared() < other.events_cleared()
            || !self.chunks.cover_as(&other.chunks)
        {
            return;
        }
        let image = &mut self.state.borrow_mut().image;
        for range in other.undoubted() {
            self.chunks.within(&range).for_each(|chunk| image.clear(chunk));
        }
    }
}
