//! Write-intent bitmaps that go and come while clients write.

use std::rc::Rc;

use brindle_array::{Array, BitmapSpec};
use brindle_io::Duration;

use super::Run;
use super::bitmap_files::file;
use crate::random::Random;

/// How often one goes or comes in a boot.
const ROUNDS: u64 = 4;

impl Run {
    /// The bitmap of an array that was made with one goes, and comes back, in one boot of two; one that was in a file
    /// moves, too, and more often. The
    /// array bears it.
    pub(super) fn have_the_bitmap_come_and_go(&self, array: &Array) {
        let plan = &self.stage.plan;
        let mut random = Random::stream(plan.seed, self.boot.number * 1000 + 997);
        let Some(chunk) = plan.shape.bitmap.filter(|_| !plan.container) else { return };
        let stays = if self.stage.files.is_empty() { 2 } else { 4 };
        if self.boot.reads_only || plan.work.is_some() || random.one_in(stays) {
            return;
        }
        let behind = plan.shape.behind;
        let files = self.stage.files.to_vec();
        let (array, io, board) = (array.clone(), self.io.clone(), Rc::clone(&self.board));
        drop(self.io.spawn(async move {
            for _ in 0..ROUNDS {
                io.sleep(Duration::from_micros(random.below(1500))).await;
                let next = |random: &mut Random| {
                    let place = random.below(files.len() as u64 + 1) as usize;
                    BitmapSpec {
                        file: files.get(place).copied().map(file),
                        chunk: Some(if files.is_empty() { chunk } else { chunk << random.below(2) }),
                        write_behind: Some(behind),
                    }
                };
                // It may be broken or stopping, or a member need the bitmap: the array judges.
                let has_one = array.detail().bitmap.is_some();
                let fewer = behind > 0 && random.one_in(2);
                let _changed = if has_one && fewer {
                    array.set_write_behind(*random.pick(&[0, 1, behind])).await
                } else if has_one && (files.is_empty() || random.one_in(4)) {
                    array.remove_bitmap().await
                } else {
                    board.grown.set(true);
                    array.set_bitmap(next(&mut random)).await
                };
            }
        }));
    }
}
