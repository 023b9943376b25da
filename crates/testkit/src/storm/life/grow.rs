//! Write-intent bitmaps that go and come while clients write.

use std::rc::Rc;

use brindle_array::{Array, BitmapSpec};
use brindle_io::Duration;

use super::Run;
use crate::random::Random;

/// How often one goes or comes in a life.
const ROUNDS: u64 = 4;

impl Run<'_> {
    /// The bitmap of an array that was made with one goes, and comes back, in one life of two. The array bears it.
    pub(super) fn have_the_bitmap_come_and_go(&self, array: &Array) {
        let plan = self.stage.plan;
        let mut random = Random::stream(plan.seed, self.fate.number * 1000 + 997);
        let Some(chunk) = plan.shape.bitmap.filter(|_| !plan.container) else { return };
        if self.fate.reads_only || plan.work.is_some() || random.one_in(2) {
            return;
        }
        let spec = BitmapSpec { chunk: Some(chunk), write_behind: Some(plan.shape.behind), file: None };
        let plan_behind = plan.shape.behind;
        let (array, io, board) = (array.clone(), self.io.clone(), Rc::clone(&self.board));
        drop(self.io.spawn(async move {
            for _ in 0..ROUNDS {
                io.sleep(Duration::from_micros(random.below(1500))).await;
                // It may be broken or stopping, or a member need the bitmap: the array judges.
                let fewer = plan_behind > 0 && random.one_in(2);
                let _changed = match array.detail().bitmap {
                    Some(_) if fewer => array.set_write_behind(*random.pick(&[0, 1, plan_behind])).await,
                    Some(_) => array.remove_bitmap().await,
                    None => {
                        board.grown.set(true);
                        array.set_bitmap(spec.clone()).await
                    }
                };
            }
        }));
    }
}
