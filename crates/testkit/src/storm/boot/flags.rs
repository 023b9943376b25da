//! Members that get other flags while clients write.

use std::rc::Rc;

use brindle_array::{Array, DeviceState};
use brindle_format::md::DeviceFlags;
use brindle_io::Duration;
use brindle_md::treatment;

use super::super::work::Work;
use super::Run;
use crate::random::Random;

/// How often one does in a boot.
const ROUNDS: u64 = 5;

impl Run {
    /// Members become write-mostly, and are to fail fast, and are as others again, in one boot of four. Once acknowledged, that
    /// is on record.
    pub(super) fn have_flags_change(&self, array: &Array) {
        let plan = &self.stage.plan;
        let mut random = Random::stream(plan.seed, self.boot.number * 1000 + 995);
        if !plan.does(Work::Flags, random.one_in(4)) || self.boot.reads_only || plan.container {
            return;
        }
        let (array, io, board) = (array.clone(), self.io.clone(), Rc::clone(&self.board));
        drop(self.io.spawn(async move {
            for _ in 0..ROUNDS {
                io.sleep(Duration::from_micros(random.below(1500))).await;
                let mut devices = array.detail().devices;
                devices.retain(|device| matches!(device.state, DeviceState::InSync | DeviceState::Spare));
                if devices.is_empty() {
                    return;
                }
                let id = random.pick(&devices).id;
                let flags = DeviceFlags { write_mostly: random.one_in(2), failfast: random.one_in(2) };
                board.flags.borrow_mut().insert(id, None);
                // It may fail meanwhile: the array judges.
                let answer = array.set_flags(id, treatment(flags)).await;
                board.flags.borrow_mut().insert(id, answer.ok().map(|()| flags));
            }
        }));
    }
}
