//! Bitmaps in files: given at the beginning of a boot, as by an administrator who remembers their place, or not; and
//! files that fail.

use brindle_array::BitmapFile;
use brindle_array::{Array, OpenConfig};
use brindle_format::md::bitmap::{BITMAP_SUPER_BYTES, BitmapSuper};
use brindle_io::MemberId;
use brindle_io::sim::{BadRange, Faults, When};
use brindle_md::OpenError;
use brindle_md::assembly::{Assembly, BitmapFault};

use super::Run;
use crate::random::Random;
use crate::storm::files::BYTES;
use crate::storm::judge::Failure;
use crate::storm::marks;

/// Steps of a boot within which a file fails, if it does.
const STEPS: u64 = 400;

/// A file as a bitmap has it.
pub(super) fn file(id: MemberId) -> BitmapFile {
    BitmapFile::open(id.to_string(), id)
}

impl Run {
    /// Opens the array with the file that has its bitmap: the newest as a rule, but sometimes another, or none. Each must do: what is
    /// stale is found to be. None if none is taken.
    pub(super) async fn open_with_file(
        &self,
        assembly: &Assembly,
        ids: &[MemberId],
        config: &OpenConfig,
    ) -> Result<Option<Array>, Failure> {
        let mut random = Random::stream(self.stage.plan.seed, self.boot.number * 1000 + 996);
        let mut files = self.stage.files.to_vec();
        files.sort_by_key(|&id| core::cmp::Reverse(self.events_in(id)));
        if random.one_in(4) {
            files.reverse();
        } else if random.one_in(16) {
            files.clear();
        }
        for id in files {
            let mut given = assembly.clone();
            given.bitmap_file = Some(file(id));
            match brindle_md::open(&self.io, given, ids, config.clone()).await {
                Ok(array) => {
                    // Discarded blocks read differently each time, so that they can't be compared.
                    if self.stage.plan.mix.discards == 0 {
                        marks::judge_file(&self.stage.sim, assembly, ids, id)?;
                    }
                    return Ok(Some(array));
                }
                // Gone, never written, or the bitmap is beside the superblocks.
                Err(OpenError::Bitmap {
                    why: BitmapFault::Beside | BitmapFault::Damaged(_) | BitmapFault::Unread(_),
                    ..
                }) => {}
                Err(error) => return Err(Failure::Open(error)),
            }
        }
        Ok(None)
    }

    fn events_in(&self, id: MemberId) -> u64 {
        let mut head = [0; BITMAP_SUPER_BYTES];
        self.stage.sim.peek(id, 0, &mut head);
        BitmapSuper::parse(&head).map_or(0, |head| head.events)
    }

    /// In one boot of three a file fails, which takes nothing from the array.
    pub(super) fn plan_faults_of_files(&self) {
        let mut random = Random::stream(self.stage.plan.seed, self.boot.number * 1000 + 995);
        if self.stage.files.is_empty() || !random.one_in(3) {
            return;
        }
        let faults: [fn(&mut Faults); 3] = [
            |faults| faults.gone = true,
            |faults| faults.unwritable.push(BadRange::forever(0..BYTES)),
            |faults| faults.full_on_write = Some(0..BYTES),
        ];
        let (file, fault) = (*random.pick(&self.stage.files), *random.pick(&faults));
        self.stage.sim.schedule(When::Step(random.below(STEPS)), file, fault);
    }
}
